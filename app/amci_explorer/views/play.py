r"""Draws one by one: each lands with its weight, and the estimates grow."""

from __future__ import annotations

__all__ = ["PlayCard"]

import math
from typing import Any

import numpy as np
import panel as pn
import panel_material_ui as pmui
import param
from bokeh.models import ColumnDataSource, Div, Range1d

from amci_explorer.colours import ESTIMATORS, SHAPES
from amci_explorer.compute.requests import Request
from amci_explorer.numbers.play import MOST, Playback
from amci_explorer.problems.presets import coordinate_names
from amci_explorer.state.state import State
from amci_explorer.text import doubt, number, terms
from amci_explorer.views.card import Card
from amci_explorer.views.figures import describe, pane, picture, set_range
from amci_explorer.views.layout import side_by_side

STYLE = """
p { margin: 0; font-size: var(--text); min-height: 4.5em; font-variant-numeric: tabular-nums; }
"""
# From so many draws on a standard error is shown: before, it is mostly too small.
FEW = 10
PROPOSALS = {"q1_plus": "q1", "q1_minus": "q1_minus", "q2": "q2"}
COLUMNS = ["draw", "estimate", "snis", "low", "high", "words"]
COLUMNS += [f"{name}_{what}" for name in PROPOSALS for what in ("x", "weight")]
# Shows the first draws of all, without asking the server.
NO_DRAWS = "<p>No draws yet.</p>"
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
    drawn = ("coordinate",)

    def content(self) -> list[Any]:
        empty: dict[str, Any] = {name: [] for name in COLUMNS}
        self.source = ColumnDataSource(empty, name="play-all")
        self.played = ColumnDataSource(dict(empty), name="play-shown")
        self.weights = picture(
            "play-weights",
            alternative="No draws yet.",
            x_label="x",
            y_label="weight / mean weight",
            height=240,
            tools="box_zoom,reset",
            x_range=Range1d(0, 1),
            y_range=Range1d(0, 2),
        )
        self.estimate = picture(
            "play-estimate",
            alternative="No draws yet.",
            x_label="draws per proposal (no band: SNIS q₂)",
            y_label="μ ± 2 standard errors",
            height=240,
            tools="box_zoom,reset",
            x_axis_type="log",
            x_range=Range1d(1, MOST),
            y_range=Range1d(0, 1),
        )
        for name, shape in PROPOSALS.items():
            dots = self.weights.scatter(
                f"{name}_x", f"{name}_weight", source=self.played, size=6, fill_alpha=0.5
            )
            self.theme.follow(dots.glyph, SHAPES[shape], "fill_color", "line_color")
        band = self.estimate.varea("draw", "low", "high", source=self.played, fill_alpha=0.2)
        line = self.estimate.line("draw", "estimate", source=self.played, line_width=2)
        snis = self.estimate.line("draw", "snis", source=self.played, line_width=2)
        self._mu = ColumnDataSource({"mu": []}, name="play-mu")
        aim = self.estimate.hspan("mu", source=self._mu, line_dash="dashed", line_width=1.5)
        self.theme.follow(band.glyph, ESTIMATORS["amci"], "fill_color")
        self.theme.follow(line.glyph, ESTIMATORS["amci"], "line_color")
        self.theme.follow(snis.glyph, ESTIMATORS["snis-q2"], "line_color")
        self.theme.follow(aim.glyph, SHAPES["threshold"], "line_color")
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

    def asked(self, case: State) -> Request:
        return Request("playback", case.settings, (("coordinate", case.coordinate),))

    def clear(self) -> None:
        empty: dict[str, Any] = {name: [] for name in COLUMNS}
        self.source.data = self.played.data = empty
        self.text.text = NO_DRAWS
        self.player.value = 0

    def draw(self, found: Playback, *, complete: bool) -> None:
        self.clear()
        estimate, error = found.estimate, found.error.copy()
        error[: FEW - 1] = np.nan
        columns: dict[str, Any] = {name: np.full(len(estimate), np.nan) for name in COLUMNS}
        columns |= {
            "draw": np.arange(1, len(estimate) + 1),
            "estimate": estimate,
            "snis": found.snis,
            "low": estimate - 2 * error,
            "high": estimate + 2 * error,
            "words": self._sentences(found),
        }
        for lane in found.lanes:
            columns |= {f"{lane.proposal}_x": lane.x, f"{lane.proposal}_weight": lane.weight}
        self.source.data = columns
        known = [] if math.isnan(found.mu.value) else [found.mu.value]
        self._mu.data = {"mu": known}
        x = np.concatenate([lane.x for lane in found.lanes])
        # SNIS can be off by orders of magnitude: up to once or twice mu it is in view.
        size = abs(estimate[-1])
        snis = np.clip(found.snis, estimate[-1] - size, estimate[-1] + size)
        ends = np.array([*columns["low"], *columns["high"], *estimate[FEW:], *known, *snis])
        ends = ends[np.isfinite(ends)]
        for axis, values in (
            (self.weights.x_range, x),
            (self.weights.y_range, [0.0, *(lane.weight.max() for lane in found.lanes)]),
            (self.estimate.y_range, ends if len(ends) else [0.0, 1.0]),
        ):
            low, high = float(np.min(values)), float(np.max(values))
            room = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
            set_range(axis, low - room, high + room)
        self.weights.xaxis.axis_label = coordinate_names(self.state.problem)[
            self.state.coordinate - 1
        ]
        last = columns["words"][-1]
        describe(self.weights, f"Weights of {MOST} draws per proposal against x.")
        describe(self.estimate, f"The estimate along {MOST} draws per proposal. At last: {last}.")

    def _sentences(self, found: Playback) -> list[str]:
        """Each term and mu from the first 1 to n draws, in words."""
        names = terms(signed=len(found.lanes) > 2)
        width = float(np.ptp(self.state.problem.f_range))
        mu = found.mu
        truth = "" if math.isnan(mu.value) else f"; {mu.name} {number(mu.value, 4)}"
        said = []
        for i, (value, error) in enumerate(zip(found.estimate, found.error, strict=True)):
            sums = ", ".join(
                f"{names[lane.term]} ≈ {number(lane.mean[i] * math.exp(lane.log_scale))}"
                for lane in found.lanes
            )
            after = f", standard error {doubt(error, width)}" if i + 1 >= FEW else ""
            rival = found.snis[i]
            beside = "" if math.isnan(rival) else f"; SNIS q₂ with as many draws {number(rival)}"
            said.append(f"After {i + 1}: {sums}, μ ≈ {number(value, 4)}{after}{truth}{beside}")
        return said
