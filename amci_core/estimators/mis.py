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

from dataclasses import dataclass
from functools import cached_property

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
    def factors(self) -> Array:
        """(f_plus, f_minus, 1) at every point, (*, 3, n)."""
        return self.draws.factors()

    @cached_property
    def values(self) -> Array:
        """t p / q_m, (*, 3, n)."""
        v = np.exp(self.draws.log_joint - self.log_mixture - self.log_scale[..., None])
        return self.factors * v[..., None, :]

    @cached_property
    def proposals(self) -> tuple[int, ...]:
        """The proposals that have draws: J of them, in the order of what follows."""
        return self.draws.present

    @cached_property
    def log_q(self) -> Array:
        """log q_j at every point, (J, *, n)."""
        return np.stack([self.draws.log_q[j] for j in self.proposals])

    @cached_property
    def r(self) -> Array:
        """q_j / q_m, (J, *, n)."""
        return np.exp(self.log_q - self.log_mixture)

    @cached_property
    def weights(self) -> Array:
        """w_j = p / q_j, zero where q_j is, (J, *, n)."""
        log_w = self.draws.log_joint - self.log_q - self.log_scale[..., None]
        # Weights of a proposal that all but misses the mass overflow; its covariance is then NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(self.r > 0, np.exp(np.where(self.r > 0, log_w, -np.inf)), 0.0)

    @cached_property
    def missed(self) -> NDArray[np.bool_]:
        """Where a term is not zero and q_j all but is, (J, *, 3, n).

        Its second moment is then infinite. A point whose p is as small does not count.
        """
        log_joint = self.draws.log_joint - self.log_scale[..., None]
        with np.errstate(invalid="ignore"):
            log_second = 2 * log_joint - self.log_q - self.log_mixture
        lost = (self.r == 0) & (log_second > NEGLIGIBLE)
        return (self.factors > 0) & lost[..., None, :]


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
    n, values, r = seen.draws.n, seen.values, seen.r
    mean = (values if kept is None else values * kept[..., None, :]).sum(axis=-1) / n
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # With the mean taken off first, no digits are lost where weights are nearly constant.
        centre = values.sum(axis=-1) / r.sum(axis=-1)[..., None]
        z = seen.factors * seen.weights[..., None, :] - np.nan_to_num(centre)[..., None]
        share = r if kept is None else r * kept
        share = share / share.sum(axis=-1, keepdims=True)
        rz = share[..., None, :] * z
        first = rz.sum(axis=-1)
        raw = rz @ z.swapaxes(-1, -2) - first[..., :, None] * first[..., None, :]
        spread = 1 - np.square(share).sum(axis=-1)
        found = raw / np.where(spread > LEAST_SPREAD, spread, np.nan)[..., None, None]
    missed = np.asarray(seen.missed.any(axis=-1))
    found = np.where(missed[..., None] & np.eye(3, dtype=bool), np.inf, found)
    covariance = np.full((*seen.draws.batch, 3, 3, 3), np.nan)
    for k, j in enumerate(seen.proposals):
        covariance[..., j, :, :] = found[k]
    if seen.draws.log_E2 is not None:
        mean[..., 2] = np.exp(seen.draws.log_E2 - seen.log_scale)
    counts = np.array([seen.draws.count(j) for j in range(3)], dtype=np.float64)
    return Moments(seen.log_scale, mean, covariance, counts)


def outliers(seen: Pooled) -> NDArray[np.bool_]:
    """Draws that make up more than half of a second moment of f_plus w or f_minus w, (*, n)."""
    found = np.zeros(seen.draws.log_joint.shape, dtype=bool)
    for t in (0, 1) if seen.draws.signed else (0,):
        with np.errstate(over="ignore", invalid="ignore"):
            h = np.nan_to_num(seen.r * np.square(seen.factors[..., t, :] * seen.weights))
            total = h.sum(axis=-1, keepdims=True)
        found |= (h > OUTLIER * np.where(total > 0, total, np.inf)).any(axis=0)
    return found


def effective_share(found: Moments, j: int, t: int) -> Array:
    """What a draw of proposal j is worth for term t, as a share of a perfect one, (*).

    1 / (1 + Var_{q_j}[t w] / E_t^2), as all draws see it: within [0, 1].
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative = found.covariance[..., j, t, t] / np.square(found.mean[..., t])
    return np.asarray(1 / (1 + relative))
