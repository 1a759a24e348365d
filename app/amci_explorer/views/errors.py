r"""Error against total draws, as the runs come in."""

from __future__ import annotations

__all__ = ["ErrorCard"]

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, LegendItem, Range1d
from bokeh.plotting import figure

from amci_core.estimators.draws import Array
from amci_core.evaluation import ErrorCurves
from amci_explorer.compute.requests import Request
from amci_explorer.compute.store import BUDGETS
from amci_explorer.plots.colours import ESTIMATORS, SHAPES
from amci_explorer.state.state import State
from amci_explorer.views import export
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.figures import add_hover, describe, pane, picture, set_range
from amci_explorer.views.layout import HTML
from amci_explorer.views.legends import add_legend, apart, label_ends, room_for_labels
from amci_explorer.words import HELP
from amci_explorer.words.curves import CEILING, FLOOR, about_curves, outside

# The smallest mu squared in whose units errors can be drawn.
SMALLEST = 1e-280
COLUMNS = ("draws", "low", "median", "high", "mean", "settled", "open")
NOTE = "p { margin: 4px 0 0 0; font-size: var(--small); min-height: 2.6em; color: var(--muted); }"


class ErrorCard(Card):
    """The error of each estimator against the number of draws."""

    name = "errors"
    title = "Error against draws"
    help = HELP["errors"]
    drawn = ("relative",)
    # Of the picture, in pixels.
    height: ClassVar[int] = 340

    def content(self) -> list[Any]:
        self._items: dict[str, LegendItem] = {}
        self.sources = {
            name: ColumnDataSource({c: [] for c in COLUMNS}, name=f"{self.name}-{name}")
            for name in ESTIMATORS
        }
        self._guide = ColumnDataSource({"draws": [], "error": []}, name=f"{self.name}-guide")
        ends: dict[str, Any] = {column: [] for column in ("x", "y", "text", "colour")}
        self._ends = ColumnDataSource(ends, name=f"{self.name}-ends")
        self.figure = self._picture()
        self.note = HTML("<p></p>", NOTE)
        return [pane(self.figure), self.note]

    def tools(self) -> list[Any]:
        return [bound(self.state, "relative", "Error measure")]

    def asked(self, case: State) -> Request:
        return Request("error_curves", case.settings)

    def clear(self) -> None:
        self.limit(self.store.measured)

    def limit(self, names: tuple[str, ...]) -> None:
        """Empties the picture, and makes it ready for these estimators."""
        for name, item in self._items.items():
            item.visible = name in names
            for part in item.renderers:
                part.visible = name in names
            self.sources[name].data = {column: [] for column in COLUMNS}
        self._guide.data = {"draws": [], "error": []}
        self._ends.data = {column: [] for column in self._ends.data}
        self.note.object = "<p></p>"

    def draw(self, found: ErrorCurves, *, complete: bool) -> None:
        relative, draws, scale = self.state.relative, found.budgets, self._scale(found)
        for name, curve in found.by_name.items():
            quartiles = curve.remse_quartiles if relative else curve.quartiles * scale
            low, median, high = _clipped(quartiles, scale)
            mean = _clipped(curve.remse if relative else curve.mean * scale, scale)
            data = {"draws": draws, "low": low, "median": median, "high": high, "mean": mean}
            # Judged once all runs are there: the tails of their errors take a while to fit.
            settled = curve.determined if complete else np.zeros(len(draws))
            data |= {"settled": settled.astype(float)}
            data |= {"open": 1 - data["settled"]}
            self.sources[name].data = data
        low_end, high_end = self._extent(found)
        if np.isfinite(scale):
            set_range(self.figure.y_range, low_end * scale, high_end * scale)
        self._show_guide(found, scale)
        self._label(found, scale)
        self.note.object = f"<p>{outside(found, complete=complete, scale=scale)}</p>"

    def redraw(self) -> None:
        label = _label(self.state.relative)
        if self.figure.yaxis.axis_label != label:
            self.figure.yaxis.axis_label = label
            if self.shown is not None:
                self.draw(self.shown.value, complete=self.shown.complete)

    def fit(self, found: ErrorCurves) -> None:
        """Lets the axis of draws begin and end with these curves."""
        room_for_labels(self.figure, *_ends(found.budgets.tolist()))

    def describe(self, found: ErrorCurves) -> None:
        describe(self.figure, about_curves(found))

    def frame(self, found: ErrorCurves) -> pd.DataFrame:
        return export.curves(found)

    def _picture(self) -> figure:
        shown = picture(
            self.name,
            alternative="Squared error of every estimator against total draws.",
            x_label="total draws",
            y_label=_label(True),
            height=self.height,
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(*_ends(BUDGETS)),
            y_range=Range1d(1e-6, 10),
        )
        guide = shown.line("draws", "error", source=self._guide, line_width=1.5)
        guide.glyph.line_dash = list(SHAPES["guide"].dash)
        self.painter.follow(guide.glyph, SHAPES["guide"], "line_color")
        for name, style in ESTIMATORS.items():
            source = self.sources[name]
            line = shown.line(
                "draws",
                "median",
                source=source,
                line_width=1.8 if name == "bound" else 2.5,
                line_dash=list(style.dash) or "solid",
                name=name,
            )
            self.painter.follow(line.glyph, style, "line_color")
            parts = [line]
            if name != "bound":
                band = shown.varea("draws", "low", "high", source=source, fill_alpha=0.16)
                dots = shown.scatter("draws", "mean", source=source, size=4, name=style.label)
                dots.glyph.update(fill_alpha="settled", line_alpha="open")
                self.painter.follow(band.glyph, style, "fill_color")
                self.painter.follow(dots.glyph, style, "fill_color")
                self.painter.follow(dots.glyph, style, "line_color")
                parts += [band, dots]
            self._items[name] = LegendItem(label=style.short or style.label, renderers=parts)
        tips = [
            ("estimator", "$name, @draws{0,0} total draws"),
            ("median", "@median{0.00e+0}"),
            ("middle 50 %", "@low{0.00e+0} to @high{0.00e+0}"),
            ("mean", "@mean{0.00e+0}"),
        ]
        dots = [item.renderers[-1] for name, item in self._items.items() if name != "bound"]
        add_hover(shown, dots, tips)
        last = LegendItem(label=SHAPES["guide"].label, renderers=[guide])
        add_legend(shown, [*self._items.values(), last], click_policy="hide")
        label_ends(shown, self._ends)
        room_for_labels(shown, *_ends(BUDGETS))
        return shown

    def recolour(self, dark: bool) -> None:
        super().recolour(dark)
        if self.shown is not None:
            self._label(self.shown.value, self._scale(self.shown.value))

    def _scale(self, found: ErrorCurves) -> float:
        """mu squared where errors are absolute; NaN where that is too small for an axis."""
        return 1.0 if self.state.relative else _unit(found)

    def _label(self, found: ErrorCurves, scale: float) -> None:
        """Names the curves where they end, as far as they end within the picture."""
        named = {}
        for name, curve in found.by_name.items():
            median = np.asarray(curve.quartiles[1], dtype=float)
            known = np.flatnonzero(np.isfinite(median))
            end = float(median[known[-1]]) * scale if len(known) else np.nan
            if self.figure.y_range.start <= end <= self.figure.y_range.end:
                named[name] = end
        axis = self.figure.y_range
        slope = float(self._guide.data["error"][-1])
        if axis.start <= slope <= axis.end:
            named["guide"] = slope
        styles = [{**ESTIMATORS, **SHAPES}[name] for name in named]
        self._ends.data = {
            "x": [float(found.budgets[-1])] * len(named),
            "y": apart(list(named.values()), axis.start, axis.end, height=self.height),
            "text": [style.short or style.label for style in styles],
            "colour": [style.colour(self.dark) for style in styles],
        }

    def _show_guide(self, found: ErrorCurves, scale: float) -> None:
        # Between AMCI and the bound, if it is known, at the first budget that is enough for both.
        first = min(int(np.isnan(found["amci"].mean).sum()), len(found.budgets) - 1)
        shown = [found[name] for name in ("amci", "bound") if name in found.by_name]
        ends = [max(float(curve.mean[first]), FLOOR) for curve in shown]
        start = float(np.prod(ends)) ** (1 / len(ends))
        draws = found.budgets[[first, -1]].astype(float)
        self._guide.data = {"draws": draws, "error": start * scale * draws[0] / draws}

    @staticmethod
    def _extent(found: ErrorCurves) -> tuple[float, float]:
        """Whole decades around all curves, in units of mu squared."""
        every = found.by_name.values()
        values = np.ravel([[c.quartiles[0], c.quartiles[2], c.mean] for c in every])
        values = np.clip(values[np.isfinite(values)], FLOOR, CEILING)
        if not values.size:
            return FLOOR, CEILING
        low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
        return 10.0**low / 1.5, 10.0**high * 1.5


def _clipped(errors: Array, scale: float) -> Array:
    return np.clip(errors, FLOOR * scale, None)


def _unit(found: ErrorCurves) -> float:
    """mu squared, or 1 where mu is zero; NaN where that is too small for an axis."""
    unit = float(np.square(next(iter(found.by_name.values())).truth.unit))
    return unit if unit > SMALLEST else np.nan


def _ends(budgets: Sequence[int]) -> tuple[float, float]:
    return budgets[0] * 0.85, budgets[-1] * 1.15


def _label(relative: bool) -> str:
    return "ReMSE: squared error / μ²" if relative else "MSE: squared error"
