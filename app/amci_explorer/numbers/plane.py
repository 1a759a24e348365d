r"""Densities over the plane: on a grid that lies where they are."""

from __future__ import annotations

__all__ = ["PlaneDensities", "plane_densities"]

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.numbers import Densities, Look
from amci_explorer.numbers.weighted import (
    EDGE,
    LEAST,
    Weighted,
    ends_of_f,
    log_densities,
    weighted,
)

# Points along an axis.
POINTS = 41
# Draws from each proposal that say where densities are.
DRAWS = 192
# The share of a density beyond either end of an axis.
TAIL = 5e-4

Ends = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class PlaneDensities(Densities):
    """Densities over a plane, (m, n) each.

    Arguments:
        x: Points along the first axis, increasing, (n,).
        y: Points along the second axis, increasing, (m,).
        labels: Names of the axes.
        extent: What the picture shows of each axis.
        pair: Which coordinates they are, from 0 on.
    """

    x: Array
    y: Array
    labels: tuple[str, ...]
    extent: tuple[Ends, ...]
    pair: tuple[int, int] = (0, 1)

    @property
    def columns(self) -> dict[str, Array]:
        """A table of what is shown, by name, of equal lengths."""
        axes = dict(zip(self.labels, np.meshgrid(self.x, self.y), strict=True))
        return {name: np.ravel(values) for name, values in (axes | self.shown).items()}

    def distance(self, name: str, other: str) -> float:
        gap = np.abs(getattr(self, name) - getattr(self, other))
        return float(np.trapezoid(np.trapezoid(gap, self.x), self.y)) / 2

    @property
    def place(self) -> str:
        parts = [f"Densities over the plane of {' and '.join(self.labels)}."]
        for what, density in (("g", self.target), ("The posterior", self.posterior)):
            if np.isfinite(density).all() and density.max() > density.min():
                row, column = np.unravel_index(int(density.argmax()), density.shape)
                at = f"({self.x[column]:.3g}, {self.y[row]:.3g})"
                parts.append(f"{what} is highest near {at}.")
        return " ".join(parts)


def plane_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Look
) -> PlaneDensities:
    """What two-dimensional proposals look like beside what they should be.

    Weighted draws of all proposals say where the densities are; there lies the grid.

    Arguments:
        problem: A problem whose x lies in the plane.
        proposals: Proposals for it.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
        settings: Names of the axes.
    """
    drawn = weighted(problem, proposals, y, theta, draws=DRAWS)
    (first, second), extent = zip(*(_axis(problem, drawn, theta, i) for i in (0, 1)), strict=True)
    mesh = np.stack(np.meshgrid(first, second), -1)
    points = torch.from_numpy(mesh.reshape(-1, 2))

    def mass(density: Array) -> float:
        return float(np.trapezoid(np.trapezoid(density, first), second))

    found: dict[str, Any] = {n: q.log_prob(points).exp().numpy() for n, q in drawn.present.items()}
    for name, row in log_densities(problem, points, y, theta).items():
        found[name] = np.exp(row - max(row.max(), LEAST))
    found = {name: values.reshape(mesh.shape[:-1]) for name, values in found.items()}
    for name in drawn.wanted:
        found[name] = found[name] / (np.nan if drawn.doubt(name) else mass(found[name]))
    g, q = (np.maximum(found[name], np.finfo(np.float64).tiny) for name in ("target", "q1"))
    return PlaneDensities(
        x=first,
        y=second,
        labels=settings.labels,
        **found,
        extent=extent,
        variant=proposals.variant,
        # Both have mass one: with them the integrand is nowhere negative.
        divergence=max(mass(g * np.log(g / q) - g + q), 0.0),
        doubt=" ".join(filter(None, map(drawn.doubt, drawn.wanted))),
    )


def _axis(problem: Problem, drawn: Weighted, theta: Tensor | None, i: int) -> tuple[Array, Ends]:
    """Points along a coordinate, and the axis' ends."""
    x, (low, high) = drawn.axis(i, POINTS, TAIL, problem)
    edges = [end + side * EDGE for end in ends_of_f(problem, theta, i) for side in (-1, 1)]
    return np.unique([*x, *(edge for edge in edges if low < edge < high)]), (low, high)
