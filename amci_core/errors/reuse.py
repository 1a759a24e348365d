r"""What sharing samples between q1 and q2 costs or gains: errors over (alpha, beta).

The numerator alpha a1 + (1 - alpha) b1 depends on alpha alone, the denominator
beta a2 + (1 - beta) b2 on beta alone, and both are linear. So a run is four numbers, the means of
f w and w over each proposal's draws, and a whole map of errors is three matrix products.
"""

from __future__ import annotations

__all__ = ["ReuseErrors", "reuse_errors", "stream_reuse_errors"]

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from amci_core.checks import check_count
from amci_core.errors.runs import Truth
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


@dataclass(frozen=True)
class ReuseErrors:
    """Relative squared errors of eq. (estimator-combination) over a grid, for one pair.

    Arguments:
        alphas: Shares of E1 from q1's draws, (A,).
        betas: Shares of E2 from q1's draws, (B,).
        means: For every run the means of (f w, w) over q1's draws, then over q2's, in units whose
            ratio is mu: a1, a2, b1, b2 of the paper's appendix, (R, 2, 2).
        moments: Pooled moments from all draws; their counts are those of one run.
        common: Whether both proposals transported the same random numbers; what is predicted
            takes them for independent.
        runs_wanted: Runs asked for.
    """

    alphas: Array
    betas: Array
    means: Array
    moments: Moments
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
        """Mean over runs of (estimate / mu - 1)^2, (A, B)."""
        # With numerator 1 + u and denominator 1 + v the error is ((u - v) / (1 + v))^2; written
        # out in u and v, no digits are lost where both are tiny.
        u = self._mixed(self.alphas, term=0) - 1
        denominator = self._mixed(self.betas, term=1)
        # Over an exact zero the estimate has no value, and counts as 0 like everywhere else.
        none = denominator == 0
        inverse = np.divide(1, denominator, out=np.zeros_like(denominator), where=~none)
        first, second = inverse**2, (denominator - 1) * inverse**2
        total = u**2 @ first.T - 2 * (u @ second.T) + ((denominator - 1) ** 2 * first).sum(axis=-1)
        return np.maximum(total + none.sum(axis=-1), 0.0) / self.runs

    @cached_property
    def quartiles(self) -> Array:
        """25 %, median, 75 % over runs of the relative squared error, (3, A, B)."""
        return np.stack([self.quartiles_along(self.alphas, beta=b) for b in self.betas], axis=-1)

    def quartiles_along(self, alphas: Sequence[float] | Array, *, beta: float) -> Array:
        """25 %, median, 75 % over runs along alphas (A,) at one beta: (3, A)."""
        return np.quantile(self.errors(alphas, beta=beta), (0.25, 0.5, 0.75), axis=-1)

    def errors(self, alphas: Sequence[float] | Array, *, beta: float) -> Array:
        """The relative squared error of every run along alphas (A,) at one beta: (A, R)."""
        numerator = self._mixed(np.asarray(alphas, dtype=np.float64), term=0)
        denominator = self._mixed(np.array([beta]), term=1)
        none = denominator == 0
        relative = np.divide(
            numerator - denominator, denominator, out=-np.ones_like(numerator), where=~none
        )
        return np.square(relative)

    @property
    def best(self) -> tuple[float, float]:
        """The grid's (alpha, beta) with the least mean error."""
        a, b = np.unravel_index(np.argmin(self.remse), self.remse.shape)
        return float(self.alphas[a]), float(self.betas[b])

    def _mixed(self, shares: Array, *, term: int) -> Array:
        from_q1, from_q2 = self.means[:, 0, term], self.means[:, 1, term]
        return shares[:, None] * from_q1 + (1 - shares)[:, None] * from_q2


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
        truth: What errors are counted from, in units of f: a number from elsewhere, such as that
            of `estimate_to`. By default the problem's own truth.
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
    log_truth = float(Truth.of(problem, y, theta, truth).log_unit)
    for_points, _ = generators(seed)
    of_q1 = min(max(round(2 * draws * share), 1), 2 * draws - 1)
    counts = np.array([of_q1, 0, 2 * draws - of_q1])
    largest = max(1, CHUNK_POINTS // (2 * draws))

    def stream() -> Iterator[ReuseErrors]:
        means: list[Array] = []
        moments: list[Moments] = []
        log_E2 = 0.0
        done = 0
        while done < runs:
            size = min(largest, runs - done, max(4, 2 * done))
            drawn = sampler.draw(counts, for_points, common=common, runs=size)
            log_means = _log_means(drawn, counts)
            if not means:
                log_E2 = float(np.logaddexp.reduce(log_means[:, 1, 1]) - np.log(size))
            means.append(np.exp(log_means - [log_truth + log_E2, log_E2]))
            moments.append(moments_of(drawn.merged()))
            done += size
            yield ReuseErrors(
                alphas=over_alphas,
                betas=over_betas,
                means=np.concatenate(means),
                moments=_mean_moments(moments, counts),
                common=common,
                runs_wanted=runs,
            )

    return stream()


reuse_errors = last_item(stream_reuse_errors)


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
