r"""A Gaussian unknown, seen through Gaussian noise: the model of the tail integrals, without f."""

from __future__ import annotations

__all__ = ["GaussianModel"]

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from amci_core.models.base import Problem, standard_normal_log_prob


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

    def __init__(self, covariance: Sequence[Sequence[float]] | NDArray[np.float64]) -> None:
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
        }
        self._evidence_cholesky = np.linalg.cholesky(self.prior_covariance + identity)
        self._constants: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def posterior_mean(self, y: Tensor) -> Tensor:
        """E[x | y] = P y, in the units of x; y: (*, D), result: (*, D)."""
        return y @ self._constant("posterior_covariance", y).T

    def log_prior(self, x: Tensor) -> Tensor:
        whitened = x @ self._constant("prior_whitening", x).T
        return standard_normal_log_prob(whitened) - self._prior_log_scale

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        return standard_normal_log_prob(y - x)

    def _log_evidence(self, y: Tensor) -> NDArray[np.float64]:
        # y ~ N(0, Sigma_1 + I)
        factor = self._evidence_cholesky
        z = np.linalg.solve(factor, y.detach().cpu().double().numpy()[..., None])[..., 0]
        log_scale = np.log(np.diag(factor)).sum()
        return -0.5 * np.square(z).sum(-1) - 0.5 * self.dim * math.log(2 * math.pi) - log_scale

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


def _checked_covariance(covariance: ArrayLike) -> NDArray[np.float64]:
    array = np.array(covariance, np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise ValueError(f"covariance: expected a square matrix, got shape {array.shape}")
    if not np.allclose(array, array.T) or not np.linalg.eigvalsh(array).min() > 0:
        raise ValueError(
            f"covariance: expected a symmetric, positive definite matrix, got {array.tolist()}"
        )
    return _frozen(array)


def _frozen(array: ArrayLike) -> NDArray[np.float64]:
    result = np.array(array, np.float64)
    result.flags.writeable = False
    return result
