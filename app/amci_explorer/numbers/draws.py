r"""Densities of one coordinate of many, and of a pair of them, as weighted draws show them."""

from __future__ import annotations

__all__ = ["MarginalDensities", "drawn_densities"]

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_filter1d
from scipy.special import logsumexp
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.numbers import Look
from amci_explorer.numbers.line import LineDensities
from amci_explorer.numbers.plane import PlaneDensities
from amci_explorer.numbers.weighted import NAMES, Weighted, ends_of_f, weighted

# Draws of each proposal and of the defensive density.
DRAWS = 512
# For one coordinate and for a pair: bins along an axis, and the width in bins of what smooths
# them; then the share of each density that may lie beyond either end.
BINS = {1: (64, 2.0), 2: (32, 1.5)}
TAIL = 2e-3


@dataclass(frozen=True, kw_only=True)
class MarginalDensities(LineDensities):
    """Densities of one coordinate, and of a pair of them.

    Arguments:
        plane: The densities of the pair.
        effective: The effective number of draws that show a density, by its name in words.
    """

    plane: PlaneDensities
    effective: Mapping[str, float]

    @property
    def remark(self) -> str:
        """How many draws show what, and what is not judged."""
        parts = [f"{many:.0f} for {name}" for name, many in self.effective.items()]
        return f"Effective sample size: {', '.join(parts)}. {self.doubt}".rstrip()


def drawn_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Look
) -> MarginalDensities:
    """What proposals in many dimensions look like, one coordinate or a pair of them at a time.

    All densities are smoothed histograms of the same draws of all proposals and the defensive
    density, weighted to each.

    Arguments:
        problem: Any problem.
        proposals: Proposals for it.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
        settings: The coordinate and the pair to look at.
    """
    drawn = weighted(problem, proposals, y, theta, draws=DRAWS)

    def seen(*chosen: int) -> tuple[list[Array], list[tuple[float, float]], dict[str, Any]]:
        """The points of each axis and its ends, and the densities there by name."""
        bins, width = BINS[len(chosen)]
        axes, ends = zip(*(drawn.axis(i, bins + 1, TAIL, problem) for i in chosen), strict=True)
        bounds = [ends_of_f(problem, theta, i) for i in chosen]
        edges = [_with(*each) for each in zip(axes, bounds, strict=True)]
        found = {}
        for name in drawn.log_weights:
            density = _smoothed(drawn.x[:, chosen], drawn.weights(name), edges, bounds, width)
            found[name] = density * np.nan if drawn.doubt(name) else density
        return [(each[1:] + each[:-1]) / 2 for each in edges], list(ends), found

    one, pair = settings.coordinate, settings.pair
    (x,), (extent,), line = seen(one)
    (first, second), extents, plane = seen(*pair)
    doubt = " ".join(filter(None, map(drawn.doubt, drawn.wanted)))
    bounds = ends_of_f(problem, theta, one)
    common: dict[str, Any] = {
        "variant": proposals.variant,
        "doubt": doubt,
        "divergence": _divergence(drawn),
    }
    return MarginalDensities(
        label=settings.labels[one],
        x=x,
        **line,
        extent=extent,
        threshold=bounds[0] if len(bounds) == 1 else None,
        plane=PlaneDensities(
            x=first,
            y=second,
            labels=tuple(settings.labels[i] for i in pair),
            **plane,
            extent=tuple(extents),
            **common,
        ),
        effective={NAMES[name]: drawn.effective(name) for name in drawn.wanted},
        **common,
    )


def _divergence(drawn: Weighted) -> float:
    """KL(g || q1) in nats from the draws weighted to g; NaN where these are too few."""
    if drawn.doubt("target"):
        return float("nan")
    w, log_w = drawn.weights("target"), drawn.log_weights["target"]
    there = w > 0
    log_ratio = log_w[there] - drawn.log_weights["q1"][there]
    return max(float(w[there] @ log_ratio - logsumexp(log_w) + np.log(len(w))), 0.0)


def _with(edges: Array, bounds: list[float]) -> Array:
    """Edges of bins, with one at each end of f's support and one close to either side of it."""
    near = 1e-3 * np.ptp(edges)
    inside = [bound for bound in bounds if edges[0] < bound < edges[-1]]
    return np.unique([*edges, *(b + side * near for b in inside for side in (-1, 0, 1))])


def _smoothed(
    x: Array, weights: Array, edges: list[Array], bounds: list[list[float]], width: float
) -> Array:
    """Density of weighted draws (n, 1 or 2) in bins, (n,) or (m, n): a smoothed histogram.

    Where all draws lie on one side of an end of f's support nothing leaks over it.
    """
    counts, _ = np.histogramdd(x, edges, weights=weights)
    inside, widths = [], []
    for column, along, ends in zip(x.T, edges, bounds, strict=True):
        first, last = 0, len(along) - 1
        for end in ends:
            at = int(np.searchsorted(along, end))
            first = first if weights[column < end].any() else at
            last = last if weights[column > end].any() else at
        inside.append(slice(first, last))
        widths.append(gaussian_filter1d(np.diff(along)[inside[-1]], width))
    density = np.zeros_like(counts)
    area = np.multiply.outer(*widths) if len(widths) > 1 else widths[0]
    density[tuple(inside)] = gaussian_filter(counts[tuple(inside)], width) / area
    # Where bins change fast the ratio loses or gains some of the mass.
    mass = density
    for along in edges:
        mass = np.tensordot(np.diff(along), mass, (0, 0))
    return density.T * (counts.sum() / max(float(mass), 1e-300))
