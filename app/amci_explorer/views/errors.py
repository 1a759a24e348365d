r"""Error against total draws, as the runs come in."""

from __future__ import annotations

__all__ = ["ErrorCard"]

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, Range1d, Span
from bokeh.plotting import figure

from amci_core.estimators.draws import Array
from amci_core.evaluation import ErrorCurves
from amci_explorer.colours import ESTIMATORS, Style
from amci_explorer.compute.computations import TOTALS
from amci_explorer.compute.requests import Request
from amci_explorer.plots.errors import FAINT, MEASURES, TIPS, columns, extent, names, ticks
from amci_explorer.plots.labels import width_of
from amci_explorer.plots.style import draws_ticks
from amci_explorer.server.session import callback
from amci_explorer.state.state import State
from amci_explorer.text import number
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.figures import (
    LEGEND,
    add_hover,
    at_most,
    describe,
    legend,
    lighten,
    pane,
    picture,
    set_range,
)
from amci_explorer.views.layout import HTML, NOTE
from amci_explorer.views.style import NARROW, PALETTE
from amci_explorer.words import HELP
from amci_explorer.words.curves import about_curves, outside
from amci_explorer.words.headline import EXACT, compare, position, stands

BRACKETS = ("xs", "ys", "x", "y", "text", "align")
COLUMNS = ("draws", "error", "low", "median", "high", "runs")
INK, PAPER = (Style(n, PALETTE["light"][n], PALETTE["dark"][n]) for n in ("ink", "paper"))
HEIGHT = 340
# And at most on a low screen.
LOWER = 180
# Errors whose ratio is nearer to 1 get no bracket.
ALIKE = 1.2
# Names at the ends of lines have a row for each estimator at all times: Bokeh may paint new texts
# before it has their colours.
UNUSED: dict[str, list[Any]] = {
    column: [nothing] * len(ESTIMATORS)
    for column, nothing in (("x", math.nan), ("y", math.nan), ("text", ""), ("colour", "black"))
}
# For a line below the picture, on a narrow page for two, so that nothing moves when it comes.
ROOM = f":host {{ min-height: 1.2rem; }} @media {NARROW} {{ :host {{ min-height: 2.4rem; }} }}"
SMALL = {
    "& .MuiFormControlLabel-root": {"marginRight": "6px"},
    "& .MuiFormControlLabel-label": {"fontSize": "var(--small)"},
    "& .MuiCheckbox-root": {"padding": "3px"},
}
WORDS = {"text_font_size": "12px", "text_font_style": "bold", "text_baseline": "middle"}


class ErrorCard(Card):
    """The error of each estimator against the number of draws."""

    name = "errors"
    title = "Relative error"
    help = HELP["errors"]
    drawn: ClassVar[tuple[str, ...]] = ("measure", "spread", "draws")
    live = True
    compares = True

    def content(self) -> list[Any]:
        # Of each estimator, from the first problem on that has it.
        self.sources: dict[str, ColumnDataSource] = {}
        lines = ("xs", "ys", "colour")
        self._of_reference, self._firm, self._medians, self._bands = (
            self._source(what, *lines) for what in ("a", "firm", "medians", "bands")
        )
        self._ends = ColumnDataSource(dict(UNUSED), name=f"{self.name}-ends")
        self._brackets = self._source("brackets", *BRACKETS)
        self.figure = self._picture()
        self.legend, self.note = HTML("", LEGEND), HTML("", NOTE, ROOM)
        return [self.legend, pane(self.figure), self.note]

    def tools(self) -> list[Any]:
        switches = {"spread of runs": "spread", "Sobol points": "sobol"}
        boxes = pmui.CheckBoxGroup(options=switches, inline=True, size="small", margin=0, sx=SMALL)

        def take(*_: Any) -> None:
            chosen = {name: name in (boxes.value or []) for name in switches.values()}
            if any(getattr(self.state, name) != value for name, value in chosen.items()):
                self.state.set(**chosen)
                self.state.commit()

        def follow(*_: Any) -> None:
            boxes.value = [name for name in switches.values() if getattr(self.state, name)]

        follow()
        boxes.param.watch(callback(take), "value")
        self.state.param.watch(follow, ["problem", *switches.values()])
        return [boxes, bound(self.state, "measure", "Error measure")]

    def asked(self, case: State) -> Request:
        return Request("error_curves", case.settings, (("sobol", case.sobol),))

    def fraction(self, found: ErrorCurves) -> float:
        return found.progress

    def answers(self, asked: Request, wanted: Request) -> bool:
        # Curves over all numbers of draws answer another of these as well.
        settings = replace(asked.settings, draws=wanted.settings.draws)
        return super().answers(replace(asked, settings=settings), wanted)

    def clear(self) -> None:
        lines = (self._of_reference, self._firm, self._medians, self._bands)
        for source in (*self.sources.values(), *lines, self._brackets):
            source.data = {column: [] for column in source.data}
        self._ends.data = UNUSED
        # Room for every name from the start, so that nothing moves when the curves come.
        shown = self.store.measured
        self._add_curves(shown)
        styles = [ESTIMATORS[name] for name in shown]
        self.figure.min_border_right = width_of([each.short or each.label for each in styles])
        self.legend.object = legend(shown)
        self.note.object = ""

    def redraw(self) -> None:
        axis, measure = self.figure.yaxis[0], self.state.measure
        # The card's title says what is in per cent.
        axis.axis_label = None if measure == "percent" else MEASURES[measure]
        axis.formatter = self._formatters[measure == "percent"]
        self._line.location = self._total
        super().redraw()

    def draw(self, found: ErrorCurves, *, complete: bool) -> None:
        measure, spread = self.state.measure, self.state.spread
        own = columns(found, measure)
        reference = {} if self.reference is None else columns(self.reference.value, measure)
        self._add_curves(own)
        for name, source in self.sources.items():
            # As lists: an array is two more messages.
            columns_of = own.get(name, {})
            source.data = {c: columns_of[c].tolist() if columns_of else [] for c in COLUMNS}
        judged = {name: each for name, each in own.items() if name != "bound"}
        runs = judged if spread else {}
        self._of_reference.data = self._lines(reference, "error")
        self._firm.data = self._lines(judged, "firm")
        self._medians.data = self._lines(runs, "median")
        self._bands.data = self._lines(runs, "low", "high")
        ends = [extent(each, measure, spread=spread) for each in (own, reference) if each]
        ylim = min(low for low, _ in ends), max(high for _, high in ends)
        set_range(self.figure.y_range, *ylim)
        labels = names(own, ylim, height=HEIGHT, dark=self.dark).columns()
        self._ends.data = {n: [*labels[n], *UNUSED[n]][: len(ESTIMATORS)] for n in UNUSED}
        self._brackets.data = self._factors(found, complete)
        self.note.object = f"<p>{outside(found)}</p>"
        describe(self.figure, about_curves(found))

    @property
    def _total(self) -> int:
        """Total draws of one estimate."""
        return int(self.state.draws) * len(self.store.terms)

    def _choose(self, event: Any) -> None:
        """Goes to the number of draws that was clicked."""
        total = min(TOTALS, key=lambda total: abs(math.log(total / event.x)))
        self.state.set(draws=max(round(total / len(self.store.terms)), 2))
        self.state.commit()

    def _picture(self) -> figure:
        shown = picture(
            self.name,
            alternative="Error of every estimator against total draws.",
            x_label="draws, all proposals together",
            y_label=MEASURES["percent"],
            height=HEIGHT,
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(0.9 * TOTALS[0], TOTALS[-1]),
            y_range=Range1d(1e-3, 1e3),
        )
        shown.update(stylesheets=[*shown.stylesheets, at_most(LOWER)], min_border_left=73)
        self._formatters = {True: ticks(" %"), False: ticks()}
        shown.xaxis.formatter = draws_ticks()
        shown.on_event("tap", callback(self._choose))
        self._line = Span(dimension="height", line_width=1, line_dash=[2, 3])
        shown.add_layout(self.theme.follow(self._line, INK, "line_color"))
        looks = {"fill_color": "colour", "fill_alpha": 0.14, "line_alpha": 0}
        shown.patches("xs", "ys", source=self._bands, **looks)
        for source, width in ((self._of_reference, 2), (self._medians, 1.5)):
            looks = {"line_color": "colour", "line_dash": "dotted", "line_width": width}
            shown.multi_line("xs", "ys", source=source, **looks)
        looks = {"line_color": "colour", "line_width": 2.5, "level": "annotation"}
        shown.multi_line("xs", "ys", source=self._firm, **looks)
        self._hover = add_hover(shown, [], [("", "$name"), *TIPS])
        shown.text(source=self._ends, text_color="colour", x_offset=8, level="overlay", **WORDS)
        brackets = shown.multi_line("xs", "ys", source=self._brackets, line_width=1.4)
        factors = shown.text(source=self._brackets, text_align="align", **WORDS)
        factors.glyph.background_fill_alpha = 0.85
        self.theme.follow(brackets.glyph, INK, "line_color")
        self.theme.follow(factors.glyph, INK, "text_color")
        self.theme.follow(factors.glyph, PAPER, "background_fill_color")
        return shown

    def _source(self, what: str, *names: str) -> ColumnDataSource:
        return ColumnDataSource({name: [] for name in names}, name=f"{self.name}-{what}")

    def _add_curves(self, names: Iterable[str]) -> None:
        """Lines, faint but for the bound: what the runs determine is drawn above them."""
        new = [name for name in names if name not in self.sources]
        for name in new:
            self.sources[name] = self._source(name, *COLUMNS)
            style = ESTIMATORS[name]
            dash, alpha = (list(style.dash), 1) if name == "bound" else ("solid", FAINT)
            looks = {"line_width": 2.5, "line_dash": dash, "line_alpha": alpha}
            line = self.figure.line(
                "draws", "error", source=self.sources[name], name=style.label, **looks
            )
            self.theme.follow(line.glyph, style, "line_color")
            line.glyph.line_color = style.colour(self.dark)
            self._hover.renderers = [*self._hover.renderers, line]
        if new:
            lighten(self.figure)

    def _lines(self, found: Mapping[str, Any], *edges: str) -> dict[str, list[Any]]:
        """Lines of estimators in their colours; or bands, whose second edge leads back."""

        def along(each: Mapping[str, Array], names: Iterable[str]) -> list[float]:
            parts = [each[name][:: 1 - 2 * i] for i, name in enumerate(names)]
            return np.concatenate(parts).tolist()

        return {
            "xs": [along(each, ("draws",) * len(edges)) for each in found.values()],
            "ys": [along(each, edges) for each in found.values()],
            "colour": [ESTIMATORS[name].colour(self.dark) for name in found],
        }

    def _factors(self, found: ErrorCurves, complete: bool) -> dict[str, list[Any]]:
        """The bracket between AMCI and its best rival, with the headline's ratio."""
        at, measure = position(found, self._total), self.state.measure
        x, errors = float(found.draws[at]), compare(found, at)
        told = complete or stands(found, at)
        is_known = told and errors.amci > EXACT and not math.isnan(found.truth_error)
        ratio = errors.best / errors.amci if is_known else math.nan
        if math.isnan(ratio) or 1 / ALIKE < ratio < ALIKE:
            return {name: [] for name in BRACKETS}
        # To the right, as long as there is room.
        side, align = (1, "left") if 12 * x < found.draws[-1] else (-1, "right")
        inner, outer, unit = x * 1.06**side, x * 1.25**side, float(found["amci"].truth.unit)
        low, high = (
            {"percent": 100 * size, "ReMSE": size**2, "MSE": (size * unit) ** 2}[measure]
            for size in (errors.amci, errors.best)
        )
        factor = ratio if measure == "percent" else ratio**2
        is_rough = not errors.rough.isdisjoint(("amci", errors.rival))
        text = f"about {number(factor, 1)} ×" if is_rough else f"{number(factor, 2)} ×"
        return {
            "xs": [[inner, outer, outer, inner]],
            "ys": [[high, high, low, low]],
            "x": [outer * 1.08**side],
            "y": [math.sqrt(low * high)],
            "text": [text],
            "align": [align],
        }
