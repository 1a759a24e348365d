r"""Densities over x on the line, by a quadrature that finds where they are."""

from __future__ import annotations

__all__ = ["LineDensities", "line_densities"]

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.numbers import SMALLEST_DENSITY, Densities, Look
from amci_explorer.numbers.weighted import (
    EDGE,
    LEAST,
    NAMES,
    densest,
    ends_of_f,
    log_densities,
    outward,
    weighted,
)

# The share of g in the interval that is named, and of each density in the picture.
REGION_MASS, SHOWN_MASS = 0.99, 0.9995
# Draws of each density that say where to look, and points in the picture beside those needed.
DRAWS, EVEN = 64, 151
# An interval is divided in four while straight lines over it are wrong by this share of a
# density's mass, and no longer than for so many rounds and points.
STRAIGHT, ROUNDS, MOST = 3e-5, 24, 1500
QUARTERS = np.array([0.25, 0.5, 0.75])
# A density is not shown if a larger share of it is not resolved.
LARGEST_DOUBT = 0.01
# Distances from the draws' median and from an end of a range, in units of the draws' spread.
FAR = np.sinh(np.linspace(-10, 10, 61))
NEAR = np.array([0.0, *4.0 ** np.arange(-10, 6)])


@dataclass(frozen=True, kw_only=True)
class LineDensities(Densities):
    """Densities over one coordinate at n points, (n,) each.

    Arguments:
        x: Points, increasing, closer where densities change; (n,).
        extent: What the picture shows of x.
        threshold: Where f begins or ends, if that is known.
        label: The coordinate's name.
        coordinate: Which it is, from 0 on.
    """

    x: Array
    extent: tuple[float, float]
    threshold: float | None
    label: str = "x"
    coordinate: int = 0

    @property
    def columns(self) -> dict[str, Array]:
        """A table of what is shown, by name, of equal lengths."""
        return {"x": self.x, **self.shown}

    def distance(self, name: str, other: str) -> float:
        gap = np.abs(getattr(self, name) - getattr(self, other))
        return float(np.trapezoid(gap, self.x)) / 2

    @property
    def place(self) -> str:
        at = "" if self.threshold is None else f" The threshold is at {self.threshold:.3g}."
        lie = [
            f" 99 % of {name} lies from {low:.3g} to {high:.3g}."
            for name, (low, high) in self.regions.items()
        ]
        return f"Densities over {self.label}.{at}{''.join(lie)}"

    @property
    def regions(self) -> dict[str, tuple[float, float]]:
        """Intervals that carry 99 % of g, or of both its parts where f takes both signs."""
        signed = self.target_minus is not None
        parts = {"g⁺" if signed else "g": self.target, "g⁻": self.target_minus}
        return {
            name: densest(self.x, density, REGION_MASS)
            for name, density in parts.items()
            if density is not None and np.isfinite(density).all()
        }


def line_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Look
) -> LineDensities:
    """What proposals on the line look like beside what they should be.

    f p(x, y), p(x, y) and the proposals are computed on points that grow closer until straight
    lines between them will do.

    Arguments:
        problem: A problem whose x is one number.
        proposals: Proposals for it.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
        settings: How wide the picture is.
    """
    drawn = weighted(problem, proposals, y, theta, draws=DRAWS)
    bounds = ends_of_f(problem, theta)

    def logs(x: Array) -> dict[str, Array]:
        points = torch.from_numpy(x)[:, None]
        learnt = {name: q.log_prob(points).numpy() for name, q in drawn.present.items()}
        return log_densities(problem, points, y, theta) | learnt

    first = _first_points(problem, drawn.x[:, 0], bounds)
    x, rows, doubts = _resolved(lambda x: np.stack(list(logs(x).values())), first)
    # Where the problem knows them, the masses are exact.
    known = _log_masses(problem, y, theta)
    log_mass, ends = {}, []
    for name, row, doubt in zip(drawn.wanted, rows, doubts, strict=False):
        top = max(row.max(), LEAST)
        density = np.exp(row - top)
        with np.errstate(divide="ignore"):  # f can be zero everywhere
            by_points = np.log(np.trapezoid(density, x)) + top
        log_mass[name] = known.get(name, by_points if doubt <= LARGEST_DOUBT else np.nan)
        ends += [densest(x, density, SHOWN_MASS)] if row.max() > -np.inf else []
    low, high = np.transpose(ends or [(x[0], x[-1])])
    low, high = extent = settings.extent or outward(float(low.min()), float(high.max()), problem)
    edges = [bound + side * EDGE for bound in bounds for side in (-1, 0, 1)]
    shown = np.unique([*x, *np.linspace(low, high, EVEN), *edges])
    # At an end of the range itself, which x leaves out, a density may be infinite.
    shown = shown[(shown >= max(low, x[0])) & (shown <= min(high, x[-1]))]
    found: dict[str, Any] = {
        name: np.maximum(np.exp(row - log_mass.get(name, 0.0)), SMALLEST_DENSITY)
        for name, row in logs(shown).items()
    }
    unknown = [NAMES[name] for name in log_mass if np.isnan(found[name]).all()]
    g, q = found["target"], found["q1"]
    # Both have mass one: with them the integrand is nowhere negative.
    divergence = np.trapezoid(g * np.log(g / q) - g + q, shown)
    return LineDensities(
        x=shown,
        **found,
        extent=extent,
        threshold=bounds[0] if len(bounds) == 1 else None,
        variant=proposals.variant,
        divergence=max(float(divergence), 0.0),
        doubt=f"Not judged: {' and '.join(unknown)}, which could not be located."
        if unknown
        else "",
    )


def _log_masses(problem: Problem, y: Tensor, theta: Tensor | None) -> dict[str, float]:
    """Logarithms of E1_plus, E1_minus and E2, by the density's name; empty if not known."""
    if not problem.knows_truth:
        return {}
    names = {"E1_plus": "target", "E1_minus": "target_minus", "E2": "posterior"}
    return {names[t]: float(v) for t, v in problem.log_terms(y, theta).items()}


def _first_points(problem: Problem, drawn: Array, bounds: list[float]) -> Array:
    low, centre, high = np.quantile(drawn, [0.25, 0.5, 0.75])
    spread = max(high - low, 1e-12)
    lowest, highest = problem.x.ends[:, 0].tolist()
    ends = [*bounds, *(end for end in (lowest, highest) if np.isfinite(end))]
    around = [end + side * (EDGE + spread * NEAR) for end in ends for side in (-1, 1)]
    x = np.concatenate([drawn, centre + spread * FAR, *around])
    return np.unique(x[(x > lowest) & (x < highest)])


def _resolved(log_values: Callable[[Array], Array], x: Array) -> tuple[Array, Array, Array]:
    """Points on which densities are straight, their logarithms there, and shares in doubt.

    Arguments:
        log_values: Gives k logarithms at n points, (k, n).
        x: The points to begin with.
    """
    v = log_values(x)
    at, doubt = np.arange(len(x) - 1), np.ones(len(v))
    for _ in range(ROUNDS):
        width = x[at + 1] - x[at]
        inner = x[at, None] + width[:, None] * QUARTERS
        v_inner = log_values(inner.ravel()).reshape(len(v), *inner.shape)
        # Where a density is highest may be seen only now.
        top = np.maximum(np.maximum(v.max(-1), v_inner.max((1, 2))), LEAST)[:, None, None]
        low, high = (np.exp(side[..., None] - top) for side in (v[:, at], v[:, at + 1]))
        bent = np.abs(np.exp(v_inner - top) - low - (high - low) * QUARTERS).mean(-1) * width
        mass = np.maximum(np.trapezoid(np.exp(v - top[..., 0]), x), bent.max(-1))
        bent /= np.maximum(mass, 1e-300)[:, None]
        doubt = bent.sum(-1)
        rough = (bent > STRAIGHT).any(0) & (inner[:, 0] > x[at]) & (inner[:, 2] < x[at + 1])
        if not rough.any() or len(x) > MOST:
            break
        x = np.concatenate([x, inner[rough].ravel()])
        v = np.concatenate([v, v_inner[:, rough].reshape(len(v), -1)], -1)
        order = x.argsort()
        divided = at[rough] + 3 * np.arange(rough.sum())
        at = (divided[:, None] + np.arange(4)).ravel()
        x, v = x[order], v[:, order]
    return x, v, np.where(v.max(-1) > -np.inf, doubt, 1.0)
