r"""A small map of where the case lies among draws from p(y) p(theta)."""

from __future__ import annotations

__all__ = ["PositionView"]

import math
from functools import lru_cache
from html import escape

import numpy as np

from amci_core.amortization import default_plane
from amci_core.estimators.draws import Array
from amci_core.models import Problem
from amci_explorer.numbers.typical import drawn
from amci_explorer.state.fields import plane_axes
from amci_explorer.state.state import State
from amci_explorer.views.layout import HTML
from amci_explorer.words.evaluation import drawn_from

STYLE = """
figure { margin: 0; }
figcaption { font-size: var(--small); line-height: 1.45; color: var(--muted); }
svg { display: block; width: 100%; height: auto; }
text { font-size: 11px; fill: var(--muted); }
.frame { fill: none; stroke: var(--line); }
.draw { fill: var(--muted); opacity: 0.35; }
.guide { stroke: var(--accent); stroke-width: 1; opacity: 0.6; }
.case { fill: var(--accent); stroke: var(--paper); stroke-width: 2; }
"""
# The drawing's size, and its frame: left, top, right, bottom.
SIZE, FRAME = (264, 176), (34, 8, 256, 142)
DRAWS = 300


class PositionView:
    """Creates the map, empty; `show` fills it.

    Arguments:
        state: Whose case is marked.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.panel = HTML("", STYLE)

    def show(self) -> None:
        """Marks the state's case."""
        state = self._state
        if len(plane_axes(state.problem)) < 2:
            self.panel.object = ""
            return
        names = default_plane(state.problem)
        x, y = (_at(name, state.y, state.theta) for name in names)
        across, up = (_ends(state.problem, name) for name in names)
        left, top, right, bottom = FRAME
        px = left + (right - left) * float(np.clip(_along(x, across), 0, 1))
        py = bottom - (bottom - top) * float(np.clip(_along(y, up), 0, 1))
        labels, origin = _labels(state.problem, names), drawn_from(state.problem)
        self.panel.object = (
            f'<figure><svg viewBox="0 0 {SIZE[0]} {SIZE[1]}" role="img" aria-label="This case '
            f'among {DRAWS} drawn from {origin}: {labels[0]} {x:.3g}, {labels[1]} {y:.3g}.">'
            f"{_cloud(state.problem)}"
            f'<path class="guide" d="M{px:.1f} {bottom}V{top}M{left} {py:.1f}H{right}"/>'
            f'<circle class="case" cx="{px:.1f}" cy="{py:.1f}" r="6"/></svg>'
            f"<figcaption>This case among {DRAWS} drawn from {origin}</figcaption></figure>"
        )


@lru_cache(64)
def _cloud(problem: Problem) -> str:
    """Frame, axes and draws, which are the same for every case."""
    left, top, right, bottom = FRAME
    names = default_plane(problem)
    ends = [_ends(problem, name) for name in names]
    y, theta = drawn(problem, DRAWS)
    at = [_column(name, y, theta) for name in names]
    shares = [_along(values, end) for values, end in zip(at, ends, strict=True)]
    inside = np.all([(s >= 0) & (s <= 1) for s in shares], axis=0)
    points = np.stack([s[inside] for s in shares], -1)
    dots = "".join(
        f'<circle class="draw" cx="{left + (right - left) * u:.1f}" '
        f'cy="{bottom - (bottom - top) * v:.1f}" r="1.6"/>'
        for u, v in points
    )
    labels = _labels(problem, names)
    (x0, x1), (y0, y1) = ends
    middle = (top + bottom) / 2
    texts = (
        f'<text x="{left}" y="{bottom + 14}">{x0:.4g}</text>'
        f'<text x="{right}" y="{bottom + 14}" text-anchor="end">{x1:.4g}</text>'
        f'<text x="{(left + right) / 2}" y="{bottom + 28}" text-anchor="middle">{labels[0]}</text>'
        f'<text x="{left - 4}" y="{bottom}" text-anchor="end">{y0:.4g}</text>'
        f'<text x="{left - 4}" y="{top + 9}" text-anchor="end">{y1:.4g}</text>'
        f'<text transform="rotate(-90 12 {middle})" x="12" y="{middle}" text-anchor="middle">'
        f"{labels[1]}</text>"
    )
    frame = f'<rect class="frame" x="{left}" y="{top}" width="{right - left}" '
    return f'{frame}height="{bottom - top}"/>{dots}{texts}'


def _labels(problem: Problem, names: tuple[str, str]) -> list[str]:
    """What the axes are called; a problem's author may have written anything."""
    return [escape(plane_axes(problem).get(name, name)) for name in names]


def _ends(problem: Problem, name: str) -> tuple[float, float]:
    low, high = map(float, getattr(problem, name.partition("[")[0]).typical_range)
    if math.isfinite(high - low):
        return low, high
    # A range without an end is shown as far as most draws reach.
    ends = np.quantile(_column(name, *drawn(problem, DRAWS)), [0.01, 0.99])
    return float(ends[0]), float(ends[1])


def _along(values: Array | float, ends: tuple[float, float]) -> Array:
    return (np.asarray(values) - ends[0]) / (ends[1] - ends[0])


def _column(name: str, y: Array | None, theta: Array | None) -> Array:
    """A coordinate of many cases, or the mean of all, (n,)."""
    variable, _, coordinate = name.partition("[")
    points = np.asarray(y if variable == "y" else theta)
    return np.asarray(points[:, int(coordinate[:-1])] if coordinate else points.mean(axis=1))


def _at(name: str, y: tuple[float, ...], theta: tuple[float, ...]) -> float:
    return float(_column(name, np.array([y]), np.array([theta]))[0])
