r"""Draws one by one: each lands under the density by its weight, and the estimates grow."""

from __future__ import annotations

__all__ = ["PlayCard", "play_of"]

import math
from typing import Any

import numpy as np
import param
from panel.custom import JSComponent

from amci_core.estimators.draws import Array
from amci_explorer.compute.requests import Request
from amci_explorer.js.scripts import PLAY
from amci_explorer.numbers.pictures import densities
from amci_explorer.numbers.play import Lane, Playback
from amci_explorer.plots.colours import ESTIMATORS, SHAPES, Style
from amci_explorer.problems.presets import coordinate_names
from amci_explorer.state.state import State
from amci_explorer.text import terms
from amci_explorer.views.card import Card
from amci_explorer.views.style import PALETTE
from amci_explorer.words import HELP

STYLE = """
.play { color: var(--ink); }
.picture { display: block; width: 100%; }
.controls { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-bottom: 10px; }
button, select { font: inherit; font-size: var(--small); min-height: 32px; padding: 4px 12px;
                 border: 1px solid var(--accent); border-radius: 6px; background: var(--paper);
                 color: var(--accent); cursor: pointer; }
button:first-child { min-width: 76px; font-weight: 600; }
input { flex: 1 1 160px; accent-color: var(--accent); min-width: 120px; min-height: 24px; }
:is(button, select, input):focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.sums { min-height: 7em; }
.sums i { display: inline-block; width: 0.7em; height: 0.7em; border-radius: 50%; }
.sums p { margin: 4px 0 0 0; font-size: var(--text); line-height: 1.5;
          font-variant-numeric: tabular-nums; }
"""
STYLES = {
    "q1_plus": ESTIMATORS["snis-q1"],
    "q1_minus": SHAPES["q1_minus"],
    "q2": ESTIMATORS["snis-q2"],
}
# Of densities: what they are called there, and whether they are areas.
CURVES = {"posterior": True, "target": True, "target_minus": True, "q1": False, "q2": False}
CURVES |= {"q1_minus": False}
PROPOSALS = {"q1_plus": "q₁", "q1_minus": "q₁⁻", "q2": "q₂"}
HEAVY = Style("a heavy weight", "#b3261e", "#ff8f86")
EMPTY: dict[str, Any] = {"count": 0, "lanes": [], "curves": {"x": [], "parts": []}}


def play_of(case: State) -> Request:
    """What is played of a case."""
    return Request("playback", case.settings, (("coordinate", case.coordinate),))


class PlayStage(JSComponent):
    """What the browser plays."""

    data: Any = param.Dict(default=None, doc="The draws, and how they are drawn.")
    _esm = PLAY
    _stylesheets = [STYLE]  # noqa: RUF012  Panel reads it of the class


class PlayCard(Card):
    """Draws, one by one."""

    name = "play"
    title = "Draw by draw"
    unit = ""
    help = HELP["play"]
    drawn = ("coordinate",)

    def content(self) -> list[Any]:
        self.stage = PlayStage(sizing_mode="stretch_width", margin=0)
        return [self.stage]

    def asked(self, case: State) -> Request:
        return play_of(case)

    def clear(self) -> None:
        self.stage.data = None

    def draw(self, found: Playback, *, complete: bool) -> None:
        del complete
        case = self.state
        signed = len(found.lanes) > 2
        names = terms(signed=signed)
        columns = self._curves(case)
        x = columns.pop("x")
        there = [lane.x for lane in found.lanes]
        ends = [x[[0, -1]]] if len(x) else [np.concatenate(there)]
        low, high = (float(end(np.concatenate(ends))) for end in (np.min, np.max))
        parts = [
            {
                "values": _plain(columns[name]),
                "colour": SHAPES[name].colour(self.dark),
                "area": area,
                "dash": list(SHAPES[name].dash),
            }
            for name, area in CURVES.items()
            if name in columns
        ]
        wanted = [columns[n] for n in ("posterior", "target", "target_minus") if n in columns]
        top = max((float(np.nanmax(v, initial=0.0)) for v in wanted), default=1.0) or 1.0
        palette = PALETTE["dark" if self.dark else "light"]
        self.stage.data = {
            "count": len(found.estimate),
            "lanes": [_lane(lane, names[lane.term], self.dark, signed) for lane in found.lanes],
            "curves": {
                "x": _plain(x),
                "parts": parts,
                "top": 1.05 * top,
                "label": coordinate_names(case.problem)[case.coordinate - 1],
            },
            "extent": [low, high],
            "estimate": _plain(found.estimate),
            "error": _plain(found.error),
            "range": _plain(np.array(case.problem.f_range)),
            "truth": None if math.isnan(found.mu.value) else found.mu.value,
            "known": found.mu.name,
            "colours": {
                "line": palette["line"],
                "muted": palette["muted"],
                "heavy": HEAVY.colour(self.dark),
                "estimate": ESTIMATORS["amci"].colour(self.dark),
            },
        }

    def _curves(self, case: State) -> dict[str, Array]:
        """Densities along the coordinate that is looked at; only x, empty, where none are."""
        proposals = self.store.proposals(case.settings)
        look: dict[str, Any] = {}
        if case.problem.x.dim > 2:
            look = {"coordinate": case.coordinate - 1}
        found = densities(case.problem, proposals, *case.settings.pair, **look)
        return found.along(case.coordinate - 1)


def _lane(lane: Lane, term: str, dark: bool, signed: bool) -> dict[str, Any]:
    label = PROPOSALS[lane.proposal] + ("⁺" if signed and lane.proposal == "q1_plus" else "")
    scale = math.exp(min(lane.log_scale, 700.0))
    return {
        "proposal": label,
        "label": term,
        "colour": STYLES[lane.proposal].colour(dark),
        "x": _plain(lane.x),
        "weight": _plain(lane.weight),
        "mean": _plain(lane.mean),
        "size": scale,
        "unit": float(lane.mean[-1]) * scale,
    }


def _plain(values: Array) -> list[float | None]:
    """Numbers that JSON has; None for the others."""
    return [float(f"{v:.12g}") if math.isfinite(v) else None for v in np.ravel(values).tolist()]
