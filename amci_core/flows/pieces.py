r"""A Gaussian cut to the complement of an orthant: where x is not above a bound everywhere.

The set falls into D pieces: x belongs to the piece i of its first coordinate that is not above its
bound. Within a piece coordinates are drawn one after the other, x_i first, each from its Gaussian
given those before: x_i cut to what lies below its bound, x_1, ..., x_{i-1} to what lies above, the
others as they are. So

    log q(x) = log pi_i + sum_j log N(x_j | before) - sum_cut log Pr(its side | before),

and weights vary as little as the last sum does about its mean, which pi_i takes up.

References:
    Geweke, Hajivassiliou and Keane's simulator draws an orthant in this way; see
    `amci_core.models.gaussian.log_orthant`. The pieces are this project's.
"""

from __future__ import annotations

__all__ = ["ComplementGaussian"]

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.special import log_ndtr, ndtr, ndtri

from amci_core.flows.conditioner import Conditioner, flat_cases
from amci_core.flows.density import Trainable, TransformedDensity
from amci_core.flows.supports import half_line
from amci_core.models.base import Complement, Problem
from amci_core.models.densities import standard_normal_log_prob

# Standardized bounds are limited to this, beyond which a side's probability is no float64.
FARTHEST = 36.0
# The bound of a coordinate without one; infinity has no gradient.
UNCUT = 1e30
# The logarithm of a piece's weight is a guess plus this much of a network's output.
OF_NETWORK = 3.0


class ComplementGaussian(Trainable):
    """Creates a Gaussian on the complement of f's orthant; its mean is affine in y.

    Arguments:
        problem: The complement of a problem whose f vanishes unless x > bound in all coordinates.
        network: `hidden` and `activation` of the network for the weights of the pieces, see
            `Conditioner`.

    Raises:
        ValueError: the problem is no complement, or its original's f lives elsewhere.
    """

    def __init__(self, problem: Problem, **network: Any) -> None:
        super().__init__()
        if not isinstance(problem, Complement):
            raise ValueError(f"problem: expected a complement, M - f, got {problem.name}")
        self.original, dim = problem.original, problem.x.dim
        affine: Any = {"hidden": (), "activation": "silu", "reads_theta": False}
        self.mean = Conditioner(problem, out=dim, **affine)
        self.weights = Conditioner(problem, out=dim, **network)
        # Of the covariance: the logarithms of the factor's diagonal stand on the diagonal.
        self.factor = nn.Parameter(torch.zeros(dim, dim))

    def initialize(self, generator: torch.Generator) -> None:
        self.mean.initialize(generator)
        self.weights.initialize(generator)

    def at(self, y: Tensor, theta: Tensor | None) -> ComplementDensity:
        return ComplementDensity(self, y, theta)


class ComplementDensity(TransformedDensity):
    """The pieces at given y and theta; computed in float64.

    Within a piece all coordinates but the first are mirrored, so that every cut coordinate lies
    below its bound: it is a standard normal z below an end that depends on those before.
    """

    def __init__(self, proposal: ComplementGaussian, y: Tensor, theta: Tensor | None) -> None:
        y_rows, theta_rows = flat_cases(y, theta)
        mean, free = proposal.mean(y_rows, None), proposal.weights(y_rows, theta_rows)
        super().__init__(y.shape[:-1], dim=mean.shape[-1], like=mean)
        bound, _ = half_line(proposal.original, theta_rows)
        self._mean, self._bound = mean.double(), bound.to(self.like).double()
        factor = proposal.factor.double()
        self._log_det = factor.diag().sum()
        factor = factor.tril(-1) + factor.diag().exp().diag()
        pieces = torch.arange(self.dim)
        # Row i: the coordinate i, then the others.
        self._order = torch.tensor([[i, *(j for j in pieces if j != i)] for i in pieces])
        self._mirror = torch.where(pieces == 0, 1.0, -1.0).to(factor)
        rows = self._mirror[:, None] * factor[self._order]
        self._factors = torch.linalg.cholesky(rows @ rows.mT)
        self._inverses = torch.linalg.solve_triangular(
            self._factors, torch.eye(self.dim).to(factor), upper=False
        )
        # In piece i the coordinates at steps 0 to i are cut, (cases, piece, step).
        ends = self._mirror * (self._bound - self._mean)[:, self._order]
        self._ends = ends.masked_fill(pieces > pieces[:, None], UNCUT)
        # About the masses of the pieces: each cut coordinate at its mean.
        _, log_masses = self._walk(pieces.expand(self.cases, -1), lambda step, end: -_mills(end))
        self._log_weights = (log_masses + OF_NETWORK * free.double()).log_softmax(-1)

    def _walk(
        self, piece: Tensor, following: Callable[[int, Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Goes through the coordinates of points in the order of their pieces.

        Arguments:
            piece: The piece of each point, (cases, n).
            following: Takes a step and the end that z lies below, (cases, n); gives z.

        Returns:
            z (cases, n, D), and the sum of log Pr(z < end) over all steps, (cases, n).
        """
        factors = self._factors[piece]
        ends = self._ends.gather(1, piece[..., None].expand(*piece.shape, self.dim))
        z: list[Tensor] = []
        log_sides = torch.zeros_like(ends[..., 0])
        for step in range(self.dim):
            row = factors[..., step, :]
            before = sum(row[..., j] * z_j for j, z_j in enumerate(z))
            end = ((ends[..., step] - before) / row[..., step]).clamp(-FARTHEST, FARTHEST)
            z.append(following(step, end))
            log_sides = log_sides + log_ndtr(end)
        return torch.stack(z, -1), log_sides

    def _forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        u = z.double()
        # The first coordinate chooses the piece, and is then stretched to (0, 1] again.
        weights = self._log_weights.exp()
        tops = weights.cumsum(-1)
        piece = torch.searchsorted(tops[:, :-1].contiguous(), u[..., 0].contiguous())
        weight = weights.gather(-1, piece)
        first = (u[..., 0] - tops.gather(-1, piece) + weight) / weight
        u = torch.cat([first[..., None], u[..., 1:]], -1)
        u = u.clamp(torch.finfo(u.dtype).tiny, 1 - torch.finfo(u.dtype).eps)
        normal, _ = self._walk(piece, lambda step, end: ndtri(u[..., step] * ndtr(end)))
        ordered = self._mirror * (self._factors[piece] * normal[..., None, :]).sum(-1)
        x = torch.zeros_like(ordered).scatter(-1, self._order[piece], ordered)
        x = self._on_side(x + self._mean[:, None], piece).to(self.like)
        return x, self._log_prob(x)

    def _on_side(self, x: Tensor, piece: Tensor) -> Tensor:
        """Points that rounding has left on their piece's side of each bound."""
        bound = self._bound.to(self.like)[:, None].expand_as(x)
        above = bound.nextafter(torch.full_like(bound, torch.inf))
        number = torch.arange(self.dim)
        x = torch.where(number == piece[..., None], torch.minimum(x, bound), x)
        return torch.where(number < piece[..., None], torch.maximum(x, above), x)

    def _log_prob(self, x: Tensor) -> Tensor:
        x = x.double()
        below = x <= self._bound[:, None]
        piece = below.byte().argmax(-1)
        ordered = self._mirror * (x - self._mean[:, None]).gather(-1, self._order[piece])
        z = (self._inverses[piece] * ordered[..., None, :]).sum(-1)
        _, log_sides = self._walk(piece, lambda step, end: z[..., step])
        log_q: Tensor = self._log_weights.gather(-1, piece) + standard_normal_log_prob(z)
        log_q = (log_q - self._log_det - log_sides).masked_fill(~below.any(-1), -torch.inf)
        return log_q.to(self.like)


def _mills(end: Tensor) -> Tensor:
    """Minus the mean of a standard normal below an end."""
    log_density = standard_normal_log_prob(end[..., None])
    mean: Tensor = (log_density - log_ndtr(end)).exp()
    return mean
