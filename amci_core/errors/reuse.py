r"""What sharing samples between q1 and q2 costs or gains: errors over (alpha, beta).

The numerator alpha a1 + (1 - alpha) b1 depends on alpha alone, the denominator
beta a2 + (1 - beta) b2 on beta alone, and both are linear. So a run is four numbers, the means of
f w and w over each proposal's draws.
"""

from __future__ import annotations

__all__ = ["ReuseErrors", "reuse_errors", "stream_reuse_errors"]

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amci_core.checks import check_count
from amci_core.errors.curves import TRUTH_SHARE
from amci_core.errors.runs import Truth
from amci_core.errors.spread import LARGEST_DOUBT, QUARTILES, ROUNDING, quantiles
from amci_core.errors.support import Support, mean_support, support_of
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators
from amci_core.estimators import Draws, Moments, split_budget, tables
from amci_core.estimators import moments as moments_of
from amci_core.estimators.budget import predicted_variance
from amci_core.estimators.combine import Counts, running_log_means
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.streams import last_item

CHUNK_POINTS = 50_000
Q1, Q2 = 0, 2
# Runs have not drawn what matters where the error expected of one is so many times their mean.
FAR = 10.0
# Points of the broad reference in each run, as a share of its draws.
REFERENCE_SHARE = 0.25


@dataclass(frozen=True)
class ReuseErrors:
    """Relative squared errors of eq. (estimator-combination) over a grid, for one pair.

    Arguments:
        alphas: Shares of E1 from q1's draws, (A,).
        betas: Shares of E2 from q1's draws, (B,).
        means: For every run the means of (f w, w) over q1's draws, then over q2's, in units
        expected: What all draws say of one draw of each proposal, in the same units.
        moments: Pooled moments from all draws; their counts are those of one run.
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
        mean = self.moments.mean
        return float(found) * float(mean[2] / mean[0]) ** 2 if mean[0] > 0 else np.nan

    @cached_property
    def best_split(self) -> int:
        """How many of a run's draws q1 should get where samples are shared in the best way."""
        return self._split("reuse-optimal")

    @cached_property
    def best_split_alone(self) -> int:
        """How many of a run's draws q1 should get where none are shared: AMCI."""
        return self._split("amci")

    def _split(self, scheme: str) -> int:
        return int(split_budget(self.moments, sum(self.counts), estimator=scheme)[Q1])

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
        """Where the runs settle the mean error, (A, B).

        They do not where its standard error is above half of it, where no run reached f, or where
        by all draws, those of a broad reference among them, a hundred times as many runs should
        have a mean more than ten times as large, or miss mass that makes up a tenth of it.
        """
        return self._judged(self.alphas, self.betas, *self._over_runs)

    @property
    def truth_error(self) -> float:
        """Standard error of the truth over its size; 0 where it is exact, NaN where mu is zero."""
        return float(self.truth.relative_error)

    @property
    def truth_matters(self) -> NDArray[np.bool_]:
        """Where the truth's own squared error is above 10 % of the mean squared error, (A, B)."""
        return np.asarray(np.square(self.truth.standard_error) > TRUTH_SHARE * self.mse)

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
        """The mean of `errors` along alphas (A,), and where the runs settle it, (A,) each."""
        over, at = np.asarray(alphas, dtype=np.float64), np.array([beta])
        mean, error = _mean_and_error(
            self._squared(self._mixed(over, term=0), self._mixed(at, term=1)[0])
        )
        judged = self._judged(over, at, mean[:, None], error[:, None])[:, 0]
        return self._relative(mean), judged

    @property
    def best(self) -> tuple[float, float] | None:
        """The grid's (alpha, beta) with the least mean error among those that the runs settle.

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

    def _judged(self, alphas: Array, betas: Array, mean: Array, error: Array) -> NDArray[np.bool_]:
        expected = self.expected.squared_error(
            alphas, betas, counts=self.counts, target=float(self.truth.sign)
        )
        with np.errstate(invalid="ignore"):
            reached = (mean != 1) | (error > 0) | (self.truth.sign == 0)
            seen = expected <= np.maximum(FAR * mean, ROUNDING)
            # Where lost mass makes up the error, it has yet to show as variance.
            seen &= self.expected.lost_error(alphas, betas) <= np.maximum(mean / FAR, ROUNDING)
            steady = error <= np.maximum(LARGEST_DOUBT * mean, ROUNDING)
            return np.asarray(steady & np.isfinite(mean) & reached & seen)

    def _mixed(self, shares: Array, *, term: int) -> Array:
        from_q1, from_q2 = self.means[:, 0, term], self.means[:, 1, term]
        return np.asarray(shares[:, None] * from_q1 + (1 - shares)[:, None] * from_q2)


def stream_reuse_errors(
    problem: Problem,
    proposals: Proposals,
    y: Any,
    theta: Any = None,
    *,
    alphas: Sequence[float],
    betas: Sequence[float],
    draws: int = 64,
    share: float = 0.5,
    common: bool = False,
    runs: int = 1000,
    truth: Any = None,
    seed: int = 0,
) -> Iterator[ReuseErrors]:
    """Errors over the grid alphas x betas, every point of it on the same draws.

    Arguments:
        problem: What is integrated; f must be >= 0.
        proposals: What is drawn from; both q1_plus and q2 are needed.
        y: A number or an array of shape (D_y,): one pair at a time.
        theta: Likewise, or None.
        alphas: Shares of E1 from q1's draws, finite.
        betas: Shares of E2 from q1's draws, finite.
        draws: Draws from each of the two proposals in each run, 2 draws in all.
        share: The share of these that q1 gets, at least one draw each.
        common: Whether both proposals transport the same random numbers; as many draws each then.
        runs: Independent runs.
        truth: What errors are counted from, as for `error_curves`.
        seed: Whole number >= 0.

    Yields:
        The errors over the runs so far, after each of many small batches. A caller can stop
        between any two; the last item equals `reuse_errors`. Arguments are checked at the call.

    Raises:
        ValueError: an argument is out of range; the problem has a signed f or no q2; or it does
            not know its truth and none is given.
    """
    y, theta = problem.check(y, theta)
    if y.ndim > 1:
        raise ValueError(f"y: expected a single pair, got batch shape {tuple(y.shape[:-1])}")
    if not problem.nonnegative or proposals.q2 is None:
        raise ValueError(f"problem: sample reuse needs f >= 0 and a q2, {problem.name} lacks them")
    check_count("draws", draws, low=1, high=MAX_POINTS)
    check_count("runs", runs, low=1, high=MAX_POINTS)
    check_count("draws times runs", draws * runs, low=1, high=MAX_POINTS)
    if not isinstance(share, Real) or not 0 < share < 1:
        raise ValueError(f"share: expected a number between 0 and 1, got {share!r}")
    if common and share != 0.5:
        raise ValueError(f"share: common random numbers need 0.5, got {share!r}")
    over_alphas, over_betas = _finite("alphas", alphas), _finite("betas", betas)
    sampler = Sampler(problem, proposals, y, theta)
    target = Truth.of(problem, y, theta, truth)
    for_points, _ = generators(seed)
    for_reference, _ = generators(seed, "reference")
    of_q1 = min(max(round(2 * draws * share), 1), 2 * draws - 1)
    counts = np.array([of_q1, 0, 2 * draws - of_q1])
    reference = max(round(REFERENCE_SHARE * draws), 1)
    planned = [runs * int(counts[j]) for j in (Q1, Q2)]
    largest = max(1, CHUNK_POINTS // (2 * draws))

    def stream() -> Iterator[ReuseErrors]:
        means: list[Array] = []
        moments: list[Moments] = []
        supports: list[Support] = []
        log_E2 = 0.0
        done = 0
        while done < runs:
            size = min(largest, runs - done, max(4, 2 * done))
            drawn = sampler.draw(
                counts,
                for_points,
                runs=size,
                common=common,
                reference=reference,
                reference_generator=for_reference,
            )
            log_means = _log_means(drawn, counts)
            if not means:
                log_E2 = float(np.logaddexp.reduce(log_means[:, 1, 1]) - np.log(size))
            units = [float(target.log_unit) + log_E2, log_E2]
            means.append(np.exp(log_means - units))
            together = drawn.merged()
            moments.append(moments_of(together))
            supports.append(support_of(together, (Q1, Q2), units, planned=planned))
            done += size
            yield ReuseErrors(
                alphas=over_alphas,
                betas=over_betas,
                means=np.concatenate(means),
                expected=mean_support(supports),
                moments=_mean_moments(moments, counts),
                truth=target,
                common=common,
                runs_wanted=runs,
            )

    return stream()


reuse_errors = last_item(stream_reuse_errors)


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


def _log_means(draws: Draws, counts: Counts) -> Array:
    """log of the means of (f w, w) in each run, over q1's draws, then over q2's: (R, 2, 2)."""
    return np.stack(
        [running_log_means(draws, j, counts[[j]])[:, 0, [0, 2]] for j in (Q1, Q2)],
        axis=1,
    )


def _mean_moments(moments: list[Moments], counts: Counts) -> Moments:
    """Moments of batches, averaged by their numbers of draws, in the units of the first."""
    share = np.array([m.counts.sum() for m in moments])
    share = share / share.sum()
    scale = np.exp([float(m.log_scale - moments[0].log_scale) for m in moments])
    return Moments(
        log_scale=moments[0].log_scale,
        mean=np.sum([s * c * m.mean for s, c, m in zip(share, scale, moments, strict=True)], 0),
        covariance=np.sum(
            [s * c**2 * m.covariance for s, c, m in zip(share, scale, moments, strict=True)], 0
        ),
        counts=counts.astype(np.float64),
    )


def _finite(name: str, values: Sequence[float]) -> Array:
    checked = np.asarray(values, dtype=np.float64)
    if checked.ndim != 1 or not len(checked) or not np.isfinite(checked).all():
        raise ValueError(f"{name}: expected finite numbers in one row, got {values!r}")
    return checked
