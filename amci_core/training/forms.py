r"""The default forms of proposals for a problem, and what a user may choose of them.

Flow families say themselves which problems they fit, see `amci_core.flows.families`.
"""

from __future__ import annotations

__all__ = ["Choices", "form_names"]

from dataclasses import dataclass
from typing import Any

from amci_core._arguments import check_count
from amci_core.flows.families import FAMILIES, forms
from amci_core.models import Problem


@dataclass(frozen=True)
class Choices:
    """The form of proposals that `learn` trains; None: automatic.

    Arguments:
        family: A form's name, see `form_names`. A term for which there is no such form keeps its
            own.
        bins: Bins of each spline, 4 to 128.
        width: Units of each layer of the networks, 4 to 1024.

    Raises:
        ValueError: a number is out of range.
    """

    family: str | None = None
    bins: int | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        if self.bins is not None:
            check_count("bins", self.bins, low=4, high=128)
        if self.width is not None:
            check_count("width", self.width, low=4, high=1024)


def terms_of(problem: Problem) -> tuple[str, ...]:
    """The proposals that serve a problem: no q1_minus where f >= 0, no q2 where E2 is known,
    q1_complement where f lies in [0, M]."""
    known = problem.log_evidence(*problem.check(*problem.cases(1, seed=0))) is not None
    minus = () if problem.nonnegative else ("q1_minus",)
    complement = () if problem.f_max is None else ("q1_complement",)
    return ("q1_plus", *minus, *(() if known else ("q2",)), *complement)


def default_forms(
    problem: Problem, *, reads_theta: bool, choices: Choices
) -> dict[str, dict[str, Any]]:
    """The chosen form of a term's proposal, or those that are to be compared, by name.

    Arguments:
        problem: The problem; for q1_minus the negated one, for q1_complement the complement.
        reads_theta: Whether the proposal depends on theta.
        choices: A form that does not exist for this term is passed over.
    """
    known = forms(problem, reads_theta=reads_theta, bins=choices.bins, width=choices.width)
    if choices.family in known:
        return {choices.family: known[choices.family]}
    exact = {n: each for n, each in known.items() if FAMILIES[each["family"]].exact_support}
    return exact or known


def form_names(problem: Problem) -> tuple[str, ...]:
    """The forms that can be chosen for a problem, the simplest first.

    Returns:
        Names for `Choices`.
    """
    both = (problem,) if problem.nonnegative else (problem, problem.with_negated_f())
    return tuple(
        dict.fromkeys(n for p in both for r in (True, False) for n in forms(p, reads_theta=r))
    )
