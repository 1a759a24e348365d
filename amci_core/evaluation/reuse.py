r"""Errors of sample reuse between q1 and q2, over runs and over (alpha, beta).

The numerator alpha a1 + (1 - alpha) b1 depends on alpha alone, the denominator
beta a2 + (1 - beta) b2 on beta alone, and both are linear. So a run is four numbers, the means of
f w and w over each proposal's draws.
"""

from __future__ import annotations

__all__ = ["ReuseErrors", "reuse_errors", "reuse_stream"]

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from amci_core._arguments import check_count, check_number, check_seed, part_seed
from amci_core.diagnostics.pareto import LARGEST_K, pareto_tail
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators, resolve_names
from amci_core.estimators import Moments, relative_variance, tables
from amci_core.estimators import moments as moments_of
from amci_core.estimators.base import running_log_means
from amci_core.estimators.draws import Array
from amci_core.estimators.mis import Pooled, pooled
from amci_core.evaluation.runs import (
    Truth,
    chunk_sizes,
    effective_errors,
    is_determined,
)
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.parallel import Stream

Q1, Q2 = 0, 2
# No proposal gets less than this share of the draws: a moment can be too small.
LEAST_SHARE = 0.01
CHUNK_POINTS = 50_000
# A map needs the order of magnitude of its errors only.
LEAST_EFFECTIVE = 4
# Errors that the pooled draws predict to be so many times larger are not determined.
CONTRADICTED = 10
# Densities far out are known to some 1e-9: a smaller squared error than this is none.
EXACT = 1e-16


@dataclass(frozen=True)
class ReuseErrors:
    """Relative squared errors of eq. (estimator-combination) over a grid, for one case.

    Arguments:
        alphas: Shares of E1 from q1's draws, (A,).
        betas: Shares of E2 from q1's draws, (B,).
        means: For each of R runs the means of (f w, w) over q1's draws, then over q2's, in units
            of the truth and of E2, (R, 2, 2).
        moments: Pooled moments from the draws of both proposals, without outliers. Their counts
            are those of one run.
        reached: Means of (f w, w) over q1 and q2 in units of E1 and E2, from the draws of both,
            (2, 2): less than one where a proposal is zero on a part.
        spread: Their covariances over one draw of q1 and of q2, in the same units, (2, 2, 2).
        truth: The value that errors are counted from.
        common: Whether both proposals transport the same random numbers. Predictions take them
            for independent.
        runs_wanted: Requested runs.
    """

    alphas: Array
    betas: Array
    means: Array
    moments: Moments
    reached: Array
    spread: Array
    truth: Truth
    common: bool
    runs_wanted: int

    def __repr__(self) -> str:
        alpha, beta = self.optimum
        a, b = self.paper
        return (
            f"ReuseErrors: {len(self.alphas)} alphas x {len(self.betas)} betas, {self.runs:,} runs"
            f"; least variance at alpha {alpha:.3g}, beta {beta:.3g}; "
            f"the paper's alpha* {a:.3g}, beta* {b:.3g}"
        )

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

    def predicted(self, alpha: float, beta: float) -> float:
        """ReMSE at (alpha, beta) by the delta method."""
        variance = relative_variance(tables.reuse(alpha, beta), self.moments)
        return float(variance) if self.moments.log_mean[0] > -np.inf else np.nan

    @cached_property
    def best_split(self) -> int:
        """The draws that q1 should get of a run's draws, with the optimal reuse."""
        total, split = sum(self.counts), self.best_split_alone

        def log_variance(share: float) -> float:
            counts = np.array([share * total, 0, (1 - share) * total])
            moments = replace(self.moments, counts=counts)
            variance = float(relative_variance(tables.optimum(moments), moments))
            return math.log(variance) if variance > 0 else -math.inf

        ends = (LEAST_SHARE, 1 - LEAST_SHARE)
        best = minimize_scalar(log_variance, bounds=ends, method="bounded")
        return round(best.x * total) if best.fun < log_variance(split / total) else split

    @cached_property
    def best_split_alone(self) -> int:
        """The draws that q1 should get of a run's draws without reuse: N : M = s_1 : |mu| s_2."""
        one_draw_each = (np.array([1, 0, np.inf]), np.array([np.inf, 0, 1]))
        variances = [
            relative_variance(tables.reuse(1.0, 0.0), replace(self.moments, counts=counts))
            for counts in one_draw_each
        ]
        s_1, s_2 = np.nan_to_num(np.sqrt(variances), posinf=0.0)
        share = s_1 / (s_1 + s_2) if s_1 + s_2 > 0 else 0.5
        return round(min(max(share, LEAST_SHARE), 1 - LEAST_SHARE) * sum(self.counts))

    @cached_property
    def remse(self) -> Array:
        """Mean over runs of (estimate / mu - 1)^2, (A, B); NaN if mu is zero.

        The mean is over the runs that gave an estimate; NaN if none did.
        """
        return self._relative(self._over_runs)

    @cached_property
    def failed(self) -> NDArray[np.int64]:
        """Number of runs without an estimate, (B,): their E2 came out as exactly zero."""
        return np.asarray((self._mixed(self.betas, term=1) == 0).sum(axis=-1))

    @property
    def determined(self) -> NDArray[np.bool_]:
        """Where the runs determine the mean error, (A, B), see `mean_along`."""
        columns = [self.mean_along(self.alphas, beta=beta)[1] for beta in self.betas]
        return np.stack(columns, axis=-1)

    @property
    def prediction_holds(self) -> bool:
        """Whether the runs bear out what is predicted for AMCI, within a factor of ten.

        Draws so rare that no run will meet them can rule the moments.
        """
        (mean,), (determined,) = self.mean_along([1.0], beta=0.0)
        predicted = self.predicted(1.0, 0.0)
        exact = max(predicted, mean) < EXACT
        return bool(determined and (exact or predicted / 10 < mean < predicted * 10))

    def errors(self, alphas: Sequence[float] | Array, *, beta: float) -> Array:
        """The relative squared error of every run along alphas (A,) at one beta: (A, R)."""
        return self._relative(np.square(self._signed(alphas, beta)))

    def mean_along(
        self, alphas: Sequence[float] | Array, *, beta: float
    ) -> tuple[Array, NDArray[np.bool_]]:
        """The mean of `errors` along alphas (A,), and where the runs determine it, (A,) each.

        The runs determine it if many of them make it up, see `runs.is_determined`, and the draws
        of both proposals do not contradict it: q2's draws know where w is large under q1, though
        hardly any draw of q1 comes there.
        """
        shares = np.asarray(alphas, dtype=np.float64)
        errors = self._signed(shares, beta)
        mean = _mean_square(errors)
        # Where q1 or q2 is zero it never draws, and E1 or E2 lacks that part in every run.
        (a1, a2), (b1, b2) = self.reached
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (shares * a1 + (1 - shares) * b1) / (beta * a2 + (1 - beta) * b2)
        effective = effective_errors(errors.T, self.truth.sign * (ratio - 1))
        determined = is_determined(mean, effective, LEAST_EFFECTIVE)
        variance = self._variance(shares, beta)
        contradicted = (variance > CONTRADICTED * mean) & (variance > EXACT)
        return self._relative(mean), determined & ~contradicted

    @property
    def best(self) -> tuple[float, float] | None:
        """The grid's (alpha, beta) with the least mean error among the determined ones.

        None if that is no better than the answer 0, whose relative error is 1.
        """
        errors = np.where(self.determined, self._over_runs, np.inf)
        a, b = np.unravel_index(np.argmin(errors), errors.shape)
        if not errors[a, b] < (1 if self.truth.sign else np.inf):
            return None
        return float(self.alphas[a]), float(self.betas[b])

    @cached_property
    def _over_runs(self) -> Array:
        """Mean squared errors in units of the truth's, (A, B)."""
        return np.stack([_mean_square(self._signed(self.alphas, b)) for b in self.betas], -1)

    def _variance(self, alphas: Array, beta: float) -> Array:
        """Relative variance by the delta method from the draws of both proposals, (A,)."""
        variance = np.zeros(len(alphas))
        for C, n, a, b in zip(
            self.spread, self.counts, (alphas, 1 - alphas), (beta, 1 - beta), strict=True
        ):
            # A moment that is infinite counts only with a share.
            of_E2 = 0.0 if b == 0 else b**2 * C[1, 1] - 2 * a * b * C[0, 1]
            variance += (np.where(a == 0, 0.0, a**2 * C[0, 0]) + of_E2) / n
        return np.where(np.isnan(variance), np.inf, variance)

    def _signed(self, alphas: Sequence[float] | Array, beta: float) -> Array:
        """Errors of every run in units of the truth's, (A, R); NaN without an estimate."""
        # Each error by itself: sums of larger terms that cancel would lose all digits.
        numerator = self._mixed(np.asarray(alphas, dtype=np.float64), term=0)
        (denominator,) = self._mixed(np.array([beta]), term=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            difference = numerator - self.truth.sign * denominator
            return np.asarray(difference / np.where(denominator == 0, np.nan, denominator))

    def _relative(self, values: Array) -> Array:
        return values if self.truth.sign != 0 else np.full_like(values, np.nan)

    def _mixed(self, shares: Array, *, term: int) -> Array:
        from_q1, from_q2 = self.means[:, 0, term], self.means[:, 1, term]
        return np.asarray(shares[:, None] * from_q1 + (1 - shares)[:, None] * from_q2)


def reuse_errors(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    y: Any = None,
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
    on_progress: Callable[[ReuseErrors], object] | None = None,
) -> ReuseErrors:
    """Errors over the grid alphas x betas, every point of it on the same draws.

    Arguments:
        problem: The problem; f must be >= 0.
        proposals: Its proposals; both q1_plus and q2 are needed.
        y: A number or an array of shape (D_y,): one case at a time.
        theta: A number or an array of shape (D_theta,), or None.
        alphas: Shares of E1 from q1's draws, finite.
        betas: Shares of E2 from q1's draws, finite.
        draws: Draws from each of the two proposals in each run, a total of 2 x `draws`.
        share: The share of these that q1 gets, at least one draw each.
        common: Whether both proposals transport the same random numbers; as many draws each then.
        runs: Independent runs.
        truth: The value that errors are counted from, as for `error_curves`.
        seed: Whole number >= 0.
        on_progress: Called with the errors so far after each part of the runs, the last time with
            the result. An exception that it raises ends the computation.

    Returns:
        `ReuseErrors`: `remse` and `determined` over the grid (A, B), and `best`, the shares with
        the least error.

    Raises:
        ValueError: an argument is out of range; the problem has a signed f or no q2; or it does
            not know its truth and none is given.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = amci.load_proposals("tail-1d", variant="oracle")
        >>> shares = [0.0, 0.5, 1.0]
        >>> found = amci.reuse_errors(
        ...     problem, proposals, 1.0, 3.0, alphas=shares, betas=shares, runs=20
        ... )
        >>> bool(found.remse[2, 0] < 1e-20)
        True
    """
    problem, proposals = resolve_names(problem, proposals)
    y, theta = problem.check(y, theta)
    stream = reuse_stream(
        Sampler(problem, proposals, y, theta),
        Truth.of(problem, y, theta, truth),
        alphas=alphas,
        betas=betas,
        draws=draws,
        share=share,
        common=common,
        runs=runs,
        seed=seed,
    )
    return stream.run(on_progress)


def reuse_stream(
    sampler: Sampler,
    truth: Truth,
    *,
    alphas: Sequence[float],
    betas: Sequence[float],
    draws: int,
    share: float,
    common: bool,
    runs: int,
    seed: int,
) -> Stream[ReuseErrors]:
    """The errors of `reuse_errors` in parts, from ever more runs; arguments as there."""
    problem, y = sampler.problem, sampler.y
    if y.ndim > 1:
        raise ValueError(f"y: expected a single case, got batch shape {tuple(y.shape[:-1])}")
    if not problem.nonnegative:
        raise ValueError(
            f"problem: {problem.name} takes both signs; sample reuse needs f >= 0. "
            "Use error_curves"
        )
    if Q2 not in sampler.present:
        raise ValueError(
            f"proposals: sample reuse needs a q2, and those for {problem.name} have none, since "
            "E2 is known. Use error_curves"
        )
    check_count("draws", draws, low=1, high=MAX_POINTS)
    check_count("runs", runs, low=1, high=MAX_POINTS)
    check_count("draws times runs", draws * runs, low=1, high=MAX_POINTS)
    share = check_number("share", share, "a number between 0 and 1", allowed=lambda v: 0 < v < 1)
    if common and share != 0.5:
        raise ValueError(f"share: expected 0.5 with common random numbers, got {share!r}")
    check_seed(seed)
    grid = _finite("alphas", alphas), _finite("betas", betas)
    of_q1 = min(max(round(2 * draws * share), 1), 2 * draws - 1)
    counts = np.array([of_q1, 0, 2 * draws - of_q1])
    sizes = chunk_sizes(runs, 4, max(1, CHUNK_POINTS // (2 * draws)))

    def part(number: int) -> tuple[Array, Moments, Array, Array, float]:
        """Logarithms of the means of some runs, in nats; what all of their draws say."""
        for_points, _ = generators(part_seed(seed, number))
        points = "common" if common else "independent"
        drawn = sampler.draw(counts, for_points, runs=sizes[number], points=points)
        running = [running_log_means(drawn, j, counts[[j]]) for j in (Q1, Q2)]
        log_means = np.stack(running, axis=1)[:, :, 0, [0, 2]]
        seen = pooled(drawn.merged())
        return log_means, moments_of(seen, robust=True), *_reached(seen), _tail(seen)

    def merge(parts: Sequence[tuple[Array, Moments, Array, Array, float]]) -> ReuseErrors:
        of_means, of_moments, of_reached, of_spread, of_tail = zip(*parts, strict=True)
        log_means = np.concatenate(of_means)
        moments = _mean_moments(list(of_moments), counts)
        share = np.array(sizes[: len(parts)]) / sum(sizes[: len(parts)])
        if share @ np.array(of_tail) > LARGEST_K:
            moments.covariance[Q1, 2, 2] = np.inf
        log_E2 = float(np.logaddexp.reduce(of_means[0][:, 1, 1]) - np.log(sizes[0]))
        return ReuseErrors(
            *grid,
            means=np.exp(log_means - [float(truth.log_unit) + log_E2, log_E2]),
            moments=moments,
            reached=np.tensordot(share, np.stack(of_reached), 1),
            spread=np.tensordot(share, np.stack(of_spread), 1),
            truth=truth,
            common=common,
            runs_wanted=runs,
        )

    return Stream(len(sizes), part, merge)


def _reached(seen: Pooled) -> tuple[Array, Array]:
    """See `ReuseErrors.reached` and `.spread`; points where q1 or q2 is zero do not count."""
    means, spread = np.empty((2, 2)), np.empty((2, 2, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        for i, j in enumerate((Q1, Q2)):
            values = np.stack([seen.values(0, j), seen.values(2, j)])
            share = seen.ratios[j] / values.shape[-1]
            means[i] = values @ share
            # Centred, so that no digits are lost where weights are nearly constant.
            values -= (means[i] / share.sum())[:, None]
            spread[i] = np.where(share > 0, values * share, 0.0) @ values.T
    return means, spread


def _tail(seen: Pooled) -> float:
    """k-hat of what all draws add to the second moment of w under q1; 0 if there is no tail.

    With a heavy tail this moment rests on draws that have not come yet, and no share of E2 is
    worth having from q1. AMCI rests on f w under q1 and on w under q2 instead.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        k = pareto_tail(np.log(seen.ratios[Q1]) + 2 * np.log(seen.values(2, Q1))).k
    return k if math.isfinite(k) else 0.0


def _mean_square(errors: Array) -> Array:
    """Mean squares over the runs with an estimate, (A,), of errors (A, R)."""
    with np.errstate(invalid="ignore", over="ignore"):
        n = (~np.isnan(errors)).sum(axis=-1)
        return np.asarray(np.nansum(np.square(errors), axis=-1) / n)


def _mean_moments(moments: list[Moments], counts: NDArray[np.int64]) -> Moments:
    """Moments of batches, averaged by their numbers of draws."""
    draws = np.array([m.counts.sum() for m in moments])
    log_share = np.log(draws / draws.sum())[:, None]
    log_means = np.stack([m.log_mean for m in moments])
    log_mean = np.logaddexp.reduce(log_share + log_means)
    # Each term of a batch in units of the mean of all.
    unit = np.exp(log_means - np.where(log_mean > -np.inf, log_mean, 0.0) + log_share / 2)
    covariance = np.stack([m.covariance for m in moments])
    covariance = unit[:, None, :, None] * covariance * unit[:, None, None, :]
    return Moments(log_mean, covariance.sum(axis=0), counts.astype(np.float64))


def _shares(table: Array) -> tuple[float, float]:
    return float(table[Q1, 0]), float(table[Q1, 2])


def _finite(name: str, values: Sequence[float]) -> Array:
    checked = np.asarray(values, dtype=np.float64)
    if checked.ndim != 1 or not len(checked) or not np.isfinite(checked).all():
        raise ValueError(f"{name}: expected a sequence of finite numbers, got {values!r}")
    return checked
