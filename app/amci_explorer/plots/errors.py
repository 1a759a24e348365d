r"""Error against draws, one line an estimator: the paper's error plots, with values."""

from __future__ import annotations

__all__ = ["ErrorPicture", "apart", "columns", "error_curves"]

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import panel as pn
from bokeh.models import (
    ColumnDataSource,
    CustomJSTickFormatter,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Span,
)
from scipy.optimize import isotonic_regression

from amci_core.estimators.draws import Array
from amci_core.evaluation import ErrorCurves
from amci_explorer.colours import ESTIMATORS
from amci_explorer.plots.style import Theme, bare_figure, decades, empty_source, set_range
from amci_explorer.words.curves import (
    CEILING,
    FLOOR,
    first,
    is_constant,
    plain_name,
    position,
    value,
)

Measure = Literal["percent", "ReMSE", "MSE"]
# Of a label: texts, with the sizes and styles of their letters.
Rows = list[tuple[str, str, str]]
# Name of the y axis for each: in per cent the title says it.
MEASURES = {
    "percent": "",
    "ReMSE": "ReMSE: mean squared error / μ²",
    "MSE": "MSE: mean squared error",
}
COLUMNS = ("draws", "error", "firm", "low", "median", "high", "runs")
# Names of the x axis by the number of proposals, and widths of lines.
SHARED = {1: "draws", 2: "draws, both proposals together"}
WIDTHS = {"amci-cv": 4, "amci": 3}
# An unused row. Rows are as many as there can be, four to an estimator: Bokeh 3.9 may paint a new
# one before it has its colour and font.
UNUSED = {
    "x": np.nan,
    "y": np.nan,
    "text": "",
    "colour": "black",
    "size": "13px",
    "style": "normal",
}
ROWS_KEPT = 4 * len(ESTIMATORS)
# How strong a line is where the runs do not determine the error.
FAINT = 0.35
# Of the picture beside its frame, in pixels: below it, and at its right, for values and names.
BELOW, MARGIN, WIDE_MARGIN = 52, 124, 150
# Heights of rows of text by their size, in pixels; longer values are written smaller.
ROWS, LONG, GAP = {"16px": 20.0, "13px": 15.0}, 12, 4.0
# A power of ten where a number would be all zeros.
TICKS = """
    const digits = Math.round(Math.log10(tick)), raised = "⁰¹²³⁴⁵⁶⁷⁸⁹"
    if (digits >= -4 && digits < 6) {
        return tick.toLocaleString("en", {maximumSignificantDigits: 2}) + unit
    }
    const power = [...String(Math.abs(digits))].map(digit => raised[digit]).join("")
    return `10${digits < 0 ? "⁻" : ""}${power}${unit}`
"""
TIPS = [
    ("", "$name"),
    ("error", "@draws{0,0} draws, @error{0.00e+0}"),
    ("median", "@median{0.00e+0}"),
    ("middle 50 %", "@low{0.00e+0} to @high{0.00e+0}"),
    ("runs", "@runs{0,0}"),
]


class ErrorPicture:
    """Creates the picture, empty: a figure that lasts, into whose sources `show` puts curves.

    Arguments:
        height: Height in pixels.
        theme: Whether the page is dark: what is drawn follows it, dots and labels with the next
            `show`.

    Attributes:
        figure: The Bokeh figure.
        inner_height: Height of its frame, in pixels; a page that scales it says so.
    """

    def __init__(self, *, height: int = 400, theme: Theme | None = None) -> None:
        self._theme = theme or Theme()
        self.inner_height = float(height - BELOW)
        self.figure = shown = bare_figure(
            height=height,
            x_axis_type="log",
            y_axis_type="log",
            x_axis_label="draws",
            x_range=(1.8, 10_000),
            y_range=(1e-3, 1e3),
            tools="pan,box_zoom,wheel_zoom,reset,save",
            toolbar_location="above",
            toolbar_inner=True,
            min_border_left=66,
            min_border_right=MARGIN,
        )
        self._ticks = CustomJSTickFormatter(code=TICKS, args={"unit": " %"})
        shown.yaxis.formatter = self._ticks
        shown.yaxis.ticker.desired_num_ticks = 6
        shown.xaxis.formatter = NumeralTickFormatter(format="0,0")
        shown.xaxis.ticker = FixedTicker(ticks=[10, 100, 1000, 10_000])
        shown.center = list(shown.ygrid)
        for axis in (*shown.xaxis, *shown.yaxis):
            axis.update(axis_label_text_font_size="13px", major_label_text_font_size="13px")
        self._mark = Span(dimension="height", line_width=1.5, line_dash=[2, 3])
        shown.add_layout(self._mark)

        self._sources = {each: empty_source(f"errors-{each}", COLUMNS) for each in ESTIMATORS}
        self._other = empty_source("errors-a", ("xs", "ys", "colour"))
        self._dots = empty_source("errors-dots", ("x", "y", "colour"))
        self._labels = empty_source("errors-labels", UNUSED)
        shown.multi_line(
            "xs", "ys", source=self._other, line_color="colour", line_dash="dotted", line_width=2
        )
        # Of each estimator: the spread of its runs; its line; and what the runs determine of it.
        sources = self._sources.items()
        self._bands = {
            each: shown.varea("draws", "low", "high", source=of, fill_alpha=0.14)
            for each, of in sources
        }
        self._lines = {each: self._line(each, of) for each, of in sources}
        self._firm = {
            each: shown.line("draws", "firm", source=of, line_width=WIDTHS.get(each, 2))
            for each, of in sources
        }
        looks: dict[str, Any] = {"fill_color": "colour", "line_color": "colour"}
        shown.scatter(source=self._dots, size=9, level="overlay", **looks)
        looks = {"text_color": "colour", "text_font_size": "size", "text_font_style": "style"}
        looks |= {"x_offset": 8, "text_baseline": "top", "level": "overlay"}
        shown.text(source=self._labels, **looks)
        lines = list(self._lines.values())
        shown.add_tools(HoverTool(renderers=lines, tooltips=TIPS, visible=False))
        follow = self._theme.follow
        follow(self._mark, ESTIMATORS["bound"], "line_color")
        for each, style in ESTIMATORS.items():
            follow(self._bands[each].glyph, style, "fill_color")
            follow(self._lines[each].glyph, style, "line_color")
            follow(self._firm[each].glyph, style, "line_color")
        self.clear()

    def _line(self, name: str, source: ColumnDataSource) -> Any:
        looks: dict[str, Any] = {"line_alpha": FAINT, "line_width": WIDTHS.get(name, 2)}
        if name == "bound":
            looks |= {"line_alpha": 1, "line_dash": "dashed"}
        title = ESTIMATORS[name].label
        return self.figure.line("draws", "error", source=source, name=title, **looks)

    def clear(self) -> None:
        """Shows no curves."""
        for source in (*self._sources.values(), self._other):
            source.data = {column: [] for column in source.data}
        for source in (self._dots, self._labels):
            _fill(source)

    def show(
        self,
        curves: ErrorCurves,
        total: int,
        *,
        measure: Measure = "percent",
        every: bool = False,
        spread: bool = False,
        reference: ErrorCurves | None = None,
        proposals: int = 2,
        complete: bool = True,
    ) -> tuple[str, ...]:
        """Draws curves, and names each with its value at one number of draws.

        Arguments:
            curves: Curves of a single case.
            total: The number of draws whose values stand at the lines.
            measure: What is drawn: the root of the mean squared relative error in per cent, ReMSE
                or MSE.
            every: Whether to draw all estimators, not the first four alone.
            spread: Whether to add the bands of the runs' quartiles.
            reference: Curves of the case to compare with, dotted.
            proposals: How many proposals share the draws.
            complete: Whether the curves get no further runs.

        Returns:
            The estimators that are shown.
        """
        found, at = columns(curves, measure), position(curves, total)
        shown = tuple(found) if every else first(curves)
        for name, source in self._sources.items():
            # As lists: an array is two more messages.
            of_name = found.get(name)
            source.data = {c: of_name[c].tolist() if of_name else [] for c in COLUMNS}
            self._lines[name].visible = self._firm[name].visible = name in shown
            self._bands[name].visible = spread and name in shown and name != "bound"
        other = {} if reference is None else columns(reference, measure)
        other = {name: other[name] for name in shown if name in other}
        self._other.data = {
            "xs": [each["draws"].tolist() for each in other.values()],
            "ys": [each["error"].tolist() for each in other.values()],
            "colour": [ESTIMATORS[name].colour(self._theme.dark) for name in other],
        }
        lines = [found[name] for name in shown]
        low, high = _extent([*lines, *other.values()], measure, spread=spread)
        set_range(self.figure.y_range, low, high)
        self.figure.yaxis.axis_label = MEASURES[measure]
        self._ticks.args = {"unit": " %" if measure == "percent" else ""}
        self.figure.xaxis.axis_label = SHARED.get(proposals, "draws, all proposals together")
        self._mark.location = float(curves.draws[at])
        known = {n: found[n]["error"][np.isfinite(found[n]["error"])] for n in shown}
        ends = {n: float(own[-1]) for n, own in known.items() if own.size and own[-1] <= high}
        _fill(
            self._dots,
            x=[float(curves.draws[at])] * len(ends),
            y=[float(found[name]["error"][at]) for name in ends],
            colour=[ESTIMATORS[name].colour(self._theme.dark) for name in ends],
        )
        values = {name: value(curves, name, at, measure, complete=complete) for name in ends}
        labels = [_rows(text, plain_name(name, proposals)) for name, text in values.items()]
        crowded = sum(map(_height, labels)) > self.inner_height
        self.figure.min_border_right = WIDE_MARGIN if crowded else MARGIN
        if crowded:
            # Not enough room for names in words.
            labels = [
                [(f"{_short(text)} {style.short or style.label}", "13px", "bold")]
                for style, text in ((ESTIMATORS[name], text) for name, text in values.items())
            ]
        self._label(ends, labels, float(curves.draws[-1]), low, high)
        return shown

    def _label(
        self, ends: dict[str, float], labels: list[Rows], x: float, low: float, high: float
    ) -> None:
        """Puts labels where the lines end, one row of text below the other."""
        heights = [_height(each) for each in labels]
        places = list(ends.values())
        middles = apart(places, low, high, height=self.inner_height, heights=heights)
        rows = []
        for name, label, y, height in zip(ends, labels, middles, heights, strict=True):
            above = (height - GAP) / 2
            for text, size, style in label:
                top = float(y * (high / low) ** (above / self.inner_height))
                rows.append((x, top, text, ESTIMATORS[name].colour(self._theme.dark), size, style))
                above -= ROWS[size]
        _fill(
            self._labels, **{column: [row[i] for row in rows] for i, column in enumerate(UNUSED)}
        )


def error_curves(
    curves: ErrorCurves,
    *,
    draws: int | None = None,
    measure: Measure = "percent",
    every: bool = False,
    spread: bool = False,
    height: int = 400,
) -> pn.pane.Bokeh:
    """Error of each estimator against total draws at one case, on logarithmic axes.

    A line is faint where the runs do not determine the error; the bound is dashed. Values at one
    number of draws stand where the lines end.

    Arguments:
        curves: Curves of a single case (y, theta).
        draws: The number of draws whose values stand at the lines; by default the largest.
        measure: What is drawn: the root of the mean squared relative error in per cent, ReMSE or
            MSE.
        every: Whether to draw all estimators; if not, posterior draws, the bound, the stratified
            mixture and AMCI.
        spread: Whether to add the bands of the runs' quartiles.
        height: Height of the picture in pixels.

    Returns:
        A Panel pane with a Bokeh figure.

    Raises:
        ValueError: the curves are of several cases.

    Example:
        >>> import amci_core as amci
        >>> curves = amci.error_curves("tail-1d", None, 1.0, 3.0, draws=[2, 10, 100], runs=50)
        >>> picture = error_curves(curves)
        >>> print(*picture.object.select_one({"name": "errors-amci"}).data["draws"])
        2 10 100
    """
    shape = next(iter(curves.by_name.values())).mean.shape
    if len(shape) != 1:
        raise ValueError(f"curves: expected a single case, got batch shape {shape}")
    picture, last = ErrorPicture(height=height), int(curves.draws[-1])
    picture.show(curves, draws or last, measure=measure, every=every, spread=spread)
    picture.figure.x_range.update(start=0.9 * curves.draws[0], end=last)
    picture.figure.toolbar_location = None
    return pn.pane.Bokeh(picture.figure, sizing_mode="stretch_width")


def columns(curves: ErrorCurves, measure: Measure) -> dict[str, dict[str, Array]]:
    """Each estimator's draws, error, quartiles, and `firm`: the error if the runs determine it."""
    found = {}
    for name, curve in curves.by_name.items():
        squares, unit = [curve.remse, *curve.remse_quartiles], 1.0
        if measure == "MSE":
            squares, unit = [curve.mean, *curve.quartiles], float(np.square(curve.truth.unit))
        shown = unit * np.clip(squares, FLOOR, None)
        error, low, median, high = 100 * np.sqrt(shown) if measure == "percent" else shown
        found[name] = {
            "draws": np.asarray(curves.draws),
            "error": error,
            "firm": np.where(curve.determined & ~is_constant(curve.errors), error, np.nan),
            "low": low,
            "median": median,
            "high": high,
            "runs": curve.runs,
        }
    return found


def _extent(
    found: list[Mapping[str, Array]], measure: Measure, *, spread: bool
) -> tuple[float, float]:
    """Ends of the axis of errors: whole decades around all lines, as far as they matter."""
    parts = ("error", "low", "high") if spread else ("error",)
    values = np.ravel([each[part] for each in found for part in parts])
    values = values[np.isfinite(values)]
    if not values.size:
        return 1e-3, 1e3
    top = {"percent": 100 * CEILING**0.5, "ReMSE": CEILING, "MSE": np.inf}[measure]
    return decades(values, values.min(), min(values.max(), top))


def _rows(text: str, name: str) -> Rows:
    words = text.removesuffix(" to say")
    values = [(words, "16px" if len(words) <= LONG else "13px", "bold")]
    values += [("to say", "13px", "bold")] if text != words else []
    return [*values, *((row, "13px", "normal") for row in name.split("\n"))]


def _fill(source: ColumnDataSource, **columns: list[Any]) -> None:
    """Gives a source these rows, and unused ones up to `ROWS_KEPT`."""
    rows: dict[str, list[Any]] = {name: columns.get(name, []) for name in source.data}
    source.data = {n: [*v, *[UNUSED[n]] * (ROWS_KEPT - len(v))] for n, v in rows.items()}


def _short(value: str) -> str:
    return {"too few runs to say": "?", "all estimates 0": "all 0"}.get(
        value, value.replace("about ", "≈ ")
    )


def _height(rows: Rows) -> float:
    return GAP + sum(ROWS[size] for _, size, _ in rows)


def apart(
    places: Sequence[float], low: float, high: float, *, height: float, heights: Sequence[float]
) -> Array:
    """Moves labels along a logarithmic axis, as little as possible, so that none overlaps another.

    The sum of the squared ways is least. All stay within the axis; if it is too short for all of
    them, they share it evenly.

    Arguments:
        places: Where the labels belong, in units of the axis, (n,).
        low: The axis' lower end.
        high: Its upper end.
        height: Of the axis, in pixels.
        heights: Of the labels, in pixels, (n,).

    Returns:
        Where their middles go, in units of the axis, (n,).

    Example:
        >>> apart([10.0, 10.0], 1.0, 100.0, height=30, heights=[15, 15]).round(3).tolist()
        [3.162, 31.623]
    """
    if not len(places):
        return np.empty(0)
    scale = height / np.log(high / low)
    pixels = scale * np.log(np.asarray(places) / low)
    order = np.argsort(pixels, kind="stable")
    tall = np.array(heights, float)[order]
    tall *= min(1.0, height / tall.sum())
    # Of each label, what those below it and half of itself take up.
    steps = np.cumsum(tall) - tall / 2
    # Without their distances they only have to be in order.
    fitted = isotonic_regression(pixels[order] - steps).x
    placed = np.empty(len(places))
    placed[order] = np.clip(fitted, 0, height - tall.sum()) + steps
    return np.asarray(low * np.exp(placed / scale))
