r"""Independent runs of estimators, and their squared errors, in chunks that fit in the cache."""

from __future__ import annotations

__all__ = [
    "MAX_RUNS",
    "checked_budgets",
    "named_estimators",
    "reserve",
    "run_chunks",
    "split_runs",
]

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from amci_core._checks import check_count
from amci_core.estimators import ESTIMATORS, Draws, Estimator, Points
from amci_core.estimators.combine import Counts
from amci_core.estimators.draws import Array
from amci_core.evaluation.drawing import MAX_POINTS, Sampler, generators

CHUNK_POINTS = 200_000
MAX_RUNS = 1_000_000

Budgets = NDArray[np.int64]


def run_chunks(
    sampler: Sampler,
    estimators: Mapping[str, Estimator],
    log_truth: Array,
    *,
    budgets: Budgets,
    runs: int,
    seed: int | np.random.SeedSequence,
) -> Iterator[dict[str, Array]]:
    """Relative squared errors (estimate / mu - 1)^2, chunk by chunk of runs: name -> (*, runs, B).

    All estimators see the same draws, so that differences between them are not noise. A chunk
    takes some 50 ms; the first one is small. An estimate without a value (no weight at all) has
    the error of the estimate 0.

    Raises:
        ValueError: the budgets are too small or too large, or the seed is none; at the call,
            not at the first chunk.
    """
    totals = budgets.tolist()
    a_run = reserve(estimators, sampler, budgets=budgets)
    points_a_run = int(a_run.sum()) * log_truth.size
    together = "budgets, all proposals and pairs together"
    check_count(together, points_a_run, low=1, high=MAX_POINTS)
    largest = max(1, CHUNK_POINTS // points_a_run)
    for_points, for_choices = generators(seed)

    def chunks() -> Iterator[dict[str, Array]]:
        done = 0
        while done < runs:
            size = min(largest, runs - done, max(4, 2 * done))
            draws = split_runs(sampler.draw(a_run * size, for_points), size)
            yield {
                name: _squared_errors(
                    chosen.prepare(draws, totals, for_choices).combine().value, log_truth
                )
                for name, chosen in estimators.items()
            }
            done += size

    return chunks()


def reserve(estimators: Mapping[str, Estimator], sampler: Sampler, *, budgets: Budgets) -> Counts:
    """How many draws of each proposal a run of all these estimators shares, (3,).

    Raises:
        ValueError: a budget is too small for an estimator.
    """
    totals = budgets.tolist()
    return np.max([e.reserve(totals, sampler.present) for e in estimators.values()], axis=0)


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


def _squared_errors(value: Array, log_truth: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.square(np.nan_to_num(value) * np.exp(-log_truth[..., None, None]) - 1)


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
    return Draws((first, second, third))
