r"""Integrals of functions with known modes and kinks over the line."""

from __future__ import annotations

__all__ = ["Quadrature", "gauss_legendre"]

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.integrate import tanhsinh
from torch import Tensor
from torch.nn.functional import max_pool1d

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
# The least distance of floats.
TINY = 1e-300
# The search for kinks, in the coordinate of the double exponential rule: half its length, cells,
# narrowings to five of them, and rounds. A fourth difference grows 16 times with a double step
# where the integrand is smooth, and 5 times at most at a kink.
HALF, CELLS, NARROWINGS, SPLITS, SMOOTH, SLIGHT = 3.3, 256, 9, 4, 8.0, 1e-10

# n nodes within [-1, 1] and their weights, (n,) each; not to be changed.
gauss_legendre = cache(np.polynomial.legendre.leggauss)

# The log envelope in nats and the factor at points x (K, n) of the integrals rows (K,).
Integrand = Callable[[Tensor, Tensor], tuple[Tensor, Tensor | float]]


class Integrals(NamedTuple):
    """K integrals: log units, values, errors, and the sizes of their parts outside the bounds."""

    log_unit: Tensor
    value: Tensor
    error: Tensor
    outside: Tensor


class Quadrature:
    r"""K integrals over the line, each split at its kinks, its highest modes and between them.

    Pieces are integrated by the double exponential rule, in units of the distance at which the
    integrand falls by a nat from the nearest mode. Pieces are split
    at the kinks and jumps that they hold.

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

    def integrate(
        self, integrand: Integrand, bounds: tuple[float, float], breaks: Tensor
    ) -> Integrals:
        """The integrals, split at the bounds and breaks (n,) as well."""
        modes, extents, best = self._modes(integrand)
        log_unit = best[:, 0].where(best[:, 0] > -torch.inf, 0.0)
        # Modes of the prior that lie apart are in pieces of their own.
        ordered = modes.sort(-1).values
        halfway = (ordered[:, 1:] + ordered[:, :-1]) / 2
        fixed = torch.cat([breaks, breaks.new_tensor(bounds)]).expand(len(self.low), -1)
        inside = [self.low, self.high, modes, halfway, *self.kinks, fixed]
        edges = torch.cat([e.clamp(self.low, self.high) for e in inside], -1).sort(-1).values
        wide = edges.diff() > 0
        rows, left, right = (
            self.rows[:, None].expand_as(wide)[wide],
            *(part[wide] for part in (edges[:, :-1], edges[:, 1:])),
        )

        def value(u: np.ndarray, row: np.ndarray, start: np.ndarray, unit: np.ndarray) -> Any:
            # Nodes u (m, n) of pieces (m, 1), or one node each, (m,).
            rows = torch.from_numpy(row.astype(np.int64).reshape(-1))
            # Rounding puts the outermost nodes beyond the range.
            x = torch.from_numpy(start + unit * u).view(len(rows), -1)
            x = x.clamp(self.low[rows], self.high[rows])
            log_value, factor = integrand(x, rows)
            found = (log_value - log_unit[rows, None]).exp() * factor
            return found.where(log_value > -torch.inf, 0.0).numpy().reshape(u.shape)

        def along(rows: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, ...]:
            # Each piece is measured from the mode that is nearest: length, row, start and unit.
            nearest = ((left + right)[:, None] / 2 - modes[rows]).abs().argmin(-1)
            mode, extent = modes[rows, nearest], extents[rows, nearest]
            before = right <= mode
            start, unit = right.where(before, left), extent.where(~before, -extent)
            return (right - left) / extent, rows, start, unit

        def sampled(t: Tensor, length: Tensor, *args: Tensor) -> Tensor:
            # The integrand times du / dt, with u = e / (1 + e / L) and e = exp(pi / 2 sinh t).
            e = (math.pi / 2 * t.sinh()).exp()
            u = e / (1 + e / length)
            found = value(u.numpy(), *(part.numpy() for part in args))
            return torch.from_numpy(found) * u / (1 + e / length) * t.cosh()

        def total(part: Tensor) -> Tensor:
            return torch.zeros_like(log_unit).index_add(0, rows, part)

        cells = (torch.arange(CELLS, dtype=torch.float64) + 0.5) / CELLS
        # All pieces are searched, then those that were split.
        searched, height = torch.arange(len(rows)), None
        for _ in range(SPLITS):
            pieces = [part[:, None] for part in along(*(p[searched] for p in (rows, left, right)))]
            low, width = torch.full_like(pieces[0], -HALF), 2 * HALF
            v = sampled(low + width * cells, *pieces)
            if height is None:
                height = total(v.abs().amax(-1))
            fine, coarse = (_fourth(v, step).abs() for step in (1, 2))
            fine, around = fine[:, 2:-2], max_pool1d(coarse[None], 7, 1, 3)[0]
            slight = fine <= SLIGHT * height[rows[searched], None]
            fine = fine.masked_fill(slight | (around > SMOOTH * fine), 0.0)
            kinked = fine.amax(-1) > 0
            if not kinked.any():
                break
            split, pieces = searched[kinked], [part[kinked] for part in pieces]
            low = low[kinked] + width * (fine[kinked].argmax(-1, keepdim=True) + 2) / CELLS
            for _ in range(NARROWINGS):
                width *= 5 / CELLS
                change = _fourth(sampled(low + width * cells, *pieces), 1).abs()
                low = low + width * change.argmax(-1, keepdim=True) / CELLS
            e = (math.pi / 2 * (low + width * 2.5 / CELLS).sinh()).exp()
            length, _, start, unit = pieces
            kink = (start + unit * e / (1 + e / length))[:, 0].clamp(left[split], right[split])
            searched = torch.cat([split, len(rows) + torch.arange(len(split))])
            rows, left = torch.cat([rows, rows[split]]), torch.cat([left, kink])
            right = torch.cat([right.index_put((split,), kink), right[split]])
        span, *args = (part.numpy() for part in along(rows, left, right))
        found = tanhsinh(
            value, 0.0, span, args=tuple(args), minlevel=LEVEL, rtol=RELATIVE, atol=ABSOLUTE
        )
        share, error = (torch.from_numpy(p * abs(args[-1])) for p in (found.integral, found.error))
        # Near its ends floats do not tell a piece's points apart. An integrand that grows like
        # u^-s there has u^(1 - s) / (1 - s) of its mass within the distance u.
        for edge, side in ((left, 1.0), (right, -1.0)):
            step = (torch.nextafter(edge, side * torch.full_like(edge, torch.inf)) - edge).abs()
            u = 4 * step.clamp(TINY, 1.0)[:, None] * edge.new_tensor([1.0, 2.0])
            place = (part[:, None].numpy() for part in (rows, edge, torch.full_like(edge, side)))
            mass = u * torch.from_numpy(value(u.numpy(), *place)).abs()
            much = mass[:, 0] > RELATIVE * total(share.abs())[rows]
            power = (mass[:, 1] / mass[:, 0]).log2().clamp(min=0.0)
            error += (mass[:, 0] / power).where(much, 0.0)
        away = (right <= bounds[0]) | (left >= bounds[1])
        return Integrals(log_unit, total(share), total(error), total(share.abs() * away))


def _fourth(v: Tensor, step: int) -> Tensor:
    """Fourth differences of values (*, n) that are so many points apart."""
    for _ in range(4):
        v = v[..., step:] - v[..., :-step]
    return v


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
