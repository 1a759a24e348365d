r"""Base distributions of normflows, with noise from a generator of the caller's."""

from __future__ import annotations

__all__ = ["StandardGaussian", "UnitUniform"]

import math

import normflows as nf
import torch
from torch import Tensor

from amci_core.models.base import standard_normal_log_prob


class UnitUniform(nf.distributions.base.BaseDistribution):
    """The uniform distribution on the unit cube, end 1 included and end 0 left out.

    normflows' own keeps its bounds and densities in float32 and draws from the global generator.

    Arguments:
        dim: Number of dimensions D.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.shape = (dim,)

    def noise(self, n: int, *, like: Tensor, generator: torch.Generator | None) -> Tensor:
        """n points uniform on (0, 1]^D, (n, D): zero, the end of a tail, is left out."""
        return 1 - torch.rand(
            n, *self.shape, dtype=like.dtype, device=like.device, generator=generator
        )

    def from_uniform(self, u: Tensor) -> Tensor:
        """Base points out of uniform ones, (n, D)."""
        return u

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        outside = (z != z.clamp(0, 1)).any(-1)
        return torch.zeros_like(z[..., 0]).masked_fill(outside, -math.inf)


class StandardGaussian(nf.distributions.DiagGaussian):
    """normflows' Gaussian base, fixed at N(0, I), of which its `log_prob` makes use."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, trainable=False)

    def noise(self, n: int, *, like: Tensor, generator: torch.Generator | None) -> Tensor:
        """n standard normal points, (n, D)."""
        return torch.randn(
            n, *self.shape, dtype=like.dtype, device=like.device, generator=generator
        )

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        return standard_normal_log_prob(z)

    def from_uniform(self, u: Tensor) -> Tensor:
        """Base points out of uniform ones on (0, 1]^D, (n, D): their normal quantiles."""
        return torch.special.ndtri(u.clamp(max=1 - torch.finfo(u.dtype).eps))
