r"""Multiple importance sampling: what all draws say of every component, with one density for all.

The points of all components are weighted as draws of their mixture, the balance heuristic:

    q_m = sum_j (n_j / n) q_j,   E_t = mean[t p / q_m],   E_{q_j}[g] = sum r_i g(x_i) / sum r_i,

with r = q_j / q_m and the factors t = (f_plus, f_minus, 1) of the terms. A component's own draws
cannot show what it misses: where no q2 draw reaches the tail, their sample variance of f w is
zero. Draws of the others, reweighted to q2, show it. All of it is exact, like the estimator
itself, where proposals are optimal.

References:
    Veach, Guibas, Optimally combining sampling techniques for Monte Carlo rendering, 1995.
    Owen, Zhou, Safe and effective importance sampling, 2000.
"""

from __future__ import annotations

__all__ = ["Moments", "Part", "Pooled", "moments", "outliers", "pooled"]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import Array, Draws

# A draw with a larger share than this of a second moment is an outlier.
OUTLIER = 0.5
# Where p^2 / (q_j q_m) is below this, in nats, it adds nothing to a second moment.
NEGLIGIBLE = -600.0
# One effective draw says nothing about a variance.
LEAST_SPREAD = 1e-9


@dataclass(frozen=True)
class Moments:
    """Moments of the terms for a batch (*) of pairs (y, theta).

    Arguments:
        log_scale: Every mean is in units of exp(log_scale), every covariance in units of its
            square, (*).
        mean: Estimates of E1_plus, E1_minus, E2 from all draws, (*, 3).
        covariance: Cov_{q_j}[(f_plus w, f_minus w, w)] of one draw, (*, 3, 3, 3) with the proposal
            j first; NaN for a proposal that is not there or cannot be judged. The variance of a
            term whose mass q_j misses is infinite.
        counts: Number of draws of each proposal, (3,).
    """

    log_scale: Array
    mean: Array
    covariance: Array
    counts: Array

    @property
    def mu(self) -> Array:
        """(E1_plus - E1_minus) / E2 from all draws, (*), in units of f."""
        mean = self.mean
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((mean[..., 0] - mean[..., 1]) / mean[..., 2])

    def __getitem__(self, pair: int) -> Moments:
        one = {name: getattr(self, name)[pair] for name in ("log_scale", "mean", "covariance")}
        return Moments(**one, counts=self.counts)


@dataclass(frozen=True)
class Part:
    """Draws reweighted to one component, of which it gave n_j.

    Arguments:
        share: q_j / q_m, summing to one over the points, (*, n).
        n: n_j.
        terms: t w_j at every point less its mean, times a coefficient, for terms by their number,
            (*, n), in units of exp(log_scale).
        missed: Whether the component misses a part of these terms, (*).
    """

    share: Array
    n: float
    terms: Mapping[int, Array]
    missed: Mapping[int, NDArray[np.bool_]]

    @cached_property
    def spread(self) -> Array:
        """What divides a mean square, so that it has no bias, (*); NaN for one effective draw."""
        spread = 1 - np.vecdot(self.share, self.share)
        return np.where(spread > LEAST_SPREAD, spread, np.nan)

    def covariance(self) -> Array:
        """Covariance of the terms of one draw, (*, 3, 3); infinite where a part is missed."""
        found = np.zeros((*self.share.shape[:-1], 3, 3))
        for t, s in combinations_with_replacement(self.terms, 2):
            both = np.vecdot(self.share * self.terms[t], self.terms[s]) / self.spread
            found[..., t, s] = found[..., s, t] = both
        for t, missed in self.missed.items():
            found[..., t, t] = np.where(missed, np.inf, found[..., t, t])
        return found


@dataclass(frozen=True)
class Pooled:
    """All draws as draws of their mixture q_m.

    Arguments:
        draws: The draws, n of them; E is in units of exp(log_scale).
        log_mixture: log q_m at every point in nats, (*, n).
        log_scale: Largest log p / q_m, (*).
    """

    draws: Draws
    log_mixture: Array
    log_scale: Array

    @cached_property
    def log_relative(self) -> Array:
        """log p in nats, less log_scale, (*, n)."""
        return np.asarray(self.draws.log_joint - self.log_scale[..., None])

    @cached_property
    def density_ratio(self) -> Array:
        """p / q_m, (*, n), in units of exp(log_scale)."""
        return np.asarray(np.exp(self.log_relative - self.log_mixture))

    def mean(self, t: int, kept: NDArray[np.bool_] | None = None) -> Array:
        """E_t from all draws, or from those that are kept, (*); E2 where it is known."""
        if t == 2 and self.draws.log_E2 is not None:
            return np.exp(self.draws.log_E2 - self.log_scale)
        values = self.draws.factor(t) * self.density_ratio
        return np.asarray((values if kept is None else values * kept).sum(axis=-1) / self.draws.n)

    @cached_property
    def ratios(self) -> dict[int, Array]:
        """q_j / q_m for every proposal, (*, n)."""
        log_q = self.draws.log_q
        return {j: np.exp(log_q[j] - self.log_mixture) for j in self.draws.present}

    @cached_property
    def weights(self) -> dict[int, Array]:
        """w_j = p / q_j in units of exp(log_scale), zero where q_j is, (*, n)."""
        # Weights of a proposal that all but misses the mass overflow; its covariance is then NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            return {
                j: np.where(ratio > 0, np.exp(self.log_relative - self.draws.log_q[j]), 0.0)
                for j, ratio in self.ratios.items()
            }

    def part(
        self,
        j: int,
        coefficients: Array,
        *,
        stratum: Array | None = None,
        kept: NDArray[np.bool_] | None = None,
    ) -> Part:
        """The draws reweighted to proposal j.

        Arguments:
            j: Its number.
            coefficients: What the terms t w_j are multiplied with, (*, 3); zero for a term that is
                left out.
            stratum: log density of one of j's strata in nats, (*, n), to which the draws are
                reweighted instead.
            kept: Draws that are not left out, (*, n).
        """
        ratio = self.ratios[j] if stratum is None else np.exp(stratum - self.log_mixture)
        ratio = ratio if kept is None else ratio * kept
        lost = self.ratios[j] == 0
        terms, missed = {}, {}
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            share = ratio / ratio.sum(axis=-1, keepdims=True)
            if lost.any():
                # A point whose p is as small does not count.
                log_second = 2 * self.log_relative - self.draws.log_q[j] - self.log_mixture
                lost &= log_second > NEGLIGIBLE
            some = lost.any()
            for t in np.flatnonzero((coefficients != 0).reshape(-1, 3).any(axis=0)).tolist():
                factor, v = self.draws.factor(t), coefficients[..., t]
                term = v[..., None] * factor * self.weights[j]
                # With the mean taken off, no digits are lost where weights are nearly constant.
                terms[t] = term - (share * term).sum(axis=-1, keepdims=True)
                if some:
                    missed[t] = (lost & (np.asarray(factor) > 0)).any(axis=-1) & (v != 0)
        return Part(share, float(self.draws.count(j)), terms, missed)


def pooled(draws: Draws) -> Pooled:
    """Weights all draws by the balance heuristic.

    Raises:
        ValueError: the draws lack a component's density at the points of another.
    """
    drawn = {j: n for j, n in draws.counts.items() if n}
    absent = [j for j in drawn if j not in draws.log_q]
    if absent:
        raise ValueError(f"draws: the density of component {absent[0]} is not known at all points")
    with np.errstate(invalid="ignore"):
        log_mixture = np.logaddexp.reduce(
            [draws.log_q[j] + math.log(n / draws.n) for j, n in drawn.items()]
        )
    log_scale = (draws.log_joint - log_mixture).max(axis=-1)
    return Pooled(draws, log_mixture, np.where(np.isfinite(log_scale), log_scale, 0.0))


def moments(draws: Draws | Pooled, *, robust: bool = False) -> Moments:
    """Means of the terms, and their covariances under every proposal; cost linear in the draws.

    Arguments:
        draws: Points with the density of every component at each.
        robust: Whether to leave out outliers. For choosing a table, not for judging one: an
            outlier says that a moment is not known, and a table that follows it rests on the very
            draw whose error it should weigh.

    Raises:
        ValueError: the draws lack a component's density at the points of another.
    """
    seen = draws if isinstance(draws, Pooled) else pooled(draws)
    kept = ~outliers(seen) if robust else None
    if kept is not None and kept.all():
        kept = None
    every = np.array([1.0, float(seen.draws.signed), 1.0])
    mean = np.zeros((*seen.draws.batch, 3))
    for t in np.flatnonzero(every).tolist():
        mean[..., t] = seen.mean(t, kept)
    covariance = np.full((*seen.draws.batch, 3, 3, 3), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        for j in seen.draws.present:
            covariance[..., j, :, :] = seen.part(j, every, kept=kept).covariance()
    counts = np.array([seen.draws.count(j) for j in range(3)], dtype=np.float64)
    return Moments(seen.log_scale, mean, covariance, counts)


def outliers(seen: Pooled) -> NDArray[np.bool_]:
    """Draws that make up more than half of a second moment of f_plus w or f_minus w, (*, n)."""
    found = np.zeros(seen.draws.log_joint.shape, dtype=bool)
    for t in (0, 1) if seen.draws.signed else (0,):
        for j in seen.draws.present:
            with np.errstate(over="ignore", invalid="ignore"):
                h = seen.ratios[j] * np.square(seen.draws.factor(t) * seen.weights[j])
                h = np.nan_to_num(h)
                total = h.sum(axis=-1, keepdims=True)
                found |= (total > 0) & (h > OUTLIER * total)
    return found
