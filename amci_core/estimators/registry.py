r"""The estimators by name: `ESTIMATORS`."""

from __future__ import annotations

__all__ = ["ESTIMATORS", "resolve"]

from dataclasses import replace

from numpy.typing import ArrayLike

from amci_core._arguments import check_name
from amci_core.estimators import tables
from amci_core.estimators.draws import POINTS
from amci_core.estimators.estimators import ControlVariates, Estimator, Mixture, Tabled

ESTIMATORS: dict[str, Estimator] = {
    "amci-cv": ControlVariates(),
    "amci": Tabled(tables.amci()),
    "snis-q2": Tabled(tables.snis_q2()),
    "snis-qm": Mixture(stratified=False),
    "snis-qm-stratified": Mixture(stratified=True),
    "snis-q1": Tabled(tables.snis_q1()),
    "reuse-paper": Tabled(tables.amci(), tables.paper_optimum),
    "reuse": Tabled(tables.amci()),  # with alpha and beta, see `resolve`
}


def resolve(
    chosen: str | ArrayLike | Estimator,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    points: str | None = None,
) -> Estimator:
    """The estimator of that name, or the one that a table of coefficients defines.

    Arguments:
        chosen: A name of `ESTIMATORS`; `reuse:ALPHA:BETA`; a table of coefficients, (3, 3); or an
            estimator.
        alpha: With `reuse`, the share of E1 that comes from q1's draws.
        beta: With `reuse`, the share of E2 that comes from q1's draws.
        points: `independent` or `sobol`; None for the estimator's own.

    Raises:
        ValueError: no estimator has that name, the table is not one, or alpha and beta, or Sobol
            points, do not go with it.

    Example:
        >>> resolve("amci").used((0, 2))
        (0, 2)
    """
    found = _named(chosen, alpha, beta)
    if points is None:
        return found
    if check_name("points", points, POINTS) == "sobol" and not found.takes_sobol:
        raise ValueError(
            "points: sobol needs amci-cv or a fixed table such as amci, got estimator "
            f"{chosen!r}. Use points='independent'"
        )
    return found if points == found.points else replace(found, points=points)  # type: ignore


def _named(
    chosen: str | ArrayLike | Estimator, alpha: float | None, beta: float | None
) -> Estimator:
    if isinstance(chosen, Estimator):
        return chosen
    if not isinstance(chosen, str):
        return Tabled(tables.validate(chosen))
    name, *shares = chosen.split(":")
    check_name("estimator", name, ESTIMATORS, ", or a table")
    if shares:
        try:
            alpha, beta = map(float, shares)
        except ValueError:
            raise ValueError(f"estimator: expected {name}:ALPHA:BETA, got {chosen!r}") from None
    if name == "reuse" and alpha is not None and beta is not None:
        return Tabled(tables.reuse(alpha, beta))
    if name == "reuse" or alpha is not None or beta is not None:
        raise ValueError(
            f"alpha, beta: expected both with estimator reuse, and neither with others, got "
            f"{chosen!r} with {alpha!r} and {beta!r}"
        )
    return ESTIMATORS[name]
