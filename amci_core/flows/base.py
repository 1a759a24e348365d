r"""What a proposal is, and how one is built from a normflows flow and a conditioner network.

A flow's parameters depend on (y, theta) alone. So the conditioner runs once per (y, theta), its
output is the flow's context, and every layer reads its own columns of it. Rows of points are
grouped by case: with contexts of shape (cases, P), points have shape (cases * draws, D) and the
draws of one case are contiguous, so that layers broadcast instead of copying parameters.
"""

from __future__ import annotations

__all__ = [
    "ConditionalDensity",
    "ConditionalLayer",
    "Flow",
    "FlowProposal",
    "Proposal",
    "Trainable",
    "TrainableDensity",
    "flat_cases",
    "half_line",
    "stratified_uniform",
]

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import normflows as nf
import torch
from torch import Tensor, nn
from torch.distributions.constraints import greater_than, less_than

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


class TrainableDensity(ConditionalDensity):
    """A density that carries base points to points, so that these can be stratified."""

    @abstractmethod
    def noise(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Base points for n draws of every case, (cases * n, D)."""

    @abstractmethod
    def from_uniform(self, u: Tensor) -> Tensor:
        """Base points out of uniform ones on (0, 1]^D, (cases * n, D)."""

    @abstractmethod
    def stratified_noise(self, n: int, generator: torch.Generator) -> Tensor:
        """Base points as `noise`, one in each of n equal strata of every coordinate."""

    @abstractmethod
    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Base points (cases * n, D) as points x (*, n, D), with log q(x) (*, n)."""

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        return self.transport(self.noise(n, generator))


class Trainable(nn.Module, Proposal):
    """A proposal with weights; refined ones give a `TrainableDensity`."""

    @abstractmethod
    def initialize(self, generator: torch.Generator) -> None:
        """Draws the weights that training starts from."""


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


class FlowProposal(Trainable):
    """A conditional flow with its conditioner network.

    Arguments:
        problem: The problem whose x it proposes; where `bounded`, its `support_plus` is where the
            density lives.
        flow: The flow; its first columns of context come from the network, the last ones from the
            support.
        conditioner: The network that maps y (and theta) to the flow's parameters.
        bounded: Whether the density lives on the support of f_plus alone, a half-line.
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
        return torch.cat([parameters, half_line(self.problem, theta).bound], dim=-1)

    def initialize(self, generator: torch.Generator) -> None:
        self.conditioner.initialize(generator)

    def __call__(self, y: Tensor, theta: Tensor | None) -> FlowDensity:
        return FlowDensity(self, y, theta)


class FlowDensity(TrainableDensity):
    """A flow at given y and theta; the conditioner has run, once per case."""

    def __init__(self, proposal: FlowProposal, y: Tensor, theta: Tensor | None) -> None:
        super().__init__(y.shape[:-1])
        self._flow = proposal.flow
        self._dim = proposal.problem.x.dim
        self._context = proposal.context(*flat_cases(y, theta))

    def stratified_noise(self, n: int, generator: torch.Generator) -> Tensor:
        strata = stratified_uniform(
            len(self._context), n, self._dim, like=self._context, generator=generator
        )
        return self.from_uniform(strata)

    def from_uniform(self, u: Tensor) -> Tensor:
        return self._flow.q0.from_uniform(u)

    def noise(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self._flow.q0.noise(len(self._context) * n, like=self._context, generator=generator)

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x, log_q = self._flow.transport(z, self._context)
        return x.reshape(*self.batch_shape, -1, self._dim), log_q.reshape(*self.batch_shape, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:])
        flat = x.reshape(-1, self._dim)
        return self._flow.log_prob(flat, context=self._context).reshape(x.shape[:-1])


class HalfLineSupport(NamedTuple):
    """The set of x above the bound (sign 1) or below it (sign -1); bound: (*, D)."""

    bound: Tensor
    sign: int


def half_line(problem: Problem, theta: Tensor | None) -> HalfLineSupport:
    """The support of a problem's f_plus, where that is x > bound or x < bound.

    Raises:
        ValueError: the support is of another kind.
    """
    support = problem.support_plus(theta)
    if isinstance(support, type(greater_than(0.0))):
        return HalfLineSupport(support.lower_bound, 1)
    if isinstance(support, type(less_than(0.0))):
        return HalfLineSupport(support.upper_bound, -1)
    raise ValueError(f"problem: the support of f_plus is no half-line, but {support}")


def flat_cases(y: Tensor, theta: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """y and theta of batch shape (*) in rows, one a case."""
    cases = math.prod(y.shape[:-1])
    return (
        y.reshape(cases, y.shape[-1]),
        None if theta is None else theta.reshape(cases, theta.shape[-1]),
    )


def stratified_uniform(
    cases: int, n: int, dim: int, *, like: Tensor, generator: torch.Generator
) -> Tensor:
    """Points of (0, 1]^D, (cases * n, D): in every coordinate one in each of n equal strata."""
    order, within = torch.rand(
        2, cases, n, dim, dtype=like.dtype, device=like.device, generator=generator
    )
    # (0, 1] in every stratum, so that zero, the end of a tail, is left out.
    strata = (order.argsort(dim=1) + 1 - within) / n
    return strata.reshape(-1, dim)
