r"""What sharing samples between q1 and q2 costs or gains: runs over (alpha, beta)."""

from __future__ import annotations

__all__ = ["ReuseErrors", "reuse_errors", "stream_reuse_errors"]

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from amci_core._arguments import check_count, check_number, check_seed, part_seed
from amci_core.diagnostics.pareto import LARGEST_K, pareto_k
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators
from amci_core.estimators import Moments
from amci_core.estimators import moments as moments_of
from amci_core.estimators.combine import Counts, running_log_means
from amci_core.estimators.draws import Array
from amci_core.estimators.mis import Pooled, pooled
from amci_core.evaluation.reuse_map import Q1, Q2, ReuseErrors
from amci_core.evaluation.runs import Truth
from amci_core.evaluation.support import Support, mean_support, support_of
from amci_core.flows import Proposals
from amci_core.flows.proposals import check_proposals
from amci_core.models import Problem
from amci_core.parallel import Stream

CHUNK_POINTS = 50_000
# Points of the broad reference in each run, as a share of its draws.
REFERENCE_SHARE = 0.25


def reuse_errors(
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
) -> ReuseErrors:
    """Errors over the grid alphas x betas, every point of it on the same draws.

    Arguments:
        problem: What is integrated; f must be >= 0.
        proposals: What is drawn from; both q1_plus and q2 are needed.
        y: A number or an array of shape (D_y,): one pair at a time.
        theta: Likewise, or None.
        alphas: Shares of E1 from q1's draws, finite.
        betas: Shares of E2 from q1's draws, finite.
        draws: Draws from each of the two proposals in each run, so 2 x `draws` in all.
        share: The share of these that q1 gets, at least one draw each.
        common: Whether both proposals transport the same random numbers; as many draws each then.
        runs: Independent runs.
        truth: What errors are counted from, as for `error_curves`.
        seed: Whole number >= 0.

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
    return stream_reuse_errors(
        problem,
        proposals,
        y,
        theta,
        alphas=alphas,
        betas=betas,
        draws=draws,
        share=share,
        common=common,
        runs=runs,
        truth=truth,
        seed=seed,
    ).last()


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
) -> Stream[ReuseErrors]:
    """`reuse_errors` part by part: an iterator of results from ever more draws.

    Arguments and errors are those of `reuse_errors`, and arguments are checked at the call. A
    caller can stop between any two items; the last equals what `reuse_errors` returns.
    """
    check_proposals(problem, proposals)
    y, theta = problem.check(y, theta)
    if y.ndim > 1:
        raise ValueError(f"y: expected a single pair, got batch shape {tuple(y.shape[:-1])}")
    if not problem.nonnegative or proposals.q2 is None:
        raise ValueError(f"problem: sample reuse needs f >= 0 and a q2, {problem.name} lacks them")
    check_count("draws", draws, low=1, high=MAX_POINTS)
    check_count("runs", runs, low=1, high=MAX_POINTS)
    check_count("draws times runs", draws * runs, low=1, high=MAX_POINTS)
    share = check_number("share", share, "a number between 0 and 1", allowed=lambda v: 0 < v < 1)
    if common and share != 0.5:
        raise ValueError(f"share: common random numbers need 0.5, got {share!r}")
    over_alphas, over_betas = _finite("alphas", alphas), _finite("betas", betas)
    sampler = Sampler(problem, proposals, y, theta)
    target = Truth.of(problem, y, theta, truth)
    check_seed(seed)
    of_q1 = min(max(round(2 * draws * share), 1), 2 * draws - 1)
    counts = np.array([of_q1, 0, 2 * draws - of_q1])
    with_reference = np.append(counts, max(round(REFERENCE_SHARE * draws), 1))
    planned = [runs * int(counts[j]) for j in (Q1, Q2)]
    sizes = _sizes(runs, largest=max(1, CHUNK_POINTS // (2 * draws)))

    def part(number: int) -> _Part:
        drawn = sampler.draw(
            with_reference,
            generators(part_seed(seed, number))[0],
            runs=sizes[number],
            common=common,
            defensive_generator=generators(part_seed(seed, number, "defensive"))[0],
        )
        running = [running_log_means(drawn, j, counts[[j]]) for j in (Q1, Q2)]
        log_means = np.stack(running, axis=1)[:, :, 0, [0, 2]]
        log_E2 = float(np.logaddexp.reduce(log_means[:, 1, 1]) - np.log(sizes[number]))
        merged = drawn.merged()
        units = [float(target.log_unit) + log_E2, log_E2]
        support = support_of(merged, (Q1, Q2), units, planned=planned)
        # The reference reaches points that no run draws, and these would rule the moments.
        own = pooled(merged.first([merged.count(j) for j in range(3)]))
        return _Part(log_means, log_E2, moments_of(own, robust=True), support, _tail(own))

    def merge(parts: Sequence[_Part]) -> ReuseErrors:
        log_E2 = parts[0].log_E2
        units = [float(target.log_unit) + log_E2, log_E2]
        moments = _mean_moments([each.moments for each in parts], counts)
        tail = float(np.average([each.tail for each in parts], weights=sizes[: len(parts)]))
        if tail > LARGEST_K:
            moments.covariance[Q1, 2, 2] = np.inf
        return ReuseErrors(
            alphas=over_alphas,
            betas=over_betas,
            means=np.exp(np.concatenate([each.log_means for each in parts]) - units),
            expected=mean_support([each.support_in(log_E2) for each in parts]),
            moments=moments,
            tail=tail,
            truth=target,
            common=common,
            runs_wanted=runs,
        )

    return Stream(len(sizes), part, merge)


class _Part(NamedTuple):
    """Some of the runs: their means, and what all of their draws say, in units of their own E2."""

    log_means: Array
    log_E2: float
    moments: Moments
    support: Support
    tail: float

    def support_in(self, log_E2: float) -> Support:
        """The support in units of another E2, given by its logarithm in nats."""
        scale = math.exp(2 * (self.log_E2 - log_E2))
        return replace(self.support, covariance=scale * self.support.covariance)


def _sizes(runs: int, *, largest: int) -> list[int]:
    """Runs of each part: at first few, so that something shows at once."""
    found: list[int] = []
    while (done := sum(found)) < runs:
        found.append(min(largest, runs - done, max(4, 2 * done)))
    return found


def _tail(seen: Pooled) -> float:
    """k-hat of what all draws bring to the second moment of w under q1; 0 where there is no tail.

    With a heavy tail it rests on draws that have not come, however many have. Sharing E2 alone
    needs it: AMCI rests on f w under q1 and on w under q2, whose tails are those of f w as well.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_square = np.log(seen.ratios[Q1]) + 2 * np.log(seen.values(2, Q1))
        found = float(pareto_k(np.exp(log_square - log_square.max())))
    return found if math.isfinite(found) else 0.0


def _mean_moments(moments: list[Moments], counts: Counts) -> Moments:
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


def _finite(name: str, values: Sequence[float]) -> Array:
    checked = np.asarray(values, dtype=np.float64)
    if checked.ndim != 1 or not len(checked) or not np.isfinite(checked).all():
        raise ValueError(f"{name}: expected finite numbers in one row, got {values!r}")
    return checked
