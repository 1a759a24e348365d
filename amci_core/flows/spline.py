r"""Rational-quadratic splines on (0, 1), and the half-line family that the tail problems use.

x = theta + the exponential quantile of a spline of a uniform: the spline bends the unit interval,
the quantile map carries it onto the half-line where f is not zero. An exponential tail is heavier
than the target's, so importance weights stay bounded.
"""

from __future__ import annotations

__all__ = ["HalfLine", "RationalQuadratic", "SoftHalfLine", "half_line_spline"]

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad, softmax, softplus

from amci_core.flows.bases import UnitUniform
from amci_core.flows.conditioner import Conditioner
from amci_core.flows.density import ConditionalLayer, Flow, FlowProposal, half_line
from amci_core.models.base import Problem, strictly_above

# Smallest width, height and derivative of a bin. normflows' 1e-3 leaves the last thousandth of the
# mass to one bin, which costs as much relative variance; with 1e-5 training becomes unstable.
SMALLEST = 1e-4
# The logarithm of the half-line's scale is limited to CENTRE +- SPREAD, which spans 0.07 to 2.2:
# without a limit the spline can undo an ever larger scale with ever narrower bins.
LOG_SCALE_CENTRE = -0.9
LOG_SCALE_SPREAD = 1.7
# softplus(IDENTITY) + the smallest derivative = 1: with zero widths and heights, the identity.
IDENTITY = math.log(math.expm1(1 - SMALLEST))


class Bins(NamedTuple):
    """Bins of a spline: left edge and width, bottom and slope, derivatives at both edges."""

    left: Tensor
    width: Tensor
    bottom: Tensor
    slope: Tensor
    derivative: Tensor
    next_derivative: Tensor

    @property
    def curvature(self) -> Tensor:
        """What the derivatives at both edges add up to beyond a straight line's."""
        return self.derivative + self.next_derivative - 2.0 * self.slope

    def denominator(self, t: Tensor) -> Tensor:
        """The rational function's denominator at t in [0, 1]; half of the slope or more."""
        return self.slope + self.curvature * (t * (1.0 - t))

    def log_derivative(self, t: Tensor) -> Tensor:
        """Logarithm of the spline's derivative at t in [0, 1], from positive parts."""
        rest = 1.0 - t
        numerator = (
            self.derivative * rest.square()
            + 2.0 * self.slope * t * rest
            + self.next_derivative * t.square()
        )
        return (numerator * (self.slope / self.denominator(t)).square()).log()


class Knots(NamedTuple):
    """What a spline's parameters come to, for every case.

    Arguments:
        bins: The fields of all bins, (6, cases, bins), in the order of `Bins`.
        inner_left: Left edges of all bins but the first.
        inner_bottom: Their bottoms.
    """

    bins: Tensor
    inner_left: Tensor
    inner_bottom: Tensor

    def look_up(self, points: Tensor, edges: Tensor) -> Bins:
        """The bins of points (cases, draws) between the inner edges, each field (cases, draws)."""
        index = torch.searchsorted(edges, points.detach().contiguous(), right=True)
        return Bins(*self.bins.gather(-1, index.expand(len(self.bins), -1, -1)))


def _inner(edges: Tensor) -> Tensor:
    inner = edges.detach()[:, 1:-1].contiguous()
    # A single row of edges is looked up in half the time where it is not a batch of one.
    return inner[0] if len(inner) == 1 else inner


class RationalQuadratic(ConditionalLayer):
    """A monotone rational-quadratic spline of the unit interval onto itself.

    The same function as normflows' `rational_quadratic_spline`, which computes its knots afresh
    for every point; here they are computed once per (y, theta), and each point looks up its bin.

    References:
        Durkan, Bekasov, Murray, Papamakarios, Neural Spline Flows, 2019.

    Arguments:
        bins: Number of bins.
    """

    def __init__(self, bins: int) -> None:
        super().__init__()
        self.bins = bins
        self.width = 3 * bins + 1

    def prepare(self, parameters: Tensor) -> Knots:
        widths, heights, free = parameters.split([self.bins, self.bins, self.bins + 1], dim=-1)
        left, bottom = self._edges(widths), self._edges(heights)
        derivative = SMALLEST + softplus(free + IDENTITY)
        width = left.diff(dim=-1)
        bins = Bins(
            left[:, :-1],
            width,
            bottom[:, :-1],
            bottom.diff(dim=-1) / width,
            derivative[:, :-1],
            derivative[:, 1:],
        )
        return Knots(torch.stack(bins), _inner(left), _inner(bottom))

    def _edges(self, unnormalized: Tensor) -> Tensor:
        sizes = SMALLEST + (1 - SMALLEST * self.bins) * softmax(unnormalized, dim=-1)
        inner = sizes.cumsum(-1)[:, :-1]
        return pad(pad(inner, (1, 0), value=0.0), (0, 1), value=1.0)

    def _forward(self, z: Tensor, parameters: Knots) -> tuple[Tensor, Tensor]:
        points = z.squeeze(-1)
        bins = parameters.look_up(points, parameters.inner_left)
        t = ((points - bins.left) / bins.width).clamp(0, 1)
        rise = bins.slope * t.square() + bins.derivative * t * (1.0 - t)
        x = bins.bottom + bins.width * bins.slope * rise / bins.denominator(t)
        return x[..., None], bins.log_derivative(t)

    def _inverse(self, x: Tensor, parameters: Knots) -> tuple[Tensor, Tensor]:
        points = x.squeeze(-1)
        bins = parameters.look_up(points, parameters.inner_bottom)
        rise = points - bins.bottom
        height = bins.width * bins.slope
        bend = rise * bins.curvature
        # The positive root of a t^2 + b t + c = 0, in the form without cancellation.
        a = height * (bins.slope - bins.derivative) + bend
        b = height * bins.derivative - bend
        c = -bins.slope * rise
        # Rounding can push the discriminant to zero, where a square root has no gradient.
        root = (b.square() - 4.0 * a * c).clamp(min=torch.finfo(x.dtype).tiny).sqrt()
        t = (2.0 * c / (-b - root)).clamp(0, 1)
        return (bins.left + t * bins.width)[..., None], -bins.log_derivative(t)


class Side(NamedTuple):
    """A side of a bound for every case, mirrored so that it lies above; (cases, 1, 1) each.

    Arguments:
        shift: Of `SoftHalfLine` alone.
        log_scale: Logarithm of the scale.
        scale: The scale.
        bound: The bound.
        nearest: The first number above the bound.
    """

    shift: Tensor
    log_scale: Tensor
    scale: Tensor
    bound: Tensor
    nearest: Tensor


class HalfLine(ConditionalLayer):
    """Carries (0, 1] onto x > bound, or x < bound: z is the survival function of an exponential.

    The far tail lies at z = 0, where floating point numbers are densest, so that it keeps its
    digits. Columns of context: the logarithm of the scale, softly limited, and the bound of the
    support.

    Arguments:
        sign: 1 for x > bound, -1 for x < bound.
    """

    width = 2

    def __init__(self, sign: int = 1) -> None:
        super().__init__()
        self.sign = float(sign)

    def prepare(self, parameters: Tensor) -> Side:
        shift, free, bound = parameters[:, None].split([self.width - 2, 1, 1], dim=-1)
        log_scale = LOG_SCALE_CENTRE + LOG_SCALE_SPREAD * torch.tanh(free / LOG_SCALE_SPREAD)
        bound = self.sign * bound
        return Side(shift, log_scale, log_scale.exp(), bound, strictly_above(bound, bound))

    def _forward(self, z: Tensor, parameters: Side) -> tuple[Tensor, Tensor]:
        side = parameters
        log_z = z.log()
        x = torch.maximum(side.bound - side.scale * log_z, side.nearest)
        return self.sign * x, (side.log_scale - log_z).squeeze(-1)

    def _inverse(self, x: Tensor, parameters: Side) -> tuple[Tensor, Tensor]:
        side = parameters
        excess = (self.sign * x - side.bound) / side.scale
        outside = ~(excess > 0)
        # Outside the support any point of the unit interval will do: the log density is -inf.
        excess = excess.masked_fill(outside, 1.0)
        log_det = (-side.log_scale - excess).masked_fill(outside, -math.inf)
        return torch.exp(-excess), log_det.squeeze(-1)


class SoftHalfLine(HalfLine):
    """Carries (0, 1] onto x > bound, or x < bound, for a density that falls to zero at the bound.

    The excess is softplus of a shifted logistic of scale 1 / 2: its density is linear at the
    bound, that of a logistic where the shift lies far from it, and exponential in the tail.
    Columns of context: the shift, the logarithm of the scale, softly limited, and the bound.
    """

    width = 3
    LOGISTIC_SCALE = 0.5

    def _forward(self, z: Tensor, parameters: Side) -> tuple[Tensor, Tensor]:
        side = parameters
        # At z = 1 lies the bound itself, where the density is zero: half a rounding error beside.
        z = z.clamp(max=1 - torch.finfo(z.dtype).eps / 2)
        log_z, log_rest = z.log(), torch.log1p(-z)
        inner = side.shift + self.LOGISTIC_SCALE * (log_rest - log_z)
        x = torch.maximum(side.bound + side.scale * softplus(inner), side.nearest)
        log_det = side.log_scale + math.log(self.LOGISTIC_SCALE) + logsigmoid(inner)
        return self.sign * x, (log_det - log_z - log_rest).squeeze(-1)

    def _inverse(self, x: Tensor, parameters: Side) -> tuple[Tensor, Tensor]:
        side = parameters
        excess = (self.sign * x - side.bound) / side.scale
        outside = ~(excess > 0)
        excess = excess.masked_fill(outside, 1.0)
        inner = excess + torch.log(-torch.expm1(-excess))
        standardized = (inner - side.shift) / self.LOGISTIC_SCALE
        size = standardized.abs()
        log_det = -size - 2.0 * torch.log1p((-size).exp()) - math.log(self.LOGISTIC_SCALE)
        log_det = (log_det - side.log_scale - logsigmoid(inner)).masked_fill(outside, -math.inf)
        return torch.sigmoid(-standardized), log_det.squeeze(-1)


def half_line_spline(
    problem: Problem,
    *,
    bins: int,
    hidden: tuple[int, ...],
    activation: str,
    vanishing: bool = False,
) -> FlowProposal:
    """The default family for q1 on a half-line: a spline carried onto x > theta or x < theta.

    Arguments:
        problem: A problem with one-dimensional x, whose f_plus vanishes on one side of a bound.
        bins: Number of bins of the spline.
        hidden: Widths of the conditioner's hidden layers.
        activation: The conditioner's activation.
        vanishing: Whether f_plus falls to zero linearly at the bound, instead of jumping there.
    """
    assert problem.theta is not None
    support = half_line(problem, torch.zeros(1, problem.theta.dim))
    kind = SoftHalfLine if vanishing else HalfLine
    flow = Flow(UnitUniform(problem.x.dim), [RationalQuadratic(bins), kind(support.sign)])
    conditioner = Conditioner(
        y=problem.y,
        theta=problem.theta,
        out=flow.width - 1,
        hidden=hidden,
        activation=activation,
    )
    return FlowProposal(problem, flow=flow, conditioner=conditioner, bounded=True)
