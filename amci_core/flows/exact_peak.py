r"""The exact optimal proposal of the product peak: truncated Cauchy distributions."""

from __future__ import annotations

__all__ = ["TruncatedCauchy"]

import torch
from torch import Tensor

from amci_core.flows.density import ConditionalDensity, Proposal
from amci_core.models.peak import ProductPeak, split_theta


class TruncatedCauchy(Proposal):
    """q1 of the product peak: a Cauchy distribution a coordinate, truncated to [0, 1].

    Arguments:
        problem: The problem.
    """

    def __init__(self, problem: ProductPeak) -> None:
        self.problem = problem

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        assert theta is not None
        return _Cauchy(self.problem, theta)


class _Cauchy(ConditionalDensity):
    def __init__(self, problem: ProductPeak, theta: Tensor) -> None:
        super().__init__(theta.shape[:-1])
        self._problem = problem
        self._centre, self._sharpness = split_theta(theta[..., None, :])
        self._low = torch.atan(-self._sharpness * self._centre)
        self._width = torch.atan(self._sharpness * (1 - self._centre)) - self._low

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        shape = (*self.batch_shape, n, self._centre.shape[-1])
        uniform = torch.rand(shape, dtype=self._low.dtype, generator=generator)
        angle = self._low + uniform * self._width
        x = (self._centre + angle.tan() / self._sharpness).clamp(0, 1)
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        squared = (self._sharpness * (x - self._centre)).square()
        log_density = (self._sharpness / self._width).log() - squared.log1p()
        return log_density.sum(-1) + self._problem.log_prior(x)
