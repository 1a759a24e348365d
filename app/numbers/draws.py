r"""Densities of one coordinate of many, and of a pair of them, as weighted draws show them."""

from __future__ import annotations

__all__ = ["MarginalDensities", "drawn_densities", "smoother"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from app.numbers import Settings
from app.numbers.grids import densest
from app.numbers.line import REGION_MASS, Line
from app.numbers.plane import PlaneDensities
from app.numbers.weighted import NAMES, Weighted, weighted

# Draws of each proposal and of the reference.
DRAWS = 512
# Bins along the axis of a coordinate and of a pair, the width in bins of what smooths them, and
# the share of each density that may lie beyond either end.
BINS, SMOOTHING = 64, 2.0
PLANE_BINS, PLANE_SMOOTHING = 32, 1.5
TAIL = 2e-3


@dataclass(frozen=True, kw_only=True)
class MarginalDensities(Line):
    """Densities of one coordinate, and of a pair of them, at one (y, theta), each of mass one.

    Arguments:
        coordinate: The coordinate, from 0 on.
        label: Its name.
        plane: The densities of the pair.
        divergence: KL(g || q1) over all coordinates in nats, from draws.
        effective: The effective number of draws that show a density, by its name in words; empty
            where what is wanted is known.
    """

    coordinate: int
    label: str
    plane: PlaneDensities
    divergence: float
    effective: Mapping[str, float] = field(default_factory=dict)

    @property
    def remark(self) -> str:
        """How many draws show what, and what is not judged."""
        parts = [f"{many:.0f} of {name}" for name, many in self.effective.items()]
        shown = f"Seen through effective draws: {', '.join(parts)}." if parts else ""
        return " ".join(filter(None, [shown, self.doubt]))

    def about(self) -> str:
        found = self.divergence
        known = f" The divergence of q1 from g is {found:.2g} nats." if found == found else ""
        return self.describe(f"Marginal densities of {self.label}.") + known


def drawn_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Settings
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
    coordinate, pair = settings.coordinate, settings.pair
    doubts = [text for text in map(drawn.doubt, drawn.wanted) if text]
    extents = {i: drawn.extent(i, TAIL, problem) for i in {coordinate, *pair}}
    edges = np.linspace(*extents[coordinate], BINS + 1)
    plane_edges = [np.linspace(*extents[i], PLANE_BINS + 1) for i in pair]
    x, axes = _middles(edges), [_middles(each) for each in plane_edges]
    line = _seen(drawn, (coordinate,), [edges], SMOOTHING)
    plane = _seen(drawn, pair, plane_edges, PLANE_SMOOTHING)
    target = line["target"]
    return MarginalDensities(
        coordinate=coordinate,
        label=settings.labels[coordinate],
        x=x,
        **({"q2": None} | line),
        region=densest(x, np.nan_to_num(target), REGION_MASS),
        extent=extents[coordinate],
        threshold=None,
        variant=proposals.variant,
        doubt=" ".join(doubts),
        plane=PlaneDensities(
            x=axes[0],
            y=axes[1],
            labels=(settings.labels[pair[0]], settings.labels[pair[1]]),
            **({"q2": None} | plane),
            extent=(extents[pair[0]], extents[pair[1]]),
            variant=proposals.variant,
            doubt=" ".join(doubts),
        ),
        divergence=_divergence(drawn),
        effective={NAMES[name]: drawn.effective(name) for name in drawn.wanted},
    )


def _middles(edges: Array) -> Array:
    return (edges[1:] + edges[:-1]) / 2


def _seen(
    drawn: Weighted, chosen: tuple[int, ...], edges: list[Array], width: float
) -> dict[str, Any]:
    """Every density of the chosen coordinates in the middles of bins; NaN if not judged."""
    smoothers = [smoother(_middles(each), each, width) for each in edges]
    x, found = drawn.x[:, list(chosen)], {}
    for name in drawn.log_weights:
        counts, _ = np.histogramdd(x, edges, weights=drawn.weights(name))
        smooth = smoothers[0] @ counts
        if len(chosen) == 2:
            smooth = (smooth @ smoothers[1].T).T
        found[name] = np.full_like(smooth, np.nan) if drawn.doubt(name) else smooth
    return found


def _divergence(drawn: Weighted) -> float:
    """KL(g || q1) in nats from the draws weighted to g; NaN where these are too few."""
    if drawn.doubt("target"):
        return float("nan")
    w = drawn.weights("target")
    there = w > 0
    log_ratio = (drawn.log_weights["target"] - drawn.log_weights["q1"])[there]
    return float(w[there] @ log_ratio - drawn.log_mean("target"))


def smoother(points: Array, edges: Array, width: float) -> Array:
    """Smoothed densities at the points, from counts in bins: (points, bins).

    Rows are normalised over the bins that there are: nothing leaks over their ends.
    """
    places = np.interp(points, edges, np.arange(len(edges)))
    distance = places[:, None] - np.arange(len(edges) - 1) - 0.5
    kernel = np.exp(-np.square(distance / width) / 2)
    kernel /= kernel.sum(-1, keepdims=True)
    kernel[(points < edges[0]) | (points > edges[-1])] = 0
    return np.asarray(kernel / np.diff(edges))
