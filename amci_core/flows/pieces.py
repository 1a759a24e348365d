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

from typing import Any

import torch
from torch import Tensor, nn
from torch.special import log_ndtr, ndtr, ndtri

from amci_core.flows.conditioner import Conditioner, flat_cases
from amci_core.flows.density import Trainable, TransformedDensity
from amci_core.flows.supports import half_line
from amci_core.models.base import Complement, Problem
from amci_core.models.gaussian import standard_normal_log_prob

# Standardized bounds are limited to this, beyond which a side's probability is no float64.
FARTHEST = 36.0
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
    """The pieces at given y and theta; computed in float64."""

    def __init__(self, proposal: ComplementGaussian, y: Tensor, theta: Tensor | None) -> None:
        y_rows, theta_rows = flat_cases(y, theta)
        mean, free = proposal.mean(y_rows, None), proposal.weights(y_rows, theta_rows)
        super().__init__(y.shape[:-1], dim=mean.shape[-1], like=mean)
        bound, _ = half_line(proposal.original, theta_rows)
        self._mean, self._bound = mean.double(), bound.to(self.like).double()
        factor = proposal.factor.double()
        factor = factor.tril(-1) + factor.diag().exp().diag()
        dim = range(self.dim)
        # Row i: the coordinate i, then the others, and the factor of the covariance in this order.
        self._order = torch.tensor([[i, *(j for j in dim if j != i)] for i in dim])
        rows = factor[self._order]
        self._factors = torch.linalg.cholesky(rows @ rows.mT)
        log_weights = self._guess() + OF_NETWORK * free.double()
        self._log_weights = log_weights.log_softmax(-1)

    def _guess(self) -> Tensor:
        """About the logarithm of each piece's mass, (cases, D): along the means of its factors."""
        found = []
        for i in range(self.dim):
            piece = torch.full((len(self._mean), 1), i)
            z: list[Tensor] = []
            log_mass = torch.zeros_like(self._mean[:, :1])
            for step in range(i + 1):
                end, _ = self._end(piece, z, step)
                end = end if step == 0 else -end
                log_side = log_ndtr(end)
                log_mass = log_mass + log_side
                # The mean of a standard normal below `end`, or above -end.
                mills = (standard_normal_log_prob(end[..., None]) - log_side).exp()
                z.append(-mills if step == 0 else mills)
            found.append(log_mass)
        return torch.cat(found, -1)

    def _end(self, piece: Tensor, z: list[Tensor], step: int) -> tuple[Tensor, Tensor]:
        """The bound of the coordinate drawn at a step, given those before: (cases, n).

        It is standardized; with the logarithm of the coordinate's standard deviation.
        """
        place = self._order[piece, step]
        row = self._factors[piece, step]  # (cases, n, D)
        gap = (self._bound - self._mean).gather(-1, place)
        before = sum(row[..., j] * z_j for j, z_j in enumerate(z))
        scale = row[..., step]
        return ((gap - before) / scale).clamp(-FARTHEST, FARTHEST), scale.log()

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        z = z.double().reshape(self.cases, -1, self.dim)
        # The first coordinate chooses the piece, and is then stretched to (0, 1] again.
        first, weights = z[..., 0].contiguous(), self._log_weights.exp()
        ends = weights.cumsum(-1)
        piece = torch.searchsorted(ends[:, :-1].contiguous(), first)
        width = weights.gather(-1, piece)
        stretched = (first - ends.gather(-1, piece) + width) / width
        tiny, most = torch.finfo(z.dtype).tiny, 1 - torch.finfo(z.dtype).eps
        normal: list[Tensor] = []
        for step in range(self.dim):
            u = (stretched if step == 0 else z[..., step]).clamp(tiny, most)
            end, _ = self._end(piece, normal, step)
            above = step <= piece
            side = ndtr(end) if step == 0 else torch.where(above, ndtr(-end), 1.0)
            point = ndtri(u * side)
            normal.append(point if step == 0 else -point)
        stacked = torch.stack(normal, -1)
        ordered = (self._factors[piece] @ stacked[..., None])[..., 0]
        x = torch.zeros_like(ordered).scatter(-1, self._order[piece], ordered)
        x = self._on_side(x + self._mean[:, None], piece)
        x = x.reshape(*self.batch_shape, -1, self.dim).to(self.like)
        return x, self.log_prob(x)

    def _on_side(self, x: Tensor, piece: Tensor) -> Tensor:
        """Points that rounding has left on their piece's side of each bound."""
        bound = self._bound.to(self.like)[:, None].expand_as(x)
        above = bound.nextafter(torch.full_like(bound, torch.inf))
        number = torch.arange(self.dim)
        x = torch.where(number == piece[..., None], torch.minimum(x, bound), x)
        return torch.where(number < piece[..., None], torch.maximum(x, above), x)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:]).reshape(self.cases, -1, self.dim).double()
        below = x <= self._bound[:, None]
        piece = below.byte().argmax(-1)
        ordered = (x - self._mean[:, None]).gather(-1, self._order[piece])
        log_q = self._log_weights.gather(-1, piece)
        normal: list[Tensor] = []
        for step in range(self.dim):
            end, log_scale = self._end(piece, normal, step)
            row = self._factors[piece, step]
            before = sum(row[..., j] * z_j for j, z_j in enumerate(normal))
            normal.append((ordered[..., step] - before) / row[..., step])
            cut = log_ndtr(end) if step == 0 else torch.where(step <= piece, log_ndtr(-end), 0.0)
            log_q = log_q - log_scale - cut
        log_q = log_q + standard_normal_log_prob(torch.stack(normal, -1))
        found: Tensor = log_q.masked_fill(~below.any(-1), -torch.inf).to(self.like)
        return found.reshape(*self.batch_shape, -1)
