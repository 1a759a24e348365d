r"""Splines coordinate by coordinate: q(x) = prod_i q_i(x_i | x_<i; y, theta).

Every factor is a one-dimensional conditional flow with a small network of its own, which reads y,
theta and the coordinates before. Sampling takes one pass along the coordinates, and gives the
density on the way; so does the density of given points.
"""

from __future__ import annotations

__all__ = ["Autoregressive", "autoregressive_spline"]

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from amci_core.flows.bases import UnitUniform
from amci_core.flows.conditioner import Conditioner
from amci_core.flows.density import (
    ConditionalLayer,
    Flow,
    FlowAt,
    Trainable,
    TrainableDensity,
    flat_cases,
    half_line,
    stratified_uniform,
)
from amci_core.flows.response import Response
from amci_core.flows.spline import HalfLine, RationalQuadratic
from amci_core.models.base import Problem

# The logarithm of a coordinate's scale is limited to +- this, as on the half-line.
LOG_SCALE_SPREAD = 3.0


class Line(ConditionalLayer):
    """Carries (0, 1] onto the line by scaled and shifted logistic quantiles.

    The logistic's tails are heavier than a Gaussian's, so that weights stay bounded. Columns of
    context: shift and logarithm of the scale, softly limited, in units of `scale` about `centre`.

    Arguments:
        centre: About where x lies.
        scale: About how far it spreads.
    """

    width = 2

    def __init__(self, *, centre: float, scale: float) -> None:
        super().__init__()
        self.centre, self.scale = centre, scale

    def _split(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        shift, free = parameters[:, None, :1], parameters[:, None, 1:]
        log_scale = LOG_SCALE_SPREAD * torch.tanh(free / LOG_SCALE_SPREAD)
        return self.centre + self.scale * shift, log_scale + math.log(self.scale / 2)

    def _forward(self, z: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        shift, log_scale = self._split(parameters)
        # The end that rounding reaches would be an infinite x.
        z = z.clamp(torch.finfo(z.dtype).tiny, 1 - torch.finfo(z.dtype).eps / 2)
        log_z, log_rest = z.log(), torch.log1p(-z)
        x = shift + log_scale.exp() * (log_z - log_rest)
        return x, (log_scale - log_z - log_rest).squeeze(-1)

    def _inverse(self, x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        shift, log_scale = self._split(parameters)
        standardized = (x - shift) * (-log_scale).exp()
        z = torch.sigmoid(standardized)
        # log z (1 - z), from the end where nothing cancels.
        log_both = -standardized.abs() - 2 * torch.log1p((-standardized.abs()).exp())
        return z, (log_both - log_scale).squeeze(-1)


class Positive(ConditionalLayer):
    """x = exp(z), onto the positive half-line."""

    width = 0

    def _forward(self, z: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        return z.exp(), z.squeeze(-1)

    def _inverse(self, x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        inside = x > 0
        z = x.where(inside, 1.0).log()
        return z, (-z).where(inside, -math.inf).squeeze(-1)


class UnitInterval(ConditionalLayer):
    """x = 1 / (1 + exp(-z)), onto the open unit interval."""

    width = 0

    def _forward(self, z: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        eps = torch.finfo(z.dtype).eps
        x = torch.sigmoid(z).clamp(eps, 1 - eps)
        return x, (x.log() + torch.log1p(-x)).squeeze(-1)

    def _inverse(self, x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        inside = (x > 0) & (x < 1)
        safe = x.where(inside, 0.5)
        log_x, log_rest = safe.log(), torch.log1p(-safe)
        log_det = (-log_x - log_rest).where(inside, -math.inf)
        return log_x - log_rest, log_det.squeeze(-1)


class Inside(ConditionalLayer):
    """The unit interval as it is; nothing lies outside."""

    width = 0

    def _forward(self, z: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        return z, torch.zeros_like(z[..., 0])

    def _inverse(self, x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        inside = (x >= 0) & (x <= 1)
        log_det = torch.zeros_like(x).where(inside, -math.inf)
        return x.clamp(0, 1), log_det.squeeze(-1)


class Coordinate(nn.Module):
    """One factor: its flow, its network, and how later factors read its values.

    Arguments:
        flow: A one-dimensional conditional flow.
        conditioner: The network that predicts its parameters.
        kind: `half-line`, `unit`, `positive`, `probability`, `response` or `line`.
        centre: About where x lies, in the units of the line that it is carried to.
        scale: About how far it spreads there.
    """

    def __init__(
        self, flow: Flow, conditioner: Conditioner, *, kind: str, centre: float, scale: float
    ) -> None:
        super().__init__()
        self.flow, self.conditioner = flow, conditioner
        self.kind, self.centre, self.scale = kind, centre, scale

    def feature(self, x: Tensor, bound: Tensor | None) -> Tensor:
        """x (cases, n) in about unit size, as the networks of later coordinates read it."""
        if self.kind == "positive":
            x = x.clamp(min=torch.finfo(x.dtype).tiny).log()
        elif self.kind in ("probability", "response"):
            x = torch.logit(x, eps=torch.finfo(x.dtype).eps)
        elif bound is not None:
            x = x - bound
        return (x - self.centre) / self.scale


class Autoregressive(Trainable):
    """The product of one-dimensional factors.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: Its factors, first coordinate first.
    """

    def __init__(self, problem: Problem, coordinates: Sequence[Coordinate]) -> None:
        super().__init__()
        self.problem = problem
        self.coordinates = nn.ModuleList(coordinates)
        self.bounded = any(c.kind == "half-line" for c in coordinates)

    @property
    def factors(self) -> list[Coordinate]:
        """The factors, first coordinate first."""
        return [c for c in self.coordinates if isinstance(c, Coordinate)]

    def initialize(self, generator: torch.Generator) -> None:
        for coordinate in self.factors:
            coordinate.conditioner.initialize(generator)

    def __call__(self, y: Tensor, theta: Tensor | None) -> AutoregressiveDensity:
        return AutoregressiveDensity(self, y, theta)


class AutoregressiveDensity(TrainableDensity):
    """The factors at given y and theta; the first one's network has run, once per case."""

    def __init__(self, proposal: Autoregressive, y: Tensor, theta: Tensor | None) -> None:
        super().__init__(y.shape[:-1])
        self._factors = proposal.factors
        self._y, self._theta = flat_cases(y, theta)
        self._bound = half_line(proposal.problem, self._theta).bound if proposal.bounded else None
        self._context = self._context_of(0, None)
        self._first = self._factors[0].flow.at(self._context)

    @property
    def _dim(self) -> int:
        return len(self._factors)

    def noise(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        like = self._context
        uniform = torch.rand(
            len(like) * n, self._dim, dtype=like.dtype, device=like.device, generator=generator
        )
        return 1.0 - uniform

    def from_uniform(self, u: Tensor) -> Tensor:
        return u

    def stratified_noise(self, n: int, generator: torch.Generator) -> Tensor:
        return stratified_uniform(
            len(self._context), n, self._dim, like=self._context, generator=generator
        )

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        z = z.reshape(len(self._context), -1, self._dim)
        values: list[Tensor] = []
        features: list[Tensor] = []
        log_q = torch.zeros_like(z[..., 0])
        for i in range(self._dim):
            x, log_density = self._flow(i, features).transport(z[..., i].reshape(-1, 1))
            values.append(x.reshape(z.shape[:-1]))
            features.append(self._feature(i, values[-1]))
            log_q = log_q + log_density.reshape(z.shape[:-1])
        return self._unflat(torch.stack(values, -1)), self._unflat(log_q)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:])
        flat = x.reshape(len(self._context), *x.shape[-2:])
        features: list[Tensor] = []
        log_q = torch.zeros_like(flat[..., 0])
        for i in range(self._dim):
            points = flat[..., i]
            log_density = self._flow(i, features).log_prob(points.reshape(-1, 1))
            log_q = log_q + log_density.reshape(points.shape)
            features.append(self._feature(i, points))
        return self._unflat(log_q)

    def _flow(self, i: int, features: list[Tensor]) -> FlowAt:
        if i == 0:
            return self._first
        return self._factors[i].flow.at(self._context_of(i, torch.stack(features, -1)))

    def _context_of(self, i: int, preceding: Tensor | None) -> Tensor:
        parameters = self._factors[i].conditioner(self._y, self._theta, preceding)
        if self._bound is None:
            return parameters
        n = 1 if preceding is None else preceding.shape[1]
        bound = self._bound[:, i : i + 1].repeat_interleave(n, dim=0)
        return torch.cat([parameters, bound.to(parameters.dtype)], dim=-1)

    def _feature(self, i: int, x: Tensor) -> Tensor:
        bound = None if self._bound is None else self._bound[:, i : i + 1]
        return self._factors[i].feature(x, bound)

    def _unflat(self, values: Tensor) -> Tensor:
        return values.reshape(*self.batch_shape, *values.shape[1:])


def autoregressive_spline(
    problem: Problem,
    *,
    coordinates: Sequence[Mapping[str, Any]],
    bins: int,
    hidden: tuple[int, ...],
    activation: str,
    reads_theta: bool = True,
) -> Autoregressive:
    """Splines coordinate by coordinate, each carried onto the support of its coordinate.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: For each coordinate its `kind`, and where later ones read it or the kind asks
            for it, about its `centre` and `scale`: `half-line` (the side of a bound on which
            f_plus lives), `unit` (the unit interval as it is), `positive` and `probability` (the
            line, carried on by exp or by the logistic function), `response` (the unit interval, in
            a coordinate for `cancer`), or `line`.
        bins: Number of bins of each spline.
        hidden: Widths of the hidden layers of each network.
        activation: The networks' activation.
        reads_theta: Whether they read theta beside y.

    Raises:
        ValueError: a kind is not known, or there are not as many coordinates as x has.
    """
    if len(coordinates) != problem.x.dim:
        raise ValueError(
            f"coordinates: expected {problem.x.dim} for {problem.name}, got {len(coordinates)}"
        )
    factors = []
    for i, given in enumerate(coordinates):
        kind, centre, scale = given["kind"], given.get("centre", 0.0), given.get("scale", 1.0)
        line = Line(centre=centre, scale=scale)
        layers: dict[str, list[ConditionalLayer]] = {
            "half-line": [HalfLine()],
            "unit": [Inside()],
            "line": [line],
            "positive": [line, Positive()],
            "probability": [line, UnitInterval()],
            "response": [line, Response()],
        }
        if kind not in layers:
            raise ValueError(f"kind: expected one of {', '.join(layers)}, got {kind!r}")
        flow = Flow(UnitUniform(1), [RationalQuadratic(bins), *layers[kind]])
        conditioner = Conditioner(
            y=problem.y,
            theta=problem.theta if reads_theta else None,
            preceding=i,
            out=flow.width - (kind == "half-line"),
            hidden=hidden,
            activation=activation,
        )
        factors.append(Coordinate(flow, conditioner, kind=kind, centre=centre, scale=scale))
    return Autoregressive(problem, factors)
