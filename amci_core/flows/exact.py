r"""Exact optimal proposals, for problems that have them in closed form: the "oracle" variant.

With them every term of AMCI has zero variance (Theorem 1 of the paper).
"""

from __future__ import annotations

__all__ = ["PosteriorNormal", "TruncatedPosterior"]

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp
from torch import Tensor

from amci_core.flows.density import ConditionalDensity, Proposal
from amci_core.models.base import standard_normal_log_prob, strictly_above
from amci_core.models.gaussian import GaussianModel


class PosteriorNormal(Proposal):
    """q2 of a Gaussian model: its posterior, N(P y, P), in any dimension."""

    def __init__(self, problem: GaussianModel) -> None:
        self.problem = problem

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        mean = self.problem.posterior_mean(y)
        if self.problem.dim == 1:
            return _NormalAbove(mean, float(self.problem.posterior_cholesky[0, 0]), lower=None)
        return _Normal(mean, self.problem.posterior_cholesky)


class TruncatedPosterior(Proposal):
    """q1 of a one-dimensional Gaussian tail problem: its posterior, truncated to x > theta.

    Raises:
        ValueError: the problem has more dimensions; its q1 then has no closed form.
    """

    def __init__(self, problem: GaussianModel) -> None:
        if problem.dim != 1:
            raise ValueError(
                f"problem: expected one in one dimension, got {problem.name} with {problem.dim}: "
                "its truncated posterior has no closed form"
            )
        self.problem = problem

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        mean = self.problem.posterior_mean(y)
        return _NormalAbove(mean, float(self.problem.posterior_cholesky[0, 0]), lower=theta)


class _Normal(ConditionalDensity):
    """A normal in D dimensions: mean (*, D) and the Cholesky factor of its covariance (D, D)."""

    def __init__(self, mean: Tensor, cholesky: NDArray[np.float64]) -> None:
        super().__init__(mean.shape[:-1])
        self.mean = mean
        self._cholesky = mean.new_tensor(cholesky)
        self._log_scale = float(np.log(np.diag(cholesky)).sum())

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        shape = (*self.batch_shape, n, self.mean.shape[-1])
        z = torch.randn(shape, dtype=self.mean.dtype, generator=generator)
        x = self.mean[..., None, :] + z @ self._cholesky.T
        return x, standard_normal_log_prob(z) - self._log_scale

    def log_prob(self, x: Tensor) -> Tensor:
        centred = (x - self.mean[..., None, :]).mT
        z = torch.linalg.solve_triangular(self._cholesky, centred, upper=False).mT
        return standard_normal_log_prob(z) - self._log_scale


class _NormalAbove(ConditionalDensity):
    """A one-dimensional normal, truncated to x > lower where a lower bound is given.

    Points are drawn through the logarithm of the survival function, which keeps its digits in the
    tail.
    """

    def __init__(self, mean: Tensor, scale: float, *, lower: Tensor | None) -> None:
        super().__init__(mean.shape[:-1])
        self.mean, self.scale, self.lower = mean, scale, lower
        if lower is None:
            self._log_mass = torch.zeros_like(mean)
        else:
            standardized = ((lower - mean) / scale).numpy()
            self._log_mass = torch.as_tensor(log_ndtr(-standardized))

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        uniform = 1 - torch.rand(*self.batch_shape, n, dtype=self.mean.dtype, generator=generator)
        log_survival = (uniform.log() + self._log_mass).numpy()
        x = self.mean - self.scale * torch.as_tensor(ndtri_exp(log_survival))
        if self.lower is not None:
            x = strictly_above(x, self.lower)
        return x[..., None], self.log_prob(x[..., None])

    def log_prob(self, x: Tensor) -> Tensor:
        z = (x - self.mean[..., None, :]).squeeze(-1) / self.scale
        constant = math.log(self.scale) + 0.5 * math.log(2 * math.pi)
        log_density = -0.5 * z.square() - constant - self._log_mass
        if self.lower is None:
            return log_density
        return log_density.where(x.squeeze(-1) > self.lower, -math.inf)
