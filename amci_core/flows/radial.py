r"""Radial flow layers whose parameters come from a context.

A radial layer moves points towards or away from a centre z0:

    x = z + b (z - z0) / (a + r),    r = |z - z0|,    a > 0,  b > -a.

With s = |x - z0| = r (1 + b / (a + r)), r solves r^2 + (a + b - s) r - a s = 0, which has one
positive root; it is computed in the form that loses no digits to cancellation.
"""

from __future__ import annotations

__all__ = ["Radial", "radial"]

from typing import Any

from torch import Tensor
from torch.nn.functional import softplus

from amci_core.flows.gaussian import Affine, FlowProposal, Layer
from amci_core.models.base import Problem

SMALLEST = 1e-3


class Radial(Layer):
    """A radial layer with a closed-form inverse; normflows' own has neither inverse nor context.

    References:
        Rezende, Mohamed, Variational Inference with Normalizing Flows, 2015, section 4.1.

    Arguments:
        dim: Number of dimensions D.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.width = dim + 2

    def prepare(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Centre (cases, 1, D), a and b (cases, 1)."""
        centre = parameters[:, None, : self.dim]
        a = SMALLEST + softplus(parameters[:, None, self.dim])
        # b > -a keeps the map increasing; b + a is bounded away from 0, so it stays invertible.
        b = SMALLEST + softplus(parameters[:, None, self.dim + 1]) - a
        return centre, a, b

    def _log_det(self, r: Tensor, a: Tensor, b: Tensor) -> Tensor:
        h = b / (a + r)
        radial_part = (h * a / (a + r)).log1p()
        return (self.dim - 1) * h.log1p() + radial_part

    def forward(self, z: Tensor, prepared: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        centre, a, b = prepared
        offset = z - centre
        r = self._norm(offset)
        return z + (b / (a + r))[..., None] * offset, self._log_det(r, a, b)

    def inverse(self, x: Tensor, prepared: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        centre, a, b = prepared
        offset = x - centre
        s = self._norm(offset)
        p = a + b - s
        q = p.abs() + (p.square() + 4 * a * s).sqrt()
        r = (2 * a * s / q).where(p > 0, q / 2)
        return centre + offset / (1 + b / (a + r))[..., None], -self._log_det(r, a, b)

    def _norm(self, offset: Tensor) -> Tensor:
        return offset.abs().squeeze(-1) if self.dim == 1 else offset.norm(dim=-1)


def radial(
    problem: Problem,
    *,
    reads_theta: bool,
    layers: int,
    hidden: tuple[int, ...],
    activation: str,
    shift: bool,
) -> FlowProposal:
    """The paper's family: radial layers over N(0, I), and a shift where they must translate.

    Arguments:
        problem: The problem whose x it proposes.
        reads_theta: Whether it depends on theta beside y.
        layers: Number of radial layers.
        hidden: Widths of the conditioner's hidden layers.
        activation: The conditioner's activation.
        shift: Whether a translation follows (radial layers cannot translate).
    """
    stack: list[Layer] = [Radial(problem.x.dim) for _ in range(layers)]
    if shift:
        stack.append(Affine(problem.x.dim, scaled=False))
    network: dict[str, Any] = {"hidden": hidden, "activation": activation}
    return FlowProposal(problem, stack, reads_theta=reads_theta, **network)
