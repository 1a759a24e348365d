r"""What a proposal is, and how one is built from a normflows flow and a conditioner network.

A flow's parameters depend on (y, theta) alone. So the conditioner runs once per (y, theta), its
output is the flow's context, and every layer makes what it needs of its own columns of it, once as
well. Points are grouped by case: with contexts of shape (cases, P), points have shape (cases,
draws, D), so that layers broadcast instead of copying parameters.
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
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import normflows as nf
import torch
from torch import Tensor, nn
from torch.distributions.constraints import greater_than, less_than

from amci_core.flows.conditioner import Conditioner
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

    def adopt(self, trained: Mapping[str, Trainable]) -> bool:
        """Takes over what it has of proposals trained before it, by name.

        Returns:
            Whether it has anything of them; most have not.

        Raises:
            ValueError: one that it needs is not there.
        """
        return False


class ConditionalLayer(nf.flows.Flow):
    """A flow layer whose parameters are columns of the context.

    Subclasses set `width`, the number of columns that they need, and define `_forward` and
    `_inverse` on points (cases, draws, D) with parameters (cases, width); both return the points
    and the log determinant (cases, draws). What both need of the parameters can be computed in
    `prepare`, once for a context; they then get that in the place of the parameters.
    """

    width: int

    def __init__(self) -> None:
        super().__init__()
        self.columns = slice(0, 0)

    def prepare(self, parameters: Tensor) -> Any:
        """What `_forward` and `_inverse` need of the parameters (cases, width)."""
        return parameters

    def forward(self, z: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        prepared = self.prepare(context[:, self.columns])
        x, log_det = self._forward(self._grouped(z, context), prepared)
        return x.reshape(z.shape), log_det.reshape(-1)

    def inverse(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        prepared = self.prepare(context[:, self.columns])
        z, log_det = self._inverse(self._grouped(x, context), prepared)
        return z.reshape(x.shape), log_det.reshape(-1)

    @staticmethod
    def _grouped(points: Tensor, context: Tensor) -> Tensor:
        return points.reshape(len(context), -1, points.shape[-1])

    def _forward(self, z: Tensor, parameters: Any) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def _inverse(self, x: Tensor, parameters: Any) -> tuple[Tensor, Tensor]:
        raise NotImplementedError


class Flow(nf.ConditionalNormalizingFlow):
    """A conditional flow that hands each of its layers a slice of the context.

    normflows' `sample` draws from the global generator, its `forward_and_log_det` sums in float32,
    and its `log_prob` has every layer start from the context; `at` gives a density that does none
    of this.
    """

    def __init__(self, base: nn.Module, layers: Sequence[ConditionalLayer]) -> None:
        super().__init__(base, list(layers))
        start = 0
        for layer in layers:
            layer.columns = slice(start, start + layer.width)
            start += layer.width
        self.width = start

    def at(self, context: Tensor) -> FlowAt:
        """The flow at a context (cases, P)."""
        return FlowAt(self, context)


class FlowAt:
    """A flow at one context (cases, P), all that depends on the context alone computed once.

    Points are given as (cases, draws, D), or in rows with the draws of a case side by side.
    """

    def __init__(self, flow: Flow, context: Tensor) -> None:
        self._base, self._cases = flow.q0, len(context)
        self._layers = [(layer, layer.prepare(context[:, layer.columns])) for layer in flow.flows]

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Base points as points of the flow (cases, draws, D), with log q (cases, draws)."""
        z = self._grouped(z)
        log_q = self._base.log_prob(z)
        for layer, prepared in self._layers:
            z, log_det = layer._forward(z, prepared)
            log_q = log_q - log_det
        return z, log_q

    def log_prob(self, x: Tensor) -> Tensor:
        """log q in nats at points x, (cases, draws)."""
        x = self._grouped(x)
        total: Tensor | float = 0.0
        for layer, prepared in reversed(self._layers):
            x, log_det = layer._inverse(x, prepared)
            total = total + log_det
        return total + self._base.log_prob(x)

    def _grouped(self, points: Tensor) -> Tensor:
        return points.reshape(self._cases, -1, points.shape[-1])


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
        self._base = proposal.flow.q0
        self._dim = proposal.problem.x.dim
        self._context = proposal.context(*flat_cases(y, theta))
        self._flow = proposal.flow.at(self._context)

    def stratified_noise(self, n: int, generator: torch.Generator) -> Tensor:
        strata = stratified_uniform(
            len(self._context), n, self._dim, like=self._context, generator=generator
        )
        return self.from_uniform(strata)

    def from_uniform(self, u: Tensor) -> Tensor:
        return self._base.from_uniform(u)

    def noise(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self._base.noise(len(self._context) * n, like=self._context, generator=generator)

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x, log_q = self._flow.transport(z)
        return x.reshape(*self.batch_shape, -1, self._dim), log_q.reshape(*self.batch_shape, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:])
        return self._flow.log_prob(x).reshape(x.shape[:-1])


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
