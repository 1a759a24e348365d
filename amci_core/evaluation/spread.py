r"""Means and quantiles over runs or over cases, and how well these are known.

NaN stands for a run without an estimate: it is left out of all figures.
"""

from __future__ import annotations

__all__ = ["QUARTILES", "ROUNDING", "OverRuns", "effective_runs", "quantiles"]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import Array

QUARTILES = (0.25, 0.5, 0.75)
# Squared errors below this, in units of mu squared, are rounding.
ROUNDING = 1e-24
# Runs determine a mean from this effective share of them on, but from no fewer effective runs
# than LEAST, and from ENOUGH on whatever their share. For normal errors the share is a third.
LEAST_SHARE, LEAST, ENOUGH = 0.25, 25, 200
# From this share of the mean on the median says that runs have an error in common.
COMMON_SHARE = 0.8
# A median is known where the two ends of its interval of 2 standard errors differ by less.
LARGEST_RATIO = 10.0


@dataclass(frozen=True)
class OverRuns:
    """What runs say of squared errors, for a batch (*) of pairs and B budgets.

    Every figure is computed when it is first asked for.

    Arguments:
        errors: Squared errors of R runs, (*, R, B); NaN for a run without an estimate.
        tried: Budgets that are large enough for an estimate, (B,); None for all. Runs with others
            do not count as failed.
        unseen: Where draws that hardly any run has met would decide the mean, (*, B); None for
            nowhere.
        known: Whether every run's error is the known value of the mean, as for a bound.
    """

    errors: Array
    tried: NDArray[np.bool_] | None = None
    unseen: NDArray[np.bool_] | None = None
    known: bool = False

    @cached_property
    def mean(self) -> Array:
        """Mean, (*, B); NaN where no run gave an estimate."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self._known.sum(axis=0) / self._n)

    @cached_property
    def mean_error(self) -> Array:
        """Its standard error over runs, (*, B); NaN with a single run."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            spread = np.where(self._there, np.square(self._by_run - self.mean), 0.0).sum(axis=0)
            return np.where(self._n > 1, np.sqrt(spread / (self._n - 1) / self._n), np.nan)

    @property
    def quartiles(self) -> Array:
        """25 %, median and 75 %, (3, *, B)."""
        return self._quartiles[0]

    @property
    def quartiles_error(self) -> Array:
        """Their standard errors, see `quantiles`, (3, *, B)."""
        return self._quartiles[1]

    @cached_property
    def mean_judged(self) -> NDArray[np.bool_]:
        """Where the runs determine the mean, (*, B).

        Their effective number is large enough (`determined`), nothing is `unseen`, and the runs
        do not have an error of at most one in common. Those with a common error may share it
        because none of them has drawn the mass that is missing, as when each estimate is 0 and
        its error 1: then a rare run has a much larger error. Where the common error exceeds one,
        that run's error is the smaller one.
        """
        common = (self.mean <= 1) & (self.quartiles[1] >= COMMON_SHARE * self.mean)
        enough = determined(self.mean, self.mean_error, self._n)
        found = enough & ~(common & (self.mean >= ROUNDING))
        return np.asarray(found & (True if self.unseen is None else ~self.unseen) | self.known)

    @cached_property
    def median_judged(self) -> NDArray[np.bool_]:
        """Where the ends of the median's interval of 2 standard errors differ by less than 10."""
        # Two steps of the median's rank, 2 sqrt(n / 4), as shares of n.
        steps = np.array([-1.0, 1.0]).reshape(2, *[1] * self._n.ndim)
        levels = 0.5 + steps / np.sqrt(np.maximum(self._n, 1))
        low, high = _at(np.sort(self._by_run, axis=0), self._n, levels)
        return np.asarray((self._n > 1) & ((high < LARGEST_RATIO * low) | (high == low)))

    @cached_property
    def failed(self) -> NDArray[np.int64]:
        """Number of runs without an estimate, (*, B)."""
        tried = True if self.tried is None else self.tried
        return np.where(tried, len(self._by_run) - self._n, 0)

    @property
    def _by_run(self) -> Array:
        return np.moveaxis(self.errors, -2, 0)

    @cached_property
    def _there(self) -> NDArray[np.bool_]:
        return ~np.isnan(self._by_run)

    @cached_property
    def _known(self) -> Array:
        return np.where(self._there, self._by_run, 0.0)

    @cached_property
    def _n(self) -> NDArray[np.int64]:
        return np.asarray(self._there.sum(axis=0))

    @cached_property
    def _quartiles(self) -> tuple[Array, Array]:
        return quantiles(self._by_run, QUARTILES)


def determined(mean: Array, error: Array, runs: Any) -> NDArray[np.bool_]:
    """Where runs determine their mean squared error, in the shape of the mean.

    Their effective number must be at least min(200, max(25, n / 4)), of n runs. A mean within
    rounding of zero is determined too. `docs/estimators.md` has how often means called
    determined are off.

    Arguments:
        mean: Mean squared errors in units of mu squared.
        error: Their standard errors over runs.
        runs: Number of runs with an estimate, n.

    Example:
        >>> from scipy.stats import norm
        >>> s = norm.ppf((np.arange(1000) + 0.5) / 1000) ** 2
        >>> bool(determined(s.mean(), s.std() / 1000**0.5, 1000))
        True
    """
    enough = np.clip(LEAST_SHARE * np.asarray(runs), LEAST, ENOUGH)
    with np.errstate(invalid="ignore"):
        return (effective_runs(mean, error, runs) >= enough) | (mean < ROUNDING)


def effective_runs(mean: Array, error: Array, runs: Any) -> Array:
    """The effective number of n squared errors s, (sum s)^2 / sum s^2; 0 where it is unknown.

    It follows from their mean m and its standard error: n / (1 + (n - 1) (error / m)^2). For
    squares of normal errors it is n / 3.

    Arguments:
        mean: m.
        error: Its standard error over runs.
        runs: Number of runs with an estimate, n.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = runs / (1 + (runs - 1) * np.square(error / mean))
    return np.asarray(np.nan_to_num(found))


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
