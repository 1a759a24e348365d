r"""Error against total draws, one line an estimator: the paper's error plots."""

from __future__ import annotations

__all__ = [
    "BELOW",
    "CEILING",
    "FAINT",
    "FLOOR",
    "MEASURES",
    "TIPS",
    "columns",
    "error_curves",
    "extent",
    "names",
    "ticks",
]

from collections.abc import Mapping
from typing import Any, Literal

import holoviews as hv
import numpy as np
from bokeh.models import CustomJSTickFormatter

from amci_core.estimators.draws import Array
from amci_core.evaluation import ErrorCurves
from amci_explorer.colours import ESTIMATORS
from amci_explorer.plots.labels import end_labels
from amci_explorer.plots.style import decades, draws_ticks, frame

Measure = Literal["percent", "ReMSE", "MSE"]
# Name of the y axis for each.
MEASURES = {
    "percent": "relative error",
    "ReMSE": "ReMSE: mean squared error / μ²",
    "MSE": "MSE: mean squared error",
}
# Relative squared errors below are drawn there, those above leave the picture: 1e-18 is what
# rounding leaves of an exact estimate, and then some.
FLOOR, CEILING = 1e-18, 1e3
# Of a picture, beside its frame, in pixels.
BELOW = 58
# How strong a line is where the runs do not determine the error.
FAINT = 0.35
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
    ("error", "@draws{0,0} total draws, @error{0.00e+0}"),
    ("median", "@median{0.00e+0}"),
    ("middle 50 %", "@low{0.00e+0} to @high{0.00e+0}"),
    ("runs", "@runs{0,0}"),
]


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
            "firm": np.where(curve.determined, error, np.nan),
            "low": low,
            "median": median,
            "high": high,
            "runs": curve.runs,
        }
    return found


def extent(
    found: Mapping[str, Mapping[str, Array]], measure: Measure, *, spread: bool
) -> tuple[float, float]:
    """Ends of the axis of errors: whole decades around all lines, as far as they matter."""
    parts = ("error", "low", "high") if spread else ("error",)
    values = np.ravel([[each[part] for part in parts] for each in found.values()])
    values = values[np.isfinite(values)]
    if not values.size:
        return 1e-3, 1e3
    top = {"percent": 100 * CEILING**0.5, "ReMSE": CEILING, "MSE": np.inf}[measure]
    return decades(values, values.min(), min(values.max(), top))


def names(
    found: Mapping[str, Mapping[str, Array]],
    ylim: tuple[float, float],
    *,
    height: int,
    dark: bool,
) -> hv.Labels:
    """The estimators' names where their lines end."""
    known = {n: each["error"][np.isfinite(each["error"])] for n, each in found.items()}
    ends = {ESTIMATORS[n]: float(e[-1]) for n, e in known.items() if (e[-1:] <= ylim[1]).any()}
    draws = max(each["draws"][-1] for each in found.values())
    texts = [style.short or style.label for style in ends]
    colours = [style.colour(dark) for style in ends]
    return end_labels(
        float(draws), list(ends.values()), texts, colours, ylim=ylim, height=height - BELOW
    )


def ticks(unit: str = "") -> CustomJSTickFormatter:
    """Numbers of a logarithmic axis."""
    return CustomJSTickFormatter(code=TICKS, args={"unit": unit})


def error_curves(
    curves: ErrorCurves,
    *,
    measure: Measure = "percent",
    spread: bool = False,
    height: int = 340,
    dark: bool = False,
) -> hv.Overlay:
    """Error of each estimator against total draws at one case, on logarithmic axes.

    A line is faint where the runs do not determine the error; the bound is dashed.

    Arguments:
        curves: Curves of a single case (y, theta).
        measure: What is drawn: the root of the mean squared relative error in per cent, ReMSE or
            MSE.
        spread: Whether to add the median of the runs, dotted, and the band of their quartiles.
        height: Height of the picture in pixels.
        dark: Whether the page is dark.

    Returns:
        A HoloViews overlay.

    Raises:
        ValueError: the curves are of several cases.

    Example:
        >>> import amci_core as amci
        >>> curves = amci.error_curves("tail-1d", None, 1.0, 3.0, draws=[2, 10, 100], runs=50)
        >>> picture = error_curves(curves)
        >>> picture.Curve.AMCI.dimension_values("draws").tolist()
        [2, 10, 100]
    """
    shape = next(iter(curves.by_name.values())).mean.shape
    if len(shape) != 1:
        raise ValueError(f"curves: expected a single case, got batch shape {shape}")
    found, parts = columns(curves, measure), []
    ylim = extent(found, measure, spread=spread)
    for name, each in found.items():
        style = ESTIMATORS[name]
        label = style.short or style.label
        looks: dict[str, Any] = {"color": style.colour(dark)}
        if spread and name != "bound":
            band = hv.Area(each, "draws", ["low", "high"], group="Quartiles", label=label)
            median = hv.Curve(each, "draws", "median", group="Median", label=label)
            parts.append(band.opts(alpha=0.14, line_alpha=0, **looks))
            parts.append(median.opts(line_width=1.5, line_dash="dotted", **looks))
        line = hv.Curve(each, "draws", ["error", "low", "median", "high", "runs"], label=label)
        firm = hv.Curve(each, "draws", "firm", group="Determined", label=label)
        looks |= {"line_width": 2.5, "line_dash": "dashed" if name == "bound" else "solid"}
        parts.append(line.opts(alpha=FAINT, tools=["hover"], hover_tooltips=TIPS, **looks))
        parts.append(firm.opts(**looks))
    draws = curves.draws
    return hv.Overlay([*parts, names(found, ylim, height=height, dark=dark)]).opts(
        hv.opts.Overlay(
            logx=True,
            logy=True,
            xlim=(float(draws[0]) * 0.9, float(draws[-1])),
            ylim=ylim,
            xlabel="total draws",
            ylabel=MEASURES[measure],
            xformatter=draws_ticks(),
            yformatter=ticks(" %" if measure == "percent" else ""),
            show_legend=False,
            show_grid=True,
            **frame(height),
        )
    )
