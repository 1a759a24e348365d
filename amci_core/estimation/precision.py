r"""Drawing until an estimate is as precise as requested, for one case (y, theta) or for many."""

from __future__ import annotations

__all__ = ["estimate_to"]

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from amci_core._arguments import check_count, check_number, seed_from
from amci_core.diagnostics import Verdict
from amci_core.diagnostics.verdict import RELIABLE
from amci_core.estimation.estimate import estimate
from amci_core.estimation.result import LEVEL, Estimate, Precise
from amci_core.estimation.sampling import MAX_POINTS, resolve_names
from amci_core.estimators import Estimator, resolve
from amci_core.estimators.draws import DEFENSIVE_SHARE, Array
from amci_core.estimators.uncertainty import Uncertainty
from amci_core.flows import Proposals
from amci_core.models import Problem

# The rounding of an estimate itself.
LEAST_ERROR = 1e-15
FIRST_DRAWS = 128
# Points of cases that are estimated at once, for memory.
POINTS = 100_000

PerCase = TypeVar("PerCase", Uncertainty, Verdict)


def estimate_to(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    y: Any = None,
    theta: Any = None,
    *,
    relative_error: float = 0.01,
    draws: int = 1_000_000,
    estimator: str | Array | Estimator = "amci-cv",
    defensive: float = DEFENSIVE_SHARE,
    points: str | None = None,
    seed: int | None = 0,
    rng: np.random.Generator | None = None,
) -> Precise:
    """Doubles the draws until the half-width of the 95 % interval is a share of the estimate.

    Each case starts with 128 draws. It is done when its interval is narrow enough and its verdict
    is "reliable"; else it gets twice as many new draws. All cases of a batch share one stream of
    random numbers: the draws of one depend on the others.

    Arguments:
        problem: A problem, or the name of a registered one.
        proposals: Its proposals, or the name of a variant; the default ones if left out.
        y: The observation, (*, D_y) or a number; None if the problem has no y.
        theta: Parameter of f, (*, D_theta) or a number; None if the problem has none.
        relative_error: Requested half-width, as a share of the estimate, from 1e-15, the rounding
            of the estimate itself, to 1.
        draws: Most draws of a case, all its estimates together.
        estimator: A name or an estimator, see `estimate`.
        defensive: Share of all draws from the problem's defensive density.
        points: `independent` or `sobol`, as for `estimate`.
        seed: Whole number >= 0; None for a random one.
        rng: Generator of a seed, in the place of `seed`.

    Returns:
        `Precise`: `value`, `standard_error` and `interval(level)`, `reached`, whether that is as
        precise as requested, and `draws`, what it took, (*) each.

    Raises:
        ValueError: an argument is out of range or unknown.

    Example:
        >>> import amci_core as amci
        >>> found = amci.estimate_to("tail-1d", y=[[0.0], [1.0]], theta=3.0)
        >>> found.reached.tolist(), found.draws.tolist()
        ([True, True], [128, 128])
    """
    problem, proposals = resolve_names(problem, proposals)
    chosen = resolve(estimator, points=points)
    expected = f"a number from {LEAST_ERROR:g} to 1"
    check_number("relative_error", relative_error, expected, lambda v: LEAST_ERROR <= v <= 1)
    check_count("draws", draws, low=1, high=MAX_POINTS)
    rng = np.random.default_rng(seed_from(seed, rng))
    y, theta = problem.check(y, theta)
    batch = tuple(y.shape[:-1])
    y = y.reshape(math.prod(batch), y.shape[-1])
    theta = None if theta is None else theta.reshape(len(y), theta.shape[-1])

    def estimates(cases: NDArray[np.int64], total: int) -> Estimate:
        return estimate(
            problem,
            proposals,
            y[cases],
            None if theta is None else theta[cases],
            draws=total,
            estimator=chosen,
            defensive=defensive,
            rng=rng,
        )

    parts = []
    unfinished, total, before = np.arange(len(y)), min(FIRST_DRAWS, draws), 0
    while len(unfinished):
        following = min(2 * total, draws - before - total)
        left, at_once = [], max(POINTS // total, 1)
        for cases in np.split(unfinished, range(at_once, len(unfinished), at_once)):
            e = estimates(cases, total)
            reached = e.verdict.codes == RELIABLE
            reached &= e.relative_half_width(LEVEL) <= relative_error
            ends = reached if following > total else np.ones_like(reached)
            spent = np.full(ends.sum(), before + e.draws)
            uncertainty = _of_cases(e.uncertainty, ends)
            parts.append((cases[ends], e.value[ends], uncertainty, e.verdict[ends], spent))
            left.append(cases[~ends])
        unfinished, before, total = np.concatenate(left), before + e.draws, following

    ended, values, uncertainties, verdicts, spent_by_part = zip(*parts, strict=True)
    order = np.argsort(np.concatenate(ended))
    return Precise(
        value=np.concatenate(values)[order].reshape(batch),
        uncertainty=_joined(uncertainties, order, batch),
        verdict=_joined(verdicts, order, batch),
        draws=np.concatenate(spent_by_part)[order].reshape(batch),
        relative_error=relative_error,
    )


def _of_cases(figures: Uncertainty, cases: NDArray[np.bool_]) -> Uncertainty:
    return Uncertainty(*(getattr(figures, field.name)[cases] for field in fields(figures)))


def _joined(parts: Sequence[PerCase], order: NDArray[np.int64], batch: tuple[int, ...]) -> PerCase:
    """The figures of all cases, (*), from those of parts of them."""
    whole = []
    for field in fields(parts[0]):
        column = np.concatenate([getattr(part, field.name) for part in parts])[order]
        whole.append(column.reshape(batch + column.shape[1:]))
    return type(parts[0])(*whole)
