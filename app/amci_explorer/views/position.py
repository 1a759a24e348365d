r"""A small map of where the case lies among draws from p(y) p(theta), with a point to drag."""

from __future__ import annotations

__all__ = ["PositionView"]

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import param

from amci_core.amortization import default_plane
from amci_core.estimators.draws import Array
from amci_core.models import Problem
from amci_explorer.js.scripts import MAP
from amci_explorer.numbers.typical import drawn
from amci_explorer.problems.presets import digits_of
from amci_explorer.state.fields import plane_axes
from amci_explorer.state.state import State
from amci_explorer.views.slider import Movable, same
from amci_explorer.words.evaluation import drawn_from

STYLE = """
figure { margin: 0; display: grid; grid-template-columns: auto 1fr; gap: 2px 6px; }
figure[hidden] { display: none; }
.map { grid-column: 1 / -1; position: relative; height: 120px; margin: 0 12px 10px;
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


class CaseMap(Movable):
    """Draws as dots, and the case as a point that is dragged or moved by arrow keys."""

    cloud: Any = param.String(doc="The dots, as SVG.")
    ends: Any = param.List(default=[], doc="Ends of both axes; empty where there is no plane.")
    digits: Any = param.List(default=[], doc="Decimals of the case along both axes.")
    labels: Any = param.List(default=[], doc="What the axes are called.")
    caption: Any = param.String(doc="What it shows.")
    at: Any = param.List(default=[], doc="Where the case is.")
    _esm = MAP
    _stylesheets = [STYLE]  # noqa: RUF012  Panel reads it of the class
    _where = "at"


@dataclass(frozen=True)
class _Axis:
    """A variable of the case, and the coordinates of it that one axis shows as their mean."""

    variable: str
    coordinates: tuple[int, ...]
    label: str
    digits: int

    @property
    def moves(self) -> list[Any]:
        """What a page that paints moves, see `Movable`."""
        return [self.variable, *self.coordinates] if len(self.coordinates) == 1 else []

    def of(self, points: Any) -> Array:
        """Where points (..., D) are on it, (...)."""
        return np.asarray(points)[..., list(self.coordinates)].mean(-1)


class PositionView:
    """Creates the map, empty; `show` fills it.

    Arguments:
        state: Whose case is marked, and moved.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.panel = CaseMap(sizing_mode="stretch_width", margin=0)
        self.panel.on_move(self._moved)

    def show(self) -> None:
        """Marks the state's case."""
        state = self._state
        at = [float(axis.of(getattr(state, axis.variable))) for axis in _axes(state.problem)]
        self.panel.param.update(at=at, **_map(state.problem))

    def _moved(self, *events: Any) -> None:
        state = self._state
        axes = _axes(state.problem)
        if len(self.panel.at) != len(axes):
            return
        points: dict[str, Any] = {"y": list(state.y), "theta": list(state.theta)}
        for axis, to in zip(axes, self.panel.at, strict=True):
            if not same(float(axis.of(points[axis.variable])), float(to)):
                for i in axis.coordinates:
                    points[axis.variable][i] = round(float(to), axis.digits)
        moved = {n: p for n, p in points.items() if tuple(p) != getattr(state, n)}
        if moved:
            state.move(**moved)
        if any(event.name == "committed" for event in events):
            state.commit()


@lru_cache(64)
def _axes(problem: Problem) -> list[_Axis]:
    """Two axes; none if the problem has no plane of cases."""
    labels = plane_axes(problem)
    axes = []
    for name in default_plane(problem) if len(labels) > 1 else ():
        variable, _, coordinate = name.removesuffix("]").partition("[")
        of = getattr(problem, variable)
        moved = (int(coordinate),) if coordinate else tuple(range(of.dim))
        axes.append(_Axis(variable, moved, labels.get(name, name), digits_of(of, moved[0])))
    return axes


@lru_cache(64)
def _map(problem: Problem) -> dict[str, Any]:
    """What the map shows of a problem: its axes, and draws as dots, the same for every case."""
    y, theta = drawn(problem, DRAWS)
    ends, shares = [], []
    for axis in _axes(problem):
        points = axis.of(y if axis.variable == "y" else theta)
        variable = getattr(problem, axis.variable)
        low, high = variable.typical[:, list(axis.coordinates)].mean(-1).tolist()
        if not math.isfinite(high - low):
            # A range without an end is shown as far as most draws reach.
            low, high = np.quantile(points, [0.01, 0.99]).tolist()
        ends.append([low, high])
        shares.append((points - low) / (high - low))
    inside = np.all([(s >= 0) & (s <= 1) for s in shares], axis=0)
    dots = "".join(
        f'<circle cx="{100 * u:.1f}%" cy="{100 - 100 * v:.1f}%" r="1.6"/>'
        for u, v in zip(*(s[inside] for s in shares), strict=True)
    )
    return {
        "ends": ends,
        "digits": [axis.digits for axis in _axes(problem)],
        "labels": [axis.label for axis in _axes(problem)],
        "moves": [axis.moves for axis in _axes(problem)],
        "caption": f"This case among {DRAWS} drawn from {drawn_from(problem)}",
        "cloud": f'<svg aria-hidden="true">{dots}</svg>',
    }
