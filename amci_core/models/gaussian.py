r"""A Gaussian unknown, seen through Gaussian noise: its model, densities and orthants."""

from __future__ import annotations

__all__ = [
    "GammaExcess",
    "GaussianModel",
    "Normal",
    "NormalAbove",
    "log_orthant",
    "standard_normal_log_prob",
    "strictly_above",
]

import math
from abc import abstractmethod
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import gammaincinv, log_ndtr, ndtr, ndtri, ndtri_exp
from scipy.stats import multivariate_normal
from torch import Tensor
from torch.distributions import HalfNormal
from torch.quasirandom import SobolEngine

from amci_core.models.base import Array, Density, Problem, Variable

# Of orthants: independent scramblings of the points, and how far in the tail a survival function
# times a coordinate of a Sobol point is a normal float64.
SCRAMBLINGS, FAR_TAIL = 8, 35.0
# Dimensions from which the spread over scramblings says too little.
MANY = 10
# Cases are taken together until their points fill a core's cache, here 1 MiB of float64.
CHUNK = 2**17


def strictly_above(x: Tensor, bound: Tensor) -> Tensor:
    """x, moved up to the next floating point number above the bound where rounding put it there.

    A point on the bound of an open support has density zero, so one of them in millions makes a
    loss infinite or a weight NaN.
    """
    return torch.maximum(x, torch.nextafter(bound, torch.full_like(bound, torch.inf)))


def standard_normal_log_prob(z: Tensor) -> Tensor:
    """Log density of N(0, I) at z (*, D) in nats; result: (*)."""
    dim, squares = z.shape[-1], z.square()
    # A product with ones takes a third of the time of a sum over the last axis.
    total = squares[..., 0] if dim == 1 else squares @ squares.new_ones(dim)
    return -0.5 * total - 0.5 * dim * math.log(2 * math.pi)


class GaussianModel(Problem):
    r"""The prior and the likelihood p(x) = N(0, Sigma_1), p(y | x) = N(x, I), in D dimensions.

    The posterior is N(P y, P) with P = (Sigma_1^-1 + I)^-1. A subclass adds f, theta, mu and the
    defensive density, `excess`.

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, eq. (gaussian-model).

    Arguments:
        covariance: Sigma_1, symmetric and positive definite, shape (D, D).

    Attributes:
        dim: D.
        prior_covariance: Sigma_1, shape (D, D).
        posterior_covariance: P, shape (D, D).
        posterior_cholesky: The lower triangular C with C C^T = P, shape (D, D).
    """

    y: Variable
    theta: Variable

    def __init__(self, covariance: Array) -> None:
        self.dim = len(covariance)
        identity = np.eye(self.dim)
        # (Sigma^-1 + I)^-1 = (Sigma + I)^-1 Sigma, without an inverse of Sigma.
        product = np.linalg.solve(covariance + identity, covariance)
        self.prior_covariance = covariance
        self.posterior_covariance = (product + product.T) / 2
        self.posterior_cholesky = np.linalg.cholesky(self.posterior_covariance)
        # Problems are shared.
        for array in (covariance, self.posterior_covariance, self.posterior_cholesky):
            array.setflags(write=False)
        cholesky = np.linalg.cholesky(covariance)
        self._prior_log_scale = float(np.log(np.diag(cholesky)).sum())
        self._evidence = multivariate_normal(cov=covariance + identity)
        self._masters = {
            "prior_cholesky": cholesky,
            "prior_whitening": np.linalg.solve(cholesky, identity),
            "posterior_covariance": self.posterior_covariance,
            "posterior_cholesky": self.posterior_cholesky,
        }
        self._constants: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def posterior_mean(self, y: Tensor) -> Tensor:
        """E[x | y] = P y, in the units of x; y: (*, D), result: (*, D)."""
        return y @ self._constant("posterior_covariance", y).T

    def posterior(self, y: Tensor, theta: Tensor | None = None) -> Density:
        """p(x | y), the optimal q2, at y (*, D); it does not depend on theta."""
        mean = self.posterior_mean(y)
        if self.dim == 1:
            return NormalAbove(mean, float(self.posterior_cholesky[0, 0]))
        return Normal(mean, self._constant("posterior_cholesky", y))

    def log_prior(self, x: Tensor) -> Tensor:
        whitened = x @ self._constant("prior_whitening", x).T
        return standard_normal_log_prob(whitened) - self._prior_log_scale

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        return standard_normal_log_prob(y - x)

    def _log_evidence(self, y: Tensor) -> Array:
        # y ~ N(0, Sigma_1 + I)
        log_density = self._evidence.logpdf(y.detach().cpu().double().numpy())
        return np.reshape(log_density, y.shape[:-1])

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        z = self._standard_normal(n, generator)
        return z @ self._constant("prior_cholesky", z).T

    def prior_from_uniform(self, u: Tensor) -> Tensor:
        z: Tensor = torch.special.ndtri(u)
        return z @ self._constant("prior_cholesky", u).T

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(x.shape, generator=generator, device=generator.device, dtype=x.dtype)
        return x + noise

    def sample_defensive(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        return self.excess(y, theta).draw(n, generator)

    def defensive_from_uniform(self, y: Tensor, theta: Tensor | None, u: Tensor) -> Tensor:
        return self.excess(y, theta).from_uniform(u)

    def log_defensive(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        return self.excess(y, theta).log_prob(x)

    @abstractmethod
    def excess(self, y: Tensor, theta: Tensor | None) -> GammaExcess:
        """The defensive density, beyond the bound of f_plus."""

    def _standard_normal(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.randn(
            n, self.dim, dtype=torch.float32, generator=generator, device=generator.device
        )

    def _half_normal(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """n absolute values of standard normals (n, D) and their log density in nats (n)."""
        excess = self._standard_normal(n, generator).abs()
        return excess, HalfNormal(1.0).log_prob(excess).sum(-1)

    def _constant(self, name: str, like: Tensor) -> Tensor:
        # One copy per type and device: training asks for them at every step.
        key = (name, like.dtype, like.device)
        if key not in self._constants:
            with torch.inference_mode(False):
                self._constants[key] = torch.tensor(
                    self._masters[name], dtype=like.dtype, device=like.device
                )
        return self._constants[key]


class Normal:
    """A normal in D dimensions: mean (*, D) and the Cholesky factor of its covariance (D, D)."""

    def __init__(self, mean: Tensor, cholesky: Tensor) -> None:
        self.batch_shape = mean.shape[:-1]
        self._mean, self._cholesky = mean, cholesky
        self._log_scale = cholesky.diag().log().sum()

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        shape = (*self.batch_shape, n, self._mean.shape[-1])
        z = torch.randn(shape, dtype=self._mean.dtype, generator=generator)
        x = self._mean[..., None, :] + z @ self._cholesky.T
        return x, standard_normal_log_prob(z) - self._log_scale

    def log_prob(self, x: Tensor) -> Tensor:
        centred = (x - self._mean[..., None, :]).mT
        z = torch.linalg.solve_triangular(self._cholesky, centred, upper=False).mT
        return standard_normal_log_prob(z) - self._log_scale


class NormalAbove:
    """A one-dimensional normal, truncated to x > lower where a lower bound is given.

    Points are drawn through the logarithm of the survival function, which keeps its digits in the
    tail.

    Arguments:
        mean: Shape (*, 1).
        scale: Standard deviation.
        lower: The bound (*, 1), or None.
    """

    def __init__(self, mean: Tensor, scale: float, lower: Tensor | None = None) -> None:
        self.batch_shape = mean.shape[:-1]
        self._mean, self._scale = mean, scale
        self._lower = torch.full_like(mean, -math.inf) if lower is None else lower
        self._log_mass = torch.as_tensor(log_ndtr(((mean - self._lower) / scale).numpy()))

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        uniform = 1 - torch.rand(*self.batch_shape, n, dtype=self._mean.dtype, generator=generator)
        log_survival = (uniform.log() + self._log_mass).numpy()
        x = self._mean - self._scale * torch.as_tensor(ndtri_exp(log_survival))
        x = strictly_above(x, self._lower)[..., None]
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.squeeze(-1)
        log_normal = standard_normal_log_prob(((x - self._mean) / self._scale)[..., None])
        log_density = log_normal - math.log(self._scale) - self._log_mass
        return log_density.where(x > self._lower, -math.inf)


class GammaExcess:
    """x on one side of a bound, with independent gamma excesses: a defensive density.

    Arguments:
        bound: Shape (*, D).
        scale: The excesses' scale, in units of x; broadcasts with the bound.
        sign: 1 for x > bound, -1 for x < bound.
        shape: 1 for exponential excesses, 2 for ones whose density falls to zero at the bound.

    Attributes:
        scale: That scale, (*, 1, D).
    """

    def __init__(self, bound: Tensor, scale: Tensor, sign: int = 1, shape: int = 1) -> None:
        self.batch_shape = bound.shape[:-1]
        self._bound, self.scale = sign * bound[..., None, :], scale[..., None, :]
        self._sign, self._shape = sign, shape

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        shape = (*self.batch_shape, n, self._bound.shape[-1], self._shape)
        device = None if generator is None else generator.device
        exponentials = torch.empty(shape, dtype=self._bound.dtype, device=device)
        x = self._beyond(exponentials.exponential_(generator=generator).sum(-1))
        return x, self.log_prob(x)

    def from_uniform(self, u: Tensor) -> Tensor:
        """Points of uniform ones, (*, n, D)."""
        if self._shape == 1:
            return self._beyond(-u.log())
        return self._beyond(torch.as_tensor(gammaincinv(self._shape, u.cpu().numpy())).to(u))

    def _beyond(self, excess: Tensor) -> Tensor:
        return self._sign * strictly_above(self._bound + excess * self.scale, self._bound)

    def log_prob(self, x: Tensor) -> Tensor:
        excess = (self._sign * x - self._bound) / self.scale
        inside = excess > 0
        log_power = (self._shape - 1) * excess.where(inside, 1.0).log()
        log_density = (log_power - excess - self.scale.log()).sum(-1)
        return log_density.where(inside.all(-1), -math.inf)


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
    dim = covariance.shape[-1]
    bound = np.asarray(lower, np.float64) - np.asarray(mean, np.float64)
    scale = np.sqrt(np.diag(covariance))
    rows = (bound / scale).reshape(-1, dim)
    if dim == 1:
        return log_ndtr(-rows[:, 0]).reshape(bound.shape[:-1]), np.zeros(bound.shape[:-1])
    correlation = covariance / np.outer(scale, scale)
    uniforms = _uniforms(dim - 1, points, seed)
    size = max(1, CHUNK // points)
    starts = range(0, len(rows), size)
    results = [_estimate(rows[i : i + size], correlation, uniforms) for i in starts]
    log_mean, error = np.concatenate(results, axis=-1).reshape(2, *bound.shape[:-1])
    return log_mean, error


def _estimate(bound: Array, correlation: Array, uniforms: Array) -> Array:
    """Log probabilities and relative errors (2, cases) at standardised bounds (cases, D)."""
    order = np.argsort(-bound, axis=-1)
    a = np.take_along_axis(bound, order, -1)
    L = np.linalg.cholesky(correlation[order[:, :, None], order[:, None, :]])
    log_product = np.zeros((len(bound), uniforms.shape[-1]))
    z: list[Array] = []
    for i in range(bound.shape[-1]):
        # a_i(z_1, ..., z_{i-1}), which for the first coordinate is one number a case.
        threshold = a[:, i, None] - sum(L[:, i, j, None] * z[j] for j in range(i))
        threshold = threshold / L[:, i, i, None]
        # Pr(z > threshold) and, but for the last coordinate, the point z with
        # Pr(z' > z) = u Pr(z' > threshold). In logarithms it takes six times as long.
        if threshold.max() < FAR_TAIL:
            survival = ndtr(-threshold)
            log_product += np.log(survival)
            z += [-ndtri(u * survival) for u in uniforms[i : i + 1]]
        else:
            log_survival = log_ndtr(-threshold)
            log_product += log_survival
            z += [-ndtri_exp(np.log(u) + log_survival) for u in uniforms[i : i + 1]]
    per_scrambling = torch.from_numpy(log_product).view(len(bound), SCRAMBLINGS, -1)
    log_means = per_scrambling.logsumexp(-1).numpy() - np.log(per_scrambling.shape[-1])
    log_mean = np.logaddexp.reduce(log_means, axis=-1) - np.log(SCRAMBLINGS)
    ratios = np.exp(log_means - log_mean[:, None])
    # A mean of probabilities; sums of logarithms may round to just above one.
    error = ratios.std(axis=-1, ddof=1) / np.sqrt(SCRAMBLINGS)
    return np.stack([np.minimum(log_mean, 0.0), 2 * error if len(L[0]) >= MANY else error])


@lru_cache(maxsize=8)
def _uniforms(dim: int, points: int, seed: int) -> Array:
    """Independently scrambled Sobol points in the open unit cube, (dim, points), not to write."""
    seeds = np.random.SeedSequence(seed).generate_state(SCRAMBLINGS)
    engines = [SobolEngine(dim, scramble=True, seed=int(s)) for s in seeds]
    draws = [engine.draw(points // SCRAMBLINGS, dtype=torch.float64) for engine in engines]
    # Points lie at the lower ends of cells of width 2^-30, and 0 has no quantile.
    result = np.ascontiguousarray(torch.cat(draws).T.numpy()) + 2.0**-31
    result.flags.writeable = False
    return result
