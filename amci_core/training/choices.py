r"""What is trained, and how: `Choices`, and those of shipped variants, their `recipe.json`.

By default the form of each proposal is chosen automatically. A variant that ships with the package
has a recipe for each proposal. Its time gives a number of steps by the recipe's nominal speed, and
never by a clock: the same seed and time give the same weights however busy the machine is.
"""

from __future__ import annotations

__all__ = ["Choices", "form_names", "recipe", "terms_of"]

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import Any

from amci_core._arguments import check_count, check_name
from amci_core.flows.families import forms
from amci_core.flows.proposals import NAMES
from amci_core.flows.supports import on_half_lines
from amci_core.io import StoredFileError, check_path, pretrained_root, read_json
from amci_core.models import Problem
from amci_core.printing import Printed
from amci_core.training.objectives import Objective, objective_class
from amci_core.training.trainer import TermRecipe

FILE = "recipe.json"


@dataclass(frozen=True, repr=False)
class Choices(Printed):
    """What `learn` trains; None and empty: automatic.

    Arguments:
        family: A form's name, see `form_names`. A term for which there is no such form keeps its
            own.
        bins: Bins of each spline, 4 to 128.
        width: Units of each layer of the networks, 4 to 1024.
        objective: A name in `amci_core.training.objectives.OBJECTIVES`, or a subclass of
            `Objective`: what the chosen forms are trained with. By default it is maximum
            likelihood on particles, then reweighted wake-sleep.
        settings: Arguments of the objective, or those of the recipes' objectives to replace.
        terms: Proposal name to its recipe, in the order of training: nothing is automatic then.
        variant: What the proposals are called.
        minutes: Time for everything, on one core, unless `learn` has another limit.
        note: A sentence for the model card.
        history: Moments of the training by a recipe at which q1_plus is saved, 3 at least; or 0.

    Raises:
        ValueError: a number is out of range, there is no such objective, or two choices exclude
            each other.

    Example:
        >>> Choices(objective="paper", settings={"size": 10_000}).objective
        'paper'
    """

    family: str | None = None
    bins: int | None = None
    width: int | None = None
    objective: str | type[Objective] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    terms: Mapping[str, TermRecipe] = field(default_factory=dict)
    variant: str = "learnt"
    minutes: float = 5.0
    note: str = ""
    history: int = 0

    def __post_init__(self) -> None:
        if self.bins is not None:
            check_count("bins", self.bins, low=4, high=128)
        if self.width is not None:
            check_count("width", self.width, low=4, high=1024)
        for name in ("family", "bins", "width", "objective"):
            value = getattr(self, name)
            if self.terms and value is not None:
                raise ValueError(f"{name}: {self.variant} has its own, got {value}. Leave it out")
        objectives = {term.objective for term in self.terms.values()}
        objectives |= set() if self.objective is None else {self.objective}
        # After the target and the generator.
        taken = [list(signature(objective_class(o)).parameters)[2:] for o in objectives]
        if self.settings and not any({*self.settings} <= {*names} for names in taken):
            known = ", ".join(sorted({name for names in taken for name in names}))
            raise ValueError(
                f"settings: expected {known or 'none'} for this objective, "
                f"got {dict(self.settings)}"
            )

    def term(self, name: str) -> TermRecipe:
        """The recipe of a proposal, with the settings in the place of its own."""
        term = self.terms[name]
        return replace(term, settings={**term.settings, **self.settings})


def recipe(problem: str, variant: str) -> Choices:
    """The choices for a variant, from `pretrained/<problem>/<variant>/recipe.json`.

    Returns:
        `Choices`, whose `terms` hold family, objective and share of the time of each proposal.

    Raises:
        ValueError: the problem has no such variant to train, or its recipe is not one.

    Example:
        >>> recipe("tail-1d", "paper").terms["q1_plus"].objective
        'paper'
    """
    known = sorted(path.parent.name for path in (pretrained_root() / problem).glob(f"*/{FILE}"))
    if not known:
        raise ValueError(f"variant: {problem} has no recipes, got {variant!r}. Leave it out")
    check_name("variant", variant, known)
    return read_recipe(pretrained_root() / problem / variant)


def read_recipe(path: str | Path, variant: str | None = None) -> Choices:
    """Reads a recipe: the fields of `Choices` as JSON, in a file or a folder's `recipe.json`.

    Arguments:
        path: The file or the folder.
        variant: What the proposals are called; by default by the folder's name.

    Raises:
        StoredFileError: the file cannot be read, or an entry is missing or unknown; the message
            names file and entry. What family and objective do not take `learn` refuses.
    """
    path = check_path("recipe", path)
    path = path / FILE if path.is_dir() else path
    content = read_json(path)
    try:
        terms = {name: TermRecipe(**term) for name, term in content.pop("terms").items()}
        choices = Choices(terms=terms, variant=variant or path.resolve().parent.name, **content)
    except (AttributeError, KeyError, TypeError) as error:
        raise StoredFileError(f"{path}: not a recipe ({error})") from None
    if "q1_plus" not in terms or not terms.keys() <= {*NAMES}:
        raise StoredFileError(
            f"{path}: expected terms for q1_plus and others of {', '.join(NAMES)}, "
            f"got {', '.join(terms)}"
        )
    return choices


def terms_of(problem: Problem) -> tuple[str, ...]:
    """The proposals that serve a problem: no q1_minus where f >= 0, no q2 where E2 is known,
    q1_complement where f lies in [0, M]."""
    minus = () if problem.nonnegative else ("q1_minus",)
    complement = () if problem.f_max is None else ("q1_complement",)
    return ("q1_plus", *minus, *(() if problem.knows_evidence else ("q2",)), *complement)


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
    exact = {n: form for n, form in known.items() if any(on_half_lines(form["arguments"]))}
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
