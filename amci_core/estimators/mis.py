r"""Multiple importance sampling: what all draws say of every component, with one density for all.

The points of all components are weighted as draws of their mixture, the balance heuristic:

    q_m = sum_j (n_j / n) q_j,   E_t = mean[t p / q_m],   E_{q_j}[g] = sum_i omega_i g(x_i),

with omega = r / sum r, r = q_j / q_m, and the factors t = (f_plus, f_minus, 1) of the terms. A
component's own draws cannot show what it misses: where no q2 draw reaches the tail, their sample
variance of f w is zero. Draws of the others, reweighted to q2, show it. All of it is exact, like
the estimator itself, where proposals are optimal.

The covariance of t w and s w for one draw of q_j, without bias, is

    sum_i omega_i (t w - E_{q_j}[t w]) (s w - E_{q_j}[s w]) / (1 - sum_i omega_i^2).

Terms can differ by hundreds of nats, and so can problems. Every t w is therefore divided by its
own E_t, in logs: covariances are relative, and a mu of 1e-300 has the same ones as one of 0.1.

References:
    Veach, Guibas, Optimally combining sampling techniques for Monte Carlo rendering, 1995.
    Owen, Zhou, Safe and effective importance sampling, 2000.
"""

from __future__ import annotations

__all__ = ["Moments", "Pooled", "moments", "pooled"]

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import COMPONENTS, Array, Draws, log_sum_exp
from amci_core.printing import Printed

# A draw with a larger share than this of a second moment is an outlier.
OUTLIER = 0.5
# Where (t p)^2 / (q_j q_m) over E_t^2 is below this, in nats, it adds nothing to a second moment.
NEGLIGIBLE = -600.0
# One effective draw says nothing about a variance: the least 1 - sum omega^2.
LEAST_SPREAD = 1e-9


@dataclass(frozen=True, repr=False)
class Moments(Printed):
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
        log_mean = [log_sum_exp(log_t - log_n + left_out) for log_t in self.log_terms]
        if self.draws.log_E2 is not None:
            log_mean[2] = np.broadcast_to(self.draws.log_E2, self.draws.batch)
        return np.stack(log_mean, -1)

    @cached_property
    def ratios(self) -> dict[int, Array]:
        """q_j / q_m for every proposal, (*, n)."""
        log_q = self.draws.log_q
        return {j: np.exp(log_q[j] - self.log_mixture) for j in self.draws.present}

    def values(self, t: int, j: int) -> Array:
        """t w_j over E_t at every point, (*, n); zero where q_j is."""
        log_E = self.log_mean[..., t]
        return self.over(np.where(log_E > -np.inf, log_E, 0.0), t, j)

    def over(self, log_unit: Array, t: int, j: int) -> Array:
        """t w_j over a unit (*) at every point, (*, n); zero where q_j is."""
        # Weights of a proposal that all but misses the mass overflow; its covariance is then NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            w = np.exp(self.log_terms[t] - log_unit[..., None] - self.draws.log_q[j])
        return np.where(self.ratios[j] > 0, w, 0.0)

    def weights(self, j: int) -> Array:
        """omega, which makes all draws weighted draws of proposal j; sums to one, (*, n)."""
        ratio = self.ratios[j] if self.kept is None else self.ratios[j] * self.kept
        with np.errstate(invalid="ignore"):
            return np.asarray(ratio / ratio.sum(axis=-1, keepdims=True))

    def misses(self, t: int, j: int) -> NDArray[np.bool_]:
        """Whether proposal j is zero on a part of term t, (*)."""
        zero = self.ratios[j] == 0
        if not zero.any():
            return np.zeros(self.draws.batch, dtype=bool)
        with np.errstate(invalid="ignore"):
            # A point whose p is as small does not count.
            log_second = 2 * (self.log_terms[t] - self.log_mean[..., t, None])
            log_second = log_second - self.draws.log_q[j] - self.log_mixture
            return np.asarray((zero & (log_second > NEGLIGIBLE)).any(axis=-1))

    @property
    def covariance(self) -> Array:
        """Cov_{q_j}[(f_plus w, f_minus w, w)] of one draw, in units of E_t, (*, 3, 3, 3), j first.

        NaN for a proposal that is not there. The mass that q_j misses adds nothing.
        """
        covariance = np.full((*self.draws.batch, 3, 3, 3), np.nan)
        for j in self.draws.present:
            omega = self.weights(j)
            with np.errstate(over="ignore", invalid="ignore"):
                values = np.stack([self.values(t, j) for t in range(3)], axis=-2)
                # With the mean taken off, no digits are lost where weights are nearly constant.
                values -= (omega[..., None, :] * values).sum(axis=-1, keepdims=True)
                products = (omega[..., None, :] * values) @ values.swapaxes(-1, -2)
                covariance[..., j, :, :] = products / spread(omega)[..., None, None]
        return covariance


def spread(omega: Array) -> Array:
    """1 - sum omega^2, which takes the bias from weighted mean squares, (*); NaN for one draw."""
    others = 1 - np.vecdot(omega, omega)
    return np.where(others > LEAST_SPREAD, others, np.nan)


def pooled(draws: Draws) -> Pooled:
    """Weights all draws by the balance heuristic.

    Raises:
        ValueError: the draws lack a component's density at the points of another.
    """
    absent = [j for j in draws.counts if draws.log_q[j].shape[-1] < draws.n]
    if absent:
        raise ValueError(
            f"draws: the density of {COMPONENTS[absent[0]]} is not evaluated at all draws. Pass "
            "diagnose=True to estimate"
        )
    with np.errstate(invalid="ignore"):
        log_mixture = np.logaddexp.reduce(
            [draws.log_q[j] + math.log(n / draws.n) for j, n in draws.counts.items()]
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
    covariance = seen.covariance
    for j in seen.draws.present:
        for t in range(3):
            missed = seen.misses(t, j)
            covariance[..., j, t, t] = np.where(missed, np.inf, covariance[..., j, t, t])
    counts = np.array([seen.draws.count(j) for j in range(3)], dtype=np.float64)
    return Moments(seen.log_mean, covariance, counts)


def outliers(seen: Pooled) -> NDArray[np.bool_]:
    """Draws that make up more than half of a second moment of f_plus w or f_minus w, (*, n)."""
    heavy = np.zeros(seen.draws.log_joint.shape, dtype=bool)
    for t in seen.draws.terms[:-1]:
        for j in seen.draws.present:
            with np.errstate(over="ignore", invalid="ignore"):
                h = np.nan_to_num(seen.ratios[j] * np.square(seen.values(t, j)))
                total = h.sum(axis=-1, keepdims=True)
                heavy |= (total > 0) & (h > OUTLIER * total)
    return heavy
