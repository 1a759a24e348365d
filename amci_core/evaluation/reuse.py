r"""Errors of sample reuse between q1 and q2, over runs and over (alpha, beta).

The numerator alpha a1 + (1 - alpha) b1 depends on alpha alone, the denominator
beta a2 + (1 - beta) b2 on beta alone, and both are linear. So a run is four numbers, the means of
f w and w over each proposal's draws: the whole grid comes from the same draws.

Runs alone can agree on an error that rare draws would multiply. So the draws of both proposals,
pooled (`amci_core.estimators.mis`), say beside them what error is to be expected.
"""

from __future__ import annotations

__all__ = ["ReuseErrors", "reuse_errors", "reuse_stream"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amci_core._arguments import check_count, check_number, check_seed, part_seed
from amci_core.diagnostics.pareto import LARGEST_K, pareto_tail
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators, resolve_names
from amci_core.estimators import tables
from amci_core.estimators.base import running_log_means
from amci_core.estimators.draws import Array, log
from amci_core.estimators.mis import Moments, Pooled, moments, pooled
from amci_core.estimators.uncertainty import relative_variance
from amci_core.evaluation.runs import Truth, chunk_sizes, effective_errors, is_determined
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.parallel import Stream

Q1, Q2 = 0, 2
# Shares of the draws that q1 may get, an equal one first. A moment can be too small: none is 0.
SHARES = np.array(sorted(range(1, 100), key=lambda per_cent: abs(per_cent - 50))) / 100
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
        expected_means: The same means as expected from the draws of both proposals, (2, 2): less
            than one where a proposal is zero on a part.
        moments: Pooled moments from the draws of both proposals, without outliers. The optima
            follow from them. Their counts are those of one run.
        all_moments: The same with outliers, to judge the runs by. Parts that a proposal is zero on
            are left to `expected_means`.
        truth: The value that errors are counted from.
        common: Whether both proposals transport the same random numbers. Predictions take them
            for independent.
        runs_wanted: Requested runs.
    """

    alphas: Array
    betas: Array
    means: Array
    expected_means: Array
    moments: Moments
    all_moments: Moments
    truth: Truth
    common: bool
    runs_wanted: int

    def __repr__(self) -> str:
        (alpha, beta), (a, b) = self.optimum, self.paper
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

    def errors(self, alphas: Sequence[float] | Array, *, beta: float) -> Array:
        """Signed errors of every run along alphas (A,) at one beta, (A, R).

        They are in units of the truth's; NaN for a run whose E2 came out as exactly zero.
        """
        return self._errors(self.means, alphas, beta)

    def mean_along(
        self, alphas: Sequence[float] | Array, *, beta: float
    ) -> tuple[Array, NDArray[np.bool_]]:
        """The ReMSE along alphas (A,) at one beta, and whether the runs determine it, (A,) each.

        The mean is over the runs with an estimate; it is NaN if mu is zero. The runs determine it
        if many of them make it up, see `runs.is_determined`, and the draws of both proposals do
        not contradict it: q2's draws know where w is large under q1, though hardly any draw of q1
        comes there.
        """
        errors = self.errors(alphas, beta=beta)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = np.nansum(np.square(errors), axis=-1) / (~np.isnan(errors)).sum(axis=-1)
        # Where q1 or q2 is zero it never draws, and E1 or E2 lacks that part in every run.
        (shared,) = self._errors(self.expected_means[None], alphas, beta).T
        determined = is_determined(mean, effective_errors(errors.T, shared), LEAST_EFFECTIVE)
        reuses = np.stack([tables.reuse(alpha, beta) for alpha in alphas])
        variance = relative_variance(reuses, self.all_moments)
        # A variance that overflows is no number, and contradicts every mean.
        confirmed = variance <= np.maximum(CONTRADICTED * mean, EXACT)
        return mean if self.truth.sign else np.full_like(mean, np.nan), determined & confirmed

    @property
    def remse(self) -> Array:
        """The mean relative squared error over the grid, (A, B), see `mean_along`."""
        return self._grid[0]

    @property
    def determined(self) -> NDArray[np.bool_]:
        """Where on the grid the runs determine it, (A, B), see `mean_along`."""
        return self._grid[1]

    @cached_property
    def failed(self) -> NDArray[np.int64]:
        """Number of runs without an estimate, (B,): their E2 came out as exactly zero."""
        return np.array([np.isnan(self.errors([0.0], beta=beta)).sum() for beta in self.betas])

    @cached_property
    def best(self) -> tuple[float, float] | None:
        """The grid's (alpha, beta) with the least ReMSE among the determined ones.

        None if that is no better than the answer 0, whose relative error is 1.
        """
        errors = np.where(self.determined & (self.remse < 1), self.remse, np.inf)
        a, b = np.unravel_index(np.argmin(errors), errors.shape)
        return (float(self.alphas[a]), float(self.betas[b])) if errors[a, b] < 1 else None

    @cached_property
    def paper(self) -> tuple[float, float]:
        """The paper's alpha*, beta*, which take E1 and E2 for uncorrelated."""
        table = tables.paper_optimum(self.moments)
        return float(table[Q1, 0]), float(table[Q1, 2])

    @cached_property
    def optimum(self) -> tuple[float, float]:
        """The alpha and beta of least variance, by the full covariance."""
        table = tables.optimum(self.moments)
        return float(table[Q1, 0]), float(table[Q1, 2])

    def predicted(self, alpha: float, beta: float) -> float:
        """ReMSE at (alpha, beta) by the delta method; NaN if no draw has met f."""
        variance = relative_variance(tables.reuse(alpha, beta), self.moments)
        return float(variance) if self.moments.log_mean[0] > -np.inf else np.nan

    @property
    def prediction_holds(self) -> bool:
        """Whether the runs bear out what is predicted for AMCI, within a factor of ten.

        Draws so rare that no run will meet them can rule the moments.
        """
        (mean,), (determined,) = self.mean_along([1.0], beta=0.0)
        predicted = self.predicted(1.0, 0.0)
        exact = max(predicted, mean) < EXACT
        return bool(determined and (exact or predicted / 10 < mean < predicted * 10))

    @cached_property
    def best_splits(self) -> tuple[int, int]:
        """How many of a run's draws q1 should get, without reuse and with the optimal one.

        Those of least predicted variance, to one per cent.
        """
        total = sum(self.counts)
        splits = [replace(self.moments, counts=total * np.array([s, 0, 1 - s])) for s in SHARES]
        without = [relative_variance(tables.amci(), split) for split in splits]
        optimal = [relative_variance(tables.optimum(split), split) for split in splits]
        variances = np.nan_to_num([without, optimal], nan=np.inf)
        alone, shared = np.rint(total * SHARES[np.argmin(variances, axis=-1)])
        return int(alone), int(shared)

    @cached_property
    def _grid(self) -> tuple[Array, NDArray[np.bool_]]:
        columns = [self.mean_along(self.alphas, beta=beta) for beta in self.betas]
        remse, determined = zip(*columns, strict=True)
        return np.stack(remse, axis=-1), np.stack(determined, axis=-1)

    def _errors(self, means: Array, alphas: Sequence[float] | Array, beta: float) -> Array:
        """Errors of runs with these means (R, 2, 2), in units of the truth's, (A, R)."""
        alpha, (of_q1, of_q2) = np.reshape(alphas, (-1, 1)), np.moveaxis(means, 1, 0)
        numerator = alpha * of_q1[:, 0] + (1 - alpha) * of_q2[:, 0]
        denominator = beta * of_q1[:, 1] + (1 - beta) * of_q2[:, 1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            difference = numerator - self.truth.sign * denominator
            return np.asarray(difference / np.where(denominator == 0, np.nan, denominator))


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
        >>> errors = amci.reuse_errors(
        ...     problem, proposals, 1.0, 3.0, alphas=shares, betas=shares, runs=20
        ... )
        >>> bool(errors.remse[2, 0] < 1e-20)
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
    if not problem.nonnegative or Q2 not in sampler.present:
        why = "E2 is known" if problem.nonnegative else "f takes both signs"
        raise ValueError(
            f"problem: sample reuse needs f >= 0 and a q2; in {problem.name} {why}. "
            "Use error_curves"
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
    points = "common" if common else "independent"
    sizes = chunk_sizes(runs, 4, max(1, CHUNK_POINTS // (2 * draws)))

    def part(number: int) -> tuple[Any, ...]:
        """Logarithms of the means of some runs, in nats, and what all of their draws say."""
        for_points, _ = generators(part_seed(seed, number))
        drawn = sampler.draw(counts, for_points, runs=sizes[number], points=points)
        log_means = [running_log_means(drawn, j, counts[[j]])[:, 0, ::2] for j in (Q1, Q2)]
        seen = pooled(drawn.merged())
        expected = [[_mean(seen, t, j) for t in (0, 2)] for j in (Q1, Q2)]
        every = Moments(seen.log_mean, seen.covariance, counts)
        robust = moments(seen, robust=True)
        return np.stack(log_means, axis=1), expected, robust, every, _tail(seen)

    def merge(parts: Sequence[tuple[Any, ...]]) -> ReuseErrors:
        log_means, expected, robust, every, k = zip(*parts, strict=True)
        weights = sizes[: len(parts)]
        chosen_by = _averaged(robust, counts, weights)
        if np.average(k, weights=weights) > LARGEST_K:
            # No share of E2 is worth having from q1. AMCI needs no second moment of w under q1.
            chosen_by.covariance[Q1, 2, 2] = np.inf
        log_E2 = np.logaddexp.reduce(log_means[0][:, 1, 1]) - np.log(sizes[0])
        return ReuseErrors(
            *grid,
            means=np.exp(np.concatenate(log_means) - [float(truth.log_unit) + log_E2, log_E2]),
            expected_means=np.average(expected, axis=0, weights=weights),
            moments=chosen_by,
            all_moments=_averaged(every, counts, weights),
            truth=truth,
            common=common,
            runs_wanted=runs,
        )

    return Stream(len(sizes), part, merge)


def _mean(draws: Pooled, t: int, j: int) -> float:
    """The mean of t w over draws of proposal j, in units of E_t."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(draws.ratios[j] @ draws.values(t, j) / draws.draws.n)


def _tail(draws: Pooled) -> float:
    """k-hat of what all draws add to the second moment of w under q1; 0 if there is no tail.

    With a heavy tail this moment rests on draws that have not come yet.
    """
    k = pareto_tail(log(draws.ratios[Q1]) + 2 * log(draws.values(2, Q1))).k
    return float(np.nan_to_num(k, neginf=0.0))


def _averaged(batches: Sequence[Moments], counts: Array, weights: Sequence[int]) -> Moments:
    """The moments of batches of draws, averaged with these weights, for new counts (3,)."""
    log_share = np.log(weights / np.sum(weights))[:, None]
    log_means = np.stack([batch.log_mean for batch in batches])
    log_mean = np.logaddexp.reduce(log_share + log_means)
    # Each term of a batch in units of the mean of all.
    unit = np.exp(log_means - np.where(log_mean > -np.inf, log_mean, 0.0) + log_share / 2)
    covariances = np.stack([batch.covariance for batch in batches])
    covariance = unit[:, None, :, None] * covariances * unit[:, None, None, :]
    return Moments(log_mean, covariance.sum(axis=0), counts.astype(np.float64))


def _finite(name: str, values: Sequence[float]) -> Array:
    checked = np.asarray(values, dtype=np.float64)
    if checked.ndim != 1 or not len(checked) or not np.isfinite(checked).all():
        raise ValueError(f"{name}: expected a sequence of finite numbers, got {values!r}")
    return checked
