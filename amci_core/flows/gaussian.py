r"""Flows of layers over N(0, I), and the Gaussian family: one such layer."""

from __future__ import annotations

__all__ = ["Affine", "FlowDensity", "FlowProposal", "Layer", "Triangular", "gaussian"]

from collections.abc import Sequence
from typing import Any

import normflows as nf
import torch
from torch import Tensor, nn

from amci_core.flows.conditioner import Conditioner, flat_cases
from amci_core.flows.density import Trainable, TrainableDensity
from amci_core.models.base import Problem
from amci_core.models.gaussian import standard_normal_log_prob


class Layer(nn.Module):
    """A layer of a flow, whose parameters are columns of what a conditioner predicts.

    Subclasses set `width`, the number of columns, and define `forward` and `inverse` on points
    (cases, draws, D), given what `prepare` makes of the columns; both return points and log
    determinants (cases, draws).
    """

    width: int

    def prepare(self, parameters: Tensor) -> Any:
        """What `forward` and `inverse` need of the parameters (cases, width); computed once."""
        return parameters

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        raise NotImplementedError


class FlowProposal(Trainable):
    """A flow with its conditioner network, a map from y (and theta) to the layers' parameters.

    Arguments:
        problem: The problem whose x it proposes.
        layers: The layers, first after the base first.
        reads_theta: Whether it depends on theta beside y.
        hidden: Widths of the conditioner's hidden layers; none makes it affine.
        activation: The conditioner's activation.
    """

    def __init__(
        self,
        problem: Problem,
        layers: Sequence[Layer],
        *,
        reads_theta: bool,
        hidden: tuple[int, ...],
        activation: str,
    ) -> None:
        super().__init__()
        self.problem, self.layers = problem, list(layers)
        # Stored weights have normflows' names.
        self.flow = nn.Module()
        self.flow.q0 = nf.distributions.DiagGaussian(problem.x.dim, trainable=False)
        self.flow.flows = nn.ModuleList(layers)
        self.conditioner = Conditioner(
            problem,
            out=sum(layer.width for layer in layers),
            hidden=hidden,
            activation=activation,
            reads_theta=reads_theta,
        )

    def initialize(self, generator: torch.Generator) -> None:
        self.conditioner.initialize(generator)

    def at(
        self, y: Tensor, theta: Tensor | None, component: TrainableDensity | None = None
    ) -> FlowDensity:
        return FlowDensity(self, y, theta)


class FlowDensity(TrainableDensity):
    """A flow at given y and theta; the conditioner has run, once per case."""

    def __init__(self, proposal: FlowProposal, y: Tensor, theta: Tensor | None) -> None:
        context = proposal.conditioner(*flat_cases(y, theta))
        proposal.refuse_nan(context, *proposal.flow.parameters())
        super().__init__(y.shape[:-1], dim=proposal.problem.x.dim, like=context)
        columns = context.split([layer.width for layer in proposal.layers], -1)
        self._layers = [
            (layer, layer.prepare(c)) for layer, c in zip(proposal.layers, columns, strict=True)
        ]

    def noise(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        like = self.like
        shape = (self.cases * n, self.dim)
        return torch.randn(shape, dtype=like.dtype, device=like.device, generator=generator)

    def from_uniform(self, u: Tensor) -> Tensor:
        found: Tensor = torch.special.ndtri(u.clamp(max=1 - torch.finfo(u.dtype).eps))
        return found

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        z = z.reshape(self.cases, -1, self.dim)
        log_q = standard_normal_log_prob(z)
        for layer, prepared in self._layers:
            z, log_det = layer(z, prepared)
            log_q = log_q - log_det
        return z.reshape(*self.batch_shape, -1, self.dim), log_q.reshape(*self.batch_shape, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:])
        z = x.reshape(self.cases, -1, self.dim)
        log_dets = []
        for layer, prepared in reversed(self._layers):
            z, log_det = layer.inverse(z, prepared)
            log_dets.append(log_det)
        return sum(log_dets, standard_normal_log_prob(z)).reshape(x.shape[:-1])


class Affine(Layer):
    """x = shift + exp(log_scale) z, coordinate by coordinate; or the shift alone.

    Arguments:
        dim: Number of dimensions D.
        scaled: Whether there is a scale beside the shift.
    """

    def __init__(self, dim: int, *, scaled: bool) -> None:
        super().__init__()
        self.dim = dim
        self.width = 2 * dim if scaled else dim

    def prepare(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Shift and scale (cases, 1, D), and the log determinant (cases, 1)."""
        shift = parameters[:, None, : self.dim]
        log_scale = parameters[:, None, self.dim :]
        if not log_scale.shape[-1]:
            log_scale = torch.zeros_like(shift)
        return shift, log_scale.exp(), log_scale.sum(-1)

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, scale, log_det = prepared
        return torch.addcmul(shift, scale, z), log_det

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, scale, log_det = prepared
        return (x - shift) / scale, -log_det


class Triangular(Layer):
    """x = shift + L z with a lower triangular L, whose diagonal is positive.

    Parameters: the shift, the logarithms of the diagonal, the entries below it in rows.

    Arguments:
        dim: Number of dimensions D.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.width = 2 * dim + dim * (dim - 1) // 2

    def prepare(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The shift (cases, 1, D), L (cases, D, D), and its log determinant (cases, 1)."""
        shift, log_diagonal, below = parameters.split(
            [self.dim, self.dim, self.width - 2 * self.dim], dim=-1
        )
        lower = torch.diag_embed(log_diagonal.exp())
        rows, columns = torch.tril_indices(self.dim, self.dim, offset=-1, device=shift.device)
        lower[:, rows, columns] = below
        return shift[:, None], lower, log_diagonal.sum(-1, keepdim=True)

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, lower, log_det = prepared
        return shift + z @ lower.mT, log_det

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, lower, log_det = prepared
        z = torch.linalg.solve_triangular(lower, (x - shift).mT, upper=False).mT
        return z, -log_det


def gaussian(
    problem: Problem, *, reads_theta: bool, hidden: tuple[int, ...], activation: str
) -> FlowProposal:
    """A Gaussian, its mean and the factor of its covariance from the conditioner.

    Without hidden layers the mean is affine in y: the exact family of a Gaussian model's
    posterior. Arguments are those of `FlowProposal`.
    """
    dim = problem.x.dim
    layer = Affine(1, scaled=True) if dim == 1 else Triangular(dim)
    return FlowProposal(
        problem, [layer], reads_theta=reads_theta, hidden=hidden, activation=activation
    )
