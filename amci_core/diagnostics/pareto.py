r"""How heavy the tail of importance weights is: the shape of a generalised Pareto distribution.

Above a high cutoff u, weights of any proposal look like u + Pareto(k, sigma), with 1 / k moments:
their variance is finite for k < 1/2, their mean for k < 1. Fitted to the M largest of S weights,
k says more than the weights' variance does, which cannot see what has not been drawn yet.

References:
    Vehtari, Simpson, Gelman, Yao, Gabry, Pareto smoothed importance sampling, Journal of Machine
    Learning Research 25, 2024, https://arxiv.org/abs/1507.02646.
"""

from __future__ import annotations

__all__ = [
    "LARGEST_K",
    "LEAST_DRAWS",
    "ParetoTail",
    "pareto_error",
    "pareto_k",
    "pareto_tail",
    "pareto_threshold",
    "tail_count",
]

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from amci_core.estimators.draws import Array

# A tail is a fifth of the draws, and at least five of them are needed to fit it.
LEAST_DRAWS = 25
# More draws than this never excuse a heavier tail: convergence is then too slow to be of use.
LARGEST_K = 0.7
# k-hat comes with a prior worth so many draws, at k = 1/2.
PRIOR_DRAWS = 10
# Logarithms of weights, of some hundred nats, are equal but for rounding within this.
ROUNDING = 1e-10


class ParetoTail(NamedTuple):
    """The fitted tail of S positive weights.

    Arguments:
        k: Shape, as `pareto_k` gives it; NaN where there are too few weights, -inf where the
            largest are equal.
        log_cutoff: Logarithm of the weight u above which the tail begins, in nats.
        scale: Scale sigma, in units of exp(log_cutoff); zero where nothing was fitted.
        size: Number M of weights in the tail.
    """

    k: float
    log_cutoff: float
    scale: float
    size: int

    def log_density(self, log_weight: Array) -> Array:
        """Density of log w within the fitted tail, at log w above the cutoff; (*)."""
        log_relative = log_weight - self.log_cutoff
        z = np.expm1(log_relative) / self.scale
        with np.errstate(invalid="ignore", divide="ignore"):
            survival = np.log1p(self.k * z) / self.k if self.k else z
            log_density = log_relative - math.log(self.scale) - (1 + self.k) * survival
        return np.where(1 + self.k * z > 0, np.exp(log_density), 0.0)


def pareto_threshold(draws: ArrayLike) -> Array:
    """The largest k-hat with which S draws can be believed: min(1 - 1 / log10 S, 0.7).

    Arguments:
        draws: S, the number of draws with a positive weight, (*).

    References:
        Eq. (13) of Vehtari et al., 2024.
    """
    with np.errstate(divide="ignore"):
        return np.minimum(1 - 1 / np.log10(np.maximum(draws, 1.0)), LARGEST_K)


def pareto_k(weights: Array) -> Array:
    """k-hat of the positive ones among weights (*, n), which may be scaled; (*).

    Zeros say nothing of the tail, so S counts the others: its M = min(S / 5, 3 sqrt(S)) largest
    are fitted. -inf where these are equal but for rounding: there is no tail. NaN for less than
    25 positive weights.
    """
    flat = weights.reshape(-1, weights.shape[-1])
    found = np.array([_pareto_k(row[row > 0]) for row in flat])
    return found.reshape(weights.shape[:-1])


def pareto_error(k: ArrayLike, draws: ArrayLike) -> Array:
    """Standard error of a k-hat fitted to S weights, (*): (1 + k) sqrt(M) / (M + 10).

    The likelihood gives (1 + k) / sqrt(M) for M weights in the tail; the prior shrinks it. For
    k < 0 as for k = 0.

    Arguments:
        k: k-hat, (*).
        draws: S, the number of draws with a positive weight, (*).

    References:
        Smith, Estimating tails of probability distributions, Annals of Statistics 15, 1987.
    """
    s = np.asarray(draws, dtype=np.float64)
    size = np.where(s > 225, np.floor(3 * np.sqrt(s)), s // 5)
    return (1 + np.maximum(k, 0.0)) * np.sqrt(size) / (size + PRIOR_DRAWS)


def pareto_tail(log_weights: Array) -> ParetoTail:
    """The tail fitted to one set of log weights (n,), in nats; those at -inf are left out."""
    log_w = np.sort(log_weights[log_weights > -np.inf])
    if len(log_w) < LEAST_DRAWS:
        return ParetoTail(math.nan, math.nan, 0.0, 0)
    size = tail_count(len(log_w))
    cutoff = float(log_w[-size - 1])
    if log_w[-1] - log_w[-size] < ROUNDING:
        return ParetoTail(-math.inf, cutoff, 0.0, size)
    smoothed, k = _arviz().psislw(-log_w, r_eff=1.0)
    k = float(k)
    # The smallest of the tail is moved to the quantile 1 / 2M of the fit; psislw normalises.
    body = log_w[0] - smoothed[0]
    excess = math.expm1(smoothed[-size] + body - cutoff)
    log_survival = math.log1p(-0.5 / size)
    unit = math.expm1(-k * log_survival) / k if k else -log_survival
    return ParetoTail(k, cutoff, excess / unit, size)


def tail_count(draws: int) -> int:
    """How many of S weights make up the tail: a fifth, or 3 sqrt(S) where S > 225."""
    return int(3 * math.sqrt(draws)) if draws > 225 else draws // 5


def _pareto_k(weights: Array) -> float:
    if len(weights) < LEAST_DRAWS:
        return math.nan
    tail = np.partition(weights, -tail_count(len(weights)))[-tail_count(len(weights)) :]
    if tail.max() - tail.min() < ROUNDING * tail.max():
        return -math.inf
    # Not with log_weights=True: arviz-stats 0.8 then fits the logarithms themselves.
    return float(_arviz().pareto_khat(weights, chain_axis=None, r_eff=1.0, tail="right"))


def _arviz() -> Any:
    # Imported when first needed: it takes most of a second.
    from arviz_stats.base import array_stats

    return array_stats
