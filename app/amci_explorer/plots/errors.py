r"""Error against total draws, one line an estimator: the paper's error plots."""

from __future__ import annotations

__all__ = ["CEILING", "FLOOR", "MEASURES", "error_curves", "extent", "scaled"]

from dataclasses import dataclass
from typing import Any, Literal

import holoviews as hv
import numpy as np
from bokeh.models import CustomJSTickFormatter
from numpy.typing import NDArray

from amci_core.estimators.draws import Array
from amci_core.evaluation import Curve, ErrorCurves
from amci_explorer.plots.colours import ESTIMATORS
from amci_explorer.plots.labels import end_labels
from amci_explorer.plots.style import draws_ticks, frame

Measure = Literal["percent", "ReMSE", "MSE"]
# Name of the y axis for each.
MEASURES = {
    "percent": "relative error",
    "ReMSE": "ReMSE: mean squared error / μ²",
    "MSE": "MSE: mean squared error",
}
# Relative squared errors outside of these are drawn at the edge: 1e-18 is what rounding leaves of
# an exact estimate, and then some.
FLOOR, CEILING = 1e-18, 1e3
# Of a picture, beside its frame, in pixels.
BELOW = 58
# How strong a line is where the runs do not determine the error.
FAINT = 0.35
PER_CENT = """
    const digits = Math.max(0, Math.min(20, -Math.floor(Math.log10(tick))))
    return `${tick.toLocaleString("en", {maximumFractionDigits: digits})} %`
"""
TIPS = [
    ("error", "@draws{0,0} total draws, @error{0.00e+0}"),
    ("median", "@median{0.00e+0}"),
    ("middle 50 %", "@low{0.00e+0} to @high{0.00e+0}"),
]


@dataclass(frozen=True)
class Scaled:
    """One curve in the units of a picture, over B numbers of draws.

    Arguments:
        error: The root of the mean squared relative error in per cent, ReMSE or MSE, (B,).
        low: First quartile of the runs, (B,).
        median: Their median, (B,).
        high: Third quartile, (B,).
        determined: Whether the runs determine the error, (B,).
    """

    error: Array
    low: Array
    median: Array
    high: Array
    determined: NDArray[np.bool_]


def scaled(curve: Curve, measure: Measure) -> Scaled:
    """A curve of a single case in the units of a measure; NaN without an estimate."""
    relative = measure != "MSE"
    unit = 1.0 if relative else float(np.square(curve.truth.unit))
    mean, quartiles = (
        (curve.remse, curve.remse_quartiles) if relative else (curve.mse, curve.mse_quartiles)
    )

    def shown(values: Array) -> Array:
        values = np.clip(values, FLOOR * unit, None)
        return 100 * np.sqrt(values) if measure == "percent" else values

    low, median, high = shown(quartiles)
    return Scaled(shown(mean), low, median, high, np.asarray(curve.determined))


def extent(curves: ErrorCurves, measure: Measure, *, spread: bool = False) -> tuple[float, float]:
    """Ends of the axis of errors: whole decades around all curves."""
    every = {name: scaled(curve, measure) for name, curve in curves.by_name.items()}
    parts = [[c.error, c.low, c.high] if spread else [c.error] for c in every.values()]
    values = np.concatenate([np.ravel(part) for part in parts])
    values = values[np.isfinite(values) & (values > 0)]
    if not values.size:
        return 1e-3, 1e3
    unit = float(np.square(next(iter(curves.by_name.values())).truth.unit))
    top = {"percent": 100 * np.sqrt(CEILING), "ReMSE": CEILING, "MSE": CEILING * unit}[measure]
    ends = np.log10([values.min(), min(values.max(), top)])
    low, high = float(np.floor(ends[0])), float(np.ceil(ends[1]))
    return 10.0**low / 1.3, 10.0 ** max(high, low + 1) * 1.3


def error_curves(
    curves: ErrorCurves,
    *,
    measure: Measure = "percent",
    spread: bool = False,
    height: int = 340,
    dark: bool = False,
) -> hv.Overlay:
    """Error of each estimator against total draws at one case, on logarithmic axes.

    A line is faint where the runs do not determine the error, and until all of them are there; the
    bound is dashed.

    Arguments:
        curves: Curves of a single case (y, theta).
        measure: What is drawn: the root of the mean squared relative error in per cent, ReMSE or
            MSE.
        spread: Whether to add the median of the runs, dotted, and the band of their quartiles.
        height: Height of the picture in pixels.
        dark: Whether the page is dark.

    Raises:
        ValueError: the curves are of several cases.

    Example:
        >>> import amci_core as amci
        >>> curves = amci.error_curves("tail-1d", None, 1.0, 3.0, budgets=[2, 10, 100], runs=50)
        >>> picture = error_curves(curves)
        >>> picture.Curve.AMCI.dimension_values("draws").tolist()
        [2, 10, 100]
    """
    ticks = {"yformatter": CustomJSTickFormatter(code=PER_CENT)} if measure == "percent" else {}
    shape = next(iter(curves.by_name.values())).mean.shape
    if len(shape) != 1:
        raise ValueError(f"curves: expected those of a single case, got shape {shape}")
    ylim = extent(curves, measure, spread=spread)
    draws = np.asarray(curves.budgets)
    parts: list[hv.Element] = []
    firm: list[list[float | str]] = []
    ends: dict[str, float] = {}
    for name, curve in curves.by_name.items():
        style, found = ESTIMATORS[name], scaled(curve, measure)
        colour, label = style.colour(dark), style.short or style.label
        columns = {"draws": draws, "error": found.error}
        columns |= {"low": found.low, "median": found.median, "high": found.high}
        looks: dict[str, Any] = {"color": colour, "tools": ["hover"]}
        if name == "bound":
            looks |= {"line_dash": "dashed", "line_width": 1.8, "hover_tooltips": TIPS[:1]}
        else:
            looks |= {"alpha": FAINT, "line_width": 2.5, "hover_tooltips": TIPS}
            # A step is firm where the runs determine both of its ends.
            known = found.determined & np.array(curves.runs == curves.runs_wanted)
            for i in np.flatnonzero(known[1:] & known[:-1]).tolist():
                firm.append([draws[i], found.error[i], draws[i + 1], found.error[i + 1], colour])
            if spread:
                band = hv.Area(columns, "draws", ["low", "high"], group="Quartiles", label=label)
                median = hv.Curve(columns, "draws", "median", group="Median", label=label)
                parts.append(band.opts(color=colour, alpha=0.14, line_alpha=0))
                parts.append(median.opts(color=colour, line_width=1.5, line_dash="dotted"))
        line = hv.Curve(columns, "draws", ["error", "low", "median", "high"], label=label)
        parts.append(line.opts(**looks))
        last = found.error[np.isfinite(found.error)][-1:]
        if last.size and last[0] <= ylim[1]:
            ends[name] = float(last[0])
    determined = hv.Segments(
        firm, ["draws", "error", "to_draws", "to_error"], "colour", group="Determined"
    ).opts(color="colour", line_width=2.5)
    styles = [ESTIMATORS[name] for name in ends]
    labels = end_labels(
        float(draws[-1]),
        list(ends.values()),
        [style.short or style.label for style in styles],
        [style.colour(dark) for style in styles],
        ylim=ylim,
        height=height - BELOW,
    )
    return hv.Overlay([*parts, determined, labels]).opts(
        hv.opts.Overlay(
            logx=True,
            logy=True,
            xlim=(float(draws[0]) * 0.9, float(draws[-1])),
            ylim=ylim,
            xlabel="total draws",
            ylabel=MEASURES[measure],
            xformatter=draws_ticks(),
            show_legend=False,
            show_grid=True,
            **ticks,
            **frame(height),
        )
    )
