r"""How heavy the tail of importance weights is: the shape of a generalised Pareto distribution.

Above a high cutoff u, weights of any proposal look like u + Pareto(k, sigma), with 1 / k moments:
their variance is finite for k < 1/2, their mean for k < 1. Fitted to the M largest of S weights,
k says more than the weights' variance does, which cannot see what has not been drawn yet.

References:
    Vehtari, Simpson, Gelman, Yao, Gabry, Pareto smoothed importance sampling, Journal of Machine
    Learning Research 25, 2024, https://arxiv.org/abs/1507.02646.
    Zhang, Stephens, A new and efficient estimation method for the generalized Pareto distribution,
    Technometrics 51, 2009.
"""

from __future__ import annotations

__all__ = ["LARGEST_K", "pareto_k", "pareto_tail", "pareto_threshold"]

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from amci_core.estimators.draws import Array, log

# A tail is a fifth of the draws, and at least five of them are needed to fit it.
LEAST_WEIGHTS = 25
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
        scale: Scale sigma, in units of exp(log_cutoff); zero if nothing was fitted.
        size: Number M of weights in the tail; zero if nothing was fitted.
    """

    k: float
    log_cutoff: float
    scale: float
    size: int

    @property
    def error(self) -> float:
        """Standard error of k-hat, (1 + k) sqrt(M) / (M + 10), with k = 0 for a negative one.

        The likelihood gives (1 + k) / sqrt(M), and the prior shrinks it.

        References:
            Smith, Estimating tails of probability distributions, Annals of Statistics 15, 1987.
        """
        return (1 + max(self.k, 0.0)) * math.sqrt(self.size) / (self.size + PRIOR_DRAWS)


def pareto_threshold(draws: ArrayLike) -> Array:
    """The largest k-hat with which S draws can be believed: min(1 - 1 / log10 S, 0.7).

    Arguments:
        draws: S, the number of draws with a positive weight, (*).

    Returns:
        The threshold, (*).

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

    NaN if k-hat cannot be judged: for less than 25 positive weights, for equal ones in the tail
    (ties would make any tail look light), and for weights that are NaN or infinite. -inf if all
    positive weights are equal but for rounding: there is no tail.

    Warning:
        NaN compares as false: test `k < threshold`, never `not k > threshold`.

    Returns:
        k-hat, (*).

    Example:
        >>> weights = np.random.default_rng(0).pareto(1.0, 1000) + 1
        >>> bool(pareto_k(weights) > pareto_threshold(1000))
        True
        >>> float(pareto_k(np.ones(1000)))
        -inf
    """
    rows = log(weights.reshape(-1, weights.shape[-1]))
    return np.array([pareto_tail(row).k for row in rows]).reshape(weights.shape[:-1])


def pareto_tail(log_weights: Array) -> ParetoTail:
    """The tail fitted to one set of log weights (n,), in nats; those at -inf are left out.

    Returns:
        The threshold, the shape k-hat and the scale of the generalized Pareto
        distribution.
    """
    log_w = np.sort(log_weights[log_weights != -np.inf])
    if len(log_w) < LEAST_WEIGHTS or not np.isfinite(log_w[-1]):
        return ParetoTail(math.nan, math.nan, 0.0, 0)
    if log_w[-1] - log_w[0] < ROUNDING:
        return ParetoTail(-math.inf, float(log_w[0]), 0.0, 0)
    S = len(log_w)
    size = int(3 * math.sqrt(S)) if S > 225 else S // 5
    top = log_w[-size - 1 :] - log_w[-1]
    nothing = ParetoTail(math.nan, float(log_w[-size - 1]), 0.0, 0)
    if (np.diff(top) < ROUNDING).any():
        return nothing
    with np.errstate(all="ignore"):
        k, scale = _fit(-np.exp(top[1:]) * np.expm1(top[0] - top[1:]))
        scale *= np.exp(-top[0])
    finite = math.isfinite(k) and 0 < scale < math.inf
    return ParetoTail(k, nothing.log_cutoff, scale, size) if finite else nothing


def _fit(excess: Array) -> tuple[float, float]:
    """k and sigma of a generalised Pareto distribution, from increasing values (M,) above zero.

    The likelihood's profile over b = -k / sigma is averaged over a grid of b; the mean of
    log(1 - b x) then gives k, with a prior on it.
    """
    n = len(excess)
    m = 30 + int(math.sqrt(n))
    b = 1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    b = b / (3 * excess[int(n / 4 + 0.5) - 1]) + 1 / excess[-1]
    k = np.log1p(-b[:, None] * excess).mean(axis=1)
    log_likelihood = n * (np.log(-b / k) - k - 1)
    weight = np.exp(log_likelihood - log_likelihood.max())
    best = float((b * weight).sum() / weight.sum())
    shape = float(np.log1p(-best * excess).mean())
    return (n * shape + PRIOR_DRAWS / 2) / (n + PRIOR_DRAWS), -shape / best
