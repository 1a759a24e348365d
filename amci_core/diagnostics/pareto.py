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
    "ParetoFit",
    "ParetoTail",
    "pareto_fit",
    "pareto_k",
    "pareto_tail",
    "pareto_threshold",
    "tail_count",
]

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amci_core.estimators.draws import Array

# A tail is a fifth of the draws, and at least five of them are needed to fit it.
LEAST_DRAWS = 25
# With a heavier tail convergence is too slow to be of use, with any number of draws.
LARGEST_K = 0.7
# k-hat comes with a prior worth so many draws, at k = 1/2.
PRIOR_DRAWS = 10
# Logarithms of weights, of some hundred nats, are equal but for rounding within this.
ROUNDING = 1e-10


class ParetoTail(NamedTuple):
    """The fitted tail of S positive weights.

    Arguments:
        k: Shape, as `pareto_k` gives it.
        log_cutoff: Logarithm of the weight u above which the tail begins, in nats.
        scale: Scale sigma, in units of exp(log_cutoff); zero where nothing was fitted.
        size: Number M of weights in the tail; zero where nothing was fitted.
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

    Example:
        >>> pareto_threshold([100, 1e6]).round(6).tolist()
        [0.5, 0.7]
    """
    with np.errstate(divide="ignore"):
        return np.minimum(1 - 1 / np.log10(np.maximum(draws, 1.0)), LARGEST_K)


def pareto_k(weights: Array) -> Array:
    """k-hat of the positive ones among weights (*, n), which may be scaled; (*).

    Zeros say nothing of the tail, so S counts the others. The tail is the M largest weights, with
    M = min(S / 5, 3 sqrt(S)).

    NaN where k-hat cannot be judged: for less than 25 positive weights, where some in the tail are
    equal (ties would make any tail look light), and for weights that are NaN or infinite. -inf
    where all positive weights are equal but for rounding: there is no tail.

    Warning:
        NaN compares as false: test `k < threshold`, never `not k > threshold`.

    Example:
        >>> weights = np.random.default_rng(0).pareto(1.0, 1000) + 1
        >>> bool(pareto_k(weights) > pareto_threshold(1000))
        True
        >>> float(pareto_k(np.ones(1000)))
        -inf
    """
    return pareto_fit(weights).k


class ParetoFit(NamedTuple):
    """k-hat of weights, and how well it is known, (*) each.

    Arguments:
        k: See `pareto_k`.
        error: Its standard error, (1 + k) sqrt(M) / (M + 10) for a tail of M weights and k >= 0:
            the likelihood gives (1 + k) / sqrt(M), and the prior shrinks it. For k < 0 as for 0.
        threshold: `pareto_threshold` of S draws.

    References:
        Smith, Estimating tails of probability distributions, Annals of Statistics 15, 1987.
    """

    k: Array
    error: Array
    threshold: Array


def pareto_fit(weights: Array) -> ParetoFit:
    """k-hat of weights (*, n), which may be scaled, with its standard error and its threshold."""
    rows = weights.reshape(-1, weights.shape[-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = [pareto_tail(row).k for row in np.log(rows)]
    k, draws = np.array(found).reshape(weights.shape[:-1]), (weights > 0).sum(axis=-1)
    size = tail_count(draws)
    error = (1 + np.maximum(k, 0.0)) * np.sqrt(size) / (size + PRIOR_DRAWS)
    return ParetoFit(k, error, pareto_threshold(draws))


def pareto_tail(log_weights: Array) -> ParetoTail:
    """The tail fitted to one set of log weights (n,), in nats; those at -inf are left out."""
    log_w = np.sort(log_weights[log_weights != -np.inf])
    if len(log_w) < LEAST_DRAWS or not np.isfinite(log_w[-1]):
        return ParetoTail(math.nan, math.nan, 0.0, 0)
    if log_w[-1] - log_w[0] < ROUNDING:
        return ParetoTail(-math.inf, float(log_w[0]), 0.0, 0)
    size = int(tail_count(len(log_w)))
    top = log_w[-size - 1 :]
    nothing = ParetoTail(math.nan, float(top[0]), 0.0, 0)
    if (np.diff(top) < ROUNDING).any():
        return nothing
    from arviz_stats.base import array_stats  # where it is needed: it takes most of a second

    psislw: Any = array_stats.psislw  # it declares no types
    smoothed, k = psislw(-log_w, r_eff=1.0)
    k = float(k)
    # Libraries say NaN or an infinity of either sign where their fit has failed.
    if not math.isfinite(k):
        return nothing
    # The smallest of the tail is moved to the quantile 1 / 2M of the fit.
    excess = math.expm1(smoothed[-size] - smoothed[-size - 1])
    log_survival = math.log1p(-0.5 / size)
    scale = excess / (math.expm1(-k * log_survival) / k if k else -log_survival)
    return ParetoTail(k, float(top[0]), scale, size) if 0 < scale < math.inf else nothing


def tail_count(draws: ArrayLike) -> NDArray[np.int64]:
    """How many of S weights make up the tail: a fifth, or 3 sqrt(S) where S > 225; (*)."""
    s = np.asarray(draws)
    return np.where(s > 225, 3 * np.sqrt(s), s // 5).astype(np.int64)
