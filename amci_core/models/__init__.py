r"""The problems: what is integrated. One file a problem, one line here."""

from __future__ import annotations

__all__ = [
    "DefensiveDensity",
    "LineProblem",
    "Problem",
    "Variable",
    "check_problem",
    "from_numpyro",
    "from_pymc",
    "from_stan",
    "load_problem",
    "model",
    "problem",
    "problem_from",
    "problems",
    "several",
]

from collections.abc import Callable
from functools import cache, partial

from amci_core._arguments import check_name
from amci_core.models.base import Problem, Variable
from amci_core.models.cancer import TumourTreatment
from amci_core.models.densities import DefensiveDensity
from amci_core.models.distributions import model, several
from amci_core.models.functions import problem_from
from amci_core.models.gain_loss import GainLoss
from amci_core.models.line import LineProblem
from amci_core.models.loading import load_problem
from amci_core.models.of_numpyro import from_numpyro
from amci_core.models.of_pymc import from_pymc
from amci_core.models.of_stan import from_stan
from amci_core.models.peak import ProductPeak
from amci_core.models.tail import GaussianTail

_PROBLEMS: dict[str, Callable[[], Problem]] = {
    "tail-1d": partial(GaussianTail, 1),
    "tail-2d": partial(GaussianTail, 2),
    "tail-5d": partial(GaussianTail, 5),
    "tail-10d": partial(GaussianTail, 10),
    "tail-20d": partial(GaussianTail, 20),
    "cancer": TumourTreatment,
    "gain-loss": GainLoss,
    "peak": ProductPeak,
}


def problems() -> tuple[str, ...]:
    """List the shipped problems, easiest first.

    Returns:
        The names.

    Example:
        >>> problems()[0]
        'tail-1d'
    """
    return tuple(_PROBLEMS)


def problem(name: str) -> Problem:
    """The problem of that name.

    Returns:
        The `Problem`.

    Raises:
        ValueError: no problem has that name.

    Example:
        >>> problem("tail-1d").title
        'Tail integral, one dimension'
    """
    return _built(check_name("problem", name, _PROBLEMS))


def check_problem(value: Problem | str) -> Problem:
    """The problem that an argument names, or is.

    Raises:
        ValueError: no shipped problem has that name, or it is neither a problem nor a name.
    """
    if isinstance(value, Problem):
        return value
    if isinstance(value, str):
        return problem(value)
    hint = f". Call the class: {value.__name__}()" if isinstance(value, type) else ""
    raise ValueError(f"problem: expected a Problem or the name of one, got {value!r:.60}{hint}")


_built = cache(lambda name: _PROBLEMS[name]())
