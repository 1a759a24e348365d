r"""Where amortization works: the quality of the proposals over a plane of (y, theta)."""

from __future__ import annotations

__all__ = ["amortization_map"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import holoviews as hv
import numpy as np
from bokeh.palettes import Cividis256, interp_palette

from amci_core.amortization import AmortizationMap
from amci_core.estimators.draws import Array
from amci_explorer.colours import ESTIMATORS, YOURS
from amci_explorer.plots.style import NOWHERE, axis, frame

UNKNOWN = "#9a9a9a"
# What lies beyond is drawn in the last colour; hover and file give it all the same.
LOWEST, HIGHEST = -8.0, 4.0
RATIO = 8.0
WON = tuple(
    interp_palette([ESTIMATORS["snis-q2"].light, "#f2f2f2", ESTIMATORS["amci"].light], 255)
)


@dataclass(frozen=True)
class Layer:
    """One quantity that the map can show.

    Arguments:
        title: Its name at the colour bar.
        values: Takes it from a map, (m, n).
        logarithmic: Whether colours follow its logarithm.
        ends: What the first and the last colour stand for, at most.
        palette: Its colours.
    """

    title: str
    values: Callable[[AmortizationMap], Array]
    logarithmic: bool
    ends: tuple[float, float]
    palette: tuple[str, ...]

    def shown(self, found: AmortizationMap) -> Array:
        """What is coloured: the values or their logarithms, within the ends."""
        values = self.values(found)
        if self.logarithmic:
            with np.errstate(divide="ignore"):
                values = np.log10(values)
        return np.clip(values, *self.ends)


def layer_of(name: str) -> Layer:
    """The layer of a name: variance, bound, effective-TERM or pareto-TERM, as "pareto-E2"."""
    kind, _, term = name.partition("-")
    field = {"effective": "relative_ess", "pareto": "pareto_k"}.get(kind, "")

    def of_term(found: AmortizationMap) -> Array:
        return np.asarray(getattr(found, field)[found.terms.index(term)])

    if kind == "effective":
        return Layer("ESS / draw", of_term, False, (0.0, 1.0), Cividis256)
    if kind == "pareto":
        return Layer("k̂", of_term, False, (-0.5, 1.0), Cividis256[::-1])
    if kind == "bound":
        return Layer("log₁₀", lambda m: m.bound_ratio, True, (-RATIO, RATIO), WON)
    ends = (LOWEST, HIGHEST)
    return Layer("log₁₀", lambda m: m.relative_variance, True, ends, Cividis256[::-1])


def amortization_map(
    found: AmortizationMap,
    layer: str = "variance",
    *,
    at: tuple[float, float] | None = None,
    labels: Mapping[str, str] | None = None,
    height: int = 440,
    dark: bool = False,
) -> hv.Overlay:
    """One quantity over a plane of cases.

    Arguments:
        found: The map.
        layer: What is shown, a name that `layer_of` takes: by default the relative variance of
            AMCI for one draw of each proposal.
        at: A case to mark, along both axes.
        labels: What the axes are called, by the names of `found.x` and `found.y`.
        height: Height of the picture in pixels.
        dark: Whether the page is dark.

    Returns:
        A HoloViews overlay.

    Example:
        >>> import amci_core as amci
        >>> found = amci.amortization_map("tail-1d", None, size=3, draws=64)
        >>> picture = amortization_map(found, at=(1.0, 3.0)) + amortization_map(found, "pareto-E2")
        >>> len(picture)
        2
    """
    chosen = layer_of(layer)
    shown, called = chosen.shown(found), labels or {}
    across, upwards = (axis(a.name, called.get(a.name, a.name)) for a in (found.x, found.y))
    tips = [("at", "$x{0.00}, $y{0.00}"), ("value", "@value{0.000a}")]
    image = hv.Image(
        (found.x.values, found.y.values, shown, chosen.values(found)),
        [across, upwards],
        ["shown", "value"],
        group="Map",
        rtol=1e-3,
    ).opts(
        cmap=list(chosen.palette),
        clim=chosen.ends,
        clipping_colors={"NaN": UNKNOWN},
        colorbar=True,
        clabel=chosen.title,
        colorbar_opts={"width": 12, "padding": 4},
        tools=["hover"],
        hover_tooltips=tips,
    )
    case = hv.Points([at or NOWHERE], [across, upwards], group="Yours", label="your case").opts(
        marker="circle", size=14, fill_alpha=0, color=YOURS.colour(dark), line_width=3
    )
    return hv.Overlay([image, case]).opts(hv.opts.Overlay(**frame(height)))
