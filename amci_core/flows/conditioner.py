r"""Networks that turn y and theta into parameters, one by one or several as one."""

from __future__ import annotations

__all__ = ["Conditioner"]

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from amci_core.flows.reading import Reading, summaries
from amci_core.models.base import Problem

# Up to here scaled inputs are read as they are; beyond by their logarithm.
WITHIN = 1.5
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "silu": nn.SiLU}


class Inputs(nn.Module):
    """Scales y and theta to about [-1, 1], by the ranges that the problem declares.

    What lies far outside of them, as draws with heavy tails do, is read by its logarithm.

    Arguments:
        problem: The problem whose y and theta it reads.
        reads_theta: Whether it reads theta beside y.
        reading: How it reads y, see `reading_of`; None: as it is.
    """

    centre: Tensor
    half_width: Tensor

    def __init__(
        self, problem: Problem, *, reads_theta: bool = True, reading: Reading | None = None
    ) -> None:
        super().__init__()
        self.reads_theta, self.reading = reads_theta and problem.theta is not None, reading
        read = [v.typical for v in (problem.y, problem.theta if reads_theta else None) if v]
        if reading is not None:
            centre, half_width = (np.array(reading[k]) for k in ("centre", "half_width"))
            read[0] = np.stack([centre - half_width, centre + half_width])
        low, high = np.concatenate([np.empty((2, 0)), *read], -1)
        self.register_buffer("centre", torch.tensor((low + high) / 2, dtype=torch.float32))
        self.register_buffer("half_width", torch.tensor((high - low) / 2, dtype=torch.float32))

    def inputs(self, y: Tensor, theta: Tensor | None) -> Tensor:
        """y (cases, D_y) and theta (cases, D_theta) as they are read; a zero without both."""
        # No columns where there is no y.
        read = [y if self.reading is None else summaries(y, self.reading)]
        if self.reads_theta:
            read.append(cast(Tensor, theta))
        values = torch.cat(read, dim=-1)
        if not values.shape[-1]:
            return values.new_zeros(len(y), 1)
        scaled = (values - self.centre) / self.half_width
        beyond = scaled.abs().clamp(min=WITHIN) - WITHIN
        return scaled.clamp(-WITHIN, WITHIN) + scaled.sign() * beyond.log1p()


class _Unset(nn.Linear):
    """A linear map whose weights are set later; the first `skip_init` takes two seconds."""

    def reset_parameters(self) -> None:
        """Leaves the global generator alone."""


class Conditioner(Inputs):
    """Creates a multilayer perceptron from y, theta, or both to `out` parameters.

    The last layer starts small and without biases, so that training starts from parameters near
    zero. Weights are the same at every construction, and no global generator is touched; see
    `initialize`.

    Arguments:
        problem: The problem whose y and theta it reads.
        out: Number of parameters to predict.
        hidden: Widths of the hidden layers; none makes the map affine.
        activation: Name of the activation, `relu` or `silu`.
        reads_theta: Whether it reads theta beside y.
        reading: How it reads y, see `reading_of`; None: as it is.
        preceding: Number of coordinates of x that it reads beside, in an autoregressive family.
        small: Whether the last layer starts small.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        out: int,
        hidden: Sequence[int],
        activation: str,
        reads_theta: bool = True,
        reading: Reading | None = None,
        preceding: int = 0,
        small: bool = True,
    ) -> None:
        super().__init__(problem, reads_theta=reads_theta, reading=reading)
        self.activation, self.small = ACTIVATIONS[activation](), small
        # Without y and theta it reads a zero.
        widths = ((len(self.centre) or 1) + preceding, *hidden)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [_Unset(before, after), self.activation]
        last = _Unset(widths[-1], out)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(*layers, last)
        self.initialize(torch.Generator().manual_seed(0))

    @property
    def linear(self) -> list[nn.Linear]:
        """The linear maps of the network, first one first."""
        return [m for m in self.network if isinstance(m, nn.Linear)]

    def initialize(self, generator: torch.Generator) -> None:
        """Draws all weights but the last layer's biases afresh from the generator."""
        last = self.linear[-1]
        for layer in self.linear:
            bound = 1 / math.sqrt(layer.in_features)
            scale = 0.1 if layer is last and self.small else 1.0
            with torch.no_grad():
                layer.weight.uniform_(-bound * scale, bound * scale, generator=generator)
                if layer is not last:
                    layer.bias.uniform_(-bound, bound, generator=generator)

    @torch.no_grad()
    def start_linear(self, weight: Tensor, bias: Tensor, out: int) -> None:
        """Has two units of each hidden layer take a linear map of what is read to a parameter.

        relu(a) - relu(-a) = a, and so with silu: the map is exact, and trained with the rest.

        Arguments:
            weight: The map, a number for each number that is read.
            bias: A number.
            out: The parameter.
        """
        first, *between, last = self.linear
        sign = weight.new_tensor([1.0, -1.0])
        first.weight[:2], first.bias[:2] = torch.outer(sign, weight), sign * bias
        for layer in between:
            layer.weight[:2], layer.bias[:2] = 0.0, 0.0
            layer.weight[:2, :2] = torch.outer(sign, sign)
        last.weight[:, :2] = 0.0
        last.weight[out, :2] = sign

    def forward(self, y: Tensor, theta: Tensor | None, preceding: Tensor | None = None) -> Tensor:
        """y (cases, D_y), theta (cases, D_theta) to parameters (cases, out).

        With preceding coordinates (cases, n, d), about of unit size, to parameters (cases, n,
        out).
        """
        values = self.inputs(y, theta)
        if preceding is not None:
            values = values[:, None].expand(-1, preceding.shape[1], -1)
            values = torch.cat([values, preceding], -1)
        parameters: Tensor = self.network(values)
        return parameters


class Stacked:
    """The networks of all coordinates but the first, as one in batches.

    Arguments:
        networks: The networks, of equal hidden layers; each reads one coordinate more.
        centre: About where the coordinates that they read lie, (D - 1,).
        scale: About how far these spread, (D - 1,).
    """

    def __init__(self, networks: Iterable[Any], centre: Tensor, scale: Tensor) -> None:
        networks = list(networks)
        self._activation = networks[0].activation
        layers = []
        for maps in zip(*(network.linear for network in networks), strict=True):
            wide, high = max(m.in_features for m in maps), max(m.out_features for m in maps)
            weights = [
                pad(m.weight, (0, wide - m.in_features, 0, high - m.out_features)) for m in maps
            ]
            biases = [pad(m.bias, (0, high - m.out_features)) for m in maps]
            layers.append((torch.stack(weights).mT.contiguous(), torch.stack(biases)[:, None]))
        (weight, bias), *self._rest = layers
        self._of_case, of_points = weight.split([weight.shape[1] - len(scale), len(scale)], 1)
        # They read coordinates less their centres, in units of their scales.
        self._of_points = of_points / scale[:, None]
        self._bias = bias - (centre @ self._of_points)[:, None]

    def of_cases(self, inputs: Tensor) -> Tensor:
        """What y and theta, (cases, C), add to the first layer: (D - 1, cases, H)."""
        return torch.baddbmm(self._bias, inputs.expand(len(self._bias), -1, -1), self._of_case)

    def all(self, of_cases: Tensor, lines: Tensor) -> Tensor:
        """All networks at all points: lines (cases, n, D - 1) to (D - 1, cases, n, P)."""
        shape = (len(of_cases), *lines.shape[:2], -1)
        values = torch.matmul(lines.reshape(1, -1, lines.shape[-1]), self._of_points).view(shape)
        values = values.add_(of_cases[:, :, None]).flatten(1, 2)
        for weight, bias in self._rest:
            values = torch.baddbmm(bias, self._activation(values), weight)
        return values.view(shape)

    def one(self, i: int, of_cases: Tensor, lines: Tensor) -> Tensor:
        """The i-th of the networks: lines (cases, n, i + 1) to (cases, n, P)."""
        of_points, rest = self._single[i]
        of_points = of_points.expand(len(lines), -1, -1)
        values = torch.baddbmm(of_cases[i][:, None], lines, of_points)
        shape, values = (*values.shape[:2], -1), values.flatten(0, 1)
        for weight, bias in rest:
            values = torch.addmm(bias, self._activation(values), weight)
        return values.view(shape)

    @cached_property
    def _single(self) -> list[tuple[Tensor, list[tuple[Tensor, Tensor]]]]:
        rest = [list(zip(*layer, strict=True)) for layer in self._rest]
        return [
            (of_points[: i + 1], [layer[i] for layer in rest])
            for i, of_points in enumerate(self._of_points)
        ]


def flat_cases(y: Tensor, theta: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """y and theta of batch shape (*) in rows, one a case."""
    cases = math.prod(y.shape[:-1])
    return (
        y.reshape(cases, y.shape[-1]),
        None if theta is None else theta.reshape(cases, theta.shape[-1]),
    )
