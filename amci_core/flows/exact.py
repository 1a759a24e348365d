r"""Exact optimal proposals, for problems that have them in closed form: the "oracle" variant.

With them every term of AMCI has zero variance (Theorem 1 of the paper).
"""

from __future__ import annotations

__all__ = ["PosteriorNormal", "TruncatedPosterior"]

import math

import torch
from scipy.special import log_ndtr, ndtri_exp
from torch import Tensor

from amci_core.flows.base import ConditionalDensity, Proposal
from amci_core.models.base import strictly_above
from amci_core.models.tail import GaussianTail


class PosteriorNormal(Proposal):
    """q2 of a Gaussian tail problem: its posterior, N(y / 2, 1 / 2)."""

    def __init__(self, problem: GaussianTail) -> None:
        self.problem = problem

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        return _NormalAbove(y / 2, self.problem.posterior_scale, lower=None)


class TruncatedPosterior(Proposal):
    """q1 of a Gaussian tail problem: its posterior, truncated to x > theta."""

    def __init__(self, problem: GaussianTail) -> None:
        self.problem = problem

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        return _NormalAbove(y / 2, self.problem.posterior_scale, lower=theta)


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
