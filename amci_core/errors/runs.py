r"""Independent runs of estimators, and their squared errors, in chunks that fit in the cache."""

from __future__ import annotations

__all__ = [
    "MAX_RUNS",
    "Truth",
    "checked_budgets",
    "default_estimators",
    "named_estimators",
    "reserve",
    "run_chunks",
    "split_runs",
    "usual_estimators",
]

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from amci_core.checks import check_count
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators
from amci_core.estimators import ESTIMATORS, Draws, Estimator, Points
from amci_core.estimators.combine import Counts
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem

# Points of one chunk in one dimension; in D dimensions a point costs about D^2 times as much.
CHUNK_POINTS = 200_000
MAX_RUNS = 1_000_000
LOG_UNIT_AT_ZERO = -300.0

Budgets = NDArray[np.int64]
DEFAULT_ESTIMATORS = ("amci", "snis-q2", "snis-qm", "snis-q1", "bound")


@dataclass(frozen=True)
class Truth:
    """What estimates are held against, for a batch (*) of pairs.

    Arguments:
        log_unit: log|mu| in nats, (*). Where mu is zero there is no relative error, and any small
            unit does.
        sign: Sign of mu, (*).
    """

    log_unit: Array
    sign: Array

    @classmethod
    def of(cls, problem: Problem, y: Tensor, theta: Tensor | None, given: Any = None) -> Truth:
        """The truth at y and theta, as `Problem.check` returns them.

        Arguments:
            problem: What is integrated.
            y: Observations (*, D_y).
            theta: Parameters of f (*, D_theta), or None.
            given: What is taken for mu in the place of the problem's own, in units of f,
                broadcasting to (*); None for the problem's own.

        Raises:
            ValueError: what is given does not broadcast, is not finite, or has a sign that mu
                cannot have; or nothing is given and the problem does not know its truth.
        """
        if given is None:
            log_truth, sign = np.asarray(problem.log_truth(y, theta)), problem.truth_sign(y, theta)
        else:
            value = _checked_truth(given, y.shape[:-1], nonnegative=problem.nonnegative)
            with np.errstate(divide="ignore"):
                log_truth, sign = np.log(np.abs(value)), np.sign(value)
        at_zero = log_truth == -np.inf
        return cls(np.where(at_zero, LOG_UNIT_AT_ZERO, log_truth), np.where(at_zero, 0.0, sign))

    def __getitem__(self, case: int) -> Truth:
        return Truth(self.log_unit[case], self.sign[case])

    @property
    def mu_squared(self) -> Array:
        """The unit of relative squared errors: mu squared, (*, 1)."""
        return np.exp(2 * self.log_unit)[..., None]

    def squared_errors(self, value: Array) -> Array:
        """(estimate / mu - 1)^2 for estimates (*, runs, B); one without a value counts as 0."""
        unit = np.exp(-self.log_unit[..., None, None])
        with np.errstate(over="ignore"):
            return np.square(np.nan_to_num(value) * unit - self.sign[..., None, None])


def run_chunks(
    sampler: Sampler,
    estimators: Mapping[str, Estimator],
    truth: Truth,
    *,
    budgets: Budgets,
    runs: int,
    seed: int | np.random.SeedSequence,
) -> Iterator[dict[str, Array]]:
    """Relative squared errors, chunk by chunk of runs: name -> (*, runs, B).

    All estimators see the same draws, so that differences between them are not noise; those with
    common random numbers have draws of their own. A chunk takes some 50 ms; the first one is
    small. An estimate without a value (no weight at all) has the error of the estimate 0, a budget
    with fewer draws than proposals the error NaN.

    Raises:
        ValueError: the budgets are too small or too large, or the seed is none; at the call,
            not at the first chunk.
    """
    apart = {common: _with(estimators, common=common) for common in (False, True)}
    a_run = {
        common: reserve(some, sampler, budgets=budgets) for common, some in apart.items() if some
    }
    points_a_run = sum(int(counts.sum()) for counts in a_run.values()) * truth.log_unit.size
    together = "budgets, all proposals and pairs together"
    check_count(together, points_a_run, low=1, high=MAX_POINTS)
    dim = sampler.problem.x.dim
    largest = max(1, CHUNK_POINTS // (dim**2 * points_a_run))
    first = 4 if dim == 1 else 1
    for_points, for_choices = generators(seed)

    def errors_of(chosen: Estimator, draws: Draws, rng: np.random.Generator) -> Array:
        least = chosen.least(sampler.present)
        value = chosen.prepare(draws, _afforded(budgets, least), rng).combine().value
        return np.where(budgets < least, np.nan, truth.squared_errors(value))

    def chunks() -> Iterator[dict[str, Array]]:
        done = 0
        while done < runs:
            size = min(largest, runs - done, max(first, 2 * done))
            draws = {
                common: split_runs(sampler.draw(n * size, for_points, common=common), size)
                for common, n in a_run.items()
            }
            yield {
                name: errors_of(chosen, draws[chosen.common], for_choices)
                for name, chosen in estimators.items()
            }
            done += size

    return chunks()


def reserve(estimators: Mapping[str, Estimator], sampler: Sampler, *, budgets: Budgets) -> Counts:
    """How many draws of each proposal a run of all these estimators shares, (3,).

    Raises:
        ValueError: no budget is large enough for an estimator.
    """
    counts = []
    for chosen in estimators.values():
        least = chosen.least(sampler.present)
        if budgets[-1] < least:
            raise ValueError(
                f"budgets: expected at least {least} draws, one of each proposal, "
                f"got {budgets[-1]}"
            )
        counts.append(chosen.reserve(_afforded(budgets, least), sampler.present))
    return np.max(counts, axis=0)


def _with(estimators: Mapping[str, Estimator], *, common: bool) -> dict[str, Estimator]:
    return {name: chosen for name, chosen in estimators.items() if chosen.common is common}


def _afforded(budgets: Budgets, least: int) -> list[int]:
    return np.maximum(budgets, least).tolist()


def _checked_truth(value: Any, batch: Sequence[int], *, nonnegative: bool) -> Array:
    expected = (
        f"truth: expected finite numbers{' >= 0' if nonnegative else ''} that broadcast to the "
        f"batch shape {tuple(batch)} of y and theta"
    )
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise ValueError(f"{expected}, got {value!r}") from None
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{expected}, got {value!r}")
    bad = ~np.isfinite(array) | (nonnegative & (array < 0))
    if bad.any():
        raise ValueError(f"{expected}, got {array[bad][0]:g}")
    try:
        return np.broadcast_to(array, tuple(batch)).astype(np.float64)
    except ValueError:
        raise ValueError(f"{expected}, got shape {array.shape}") from None


def usual_estimators(problem: Problem, proposals: Proposals) -> tuple[str, ...]:
    """Those of `default_estimators`, with the bound only where the problem knows it."""
    served = default_estimators(proposals)
    return tuple(name for name in served if name != "bound" or problem.knows_bound)


def default_estimators(proposals: Proposals) -> tuple[str, ...]:
    """Those of `DEFAULT_ESTIMATORS` that these proposals can serve."""
    # With q1_plus alone the mixture is q1_plus.
    without_q2 = ("amci", "snis-q1", "bound")
    return DEFAULT_ESTIMATORS if proposals.q2 is not None else without_q2


def named_estimators(names: Sequence[str]) -> dict[str, Estimator]:
    """The estimators of these names; `bound`, which needs no draws, is left out.

    Raises:
        ValueError: no estimator has a name, or there are no names.
    """
    known = (*ESTIMATORS, "bound")
    named = not isinstance(names, str) and len(names) > 0
    if not named or not all(isinstance(name, str) and name in known for name in names):
        raise ValueError(f"estimators: expected some of {', '.join(known)}, got {names!r}")
    return {name: ESTIMATORS[name] for name in names if name != "bound"}


def checked_budgets(budgets: Sequence[int]) -> Budgets:
    """The budgets as an array (B,).

    Raises:
        ValueError: they are not increasing whole numbers from 1 to `MAX_POINTS`.
    """
    if isinstance(budgets, str) or not np.iterable(budgets):
        raise ValueError(f"budgets: expected increasing numbers of draws, got {budgets!r}")
    checked = [check_count("budgets", total, low=1, high=MAX_POINTS) for total in budgets]
    if not checked or sorted(set(checked)) != checked:
        raise ValueError(f"budgets: expected increasing numbers of draws, got {list(budgets)!r}")
    return np.array(checked)


def split_runs(draws: Draws, runs: int) -> Draws:
    """Points (*, runs * n) as points (*, runs, n)."""

    def split(values: Array) -> Array:
        return values.reshape(*values.shape[:-1], runs, -1)

    def split_points(points: Points | None) -> Points | None:
        if points is None:
            return None
        a, b, c = (None if q is None else split(q) for q in points.log_q)
        return Points(
            f_plus=split(points.f_plus),
            f_minus=None if points.f_minus is None else split(points.f_minus),
            log_joint=split(points.log_joint),
            log_q=(a, b, c),
        )

    first, second, third = (split_points(points) for points in draws.points)
    log_E2 = None if draws.log_E2 is None else draws.log_E2[..., None]
    return Draws((first, second, third), log_E2)
