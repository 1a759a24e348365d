r"""The map of errors over (alpha, beta), and a cut through it."""

from __future__ import annotations

__all__ = ["ReusePictures"]

import math
from typing import Any

import numpy as np
from bokeh.models import ColorBar, ColumnDataSource, LogColorMapper, LogTicker, Range1d, Span
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from amci_core.evaluation import ReuseErrors
from amci_explorer.compute.store import REUSE_GRID
from amci_explorer.plots.colours import ESTIMATORS, SHAPES
from amci_explorer.views.figures import Theme, add_hover, picture, set_range
from amci_explorer.views.legends import add_legend

FLOOR, CEILING = 1e-18, 1e6
# Cells whose runs do not determine the error.
UNSETTLED = "#8d8d8d"
# The map's darkest colour: ten times off. What is worse need not be told apart.
WORST = 1e2
ALPHAS = np.linspace(0, 1, 101)
# What is marked on the map: its symbol, how large, and what it is.
MARKS = {
    "best": ("star", 17, "smallest error"),
    "paper": ("diamond", 13, "α*, β* of the paper"),
    "optimum": ("square", 11, "u*, the optimum"),
}
MARKED = ("alpha", "beta", "marker", "size")
YOURS = {"marker": "circle", "size": 13, "fill_alpha": 0, "line_color": "#e8000b", "line_width": 3}
CORNER = {
    "y_offset": -12,
    "text_align": "center",
    "text_font_size": "12px",
    "text_color": "white",
    "background_fill_color": "black",
    "background_fill_alpha": 0.5,
    "padding": 3,
    "border_radius": 3,
}
# Of no point at all a legend shows nothing.
CORNERS = {
    "x": [1.0, 0.0, 1.0],
    "y": [0.0, 0.0, 1.0],
    "text": ["AMCI", "SNIS q₂", "SNIS q₁"],
    "nowhere": [math.nan] * 3,
}


class ReusePictures:
    """Creates both pictures, empty.

    Arguments:
        painter: What has them follow the page's theme.
    """

    def __init__(self, painter: Theme) -> None:
        self._painter = painter
        self._at = (math.nan, math.nan)
        self.image = ColumnDataSource({"remse": [], "shown": []}, name="reuse-image")
        self.marks = ColumnDataSource({name: [] for name in MARKED}, name="reuse-marks")
        self.current = ColumnDataSource({"alpha": [], "beta": []}, name="reuse-current")
        columns = ("alpha", "low", "median", "high", "mean")
        self.cut = ColumnDataSource({name: [] for name in columns}, name="reuse-cut")
        self._mapper = LogColorMapper(
            palette=Cividis256[::-1], low=1e-6, high=1, nan_color=UNSETTLED
        )
        self._here = Span(location=1.0, dimension="height", line_width=1.5, line_dash=[4, 4])
        self._corners = ColumnDataSource(CORNERS)
        self.map = self._map()
        self.curve = self._curve()

    def clear(self) -> None:
        """Takes away what holds for another problem."""
        for source in (self.image, self.marks, self.current, self.cut):
            source.data = {name: [] for name in source.data}

    def show(self, found: ReuseErrors, alpha: float, beta: float) -> None:
        """Draws the map, its marks, and its cut at beta."""
        remse = np.clip(found.remse, FLOOR, CEILING)
        shown = np.where(found.determined, remse, np.nan)
        if np.isfinite(shown).any():
            low, high = float(np.nanmin(shown)), min(float(np.nanmax(shown)), WORST)
            self._mapper.update(low=low, high=max(high, 10 * low))
        # Rows of an image go up the y axis: beta.
        self.image.data = {"remse": [remse.T], "shown": [shown.T]}
        marked = [] if found.best is None else [(*found.best, *MARKS["best"][:2])]
        # Draws so rare that no run meets them can rule both.
        borne_out = found.common or found.prediction_holds
        for name, at in (("paper", found.paper), ("optimum", found.optimum)):
            if borne_out and found.mean_along([at[0]], beta=at[1])[1][0]:
                marked.append((*np.clip(at, REUSE_GRID[0], REUSE_GRID[-1]), *MARKS[name][:2]))
        self.marks.data = {name: [mark[i] for mark in marked] for i, name in enumerate(MARKED)}
        self.move(alpha, beta)
        self._show_cut(found, beta)

    def move(self, alpha: float, beta: float, found: ReuseErrors | None = None) -> None:
        """Moves the user's mark; with a map also the cut."""
        cut_moves, self._at = beta != self._at[1], (alpha, beta)
        self.current.data = {"alpha": [alpha], "beta": [beta]}
        self._here.location = alpha
        if found is not None and cut_moves:
            self._show_cut(found, beta)

    def _show_cut(self, found: ReuseErrors, beta: float) -> None:
        low, median, high = np.clip(found.quartiles_along(ALPHAS, beta=beta), FLOOR, CEILING)
        mean, settled = found.mean_along(ALPHAS, beta=beta)
        mean = np.clip(np.where(settled, mean, np.nan), FLOOR, CEILING)
        self.cut.data = {"alpha": ALPHAS, "low": low, "median": median, "high": high, "mean": mean}
        values = np.concatenate([low, high, mean])
        values = values[np.isfinite(values)]
        if values.size:
            ends = np.log10([values.min(), values.max()])
            set_range(self.curve.y_range, 10 ** np.floor(ends[0]), 10 ** np.ceil(ends[1]))
        self.curve.xaxis.axis_label = f"α, at β = {beta:.2f}"

    def _map(self) -> figure:
        half = float(REUSE_GRID[1] - REUSE_GRID[0]) / 2
        low, high = float(REUSE_GRID[0]) - half, float(REUSE_GRID[-1]) + half
        shown = picture(
            "reuse-map",
            alternative="Relative error over alpha and beta.",
            x_label="α: share of E₁ from q₁",
            y_label="β: share of E₂ from q₁",
            height=360,
            x_range=Range1d(low, high),
            y_range=Range1d(low, high),
        )
        place = {"x": low, "y": low, "dw": high - low, "dh": high - low}
        image = shown.image("shown", source=self.image, color_mapper=self._mapper, **place)
        add_hover(shown, [image], [("α, β", "$x{0.00}, $y{0.00}"), ("ReMSE", "@remse{0.00e+0}")])
        shown.center = []
        shown.text("x", "y", "text", source=self._corners, **CORNER)
        looks = {"fill_color": "#ffffff", "line_color": "#000000", "line_width": 1.5}
        shown.scatter("alpha", "beta", source=self.marks, marker="marker", size="size", **looks)
        items: list[tuple[str, list[Any]]] = []
        for marker, _, label in MARKS.values():
            symbol = self._symbol(shown, marker)
            self._painter.follow(symbol.glyph, SHAPES["threshold"], "fill_color")
            items.append((label, [symbol]))
        items.append(("yours", [shown.scatter("alpha", "beta", source=self.current, **YOURS)]))
        unsettled = self._symbol(shown, "square")
        unsettled.glyph.update(size=11, fill_color=UNSETTLED)
        add_legend(shown, [*items, ("not determined by the runs", [unsettled])])
        ticker = LogTicker(desired_num_ticks=6)
        bar = ColorBar(color_mapper=self._mapper, ticker=ticker, width=12, padding=4)
        bar.update(title="error", title_text_font_size="12px")
        shown.add_layout(bar, "right")
        return shown

    def _symbol(self, shown: figure, marker: str) -> Any:
        """A mark as the legend has it, without the outline that the map asks for."""
        return shown.scatter(
            "nowhere", "nowhere", source=self._corners, marker=marker, line_alpha=0
        )

    def _curve(self) -> figure:
        shown = picture(
            "reuse-cut",
            alternative="Relative error along alpha at your beta.",
            x_label="α, at your β",
            y_label="ReMSE: squared error / μ²",
            height=360,
            y_axis_type="log",
            x_range=Range1d(-0.02, 1.02),
            y_range=Range1d(1e-6, 1),
        )
        style = ESTIMATORS["amci"]
        band = shown.varea("alpha", "low", "high", source=self.cut, fill_alpha=0.2)
        line = shown.line("alpha", "median", source=self.cut, line_width=2.5)
        mean = shown.line("alpha", "mean", source=self.cut, line_width=1.5, line_dash=[2, 3])
        self._painter.follow(band.glyph, style, "fill_color")
        self._painter.follow(line.glyph, style, "line_color")
        self._painter.follow(mean.glyph, style, "line_color")
        shown.add_layout(self._painter.follow(self._here, SHAPES["threshold"], "line_color"))
        tips = [("α", "@alpha{0.00}"), ("median", "@median{0.00e+0}"), ("mean", "@mean{0.00e+0}")]
        add_hover(shown, [line], tips, mode="vline")
        items = [("median", [line]), ("25–75 %", [band]), ("mean", [mean])]
        add_legend(shown, items)
        return shown
