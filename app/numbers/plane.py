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
from app.numbers import Settings
from app.numbers.grids import LEAST, grid_points, integral
from app.numbers.weighted import NAMES, Weighted, log_densities, weighted

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
# Just inside the end of f's support.
EDGE = 1e-7
# Below the highest density by so many nats, a density is taken for zero.
DEPTH = 60.0


@dataclass(frozen=True, kw_only=True)
class PlaneDensities:
    """Densities over a plane at one (y, theta), each of mass one.

    What cannot be judged is NaN.

    Arguments:
        x: Points along the first axis, increasing, (n,).
        y: Points along the second axis, increasing, (m,).
        labels: Names of the axes.
        target: g, proportional to f_plus p(x | y); (m, n).
        posterior: p(x | y), (m, n).
        q1: The proposal for E1_plus, (m, n).
        q2: The proposal for E2, (m, n); None where none is needed.
        target_minus: Where f takes both signs, as `target` for f_minus; (m, n).
        q1_minus: Likewise, the proposal for E1_minus, (m, n).
        extent: What the picture shows of each axis.
        variant: Which proposals.
        doubt: What is not judged and why, in words.
    """

    x: Array
    y: Array
    labels: tuple[str, str]
    target: Array
    posterior: Array
    q1: Array
    q2: Array | None
    target_minus: Array | None = None
    q1_minus: Array | None = None
    extent: tuple[tuple[float, float], tuple[float, float]]
    variant: str
    doubt: str = ""

    @property
    def columns(self) -> dict[str, Array]:
        """What there is at every point of the plane, row by row."""
        first, second = np.meshgrid(self.x, self.y)
        names = ("target", "posterior", "q1", "q2", "target_minus", "q1_minus")
        there = {name: getattr(self, name) for name in names}
        axes = {self.labels[0]: first, self.labels[1]: second}
        return {name: np.ravel(v) for name, v in (axes | there).items() if v is not None}

    @property
    def divergence(self) -> float:
        """KL(g || q1) in nats, by the trapezoid rule."""
        tiny = np.finfo(np.float64).tiny
        log_ratio = np.log(np.maximum(self.target, tiny)) - np.log(np.maximum(self.q1, tiny))
        # Both densities have mass one: with them the integrand is nowhere negative.
        return integral(self.x, self.y, self.target * log_ratio - self.target + self.q1)

    def about(self) -> str:
        names, found = " and ".join(self.labels), max(self.divergence, 0.0)
        parts = [f"Densities over the plane of {names}."]
        for what, density in (("g", self.target), ("The posterior", self.posterior)):
            if np.isfinite(density).all() and density.max() > density.min():
                row, column = np.unravel_index(int(density.argmax()), density.shape)
                at = f"({self.x[column]:.3g}, {self.y[row]:.3g})"
                parts.append(f"{what} is highest near {at}.")
        if found == found:
            parts.append(f"The divergence of q1 from g is {found:.2g} nats.")
        return " ".join([*parts, *([self.doubt] if self.doubt else [])])


def plane_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Settings
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
    points, shape = grid_points(first, second), (len(second), len(first))
    log_wanted = {
        name: row.reshape(shape) for name, row in log_densities(problem, points, y, theta).items()
    }
    wanted: dict[str, Array] = {}
    found: dict[str, Any] = {}
    doubts: list[str] = []
    for name, row in log_wanted.items():
        wanted[name] = np.exp(row - max(row.max(), LEAST))
        mass = integral(first, second, wanted[name])
        doubt = _doubt(drawn, name, mass, row.max())
        doubts += [doubt] if doubt else []
        found[name] = np.full(shape, np.nan) if doubt else wanted[name] / mass
    return PlaneDensities(
        x=first,
        y=second,
        labels=(settings.labels[0], settings.labels[1]),
        **found,
        **({"q2": None} | learnt(drawn.present, (first, second), wanted)),
        extent=(x_extent, y_extent),
        variant=proposals.variant,
        doubt=" ".join(doubts),
    )


def peak_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor, settings: Settings
) -> PlaneDensities:
    """As `plane_densities`, for the product peak: on a grid as close as the peak is sharp."""
    first, second = _around_peak(theta)
    points, shape = grid_points(first, second), (len(second), len(first))
    optimal = problem.optimal_proposals() or {}
    log_target = optimal["q1_plus"](y, theta).log_prob(points).numpy().reshape(shape)
    present = {"q1": proposals.q1_plus(y, theta)}
    return PlaneDensities(
        x=first,
        y=second,
        labels=(settings.labels[0], settings.labels[1]),
        target=np.exp(log_target),
        posterior=np.ones(shape),
        q2=None,
        **learnt(present, (first, second), {"target": np.ones(shape)}),
        extent=((0.0, 1.0), (0.0, 1.0)),
        variant=proposals.variant,
    )


def learnt(
    present: Mapping[str, ConditionalDensity],
    axes: tuple[Array, Array],
    wanted: Mapping[str, Array],
) -> dict[str, Any]:
    """Learnt densities on a grid, (m, n) each: exact where anything is that is wanted.

    Elsewhere a few points and what lies between them show whether something is that should not.

    Arguments:
        present: The proposals, by name.
        axes: The grid, (n,) and (m,).
        wanted: What they should be, up to a constant, by name, (m, n).
    """
    whole = [np.arange(len(axis)) for axis in axes]
    few = [np.unique(np.rint(np.linspace(0, each[-1], FEW)).astype(int)) for each in whole]
    found: dict[str, Any] = {n: np.empty((len(axes[1]), len(axes[0]))) for n in present}
    near = np.any([density > NEAR * density.max() for density in wanted.values()], 0)
    if not near.any():
        near[:] = True
    points = torch.cat(
        [grid_points(*axes)[near.ravel()], grid_points(axes[0][few[0]], axes[1][few[1]])]
    )
    densities: dict[str, Density] = {**present, "": _Points(points)}
    _, log_q = draw_all(densities, {"": len(points)}, {"": None})
    inside = int(near.sum())
    for name, density in found.items():
        values = log_q[name][""].numpy()
        values = np.maximum(values, max(values.max() - DEPTH, LEAST))
        coarse = values[inside:].reshape(len(few[1]), len(few[0]))
        spline = RectBivariateSpline(few[1], few[0], coarse, kx=3, ky=3)
        density[:] = np.exp(spline(whole[1], whole[0]))
        density[near] = np.exp(log_q[name][""][:inside].numpy())
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


def _axis(
    problem: Problem, drawn: Weighted, theta: Tensor | None, i: int
) -> tuple[Array, tuple[float, float]]:
    """Points along a coordinate, at ranks of each density that is wanted, and the axis' ends."""
    x, rows = drawn.cumulative(i)
    low, high = drawn.extent(i, TAIL, problem)
    # As many points as each density has mass, and some everywhere, from few ranks: where points
    # lie closer little by little the trapezoid rule is exact to a high order.
    even = np.linspace(low, high, 257)
    share = np.mean([np.interp(even, x, row) for row in rows], 0) if rows else 0.0
    share = (1 - SPREAD) * share + SPREAD * (even - low) / (high - low)
    ranks = np.linspace(share[0], share[-1], KNOTS)
    graded = PchipInterpolator(ranks, np.interp(ranks, share, even))
    x = graded(np.linspace(share[0], share[-1], POINTS))
    support, steps = problem.support_plus(theta), []
    for name in ("lower_bound", "upper_bound"):
        bound = np.ravel(getattr(support, name, np.nan))
        bound = bound[i if len(bound) > 1 else 0]
        steps += [bound - EDGE, bound + EDGE] if low < bound < high else []
    return np.unique([*x, *steps]), (float(low), float(high))


def _doubt(drawn: Weighted, name: str, mass: float, log_unit: float) -> str:
    """Why a density of that mass on the grid is not judged, or nothing."""
    few = drawn.doubt(name)
    if few:
        return few
    by_draws = np.exp(drawn.log_mean(name) - log_unit)
    if abs(mass - by_draws) < (LARGEST_DOUBT + 4 / drawn.effective(name) ** 0.5) * by_draws:
        return ""
    return f"Not judged: {NAMES[name]}, which the grid does not resolve."


def _around_peak(theta: Tensor) -> tuple[Array, Array]:
    """Points of the unit interval for both axes, as close at the centre as the peak is sharp."""
    centre, sharpness = (part.numpy() for part in split_theta(theta))
    low, high = np.arcsinh(-sharpness * centre), np.arcsinh(sharpness * (1 - centre))
    number = PEAK_POINTS + PEAK_MORE * math.ceil((high - low).max())
    axes = centre + np.sinh(np.linspace(low, high, number)) / sharpness
    first, second = np.clip(axes, 0, 1).T
    return first, second
