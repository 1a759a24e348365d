r"""Errors over many cases: medians, bands, and single cases as thin lines."""

from __future__ import annotations

__all__ = ["evaluation"]

from typing import Any

import holoviews as hv
import numpy as np

from amci_core.estimators.draws import Array
from amci_explorer.colours import SWEPT, YOURS
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.plots.errors import BELOW
from amci_explorer.plots.labels import end_labels
from amci_explorer.plots.style import axis, decades, draws_ticks, frame
from amci_explorer.words.curves import CEILING, FLOOR

# Of the summary, by the band's name.
BANDS = {"runs": ("runs_q25", "runs_q75"), "cases": ("remse_q25", "remse_q75")}
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

    Arguments:
        found: The evaluation.
        band: What the bands hold: the median case's quartiles over "runs", quartiles over "cases",
            or "none".
        single: The estimator whose single cases are thin lines.
        rank: A case to point out, counted from 0.
        height: Height of the picture in pixels.
        dark: Whether the page is dark.

    Returns:
        A HoloViews overlay.

    Example:
        >>> import amci_core as amci
        >>> from amci_explorer.numbers.evaluated import live
        >>> proposals = amci.load_proposals("tail-1d")
        >>> found = live(amci.problem("tail-1d"), proposals, cases=2, runs=4, seed=0).run()
        >>> evaluation(found).Curve.AMCI.dimension_values("draws").tolist()
        [2, 10, 100, 1000]
    """
    draws = np.asarray(found.draws)
    bands, lines, ends, values = [], [], {}, []
    for name, style in SWEPT.items():
        if name not in found.estimators:
            continue
        own = found.estimators[name]
        looks = {"color": style.colour(dark)}
        columns = {"draws": draws, "error": _shown(own["remse_median"])}
        low, high = (_shown(own.get(k, [np.nan] * len(draws))) for k in BANDS.get(band, ("", "")))
        columns |= {"low": low, "high": high}
        if name != "bound":
            area = hv.Area(columns, DRAWS, ["low", "high"], group="Bands", label=style.label)
            bands.append(area.opts(alpha=0.14, line_alpha=0, **looks))
        tips = [("median", "@draws{0,0} total draws, @error{0.00e+0}")]
        line = hv.Curve(columns, DRAWS, [ERROR, "low", "high"], label=style.label).opts(
            line_width=3,
            line_dash="dashed" if name == "bound" else "solid",
            tools=["hover"],
            hover_tooltips=[*tips, ("band", "@low{0.00e+0} to @high{0.00e+0}")],
            **looks,
        )
        lines.append(line)
        known = columns["error"][np.isfinite(columns["error"])]
        if known.size:
            ends[style] = float(known[-1])
        values += [columns["error"], low, high]
    errors = np.empty((0, len(draws)))
    if found.cases is not None and single in found.cases.by_name:
        errors = _shown(found.cases.by_name[single]["remse"])
    ylim = decades(np.concatenate([*values, errors.ravel()]), FLOOR, CEILING)
    yours = [] if rank is None or not len(errors) else np.c_[draws, errors[rank]]
    labels = end_labels(
        float(draws[-1]),
        list(ends.values()),
        [style.label for style in ends],
        [style.colour(dark) for style in ends],
        ylim=ylim,
        height=height - BELOW,
    )
    picture = [
        *bands,
        _single_cases(found, errors).opts(color=SWEPT[single].colour(dark)),
        *lines,
        hv.Curve(yours, DRAWS, ERROR, group="Yours").opts(color=YOURS.colour(dark), line_width=3),
        labels,
    ]
    return hv.Overlay(picture).opts(
        hv.opts.Overlay(
            logx=True,
            logy=True,
            xlim=(float(draws[0]) * 0.8, float(draws[-1]) * 1.06),
            ylim=ylim,
            xformatter=draws_ticks(),
            ylabel=ERROR.label,
            show_legend=False,
            show_grid=True,
            **frame(height),
        )
    )


def _single_cases(found: Evaluated, errors: Array) -> hv.Contours:
    cases = found.cases
    lines = [
        {
            "draws": found.draws,
            "error": row,
            "case": int(cases.number[i]),
            "y": ", ".join(f"{v:.3g}" for v in cases.y[i]),
            "theta": ", ".join(f"{v:.3g}" for v in cases.theta[i]),
        }
        for i, row in enumerate(errors)
        if cases is not None
    ]
    tips = [("case", "@case"), ("y", "@y"), ("θ", "@theta")]
    return hv.Path(lines, [DRAWS, ERROR], ["case", "y", "theta"], group="Cases").opts(
        line_width=1, alpha=0.15, tools=["hover"], hover_tooltips=tips
    )


def _shown(errors: Any) -> Array:
    """Errors that a logarithmic axis can show."""
    errors = np.array(errors, dtype=float)
    return np.where(np.isfinite(errors), np.clip(errors, FLOOR, CEILING), np.nan)
