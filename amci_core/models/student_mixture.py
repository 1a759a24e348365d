r"""Mixtures of Student's t densities, fitted to weighted points or predicted by a network.

References:
    Cappe, Douc, Guillin, Marin, Robert, Adaptive importance sampling in general mixture classes,
    Statistics and Computing 18, 2008.
    Arthur, Vassilvitskii, k-means++: the advantages of careful seeding, 2007.
"""

from __future__ import annotations

__all__ = ["StudentMixture", "cholesky"]

from typing import NamedTuple

import torch
from scipy.special import stdtrit
from torch import Tensor
from torch.distributions import StudentT
from torch.nn.functional import one_hot

# Degrees of freedom of fitted components: tails are heavy, and variances finite.
DEGREES = 4.0


class StudentMixture(NamedTuple):
    r"""The density sum_k w_k T_k(x), T_k that of x = centre_k + A_k s.

    The coordinates of s are independent, each Student's t with nu_k degrees of freedom. Shapes: K
    components of points in D dimensions; batches (*) of mixtures broadcast.

    Arguments:
        log_weights: log w_k in nats, (*, K).
        centres: (*, K, D).
        scales: A_k, lower triangular matrices (*, K, D, D), or their diagonals (*, K, D).
        degrees: nu_k, (K,).

    Example:
        >>> x = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0))
        >>> weights = torch.full((1000,), 1e-3)
        >>> q = StudentMixture.fit(x, weights, 8, torch.Generator().manual_seed(1))
        >>> q.points(torch.rand(8, 50, 2)).shape, q.log_prob(x).shape
        (torch.Size([8, 50, 2]), torch.Size([1000]))
    """

    log_weights: Tensor
    centres: Tensor
    scales: Tensor
    degrees: Tensor

    @classmethod
    def fit(
        cls,
        x: Tensor,
        weights: Tensor,
        components: int,
        generator: torch.Generator,
        *,
        log_density: Tensor | None = None,
    ) -> StudentMixture:
        """A component for each cluster of weighted points, in equal shares; by k-means++.

        Arguments:
            x: The points, (n, D), of about the same scale in all coordinates.
            weights: Their weights, (n,), which sum to one.
            components: How many to start from; fewer if points or weights do not suffice.
            generator: Chooses the centres that clustering starts from.
            log_density: The logarithm of n times the density that the points are drawn from, (n,),
                in nats: no component is narrower than the space between its points. None: points
                are dense enough.
        """
        dim = x.shape[-1]
        centres = x[torch.multinomial(weights, 1, generator=generator)]
        away = (x - centres).square().sum(-1)
        for _ in range(components - 1):
            if not (weights * away).sum() > 0:
                break
            new = x[torch.multinomial(weights * away, 1, generator=generator)]
            centres, away = torch.cat([centres, new]), away.minimum((x - new).square().sum(-1))
        for _ in range(5):
            masses = one_hot(torch.cdist(x, centres).argmin(-1), len(centres)).T * weights
            masses = masses[masses.sum(-1) > 0]
            members = masses / masses.sum(-1, keepdim=True)
            centres = members @ x
        z = x - centres[:, None]
        covariance = (members[..., None] * z).mT @ z
        if log_density is not None:
            # No covariance is known better than by its points, nor places than by the space
            # between them.
            known = (1 / members.square().sum(-1))[:, None, None]
            spacing = (-2 / dim * (members @ log_density)).exp()[:, None, None]
            prior = (dim + 2) * spacing * torch.eye(dim, dtype=x.dtype)
            covariance = (known * covariance + prior) / (known + dim + 2)
        equal = centres.new_zeros(len(centres)).log_softmax(0)
        return cls(equal, centres, cholesky(covariance), torch.full_like(equal, DEGREES))

    def points(self, u: Tensor) -> Tensor:
        """Points x (*, K, n, D) of all components for u (*, K, n, D) in the unit cube."""
        # The cube is open: its faces lie at infinity.
        u = u.clamp(min=1e-300)
        s = torch.from_numpy(stdtrit(self.degrees[:, None, None].numpy(), u.numpy()))
        return self.place(s)

    def place(self, s: Tensor) -> Tensor:
        """The points x (*, K, n, D) of standardized ones s, in each component."""
        scaled = self.scales[..., None, :] * s if self._diagonal else s @ self.scales.mT
        return self.centres[..., None, :] + scaled

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density in nats at x (*, n, D), (*, n)."""
        return (self.log_weights[..., None] + self.log_each(x)).logsumexp(-2)

    def log_each(self, x: Tensor) -> Tensor:
        """The log density of each component in nats at x (*, n, D), (*, K, n)."""
        away = x[..., None, :, :] - self.centres[..., None, :]
        if self._diagonal:
            s, diagonal = away / self.scales[..., None, :], self.scales
        else:
            s = torch.linalg.solve_triangular(self.scales, away.mT, upper=False).mT
            diagonal = self.scales.diagonal(dim1=-2, dim2=-1)
        standard = StudentT(self.degrees[:, None, None], validate_args=False)
        log_s: Tensor = standard.log_prob(s).sum(-1)
        return log_s - diagonal.log().sum(-1)[..., None]

    @property
    def _diagonal(self) -> bool:
        return self.scales.ndim == self.centres.ndim


def cholesky(covariance: Tensor) -> Tensor:
    """The Cholesky factors (*, D, D), also of covariances on a point."""
    size = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None].clamp(min=1e-300)
    least = 1e-12 * size * torch.eye(covariance.shape[-1], dtype=covariance.dtype)
    factor: Tensor = torch.linalg.cholesky(covariance + least)
    return factor
