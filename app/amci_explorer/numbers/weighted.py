r"""Draws of all proposals and of a defensive density, weighted to each density of a case."""

from __future__ import annotations

__all__ = [
    "EDGE",
    "FEWEST",
    "LEAST",
    "NAMES",
    "Weighted",
    "densest",
    "ends_of_f",
    "log_densities",
    "outward",
    "sobol_points",
    "weighted",
]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import PchipInterpolator
from scipy.special import logsumexp
from torch import Tensor
from torch.quasirandom import SobolEngine

from amci_core.estimators.draws import Array
from amci_core.flows import ConditionalDensity, Proposals
from amci_core.flows.density import TransformedDensity
from amci_core.flows.proposals import draw_all
from amci_core.models import DefensiveDensity, Problem
from amci_core.models.base import Density

# Nothing is judged below this effective sample size.
FEWEST = 30.0
# Instead of the logarithm of zero, which could not be subtracted.
LEAST = -1e300
# Just inside the end of f's support, where g may jump, and not so near that rounding shows.
EDGE = 1e-7
# Ranks that say where points of an axis lie.
KNOTS = 7
# Room beside what an axis has to show, as a share of its width.
ROOM = 0.08
NAMES = {"target": "g", "target_minus": "g⁻", "posterior": "the posterior"}
# What each proposal should look like.
WANTED = {"q1": "target", "q1_minus": "target_minus", "q2": "posterior"}


@dataclass(frozen=True)
class Weighted:
    """n draws from the equal mixture of all proposals and the defensive density.

    Arguments:
        x: The points, (n, D).
        log_weights: log w of each density in nats, up to a constant for g and the posterior, (n,).
        log_abs_f: log|f| at the points, (n,).
        present: The proposals by name.
    """

    x: Array
    log_weights: Mapping[str, Array]
    log_abs_f: Array
    present: Mapping[str, ConditionalDensity]

    def weights(self, name: str) -> Array:
        """Weights of one density, of sum one; zeros where no draw has any."""
        log_w = self.log_weights[name]
        w = np.exp(log_w - max(log_w.max(), LEAST))
        return np.asarray(w / max(w.sum(), 1e-300))

    @property
    def divergence(self) -> float:
        """KL(g || q1) in nats; NaN where too few draws show g."""
        if self.doubt("target"):
            return math.nan
        w, log_w = self.weights("target"), self.log_weights["target"]
        there = w > 0
        log_ratio = log_w[there] - self.log_weights["q1"][there]
        return max(float(w[there] @ log_ratio - logsumexp(log_w) + math.log(len(w))), 0.0)

    def effective(self, name: str) -> float:
        """The effective sample size for a density."""
        squares = np.square(self.weights(name)).sum()
        return float(1 / squares) if squares > 0 else 0.0

    @property
    def wanted(self) -> list[str]:
        """What proposals should look like, by name."""
        return [name for name in NAMES if name in self.log_weights]

    def axis(
        self, i: int, count: int, tail: float, problem: Problem
    ) -> tuple[Array, tuple[float, float]]:
        """Points along coordinate i, and ends of an axis with that share at most beyond either.

        Half of the points lie at ranks of all that is wanted, the others evenly.
        """
        order = self.x[:, i].argsort()
        x, weights = self.x[order, i], [self.weights(n)[order] for n in self.wanted]
        # Half of its own weight lies below a draw.
        rows = [w.cumsum() - w / 2 for w in weights]
        rows = [row for row in rows if row[-1] > 0] or [np.linspace(0, 1, len(x))]
        ends = [np.interp([tail, 1 - tail], row, x) for row in rows]
        low, high = outward(float(np.min(ends)), float(np.max(ends)), problem, i)
        # At an end of the range itself a density may be infinite.
        margin = tail * (high - low)
        even = np.linspace(low + margin, high - margin, 257)
        share = np.mean([np.interp(even, x, row) for row in rows], 0)
        share = (share + (even - low) / (high - low)) / 2
        # From few ranks: where points lie closer little by little the trapezoid rule is exact to a
        # high order.
        ranks = np.linspace(share[0], share[-1], KNOTS)
        graded = PchipInterpolator(ranks, np.interp(ranks, share, even))
        return graded(np.linspace(share[0], share[-1], count)), (low, high)

    def doubt(self, name: str) -> str:
        """Why a density is not judged; empty where it is."""
        many = self.effective(name)
        if many >= FEWEST:
            return ""
        return f"Not judged: {NAMES.get(name, name)}, effective sample size {many:.0f}."


def weighted(
    problem: Problem,
    proposals: Proposals,
    y: Tensor,
    theta: Tensor | None,
    *,
    draws: int,
    sobol: bool = False,
) -> Weighted:
    """Draws from every proposal and the defensive density, always from the same noise.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
        draws: Draws from each.
        sobol: Whether proposals that can are given Sobol points.
    """
    # The picture shows what q1 and q2 must match; q1_complement would crowd it.
    made, names = proposals.at(y, theta), ("q1", "q1_minus", "q2")
    present = {names[j]: made[j] for j in proposals.present}
    terms = ("E1_plus", "E2") if problem.nonnegative else ("E1_plus", "E1_minus", "E2")
    densities: dict[str, Density] = {
        **present,
        "defensive": DefensiveDensity(problem, y, theta, terms),
    }
    sources = {name: torch.Generator().manual_seed(i) for i, name in enumerate(densities)}
    uniform = {
        name: sobol_points(problem.x.dim, draws, seed=i)
        for i, (name, q) in enumerate(present.items() if sobol else ())
        if isinstance(q, TransformedDensity)
    }
    drawn, log_q = draw_all(densities, dict.fromkeys(densities, draws), sources, uniform=uniform)
    points = torch.cat(list(drawn.values()), -2)
    logs = {name: torch.cat(list(parts.values()), -1).numpy() for name, parts in log_q.items()}
    log_mixture = logsumexp(np.stack(list(logs.values())), axis=0) - np.log(len(logs))
    log_p = log_densities(problem, points, y, theta)
    log_p |= {name: logs[name] for name in present}
    with np.errstate(invalid="ignore", divide="ignore"):
        log_weights = {name: _number(row - log_mixture) for name, row in log_p.items()}
        log_f = _number(problem.f(points, theta).abs().log().numpy())
    return Weighted(points.numpy(), log_weights, log_f, present)


@lru_cache(maxsize=32)
def sobol_points(dim: int, count: int, seed: int = 0) -> Tensor:
    """Scrambled Sobol points in the open unit cube, (count, dim)."""
    points = SobolEngine(dim, scramble=True, seed=seed).draw(count, dtype=torch.float64)
    return points + 2.0**-31


def log_densities(
    problem: Problem, points: Tensor, y: Tensor, theta: Tensor | None
) -> dict[str, Array]:
    """Logarithms of f_plus p(x, y), f_minus p(x, y) where there is one, and p(x, y), (n,) each."""
    log_joint = problem.log_joint(points, y)
    sides = zip(("target", "target_minus"), problem.f_parts(points, theta), strict=True)
    found = {name: log_joint + side.log() for name, side in sides if side is not None}
    return {name: _number(v.numpy()) for name, v in {**found, "posterior": log_joint}.items()}


def _number(values: Array) -> Array:
    """What is no number, or infinite where f or p overflows, is taken for the log of zero."""
    return np.where(values < np.inf, values, -np.inf)


def densest(x: Array, density: Array, mass: float) -> tuple[float, float]:
    """Ends of the shortest interval that carries that share of a density, (n,) at points x."""
    below = cumulative_trapezoid(density, x, initial=0)
    if not below[-1] > 0:
        return float(x[0]), float(x[-1])
    below /= below[-1]
    lows = np.linspace(0, 1 - mass, 201)
    low, high = np.interp(lows, below, x), np.interp(lows + mass, below, x)
    # Where the density is zero `below` is flat, and the interpolation gives its left end.
    low = np.maximum(low, x[np.flatnonzero(density > 1e-12 * density.max())[0]])
    shortest = int(np.argmin(high - low))
    return float(low[shortest]), float(high[shortest])


def outward(low: float, high: float, problem: Problem, i: int = 0) -> tuple[float, float]:
    """Rounder ends beyond these within x's range, so that an axis rests while a density moves."""
    low, high = low - ROOM * (high - low), high + ROOM * (high - low)
    width = max(high - low, 1e-9 * max(abs(low), abs(high)), 1e-300)
    step = 2.0 ** (math.ceil(math.log2(width)) - 2)
    low, high = step * math.floor(low / step), step * math.ceil(high / step)
    lowest, highest = problem.x.ends[:, i].tolist()
    return max(low, lowest), min(high, highest)


def ends_of_f(problem: Problem, theta: Tensor | None, i: int = 0) -> list[float]:
    """Ends of the set where f_plus lies, along a coordinate, that are not the prior's."""
    found = []
    for name in ("lower_bound", "upper_bound"):
        end, whole = (
            np.broadcast_to(np.asarray(getattr(support, name, np.nan), float), problem.x.dim)[i]
            for support in (problem.support_plus(theta), problem.support)
        )
        if np.isfinite(end) and end != whole:
            found.append(float(end))
    return found
