r"""Splines carried further: by a map of the radius, by a rotation, and onto the range of x.

Coordinate-by-coordinate splines are exact where the target is a product, and short of bins where
it is a ring, or has an edge that runs across the coordinates. Here they make standardized points
z, which layers then move: along the radius, by a map that depends on y and theta, and by a fixed
linear map, whose columns are the directions in which the target differs most from the prior.
"""

from __future__ import annotations

__all__ = [
    "Carried",
    "LineSpline",
    "Linear",
    "RadialSpline",
    "carried_spline",
    "line_spline_widths",
]

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from amci_core._arguments import check_count
from amci_core.flows.autoregressive import SplineProposal, autoregressive_spline
from amci_core.flows.conditioner import Conditioner, flat_cases
from amci_core.flows.density import Trainable, TrainableDensity
from amci_core.flows.gaussian import Layer
from amci_core.flows.spline import Knots, SharedKnots
from amci_core.flows.supports import Kind, Line, kind_of
from amci_core.models.base import Problem

# The spline of the radius covers this many standard deviations of log |z| to both sides.
REACH = 6.0
# The logarithm of a scale is limited to +- this, softly.
SPREAD = 3.0


class LineSpline:
    """Splines of the interval [-reach, reach]; beyond it every point stays where it is.

    Arguments:
        sizes: As for `Knots`, (cases, 2 bins).
        free: As for `Knots`, between bins: at both ends the derivative is one, (cases, bins - 1).
        reach: Half the width of the interval.
    """

    def __init__(self, sizes: Tensor, free: Tensor, reach: float) -> None:
        self._knots, self._reach = SharedKnots(Knots(sizes, pad(free, (1, 1)))), reach

    def forward(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """The splines at points t (cases, n), and the logarithms of their derivatives."""
        return self._within(self._knots.forward, t)

    def inverse(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The points that go to these values, and log|d point / d value|."""
        return self._within(self._knots.inverse, value)

    def _within(
        self, spline: Callable[[Tensor], tuple[Tensor, Tensor]], t: Tensor
    ) -> tuple[Tensor, Tensor]:
        inside = t.clamp(-self._reach, self._reach)
        value, log_det = spline(inside / (2 * self._reach) + 0.5)
        value = 2 * self._reach * (value - 0.5) + (t - inside)
        return value, log_det.where(inside == t, 0.0)


def line_spline_widths(bins: int) -> tuple[int, int]:
    """Numbers of parameters of a `LineSpline`: sizes of bins on both axes, and derivatives."""
    return 2 * bins, bins - 1


class RadialSpline(Layer):
    """Moves points along their radius: log |x| is a spline of log |z|, scaled and shifted.

    Arguments:
        dim: Number of dimensions D, two at least.
        bins: Number of bins of the spline.
    """

    def __init__(self, dim: int, *, bins: int) -> None:
        super().__init__()
        self.dim, self.bins = dim, bins
        self.width = 2 + sum(line_spline_widths(bins))
        # About the mean and the standard deviation of log |z| for standard normal z.
        self.centre, self.scale = math.log(dim) / 2, 1 / math.sqrt(2 * dim)

    def prepare(self, parameters: Tensor) -> tuple[Tensor, Tensor, LineSpline]:
        """The shift (cases, 1), the logarithm of the scale (cases, 1), and the spline."""
        shift, free, sizes, ends = parameters.split([1, 1, *line_spline_widths(self.bins)], -1)
        return shift, SPREAD * torch.tanh(free / SPREAD), LineSpline(sizes, ends, REACH)

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, log_scale, spline = prepared
        log_r = self._log_radius(z)
        t, log_det = spline.forward((log_r - self.centre) / self.scale)
        log_s = self.centre + shift + self.scale * log_scale.exp() * t
        growth = log_s - log_r
        # dx = (s / r)^(D - 1) ds / dr, and ds / dr = (s / r) d log s / d log r.
        return z * growth.exp()[..., None], self.dim * growth + log_scale + log_det

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, log_scale, spline = prepared
        log_s = self._log_radius(x)
        value = (log_s - self.centre - shift) / (self.scale * log_scale.exp())
        t, log_det = spline.inverse(value)
        growth = self.centre + self.scale * t - log_s
        return x * growth.exp()[..., None], self.dim * growth - log_scale + log_det

    @staticmethod
    def _log_radius(z: Tensor) -> Tensor:
        return z.square().sum(-1).clamp(min=torch.finfo(z.dtype).tiny).log() / 2


class Linear(Layer):
    """x = centre + A z with fixed numbers: the identity until `set` is called.

    Arguments:
        dim: Number of dimensions D.
    """

    width = 0
    centre: Tensor
    matrix: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(dim))
        self.register_buffer("matrix", torch.eye(dim))

    def set(self, centre: Tensor, matrix: Tensor) -> None:
        """Takes the centre (D,) and the matrix A (D, D), which has to be invertible."""
        with torch.no_grad():
            self.centre.copy_(centre)
            self.matrix.copy_(matrix)

    def prepare(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse of A, and log|det A|."""
        return torch.linalg.inv(self.matrix), torch.linalg.slogdet(self.matrix).logabsdet

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        return self.centre + z @ self.matrix.T, prepared[1].expand(z.shape[:-1])

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        inverse, log_det = prepared
        return (x - self.centre) @ inverse.T, -log_det.expand(x.shape[:-1])


class Charts(Layer):
    """Carries the line onto the range of every coordinate.

    Arguments:
        kinds: The kinds of the coordinates; all the line, or the line carried on by a transform.
    """

    width = 0

    def __init__(self, kinds: Sequence[Kind]) -> None:
        super().__init__()
        self.transforms = [kind.transform if isinstance(kind, Line) else None for kind in kinds]
        self.kinds = list(kinds)

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        columns, log_det = list(z.unbind(-1)), torch.zeros_like(z[..., 0])
        for i, transform in enumerate(self.transforms):
            if transform is not None:
                line, columns[i] = columns[i], transform(columns[i])
                log_det = log_det + transform.log_abs_det_jacobian(line, columns[i])
        return torch.stack(columns, -1), log_det

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        columns, log_det = list(x.unbind(-1)), torch.zeros_like(x[..., 0])
        for i, kind in enumerate(self.kinds):
            columns[i], added = kind.chart(columns[i], None)
            log_det = log_det if added is None else log_det + added
        return torch.stack(columns, -1), log_det


class Carried(Trainable):
    """Splines of standardized points, and the layers that carry these on.

    Arguments:
        own: The splines, of z.
        layers: The layers, the first after the splines first.
        conditioner: From y and theta to the layers' parameters; None where they read none.
    """

    def __init__(
        self, own: SplineProposal, layers: Sequence[Layer], conditioner: Conditioner | None
    ) -> None:
        super().__init__()
        self.own, self.layers = own, nn.ModuleList(layers)
        self.widths = [layer.width for layer in layers]
        self.conditioner = conditioner

    def initialize(self, generator: torch.Generator) -> None:
        self.own.initialize(generator)
        if self.conditioner is not None:
            self.conditioner.initialize(generator)

    def whiten(self, centre: Tensor, matrix: Tensor) -> None:
        """Sets the linear layer: x on the line is centre (D,) + A z, A (D, D)."""
        for layer in self.layers:
            if isinstance(layer, Linear):
                layer.set(centre, matrix)

    def at(
        self, y: Tensor, theta: Tensor | None, component: TrainableDensity | None = None
    ) -> CarriedDensity:
        return CarriedDensity(self, y, theta)


class CarriedDensity(TrainableDensity):
    """The splines and layers at given y and theta."""

    def __init__(self, proposal: Carried, y: Tensor, theta: Tensor | None) -> None:
        self._own = proposal.own.at(y, theta)
        super().__init__(y.shape[:-1], dim=self._own.dim, like=self._own.like)
        rows = flat_cases(y, theta)
        columns = [self.like.new_empty(self.cases, 0) for _ in proposal.layers]
        if proposal.conditioner is not None:
            context = proposal.conditioner(*rows)
            proposal.refuse_nan(context)
            columns = list(context.split(proposal.widths, -1))
        self._layers: list[tuple[Any, Any]] = [
            (layer, layer.prepare(c))  # type: ignore[operator]
            for layer, c in zip(proposal.layers, columns, strict=True)
        ]

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x, log_q = self._own.transport(z)
        x, log_q = x.reshape(self.cases, -1, self.dim), log_q.reshape(self.cases, -1)
        for layer, prepared in self._layers:
            x, log_det = layer(x, prepared)
            log_q = log_q - log_det
        return x.reshape(*self.batch_shape, -1, self.dim), log_q.reshape(*self.batch_shape, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:])
        z, log_dets = x.reshape(self.cases, -1, self.dim), []
        for layer, prepared in reversed(self._layers):
            z, log_det = layer.inverse(z, prepared)
            log_dets.append(log_det)
        log_q = self._own.log_prob(z.reshape(x.shape))
        return log_q + sum(log_dets, torch.zeros_like(z[..., 0])).reshape(log_q.shape)


def carried_spline(
    problem: Problem,
    *,
    coordinates: Sequence[Mapping[str, Any]],
    bins: int,
    hidden: tuple[int, ...],
    activation: str,
    reads_theta: bool = True,
    radial: bool = False,
) -> Carried:
    """Splines of standardized points, carried on by a linear map, and along the radius.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: For each coordinate of x its `kind`, `line` or one that carries the line on,
            and about its `centre` and `scale` there, as for `autoregressive_spline`.
        bins: Number of bins of each spline.
        hidden: Widths of the hidden layers of each network.
        activation: The networks' activation.
        reads_theta: Whether they read theta beside y.
        radial: Whether points move along their radius before the linear map.

    Raises:
        ValueError: a kind is not known or does not carry the line on, there are not as many
            coordinates as x has, or fewer than two.
    """
    check_count("coordinates", len(coordinates), low=2, high=10_000)
    kinds = [kind_of(problem, **given) for given in coordinates]
    if not all(isinstance(kind, Line) for kind in kinds):
        raise ValueError(f"coordinates: expected kinds that carry the line on, got {coordinates}")
    network: dict[str, Any] = {"hidden": hidden, "activation": activation}
    standard = [{"kind": "line"} for _ in coordinates]
    own = autoregressive_spline(
        problem, coordinates=standard, bins=bins, reads_theta=reads_theta, **network
    )
    dim, layers = len(kinds), list[Layer]()
    if radial:
        layers.append(RadialSpline(dim, bins=bins))
    layers += [Linear(dim), Charts(kinds)]
    width = sum(layer.width for layer in layers)
    conditioner = (
        Conditioner(problem, out=width, reads_theta=reads_theta, **network) if width else None
    )
    made = Carried(own, layers, conditioner)
    centre, scale = (
        torch.tensor([getattr(k, name) for k in kinds]) for name in ("centre", "scale")
    )
    made.whiten(centre, torch.diag(scale))
    return made
