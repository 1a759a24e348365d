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

__all__ = ["Moments", "Pooled", "effective_share", "moments", "outliers", "pooled"]

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import combinations_with_replacement
from typing import Any

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
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = self.mean
            return (mean[..., 0] - mean[..., 1]) / mean[..., 2]


def cache_by_number(method: Callable[[Pooled, int], Array]) -> Callable[[Pooled, int], Array]:
    """Keeps what a method of `Pooled` gives for each component."""

    @wraps(method)
    def cached(self: Pooled, j: int) -> Array:
        key = (method.__name__, j)
        if key not in self.kept:
            self.kept[key] = method(self, j)
        return self.kept[key]

    return cached


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
    kept: dict[Any, Array] = field(default_factory=dict, repr=False, compare=False)

    @property
    def proposals(self) -> tuple[int, ...]:
        """The proposals that have draws."""
        return self.draws.present

    @cached_property
    def density_ratio(self) -> Array:
        """p / q_m, (*, n), in units of exp(log_scale)."""
        return np.exp(self.draws.log_joint - self.log_mixture - self.log_scale[..., None])

    def mean(self, t: int, kept: NDArray[np.bool_] | None = None) -> Array:
        """E_t from all draws, or from those that are kept, (*); E2 where it is known."""
        if t == 2 and self.draws.log_E2 is not None:
            return np.exp(self.draws.log_E2 - self.log_scale)
        values = self.draws.factor(t) * self.density_ratio
        return np.asarray((values if kept is None else values * kept).sum(axis=-1) / self.draws.n)

    @cache_by_number
    def r(self, j: int) -> Array:
        """q_j / q_m, (*, n)."""
        return np.exp(self.draws.log_q[j] - self.log_mixture)

    @cache_by_number
    def weight(self, j: int) -> Array:
        """w_j = p / q_j in units of exp(log_scale), zero where q_j is, (*, n)."""
        log_w = self.draws.log_joint - self.draws.log_q[j] - self.log_scale[..., None]
        # Weights of a proposal that all but misses the mass overflow; its covariance is then NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(self.r(j) > 0, np.exp(log_w), 0.0)

    def missed(self, j: int, t: int) -> NDArray[np.bool_]:
        """Whether q_j all but vanishes at a point where term t does not, (*).

        Its second moment is then infinite. A point whose p is as small does not count.
        """
        lost = self.r(j) == 0
        if not lost.any():
            return np.zeros(self.draws.batch, dtype=bool)
        log_joint = self.draws.log_joint - self.log_scale[..., None]
        with np.errstate(invalid="ignore"):
            log_second = 2 * log_joint - self.draws.log_q[j] - self.log_mixture
        found = lost & (log_second > NEGLIGIBLE) & (np.asarray(self.draws.factor(t)) > 0)
        return np.asarray(found.any(axis=-1))


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
            [draws.log_q[j] + np.log(n / draws.n) for j, n in drawn.items()]
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
    terms = (0, 1, 2) if seen.draws.signed else (0, 2)
    mean = np.zeros((*seen.draws.batch, 3))
    for t in terms:
        mean[..., t] = seen.mean(t, kept)
    covariance = np.full((*seen.draws.batch, 3, 3, 3), np.nan)
    for j in seen.proposals:
        covariance[..., j, :, :] = 0.0
        share = seen.r(j) if kept is None else seen.r(j) * kept
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            share = share / share.sum(axis=-1, keepdims=True)
            z = {}
            for t in terms:
                tw = seen.draws.factor(t) * seen.weight(j)
                # With the mean taken off, no digits are lost where weights are nearly constant.
                z[t] = tw - (share * tw).sum(axis=-1, keepdims=True)
            spread = 1 - np.square(share).sum(axis=-1)
            spread = np.where(spread > LEAST_SPREAD, spread, np.nan)
            for t, s in combinations_with_replacement(terms, 2):
                found = (share * z[t] * z[s]).sum(axis=-1) / spread
                covariance[..., j, t, s] = covariance[..., j, s, t] = found
        for t in terms:
            covariance[..., j, t, t] = np.where(
                seen.missed(j, t), np.inf, covariance[..., j, t, t]
            )
    counts = np.array([seen.draws.count(j) for j in range(3)], dtype=np.float64)
    return Moments(seen.log_scale, mean, covariance, counts)


def outliers(seen: Pooled) -> NDArray[np.bool_]:
    """Draws that make up more than half of a second moment of f_plus w or f_minus w, (*, n)."""
    found = np.zeros(seen.draws.log_joint.shape, dtype=bool)
    for t in (0, 1) if seen.draws.signed else (0,):
        for j in seen.proposals:
            with np.errstate(over="ignore", invalid="ignore"):
                h = seen.r(j) * np.square(seen.draws.factor(t) * seen.weight(j))
                h = np.nan_to_num(h)
                total = h.sum(axis=-1, keepdims=True)
                found |= (total > 0) & (h > OUTLIER * total)
    return found


def effective_share(found: Moments, j: int, t: int) -> Array:
    """What a draw of proposal j is worth for term t, as a share of a perfect one, (*).

    1 / (1 + Var_{q_j}[t w] / E_t^2), as all draws see it: within [0, 1].
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative = found.covariance[..., j, t, t] / np.square(found.mean[..., t])
    return np.asarray(1 / (1 + relative))
