r"""How much of a Gaussian lies above a bound in every coordinate, to a known precision."""

from __future__ import annotations

__all__ = ["log_orthant"]

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri, ndtri_exp
from torch.quasirandom import SobolEngine

SCRAMBLINGS = 8
# Up to here a survival function times a coordinate of a Sobol point is a normal float64.
FAR_TAIL = 35.0
# Cases are taken together until their points fill a core's cache, here 1 MiB of float64.
CHUNK = 2**17

Array = NDArray[np.float64]


def log_orthant(
    mean: ArrayLike, covariance: ArrayLike, lower: ArrayLike, *, points: int = 2**14, seed: int = 0
) -> tuple[Array, Array]:
    r"""log Pr(x > lower in every coordinate) for x ~ N(mean, covariance), and its error.

    With x = mean + L z, L lower triangular, the bound on coordinate i is one on z_i given
    z_1, ..., z_{i-1}. So z is drawn coordinate by coordinate from truncated standard normals, and
    the probability is the mean of prod_i Pr(z_i > a_i(z_1, ..., z_{i-1})): the
    Geweke-Hajivassiliou-Keane estimator, here with scrambled Sobol points. Survival functions keep
    the digits far in the tail, and the tightest bounds come first, which makes the product vary
    less. Exact where the covariance is diagonal.

    References:
        Genz, Numerical computation of multivariate normal probabilities, 1992.
        Hajivassiliou, McFadden, Ruud, Simulation of multivariate normal rectangle probabilities,
        1996.

    Arguments:
        mean: Shape (*, D).
        covariance: Positive definite, shape (D, D).
        lower: The bounds, shape (*, D), finite; broadcasts against the mean.
        points: Number of Sobol points, a power of two, at least 16.
        seed: Seed of the scramblings.

    Returns:
        The log probability in nats, and the relative standard error of the probability, estimated
        from independent scramblings of the points; both (*), the latter 0 where D = 1. With eight
        scramblings it is itself uncertain by a quarter, and by more from D = 20 on.

    Raises:
        ValueError: `points` is no power of two from 16 on, or the shapes do not fit.
    """
    covariance = np.asarray(covariance, np.float64)
    dim = covariance.shape[-1]
    bound = np.asarray(lower, np.float64) - np.asarray(mean, np.float64)
    if covariance.shape != (dim, dim) or bound.shape[-1:] != (dim,):
        raise ValueError(
            "mean, covariance, lower: expected shapes (*, D), (D, D), (*, D), got "
            f"{np.shape(mean)}, {covariance.shape}, {np.shape(lower)}"
        )
    if points < 2 * SCRAMBLINGS or points & (points - 1):
        raise ValueError(f"points: expected a power of two from 16 on, got {points}")
    scale = np.sqrt(np.diag(covariance))
    rows = (bound / scale).reshape(-1, dim)
    if dim == 1:
        return log_ndtr(-rows[:, 0]).reshape(bound.shape[:-1]), np.zeros(bound.shape[:-1])
    correlation = covariance / np.outer(scale, scale)
    uniforms = _uniforms(dim - 1, points, seed)
    size = max(1, CHUNK // points)
    results = [
        _estimate(rows[i : i + size], correlation, uniforms) for i in range(0, len(rows), size)
    ]
    log_mean, error = np.concatenate(results, axis=-1)
    return log_mean.reshape(bound.shape[:-1]), error.reshape(bound.shape[:-1])


def _estimate(bound: Array, correlation: Array, uniforms: Array) -> Array:
    # bound: (cases, D), standardised; result: log probabilities and relative errors, (2, cases).
    order = np.argsort(-bound, axis=-1)
    a = np.take_along_axis(bound, order, -1)
    L = np.linalg.cholesky(correlation[order[:, :, None], order[:, None, :]])
    log_product = np.zeros((len(bound), uniforms.shape[-1]))
    z: list[Array] = []
    for i in range(bound.shape[-1]):
        # a_i(z_1, ..., z_{i-1}), which for the first coordinate is one number a case.
        threshold = a[:, i, None] - sum(L[:, i, j, None] * z[j] for j in range(i))
        threshold = threshold / L[:, i, i, None]
        uniform = uniforms[i] if i < len(uniforms) else None
        log_survival, draw = _truncated_normal(threshold, uniform)
        log_product += log_survival
        if draw is not None:
            z.append(draw)
    per_scrambling = log_product.reshape(len(bound), SCRAMBLINGS, -1)
    log_means = logsumexp(per_scrambling, axis=-1) - np.log(per_scrambling.shape[-1])
    log_mean = logsumexp(log_means, axis=-1) - np.log(SCRAMBLINGS)
    ratios = np.exp(log_means - log_mean[:, None])
    # A mean of probabilities; sums of logarithms may round to just above one.
    return np.stack(
        [np.minimum(log_mean, 0.0), ratios.std(axis=-1, ddof=1) / np.sqrt(SCRAMBLINGS)]
    )


def _truncated_normal(threshold: Array, uniform: Array | None) -> tuple[Array, Array | None]:
    # log Pr(z > threshold) and, unless it is the last coordinate, the point z with
    # Pr(z' > z) = uniform * Pr(z' > threshold). The log space version is six times slower.
    if threshold.max() < FAR_TAIL:
        survival = ndtr(-threshold)
        return np.log(survival), None if uniform is None else -ndtri(uniform * survival)
    log_survival = log_ndtr(-threshold)
    if uniform is None:
        return log_survival, None
    return log_survival, -ndtri_exp(np.log(uniform) + log_survival)


@lru_cache(maxsize=8)
def _uniforms(dim: int, points: int, seed: int) -> Array:
    # Independently scrambled Sobol points in the open unit cube, one after the other:
    # (dim, points), read-only, since callers share them.
    seeds = np.random.SeedSequence(seed).generate_state(SCRAMBLINGS)
    engines = [SobolEngine(dim, scramble=True, seed=int(s)) for s in seeds]
    draws = [engine.draw(points // SCRAMBLINGS, dtype=torch.float64) for engine in engines]
    # Points lie at the lower ends of cells of width 2^-30, and 0 has no quantile.
    result = np.ascontiguousarray(torch.cat(draws).T.numpy()) + 2.0**-31
    result.flags.writeable = False
    return result
