r"""Error against total draws, as the runs come in."""

from __future__ import annotations

__all__ = ["ErrorCard"]

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import panel_material_ui as pmui
import param
from bokeh.models import ColumnDataSource, CustomJSTickFormatter, Range1d, Span
from bokeh.plotting import figure
from panel.custom import JSComponent

from amci_core.evaluation import ErrorCurves
from amci_explorer.compute.computations import BUDGETS
from amci_explorer.compute.requests import Request
from amci_explorer.js.scripts import HANDLE
from amci_explorer.plots.colours import ESTIMATORS, Style
from amci_explorer.plots.errors import FAINT, MEASURES, Scaled, extent, scaled
from amci_explorer.plots.labels import apart, width_of
from amci_explorer.server.session import callback
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.state import State
from amci_explorer.text import number
from amci_explorer.views import export
from amci_explorer.views.bound import bound, tie
from amci_explorer.views.card import Card
from amci_explorer.views.figures import add_hover, at_most, describe, pane, picture, set_range
from amci_explorer.views.layout import HTML, column
from amci_explorer.views.style import PALETTE
from amci_explorer.words import HELP
from amci_explorer.words.curves import about_curves, outside
from amci_explorer.words.headline import EXACT, TYPICALLY, compare, position

COLUMNS = ("draws", "error", "firm", "low", "median", "high")
NOTE = "p { margin: 0; font-size: var(--small); line-height: 1.4; color: var(--muted); }"
INK = Style("ink", PALETTE["light"]["ink"], PALETTE["dark"]["ink"])
PAPER = Style("paper", PALETTE["light"]["paper"], PALETTE["dark"]["paper"])
# Of the axis of draws and the tools, in pixels.
BELOW = 58
LOWER = 205
# A power of ten where a number would be all zeros.
TICKS = """
    const digits = Math.round(Math.log10(tick)), raised = "⁰¹²³⁴⁵⁶⁷⁸⁹"
    const power = [...String(Math.abs(digits))].map(digit => raised[digit]).join("")
    const plain = digits >= -4 && digits < 6
    const text = unit == "" && digits >= 3 && digits < 6 ? `${tick / 1000}k`
        : plain ? tick.toLocaleString("en", {maximumSignificantDigits: 2})
        : `10${digits < 0 ? "⁻" : ""}${power}`
    return text + unit
"""
# Errors whose ratio is nearer to 1 get no bracket.
ALIKE = 1.2
STYLE = """
:host { position: relative; height: 0; z-index: 1; }
.thumb { position: absolute; transform: translate(-50%, -50%); padding: 0 9px; height: 22px;
         line-height: 22px; border-radius: 11px; font-size: 12px; white-space: nowrap;
         color: var(--paper); background: var(--ink); cursor: ew-resize; touch-action: none;
         user-select: none; }
.thumb::before { content: ""; position: absolute; inset: -8px -4px; }
.thumb:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""


class Handle(JSComponent):
    """A handle below the x axis of a picture, which moves from stop to stop."""

    picture: Any = param.String(doc="Name of the picture.")
    label: Any = param.String(doc="What it moves, for assistive technology.")
    stops: Any = param.List(default=[1], doc="Where it can stand, on the x axis.")
    at: Any = param.Integer(default=0, doc="At which stop it stands.")
    released: Any = param.Integer(default=0, doc="Grows when it is let go.")
    _esm = HANDLE
    _stylesheets = [STYLE]  # noqa: RUF012  Panel reads it of the class


class ErrorCard(Card):
    """The error of each estimator against the number of draws."""

    name = "errors"
    title = "Relative error"
    help = HELP["errors"]
    drawn: ClassVar[tuple[str, ...]] = ("measure", "spread", "draws")
    # Of the picture, in pixels.
    height: ClassVar[int] = 340
    # Whether the number of draws has a handle in it.
    handled: ClassVar[bool] = True

    def content(self) -> list[Any]:
        self.sources = {
            name: ColumnDataSource({c: [] for c in COLUMNS}, name=f"{self.name}-{name}")
            for name in ESTIMATORS
        }
        empty: dict[str, Any] = {column: [] for column in ("x", "y", "text", "colour")}
        self._ends = ColumnDataSource(dict(empty), name=f"{self.name}-ends")
        empty = {column: [] for column in ("xs", "ys", "x", "y", "text", "align")}
        self._brackets = ColumnDataSource(empty, name=f"{self.name}-brackets")
        self.figure = self._picture()
        self.note = HTML("<p></p>", NOTE)
        if not self.handled:
            return [pane(self.figure), self.note]
        self.handle = Handle(
            picture=self.figure.name, label="Total draws", sizing_mode="stretch_width", margin=0
        )
        self.handle.param.watch(callback(self._dragged), ["at", "released"])
        return [column(pane(self.figure), self.handle), self.note]

    def tools(self) -> list[Any]:
        spread = pmui.Checkbox(label="spread of runs", size="small", margin=0)
        tie(self.state, "spread", spread)
        return [
            spread,
            bound(self.state, "measure", "Error measure"),
        ]

    def asked(self, case: State) -> Request:
        return Request("error_curves", case.settings)

    def wanted(self) -> Request | None:
        # Curves over all numbers of draws answer another of these as well.
        asked = self.asked(self.state)
        if asked is None or self.shown is None:
            return asked
        draws = self.shown.asked.settings.draws
        return replace(asked, settings=replace(asked.settings, draws=draws))

    def clear(self) -> None:
        self.limit(self.store.measured)

    def limit(self, names: tuple[str, ...]) -> None:
        """Empties the picture, and makes it ready for these estimators."""
        for name, source in self.sources.items():
            source.data = {column: [] for column in COLUMNS}
            for part in self._parts[name]:
                part.visible = name in names
        for source in (self._ends, self._brackets):
            source.data = {column: [] for column in source.data}
        self.note.object = "<p></p>"

    def draw(self, found: ErrorCurves, *, complete: bool) -> None:
        measure, spread = self.state.measure, self.state.spread
        curves = {name: scaled(curve, measure) for name, curve in found.by_name.items()}
        for name, curve in curves.items():
            # Judged once all runs are there: the tails of their errors take a while to fit.
            firm = curve.determined if complete else np.zeros(len(found.budgets), bool)
            self.sources[name].data = {
                "draws": found.budgets,
                "error": curve.error,
                "firm": np.where(firm, curve.error, np.nan),
                **{part: getattr(curve, part) for part in ("low", "median", "high")},
            }
            for part in self._parts[name][2:]:
                part.visible = spread
        set_range(self.figure.y_range, *extent(found, measure, spread=spread))
        self._name_ends(found.budgets.tolist(), curves)
        self._measure_factors(found if complete else None)
        unit = float(np.square(next(iter(found.by_name.values())).truth.unit))
        scale = unit if measure == "MSE" else 1.0
        self.note.object = f"<p>{outside(found, complete=complete, scale=scale)}</p>"

    def redraw(self) -> None:
        axis, measure = self.figure.yaxis[0], self.state.measure
        # The card's title says what is in per cent.
        axis.axis_label = None if measure == "percent" else MEASURES[measure]
        axis.formatter = self._formatters[measure == "percent"]
        total = self._total
        self._line.location = total
        if self.handled:
            stops = sorted({*(n for n in BUDGETS if self._draws_of(n)), total})
            self.handle.param.update(stops=stops, at=stops.index(total))
        if self.shown is not None:
            self.draw(self.shown.value, complete=self.shown.complete)

    def fit(self, found: ErrorCurves) -> None:
        """Lets the axis of draws begin and end with these curves."""
        set_range(self.figure.x_range, *_ends(found.budgets.tolist()))

    def describe(self, found: ErrorCurves) -> None:
        describe(self.figure, about_curves(found))

    def frame(self, found: ErrorCurves) -> pd.DataFrame:
        return export.curves(found)

    def recolour(self, dark: bool) -> None:
        super().recolour(dark)
        if self.shown is not None:
            self.draw(self.shown.value, complete=self.shown.complete)

    @property
    def _total(self) -> int:
        """Total draws of one estimate."""
        return int(self.state.draws) * len(self.store.terms)

    def _draws_of(self, total: int) -> int:
        """Draws from each proposal of so many in total; 0 if that is no choice."""
        draws, rest = divmod(total, len(self.store.terms))
        low, high = FIELDS["draws"].bounds or (1, math.inf)
        return draws if rest == 0 and low <= draws <= high else 0

    def _dragged(self, *events: Any) -> None:
        draws = self._draws_of(self.handle.stops[self.handle.at])
        if draws and draws != self.state.draws:
            self.state.set(draws=draws)
        if any(event.name == "released" for event in events):
            self.state.commit()

    def _picture(self) -> figure:
        shown = picture(
            self.name,
            alternative="Error of every estimator against total draws.",
            x_label="draws, all proposals together",
            y_label=MEASURES["percent"],
            height=self.height,
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(*_ends(BUDGETS)),
            y_range=Range1d(1e-3, 1e3),
        )
        shown.update(stylesheets=[*shown.stylesheets, at_most(LOWER)], min_border_left=66)
        self._formatters = {
            percent: CustomJSTickFormatter(code=TICKS, args={"unit": " %" if percent else ""})
            for percent in (True, False)
        }
        shown.xaxis.formatter = self._formatters[False]
        self._line = Span(dimension="height", line_width=1, line_dash=[2, 3], name="at")
        shown.add_layout(self.painter.follow(self._line, INK, "line_color"))
        self._parts = {name: self._curve(shown, name) for name in ESTIMATORS}
        tips = [
            ("", "$name, @draws{0,0} draws"),
            ("error", "@error{0.00e+0}"),
            ("median", "@median{0.00e+0}"),
            ("middle 50 %", "@low{0.00e+0} to @high{0.00e+0}"),
        ]
        add_hover(shown, [parts[0] for parts in self._parts.values()], tips)
        words = {"text_font_size": "12px", "text_font_style": "bold", "text_baseline": "middle"}
        names = shown.text(
            source=self._ends, text_color="colour", x_offset=8, level="overlay", **words
        )
        names.name = "ends"
        brackets = shown.multi_line("xs", "ys", source=self._brackets, line_width=1.4)
        factors = shown.text(
            source=self._brackets, text_align="align", background_fill_alpha=0.85, **words
        )
        for model, style, part in (
            (brackets, INK, "line_color"),
            (factors, INK, "text_color"),
            (factors, PAPER, "background_fill_color"),
        ):
            model.tags = ["draws"]
            self.painter.follow(model.glyph, style, part)
        return shown

    def _curve(self, shown: figure, name: str) -> list[Any]:
        """An estimator's lines: all of it faint, what the runs determine; then their spread."""
        style, source = ESTIMATORS[name], self.sources[name]
        width, dash = (1.8, list(style.dash)) if name == "bound" else (2.5, "solid")
        looks = {"source": source, "line_width": width, "line_dash": dash}
        parts = [
            shown.line("draws", "error", line_alpha=FAINT, name=style.label, **looks),
            shown.line("draws", "firm", name=name, **looks),
        ]
        if name != "bound":
            middle = {"line_width": 1.5, "line_dash": [1, 3], "source": source}
            parts.append(shown.line("draws", "median", **middle))
            parts.append(shown.varea("draws", "low", "high", source=source, fill_alpha=0.14))
        for part in parts:
            colour = "line_color" if hasattr(part.glyph, "line_color") else "fill_color"
            self.painter.follow(part.glyph, style, colour)
        return parts

    def _name_ends(self, budgets: list[int], curves: dict[str, Scaled]) -> None:
        """Names the curves where they end, as far as they end within the picture."""
        axis = self.figure.y_range
        ends = {}
        for name, curve in curves.items():
            known = curve.error[np.isfinite(curve.error)]
            if known.size and axis.start <= known[-1] <= axis.end:
                ends[name] = float(known[-1])
        texts = [ESTIMATORS[name].short or ESTIMATORS[name].label for name in ends]
        height = self.height - BELOW
        placed = apart([*ends.values()], axis.start, axis.end, height=height)
        self._ends.data = {
            "x": [float(budgets[-1])] * len(ends),
            "y": placed,
            "text": texts,
            "colour": [ESTIMATORS[name].colour(self.dark) for name in ends],
        }
        self.figure.min_border_right = width_of(texts)

    def _measure_factors(self, found: ErrorCurves | None) -> None:
        """Draws brackets between AMCI, its best rival and the bound, at the chosen draws."""
        columns: dict[str, list[Any]] = {column: [] for column in self._brackets.data}
        if found is not None and not np.isnan(found.truth_error):
            at = position(found, self._total)
            errors = compare(found, at)
            x = float(found.budgets[at])
            others = [errors.rivals[errors.rival].size] if errors.rival else []
            usable = errors.amci.how != TYPICALLY and EXACT < errors.amci.size < math.inf
            # To the right, as long as there is room.
            side, align = (1, "left") if 12 * x < found.budgets[-1] else (-1, "right")
            for other, reach in zip([*others[:1], errors.bound], (1.25, 2.8), strict=False):
                ratio = other / errors.amci.size if usable else math.nan
                if not math.isfinite(ratio) or 1 / ALIKE < ratio < ALIKE:
                    continue
                inner, outer = x * 1.06**side, x * reach**side
                low, high = (self._drawn(found, size) for size in (errors.amci.size, other))
                factor = ratio if self.state.measure == "percent" else ratio**2
                columns["xs"].append([inner, outer, outer, inner])
                columns["ys"].append([high, high, low, low])
                columns["x"].append(outer * 1.08**side)
                columns["y"].append(math.sqrt(low * high))
                columns["text"].append(f"{number(factor, 2)} ×")
                columns["align"].append(align)
        self._brackets.data = columns

    def _drawn(self, found: ErrorCurves, size: float) -> float:
        """A relative error in the units of the picture."""
        unit = float(np.square(next(iter(found.by_name.values())).truth.unit))
        units = {"percent": 100 * size, "ReMSE": size**2, "MSE": size**2 * unit}
        return units[self.state.measure]


def _ends(budgets: Sequence[int]) -> tuple[float, float]:
    return budgets[0] * 0.9, float(budgets[-1])
