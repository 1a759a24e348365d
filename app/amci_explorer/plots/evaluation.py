r"""Errors over many cases: medians, bands, and single cases as thin lines."""

from __future__ import annotations

__all__ = ["BANDS", "evaluation", "shown_errors"]

from collections.abc import Mapping, Sequence
from typing import Any

import holoviews as hv
import numpy as np

from amci_core.estimators.draws import Array
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.plots.colours import SWEPT, YOURS
from amci_explorer.plots.errors import BELOW, CEILING, FLOOR
from amci_explorer.plots.labels import end_labels
from amci_explorer.plots.style import axis, decades, draws_ticks, frame
from amci_explorer.text import number

# Of the summary, by the band's name.
BANDS = {"runs": ("runs_q25", "runs_q75"), "cases": ("remse_q25", "remse_q75")}
# A marker is filled where the runs determine the mean of more than this share of the cases.
MOST = 0.5
# How much ink the lines of the single cases have together, and each of them.
TOGETHER, LEAST, MOST_INK = 10.0, 0.12, 0.45
# Of the thin lines' errors, what may lie below the picture.
BELOW_PICTURE = 0.02
DRAWS = axis("draws", "total draws")
ERROR = axis("error", "relative mean squared error")


def evaluation(
    found: Evaluated,
    *,
    band: str = "runs",
    single: str = "amci",
    rank: int | None = None,
    height: int = 460,
    dark: bool = False,
) -> hv.Overlay:
    """Relative mean squared error over many cases against total draws, on logarithmic axes.

    A marker is filled where the runs determine the mean in most of the cases.

    Arguments:
        found: The evaluation.
        band: What the bands hold: the median case's quartiles over "runs", quartiles over "cases",
            or "none".
        single: The estimator whose single cases are thin lines.
        rank: A case to point out, counted from 0.
        height: Height of the picture in pixels.
        dark: Whether the page is dark.

    Example:
        >>> import amci_core as amci
        >>> from amci_explorer.numbers.evaluated import live
        >>> proposals = amci.load_proposals("tail-1d")
        >>> found = live(amci.problem("tail-1d"), proposals, cases=2, runs=4, seed=0).last()
        >>> evaluation(found).Curve.AMCI.dimension_values("draws").tolist()
        [2, 10, 100, 1000]
    """
    draws = np.asarray(found.budgets)
    lines: list[hv.Element] = []
    bands, points, ends, values = [], [], {}, [np.empty(0)]
    for name, own in found.estimators.items():
        if name not in SWEPT:
            continue
        style, bound = SWEPT[name], name == "bound"
        colour, median = style.colour(dark), _clipped(_column(own, "remse_median", draws))
        line = hv.Curve((draws, median), DRAWS, ERROR, label=style.label)
        lines.append(
            line.opts(
                color=colour,
                line_width=2 if bound else 3,
                line_dash="dashed" if bound else "solid",
            )
        )
        low, high = (_clipped(_column(own, key, draws)) for key in BANDS.get(band, ("", "")))
        there = np.isfinite(low) & np.isfinite(high)
        if not bound and there.any():
            around = np.concatenate([low[there], high[there][::-1]])
            across = np.concatenate([draws[there], draws[there][::-1]])
            bands.append({"draws": across, "error": around, "colour": colour})
        points += _points(found, name, colour)
        if np.isfinite(median).any():
            ends[name] = float(median[np.isfinite(median)][-1])
        values += [median, low, high]
    thin, errors = _single_cases(found, single, SWEPT[single].colour(dark)), None
    if found.cases is not None and single in found.cases.by_name:
        errors = shown_errors(found, single)
        known = errors[np.isfinite(errors)]
        values.append(known[known >= np.quantile(known, BELOW_PICTURE)] if known.size else known)
    ylim = decades(np.concatenate(values), FLOOR, CEILING)
    shown = [] if rank is None or errors is None else np.c_[draws, errors[rank]]
    yours = hv.Curve(shown, DRAWS, ERROR, group="Yours", label="your case").opts(
        color=YOURS.colour(dark), line_width=3
    )
    named = {name: end for name, end in ends.items() if end <= ylim[1]}
    styles = [SWEPT[name] for name in named]
    labels = end_labels(
        float(draws[-1]),
        [*named.values()],
        [style.label for style in styles],
        [style.colour(dark) for style in styles],
        ylim=ylim,
        height=height - BELOW,
    )
    tips = [
        ("median of", "@estimator, @draws{0,0} total draws"),
        ("error", "@said"),
        ("cases", "@cases; not judged: @undetermined"),
    ]
    marks = hv.Points(
        points,
        [DRAWS, ERROR],
        ["colour", "filled", "estimator", "said", "cases", "undetermined"],
        group="Medians",
    ).opts(
        color="colour",
        fill_alpha=hv.dim("filled"),
        line_color="colour",
        line_width=1.5,
        size=8,
        tools=["hover"],
        hover_tooltips=tips,
    )
    areas = hv.Polygons(bands, [DRAWS, ERROR], "colour", group="Bands").opts(
        color="colour", alpha=0.14, line_alpha=0
    )
    return hv.Overlay([areas, thin, *lines, marks, yours, labels]).opts(
        hv.opts.Overlay(
            logx=True,
            logy=True,
            xlim=(float(draws[0]) * 0.8, float(draws[-1]) * 1.06),
            ylim=ylim,
            xformatter=draws_ticks(),
            show_legend=False,
            show_grid=True,
            **frame(height),
        )
    )


def shown_errors(found: Evaluated, name: str) -> Array:
    """Errors of an estimator in the single cases, as far as the axis shows them, (n, B)."""
    if found.cases is None or name not in found.cases.by_name:
        return np.empty((0, len(found.budgets)))
    return _clipped(found.cases.by_name[name]["remse"])


def _single_cases(found: Evaluated, single: str, colour: str) -> hv.Segments:
    errors, cases, draws = shown_errors(found, single), found.cases, found.budgets
    ink = min(max(TOGETHER / max(len(errors), 1), LEAST), MOST_INK)
    steps: list[tuple[Any, ...]] = []
    if cases is not None and len(errors):
        own = cases.by_name[single]
        for i, row in enumerate(errors):
            said = [
                f"{t:,} draws: {number(e, 2)} ± {number(s, 1)}" + ("" if j else ", not judged")
                for t, e, s, j in zip(
                    draws, row, own["remse_error"][i], own["determined"][i], strict=True
                )
                if not np.isnan(e)
            ]
            of = (
                int(cases.number[i]),
                _point(cases.y[i]),
                _point(cases.theta[i]),
                "; ".join(said),
            )
            ends = zip(draws, row, draws[1:], row[1:], strict=False)
            steps += [(*step, *of) for step in ends if np.isfinite(step).all()]
    tips = [("case", "@case"), ("y", "@y"), ("θ", "@theta"), ("error", "@errors")]
    return hv.Segments(
        steps,
        [DRAWS, ERROR, "to_draws", "to_error"],
        ["case", "y", "theta", "errors"],
        group="Cases",
    ).opts(color=colour, line_width=1, alpha=ink, tools=["hover"], hover_tooltips=tips)


def _points(found: Evaluated, name: str, colour: str) -> list[tuple[Any, ...]]:
    """The markers of an estimator's medians, with what the pointer is told of them."""
    own, draws = found.estimators[name], np.asarray(found.budgets)
    columns = [
        _column(own, key, draws, missing)
        for key, missing in (
            ("remse_median", np.nan),
            ("remse_median_error", np.nan),
            ("undetermined", 0.0),
        )
    ]
    return [
        (
            t,
            _clipped(median),
            colour,
            float(undetermined <= MOST),
            SWEPT[name].label,
            number(median, 2) + ("" if np.isnan(error) else f" ± {number(error, 1)}"),
            f"{found.counted:,}",
            "none" if name == "bound" else f"{100 * undetermined:.3g} %",
        )
        for t, median, error, undetermined in zip(draws, *columns, strict=True)
        if np.isfinite(median)
    ]


def _column(
    own: Mapping[str, Sequence[float]], key: str, draws: Array, missing: float = np.nan
) -> Array:
    known = own.get(key)
    return np.array([missing] * len(draws) if known is None else known, dtype=float)


def _point(value: Array) -> str:
    return ", ".join(f"{v:.3g}".replace("-", "−") for v in value) or "none"


def _clipped(errors: Any) -> Any:
    """Errors that a logarithmic axis can show; NaN stays."""
    return np.where(np.isfinite(errors), np.clip(errors, FLOOR, CEILING), np.nan)
