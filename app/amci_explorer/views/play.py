r"""Draws one by one: each lands with its weight, and the estimates grow."""

from __future__ import annotations

__all__ = ["PlayCard"]

import math
from typing import Any

import numpy as np
import panel as pn
import panel_material_ui as pmui
import param
from bokeh.models import Div, Range1d

from amci_explorer.colours import ESTIMATORS, SHAPES
from amci_explorer.compute.requests import Request
from amci_explorer.numbers.play import MOST, Playback
from amci_explorer.plots.style import describe, draws_ticks, empty_source, set_range, short_ticks
from amci_explorer.problems.presets import coordinate_names
from amci_explorer.state.case import Case
from amci_explorer.text import doubt, number
from amci_explorer.views.card import Card
from amci_explorer.views.figures import empty_figure, pane
from amci_explorer.views.layout import side_by_side

STYLE = """
p { margin: 0; font-size: var(--text); min-height: 3em; font-variant-numeric: tabular-nums; }
"""
# From so many draws on a standard error is shown: before, it is mostly too small.
FEW = 10
PROPOSALS = {"q1_plus": "q1", "q1_minus": "q1_minus", "q2": "q2"}
COLUMNS = ["draw", "estimate", "snis", "low", "high", "words"]
COLUMNS += [f"{name}_{what}" for name in PROPOSALS for what in ("x", "weight")]
LINES = (("estimate", "amci", "AMCI"), ("snis", "snis-q2", "SNIS q₂"))
NO_DRAWS = "<p>No draws yet.</p>"
# Shows the first draws of all, without asking the server.
SHOW = """
    const n = cb_obj.value, columns = Object.entries(all.data)
    const data = Object.fromEntries(columns.map(([name, values]) => [name, values.slice(0, n)]))
    const text = `<p>${all.data.words[n - 1] ?? "No draws yet."}</p>`
    shown.setv({data}, {sync: false})
    words.setv({text}, {sync: false})
"""


class PlayCard(Card):
    """Draws, one by one."""

    name = param.String("play")
    unit = ""
    drawn = ()

    def content(self) -> list[Any]:
        self.source = empty_source("play-all", COLUMNS)
        self.played = empty_source("play-shown", COLUMNS)
        self._mu = empty_source("play-mu", ["mu"])
        looks: dict[str, Any] = {"alternative": "No draws yet.", "height": 240}
        looks |= {"tools": "reset", "x_label": "x", "y_label": "weight / mean weight"}
        ranges = {"x_range": Range1d(0, 1), "y_range": Range1d(0, 1)}
        self.weights = empty_figure("play-weights", **looks, **ranges)
        looks |= {"x_label": "draws per proposal", "y_label": "μ ± 2 standard errors"}
        ranges = {"x_range": Range1d(1, MOST), "y_range": Range1d(0, 1)}
        self.estimate = empty_figure("play-estimate", x_axis_type="log", **looks, **ranges)
        self.estimate.xaxis.formatter = draws_ticks()
        self.estimate.yaxis.formatter = short_ticks()
        follow, played = self.theme.follow, {"source": self.played}
        for name, shape in PROPOSALS.items():
            at = {"x": f"{name}_x", "y": f"{name}_weight"}
            dots = self.weights.scatter(**at, size=6, fill_alpha=0.5, **played)
            follow(dots.glyph, SHAPES[shape], "fill_color", "line_color")
        band = self.estimate.varea("draw", "low", "high", fill_alpha=0.2, **played)
        follow(band.glyph, ESTIMATORS["amci"], "fill_color")
        for column, name, legend in LINES:
            line = self.estimate.line("draw", column, line_width=2, legend_label=legend, **played)
            follow(line.glyph, ESTIMATORS[name], "line_color")
        self.estimate.legend.update(location="bottom_right", background_fill_alpha=0.5)
        aim = self.estimate.hspan("mu", source=self._mu, line_dash="dashed", line_width=1.5)
        follow(aim.glyph, SHAPES["threshold"], "line_color")
        # Of Bokeh: a widget of Panel would be kept for ever by what the player's value calls.
        self.text = Div(text=NO_DRAWS, stylesheets=[STYLE], css_classes=["play-words"])
        self.player = pmui.Player(
            label="Draws so far",
            start=0,
            end=MOST,
            value=0,
            interval=60,
            show_loop_controls=False,
            show_value=True,
            loop_policy="once",
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["draws-player"],
        )
        parts = {"all": self.source, "shown": self.played, "words": self.text}
        self.player.jscallback(value=SHOW, args=parts)
        pictures = side_by_side(pane(self.weights), pane(self.estimate), least=340)
        return [self.player, pictures, pn.pane.Bokeh(self.text, margin=0)]

    def asked(self, case: Case) -> Request:
        return Request("playback", case.settings, (("coordinate", case.coordinate),))

    def clear(self) -> None:
        self.source.data = self.played.data = {name: [] for name in COLUMNS}
        self.text.text = NO_DRAWS
        self.player.value = 0

    def draw(self, found: Playback, *, complete: bool) -> None:
        self.clear()
        estimate, error = found.estimate, np.where(np.arange(MOST) + 1 < FEW, np.nan, found.error)
        columns: dict[str, Any] = {name: np.full(MOST, np.nan) for name in COLUMNS}
        columns |= {
            "draw": np.arange(1, MOST + 1),
            "estimate": estimate,
            "snis": found.snis,
            "low": estimate - 2 * error,
            "high": estimate + 2 * error,
            "words": self._sentences(found),
        }
        for lane in found.lanes:
            columns |= {f"{lane.proposal}_x": lane.x, f"{lane.proposal}_weight": lane.weight}
        self.source.data = columns
        mu = [] if math.isnan(found.mu.value) else [found.mu.value]
        self._mu.data = {"mu": mu}
        # SNIS can be off by orders of magnitude: up to once or twice mu it is in view.
        last = float(estimate[-1])
        snis = np.clip(found.snis, last - abs(last), last + abs(last))
        ends = np.concatenate([columns["low"], columns["high"], estimate[FEW:], mu, snis])
        for axis, values in (
            (self.weights.x_range, np.concatenate([lane.x for lane in found.lanes])),
            (self.weights.y_range, np.array([0, *(lane.weight.max() for lane in found.lanes)])),
            (self.estimate.y_range, ends[np.isfinite(ends)]),
        ):
            low, high = (float(np.min(values)), float(np.max(values))) if values.size else (0, 1)
            room = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
            set_range(axis, low - room, high + room)
        names = coordinate_names(self.state.problem)
        self.weights.xaxis.axis_label = names[self.state.coordinate - 1]
        describe(self.weights, f"Weights of {MOST} draws per proposal against x.")
        describe(self.estimate, f"The estimate along the draws. {columns['words'][-1]}")

    def _sentences(self, found: Playback) -> list[str]:
        """mu from the first 1 to n draws, in words."""
        width, mu = float(np.ptp(self.state.problem.f_range)), found.mu
        truth = "" if math.isnan(mu.value) else f"; {mu.name} {number(mu.value, 4)}"
        said = []
        for n, (value, error, snis) in enumerate(
            zip(found.estimate, found.error, found.snis, strict=True), 1
        ):
            after = f", standard error {doubt(error, width)}" if n >= FEW else ""
            beside = "" if math.isnan(snis) else f"; SNIS q₂ with as many draws {number(snis)}"
            said.append(f"After {n}: μ ≈ {number(value, 4)}{after}{truth}{beside}.")
        return said
