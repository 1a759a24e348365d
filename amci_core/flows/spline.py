r"""Monotone rational-quadratic splines of the unit interval onto itself.

The same function as normflows' `rational_quadratic_spline`, which computes all knots and all
derivatives afresh for every point. Here they are computed once per (y, theta) where they depend on
nothing else, and a point looks up its bin; where every point has knots of its own, only the
derivatives at the ends of its bin are computed.

References:
    Durkan, Bekasov, Murray, Papamakarios, Neural Spline Flows, 2019.
"""

from __future__ import annotations

__all__ = ["Bins", "Knots", "OwnKnots", "Spline", "spline_width"]

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

# Smallest width, height and derivative of a bin. normflows' 1e-3 leaves the last thousandth of the
# mass to one bin, which costs as much relative variance; with 1e-5 training becomes unstable.
SMALLEST = 1e-4
# softplus(IDENTITY) + the smallest derivative = 1: with zero widths and heights, the identity.
IDENTITY = math.log(math.expm1(1 - SMALLEST))


class Bins(NamedTuple):
    """The bins that points lie in: their ends, bottoms and tops, derivatives at both ends."""

    left: Tensor
    right: Tensor
    bottom: Tensor
    top: Tensor
    derivative: Tensor
    next_derivative: Tensor

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The spline at u, and the logarithm of its derivative."""
        width, height = self.right - self.left, self.top - self.bottom
        t = ((u - self.left) / width).clamp(0, 1)
        # De Casteljau's scheme: lerp adds positive parts.
        slope = height / width
        low = torch.lerp(self.derivative, slope, t)
        denominator = self._denominator(slope, t)
        value = torch.addcmul(self.bottom, height, t * low / denominator)
        return value, self._log_derivative(low, slope, denominator, t)

    def inverse(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The point that the spline takes to a value, and the logarithm of the slope there."""
        width, height = self.right - self.left, self.top - self.bottom
        slope = height / width
        rise = value - self.bottom
        bend = rise * self._curvature(slope)
        # The positive root of a t^2 + b t + c = 0, in the form without cancellation.
        a = height * (slope - self.derivative) + bend
        b = height * self.derivative - bend
        c = slope * rise
        # Rounding can push the discriminant to zero, where a square root has no gradient.
        tiny = torch.finfo(value.dtype).tiny
        root = torch.addcmul(b.square(), a, c, value=4.0).clamp(min=tiny).sqrt()
        t = (2.0 * c / (b + root)).clamp(0, 1)
        low = torch.lerp(self.derivative, slope, t)
        log_det = -self._log_derivative(low, slope, self._denominator(slope, t), t)
        return torch.addcmul(self.left, t, width), log_det

    def _curvature(self, slope: Tensor) -> Tensor:
        """What the derivatives at both ends add up to beyond a straight line's."""
        return torch.add(self.derivative + self.next_derivative, slope, alpha=-2.0)

    def _denominator(self, slope: Tensor, t: Tensor) -> Tensor:
        """The rational function's denominator at t in [0, 1]; half of the slope or more."""
        return torch.addcmul(slope, self._curvature(slope), t * (1.0 - t))

    def _log_derivative(
        self, low: Tensor, slope: Tensor, denominator: Tensor, t: Tensor
    ) -> Tensor:
        numerator = torch.lerp(low, torch.lerp(slope, self.next_derivative, t), t)
        return (numerator * (slope / denominator).square()).log()


def spline_width(bins: int) -> int:
    """Number of parameters of a spline."""
    return 3 * bins + 1


class Spline:
    """The layout of a spline's parameters, for tensors of one type.

    Parameters, (..., 3 bins + 1): unnormalised widths and heights of the bins, and free
    derivatives at their ends. In front of widths and heights `padding` puts -inf, of which softmax
    makes the left end of the first bin.

    Arguments:
        bins: Number of bins.
        like: A tensor of the type and on the device of the parameters.
    """

    def __init__(self, bins: int, like: Tensor) -> None:
        self.bins = bins
        self.width = spline_width(bins)
        # Which parameter stands where; -1 for -inf.
        self.padding = [-1, *range(bins), -1, *range(bins, self.width)]
        self._ramp = torch.linspace(
            0, SMALLEST * bins, bins + 1, dtype=like.dtype, device=like.device
        )

    def edges(self, padded: Tensor) -> tuple[Tensor, Tensor]:
        """Ends of bins on both axes, (..., 2, bins + 1), and free derivatives, (..., bins + 1).

        Arguments:
            padded: Parameters (..., 3 bins + 3), with -inf before widths and heights.
        """
        sizes, free = padded.split([2 * self.bins + 2, self.bins + 1], -1)
        share = torch.softmax(sizes.unflatten(-1, (2, self.bins + 1)), -1).cumsum(-1)
        edges = torch.add(self._ramp, share, alpha=1 - SMALLEST * self.bins)
        edges[..., -1] = 1.0
        return edges, free

    def knots(self, parameters: Tensor) -> Knots:
        """The knots of parameters (cases, 3 bins + 1), each for many points."""
        widths, heights, free = parameters.split([self.bins, self.bins, self.bins + 1], -1)
        ends = [pad(sizes, (1, 0), value=-math.inf) for sizes in (widths, heights)]
        return Knots(*self.edges(torch.cat([*ends, free], -1)))


def _index(points: Tensor, edges: Tensor) -> Tensor:
    return torch.searchsorted(edges, points.detach().contiguous(), right=True)


class Knots:
    """A spline's knots for cases with many points each.

    Arguments:
        edges: Ends of bins, (cases, 2, bins + 1).
        free: Free derivatives, (cases, bins + 1).
    """

    def __init__(self, edges: Tensor, free: Tensor) -> None:
        derivative = SMALLEST + softplus(free + IDENTITY)
        ends = torch.cat([edges, derivative[:, None]], 1)
        # The fields of all bins, (6, cases, bins).
        fields = torch.stack([ends[..., :-1], ends[..., 1:]], 2)
        self._fields = fields.flatten(1, 2).movedim(1, 0)
        inner = edges.detach()[..., 1:-1].movedim(1, 0).contiguous()
        # A single row of edges is looked up in half the time where it is not a batch of one.
        self._inner = inner[:, 0] if len(free) == 1 else inner

    def bins(self, points: Tensor, *, inverse: bool) -> Tensor:
        """The fields of the bins that points (cases, n) lie in, (6, cases, n)."""
        index = _index(points, self._inner[int(inverse)])
        return self._fields.gather(-1, index.expand(6, -1, -1))


class OwnKnots:
    """A spline's knots where every point has knots of its own.

    Arguments:
        edges: Ends of bins, (*, 2, bins + 1).
        free: Free derivatives, (*, bins + 1).
    """

    def __init__(self, edges: Tensor, free: Tensor) -> None:
        self._edges, self._free = edges, free

    def bins(self, points: Tensor, *, inverse: bool) -> Tensor:
        """The fields of the bins that points (*) lie in, (6, *)."""
        inner = self._edges[..., int(inverse), 1:-1].detach().contiguous()
        index = _index(points[..., None], inner)
        both = torch.cat([index, index + 1], -1)
        ends = self._edges.gather(-1, both[..., None, :].expand(*points.shape, 2, 2))
        derivative = SMALLEST + softplus(self._free.gather(-1, both) + IDENTITY)
        return torch.cat([ends.flatten(-2), derivative], -1).movedim(-1, 0)
