r"""Means and quantiles over runs or over cases, and how well these are known.

NaN stands for a run without an estimate: it is left out of all figures.
"""

from __future__ import annotations

__all__ = ["LARGEST_DOUBT", "QUARTILES", "ROUNDING", "OverRuns", "over_runs", "quantiles"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from amci_core.diagnostics import pareto_k
from amci_core.estimators.draws import Array

QUARTILES = (0.25, 0.5, 0.75)
# A mean is known where its standard error is a smaller share of it than this.
LARGEST_DOUBT = 0.5
# Squared errors below this, in units of mu squared, are rounding.
ROUNDING = 1e-24
# From this k-hat of the runs' errors on a mean hardly settles, however many runs there are.
LARGEST_K = 0.7
# A median is known where the two ends of its interval of 2 standard errors differ by less.
LARGEST_RATIO = 10.0


@dataclass(frozen=True)
class OverRuns:
    """What runs say of a squared error, for a batch (*) of pairs and B budgets.

    Arguments:
        mean: Mean, (*, B); NaN where no run gave an estimate.
        mean_error: Its standard error over runs, (*, B); NaN with a single run.
        quartiles: 25 %, median and 75 %, (3, *, B).
        quartiles_error: Their standard errors, see `quantiles`, (3, *, B).
        mean_judged: Where the mean is known, (*, B): its standard error is below half of it, the
            k-hat of the errors' tail is below 0.7, and not every run gave the estimate 0, the sign
            of draws that never reach f.
        median_judged: Where the median is known: the ends of its interval of 2 standard errors
            differ by less than a factor of 10, (*, B).
        failed: Number of runs without an estimate, (*, B).
    """

    mean: Array
    mean_error: Array
    quartiles: Array
    quartiles_error: Array
    mean_judged: NDArray[np.bool_]
    median_judged: NDArray[np.bool_]
    failed: NDArray[np.int64]


def over_runs(errors: Array, tried: NDArray[np.bool_] | None = None) -> OverRuns:
    """Summarises squared errors (*, R, B) of R runs.

    Arguments:
        errors: The errors; NaN for a run without an estimate.
        tried: Budgets that are large enough for an estimate, (B,); by default all. Runs with
            others do not count as failed.
    """
    by_run = np.moveaxis(errors, -2, 0)
    there = ~np.isnan(by_run)
    n = there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = np.where(there, by_run, 0.0).sum(axis=0) / n
        spread = np.where(there, np.square(by_run - mean), 0.0).sum(axis=0)
        mean_error = np.where(n > 1, np.sqrt(spread / (n - 1) / n), np.nan)
    quartiles, quartiles_error = quantiles(by_run, QUARTILES)
    # Two steps of the median's rank, 2 sqrt(n / 4), as shares of n.
    steps = np.array([-1.0, 1.0]).reshape(2, *[1] * n.ndim) / np.sqrt(np.maximum(n, 1))
    low, high = _at(np.sort(by_run, axis=0), n, 0.5 + steps)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        largest = np.max(np.where(there, by_run, 0.0), axis=0)
        unit = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
        tail = np.where(there & np.isfinite(by_run), by_run / unit, 0.0)
        heavy = pareto_k(np.moveaxis(tail, 0, -1)) >= LARGEST_K
        exact = largest < ROUNDING
        # In units of mu the estimate 0 has the error 1.
        empty = (by_run == 1).all(axis=0)
        known = (mean_error <= LARGEST_DOUBT * mean) & np.isfinite(mean) & ~heavy & ~empty
    return OverRuns(
        mean=mean,
        mean_error=mean_error,
        quartiles=quartiles,
        quartiles_error=quartiles_error,
        mean_judged=(n > 1) & (known | exact),
        median_judged=(n > 1) & ((high < LARGEST_RATIO * low) | (high == low)),
        failed=np.where(True if tried is None else tried, len(by_run) - n, 0),
    )


def quantiles(values: Array, levels: Sequence[float]) -> tuple[Array, Array]:
    """Quantiles of values (n, *) along the first axis, (L, *), and their standard errors.

    Of n values about n p +- sqrt(n p (1 - p)) lie below the quantile p: its standard error is half
    the distance between the order statistics of these two ranks, rough below some 20 values. It is
    zero for the largest value, and NaN where there is a single one.
    """
    n = (~np.isnan(values)).sum(axis=0)
    ordered = np.sort(values, axis=0)
    p = np.array(levels).reshape(-1, *[1] * n.ndim)
    step = np.sqrt(p * (1 - p) / np.maximum(n, 1))
    found, below, above = (_at(ordered, n, level) for level in (p + 0 * step, p - step, p + step))
    with np.errstate(invalid="ignore"):
        return found, np.where(n > 1, (above - below) / 2, np.nan)


def _at(ordered: Array, n: NDArray[np.int64], levels: Array) -> Array:
    """Quantiles (L, *) of n values in order, (R, *), linear between them; NaN of none."""
    place = levels.clip(0, 1) * np.maximum(n - 1, 0)
    low = np.floor(place).astype(np.int64)
    part = place - low
    first = np.take_along_axis(ordered, low, axis=0)
    second = np.take_along_axis(ordered, np.minimum(low + 1, np.maximum(n - 1, 0)), axis=0)
    with np.errstate(invalid="ignore"):
        return np.where((part == 0) | (first == second), first, first + part * (second - first))
