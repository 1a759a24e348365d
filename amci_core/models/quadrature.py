r"""Integrals of a problem's terms over the line, and nodes of a Gauss-Legendre quadrature."""

from __future__ import annotations

__all__ = [
    "DEVIATION",
    "DIVERGENCE",
    "E1_MINUS",
    "E1_PLUS",
    "E2",
    "SMALL_CHANGE",
    "Integrals",
    "gauss_legendre",
]

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from amci_core.models.line import LineProblem

Array = NDArray[np.float64]

# What is integrated, under p(x, y): 1, f_plus, f_minus, |f - mu|, and |f| log(|f| / E|f|).
E2, E1_PLUS, E1_MINUS = "E2", "E1_plus", "E1_minus"
DEVIATION, DIVERGENCE = "E|f - mu|", "the mismatch"
# A term's size at f, where the constant is mu or log E|f|.
SIZES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    E2: lambda f, constant: torch.ones_like(f),
    E1_PLUS: lambda f, constant: f.clamp(min=0),
    E1_MINUS: lambda f, constant: (-f).clamp(min=0),
    DEVIATION: lambda f, constant: (f - constant).abs(),
    DIVERGENCE: lambda f, constant: f.abs(),
}
# The search for modes: distances from the prior's median, and from the ends of the domain, in
# units of the prior's spread; then nodes within the brackets of the highest, a number of times.
# Brackets reach some nodes further: the one nearest to a mode is no peak if its neighbour is
# nearer to a higher mode.
FAR = torch.sinh(torch.linspace(-14, 14, 561, dtype=torch.float64))
NEAR = 2.0 ** torch.arange(-44, 21, dtype=torch.float64)
MODES, ZOOMS, FURTHER = 8, 16, 4
# A prime number of steps: points that occurred again would be peaks on slopes.
ZOOM = torch.linspace(0, 1, 258, dtype=torch.float64)[1:-1]
# Nats below the highest mode at which another adds nothing.
NOTHING = 100.0
# Kinks inside the range of x that are looked for, and how: each step gains eight binary digits.
CROSSINGS, CROSSING_STEPS, CROSSING_NODES = 3, 6, 257
# The rule's nodes over +-RANGE, and how often their step is halved at most.
RANGE, STEP, HALVINGS = 4.5, 1 / 32, 5
# Change of a term at which halving ends, and beyond which the term is refused, as a share of it.
SMALL_CHANGE, LARGEST_CHANGE = 1e-9, 1e-4
# Share of a term that may lie outside `bounds`.
OUTSIDE = 1e-8

# Log densities are right to so much of themselves.
ROUNDING = 1e-12

# n nodes within [-1, 1] and their weights, (n,) each; not to be changed.
gauss_legendre = cache(np.polynomial.legendre.leggauss)


class Integrals:
    r"""Terms times p(x, y), integrated over the range of x, for cases y (C, D_y), theta.

    The range is split where f begins, ends or crosses zero, at the highest modes and halfway
    between them. On a piece of length L, in units of the distance at which the integrand falls by
    a nat from the nearest mode, the distance from the end nearer to it is s = e / (1 + e / L) with
    e = exp(pi / 2 sinh t), and the trapezoidal rule in t converges exponentially: the double
    exponential rule, whose nodes crowd at both ends and about that unit. Its step is halved until
    the integral no longer changes.

    References:
        Takahasi, Mori, Double exponential formulas for numerical integration, Publications of the
        Research Institute for Mathematical Sciences 9, 1974.

    Arguments:
        problem: The problem.
        terms: What is integrated; the mismatch and E|f - mu| have passes of their own.
        y: As above.
        theta: (C, D_theta), or None.
        constant: mu for E|f - mu|, log E|f| for the mismatch, (C, 1).
    """

    def __init__(
        self,
        problem: LineProblem,
        terms: Sequence[str],
        y: Tensor,
        theta: Tensor | None,
        constant: Tensor,
    ) -> None:
        self.problem, self.terms, self.constant = problem, terms, constant
        self.y = y.expand(len(terms), *y.shape)
        self.theta = None if theta is None else theta.expand(len(terms), *theta.shape)
        self.rows = torch.arange(len(y))
        self.low = torch.full((len(terms), len(y), 1), problem.x.low, dtype=torch.float64)
        self.high = torch.full_like(self.low, problem.x.high)
        first, last = (None, None) if set(terms) == {E2} else problem._ends(theta)
        ends = [e.expand_as(constant) for e in (first, last) if e is not None]
        self.kinks = [e.clamp(self.low[0], self.high[0]) for e in ends]
        self.nodes = self._nodes(self.low[0], self.high[0])
        if set(terms) != {E2}:
            drawn = problem._prior_draws[:, 0].expand(len(y), -1).clamp(self.low[0], self.high[0])
            self.kinks += self._crossings(torch.cat([self.nodes, drawn], -1).sort(-1).values)
            self.nodes = self._nodes(self.low[0], self.high[0])
        if E1_PLUS in terms:
            i = terms.index(E1_PLUS)
            self.low[i] = self.low[i] if first is None else self.low[i].maximum(first)
            self.high[i] = self.high[i] if last is None else self.high[i].minimum(last)

    def values(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | float]:
        """The log envelope in nats and the factor at x (T, A, n) of the cases rows (A,)."""
        # Rounding puts the outermost nodes beyond the range of x.
        x = x.clamp(self.problem.x.low, self.problem.x.high)
        log_p = self.problem.log_joint(x[..., None], self.y[:, rows])
        if set(self.terms) == {E2}:
            return log_p, 1.0
        f, constant = self._f(x, rows), self.constant[rows]
        size = torch.stack([SIZES[t](f[i], constant) for i, t in enumerate(self.terms)])
        log_size = size.log()
        # Where p vanishes f may overflow.
        log_value = (log_p + log_size).where(log_p > -torch.inf, -torch.inf)
        if DIVERGENCE not in self.terms:
            return log_value, 1.0
        return log_value, (log_size - constant).where(size > 0, 0.0)

    def _f(self, x: Tensor, rows: Tensor) -> Tensor:
        theta = None if self.theta is None else self.theta[: len(x), rows, None]
        return self.problem.f(x[..., None], theta)

    def _nodes(self, low: Tensor, high: Tensor) -> Tensor:
        """Increasing points within the range of x, dense at its ends and kinks, (C, n)."""
        centre, spread = self.problem._centre_and_scale
        nodes = [(centre + spread * FAR).expand(len(low), -1)]
        ends = [end for end in (low, high, *self.kinks) if end.isfinite().all()]
        nodes += [end + side * spread * NEAR for end in ends for side in (-1, 1)]
        return torch.cat(nodes, -1).clamp(low, high).sort(-1).values

    def _crossings(self, x: Tensor) -> list[Tensor]:
        """Where f crosses zero, or mu for E|f - mu|: the first kinks among nodes (C, n)."""
        level = self.constant if DEVIATION in self.terms else torch.zeros_like(self.constant)

        def above(x: Tensor) -> Tensor:
            return (self._f(x[None], self.rows)[0] - level).sign()

        sign = above(x)
        nowhere = (sign == 0).all(-1)
        if nowhere.any() and not self.kinks and DEVIATION not in self.terms:
            raise ValueError(
                f"f: expected a value other than zero at one of {x.shape[-1]:,} points, got zeros "
                f"at {self._case(int(nowhere.int().argmax()))}; say in support_plus where f lies"
            )
        # Those at kinks known before are not looked for.
        apart = x.diff() > self.problem._centre_and_scale[1] * NEAR[2]
        changes = (sign.diff().abs() > 0) & apart
        number = changes.cumsum(-1)
        found = []
        for k in range(1, min(CROSSINGS, int(number.max())) + 1):
            # Where there is none, any point does.
            at = (changes & (number == k)).int().argmax(-1, keepdim=True)
            left, right, side = x.gather(-1, at), x.gather(-1, at + 1), sign.gather(-1, at)
            for _ in range(CROSSING_STEPS):
                share = torch.linspace(0, 1, CROSSING_NODES, dtype=x.dtype)
                grid = torch.lerp(left, right, share)
                at = (above(grid)[:, 1:] != side).int().argmax(-1, keepdim=True)
                left, right = grid.gather(-1, at), grid.gather(-1, at + 1)
            found.append(right)
        return found

    def _checked(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | float]:
        """As `values`; what is NaN or infinite beyond `bounds`, where f may overflow, is zero.

        Raises:
            ValueError: it is NaN or infinite within bounds.
        """
        value, factor = self.values(x, rows)
        bad = ~(value < torch.inf)
        if not bad.any():
            return value, factor
        low, high = self.problem.bounds
        within = x[bad & (x >= low) & (x <= high)]
        if len(within):
            raise ValueError(
                f"truth: log_prior, log_likelihood or f is not a number or infinite at x = "
                f"{float(within[0]):g}; declare the range of x or bounds"
            )
        return value.masked_fill(bad, -torch.inf), factor

    def _modes(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where the envelope has its highest peaks, how far each extends, and its logarithm.

        (T, C, MODES) each, the highest first; it is repeated where there are fewer. A peak extends
        to where the envelope has fallen by a nat, on either side, and none is within another.
        """
        x = self.nodes.clamp(self.low, self.high)
        again = torch.nn.functional.pad(x.diff() == 0, (1, 0))
        x = x.where(~again, x[..., -1:]).sort(-1).values
        value = self._checked(x, self.rows)[0]
        for _ in range(ZOOMS):
            at, left, right = _peaks(value)
            further = FURTHER * (left < right)
            start = x.gather(-1, (left - further).clamp(min=0))
            end = x.gather(-1, (right + further).clamp(max=x.shape[-1] - 1))
            wide = 2 * (x.gather(-1, right) - x.gather(-1, left)) >= end - start
            if (wide & (right - left >= 2 * further)).all():
                break
            new = torch.lerp(start[..., None], end[..., None], ZOOM).flatten(-2)
            value = torch.cat([value, self._checked(new, self.rows)[0]], -1)
            x, order = torch.cat([x, new], -1).sort(-1)
            value = value.gather(-1, order)
        modes, best = x.gather(-1, at), value.gather(-1, at)
        extent = (x.gather(-1, right) - modes).maximum(modes - x.gather(-1, left))
        high = (best > best[..., :1] - NOTHING) & (left < right)
        modes, extent = (part.where(high, part[..., :1]) for part in (modes, extent))
        # A density that is infinite at an edge extends to no distance.
        return modes, extent.maximum(self.problem._centre_and_scale[1] * NEAR[0]), best

    @torch.no_grad()
    def integrate(self) -> tuple[Array, Array]:
        """The logarithmic units of the integrals and their values, (T, C) each.

        Raises:
            ValueError: one does not converge, or lies partly outside `bounds`.
        """
        modes, extents, best = self._modes()
        best = best[..., :1]
        empty = best == -torch.inf
        best = best.where(~empty, 0.0)
        bounds = [torch.tensor(e).double() for e in self.problem.bounds if math.isfinite(e)]
        # Modes of the prior that lie apart are in pieces of their own.
        ordered = modes.sort(-1).values
        halfway = (ordered[..., 1:] + ordered[..., :-1]) / 2
        breaks = [self.low, self.high, modes, halfway, *self.kinks, *bounds]
        inside = [e.clamp(self.low, self.high) for e in (*breaks, self.problem._quantiles)]
        edges = torch.cat(inside, -1).sort(-1).values
        # Edges that coincide in all cases are one.
        apart = (edges.diff() > 0).flatten(0, -2).any(0)
        edges = torch.cat([edges[..., :1], edges[..., 1:][..., apart]], -1)
        left, right = edges[..., :-1], edges[..., 1:]
        # Each piece belongs to the mode that is nearest.
        nearest = ((left + right)[..., None] / 2 - modes[..., None, :]).abs().argmin(-1)
        mode, extent = modes.gather(-1, nearest), extents.gather(-1, nearest)
        before = right <= mode
        near, side = right.where(before, left), extent.where(~before, -extent)
        length = ((right - left) / extent).clamp(min=1e-300)
        unit = length.clamp(max=1.0)

        def shares(t: Tensor, rows: Tensor) -> Tensor:
            """What nodes t (n) add to the integrals over pieces, per step: (T, A, pieces, n)."""
            e = (math.pi / 2 * t.sinh()).exp() * unit[:, rows, :, None]
            rest = 1 + e / length[:, rows, :, None]
            x = near[:, rows, :, None] + side[:, rows, :, None] * (e / rest)
            log_value, factor = self._checked(x.flatten(-2), rows)
            value = (log_value - best[:, rows]).exp() * factor
            value = value.where(log_value > -torch.inf, 0.0).view_as(x)
            slope = e / rest.square() * extent[:, rows, :, None]
            return value * slope * (math.pi / 2 * t.cosh())

        step = STEP
        share = step * shares(torch.arange(-RANGE, RANGE, step, dtype=torch.float64), self.rows)
        value = share.sum(-1)
        change = (value - 2 * share[..., ::2].sum(-1)).abs().sum(-1)
        # What lies beyond the first and the last node, if the integrand does not fall any more.
        beyond = share[..., [0, -1]].abs().sum((-2, -1)) / step
        for _ in range(HALVINGS):
            moving = ~(change <= SMALL_CHANGE * self._size(value.sum(-1)))
            rows = moving.any(0).nonzero().squeeze(-1)
            if not len(rows):
                break
            step /= 2
            t = torch.arange(step - RANGE, RANGE, 2 * step, dtype=torch.float64)
            refined = value[:, rows] / 2 + step * shares(t, rows).sum(-1)
            change[:, rows] = (refined - value[:, rows]).abs().sum(-1)
            value[:, rows] = refined
        value = value.masked_fill(empty, 0.0)
        self._check(value, (change + beyond).masked_fill(empty.squeeze(-1), 0.0), edges)
        return best.squeeze(-1).numpy(), value.sum(-1).numpy()

    def _size(self, value: Tensor) -> Tensor:
        return value.abs().clamp(min=1.0 if DIVERGENCE in self.terms else 0.0)

    def _check(self, by_piece: Tensor, change: Tensor, edges: Tensor) -> None:
        value = by_piece.sum(-1)
        relative = change / self._size(value)
        wrong = ~(relative <= LARGEST_CHANGE) & (value != 0)
        if wrong.any():
            t, i = wrong.nonzero()[0].tolist()
            raise ValueError(
                f"truth: the quadrature of {self.terms[t]} has a relative error of "
                f"{float(relative[t, i]):.1g} at {self._case(i)}; "
                + ("" if self.terms[t] == E2 else "say in support_plus where f begins, or ")
                + "define _log_truth"
            )
        low, high = self.problem.bounds
        outside = (edges[..., 1:] <= low) | (edges[..., :-1] >= high)
        share = (by_piece * outside).abs().sum(-1) / value
        beyond = share > OUTSIDE
        if beyond.any() and DIVERGENCE not in self.terms and DEVIATION not in self.terms:
            t, i = beyond.nonzero()[0].tolist()
            raise ValueError(
                f"bounds: {float(share[t, i]):.2g} of {self.terms[t]} lies outside "
                f"[{low:g}, {high:g}] at {self._case(i)}; widen bounds or leave it out"
            )

    def _case(self, i: int) -> str:
        values = {"y": self.y, "theta": self.theta}
        given = {n: v[0, i].tolist() for n, v in values.items() if v is not None and v.numel()}
        return ", ".join(f"{n} = {v}" for n, v in given.items()) or "the only case"


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
