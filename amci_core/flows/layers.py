r"""Flows composed of layers, over a standard normal or another flow.

A layer maps points to points, with parameters that one network predicts from y and theta for all
layers of a flow.
"""

from __future__ import annotations

__all__ = ["ComposedFlow", "Layer", "Radial", "ToSupport", "Triangular"]

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from normflows.nets.made import MADE
from torch import Tensor, nn
from torch.nn.functional import pad, softplus

from amci_core.flows.conditioner import ACTIVATIONS, Conditioner, flat_cases
from amci_core.flows.density import Trainable, TransformedDensity
from amci_core.flows.spline import Knots, SharedKnots
from amci_core.flows.supports import CoordinateBijector
from amci_core.models.base import Problem
from amci_core.models.densities import standard_normal_log_prob

# Points, or values of a coordinate, to others and log|d others / d points|; None for zero.
Map = Callable[..., tuple[Tensor, Any]]


class Layer(nn.Module):
    """A layer of a flow, whose parameters are columns of what a conditioner predicts.

    Subclasses set `width`, the number of columns, and define `forward` and `inverse` on points
    (cases, draws, D), given the result of `prepare`; both return points and log determinants
    (cases, draws).
    """

    width = 0

    def prepare(self, parameters: Tensor) -> Any:
        """What `forward` and `inverse` need of the parameters (cases, width); computed once."""
        return parameters

    def initialize(self, generator: torch.Generator) -> None:
        """Draws the weights of the layer itself, if it has any."""


class ComposedFlow(Trainable):
    """Creates a flow of layers, with the conditioner network that predicts their parameters.

    Arguments:
        problem: The problem whose x it proposes.
        layers: The layers, first after the base first.
        base: The flow whose points the layers transform; None for a standard normal.
        network: `hidden`, `activation`, `reads_theta` and `small` of the `Conditioner`.
    """

    def __init__(
        self,
        problem: Problem,
        layers: Sequence[Layer],
        *,
        base: Trainable | None = None,
        **network: Any,
    ) -> None:
        super().__init__()
        self.problem, self.base, self.layers = problem, base, nn.ModuleList(layers)
        self.widths = [layer.width for layer in layers]
        width = sum(self.widths)
        self.conditioner = Conditioner(problem, out=width, **network) if width else None
        self.initialize(torch.Generator().manual_seed(0))

    def initialize(self, generator: torch.Generator) -> None:
        for part in (self.base, self.conditioner, *self.layers):
            if part is not None:
                part.initialize(generator)

    def whiten(self, centre: Tensor, matrix: Tensor) -> None:
        """Sets the linear layer: x in unconstrained space is centre (D,) + A z, A (D, D)."""
        for layer in self.layers:
            if isinstance(layer, Linear):
                layer.centre.copy_(centre)
                layer.matrix.copy_(matrix)

    def start_near(self, x: Tensor, y: Tensor, theta: Tensor | None) -> None:
        if self.base is not None:
            self.base.start_near(self.at(y, theta).before_layers(x)[0], y, theta)

    def at(self, y: Tensor, theta: Tensor | None) -> ComposedDensity:
        return ComposedDensity(self, y, theta)


class ComposedDensity(TransformedDensity):
    """A composed flow at given y and theta; the conditioner has run, once per case."""

    def __init__(self, flow: ComposedFlow, y: Tensor, theta: Tensor | None) -> None:
        super().__init__(y.shape[:-1], dim=flow.problem.x.dim, like=y)
        y, theta = flat_cases(y, theta)
        parameters = y.new_empty(len(y), 0)
        if flow.conditioner is not None:
            parameters = flow.conditioner(y, theta)
        columns = parameters.split(flow.widths, -1)
        layers: Any = zip(flow.layers, columns, strict=True)
        self._layers = [(layer, layer.prepare(its)) for layer, its in layers]
        # At y and theta in rows, so that its points are grouped by case.
        self._base: Any = StandardNormal(y.shape[:-1], dim=self.dim, like=y)
        if flow.base is not None:
            self._base = flow.base.at(y, theta)

    def base_samples(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return cast(Tensor, self._base.base_samples(n, generator))

    def from_uniform(self, u: Tensor) -> Tensor:
        return cast(Tensor, self._base.from_uniform(u))

    def _forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x, log_q = self._base.forward(z)
        for layer, prepared in self._layers:
            x, log_det = layer(x, prepared)
            log_q = log_q - log_det
        return x, log_q

    def before_layers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The base's points of x (cases, n, D), and the layers' log|dz / dx|, (cases, n)."""
        total = torch.zeros_like(x[..., 0])
        for layer, prepared in reversed(self._layers):
            x, log_det = layer.inverse(x, prepared)
            total = total + log_det
        return x, total

    def _log_prob(self, x: Tensor) -> Tensor:
        z, log_det = self.before_layers(x)
        return cast(Tensor, self._base.log_prob(z) + log_det)


class StandardNormal(TransformedDensity):
    """N(0, I), which is its own base: base samples are standard normal."""

    def base_samples(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        z = self.like.new_empty(self.cases * n, self.dim)
        return z.normal_(generator=generator)

    def from_uniform(self, u: Tensor) -> Tensor:
        z: Tensor = torch.special.ndtri(u.clamp(max=1 - torch.finfo(u.dtype).eps))
        return z

    def _forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return z, standard_normal_log_prob(z)

    def _log_prob(self, x: Tensor) -> Tensor:
        return standard_normal_log_prob(x)


class Shift(Layer):
    """x = shift + z.

    Arguments:
        dim: Number of dimensions D.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.width = dim

    def forward(self, z: Tensor, prepared: Tensor) -> tuple[Tensor, Tensor]:
        return z + prepared[:, None], z.new_zeros(())

    def inverse(self, x: Tensor, prepared: Tensor) -> tuple[Tensor, Tensor]:
        return x - prepared[:, None], x.new_zeros(())


class Affine(Layer):
    """x = shift + A z; a subclass prepares the shift, A, its inverse, and log|det A|."""

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, matrix, _, log_det = prepared
        return shift + z @ matrix.mT, log_det

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, _, inverse, log_det = prepared
        return (x - shift) @ inverse.mT, -log_det


class Triangular(Affine):
    """An affine layer with a lower triangular A, whose diagonal is positive.

    Parameters: the shift, the logarithms of the diagonal, the entries below it in rows.

    Arguments:
        dim: Number of dimensions D.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.widths = [dim, dim, dim * (dim - 1) // 2]
        self.width = sum(self.widths)

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        shift, log_diagonal, below = parameters.split(self.widths, -1)
        lower = torch.diag_embed(log_diagonal.exp())
        if below.shape[-1]:
            dim = lower.shape[-1]
            rows, columns = torch.tril_indices(dim, dim, offset=-1, device=lower.device)
            lower[:, rows, columns] = below
        log_det = log_diagonal.sum(-1, keepdim=True)
        # Without a check: where numbers overflow the density is none, and a verdict says so.
        return shift[:, None], lower, torch.linalg.inv_ex(lower).inverse, log_det


class Linear(Affine):
    """An affine layer with fixed numbers: the identity until `whiten` is called.

    Arguments:
        dim: Number of dimensions D.
    """

    centre: Tensor
    matrix: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(dim))
        self.register_buffer("matrix", torch.eye(dim))

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        inverse, (_, log_det) = torch.linalg.inv(self.matrix), torch.linalg.slogdet(self.matrix)
        return self.centre, self.matrix, inverse, log_det


class Radial(Layer):
    r"""Moves points towards or away from a centre z0:

        x = z + b (z - z0) / (a + r),    r = |z - z0|,    a > 0,  b > -a.

    With s = |x - z0| = r (1 + b / (a + r)), r solves r^2 + (a + b - s) r - a s = 0, which has one
    positive root; it is computed in the form that loses no digits to cancellation. The radial
    layer of normflows has neither an inverse nor a context.

    References:
        Rezende, Mohamed, Variational Inference with Normalizing Flows, 2015, section 4.1.

    Arguments:
        dim: Number of dimensions D.
    """

    SMALLEST = 1e-3

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim, self.width = dim, dim + 2

    def prepare(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Centre (cases, 1, D), a and b (cases, 1)."""
        centre = parameters[:, None, : self.dim]
        a = self.SMALLEST + softplus(parameters[:, None, self.dim])
        # b > -a keeps the map increasing; b + a is bounded away from 0, so it stays invertible.
        b = self.SMALLEST + softplus(parameters[:, None, self.dim + 1]) - a
        return centre, a, b

    def _log_det(self, r: Tensor, a: Tensor, b: Tensor) -> Tensor:
        h = b / (a + r)
        return (self.dim - 1) * h.log1p() + (h * a / (a + r)).log1p()

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        centre, a, b = prepared
        offset = z - centre
        r = offset.norm(dim=-1)
        return z + (b / (a + r))[..., None] * offset, self._log_det(r, a, b)

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        centre, a, b = prepared
        offset = x - centre
        s = offset.norm(dim=-1)
        p = a + b - s
        q = p.abs() + (p.square() + 4 * a * s).sqrt()
        r = (2 * a * s / q).where(p > 0, q / 2)
        return centre + offset / (1 + b / (a + r))[..., None], -self._log_det(r, a, b)


class MaskedAffine(Layer):
    r"""A masked autoregressive layer; normflows' own draws in parallel and cannot widen.

    Every coordinate is shifted and scaled by what a masked network makes of those before it,

        x_i = m_i(x_<i) + exp(s_i(x_<i)) z_i.

    The density of given points takes one pass of the network, a draw goes through the coordinates
    one by one. Columns of context: the contribution of y and theta to the first hidden layer.

    References:
        Papamakarios, Pavlakou, Murray, Masked Autoregressive Flow for Density Estimation, 2017.
        Germain et al., MADE: Masked Autoencoder for Distribution Estimation, 2015.

    Arguments:
        dim: Number of dimensions D.
        hidden: Width of both hidden layers, D - 1 at least.
        activation: The network's activation.
        backwards: Whether the last coordinate comes first.
    """

    # The logarithm of a scale is limited to +- this, softly.
    SPREAD = 3.0

    def __init__(self, dim: int, *, hidden: int, activation: str, backwards: bool) -> None:
        super().__init__()
        self.dim, self.width, self.backwards = dim, hidden, backwards
        self.activation = ACTIVATIONS[activation]()
        # normflows draws weights from the global generator, and `initialize` draws them again.
        with torch.random.fork_rng(devices=[]):
            self.network = MADE(
                dim,
                hidden,
                num_blocks=1,
                output_multiplier=2,
                use_residual_blocks=False,
                activation=ACTIVATIONS[activation](),
            )

    def initialize(self, generator: torch.Generator) -> None:
        """Draws the network's weights; its last layer starts small, near the identity."""
        last = self.network.final_layer
        for linear in (m for m in self.network.modules() if isinstance(m, nn.Linear)):
            bound = 1 / math.sqrt(linear.in_features)
            with torch.no_grad():
                scale = 0.1 if linear is last else 1.0
                linear.weight.uniform_(-bound * scale, bound * scale, generator=generator)
                linear.bias.uniform_(-bound, bound, generator=generator)
                if linear is last:
                    linear.bias.zero_()

    def _limited(self, out: Tensor) -> tuple[Tensor, Tensor]:
        # A shift and a free scale for every coordinate in turn.
        shift, free = out[..., 0::2], out[..., 1::2]
        return shift, self.SPREAD * torch.tanh(free / self.SPREAD)

    def _ordered(self, points: Tensor) -> Tensor:
        return points.flip(-1) if self.backwards else points

    def forward(self, z: Tensor, prepared: Tensor) -> tuple[Tensor, Tensor]:
        z = self._ordered(z)
        first, last = self.network.initial_layer, self.network.final_layer
        second = self.network.blocks[0].linear
        # Hidden units in the order of the coordinates that they wait for: each is computed once,
        # as soon as these are known.
        order = first.degrees.argsort(stable=True)
        known = first.degrees.bincount(minlength=self.dim).cumsum(0).tolist()
        weights_1, weights_2 = first.weight[order], second.weight[order][:, order]
        bias_1, bias_2 = (first.bias + prepared[:, None])[..., order], second.bias[order]
        hidden_1 = hidden_2 = z.new_zeros(*z.shape[:-1], 0)
        x, log_det = z[..., :0], torch.zeros_like(z[..., 0])
        for i, end in enumerate(known):
            new = slice(hidden_1.shape[-1], end)
            units = self.activation(x @ weights_1[new, :i].T + bias_1[..., new])
            hidden_1 = torch.cat([hidden_1, units], -1)
            units = self.activation(hidden_1 @ weights_2[new, :end].T + bias_2[new])
            hidden_2 = torch.cat([hidden_2, units], -1)
            rows = slice(2 * i, 2 * i + 2)
            out = hidden_2 @ last.weight[rows][:, order[:end]].T + last.bias[rows]
            shift, log_scale = self._limited(out)
            x = torch.cat([x, shift + log_scale.exp() * z[..., i : i + 1]], -1)
            log_det = log_det + log_scale.squeeze(-1)
        return self._ordered(x), log_det

    def inverse(self, x: Tensor, prepared: Tensor) -> tuple[Tensor, Tensor]:
        x = self._ordered(x)
        hidden = self.activation(self.network.initial_layer(x) + prepared[:, None])
        shift, log_scale = self._limited(self.network.final_layer(self.network.blocks[0](hidden)))
        return self._ordered((x - shift) * (-log_scale).exp()), -log_scale.sum(-1)


class Marginals(Layer):
    """A spline for every coordinate, then a scale and a shift; all read y and theta alone.

    The splines leave every point beyond [-reach, reach] where it is; at the ends of this interval
    their derivative is one. Parameters of a coordinate: the shift, the scale, the sizes of bins on
    both axes, and the derivatives between them.

    Arguments:
        dim: Number of dimensions D.
        bins: Number of bins of each spline.
        reach: A spline covers this many standard deviations to both sides.
        unit: The unit of the shift.
    """

    # The logarithm of a scale is limited to +- this, softly.
    SPREAD = 3.0

    def __init__(self, dim: int, *, bins: int, reach: float = 5.0, unit: float = 1.0) -> None:
        super().__init__()
        self.reach, self.unit, self.widths = reach, unit, [1, 1, 2 * bins, bins - 1]
        self.width = dim * sum(self.widths)

    def prepare(self, parameters: Tensor) -> tuple[Tensor, Tensor, SharedKnots]:
        """Shifts and logarithms of scales (cases * D, 1), and the splines, in such rows."""
        rows = parameters.reshape(-1, sum(self.widths))
        shift, free, sizes, derivatives = rows.split(self.widths, -1)
        log_scale = self.SPREAD * torch.tanh(free / self.SPREAD)
        return shift * self.unit, log_scale, SharedKnots(Knots(sizes, pad(derivatives, (1, 1))))

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, log_scale, splines = prepared
        bent, log_det = self._bent(splines.forward, _rows_of(z))
        x = _points_of(shift + log_scale.exp() * bent, z)
        return x, _points_of(log_det + log_scale, z).sum(-1)

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, log_scale, splines = prepared
        z, log_det = self._bent(splines.inverse, (_rows_of(x) - shift) * (-log_scale).exp())
        return _points_of(z, x), _points_of(log_det - log_scale, x).sum(-1)

    def _bent(self, spline: Map, t: Tensor) -> tuple[Tensor, Tensor]:
        inside = t.clamp(-self.reach, self.reach)
        value, log_det = spline(inside / (2 * self.reach) + 0.5)
        value = 2 * self.reach * (value - 0.5) + (t - inside)
        return value, log_det.where(inside == t, 0.0)


def _rows_of(points: Tensor) -> Tensor:
    """Points (cases, n, D) as rows of coordinates (cases * D, n)."""
    return points.mT.reshape(-1, points.shape[1])


def _points_of(rows: Tensor, like: Tensor) -> Tensor:
    """Rows of coordinates (cases * D, n) as points (cases, n, D)."""
    return rows.reshape(*like.mT.shape).mT


class RadialSpline(Layer):
    """Moves points along their radius: log |x| is a spline of log |z|, scaled and shifted.

    Arguments:
        dim: Number of dimensions D, two at least.
        bins: Number of bins of the spline.
    """

    def __init__(self, dim: int, *, bins: int) -> None:
        super().__init__()
        self.dim = dim
        # About the mean and the standard deviation of log |z| for standard normal z.
        self.centre, self.scale = math.log(dim) / 2, 1 / math.sqrt(2 * dim)
        self.spline = Marginals(1, bins=bins, reach=6.0, unit=1 / self.scale)
        self.width = self.spline.width

    def prepare(self, parameters: Tensor) -> Any:
        return self.spline.prepare(parameters)

    def forward(self, z: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        return self._moved(z, self.spline.forward, prepared)

    def inverse(self, x: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        return self._moved(x, self.spline.inverse, prepared)

    def _moved(self, points: Tensor, spline: Map, prepared: Any) -> tuple[Tensor, Tensor]:
        square = points.square().sum(-1, keepdim=True)
        log_r = square.clamp(min=torch.finfo(points.dtype).tiny).log() / 2
        t, log_det = spline((log_r - self.centre) / self.scale, prepared)
        growth = self.centre + self.scale * t - log_r
        # dx = (s / r)^(D - 1) ds / dr, and ds / dr = (s / r) d log s / d log r.
        return points * growth.exp(), self.dim * growth.squeeze(-1) + log_det


class ToSupport(Layer):
    """The bijector from unconstrained space to the support, coordinate by coordinate.

    Arguments:
        bijectors: Those of the coordinates, each a `Logistic`.
    """

    def __init__(self, bijectors: Sequence[CoordinateBijector]) -> None:
        super().__init__()
        self.bijectors: list[Any] = list(bijectors)

    def forward(self, z: Tensor, prepared: Any = None) -> tuple[Tensor, Tensor]:
        return _by_coordinate([b.constrained for b in self.bijectors], z)

    def inverse(self, x: Tensor, prepared: Any = None) -> tuple[Tensor, Tensor]:
        return _by_coordinate([b.unconstrained for b in self.bijectors], x)


def _by_coordinate(maps: Sequence[Map], points: Tensor) -> tuple[Tensor, Tensor]:
    moved = [f(column) for f, column in zip(maps, points.unbind(-1), strict=True)]
    columns, log_dets = zip(*moved, strict=True)
    zero = torch.zeros_like(points[..., 0])
    return torch.stack(columns, -1), sum((log for log in log_dets if log is not None), zero)
