r"""Multiple importance sampling: what all draws say of every component, with one density for all.

The points of all components are weighted as draws of their mixture, the balance heuristic:

    q_m = sum_j (n_j / n) q_j,   E_t = mean[t p / q_m],   E_{q_j}[g] = sum r_i g(x_i) / sum r_i,

with r = q_j / q_m and the factors t = (f_plus, f_minus, 1) of the terms. A component's own draws
cannot show what it misses: where no q2 draw reaches the tail, their sample variance of f w is
zero. Draws of the others, reweighted to q2, show it. All of it is exact, like the estimator
itself, where proposals are optimal.

Terms can differ by hundreds of nats, and so can problems. Every t w is therefore divided by its
own E_t, in logs: covariances are relative, and a mu of 1e-300 has the same ones as one of 0.1.

References:
    Veach, Guibas, Optimally combining sampling techniques for Monte Carlo rendering, 1995.
    Owen, Zhou, Safe and effective importance sampling, 2000.
"""

from __future__ import annotations

__all__ = ["Moments", "Part", "Pooled", "moments", "outliers", "pooled"]

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import COMPONENTS, Array, Draws, log_sum_exp

# A draw with a larger share than this of a second moment is an outlier.
OUTLIER = 0.5
# Where (t p)^2 / (q_j q_m) over E_t^2 is below this, in nats, it adds nothing to a second moment.
NEGLIGIBLE = -600.0
# One effective draw says nothing about a variance.
LEAST_SPREAD = 1e-9


@dataclass(frozen=True)
class Moments:
    """Moments of the terms for a batch (*) of cases (y, theta).

    Arguments:
        log_mean: Logarithms of the estimates of E1_plus, E1_minus, E2 from all draws, in nats,
            (*, 3); -inf where one is zero.
        covariance: Cov_{q_j}[(f_plus w, f_minus w, w)] of one draw, each term in units of its
            mean, (*, 3, 3, 3) with the proposal j first; NaN for a proposal that is not there or
            cannot be judged. The variance of a term whose mass q_j misses is infinite.
        counts: Number of draws of each proposal, (3,).
    """

    log_mean: Array
    covariance: Array
    counts: Array

    def __getitem__(self, case: int) -> Moments:
        return Moments(self.log_mean[case], self.covariance[case], self.counts)


@dataclass(frozen=True)
class Part:
    """Draws reweighted to one component, of which it gave n_j.

    Arguments:
        share: q_j / q_m, summing to one over the points, (*, n).
        n: n_j.
        terms: t w_j / E_t at every point less its mean, times a coefficient, for terms by their
            number, (*, n).
        missed: Whether the component misses a part of these terms, (*).
    """

    share: Array
    n: float
    terms: Mapping[int, Array]
    missed: Mapping[int, NDArray[np.bool_]]

    @cached_property
    def spread(self) -> Array:
        """What divides a mean square, so that it has no bias, (*); NaN for an ESS of one."""
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
        draws: The draws, n of them.
        log_mixture: log q_m at every point in nats, (*, n).
        kept: Draws that are not left out, (*, n); None for all.
    """

    draws: Draws
    log_mixture: Array
    kept: NDArray[np.bool_] | None = None

    @cached_property
    def log_terms(self) -> tuple[Array, Array, Array]:
        """log of f_plus p, f_minus p and p at every point, in nats, (*, n) each."""
        plus, minus = (self.draws.log_factor(t) + self.draws.log_joint for t in (0, 1))
        return plus, minus, self.draws.log_joint

    @cached_property
    def log_mean(self) -> Array:
        """log E_t from all draws, in nats, (*, 3); that of E2 where it is known."""
        left_out = 0.0 if self.kept is None else np.where(self.kept, 0.0, -np.inf)
        log_n = math.log(self.draws.n) + self.log_mixture
        found = [log_sum_exp(log_t - log_n + left_out) for log_t in self.log_terms]
        if self.draws.log_E2 is not None:
            found[2] = np.broadcast_to(self.draws.log_E2, self.draws.batch)
        return np.stack(found, -1)

    @cached_property
    def ratios(self) -> dict[int, Array]:
        """q_j / q_m for every proposal, (*, n)."""
        log_q = self.draws.log_q
        return {j: np.exp(log_q[j] - self.log_mixture) for j in self.draws.present}

    def values(self, t: int, j: int, part: slice = slice(None)) -> Array:
        """t w_j over E_t at points, (*, n); zero where q_j is."""
        unit = self.log_mean[..., t, None]
        log_t = self.log_terms[t][..., part] - np.where(unit > -np.inf, unit, 0.0)
        # Weights of a proposal that all but misses the mass overflow; its covariance is then NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            w = np.exp(log_t - self.draws.log_q[j][..., part])
        return np.where(self.ratios[j][..., part] > 0, w, 0.0)

    def part(self, j: int, coefficients: Array) -> Part:
        """The draws reweighted to proposal j.

        Arguments:
            j: Its number.
            coefficients: What the terms t w_j / E_t are multiplied with, (*, 3); zero for a term
                that is left out.
        """
        ratio = self.ratios[j] if self.kept is None else self.ratios[j] * self.kept
        lost = self.ratios[j] == 0
        some = lost.any()
        terms, missed = {}, {}
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            share = ratio / ratio.sum(axis=-1, keepdims=True)
            for t in np.flatnonzero((coefficients != 0).reshape(-1, 3).any(axis=0)).tolist():
                v = coefficients[..., t]
                term = v[..., None] * self.values(t, j)
                # With the mean taken off, no digits are lost where weights are nearly constant.
                terms[t] = term - (share * term).sum(axis=-1, keepdims=True)
                if some:
                    # A point whose p is as small does not count.
                    log_second = 2 * (self.log_terms[t] - self.log_mean[..., t, None])
                    log_second = log_second - self.draws.log_q[j] - self.log_mixture
                    missed[t] = (lost & (log_second > NEGLIGIBLE)).any(axis=-1) & (v != 0)
        return Part(share, float(self.draws.count(j)), terms, missed)


def pooled(draws: Draws) -> Pooled:
    """Weights all draws by the balance heuristic.

    Raises:
        ValueError: the draws lack a component's density at the points of another.
    """
    drawn = {j: n for j, n in draws.counts.items() if n}
    absent = [j for j in drawn if j not in draws.log_q or draws.log_q[j].shape[-1] < draws.n]
    if absent and len(drawn) > 1:
        raise ValueError(
            f"draws: the density of {COMPONENTS[absent[0]]} is not evaluated at all draws. Pass "
            "diagnose=True to estimate"
        )
    with np.errstate(invalid="ignore"):
        log_mixture = np.logaddexp.reduce(
            [draws.log_q[j] + math.log(n / draws.n) for j, n in drawn.items()]
        )
    return Pooled(draws, log_mixture)


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
    if robust and (left_out := outliers(seen)).any():
        seen = replace(seen, kept=~left_out)
    every = np.array([1.0, float(seen.draws.signed), 1.0])
    covariance = np.full((*seen.draws.batch, 3, 3, 3), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        for j in seen.draws.present:
            covariance[..., j, :, :] = seen.part(j, every).covariance()
    counts = np.array([seen.draws.count(j) for j in range(3)], dtype=np.float64)
    return Moments(seen.log_mean, covariance, counts)


def outliers(seen: Pooled) -> NDArray[np.bool_]:
    """Draws that make up more than half of a second moment of f_plus w or f_minus w, (*, n)."""
    found = np.zeros(seen.draws.log_joint.shape, dtype=bool)
    for t in (0, 1) if seen.draws.signed else (0,):
        for j in seen.draws.present:
            with np.errstate(over="ignore", invalid="ignore"):
                h = np.nan_to_num(seen.ratios[j] * np.square(seen.values(t, j)))
                total = h.sum(axis=-1, keepdims=True)
                found |= (total > 0) & (h > OUTLIER * total)
    return found
