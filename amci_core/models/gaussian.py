r"""A Gaussian unknown, seen through Gaussian noise, and probabilities of orthants."""

from __future__ import annotations

__all__ = ["GaussianModel", "log_orthant"]

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp
from scipy.stats import multivariate_normal
from torch import Tensor
from torch.distributions import HalfNormal
from torch.distributions.constraints import Constraint, greater_than, less_than
from torch.quasirandom import SobolEngine

from amci_core.models.base import Array, Density, Variable
from amci_core.models.densities import (
    DefensiveProblem,
    Normal,
    NormalAbove,
    standard_normal_log_prob,
    strictly_beyond,
)

# Independent scramblings of Sobol points for an orthant, and dimensions from which their spread
# says too little.
SCRAMBLINGS, MANY = 8, 10
# Up to here a survival function times a coordinate of a Sobol point is a normal float64.
FAR_TAIL = 35.0


class GaussianModel(DefensiveProblem):
    r"""The prior and the likelihood p(x) = N(0, Sigma_1), p(y | x) = N(x, I), in D dimensions.

    The posterior is N(P y, P) with P = (Sigma_1^-1 + I)^-1. A subclass adds theta, f, which is
    positive above or below it, mu and the defensive density.

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, eq. (gaussian-model).

    Arguments:
        covariance: Sigma_1, symmetric and positive definite, shape (D, D).

    Attributes:
        dim: D.
        sign: 1 if f_plus is zero for x <= theta, -1 if it is for x >= theta.
        prior_covariance: Sigma_1, shape (D, D).
        posterior_covariance: P, shape (D, D).
        posterior_cholesky: The lower triangular C with C C^T = P, shape (D, D).
    """

    y: Variable
    theta: Variable
    sign = 1

    def __init__(self, covariance: Array) -> None:
        self.dim = len(covariance)
        identity = np.eye(self.dim)
        # (Sigma^-1 + I)^-1 = (Sigma + I)^-1 Sigma, without an inverse of Sigma.
        product = np.linalg.solve(covariance + identity, covariance)
        self.prior_covariance = covariance
        self.posterior_covariance = (product + product.T) / 2
        self.posterior_cholesky = np.linalg.cholesky(self.posterior_covariance)
        self._cholesky = np.linalg.cholesky(covariance)
        self._whitening = np.linalg.inv(self._cholesky)
        self._log_scale = float(np.log(np.diag(self._cholesky)).sum())

    def posterior_mean(self, y: Tensor) -> Tensor:
        """E[x | y] = P y, in the units of x; y: (*, D), result: (*, D)."""
        return y @ y.new_tensor(self.posterior_covariance).T

    def posterior(self, y: Tensor, theta: Tensor | None = None) -> Density:
        """p(x | y), the optimal q2, at y (*, D); it does not depend on theta."""
        mean = self.posterior_mean(y)
        if self.dim == 1:
            return NormalAbove(mean, float(self.posterior_cholesky[0, 0]))
        return Normal(mean, y.new_tensor(self.posterior_cholesky))

    def log_prior(self, x: Tensor) -> Tensor:
        return standard_normal_log_prob(x @ x.new_tensor(self._whitening).T) - self._log_scale

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        return standard_normal_log_prob(y - x)

    def _log_evidence(self, y: Tensor) -> Array:
        covariance = self.prior_covariance + np.eye(self.dim)
        log_density = multivariate_normal.logpdf(y.cpu().numpy(), cov=covariance)
        return np.reshape(log_density, y.shape[:-1])

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        z = self._standard_normal(n, generator)
        return z @ z.new_tensor(self._cholesky).T

    def prior_from_uniform(self, u: Tensor) -> Tensor:
        z: Tensor = torch.special.ndtri(u)
        return z @ u.new_tensor(self._cholesky).T

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(x.shape, generator=generator, device=generator.device, dtype=x.dtype)
        return x + noise

    def sample_training(
        self, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        # q'(theta, x) = p(theta) HalfNormal(|x - theta|; 1), so that p(theta) cancels.
        theta = self.theta.uniform(n, generator)
        excess = self._standard_normal(n, generator).abs()
        x = strictly_beyond(theta + self.sign * excess, theta, self.sign)
        log_q = HalfNormal(1.0).log_prob(excess).sum(-1)
        return x, theta, self.log_prior(x) + self.f(x, theta).log() - log_q

    def support_plus(self, theta: Tensor | None) -> Constraint:
        return greater_than(theta) if self.sign > 0 else less_than(theta)

    def _standard_normal(self, n: int, generator: torch.Generator) -> Tensor:
        shape = (n, self.dim)
        return torch.randn(
            shape, dtype=torch.float32, generator=generator, device=generator.device
        )


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
        scramblings it is itself uncertain by a quarter. From D = 10 on, where products vary much
        and most sets fall short together, it is doubled.
    """
    covariance = np.asarray(covariance, np.float64)
    scale = np.sqrt(np.diag(covariance))
    bound = (np.asarray(lower, np.float64) - np.asarray(mean, np.float64)) / scale
    dim, batch = len(scale), bound.shape[:-1]
    if dim == 1:
        return log_ndtr(-bound[..., 0]), np.zeros(batch)
    correlation = covariance / np.outer(scale, scale)
    uniforms = _uniforms(dim - 1, points, seed)
    cases = [_log_orthant(case, correlation, uniforms) for case in bound.reshape(-1, dim)]
    log_probability, error = np.transpose(cases).reshape(2, *batch)
    return log_probability, error


def _log_orthant(bound: Array, correlation: Array, uniforms: Array) -> tuple[float, float]:
    """A log probability and its relative error, at standardized bounds (D,)."""
    order = np.argsort(-bound)
    a, L = bound[order], np.linalg.cholesky(correlation[np.ix_(order, order)])
    z = np.zeros((len(a), uniforms.shape[-1]))
    log_product = np.zeros(uniforms.shape[-1])
    for i in range(len(a)):
        # a_i(z_1, ..., z_{i-1})
        threshold = (a[i] - L[i, :i] @ z[:i]) / L[i, i]
        far = threshold.max() > FAR_TAIL
        survival = (log_ndtr if far else ndtr)(-threshold)
        log_product += survival if far else np.log(survival)
        if i < len(uniforms):
            # Pr(z' > z_i) = u Pr(z' > a_i). In logarithms it takes six times as long.
            u = uniforms[i]
            z[i] = -(ndtri_exp(np.log(u) + survival) if far else ndtri(u * survival))
    largest = log_product.max()
    means = np.exp(log_product - largest).reshape(SCRAMBLINGS, -1).mean(-1)
    error = means.std(ddof=1) / means.mean() / np.sqrt(SCRAMBLINGS)
    # A mean of probabilities; sums of logarithms may round to just above one.
    log_probability = min(largest + np.log(means.mean()), 0.0)
    return log_probability, 2 * error if len(a) >= MANY else error


@lru_cache(maxsize=8)
def _uniforms(dim: int, points: int, seed: int) -> Array:
    """Independently scrambled Sobol points in the open unit cube, (dim, points)."""
    seeds = np.random.SeedSequence(seed).generate_state(SCRAMBLINGS)
    engines = [SobolEngine(dim, scramble=True, seed=int(s)) for s in seeds]
    draws = [engine.draw(points // SCRAMBLINGS, dtype=torch.float64) for engine in engines]
    # Points lie at the lower ends of cells of width 2^-30, and 0 has no quantile.
    return np.ascontiguousarray(torch.cat(draws).T.numpy()) + 2.0**-31
