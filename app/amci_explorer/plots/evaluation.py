r"""Errors over many cases: medians, bands, and single cases as thin lines."""

from __future__ import annotations

__all__ = ["evaluation"]

from typing import Any

import holoviews as hv
import numpy as np

from amci_core.estimators.draws import Array
from amci_explorer.colours import SWEPT
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.plots.style import decades, draws_ticks, framed
from amci_explorer.words.curves import CEILING, FLOOR

DRAWS = hv.Dimension("draws", label="total draws")
ERROR = hv.Dimension("error", label="relative mean squared error")
# Of a summary: the median over cases, and the medians of quartiles over runs.
COLUMNS = {"error": "remse_median", "low": "runs_q25", "high": "runs_q75"}
TIPS = [
    ("median", "@draws{0,0} total draws, @error{0.00e+0}"),
    ("quartiles over runs", "@low{0.00e+0} to @high{0.00e+0}"),
]


def evaluation(found: Evaluated, *, single: str = "amci", dark: bool = False) -> hv.Overlay:
    """Relative mean squared error over many cases against total draws, on logarithmic axes.

    Lines are medians over the cases. Bands are the paper's: quartiles over runs, of which the
    medians over cases are shown.

    Arguments:
        found: The evaluation.
        single: The estimator whose single cases are thin lines.
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
    bands, lines, values = [], [], []
    for name, style in SWEPT.items():
        if (own := found.estimators.get(name)) is None:
            continue
        looks = {"color": style.colour(dark)}
        columns = {"draws": draws}
        for column, figure in COLUMNS.items():
            columns[column] = _drawn(own.get(figure, [np.nan] * len(draws)))
            values.append(columns[column])
        if name != "bound":
            band = hv.Area(columns, DRAWS, ["low", "high"], group="Bands", label=style.label)
            bands.append(band.opts(alpha=0.14, line_alpha=0, show_legend=False, **looks))
        lines.append(
            hv.Curve(columns, DRAWS, [ERROR, "low", "high"], label=style.label).opts(
                line_width=3,
                line_dash="dashed" if name == "bound" else "solid",
                tools=["hover"],
                hover_tooltips=TIPS,
                **looks,
            )
        )
    errors = np.empty((0, len(draws)))
    if found.cases is not None and single in found.cases.by_name:
        errors = _drawn(found.cases.by_name[single]["remse"])
    picture = [
        *bands,
        _single_cases(found, errors).opts(color=SWEPT[single].colour(dark)),
        *lines,
    ]
    return framed(
        picture,
        460,
        logx=True,
        logy=True,
        xlim=(float(draws[0]) * 0.8, float(draws[-1]) * 1.1),
        ylim=decades(np.concatenate([*values, errors.ravel()]), FLOOR, CEILING),
        xformatter=draws_ticks(),
        ylabel=ERROR.label,
        legend_cols=2,
        show_grid=True,
    )


def _single_cases(found: Evaluated, errors: Array) -> hv.Path:
    cases: Any = found.cases
    lines = [
        {
            "draws": found.draws,
            "error": row,
            "case": int(cases.number[i]),
            "y": ", ".join(f"{v:.3g}" for v in cases.y[i]),
            "theta": ", ".join(f"{v:.3g}" for v in cases.theta[i]),
        }
        for i, row in enumerate(errors)
    ]
    tips = [("case", "@case"), ("y", "@y"), ("θ", "@theta")]
    return hv.Path(lines, [DRAWS, ERROR], ["case", "y", "theta"], group="Cases").opts(
        line_width=1, alpha=0.15, tools=["hover"], hover_tooltips=tips
    )


def _drawn(errors: Any) -> Array:
    """Errors that a logarithmic axis can show."""
    errors = np.array(errors, dtype=float)
    return np.where(np.isfinite(errors), np.clip(errors, FLOOR, CEILING), np.nan)
