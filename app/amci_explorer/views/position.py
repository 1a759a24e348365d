r"""A small map of where the case lies among draws from p(y) p(theta), with a point to drag."""

from __future__ import annotations

__all__ = ["PositionView"]

import math
from functools import lru_cache
from typing import Any

import numpy as np
import param
from panel.custom import JSComponent

from amci_core.amortization import default_plane
from amci_core.estimators.draws import Array
from amci_core.models import Problem
from amci_explorer.js.scripts import MAP
from amci_explorer.numbers.typical import drawn
from amci_explorer.server.session import callback
from amci_explorer.state.fields import plane_axes
from amci_explorer.state.state import State
from amci_explorer.views.slider import same
from amci_explorer.words.evaluation import drawn_from

STYLE = """
figure { margin: 0; display: grid; grid-template-columns: auto 1fr; gap: 2px 6px; }
figure[hidden] { display: none; }
.map { grid-column: 1 / -1; position: relative; height: 120px; margin: 0 12px;
       border: 1px solid var(--line); }
figcaption { grid-column: 1 / -1; font-size: var(--small); line-height: 1.45;
             color: var(--muted); }
svg { position: absolute; width: 100%; height: 100%; fill: var(--muted); opacity: 0.35; }
i { position: absolute; background: var(--accent); opacity: 0.6; pointer-events: none; }
i:first-of-type { left: calc(100% * var(--x)); top: 0; bottom: 0; width: 1px; }
i:last-of-type { top: calc(100% * var(--y)); left: 0; right: 0; height: 1px; }
.case { position: absolute; left: calc(100% * var(--x)); top: calc(100% * var(--y)); width: 24px;
        height: 24px; padding: 0; transform: translate(-50%, -50%); border-radius: 50%;
        border: 5px solid var(--paper); background: var(--accent); cursor: move;
        touch-action: none; }
.case:focus-visible { outline: 2px solid var(--accent); }
"""
DRAWS = 300


class CaseMap(JSComponent):
    """Draws as dots, and the case as a point that is dragged or moved by arrow keys."""

    cloud: Any = param.String(doc="The dots, as SVG.")
    ends: Any = param.List(default=[], doc="Ends of both axes; empty where there is no plane.")
    labels: Any = param.List(default=[], doc="What the axes are called.")
    moves: Any = param.List(default=[], doc="What a page that paints moves, see `Slider`.")
    caption: Any = param.String(doc="What it shows.")
    at: Any = param.List(default=[], doc="Where the case is.")
    committed: Any = param.Integer(default=0, doc="How often the point was let go.")
    _esm = MAP
    _stylesheets = [STYLE]  # noqa: RUF012  Panel reads it of the class
    _debounce = 1


class PositionView:
    """Creates the map, empty; `show` fills it.

    Arguments:
        state: Whose case is marked, and moved.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._problem: Problem | None = None
        self.panel = CaseMap(sizing_mode="stretch_width", margin=0)
        self.panel.param.watch(callback(self._moved), ["at", "committed"])

    def show(self) -> None:
        """Marks the state's case."""
        state = self._state
        if len(plane_axes(state.problem)) < 2:
            self.panel.param.update(ends=[], at=[], cloud="")
            self._problem = state.problem
            return
        names = default_plane(state.problem)
        at = [_at(name, state.y, state.theta) for name in names]
        if state.problem is not self._problem:
            self._problem = state.problem
            self.panel.param.update(
                ends=[list(_ends(state.problem, name)) for name in names],
                labels=[plane_axes(state.problem).get(name, name) for name in names],
                moves=[_moves(state.problem, name) for name in names],
                caption=f"This case among {DRAWS} drawn from {drawn_from(state.problem)}",
                at=at,
                cloud=_cloud(state.problem),
            )
        elif not all(map(same, self.panel.at, at)):
            self.panel.at = at

    def _moved(self, *events: Any) -> None:
        state, problem = self._state, self._problem
        if problem is None or problem is not state.problem or len(self.panel.at) != 2:
            return
        names = default_plane(problem)
        points: dict[str, Any] = {"y": list(state.y), "theta": list(state.theta)}
        for name, to in zip(names, self.panel.at, strict=True):
            variable, coordinates = _parts(name, len(points[name.partition("[")[0]]))
            if not same(_at(name, state.y, state.theta), to):
                for i in coordinates:
                    points[variable][i] = float(to)
        moved = {n: p for n, p in points.items() if tuple(p) != getattr(state, n)}
        if moved:
            state.move(**moved)
        if any(event.name == "committed" for event in events):
            state.commit()


@lru_cache(64)
def _cloud(problem: Problem) -> str:
    """The draws, which are the same for every case."""
    names = default_plane(problem)
    y, theta = drawn(problem, DRAWS)
    shares = []
    for name in names:
        low, high = _ends(problem, name)
        shares.append((_column(name, y, theta) - low) / (high - low))
    inside = np.all([(s >= 0) & (s <= 1) for s in shares], axis=0)
    points = np.stack([s[inside] for s in shares], -1)
    dots = "".join(
        f'<circle cx="{100 * u:.1f}%" cy="{100 - 100 * v:.1f}%" r="1.6"/>' for u, v in points
    )
    return f'<svg aria-hidden="true">{dots}</svg>'


def _ends(problem: Problem, name: str) -> tuple[float, float]:
    low, high = map(float, getattr(problem, name.partition("[")[0]).typical_range)
    if math.isfinite(high - low):
        return low, high
    # A range without an end is shown as far as most draws reach.
    ends = np.quantile(_column(name, *drawn(problem, DRAWS)), [0.01, 0.99])
    return float(ends[0]), float(ends[1])


def _parts(name: str, dim: int) -> tuple[str, list[int]]:
    """The variable and the coordinates that an axis moves."""
    variable, _, coordinate = name.partition("[")
    return variable, [int(coordinate[:-1])] if coordinate else list(range(dim))


def _moves(problem: Problem, name: str) -> list[Any]:
    variable, coordinates = _parts(name, getattr(problem, name.partition("[")[0]).dim)
    return [variable, coordinates[0]] if len(coordinates) == 1 else []


def _column(name: str, y: Array | None, theta: Array | None) -> Array:
    """A coordinate of many cases, or the mean of all, (n,)."""
    variable, _, coordinate = name.partition("[")
    points = np.asarray(y if variable == "y" else theta)
    return np.asarray(points[:, int(coordinate[:-1])] if coordinate else points.mean(axis=1))


def _at(name: str, y: tuple[float, ...], theta: tuple[float, ...]) -> float:
    return float(_column(name, np.array([y]), np.array([theta]))[0])
