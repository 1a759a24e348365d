r"""Integrals of a problem's terms over the line, and nodes of a Gauss-Legendre quadrature."""

from __future__ import annotations

__all__ = [
    "DEVIATION",
    "DIVERGENCE",
    "E1_MINUS",
    "E1_PLUS",
    "E2",
    "Integrand",
    "gauss_legendre",
]

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import tanhsinh
from scipy.optimize import elementwise
from torch import Tensor

if TYPE_CHECKING:
    from amci_core.models.line import LineProblem

Array = NDArray[np.float64]

# What is integrated, under p(x, y): 1, f_plus, f_minus, |f - mu|, and |f| log(|f| / E|f|).
E2, E1_PLUS, E1_MINUS = "E2", "E1_plus", "E1_minus"
DEVIATION, DIVERGENCE = "E|f - mu|", "the mismatch"
# The search for the mode: distances from the prior's median, and from the ends of the domain, in
# units of the prior's spread; then nodes within the bracket, a number of times.
FAR = torch.sinh(torch.linspace(-14, 14, 561, dtype=torch.float64))
NEAR = 2.0 ** torch.arange(-44, 21, dtype=torch.float64)
ZOOMS, ZOOM_NODES = 3, 33
# Beyond this f overflows long after every density has vanished.
LARGEST = 1e150
# Relative error of a term beyond which it is refused, and those at which refinement ends.
LARGEST_ERROR, RELATIVE, ABSOLUTE = 1e-4, 1e-10, 1e-13
# The first level of refinement whose error estimate is believed: from a level or two before it
# came out a thousand times too small.
LEVEL = 4
# Kinks inside the range of x that are looked for.
CROSSINGS = 3
# Share of a term that may lie outside `reach`.
OUTSIDE = 1e-8


@cache
def gauss_legendre(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """n nodes within [-1, 1] and their weights, (n,) each; not to be changed."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


class Integrand:
    """A term times p(x, y) over the range of x, for cases y (C, D_y), theta (C, D_theta).

    Arguments:
        problem: The problem.
        term: What is integrated.
        y: As above.
        theta: As above, or None.
        constant: mu for E|f - mu|, log E|f| for the mismatch, (C, 1).
    """

    def __init__(
        self, problem: LineProblem, term: str, y: Tensor, theta: Tensor | None, constant: Tensor
    ) -> None:
        self.problem, self.term = problem, term
        self.y, self.theta, self.constant = y, theta, constant
        self.cases = len(y)
        low, high = (torch.full_like(constant, e) for e in (problem.x.low, problem.x.high))
        ends = [] if term == E2 else [e for e in problem._ends(theta) if e is not None]
        self.kinks = [e.expand(self.cases, 1).clamp(low, high) for e in ends]
        if term == E1_PLUS:
            first, last = problem._ends(theta)
            low = low if first is None else low.maximum(first)
            high = high if last is None else high.minimum(last)
        self.low, self.high = low, high

    def values(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The log envelope, in nats, and the factor at points x (A, n) of the cases rows (A,)."""
        points = x.clamp(-LARGEST, LARGEST)[..., None]
        log_p = self.problem.log_joint(points, self.y[rows])
        factor = torch.ones_like(log_p)
        if self.term == E2:
            return log_p, factor
        f = self.f(points, rows)
        constant = self.constant[rows]
        if self.term == DEVIATION:
            size = (f - constant).abs()
        else:
            size = f.clamp(min=0) if self.term == E1_PLUS else (-f).clamp(min=0)
            size = f.abs() if self.term == DIVERGENCE else size
        log_size = size.log()
        if self.term == DIVERGENCE:
            factor = (log_size - constant).where(size > 0, 0.0)
        # Where p vanishes f may overflow.
        return (log_p + log_size).where(log_p > -torch.inf, -torch.inf), factor

    def f(self, points: Tensor, rows: Tensor) -> Tensor:
        """f at points (A, n, 1) of the cases rows (A,): (A, n)."""
        return self.problem.f(points, None if self.theta is None else self.theta[rows][:, None])

    def crossings(self, x: Tensor) -> list[Tensor]:
        """Where f crosses zero, or mu for E|f - mu|: the first kinks among nodes (C, n)."""
        if self.term == E2:
            return []
        level = self.constant if self.term == DEVIATION else torch.zeros_like(self.constant)

        def above(u: Array, case: Array) -> Array:
            rows = torch.as_tensor(case.astype(int)).reshape(-1)
            points = torch.as_tensor(u).reshape(len(rows), -1, 1)
            return (self.f(points, rows) - level[rows]).numpy().reshape(u.shape)

        signs = (self.f(x[..., None], torch.arange(self.cases)) - level).sign()
        changes = signs[:, 1:] * signs[:, :-1] < 0
        found = []
        for _ in range(CROSSINGS):
            rows = changes.any(-1).nonzero().squeeze(-1)
            if not len(rows):
                break
            at = changes[rows].int().argmax(-1, keepdim=True)
            changes[rows[:, None], at] = False
            ends = (x[rows].gather(-1, at + k).squeeze(-1).numpy() for k in (0, 1))
            root = elementwise.find_root(above, tuple(ends), args=(rows.double().numpy(),)).x
            kink = self.low.clone()
            kink[rows, 0] = torch.as_tensor(root)
            found.append(kink)
        return found

    def envelope(self, x: Tensor) -> Tensor:
        """The log envelope at points (C, n) within the domain.

        Raises:
            ValueError: it is NaN or infinite within reach.
        """
        value, _ = self.values(x, torch.arange(self.cases))
        low, high = self.problem.reach
        bad = value.isnan() | (value == torch.inf)
        within = bad & (x >= low) & (x <= high)
        if within.any():
            raise ValueError(
                f"truth: log_prior, log_likelihood or f is not a number or infinite at x = "
                f"{float(x[within][0]):g}; declare the range of x or reach"
            )
        return value.masked_fill(bad, -torch.inf)

    def mode(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where the envelope is largest, how far it extends, and its logarithm, (C, 1) each."""
        draws = self.problem._prior_draws
        centre = draws.median()
        quartiles = draws.quantile(torch.tensor([0.25, 0.75], dtype=torch.float64))
        spread = (quartiles[1] - quartiles[0]).clamp(min=1e-12)
        nodes = [(centre + spread * FAR).expand(self.cases, -1)]
        nodes += [end + spread * NEAR for end in (self.low, *self.kinks) if end.isfinite().all()]
        nodes += [end - spread * NEAR for end in (self.high, *self.kinks) if end.isfinite().all()]
        x = torch.cat(nodes, -1).clamp(self.low, self.high).sort(-1).values
        self.kinks += self.crossings(x)
        for zoom in range(ZOOMS + 1):
            best, at = self.envelope(x).max(-1, keepdim=True)
            mode = x.gather(-1, at)
            left, right = (x.gather(-1, (at + k).clamp(0, x.shape[-1] - 1)) for k in (-1, 1))
            if zoom < ZOOMS:
                x = torch.lerp(left, right, torch.linspace(0, 1, ZOOM_NODES, dtype=x.dtype))
        # The first distance, on either side, at which the envelope has fallen by a nat.
        extent = torch.zeros_like(mode)
        for side in (-1, 1):
            x = (mode + side * spread * NEAR).clamp(self.low, self.high)
            fallen = self.envelope(x) < best - 1
            first = torch.where(fallen.any(-1), fallen.int().argmax(-1), len(NEAR) - 1)
            extent = extent.maximum((x.gather(-1, first[:, None]) - mode).abs())
        return mode, extent.clamp(min=1e-300), best

    def integral(self) -> Array:
        """The logarithmic unit of the integral and its value, (2, C).

        Raises:
            ValueError: it does not converge, or lies partly outside `reach`.
        """
        mode, extent, best = self.mode()
        empty = (best == -torch.inf).squeeze(-1)
        best = best.where(best > -torch.inf, 0.0)
        reach = [mode.new_tensor(e) for e in self.problem.reach if math.isfinite(e)]
        breaks = [self.low, self.high, mode, *self.kinks, *reach]
        edges = torch.cat([e.expand_as(mode).clamp(self.low, self.high) for e in breaks], -1)
        edges = edges.sort(-1).values
        steps = ((edges - mode) / extent).numpy()
        pieces = steps.shape[-1] - 1

        def density(u: Array, case: Array) -> Array:
            rows = torch.as_tensor(case.astype(int)).reshape(-1)
            at = torch.as_tensor(u).reshape(len(rows), -1)
            log_value, factor = self.values(mode[rows] + extent[rows] * at, rows)
            value = (log_value - best[rows]).exp() * factor
            return value.where(log_value > -torch.inf, 0.0).numpy().reshape(u.shape)

        found = tanhsinh(
            density,
            steps[:, :-1].ravel(),
            steps[:, 1:].ravel(),
            args=(np.repeat(np.arange(self.cases, dtype=np.float64), pieces),),
            rtol=RELATIVE,
            atol=ABSOLUTE,
            minlevel=LEVEL,
        )
        by_piece = found.integral.reshape(-1, pieces)
        value, error = by_piece.sum(-1), found.error.reshape(-1, pieces).sum(-1)
        value[empty.numpy()] = 0.0
        self._check(value, error, by_piece, edges.numpy())
        return np.stack([(best + extent.log()).squeeze(-1).numpy(), value])

    def _check(self, value: Array, error: Array, by_piece: Array, edges: Array) -> None:
        size = np.maximum(np.abs(value), 1.0 if self.term == DIVERGENCE else 0.0)
        wrong = ~(error <= LARGEST_ERROR * size) & (value != 0)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(
                f"truth: the quadrature of {self.term} has a relative error of "
                f"{error[i] / size[i]:.1g} at {self._case(i)}; say in support_plus where f "
                "begins, or define _log_truth"
            )
        low, high = self.problem.reach
        outside = (edges[:, 1:] <= low) | (edges[:, :-1] >= high)
        with np.errstate(invalid="ignore"):
            share = np.abs(np.where(outside, by_piece, 0.0)).sum(-1) / value
        if self.term in (E2, E1_PLUS, E1_MINUS) and (share > OUTSIDE).any():
            i = int(np.nanargmax(share))
            raise ValueError(
                f"reach: {share[i]:.2g} of {self.term} lies outside [{low:g}, {high:g}] at "
                f"{self._case(i)}; widen reach or leave it out"
            )

    def _case(self, i: int) -> str:
        values = {"y": self.y, "theta": self.theta}
        given = {n: v[i].tolist() for n, v in values.items() if v is not None and v.numel()}
        return ", ".join(f"{n} = {v}" for n, v in given.items()) or "the only case"
