r"""Integrals of functions with known modes and kinks over the line."""

from __future__ import annotations

__all__ = ["Quadrature", "gauss_legendre"]

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.integrate import tanhsinh
from torch import Tensor

# The search for modes: distances from the centre, and from the ends and kinks, in units of the
# scale; then nodes within the brackets of the highest, a number of times. Brackets reach some
# nodes further: the one nearest to a mode is no peak if its neighbour is nearer to a higher mode.
FAR = torch.sinh(torch.linspace(-14, 14, 561, dtype=torch.float64))
NEAR = 2.0 ** torch.arange(-44, 21, dtype=torch.float64)
MODES, ZOOMS, FURTHER = 8, 16, 4
# A prime number of steps: points that occurred again would be peaks on slopes.
ZOOM = torch.linspace(0, 1, 258, dtype=torch.float64)[1:-1]
# Nats below the highest mode at which another adds nothing.
NOTHING = 100.0
# Kinks that are looked for, and how: each step gains eight binary digits.
CROSSINGS, CROSSING_STEPS, CROSSING_NODES = 3, 6, 257
# Log densities are right to so much of themselves.
ROUNDING = 1e-12
# The least level of refinement, at which error estimates begin to hold, and errors of a piece that
# end it: of itself, and in units of the highest mode.
LEVEL, RELATIVE, ABSOLUTE = 4, 1e-12, 1e-15

# n nodes within [-1, 1] and their weights, (n,) each; not to be changed.
gauss_legendre = cache(np.polynomial.legendre.leggauss)

# The log envelope in nats and the factor at points x (K, n) of the integrals rows (K,).
Integrand = Callable[[Tensor, Tensor], tuple[Tensor, Tensor | float]]


class Pieces(NamedTuple):
    """Integrals by piece: log units (K, 1), values and errors (K, P), edges (K, P + 1)."""

    log_unit: Tensor
    value: Tensor
    error: Tensor
    edges: Tensor


class Quadrature:
    r"""K integrals over the line, each split at its kinks, its highest modes and between them.

    Pieces are integrated by the double exponential rule, in units of the distance at which the
    integrand falls by a nat from the nearest mode.

    References:
        Takahasi, Mori, Double exponential formulas for numerical integration, Publications of the
        Research Institute for Mathematical Sciences 9, 1974.

    Arguments:
        centre: Where the search for modes begins.
        scale: The unit of its distances.
        low: Lower ends (K, 1).
        high: Upper ends (K, 1).
        kinks: Further points (K, 1) where the integrand may have a kink.
    """

    def __init__(
        self, centre: Tensor, scale: Tensor, low: Tensor, high: Tensor, kinks: list[Tensor]
    ) -> None:
        self.centre, self.scale, self.low, self.high = centre, scale, low, high
        self.kinks = [kink.clamp(low, high) for kink in kinks]
        self.rows = torch.arange(len(low))

    def nodes(self) -> Tensor:
        """Increasing points within the range, dense at its ends and kinks, (K, n)."""
        nodes = [(self.centre + self.scale * FAR).expand(len(self.low), -1)]
        ends = [end for end in (self.low, self.high, *self.kinks) if end.isfinite().all()]
        nodes += [end + side * self.scale * NEAR for end in ends for side in (-1, 1)]
        return torch.cat(nodes, -1).clamp(self.low, self.high).sort(-1).values

    def add_crossings(self, x: Tensor, sign: Callable[[Tensor], Tensor]) -> None:
        """Adds the first kinks among increasing points x (K, n) where a sign changes."""
        signs = sign(x)
        # Those at kinks known before are left out.
        apart = x.diff() > self.scale * NEAR[2]
        changes = (signs.diff().abs() > 0) & apart
        number = changes.cumsum(-1)
        for k in range(1, min(CROSSINGS, int(number.max())) + 1):
            # If there is none, any point does.
            at = (changes & (number == k)).int().argmax(-1, keepdim=True)
            left, right, side = x.gather(-1, at), x.gather(-1, at + 1), signs.gather(-1, at)
            for _ in range(CROSSING_STEPS):
                share = torch.linspace(0, 1, CROSSING_NODES, dtype=x.dtype)
                grid = torch.lerp(left, right, share)
                at = (sign(grid)[:, 1:] != side).int().argmax(-1, keepdim=True)
                left, right = grid.gather(-1, at), grid.gather(-1, at + 1)
            self.kinks.append(right.clamp(self.low, self.high))

    def _modes(self, integrand: Integrand) -> tuple[Tensor, Tensor, Tensor]:
        """Where the envelope has its highest peaks, how far each extends, and its logarithm.

        (K, MODES) each, the highest first; it is repeated if there are fewer. A peak extends to
        where the envelope has fallen by a nat, on either side, and none is within another.
        """
        x = self.nodes()
        again = torch.nn.functional.pad(x.diff() == 0, (1, 0))
        x = x.where(~again, x[..., -1:]).sort(-1).values
        value = integrand(x, self.rows)[0]
        for _ in range(ZOOMS):
            at, left, right = _peaks(value)
            further = FURTHER * (left < right)
            start = x.gather(-1, (left - further).clamp(min=0))
            end = x.gather(-1, (right + further).clamp(max=x.shape[-1] - 1))
            wide = 2 * (x.gather(-1, right) - x.gather(-1, left)) >= end - start
            if (wide & (right - left >= 2 * further)).all():
                break
            new = torch.lerp(start[..., None], end[..., None], ZOOM).flatten(-2)
            value = torch.cat([value, integrand(new, self.rows)[0]], -1)
            x, order = torch.cat([x, new], -1).sort(-1)
            value = value.gather(-1, order)
        modes, best = x.gather(-1, at), value.gather(-1, at)
        extent = (x.gather(-1, right) - modes).maximum(modes - x.gather(-1, left))
        high = (best > best[..., :1] - NOTHING) & (left < right)
        modes, extent = (part.where(high, part[..., :1]) for part in (modes, extent))
        # A density that is infinite at an edge extends to no distance.
        return modes, extent.maximum(self.scale * NEAR[0]), best

    def integrate(self, integrand: Integrand, breaks: list[Tensor]) -> Pieces:
        """The integrals by piece, split at the breaks (*, n) as well."""
        modes, extents, best = self._modes(integrand)
        best = best[..., :1]
        empty = best == -torch.inf
        best = best.where(~empty, 0.0)
        # Modes of the prior that lie apart are in pieces of their own.
        ordered = modes.sort(-1).values
        halfway = (ordered[..., 1:] + ordered[..., :-1]) / 2
        breaks = [self.low, self.high, modes, halfway, *self.kinks, *breaks]
        inside = [e.clamp(self.low, self.high) for e in breaks]
        edges = torch.cat(inside, -1).sort(-1).values
        # Edges that coincide in all integrals are one.
        apart = (edges.diff() > 0).any(0)
        edges = torch.cat([edges[..., :1], edges[..., 1:][..., apart]], -1)
        left, right = edges[..., :-1], edges[..., 1:]
        # Each piece belongs to the mode that is nearest, and is measured from it.
        nearest = ((left + right)[..., None] / 2 - modes[..., None, :]).abs().argmin(-1)
        mode, extent = modes.gather(-1, nearest), extents.gather(-1, nearest)
        before = right <= mode
        near, step = right.where(before, left), extent.where(~before, -extent)

        def value(u: np.ndarray, piece: np.ndarray) -> np.ndarray:
            # Nodes u (m, n) of pieces (m, 1), or one node each, (m,).
            at = torch.from_numpy(piece.astype(np.int64).reshape(-1))
            rows = at // left.shape[-1]
            nodes = torch.from_numpy(u).view(len(at), -1)
            x = near.flatten()[at, None] + step.flatten()[at, None] * nodes
            # Rounding puts the outermost nodes beyond the range.
            x = x.clamp(self.low[rows], self.high[rows])
            log_value, factor = integrand(x, rows)
            found = (log_value - best[rows]).exp() * factor
            return found.where(log_value > -torch.inf, 0.0).numpy().reshape(u.shape)

        length = ((right - left) / extent).flatten().numpy()
        pieces = np.arange(length.size)
        found = tanhsinh(
            value, 0.0, length, args=(pieces,), minlevel=LEVEL, rtol=RELATIVE, atol=ABSOLUTE
        )
        parts = (torch.from_numpy(p).view_as(left) for p in (found.integral, found.error))
        share, error = (part.masked_fill(empty, 0.0) * extent for part in parts)
        return Pieces(best, share, error, edges)


def _peaks(value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The MODES highest peaks of values (*, n), and where each has fallen by a nat: (*, MODES)."""
    edge = torch.full_like(value[..., :1], -torch.inf)
    rises = value > torch.cat([edge, value[..., :-1]], -1)
    falls = value >= torch.cat([value[..., 1:], edge], -1)
    left_to_see = value.where(rises & falls, -torch.inf)
    index = torch.arange(value.shape[-1])
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(MODES):
        best, at = left_to_see.max(-1, keepdim=True)
        none = best == -torch.inf
        if found and none.all():
            break
        at = at.where(~none, value.argmax(-1, keepdim=True))
        # Far out rounding makes peaks of its own.
        fallen = value < best - 1 - ROUNDING * best.abs()
        left = at.where(none, index.where(fallen & (index < at), 0).amax(-1, keepdim=True))
        right = index.where(fallen & (index > at), len(index) - 1).amin(-1, keepdim=True)
        right = at.where(none, right)
        left_to_see = left_to_see.masked_fill((index >= left) & (index <= right), -torch.inf)
        found.append((at, left, right))
    at, left, right = (torch.cat(part, -1) for part in zip(*found, strict=True))
    return at, left, right
