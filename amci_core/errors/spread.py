r"""Means and quantiles over runs or over cases, and how well these are known.

NaN stands for a run without an estimate: it is left out of all figures.
"""

from __future__ import annotations

__all__ = ["LARGEST_DOUBT", "QUARTILES", "ROUNDING", "OverRuns", "quantiles"]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
# Where the quartiles of squared errors are closer than this share of their median, the runs have
# an error in common: what matters has not been drawn. For normal errors the share is 2.7.
LEAST_SPREAD = 0.5
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
        unseen: Where what hardly any run has met would decide the mean, (*, B); None: nowhere.
    """

    errors: Array
    tried: NDArray[np.bool_] | None = None
    unseen: NDArray[np.bool_] | None = None

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
        """Where the mean is known, (*, B).

        There its standard error is below half of it, the k-hat of the errors' tail is below 0.7,
        not every run gave the estimate 0, the sign of draws that never reach f, the runs do not
        agree on an error, the sign of mass that none of them has drawn, and nothing is `unseen`.
        """
        with np.errstate(invalid="ignore"):
            largest = self._known.max(axis=0)
            unit = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
            tail = np.where(np.isfinite(self._known), self._known / unit, 0.0)
            heavy = pareto_k(np.moveaxis(tail, 0, -1)) >= LARGEST_K
            # In units of mu the estimate 0 has the error 1.
            empty = (self._by_run == 1).all(axis=0)
            low, median, high = self.quartiles
            agree = (high > low) & (high - low < LEAST_SPREAD * median)
            close = (self.mean_error <= LARGEST_DOUBT * self.mean) & np.isfinite(self.mean)
        known = (close & ~heavy & ~empty & ~agree) | (largest < ROUNDING)
        return np.asarray((self._n > 1) & known & (True if self.unseen is None else ~self.unseen))

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
