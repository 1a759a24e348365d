r"""Networks that turn y and theta into parameters, and flows whose layers read these."""

from __future__ import annotations

__all__ = ["Conditioner", "Flow", "FlowProposal", "Layer", "StandardGaussian", "flat_cases"]

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import normflows as nf
import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils import skip_init

from amci_core.flows.density import Trainable, TrainableDensity
from amci_core.models.base import Problem, Variable, standard_normal_log_prob

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "silu": nn.SiLU}


class Conditioner(nn.Module):
    """Creates a multilayer perceptron from y, theta, or both to `out` parameters.

    Inputs are scaled to about [-1, 1] by the ranges that the problem declares. The last layer
    starts small and without biases, so that training starts from parameters near zero. Weights are
    the same at every construction, and no global generator is touched; see `initialize`.

    Arguments:
        y: The observation that it reads; None where it reads none.
        theta: The parameter of f that it reads; None where it reads none.
        preceding: Number of coordinates of x that it reads beside, in an autoregressive family.
        out: Number of parameters to predict.
        hidden: Widths of the hidden layers; none makes the map affine.
        activation: Name of the activation, `relu` or `silu`.

    Raises:
        ValueError: the activation is not known.
    """

    centre: Tensor
    half_width: Tensor

    def __init__(
        self,
        *,
        y: Variable | None,
        theta: Variable | None,
        preceding: int = 0,
        out: int,
        hidden: tuple[int, ...],
        activation: str,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"activation: expected one of {', '.join(ACTIVATIONS)}, got {activation!r}"
            )
        read = [v for v in (y, theta) if v is not None]
        shown = [v.shown or (v.low, v.high) for v in read for _ in range(v.dim)]
        self.register_buffer("centre", torch.tensor([(low + high) / 2 for low, high in shown]))
        self.register_buffer("half_width", torch.tensor([(high - low) / 2 for low, high in shown]))
        self.reads_y, self.reads_theta = y is not None, theta is not None
        widths = (len(shown) + preceding, *hidden)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [skip_init(nn.Linear, before, after), ACTIVATIONS[activation]()]
        last = skip_init(nn.Linear, widths[-1], out)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(*layers, last)
        self.initialize(torch.Generator().manual_seed(0))

    @property
    def linear(self) -> list[nn.Linear]:
        """The linear maps of the network, first one first."""
        return [m for m in self.network if isinstance(m, nn.Linear)]

    @property
    def activation(self) -> type[nn.Module]:
        """The class of its activation; the identity where there are no hidden layers."""
        return type(self.network[1]) if len(self.network) > 1 else nn.Identity

    def initialize(self, generator: torch.Generator) -> None:
        """Draws all weights but the last layer's biases afresh from the generator."""
        last = self.linear[-1]
        for layer in self.linear:
            bound = 1 / math.sqrt(layer.in_features)
            scale = 0.1 if layer is last else 1.0
            with torch.no_grad():
                layer.weight.uniform_(-bound * scale, bound * scale, generator=generator)
                if layer is not last:
                    layer.bias.uniform_(-bound, bound, generator=generator)

    def inputs(self, y: Tensor, theta: Tensor | None) -> Tensor:
        """y (cases, D_y) and theta (cases, D_theta) as it reads them, scaled to about [-1, 1]."""
        read = [y] if self.reads_y else []
        if self.reads_theta:
            assert theta is not None  # narrows the type; problems with theta always pass it
            read.append(theta)
        return (torch.cat(read, dim=-1) - self.centre) / self.half_width

    def forward(self, y: Tensor, theta: Tensor | None, preceding: Tensor | None = None) -> Tensor:
        """y (cases, D_y), theta (cases, D_theta) to parameters (cases, out).

        With preceding coordinates (cases, n, d), about of unit size, to parameters (cases, n,
        out): what depends on y and theta alone is computed once a case.
        """
        values = self.inputs(y, theta)
        if preceding is None:
            found: Tensor = self.network(values)
            return found
        first = self.linear[0]
        of_case, of_point = first.weight.split([values.shape[-1], preceding.shape[-1]], dim=-1)
        values = linear(values, of_case, first.bias)[:, None] + linear(preceding, of_point)
        later: Tensor = self.network[1:](values)
        return later


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


class StandardGaussian(nf.distributions.DiagGaussian):  # type: ignore[misc]
    """normflows' Gaussian base, fixed at N(0, I), of which its `log_prob` makes use."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, trainable=False)

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        return standard_normal_log_prob(z)


class Flow(nn.Module):
    """Layers over N(0, I), first after the base first; the names of normflows' parameters.

    Arguments:
        dim: Number of dimensions D.
        layers: The layers.
    """

    def __init__(self, dim: int, layers: Sequence[Layer]) -> None:
        super().__init__()
        self.q0 = StandardGaussian(dim)
        self.flows = nn.ModuleList(layers)
        self.layers = list(layers)
        self.width = sum(layer.width for layer in layers)


class FlowProposal(Trainable):
    """A flow with its conditioner network.

    Arguments:
        problem: The problem whose x it proposes.
        flow: The flow.
        conditioner: The network that maps y (and theta) to the flow's parameters.
    """

    def __init__(self, problem: Problem, *, flow: Flow, conditioner: Conditioner) -> None:
        super().__init__()
        self.problem, self.flow, self.conditioner = problem, flow, conditioner

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
        proposal.refuse_nan(context)
        super().__init__(y.shape[:-1], dim=proposal.problem.x.dim, like=context)
        layers = proposal.flow.layers
        columns = context.split([layer.width for layer in layers], -1)
        self._layers = [
            (layer, layer.prepare(c)) for layer, c in zip(layers, columns, strict=True)
        ]

    def noise(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        like = self.like
        shape = (self.cases * n, self.dim)
        return torch.randn(shape, dtype=like.dtype, device=like.device, generator=generator)

    def from_uniform(self, u: Tensor) -> Tensor:
        return torch.special.ndtri(u.clamp(max=1 - torch.finfo(u.dtype).eps))

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
        total: Tensor | float = 0.0
        for layer, prepared in reversed(self._layers):
            z, log_det = layer.inverse(z, prepared)
            total = total + log_det
        return (total + standard_normal_log_prob(z)).reshape(x.shape[:-1])


def flat_cases(y: Tensor, theta: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """y and theta of batch shape (*) in rows, one a case."""
    cases = math.prod(y.shape[:-1])
    return (
        y.reshape(cases, y.shape[-1]),
        None if theta is None else theta.reshape(cases, theta.shape[-1]),
    )
