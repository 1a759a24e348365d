r"""The gauge and the two pictures of one term of the estimate."""

from __future__ import annotations

__all__ = ["METER", "STYLES", "VERDICTS", "TermView"]

import math
from html import escape

import numpy as np
from bokeh.models import ColumnDataSource, CustomJSTickFormatter, LogTickFormatter, Range1d
from bokeh.plotting import figure

from amci_core.diagnostics import LEVELS
from amci_core.estimators.draws import Array
from amci_explorer.numbers.diagnosis import TermWeights
from amci_explorer.plots.colours import SHAPES, Style
from amci_explorer.views.figures import Theme, add_hover, describe, pane, picture, set_range
from amci_explorer.views.layout import HTML, column
from amci_explorer.views.legends import add_legend
from amci_explorer.words.diagnosis import (
    about_histogram,
    about_k,
    about_scatter,
    about_weights,
    pretty,
)

STYLES = {
    "E1_plus": SHAPES["q1"],
    "E1_minus": SHAPES["q1_minus"],
    "E2": SHAPES["q2"],
}
# For each level: what to call it, and its colour on a light and on a dark page.
VERDICTS = dict(
    zip(
        LEVELS,
        (
            Style("Reliable", "#00724f", "#2fcf9f"),
            Style("Use more draws", "#8a6d00", "#e6c84f"),
            Style("Do not trust", "#b34700", "#ff8a3d"),
        ),
        strict=True,
    )
)
# Ends of a gauge, and where ArviZ calls a k-hat very bad.
GAUGE, VERY_BAD = (-0.5, 1.25), 1.0
LEAST_HEIGHT = 0.5
METER = """
h3 { font-size: var(--text); font-weight: 600; margin: 0 0 2px 0; }
.name { display: flex; justify-content: space-between; gap: 8px; font-size: var(--small); }
.name b { font-variant-numeric: tabular-nums; }
.track { position: relative; height: 10px; border-radius: 5px; margin: 8px 0 4px 0; }
.mark { position: absolute; top: -5px; width: 4px; height: 20px; margin-left: -2px;
        border-radius: 2px; background: currentColor; }
.spread { position: absolute; top: 4px; height: 2px; background: currentColor; }
.limit { position: absolute; top: -2px; height: 14px; border-left: 2px dashed currentColor; }
.words { font-size: var(--small); line-height: 1.4; min-height: 2.8em; opacity: 0.9; }
"""
SHORT = 'return Number(tick.toPrecision(4)).toString().replaceAll("-", "−")'


class TermView:
    """Creates the gauge and the two pictures of one term, empty.

    Arguments:
        name: The term, such as E1_plus.
        painter: What has them follow the page's theme.
    """

    def __init__(self, name: str, painter: Theme) -> None:
        self._style = STYLES[name]
        self._name = name
        self.bars = ColumnDataSource(
            {c: [] for c in ("left", "right", "height")}, name=f"diagnostics-bars-{name}"
        )
        self.tail = ColumnDataSource({"x": [], "height": []}, name=f"diagnostics-tail-{name}")
        self.points = ColumnDataSource({"x": [], "weight": []}, name=f"diagnostics-points-{name}")
        self._meter = HTML("", METER)
        self.histogram = self._histogram(painter)
        self.scatter = self._scatter(painter)
        self.panel = column(self._meter, pane(self.histogram), pane(self.scatter), gap=4)

    def open(self, label: str, coordinate: str) -> None:
        """Makes ready for a problem."""
        self.label = label
        self.scatter.xaxis.axis_label = coordinate
        for source in (self.bars, self.tail, self.points):
            source.data = {name: [] for name in source.data}
        self._meter.object = ""

    def show(self, term: TermWeights) -> None:
        """Draws the histogram with its fitted tail."""
        heights, edges = term.heights, term.edges
        width = edges[-1] - edges[0]
        set_range(self.histogram.x_range, edges[0] - 0.03 * width, edges[-1] + 0.15 * width)
        set_range(self.histogram.y_range, LEAST_HEIGHT, 2 * max(float(heights.max()), 1.0))
        self.bars.data = {"left": edges[:-1], "right": edges[1:], "height": heights}
        self.tail.data = {"x": term.tail, "height": np.maximum(term.tail_heights, 1e-3)}

    def look(self, term: TermWeights, i: int, coordinate: str) -> None:
        """Shows the weights against a coordinate of x."""
        x, weight = term.x[:, i], term.log_weights
        inside = weight >= term.edges[0] - 1e-12
        x, weight = x[inside], weight[inside]
        self.scatter.xaxis.axis_label = coordinate
        low, high = _ends(x)
        set_range(self.scatter.x_range, low, high)
        width = term.edges[-1] - term.edges[0]
        low, high = term.edges[0] - 0.05 * width, term.edges[-1] + 0.05 * width
        set_range(self.scatter.y_range, low, high)
        self.points.data = {"x": x, "weight": weight}

    def show_words(self, term: TermWeights, draws: int, dark: bool) -> None:
        """Shows the gauge, and what it says."""
        proposal = pretty(term.proposal, signed="⁺" in self.label or "⁻" in self.label)
        self._meter.object = _meter(term, draws, self.label, proposal, dark)

    def describe(self, term: TermWeights, draws: int) -> None:
        """Renews the text alternatives."""
        describe(self.histogram, about_histogram(term, self.label))
        coordinate = self.scatter.xaxis.axis_label
        describe(self.scatter, about_scatter(term, self.label, draws, coordinate))

    def _histogram(self, painter: Theme) -> figure:
        shown = picture(
            f"diagnostics-weights-{self._name}",
            alternative="Histogram of log weights.",
            x_label="log₁₀ weight / mean weight",
            y_label="draws",
            height=230,
            y_axis_type="log",
            x_range=Range1d(-1, 1),
            y_range=Range1d(LEAST_HEIGHT, 1000),
        )
        _narrow(shown)
        bars = shown.quad(
            left="left",
            right="right",
            bottom=LEAST_HEIGHT / 100,
            top="height",
            source=self.bars,
            fill_alpha=0.55,
            line_alpha=0,
        )
        tail = shown.line("x", "height", source=self.tail, line_width=2.5)
        painter.follow(bars.glyph, self._style, "fill_color")
        painter.follow(tail.glyph, SHAPES["threshold"], "line_color")
        add_hover(
            shown, [bars], [("weights", "10^@left{0.00} to 10^@right{0.00}"), ("draws", "@height")]
        )
        add_legend(shown, [("weights", [bars]), ("fitted Pareto tail", [tail])])
        return shown

    def _scatter(self, painter: Theme) -> figure:
        shown = picture(
            f"diagnostics-scatter-{self._name}",
            alternative="Weights against x.",
            x_label="x",
            y_label="log₁₀ weight / mean",
            height=230,
            x_range=Range1d(-1, 1),
            y_range=Range1d(-1, 1),
        )
        _narrow(shown)
        dots = shown.scatter(
            "x", "weight", source=self.points, size=4, fill_alpha=0.45, line_alpha=0
        )
        painter.follow(dots.glyph, self._style, "fill_color")
        add_hover(shown, [dots], [("x", "@x{0.000}"), ("weight / mean", "10^@weight{0.000}")])
        return shown


def _meter(term: TermWeights, draws: int, label: str, proposal: str, dark: bool) -> str:
    good, some, bad = (VERDICTS[level].colour(dark) for level in LEVELS)
    limit, end = _place(term.threshold), _place(VERY_BAD)
    track = (
        f"background: linear-gradient(to right, {good} {limit}%, {some} {limit}% {end}%, "
        f"{bad} {end}%)"
    )
    marks = f'<div class="limit" style="left: {limit}%"></div>'
    if not math.isnan(term.k):
        low, high = (_place(term.k + side * term.error) for side in (-1, 1))
        if math.isfinite(term.k):
            marks += f'<div class="spread" style="left: {low}%; width: {high - low:.2f}%"></div>'
        marks += f'<div class="mark" style="left: {_place(term.k)}%"></div>'
    k = about_k(term)
    return (
        f"<h3>{label} from {proposal}</h3>"
        f'<div class="name"><span>Pareto k-hat</span><b>{k}</b></div>'
        f'<div class="track" role="img" style="{track}" aria-label="k-hat of {label} on '
        f'{proposal}: {k}, limit {term.threshold:.2f}">{marks}</div>'
        f'<div class="words">{escape(about_weights(term, draws, proposal))}</div>'
    )


def _place(k: float) -> float:
    """Where a k-hat stands on its gauge, in per cent of the width."""
    low, high = GAUGE
    return round(100 * min(max((k - low) / (high - low), 0.0), 1.0), 2)


def _narrow(shown: figure) -> None:
    """Fits a picture into a column: short labels of axes, and few."""
    shown.min_border_left = 56
    for axis in [*shown.xaxis, *shown.yaxis]:
        if not isinstance(axis.formatter, LogTickFormatter):
            axis.formatter = CustomJSTickFormatter(code=SHORT)
    shown.xaxis.ticker.desired_num_ticks = 4


def _ends(x: Array) -> tuple[float, float]:
    if len(x) == 0:
        return -1.0, 1.0
    low, high = float(x.min()), float(x.max())
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin
