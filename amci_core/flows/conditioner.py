r"""Networks that turn y and theta into the parameters of a flow."""

from __future__ import annotations

__all__ = ["Conditioner"]

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from amci_core.models.base import Variable

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

    def initialize(self, generator: torch.Generator) -> None:
        """Draws all weights but the last layer's biases afresh from the generator."""
        linear = [m for m in self.network if isinstance(m, nn.Linear)]
        for layer in linear:
            bound = 1 / math.sqrt(layer.in_features)
            scale = 0.1 if layer is linear[-1] else 1.0
            with torch.no_grad():
                layer.weight.uniform_(-bound * scale, bound * scale, generator=generator)
                if layer is not linear[-1]:
                    layer.bias.uniform_(-bound, bound, generator=generator)

    def forward(self, y: Tensor, theta: Tensor | None, preceding: Tensor | None = None) -> Tensor:
        """y (cases, D_y), theta (cases, D_theta) to parameters (cases, out).

        With preceding coordinates (cases, n, d), about of unit size, to parameters (cases * n,
        out): what depends on y and theta alone is computed once a case.
        """
        read = [y] if self.reads_y else []
        if self.reads_theta:
            assert theta is not None  # narrows the type; problems with theta always pass it
            read.append(theta)
        inputs = (torch.cat(read, dim=-1) - self.centre) / self.half_width
        if preceding is None:
            return self.network(inputs)
        first, *rest = self.network
        assert isinstance(first, nn.Linear)
        of_case, of_point = first.weight.split([inputs.shape[-1], preceding.shape[-1]], dim=-1)
        case = torch.nn.functional.linear(inputs, of_case, first.bias)
        hidden = case[:, None] + preceding @ of_point.T
        hidden = hidden.flatten(0, 1)
        for layer in rest:
            hidden = layer(hidden)
        return hidden
