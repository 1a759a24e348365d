r"""Flows for many coordinates: one network for all of them.

A standard normal point goes through splines of its own for every coordinate, which depend on y and
theta alone; through masked layers, which make coordinates depend on each other; along its radius;
through a fixed linear map, whose first columns are the directions in which the target differs most
from the prior; and onto the range of x. A limit state is then a spline of the first coordinate, a
sphere a map of the radius, and neither needs a network as deep as a hundred coordinates.
"""

from __future__ import annotations

__all__ = ["Marginals", "layered_spline"]

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from amci_core._arguments import check_count
from amci_core.flows.carried import (
    Charts,
    Linear,
    LineSpline,
    RadialSpline,
    line_spline_widths,
)
from amci_core.flows.gaussian import Layer
from amci_core.flows.masked import MaskedAffine, MaskedProposal
from amci_core.flows.supports import Line, kind_of
from amci_core.models.base import Problem

# A spline covers this many standard deviations to both sides.
REACH = 5.0
# The logarithm of a scale is limited to +- this, softly.
SPREAD = 3.0


class Marginals(Layer):
    """A spline for every coordinate, then a scale and a shift; all read y and theta alone.

    Arguments:
        dim: Number of dimensions D.
        bins: Number of bins of each spline.
    """

    def __init__(self, dim: int, *, bins: int) -> None:
        super().__init__()
        self.dim, self.bins = dim, bins
        self.width = dim * (2 + sum(line_spline_widths(bins)))

    def prepare(self, parameters: Tensor) -> tuple[Tensor, Tensor, LineSpline]:
        """Shift and logarithm of the scale (cases * D, 1), and the splines."""
        rows = parameters.reshape(len(parameters) * self.dim, -1)
        shift, free, sizes, ends = rows.split([1, 1, *line_spline_widths(self.bins)], -1)
        return shift, SPREAD * torch.tanh(free / SPREAD), LineSpline(sizes, ends, REACH)

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, log_scale, spline = prepared
        value, log_det = spline.forward(self._rows(z))
        x = shift + log_scale.exp() * value
        return self._points(x, z), self._points(log_det + log_scale, z).sum(-1)

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, log_scale, spline = prepared
        z, log_det = spline.inverse((self._rows(x) - shift) * (-log_scale).exp())
        return self._points(z, x), self._points(log_det - log_scale, x).sum(-1)

    def _rows(self, x: Tensor) -> Tensor:
        return x.mT.reshape(-1, x.shape[1])

    def _points(self, rows: Tensor, like: Tensor) -> Tensor:
        return rows.reshape(len(like), self.dim, -1).mT


class LayeredProposal(MaskedProposal):
    """The flow; `whiten` sets its linear map."""

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        # Splines start as the identity, unlike the hidden layers of masked networks.
        last = self.conditioner.linear[-1]
        with torch.no_grad():
            last.weight.mul_(0.1)

    def whiten(self, centre: Tensor, matrix: Tensor) -> None:
        """Sets the linear map: x on the line is centre (D,) + A z, A (D, D)."""
        for layer in self.layers:
            if isinstance(layer, Linear):
                layer.set(centre, matrix)


def layered_spline(
    problem: Problem,
    *,
    coordinates: Sequence[Mapping[str, Any]],
    bins: int,
    width: int,
    hidden: tuple[int, ...],
    activation: str,
    reads_theta: bool = True,
) -> LayeredProposal:
    """One flow for all coordinates, for more than about ten of them.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: As for `carried_spline`.
        bins: Number of bins of each spline.
        width: Width of the masked layers' networks, D - 1 at least.
        hidden: Widths of the hidden layers of the network that reads y and theta.
        activation: The networks' activation.
        reads_theta: Whether they read theta beside y.

    Raises:
        ValueError: a kind does not carry the line on, or a width is out of range.
    """
    dim = len(coordinates)
    check_count("coordinates", dim, low=2, high=10_000)
    check_count("width", width, low=dim - 1, high=65_536)
    kinds = [kind_of(problem, **given) for given in coordinates]
    if not all(isinstance(kind, Line) for kind in kinds):
        raise ValueError(f"coordinates: expected kinds that carry the line on, got {coordinates}")
    made = LayeredProposal(
        problem,
        [
            Marginals(dim, bins=bins),
            MaskedAffine(dim, hidden=width, activation=activation, backwards=False),
            RadialSpline(dim, bins=bins),
            Linear(dim),
            Charts(kinds),
        ],
        reads_theta=reads_theta,
        hidden=tuple(hidden),
        activation=activation,
    )
    made.initialize(torch.Generator().manual_seed(0))
    centre, scale = (
        torch.tensor([getattr(k, name) for k in kinds]) for name in ("centre", "scale")
    )
    made.whiten(centre, torch.diag(scale))
    return made
