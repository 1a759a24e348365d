r"""Densities over the plane: on a grid that lies where they are."""

from __future__ import annotations

__all__ = ["PlaneDensities", "learnt", "peak_densities", "plane_densities"]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.interpolate import PchipInterpolator, RectBivariateSpline
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import ConditionalDensity, Proposals
from amci_core.flows.proposals import draw_all
from amci_core.models import Problem
from amci_core.models.base import Density
from amci_core.models.peak import split_theta
from amci_explorer.numbers import DENSITIES, Densities, Look
from amci_explorer.numbers.grids import EDGE, LEAST, ends_of_f, grid_points, integral
from amci_explorer.numbers.weighted import NAMES, Weighted, log_densities, present_at, weighted

# Points along an axis for the peak, and how many more as it gets sharper.
PEAK_POINTS, PEAK_MORE = 25, 3
# Points along another axis, ranks that say where, and the share that lies evenly.
POINTS, KNOTS, SPREAD = 41, 7, 0.5
# Proposals are computed wherever something wanted is above this share of its maximum, and at so
# many points of each axis.
NEAR, FEW = 3e-3, 13
# Draws from each proposal that say where densities are.
DRAWS = 192
# A density is not shown where grid and draws differ by more than this share of its mass.
LARGEST_DOUBT = 0.1
# The share of a density beyond either end of an axis.
TAIL = 5e-4
# Below the highest density by so many nats, a density is taken for zero.
DEPTH = 60.0


Axes = tuple[Array, Array]
Ends = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class PlaneDensities(Densities):
    """Densities over a plane, (m, n) each.

    Arguments:
        x: Points along the first axis, increasing, (n,).
        y: Points along the second axis, increasing, (m,).
        labels: Names of the axes.
        extent: What the picture shows of each axis.
    """

    x: Array
    y: Array
    labels: tuple[str, ...]
    extent: tuple[Ends, ...]

    @property
    def divergence(self) -> float:
        g, q = (np.maximum(d, np.finfo(np.float64).tiny) for d in (self.target, self.q1))
        # Both densities have mass one: with them the integrand is nowhere negative.
        found = integral(self.target * np.log(g / q) - self.target + self.q1, self.x, self.y)
        return max(float(found), 0.0)

    @property
    def axes(self) -> dict[str, Array]:
        return dict(zip(self.labels, np.meshgrid(self.x, self.y), strict=True))

    def along(self, coordinate: int) -> dict[str, Array]:
        there = {n: getattr(self, n) for n in DENSITIES if getattr(self, n) is not None}
        # The other coordinate is integrated out.
        other, axis = ((self.y, 0), (self.x, 1))[coordinate]
        marginals = {n: np.trapezoid(v, other, axis=axis) for n, v in there.items()}
        return {"x": (self.x, self.y)[coordinate], **marginals}

    def sentences(self) -> list[str]:
        parts = [f"Densities over the plane of {' and '.join(self.labels)}."]
        for what, density in (("g", self.target), ("The posterior", self.posterior)):
            if np.isfinite(density).all() and density.max() > density.min():
                row, column = np.unravel_index(int(density.argmax()), density.shape)
                at = f"({self.x[column]:.3g}, {self.y[row]:.3g})"
                parts.append(f"{what} is highest near {at}.")
        return parts


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
    (first, x_extent), (second, y_extent) = (_axis(problem, drawn, theta, i) for i in (0, 1))
    log_wanted = log_densities(problem, grid_points(first, second), y, theta)
    wanted, known, doubts = {}, {}, []
    for name, row in log_wanted.items():
        wanted[name] = np.exp(row - max(row.max(), LEAST)).reshape(len(second), len(first))
        mass = integral(wanted[name], first, second)
        doubt = _doubt(drawn, name, float(mass), row.max())
        doubts += [doubt] if doubt else []
        known[name] = np.full_like(wanted[name], np.nan) if doubt else wanted[name] / mass
    return PlaneDensities(
        x=first,
        y=second,
        labels=settings.labels,
        **known,
        **learnt(drawn.present, (first, second), wanted),
        extent=(x_extent, y_extent),
        variant=proposals.variant,
        doubt=" ".join(doubts),
    )


def peak_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor, settings: Look
) -> PlaneDensities:
    """As `plane_densities`, for the product peak: on a grid as close as the peak is sharp."""
    axes = _around_peak(theta)
    shape = (len(axes[1]), len(axes[0]))
    best = (problem.optimal_proposals() or {})["q1_plus"](y, theta)
    return PlaneDensities(
        x=axes[0],
        y=axes[1],
        labels=settings.labels,
        target=best.log_prob(grid_points(*axes)).exp().numpy().reshape(shape),
        posterior=np.ones(shape),
        **learnt(present_at(proposals, y, theta), axes, {"target": np.ones(shape)}),
        extent=((0.0, 1.0), (0.0, 1.0)),
        variant=proposals.variant,
    )


def learnt(
    present: Mapping[str, ConditionalDensity], axes: Axes, wanted: Mapping[str, Array]
) -> dict[str, Any]:
    """Learnt densities on a grid, (m, n) each: exact where anything is that is wanted.

    Elsewhere a few points and what lies between them show whether something is that should not.

    Arguments:
        present: The proposals, by name.
        axes: The grid, (n,) and (m,).
        wanted: What they should be, up to a constant, by name, (m, n).
    """
    few = [np.unique(np.rint(np.linspace(0, len(x) - 1, FEW)).astype(int)) for x in axes]
    near = np.any([density > NEAR * density.max() for density in wanted.values()], 0)
    if not near.any():
        near[:] = True
    inside = grid_points(*axes)[near.ravel()]
    points = torch.cat([inside, grid_points(axes[0][few[0]], axes[1][few[1]])])
    densities: dict[str, Density] = {**present, "": _Points(points)}
    _, log_q = draw_all(densities, {"": len(points)}, {"": None})
    found = {}
    for name in present:
        values = log_q[name][""].numpy()
        coarse = np.maximum(values, max(values.max() - DEPTH, LEAST))[len(inside) :]
        spline = RectBivariateSpline(few[1], few[0], coarse.reshape(len(few[1]), len(few[0])))
        found[name] = np.exp(spline(np.arange(len(axes[1])), np.arange(len(axes[0]))))
        found[name][near] = np.exp(values[: len(inside)])
    return found


class _Points:
    """Given points, as what draws them: proposals that share a component then share its work."""

    batch_shape = torch.Size()

    def __init__(self, points: Tensor) -> None:
        self._points = points

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        return self._points, self.log_prob(self._points)

    def log_prob(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x[..., 0])


def _axis(problem: Problem, drawn: Weighted, theta: Tensor | None, i: int) -> tuple[Array, Ends]:
    """Points along a coordinate, at ranks of each density that is wanted, and the axis' ends."""
    x, rows = drawn.cumulative(i)
    low, high = drawn.extent(i, TAIL, problem)
    # As many points as each density has mass, and some everywhere, from few ranks: where points
    # lie closer little by little the trapezoid rule is exact to a high order.
    # At an end of the range itself a density may be infinite.
    margin = TAIL * (high - low)
    even = np.linspace(low + margin, high - margin, 257)
    share = np.mean([np.interp(even, x, row) for row in rows], 0) if rows else 0.0
    share = (1 - SPREAD) * share + SPREAD * (even - low) / (high - low)
    ranks = np.linspace(share[0], share[-1], KNOTS)
    graded = PchipInterpolator(ranks, np.interp(ranks, share, even))
    x = graded(np.linspace(share[0], share[-1], POINTS))
    edges = [end + side * EDGE for end in ends_of_f(problem, theta, i) for side in (-1, 1)]
    return np.unique([*x, *(edge for edge in edges if low < edge < high)]), (low, high)


def _doubt(drawn: Weighted, name: str, mass: float, log_unit: float) -> str:
    """Why a density of that mass on the grid is not judged, or nothing."""
    few = drawn.doubt(name)
    if few:
        return few
    by_draws = np.exp(drawn.log_mean(name) - log_unit)
    if abs(mass - by_draws) < (LARGEST_DOUBT + 4 / drawn.effective(name) ** 0.5) * by_draws:
        return ""
    return f"Not judged: {NAMES[name]}, which the grid does not resolve."


def _around_peak(theta: Tensor) -> Axes:
    """Points of the unit interval for both axes, as close at the centre as the peak is sharp."""
    centre, sharpness = (part.numpy() for part in split_theta(theta))
    low, high = np.arcsinh(-sharpness * centre), np.arcsinh(sharpness * (1 - centre))
    number = PEAK_POINTS + PEAK_MORE * math.ceil((high - low).max())
    axes = centre + np.sinh(np.linspace(low, high, number)) / sharpness
    first, second = np.clip(axes, 0, 1).T
    return first, second
