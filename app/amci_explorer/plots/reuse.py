r"""What sharing draws between q1 and q2 does: a map over (alpha, beta)."""

from __future__ import annotations

__all__ = ["reuse_map"]

from typing import Any

import holoviews as hv
import numpy as np

from amci_core.evaluation import ReuseErrors
from amci_explorer.colours import YOURS
from amci_explorer.plots.style import NOWHERE, framed, short_ticks

FLOOR, CEILING = 1e-18, 1e6
# The map's darkest colour: ten times off. What is worse need not be told apart.
WORST = 1e2
ALPHA = hv.Dimension("alpha", label="α: share of E₁ from q₁")
BETA = hv.Dimension("beta", label="β: share of E₂ from q₁")
CORNERS = {
    "alpha": [1.0, 0.0, 1.0],
    "beta": [0.0, 0.0, 1.0],
    "text": ["AMCI", "SNIS q₂", "SNIS q₁"],
}


def reuse_map(
    errors: ReuseErrors,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    dark: bool = False,
) -> hv.Overlay:
    """ReMSE over (alpha, beta); nothing is drawn where the runs do not determine it.

    Arguments:
        errors: The errors over a regular grid.
        alpha: Share of E1 from q1's draws of a point to mark.
        beta: Share of E2 from q1's draws of that point.
        dark: Whether the page is dark.

    Returns:
        A HoloViews overlay.

    Example:
        >>> import amci_core as amci
        >>> shares = [0.0, 0.5, 1.0]
        >>> errors = amci.reuse_errors(
        ...     "tail-1d", None, 1.0, 3.0, alphas=shares, betas=shares, runs=20
        ... )
        >>> picture = reuse_map(errors, alpha=1.0, beta=0.0)
    """
    remse = np.clip(errors.remse, FLOOR, CEILING)
    shown = np.where(errors.determined, remse, np.nan)
    known = shown[np.isfinite(shown)]
    low, high = (known.min(), min(known.max(), WORST)) if known.size else (1e-6, 1.0)
    image = hv.Image(
        (errors.alphas, errors.betas, shown.T, remse.T),
        [ALPHA, BETA],
        ["shown", "remse"],
        label="ReMSE",
        rtol=1e-3,
    ).opts(
        cmap="cividis_r",
        cnorm="log",
        clim=(low, max(high, 10 * low)),
        clipping_colors={"NaN": "transparent"},
        colorbar=True,
        clabel="relative mean squared error",
        colorbar_opts={"width": 12, "padding": 8, "formatter": short_ticks()},
        tools=["hover"],
        hover_tooltips=[("α, β", "$x{0.00}, $y{0.00}"), ("ReMSE", "@remse{0.00e+0}")],
    )

    def mark(at: Any, group: str, label: str, **looks: Any) -> hv.Points:
        return hv.Points([at or NOWHERE], [ALPHA, BETA], group=group, label=label).opts(**looks)

    # Gray shows on either page, in the legend too.
    looks = {"fill_color": "white", "line_color": "dimgray", "line_width": 1.5}
    marks = (
        ("smallest error", errors.best, "star", 17),
        ("α*, β* of the paper", _predicted(errors, errors.paper), "diamond", 13),
        ("u*, the optimum", _predicted(errors, errors.optimum), "square", 11),
    )
    marked = [
        mark(at, "Mark", label, marker=marker, size=size, **looks)
        for label, at, marker, size in marks
    ]
    here = None if alpha is None or beta is None else (alpha, beta)
    look = {"fill_alpha": 0, "color": YOURS.colour(dark), "line_width": 3}
    yours = mark(here, "Yours", "yours", size=13, **look)
    corners = hv.Labels(CORNERS, [ALPHA, BETA], "text").opts(
        text_color="white", text_font_size="13px", yoffset=-0.07, hooks=[_on_dark]
    )
    ends = {"xlim": _ends(errors.alphas), "ylim": _ends(errors.betas)}
    return framed([image, corners, *marked, yours], 400, legend_cols=2, **ends)


def _predicted(errors: ReuseErrors, at: tuple[float, float]) -> tuple[float, ...] | None:
    """Where a predicted optimum is marked; None where the runs do not bear it out."""
    # Draws so rare that no run meets them can rule a prediction.
    holds = errors.common or errors.prediction_holds
    if not holds or not errors.mean_along([at[0]], beta=at[1])[1][0]:
        return None
    ends = np.transpose([grid[[0, -1]] for grid in (errors.alphas, errors.betas)])
    return tuple(np.clip(at, *ends).tolist())


def _ends(values: Any) -> tuple[float, float]:
    half = float(values[1] - values[0]) / 2
    return float(values[0]) - half, float(values[-1]) + half


def _on_dark(plot: Any, element: hv.Labels) -> None:
    plot.handles["glyph"].update(
        background_fill_color="black", background_fill_alpha=0.5, padding=3, border_radius=3
    )
