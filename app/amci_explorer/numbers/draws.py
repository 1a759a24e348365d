r"""Densities of one coordinate of many, and of a pair of them, as weighted draws show them."""

from __future__ import annotations

__all__ = ["MarginalDensities", "drawn_densities", "marginals", "smoothed"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.numbers import Look
from amci_explorer.numbers.grids import REGION_MASS, densest
from amci_explorer.numbers.line import Line
from amci_explorer.numbers.plane import Ends, PlaneDensities
from amci_explorer.numbers.weighted import NAMES, Weighted, weighted

# Draws of each proposal and of the reference.
DRAWS = 512
# For one coordinate and for a pair: bins along an axis, and the width in bins of what smooths
# them; then the share of each density that may lie beyond either end.
BINS = {1: (64, 2.0), 2: (32, 1.5)}
TAIL = 2e-3

Chosen = tuple[int, ...]
# The points of each axis and its ends, and the densities there by name.
Shown = tuple[Sequence[Array], Sequence[Ends], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class MarginalDensities(Line):
    """Densities of one coordinate, and of a pair of them.

    Arguments:
        label: The coordinate's name.
        plane: The densities of the pair.
        from_draws: KL(g || q1) over all coordinates in nats, from draws.
        effective: The effective number of draws that show a density, by its name in words; empty
            where what is wanted is known.
    """

    label: str
    plane: PlaneDensities
    from_draws: float
    effective: Mapping[str, float] = field(default_factory=dict)

    @property
    def divergence(self) -> float:
        return self.from_draws

    @property
    def remark(self) -> str:
        """How many draws show what, and what is not judged."""
        parts = [f"{many:.0f} for {name}" for name, many in self.effective.items()]
        shown = f"Effective sample size: {', '.join(parts)}." if parts else ""
        return " ".join(filter(None, [shown, self.doubt]))

    def sentences(self) -> list[str]:
        return [f"Marginal densities of {self.label}.", *super().sentences()]


def marginals(
    settings: Look, show: Callable[[Chosen], Shown], *, threshold: float | None, **more: Any
) -> MarginalDensities:
    """Densities of the coordinate and of the pair that are looked at.

    Arguments:
        settings: Which they are.
        show: Gives the densities of chosen coordinates.
        threshold: Where f begins.
        more: What else a `MarginalDensities` has.
    """
    (x,), (extent,), line = show((settings.coordinate,))
    (first, second), extents, plane = show(settings.pair)
    both = {name: more[name] for name in ("variant", "doubt") if name in more}
    labels = tuple(settings.labels[i] for i in settings.pair)
    return MarginalDensities(
        label=settings.labels[settings.coordinate],
        x=x,
        **line,
        region=densest(x, np.nan_to_num(line["target"]), REGION_MASS),
        extent=extent,
        threshold=threshold,
        plane=PlaneDensities(
            x=first, y=second, labels=labels, **plane, extent=tuple(extents), **both
        ),
        **more,
    )


def drawn_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Look
) -> MarginalDensities:
    """What proposals in many dimensions look like, one coordinate or a pair of them at a time.

    All densities are smoothed histograms of the same draws of all proposals and the reference,
    weighted to each.

    Arguments:
        problem: Any problem.
        proposals: Proposals for it.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
        settings: The coordinate and the pair to look at.
    """
    drawn = weighted(problem, proposals, y, theta, draws=DRAWS)

    def show(chosen: Chosen) -> Shown:
        bins, width = BINS[len(chosen)]
        ends = [drawn.extent(i, TAIL, problem) for i in chosen]
        edges = [np.linspace(*each, bins + 1) for each in ends]
        points = [(each[1:] + each[:-1]) / 2 for each in edges]
        found = {}
        for name in drawn.log_weights:
            x, w = drawn.x[:, chosen], drawn.weights(name)
            found[name] = smoothed(x, w, edges, points, width)
            if drawn.doubt(name):
                found[name] = np.full_like(found[name], np.nan)
        return points, ends, found

    return marginals(
        settings,
        show,
        threshold=None,
        variant=proposals.variant,
        doubt=" ".join(filter(None, map(drawn.doubt, drawn.wanted))),
        from_draws=_divergence(drawn),
        effective={NAMES[name]: drawn.effective(name) for name in drawn.wanted},
    )


def _divergence(drawn: Weighted) -> float:
    """KL(g || q1) in nats from the draws weighted to g; NaN where these are too few."""
    if drawn.doubt("target"):
        return float("nan")
    w = drawn.weights("target")
    there = w > 0
    log_ratio = (drawn.log_weights["target"] - drawn.log_weights["q1"])[there]
    return max(float(w[there] @ log_ratio - drawn.log_mean("target")), 0.0)


def smoothed(
    x: Array, weights: Array, edges: Sequence[Array], points: Sequence[Array], width: float
) -> Array:
    """Density of weighted draws on a grid, (n,) or (m, n): a histogram, smoothed.

    Arguments:
        x: The draws, of one coordinate or two, (draws, 1 or 2).
        weights: Their weights.
        edges: Of the bins along each axis.
        points: Of the grid along each axis.
        width: Of what smooths, in bins.
    """
    # What lies beyond the first or the last edge is counted, and left out.
    counts = np.zeros([len(bins) + 1 for bins in edges])
    np.add.at(counts, tuple(map(np.searchsorted, edges, x.T)), weights)
    density = counts[(slice(1, -1),) * counts.ndim]
    for along, bins in zip(points, edges, strict=True):
        density = np.tensordot(density, _smoother(along, bins, width), (0, 1))
    return density.T


def _smoother(points: Array, edges: Array, width: float) -> Array:
    """Smoothed densities at the points, from counts in bins: (points, bins).

    Rows are normalized over the bins that there are: nothing leaks over their ends.
    """
    places = np.interp(points, edges, np.arange(len(edges)))
    distance = places[:, None] - np.arange(len(edges) - 1) - 0.5
    kernel = np.exp(-np.square(distance / width) / 2)
    kernel /= kernel.sum(-1, keepdims=True)
    kernel[(points < edges[0]) | (points > edges[-1])] = 0
    return np.asarray(kernel / np.diff(edges))
