r"""Monotone rational-quadratic splines of the unit interval onto itself.

The same function as normflows' `rational_quadratic_spline`, which computes all knots and all
derivatives afresh for every point. Here they are computed once per (y, theta), if they depend on
these alone, and a point looks up its bin; where every point has knots of its own, only the
derivatives at the ends of its bin are computed.

References:
    Durkan, Bekasov, Murray, Papamakarios, Neural Spline Flows, 2019.
"""

from __future__ import annotations

__all__ = ["Knots", "SharedKnots"]

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

# Smallest width, height and derivative of a bin. normflows' 1e-3 leaves the last thousandth of the
# mass to one bin, which costs as much relative variance; with 1e-5 training becomes unstable.
SMALLEST = 1e-4
# softplus(IDENTITY) + the smallest derivative = 1: with zero widths and heights, the identity.
IDENTITY = math.log(math.expm1(1 - SMALLEST))
# Unnormalized sizes are the exponentials of numbers within +- this.
LARGEST_EXPONENT = 80.0


def spline_widths(bins: int) -> tuple[int, int]:
    """Numbers of a spline's parameters: sizes of bins on both axes, and derivatives."""
    return 2 * bins, bins + 1


class Bins(NamedTuple):
    """The bins that points lie in, with the derivatives at both ends."""

    left: Tensor
    width: Tensor
    bottom: Tensor
    height: Tensor
    slope: Tensor
    derivative: Tensor
    next_derivative: Tensor
    # What both derivatives add up to beyond a straight line's.
    curvature: Tensor

    @classmethod
    def of(cls, edges: Tensor, free: Tensor) -> Bins:
        """All k bins of edges (*, 2, k + 1) and free derivatives (*, k + 1), each field (*, k)."""
        low, derivative = edges[..., :-1], SMALLEST + softplus(free + IDENTITY)
        (left, bottom), (width, height) = low.unbind(-2), (edges[..., 1:] - low).unbind(-2)
        slope = height / width
        ends = derivative[..., :-1], derivative[..., 1:]
        curvature = torch.add(ends[0] + ends[1], slope, alpha=-2.0)
        return cls(left, width, bottom, height, slope, *ends, curvature)

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The spline at u, and the logarithm of its derivative."""
        t = (u - self.left) / self.width
        low, denominator = self._parts(t)
        value = torch.addcmul(self.bottom, self.height, t * low / denominator)
        return value, self._log_derivative(low, denominator, t)

    def inverse(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The point that the spline takes to a value, and log|d point / d value|."""
        rise = value - self.bottom
        # The positive root of a t^2 + b t = c, in the form without cancellation.
        b = torch.addcmul(self.derivative, rise / self.height, self.curvature, value=-1.0)
        a, c = self.slope - b, rise / self.width
        # Rounding can push the discriminant to zero, where a square root has no gradient.
        tiny = torch.finfo(value.dtype).tiny
        root = torch.addcmul(b.square(), a, c, value=4.0).clamp(min=tiny).sqrt()
        t = (2.0 * c / (b + root)).clamp(0, 1)
        point = torch.addcmul(self.left, t, self.width)
        return point, -self._log_derivative(*self._parts(t), t)

    def _parts(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """A step of De Casteljau's scheme, which adds positive parts, and the denominator."""
        low = torch.lerp(self.derivative, self.slope, t)
        both = torch.addcmul(t, t, t, value=-1.0)  # t (1 - t)
        return low, torch.addcmul(self.slope, self.curvature, both)

    def _log_derivative(self, low: Tensor, denominator: Tensor, t: Tensor) -> Tensor:
        numerator = torch.lerp(low, torch.lerp(self.slope, self.next_derivative, t), t)
        return (numerator * (self.slope / denominator).square()).log()


class Knots:
    """Splines, one for each point.

    Arguments:
        sizes: Unnormalized logarithms of the bins' widths, and of their heights, (*, 2 bins).
        free: Free derivatives at their ends, (*, bins + 1).
    """

    def __init__(self, sizes: Tensor, free: Tensor) -> None:
        bins = free.shape[-1] - 1
        weights = sizes.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT).exp_().view(-1, bins)
        edges = torch.mm(weights, _cumulation(bins, sizes.dtype, sizes.device))
        # Ends of bins on both axes, (*, 2, bins + 1).
        self.edges = (edges / edges[:, -1:]).view(*free.shape[:-1], 2, bins + 1)
        self.free = free

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The splines at points u (*), and the logarithms of their derivatives."""
        value, log_det = self._bins(u, 0).forward(u[..., None])
        return value[..., 0], log_det[..., 0]

    def inverse(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The points (*) that go to these values, and log|d point / d value|."""
        u, log_det = self._bins(value, 1).inverse(value[..., None])
        return u[..., 0], log_det[..., 0]

    def _bins(self, points: Tensor, axis: int) -> Bins:
        beyond = points[..., None] >= self.edges[..., axis, 1:-1]
        both = beyond.sum(-1, keepdim=True) + _both_ends(points.device)
        edges = self.edges.gather(-1, both[..., None, :].expand(*both.shape[:-1], 2, 2))
        return Bins.of(edges, self.free.gather(-1, both))


class SharedKnots:
    """The splines of cases with many points each.

    Arguments:
        knots: One spline for each case, `*` being (cases,).
    """

    def __init__(self, knots: Knots) -> None:
        # The fields of all bins, (8, cases, bins).
        self._fields = torch.stack(Bins.of(knots.edges, knots.free))
        inner = knots.edges.detach()[..., 1:-1].movedim(1, 0).contiguous()
        # A single row of edges is looked up in half the time where it is not a batch of one.
        self._inner = inner[:, 0] if inner.shape[1] == 1 else inner

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """As of `Knots`, for points (cases, n)."""
        return self._bins(u, 0).forward(u)

    def inverse(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """As of `Knots`, for points (cases, n)."""
        return self._bins(value, 1).inverse(value)

    def _bins(self, points: Tensor, axis: int) -> Bins:
        edges = self._inner[axis]
        index = torch.searchsorted(edges, points.detach().contiguous(), right=True)
        return Bins(*self._fields.gather(-1, index.expand(len(Bins._fields), -1, -1)))


@cache
def _cumulation(bins: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(bins, bins + 1): takes unnormalized sizes to ends of bins, none too small."""
    with torch.inference_mode(False):
        ramp = SMALLEST * torch.arange(bins + 1, dtype=dtype, device=device)
        return torch.ones_like(ramp).expand(bins, -1).triu(1) * (1 - SMALLEST * bins) + ramp


@cache
def _both_ends(device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.arange(2, device=device)
