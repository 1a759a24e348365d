r"""The Gaussian family: shift and scale, or a triangular matrix, from a conditioner."""

from __future__ import annotations

__all__ = ["Affine", "Triangular", "gaussian"]

from typing import NamedTuple

import torch
from torch import Tensor

from amci_core.flows.conditioner import Conditioner, Flow, FlowProposal, Layer
from amci_core.models.base import Problem


class Scaled(NamedTuple):
    """Shift of every case, and its scale, a factor or a triangular matrix, with log|det|.

    Arguments:
        shift: (cases, 1, D).
        scale: (cases, 1, D), or (cases, D, D).
        log_det: (cases, 1).
    """

    shift: Tensor
    scale: Tensor
    log_det: Tensor


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

    def prepare(self, parameters: Tensor) -> Scaled:
        shift = parameters[:, None, : self.dim]
        log_scale = parameters[:, None, self.dim :]
        if not log_scale.shape[-1]:
            log_scale = torch.zeros_like(shift)
        return Scaled(shift, log_scale.exp(), log_scale.sum(-1))

    def forward(self, z: Tensor, prepared: Scaled) -> tuple[Tensor, Tensor]:
        return torch.addcmul(prepared.shift, prepared.scale, z), prepared.log_det

    def inverse(self, x: Tensor, prepared: Scaled) -> tuple[Tensor, Tensor]:
        return (x - prepared.shift) / prepared.scale, -prepared.log_det


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

    def prepare(self, parameters: Tensor) -> Scaled:
        shift, log_diagonal, below = parameters.split(
            [self.dim, self.dim, self.width - 2 * self.dim], dim=-1
        )
        lower = torch.diag_embed(log_diagonal.exp())
        rows, columns = torch.tril_indices(self.dim, self.dim, offset=-1, device=shift.device)
        lower[:, rows, columns] = below
        return Scaled(shift[:, None], lower, log_diagonal.sum(-1, keepdim=True))

    def forward(self, z: Tensor, prepared: Scaled) -> tuple[Tensor, Tensor]:
        return prepared.shift + z @ prepared.scale.mT, prepared.log_det

    def inverse(self, x: Tensor, prepared: Scaled) -> tuple[Tensor, Tensor]:
        centred = (x - prepared.shift).mT
        z = torch.linalg.solve_triangular(prepared.scale, centred, upper=False).mT
        return z, -prepared.log_det


def gaussian(
    problem: Problem, *, reads_theta: bool, hidden: tuple[int, ...], activation: str
) -> FlowProposal:
    """A Gaussian, its mean and the factor of its covariance from the conditioner.

    Without hidden layers the mean is affine in y: the exact family of a Gaussian model's
    posterior.

    Arguments:
        problem: The problem whose x it proposes.
        reads_theta: Whether it depends on theta beside y.
        hidden: Widths of the conditioner's hidden layers; none makes it affine.
        activation: The conditioner's activation.
    """
    dim = problem.x.dim
    flow = Flow(dim, [Affine(1, scaled=True) if dim == 1 else Triangular(dim)])
    conditioner = Conditioner(
        y=problem.y,
        theta=problem.theta if reads_theta else None,
        out=flow.width,
        hidden=hidden,
        activation=activation,
    )
    return FlowProposal(problem, flow=flow, conditioner=conditioner)
