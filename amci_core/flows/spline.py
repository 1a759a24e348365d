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

from amci_core.flows.base import ConditionalLayer, Flow, FlowProposal, half_line
from amci_core.flows.bases import UnitUniform
from amci_core.flows.network import Conditioner
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
    """The bin of every point: left edge and width, bottom and slope, derivatives at both edges."""

    left: Tensor
    width: Tensor
    bottom: Tensor
    slope: Tensor
    derivative: Tensor
    next_derivative: Tensor

    def denominator(self, t: Tensor) -> Tensor:
        """The rational function's denominator at t in [0, 1]; a sum of positive parts."""
        between = t * (1 - t)
        ends = self.derivative + self.next_derivative
        return self.slope * (1 - 2 * between) + ends * between

    def log_derivative(self, t: Tensor) -> Tensor:
        """Logarithm of the spline's derivative at t in [0, 1]; again from positive parts."""
        rest = 1 - t
        numerator = (
            self.derivative * rest.square()
            + 2 * self.slope * t * rest
            + self.next_derivative * t.square()
        )
        return 2 * (self.slope / self.denominator(t)).log() + numerator.log()


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

    def _knots(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        widths, heights, derivatives = parameters.split(
            [self.bins, self.bins, self.bins + 1], dim=-1
        )
        return (
            self._edges(widths),
            self._edges(heights),
            SMALLEST + softplus(derivatives + IDENTITY),
        )

    def _edges(self, unnormalized: Tensor) -> Tensor:
        sizes = SMALLEST + (1 - SMALLEST * self.bins) * softmax(unnormalized, dim=-1)
        inner = sizes.cumsum(-1)[:, :-1]
        return pad(pad(inner, (1, 0), value=0.0), (0, 1), value=1.0)

    def _look_up(self, points: Tensor, parameters: Tensor, *, by_height: bool) -> Bins:
        left, bottom, derivative = self._knots(parameters)
        width = left.diff(dim=-1)
        slope = bottom.diff(dim=-1) / width
        edges = (bottom if by_height else left)[:, 1:-1].contiguous()
        index = torch.searchsorted(edges.detach(), points.detach().contiguous(), right=True)
        fields = (
            left[:, :-1],
            width,
            bottom[:, :-1],
            slope,
            derivative[:, :-1],
            derivative[:, 1:],
        )
        return Bins(*(field.gather(-1, index) for field in fields))

    def _forward(self, z: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        points = z.squeeze(-1)
        bins = self._look_up(points, parameters, by_height=False)
        t = ((points - bins.left) / bins.width).clamp(0, 1)
        rise = bins.slope * t.square() + bins.derivative * t * (1 - t)
        x = bins.bottom + bins.width * bins.slope * rise / bins.denominator(t)
        return x[..., None], bins.log_derivative(t)

    def _inverse(self, x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        points = x.squeeze(-1)
        bins = self._look_up(points, parameters, by_height=True)
        curvature = bins.derivative + bins.next_derivative - 2 * bins.slope
        rise = points - bins.bottom
        height = bins.width * bins.slope
        # The positive root of a t^2 + b t + c = 0, in the form without cancellation.
        a = height * (bins.slope - bins.derivative) + rise * curvature
        b = height * bins.derivative - rise * curvature
        c = -bins.slope * rise
        # Rounding can push the discriminant to zero, where a square root has no gradient.
        root = (b.square() - 4 * a * c).clamp(min=torch.finfo(x.dtype).tiny).sqrt()
        t = (2 * c / (-b - root)).clamp(0, 1)
        return (bins.left + t * bins.width)[..., None], -bins.log_derivative(t)


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
        self.sign = sign

    @staticmethod
    def _split(parameters: Tensor) -> tuple[Tensor, Tensor]:
        free, bound = parameters[:, None, :1], parameters[:, None, 1:]
        return LOG_SCALE_CENTRE + LOG_SCALE_SPREAD * torch.tanh(free / LOG_SCALE_SPREAD), bound

    def _forward(self, z: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        log_scale, bound = self._split(parameters)
        log_z = z.log()
        bound = self.sign * bound
        x = self.sign * strictly_above(bound - log_scale.exp() * log_z, bound)
        return x, (log_scale - log_z).squeeze(-1)

    def _inverse(self, x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        log_scale, bound = self._split(parameters)
        inside = self.sign * x > self.sign * bound
        # Outside the support any point of the unit interval will do: the log density is -inf.
        excess = (self.sign * (x - bound) * (-log_scale).exp()).where(inside, 1.0)
        log_det = (-log_scale - excess).where(inside, -math.inf)
        return torch.exp(-excess), log_det.squeeze(-1)


class SoftHalfLine(HalfLine):
    """Carries (0, 1] onto x > bound, or x < bound, for a density that falls to zero at the bound.

    The excess is softplus of a shifted logistic of scale 1 / 2: its density is linear at the
    bound, that of a logistic where the shift lies far from it, and exponential in the tail.
    Columns of context: the shift, the logarithm of the scale, softly limited, and the bound.
    """

    width = 3
    LOGISTIC_SCALE = 0.5

    def _parts(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_scale, bound = self._split(parameters[:, 1:])
        return parameters[:, None, :1], log_scale, bound

    def _forward(self, z: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        shift, log_scale, bound = self._parts(parameters)
        # At z = 1 lies the bound itself, where the density is zero: half a rounding error beside.
        z = z.clamp(max=1 - torch.finfo(z.dtype).eps / 2)
        log_z, log_rest = z.log(), torch.log1p(-z)
        inner = shift + self.LOGISTIC_SCALE * (log_rest - log_z)
        bound = self.sign * bound
        x = self.sign * strictly_above(bound + log_scale.exp() * softplus(inner), bound)
        log_det = log_scale + math.log(self.LOGISTIC_SCALE) + logsigmoid(inner)
        return x, (log_det - log_z - log_rest).squeeze(-1)

    def _inverse(self, x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        shift, log_scale, bound = self._parts(parameters)
        inside = self.sign * x > self.sign * bound
        excess = (self.sign * (x - bound) * (-log_scale).exp()).where(inside, 1.0)
        inner = excess + torch.log(-torch.expm1(-excess))
        standardized = (inner - shift) / self.LOGISTIC_SCALE
        size = standardized.abs()
        log_det = -size - 2 * torch.log1p((-size).exp()) - math.log(self.LOGISTIC_SCALE)
        log_det = (log_det - log_scale - logsigmoid(inner)).where(inside, -math.inf)
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
