r"""A Gaussian unknown, seen through Gaussian noise: the model of the tail integrals, without f."""

from __future__ import annotations

__all__ = ["GaussianModel", "NormalAbove", "standard_normal_log_prob", "strictly_above"]

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri_exp
from torch import Tensor

from amci_core.models.base import Array, Density, Problem


def strictly_above(x: Tensor, bound: Tensor) -> Tensor:
    """x, moved up to the next floating point number above the bound where rounding put it there.

    A point on the bound of an open support has density zero, so one of them in millions makes a
    loss infinite or a weight NaN.
    """
    return torch.maximum(x, torch.nextafter(bound, torch.full_like(bound, torch.inf)))


def standard_normal_log_prob(z: Tensor) -> Tensor:
    """Log density of N(0, I) at z (*, D) in nats; result: (*)."""
    return -0.5 * z.square().sum(-1) - 0.5 * z.shape[-1] * math.log(2 * math.pi)


class GaussianModel(Problem):
    r"""The prior and the likelihood p(x) = N(0, Sigma_1), p(y | x) = N(x, I), in D dimensions.

    The posterior is N(P y, P) with P = (Sigma_1^-1 + I)^-1. A subclass adds f, theta and mu.

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, eq. (gaussian-model).

    Arguments:
        covariance: Sigma_1, symmetric and positive definite, shape (D, D).

    Attributes:
        dim: D.
        prior_covariance: Sigma_1, shape (D, D).
        posterior_covariance: P, shape (D, D).
        posterior_cholesky: The lower triangular C with C C^T = P, shape (D, D).

    Raises:
        ValueError: the covariance is not square, not symmetric or not positive definite.
    """

    def __init__(self, covariance: Sequence[Sequence[float]] | Array) -> None:
        self.prior_covariance = _checked_covariance(covariance)
        self.dim = len(self.prior_covariance)
        identity = np.eye(self.dim)
        # (Sigma^-1 + I)^-1 = (Sigma + I)^-1 Sigma, without an inverse of Sigma.
        product = np.linalg.solve(self.prior_covariance + identity, self.prior_covariance)
        self.posterior_covariance = _frozen((product + product.T) / 2)
        self.posterior_cholesky = _frozen(np.linalg.cholesky(self.posterior_covariance))
        cholesky = np.linalg.cholesky(self.prior_covariance)
        self._prior_log_scale = float(np.log(np.diag(cholesky)).sum())
        self._masters = {
            "prior_cholesky": cholesky,
            "prior_whitening": np.linalg.solve(cholesky, identity),
            "posterior_covariance": self.posterior_covariance,
            "posterior_cholesky": self.posterior_cholesky,
        }
        self._evidence_cholesky = np.linalg.cholesky(self.prior_covariance + identity)
        self._constants: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def posterior_mean(self, y: Tensor) -> Tensor:
        """E[x | y] = P y, in the units of x; y: (*, D), result: (*, D)."""
        return y @ self._constant("posterior_covariance", y).T

    def posterior(self, y: Tensor, theta: Tensor | None = None) -> Density:
        """p(x | y), the optimal q2, at y (*, D); it does not depend on theta."""
        mean = self.posterior_mean(y)
        if self.dim == 1:
            return NormalAbove(mean, float(self.posterior_cholesky[0, 0]))
        return _Normal(mean, self._constant("posterior_cholesky", y))

    def log_prior(self, x: Tensor) -> Tensor:
        whitened = x @ self._constant("prior_whitening", x).T
        return standard_normal_log_prob(whitened) - self._prior_log_scale

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        return standard_normal_log_prob(y - x)

    def _log_evidence(self, y: Tensor) -> Array:
        # y ~ N(0, Sigma_1 + I)
        factor = self._evidence_cholesky
        z = np.linalg.solve(factor, y.detach().cpu().double().numpy()[..., None])[..., 0]
        log_scale = np.log(np.diag(factor)).sum()
        return np.asarray(
            -0.5 * np.square(z).sum(-1) - 0.5 * self.dim * math.log(2 * math.pi) - log_scale
        )

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        z = self._standard_normal(n, generator)
        return z @ self._constant("prior_cholesky", z).T

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(x.shape, generator=generator, device=generator.device, dtype=x.dtype)
        return x + noise

    def _standard_normal(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.randn(
            n, self.dim, dtype=torch.float32, generator=generator, device=generator.device
        )

    def _constant(self, name: str, like: Tensor) -> Tensor:
        # One copy per type and device: training asks for them at every step.
        key = (name, like.dtype, like.device)
        if key not in self._constants:
            with torch.inference_mode(False):
                self._constants[key] = torch.tensor(
                    self._masters[name], dtype=like.dtype, device=like.device
                )
        return self._constants[key]


class _Normal:
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
        self._mean, self._scale, self._lower = mean, scale, lower
        self._log_mass = torch.zeros_like(mean)
        if lower is not None:
            self._log_mass = torch.as_tensor(log_ndtr(((mean - lower) / scale).numpy()))

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        uniform = 1 - torch.rand(*self.batch_shape, n, dtype=self._mean.dtype, generator=generator)
        log_survival = (uniform.log() + self._log_mass).numpy()
        x = self._mean - self._scale * torch.as_tensor(ndtri_exp(log_survival))
        if self._lower is not None:
            x = strictly_above(x, self._lower)
        return x[..., None], self.log_prob(x[..., None])

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.squeeze(-1)
        log_normal = standard_normal_log_prob(((x - self._mean) / self._scale)[..., None])
        log_density = log_normal - math.log(self._scale) - self._log_mass
        if self._lower is None:
            return log_density
        return log_density.where(x > self._lower, -math.inf)


def _checked_covariance(covariance: ArrayLike) -> Array:
    array = np.array(covariance, np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise ValueError(f"covariance: expected a square matrix, got shape {array.shape}")
    if not np.allclose(array, array.T) or not np.linalg.eigvalsh(array).min() > 0:
        raise ValueError(
            f"covariance: expected a symmetric, positive definite matrix, got {array.tolist()}"
        )
    return _frozen(array)


def _frozen(array: ArrayLike) -> Array:
    result = np.array(array, np.float64)
    result.flags.writeable = False
    return result
