r"""Errors of sample reuse between q1 and q2 over (alpha, beta), as a result.

The numerator alpha a1 + (1 - alpha) b1 depends on alpha alone, the denominator
beta a2 + (1 - beta) b2 on beta alone, and both are linear. So a run is four numbers, the means of
f w and w over each proposal's draws.
"""

from __future__ import annotations

__all__ = ["Q1", "Q2", "ReuseErrors"]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from amci_core.estimators import Moments, split_draws, tables
from amci_core.estimators.budget import LEAST_SHARE, predicted_variance
from amci_core.estimators.draws import Array
from amci_core.evaluation.curves import TRUTH_SHARE
from amci_core.evaluation.runs import Truth
from amci_core.evaluation.spread import QUARTILES, ROUNDING, effective_runs, quantiles
from amci_core.evaluation.support import Support

Q1, Q2 = 0, 2
# What runs may have missed all draws say: so few effective ones are enough.
STEADY = 4
# Runs have not drawn what matters where the error expected of one is so many times their mean.
FAR = 10.0
# Densities far out are known to some 1e-9: an error expected to be smaller than this is none.
EXACT = 1e-16


@dataclass(frozen=True)
class ReuseErrors:
    """Relative squared errors of eq. (estimator-combination) over a grid, for one pair.

    Arguments:
        alphas: Shares of E1 from q1's draws, (A,).
        betas: Shares of E2 from q1's draws, (B,).
        means: For every run the means of (f w, w) over q1's draws, then over q2's, in units
        expected: What all draws say of one draw of each proposal, in the same units.
        moments: Pooled moments from the draws of both proposals, without outliers; the variance
            of w under q1 is infinite where its tail is too heavy for q1 to serve E2. Their counts
            are those of one run.
        tail: k-hat of the second moment of w under q1.
        truth: What errors are counted from.
        common: Whether both proposals transported the same random numbers; what is predicted
            takes them for independent.
        runs_wanted: Runs asked for.
    """

    alphas: Array
    betas: Array
    means: Array
    expected: Support
    moments: Moments
    tail: float
    truth: Truth
    common: bool
    runs_wanted: int

    @property
    def runs(self) -> int:
        """Independent runs so far."""
        return len(self.means)

    @property
    def counts(self) -> tuple[int, int]:
        """Draws of q1 and of q2 in each run."""
        return int(self.moments.counts[Q1]), int(self.moments.counts[Q2])

    @cached_property
    def paper(self) -> tuple[float, float]:
        """The paper's alpha*, beta*, which take E1 and E2 for uncorrelated."""
        return _shares(tables.paper_optimum(self.moments))

    @cached_property
    def optimum(self) -> tuple[float, float]:
        """The alpha and beta of least variance, by the full covariance."""
        return _shares(tables.optimum(self.moments))

    def predicted(
        self, alpha: float, beta: float, *, counts: Sequence[int] | None = None
    ) -> float:
        """ReMSE at (alpha, beta) by the delta method, for these or other counts of q1 and q2."""
        n, m = self.counts if counts is None else counts
        found = predicted_variance(
            self.moments, [n, 0, m], table=lambda _: tables.reuse(alpha, beta)
        )
        return float(found) if self.moments.log_mean[0] > -np.inf else np.nan

    @property
    def prediction_judged(self) -> bool:
        """Whether the runs bear out what is predicted for AMCI, within a factor of ten.

        Moments may be ruled by draws so rare that no run will meet them.
        """
        (mean,), (settled,) = self.mean_along([1.0], beta=0.0)
        predicted = self.predicted(1.0, 0.0)
        exact = max(predicted, mean) < EXACT
        return bool(settled and (exact or predicted / FAR < mean < predicted * FAR))

    @cached_property
    def best_split(self) -> int:
        """How many of a run's draws q1 should get where samples are shared in the best way."""
        total, split = sum(self.counts), self.best_split_alone

        def log_variance(share: float) -> float:
            counts = [share * total, 0, (1 - share) * total]
            found = float(predicted_variance(self.moments, counts, table=tables.optimum))
            return math.log(found) if found > 0 else -math.inf

        ends = (LEAST_SHARE, 1 - LEAST_SHARE)
        found = minimize_scalar(log_variance, bounds=ends, method="bounded")
        better = found.fun < log_variance(split / total)
        return round(found.x * total) if better else split

    @cached_property
    def best_split_alone(self) -> int:
        """How many of a run's draws q1 should get where none are shared: AMCI."""
        return int(split_draws(self.moments, sum(self.counts))["q1_plus"])

    @cached_property
    def remse(self) -> Array:
        """Mean over runs of (estimate / mu - 1)^2, (A, B); NaN where mu is zero.

        The mean of `errors` over the runs that gave an estimate; NaN where none did.
        """
        return self._relative(self._over_runs[0])

    @cached_property
    def mse(self) -> Array:
        """Mean over runs of (estimate - mu)^2, (A, B), in units of f squared."""
        return np.asarray(self._over_runs[0] * np.square(self.truth.unit))

    @cached_property
    def failed(self) -> NDArray[np.int64]:
        """Number of runs without an estimate, (B,): their E2 came out as exactly zero."""
        return np.asarray((self._mixed(self.betas, term=1) == 0).sum(axis=-1))

    @cached_property
    def judged(self) -> NDArray[np.bool_]:
        """Where the runs determine the mean error, (A, B).

        They do not where their effective number is below four, where no run reached f, or where by
        all draws, those of a broad reference among them, a hundred times as many runs should have
        a mean more than ten times as large, or miss mass that makes up a tenth of it.
        """
        return self._judged(self.alphas, self.betas, self.failed, *self._over_runs)

    @property
    def truth_error(self) -> float:
        """Standard error of the truth over its size; 0 where it is exact, NaN where mu is zero."""
        return float(self.truth.relative_error)

    @property
    def truth_matters(self) -> NDArray[np.bool_]:
        """Where the truth's own squared error is above 10 % of the mean squared error, (A, B)."""
        return np.asarray(np.square(self.truth.error) > TRUTH_SHARE * self._over_runs[0])

    @cached_property
    def quartiles(self) -> Array:
        """25 %, median, 75 % over runs of the relative squared error, (3, A, B)."""
        return np.stack([self.quartiles_along(self.alphas, beta=b) for b in self.betas], axis=-1)

    def quartiles_along(self, alphas: Sequence[float] | Array, *, beta: float) -> Array:
        """25 %, median, 75 % over runs along alphas (A,) at one beta: (3, A)."""
        return quantiles(self.errors(alphas, beta=beta).T, QUARTILES)[0]

    def errors(self, alphas: Sequence[float] | Array, *, beta: float) -> Array:
        """The relative squared error of every run along alphas (A,) at one beta: (A, R)."""
        numerator = self._mixed(np.asarray(alphas, dtype=np.float64), term=0)
        (denominator,) = self._mixed(np.array([beta]), term=1)
        return self._relative(self._squared(numerator, denominator))

    def mean_along(
        self, alphas: Sequence[float] | Array, *, beta: float
    ) -> tuple[Array, NDArray[np.bool_]]:
        """The mean of `errors` along alphas (A,), and where the runs determine it, (A,) each."""
        over, at = np.asarray(alphas, dtype=np.float64), np.array([beta])
        mean, error = _mean_and_error(
            self._squared(self._mixed(over, term=0), self._mixed(at, term=1)[0])
        )
        failed = np.array([(self._mixed(at, term=1) == 0).sum()])
        judged = self._judged(over, at, failed, mean[:, None], error[:, None])[:, 0]
        return self._relative(mean), judged

    @property
    def best(self) -> tuple[float, float] | None:
        """The grid's (alpha, beta) with the least mean error among those that the runs
        determine.

        None where that is no better than the answer 0, whose relative error is 1.
        """
        settled = np.where(self.judged, self._over_runs[0], np.inf)
        a, b = np.unravel_index(np.argmin(settled), settled.shape)
        if not settled[a, b] < (1 if self.truth.sign else np.inf):
            return None
        return float(self.alphas[a]), float(self.betas[b])

    @cached_property
    def _over_runs(self) -> tuple[Array, Array]:
        """Mean squared errors in units of the truth's, and their standard errors, (A, B) each."""
        # Each error is a square by itself: sums of larger terms that cancel would lose all digits.
        numerator = self._mixed(self.alphas, term=0)
        found = [
            _mean_and_error(self._squared(numerator, row))
            for row in self._mixed(self.betas, term=1)
        ]
        means, errors = zip(*found, strict=True)
        return np.stack(means, -1), np.stack(errors, -1)

    def _squared(self, numerator: Array, denominator: Array) -> Array:
        """Squared errors (A, R) from numerators (A, R) and denominators (R,)."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = numerator - self.truth.sign * denominator
            found /= np.where(denominator == 0, np.nan, denominator)
            return np.square(found, out=found)

    def _relative(self, values: Array) -> Array:
        return values if self.truth.sign != 0 else np.full_like(values, np.nan)

    def _judged(
        self, alphas: Array, betas: Array, failed: Any, mean: Array, error: Array
    ) -> NDArray[np.bool_]:
        expected = self.expected.squared_error(
            alphas, betas, counts=self.counts, target=float(self.truth.sign)
        )
        with np.errstate(invalid="ignore"):
            reached = (mean != 1) | (error > 0) | (self.truth.sign == 0)
            seen = expected <= np.maximum(FAR * mean, EXACT)
            # Where lost mass makes up the error, it has yet to show as variance.
            seen &= self.expected.lost_error(alphas, betas) <= np.maximum(mean / FAR, ROUNDING)
            steady = effective_runs(mean, error, self.runs - failed) >= STEADY
            return np.asarray((steady | (mean < ROUNDING)) & reached & seen)

    def _mixed(self, shares: Array, *, term: int) -> Array:
        from_q1, from_q2 = self.means[:, 0, term], self.means[:, 1, term]
        return np.asarray(shares[:, None] * from_q1 + (1 - shares)[:, None] * from_q2)


def _mean_and_error(squared: Array) -> tuple[Array, Array]:
    """Mean over runs and its standard error, (A,) each, of squared errors (A, R)."""
    there = ~np.isnan(squared)
    whole = bool(there.all())
    n = there.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kept = squared if whole else np.where(there, squared, 0.0)
        mean = kept.sum(axis=-1) / n
        second = np.einsum("ar,ar->a", kept, kept) / n
        # Errors are not negative: their spread is no small difference of these two.
        spread = np.maximum(second - np.square(mean), 0.0) / (n - 1)
        return mean, np.where(n > 1, np.sqrt(spread), np.nan)


def _shares(table: Array) -> tuple[float, float]:
    return float(table[Q1, 0]), float(table[Q1, 2])
