r"""What a proposal is, and how one is built from a normflows flow and a conditioner network.

A flow's parameters depend on (y, theta) alone. So the conditioner runs once per (y, theta), its
output is the flow's context, and every layer reads its own columns of it. Rows of points are
grouped by case: with contexts of shape (cases, P), points have shape (cases * draws, D) and the
draws of one case are contiguous, so that layers broadcast instead of copying parameters.
"""

from __future__ import annotations

__all__ = ["ConditionalDensity", "ConditionalLayer", "Flow", "FlowProposal", "Proposal"]

from abc import ABC, abstractmethod
from collections.abc import Sequence

import normflows as nf
import torch
from torch import Tensor, nn

from amci_core.flows.network import Conditioner
from amci_core.models.base import Problem


class ConditionalDensity(ABC):
    """A proposal at given y, theta of batch shape (*): what estimators draw from.

    Arguments:
        batch_shape: The broadcast batch shape of y and theta.
    """

    def __init__(self, batch_shape: torch.Size) -> None:
        self.batch_shape = batch_shape

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """n points x (*, n, D) and their log density log q(x) in nats (*, n)."""

    @abstractmethod
    def log_prob(self, x: Tensor) -> Tensor:
        """log q(x) in nats at points x (*, n, D); result: (*, n), -inf outside the support."""


class Proposal(ABC):
    """A conditional density q(x; y, theta): called with y and theta, gives a `ConditionalDensity`.

    A new family is one file in this folder: layers that subclass `ConditionalLayer`, or a
    `Proposal` of another kind.
    """

    @abstractmethod
    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        """The density at y (*, D_y) and theta (*, D_theta)."""


class ConditionalLayer(nf.flows.Flow):
    """A flow layer whose parameters are columns of the context.

    Subclasses set `width`, the number of columns that they need, and define `_forward` and
    `_inverse` on points (cases, draws, D) with parameters (cases, width); both return the points
    and the log determinant (cases, draws).
    """

    width: int

    def __init__(self) -> None:
        super().__init__()
        self.columns = slice(0, 0)

    def forward(self, z: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        x, log_det = self._forward(self._grouped(z, context), context[:, self.columns])
        return x.reshape(z.shape), log_det.reshape(-1)

    def inverse(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = self._inverse(self._grouped(x, context), context[:, self.columns])
        return z.reshape(x.shape), log_det.reshape(-1)

    @staticmethod
    def _grouped(points: Tensor, context: Tensor) -> Tensor:
        return points.reshape(len(context), -1, points.shape[-1])

    def _forward(self, z: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def _inverse(self, x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError


class Flow(nf.ConditionalNormalizingFlow):
    """A conditional flow that hands each of its layers a slice of the context.

    normflows' `sample` draws from the global generator and its `forward_and_log_det` sums in
    float32; `transport` does neither.
    """

    def __init__(self, base: nn.Module, layers: Sequence[ConditionalLayer]) -> None:
        super().__init__(base, list(layers))
        start = 0
        for layer in layers:
            layer.columns = slice(start, start + layer.width)
            start += layer.width
        self.width = start

    def transport(self, z: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Base points z (cases * draws, D) as points of the flow, with their log density."""
        log_q = self.q0.log_prob(z, context=context)
        for layer in self.flows:
            z, log_det = layer(z, context=context)
            log_q = log_q - log_det
        return z, log_q


class FlowProposal(nn.Module, Proposal):
    """A conditional flow with its conditioner network.

    Arguments:
        problem: The problem whose x it proposes; where `bounded`, its `support_plus` is where the
            density lives.
        flow: The flow; its first columns of context come from the network, the last ones from the
            support.
        conditioner: The network that maps y (and theta) to the flow's parameters.
        bounded: Whether the density lives on the support of f_plus alone.
    """

    def __init__(
        self, problem: Problem, *, flow: Flow, conditioner: Conditioner, bounded: bool
    ) -> None:
        super().__init__()
        self.problem = problem
        self.flow = flow
        self.conditioner = conditioner
        self.bounded = bounded

    def context(self, y: Tensor, theta: Tensor | None) -> Tensor:
        """The flow's context for y (cases, D_y), theta (cases, D_theta): (cases, P)."""
        parameters = self.conditioner(y, theta)
        if not self.bounded:
            return parameters
        bound = self.problem.support_plus(theta).lower_bound  # type: ignore[attr-defined]
        return torch.cat([parameters, bound], dim=-1)

    def __call__(self, y: Tensor, theta: Tensor | None) -> FlowDensity:
        return FlowDensity(self, y, theta)


class FlowDensity(ConditionalDensity):
    """A flow at given y and theta; the conditioner has run, once per case."""

    def __init__(self, proposal: FlowProposal, y: Tensor, theta: Tensor | None) -> None:
        super().__init__(y.shape[:-1])
        self._flow = proposal.flow
        self._dim = proposal.problem.x.dim
        self._context = proposal.context(
            y.reshape(-1, y.shape[-1]),
            None if theta is None else theta.reshape(-1, theta.shape[-1]),
        )

    def stratified_noise(self, n: int, generator: torch.Generator) -> Tensor:
        """Base points as `noise`, one in each of n equal strata of every coordinate."""
        context = self._context
        shape = (len(context), n, self._dim)
        order, within = torch.rand(
            2, *shape, dtype=context.dtype, device=context.device, generator=generator
        )
        # (0, 1] in every stratum, so that zero, the end of a tail, is left out.
        strata = (order.argsort(dim=1) + 1 - within) / n
        return self._flow.q0.from_uniform(strata.reshape(-1, self._dim))

    def noise(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Base points for n draws of every case, (cases * n, D)."""
        return self._flow.q0.noise(len(self._context) * n, like=self._context, generator=generator)

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Base points (cases * n, D) as points x (*, n, D), with log q(x) (*, n)."""
        x, log_q = self._flow.transport(z, self._context)
        return x.reshape(*self.batch_shape, -1, self._dim), log_q.reshape(*self.batch_shape, -1)

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        return self.transport(self.noise(n, generator))

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:])
        flat = x.reshape(-1, self._dim)
        return self._flow.log_prob(flat, context=self._context).reshape(x.shape[:-1])
