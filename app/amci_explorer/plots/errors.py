r"""Error against draws, one line an estimator: the paper's error plots, with values."""

from __future__ import annotations

__all__ = ["ErrorPicture", "columns", "error_curves"]

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import panel as pn
from bokeh.models import (
    ColumnDataSource,
    CustomJSTickFormatter,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
    Span,
)
from bokeh.plotting import figure

from amci_core.estimators.draws import Array
from amci_core.evaluation import ErrorCurves
from amci_explorer.colours import ESTIMATORS
from amci_explorer.plots.labels import apart
from amci_explorer.plots.style import decades, set_range
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
# Name of the y axis for each: in per cent the title says it.
MEASURES = {
    "percent": "",
    "ReMSE": "ReMSE: mean squared error / μ²",
    "MSE": "MSE: mean squared error",
}
COLUMNS = ("draws", "error", "low", "median", "high", "runs")
# How strong a line is where the runs do not determine the error.
FAINT = 0.35
# Of the picture beside its frame, in pixels: below it, and at its right, for values and names.
BELOW, MARGIN = 52, 124
# Heights of rows of text by their size, in pixels; longer values are written smaller.
ROWS, LONG = {"16px": 20.0, "13px": 15.0}, 12
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
        name: What names of its sources begin with.
        height: Height in pixels.
        dark: Whether the page is dark.

    Attributes:
        figure: The Bokeh figure.
        sources: Of each estimator: its draws, error, quartiles and runs.
        inner_height: Height of the frame, in pixels, which a page that scales it may change.
    """

    def __init__(self, name: str = "errors", *, height: int = 400, dark: bool = False) -> None:
        self.figure = shown = figure(
            height=height,
            sizing_mode="stretch_width",
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(1.8, 10_000),
            y_range=Range1d(1e-3, 1e3),
            tools="pan,box_zoom,wheel_zoom,reset,save",
            # A finger that scrolls the page must not drag the picture.
            active_drag=None,
            active_scroll=None,
            toolbar_location="above",
            toolbar_inner=True,
            min_border_left=66,
            min_border_right=MARGIN,
            outline_line_color=None,
            # Its names stay on phones, see `fit_phones.js`.
            tags=["named"],
        )
        self.inner_height = float(height - BELOW)
        self._formatters = {
            each: CustomJSTickFormatter(code=TICKS, args={"unit": " %" if each else ""})
            for each in (True, False)
        }
        shown.xaxis.ticker = FixedTicker(ticks=[10, 100, 1000, 10_000])
        shown.xaxis.formatter = NumeralTickFormatter(format="0,0")
        shown.yaxis.ticker.desired_num_ticks = 6
        for axis in (*shown.xaxis, *shown.yaxis):
            axis.update(axis_label_text_font_size="13px", major_label_text_font_size="13px")
        shown.xgrid.visible = False
        self.mark = Span(dimension="height", line_width=1.5, line_dash=[2, 3])
        shown.add_layout(self.mark)

        def source(of: str, *names: str) -> ColumnDataSource:
            return ColumnDataSource({each: [] for each in names}, name=f"{name}-{of}")

        self._bands, self._medians, self._of_reference, self._firm = (
            source(of, "xs", "ys", "colour", "width") for of in ("bands", "medians", "a", "firm")
        )
        self._dots = source("dots", "x", "y", "colour")
        self._labels = source("labels", "x", "y", "text", "colour", "size", "style")
        looks: dict[str, Any] = {"fill_color": "colour", "fill_alpha": 0.14, "line_alpha": 0}
        shown.patches("xs", "ys", source=self._bands, **looks)
        looks = {"line_color": "colour", "line_width": "width"}
        for dotted in (self._of_reference, self._medians):
            shown.multi_line("xs", "ys", source=dotted, line_dash="dotted", **looks)
        self.sources = {each: source(each, *COLUMNS) for each in ESTIMATORS}
        # Faint, but for the bound; what the runs determine is drawn above.
        self.lines = {
            each: shown.line(
                "draws",
                "error",
                source=data,
                name=ESTIMATORS[each].label,
                line_width=_width(each),
                line_dash="dashed" if each == "bound" else "solid",
                line_alpha=1 if each == "bound" else FAINT,
            )
            for each, data in self.sources.items()
        }
        shown.multi_line("xs", "ys", source=self._firm, level="annotation", **looks)
        looks = {"size": 9, "fill_color": "colour", "line_color": "colour", "level": "overlay"}
        shown.scatter("x", "y", source=self._dots, **looks)
        looks = {"text_color": "colour", "text_font_size": "size", "text_font_style": "style"}
        looks |= {"x_offset": 8, "text_baseline": "top", "level": "overlay"}
        shown.text("x", "y", "text", source=self._labels, **looks)
        tips = {"renderers": [*self.lines.values()], "tooltips": TIPS, "visible": False}
        shown.add_tools(HoverTool(**tips))
        self._label_axes("percent", 2)
        self.paint(dark)

    def paint(self, dark: bool) -> None:
        """Takes the colours of a light or a dark page; what is shown needs `show` again."""
        self._dark = dark
        self.mark.line_color = ESTIMATORS["bound"].colour(dark)
        for name, line in self.lines.items():
            line.glyph.line_color = ESTIMATORS[name].colour(dark)

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
            spread: Whether to add the median of the runs, dotted, and the band of their quartiles.
            reference: Curves of the case to compare with, dotted.
            proposals: How many proposals share the draws.
            complete: Whether the curves get no further runs.

        Returns:
            The estimators that are shown.
        """
        chosen = tuple(curves.by_name) if every else first(curves)
        found = columns(curves, measure)
        for name, source in self.sources.items():
            # As lists: an array is two more messages.
            of_name = found.get(name, {})
            source.data = {c: of_name[c].tolist() if of_name else [] for c in COLUMNS}
            self.lines[name].visible = name in chosen
        shown = {name: found[name] for name in chosen}
        drawn = {name: each for name, each in shown.items() if name != "bound"}
        other = {} if reference is None else columns(reference, measure)
        other = {name: other[name] for name in chosen if name in other}
        self._of_reference.data = self._along(other, "error")
        self._firm.data = self._along(drawn, "firm")
        self._medians.data = self._along(drawn if spread else {}, "median")
        self._bands.data = self._along(drawn if spread else {}, "low", "high")
        ylim = _extent([*shown.values(), *other.values()], measure, spread=spread)
        set_range(self.figure.y_range, *ylim)
        self._label_axes(measure, proposals)
        self._name(curves, shown, total, ylim, measure, proposals, complete)
        return chosen

    def clear(self, measure: Measure = "percent", proposals: int = 2) -> None:
        """Shows no curves; the arguments are those of `show`."""
        for source in self.figure.select({"type": ColumnDataSource}):
            source.data = {column: [] for column in source.data}
        self._label_axes(measure, proposals)

    def _label_axes(self, measure: Measure, proposals: int) -> None:
        axis = self.figure.yaxis[0]
        axis.axis_label, axis.formatter = MEASURES[measure], self._formatters[measure == "percent"]
        kind = {1: "draws", 2: "draws, both proposals together"}
        self.figure.xaxis.axis_label = kind.get(proposals, "draws, all proposals together")

    def _name(
        self,
        curves: ErrorCurves,
        shown: Mapping[str, Mapping[str, Array]],
        total: int,
        ylim: tuple[float, float],
        measure: str,
        proposals: int,
        complete: bool,
    ) -> None:
        """Marks the number of draws, and puts values and names where the lines end."""
        at = position(curves, total)
        self.mark.location = float(curves.draws[at])
        ends = {n: each["error"][np.isfinite(each["error"])][-1:] for n, each in shown.items()}
        ends = {n: end for n, end in ends.items() if end.size and end[0] <= ylim[1]}
        colours = {name: ESTIMATORS[name].colour(self._dark) for name in ends}
        self._dots.data = {
            "x": [float(curves.draws[at])] * len(ends),
            "y": [float(shown[name]["error"][at]) for name in ends],
            "colour": list(colours.values()),
        }
        height = self.inner_height
        texts = {name: value(curves, name, at, measure, complete=complete) for name in ends}
        rows = {n: _rows(text, plain_name(n, proposals)) for n, text in texts.items()}
        if sum(_height(each) for each in rows.values()) > height:
            # Not enough room for names in words.
            rows = {
                n: [(f"{text} {ESTIMATORS[n].short or ESTIMATORS[n].label}", "13px", "bold")]
                for n, text in texts.items()
            }
        heights = [_height(each) for each in rows.values()]
        middles = apart([end[0] for end in ends.values()], *ylim, height=height, heights=heights)
        scale = np.log(ylim[1] / ylim[0]) / height
        labels: dict[str, list[Any]] = {column: [] for column in self._labels.data}
        for (name, own), middle, tall in zip(rows.items(), middles, heights, strict=True):
            top = tall / 2
            for text, size, style in own:
                y = float(middle * np.exp(scale * top))
                row = (float(curves.draws[-1]), y, text, colours[name], size, style)
                for column, entry in zip(labels.values(), row, strict=True):
                    column.append(entry)
                top -= ROWS[size]
        self._labels.data = labels

    def _along(self, found: Mapping[str, Any], *edges: str) -> dict[str, list[Any]]:
        """Lines of estimators in their colours; or bands, whose second edge leads back."""

        def along(each: Mapping[str, Array], names: tuple[str, ...]) -> list[float]:
            parts = [each[name][:: 1 - 2 * i] for i, name in enumerate(names)]
            return np.concatenate(parts).tolist()

        return {
            "xs": [along(each, ("draws",) * len(edges)) for each in found.values()],
            "ys": [along(each, edges) for each in found.values()],
            "colour": [ESTIMATORS[name].colour(self._dark) for name in found],
            "width": [_width(name) for name in found],
        }


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
        spread: Whether to add the median of the runs, dotted, and the band of their quartiles.
        height: Height of the picture in pixels.

    Returns:
        A Panel pane with a Bokeh figure.

    Raises:
        ValueError: the curves are of several cases.

    Example:
        >>> import amci_core as amci
        >>> curves = amci.error_curves("tail-1d", None, 1.0, 3.0, draws=[2, 10, 100], runs=50)
        >>> picture = error_curves(curves)
        >>> picture.object.select_one({"name": "errors-amci"}).data["draws"]
        [2, 10, 100]
    """
    shape = next(iter(curves.by_name.values())).mean.shape
    if len(shape) != 1:
        raise ValueError(f"curves: expected a single case, got batch shape {shape}")
    picture = ErrorPicture(height=height)
    total = int(curves.draws[-1]) if draws is None else draws
    picture.show(curves, total, measure=measure, every=every, spread=spread)
    picture.figure.x_range.update(start=0.9 * curves.draws[0], end=int(curves.draws[-1]))
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


def _width(name: str) -> float:
    return {"amci-cv": 4.0, "amci": 3.0}.get(name, 2.0)


def _rows(text: str, name: str) -> list[tuple[str, str, str]]:
    """The rows of a label, with the sizes and styles of their letters."""
    words = text.removesuffix(" to say")
    values = [(words, "16px" if len(words) <= LONG else "13px", "bold")]
    values += [("to say", "13px", "bold")] if text != words else []
    return [*values, *((row, "13px", "normal") for row in name.split("\n"))]


def _height(rows: list[tuple[str, str, str]]) -> float:
    return sum(ROWS[size] for _, size, _ in rows)
