r"""Where amortization works: the quality of the proposals over a plane of (y, theta)."""

from __future__ import annotations

__all__ = ["amortization_map"]

from collections.abc import Mapping
from typing import Any

import holoviews as hv
import numpy as np
from bokeh.palettes import Cividis256, interp_palette

from amci_core.amortization import AmortizationMap
from amci_core.estimators.draws import Array
from amci_explorer.colours import ESTIMATORS, YOURS
from amci_explorer.plots.style import NOWHERE, framed
from amci_explorer.text import pretty

# Values beyond have the colour of the nearest end.
LOWEST, HIGHEST = 1e-8, 1e4
WON = interp_palette([ESTIMATORS["snis-q2"].light, "#f2f2f2", ESTIMATORS["amci"].light], 255)


def layer_of(found: AmortizationMap, layer: str) -> tuple[Array, dict[str, Any]]:
    """The values (m, n) of a layer, and how they are coloured.

    Arguments:
        found: The map.
        layer: variance, bound, effective-TERM or pareto-TERM, as in "pareto-E2".
    """
    kind, _, term = layer.partition("-")
    called = pretty(term, signed=len(found.terms) > 2)
    at = found.terms.index(term) if term else 0
    if kind == "effective":
        looks = {"clabel": f"ESS of {called}, share of the draws", "clim": (0.0, 1.0)}
        return found.relative_ess[at], looks | {"cmap": Cividis256}
    if kind == "pareto":
        # Beyond 1 the weights have no mean; equal ones have no tail, and a k-hat of -inf.
        looks = {"clabel": f"Pareto k̂ of {called}", "clim": (-0.5, 1.0)}
        return found.pareto_k[at], looks | {"cmap": Cividis256[::-1]}
    values = found.bound_ratio if kind == "bound" else found.relative_variance
    known = np.clip(values[(values > 0) & np.isfinite(values)], LOWEST, HIGHEST)
    low, high = (known.min(), known.max()) if known.size else (0.1, 10.0)
    if kind == "bound":
        # White where both are alike.
        high = max(high, 1 / low, 10.0)
        looks = {"clabel": "SNIS bound / AMCI's squared error", "clim": (1 / high, high)}
        return values, looks | {"cmap": WON, "cnorm": "log"}
    looks = {"clabel": "variance per draw / μ²", "clim": (low, max(high, 10 * low))}
    return values, looks | {"cmap": Cividis256[::-1], "cnorm": "log"}


def amortization_map(
    found: AmortizationMap,
    layer: str = "variance",
    *,
    at: tuple[float, float] | None = None,
    labels: Mapping[str, str] | None = None,
    dark: bool = False,
) -> hv.Overlay:
    """One quantity over a plane of cases; nothing is drawn where it is not known.

    Arguments:
        found: The map.
        layer: What is shown: "variance", the relative variance of AMCI for one draw of each
            proposal; "bound"; or "effective-E2", "pareto-E2" and so on, of a term.
        at: A case to mark, along both axes.
        labels: What the axes are called, by the names of `found.x` and `found.y`.
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
    (values, looks), called = layer_of(found, layer), labels or {}
    across, upwards = (
        hv.Dimension(a.name, label=called.get(a.name, a.name)) for a in (found.x, found.y)
    )
    image = hv.Image(
        (found.x.values, found.y.values, np.clip(values, *looks["clim"]), values),
        [across, upwards],
        ["shown", "value"],
        group="Map",
        rtol=1e-3,
    ).opts(
        clipping_colors={"NaN": "transparent"},
        colorbar=True,
        xticks=5,
        colorbar_opts={"width": 12, "padding": 8},
        tools=["hover"],
        hover_tooltips=[("at", "$x{0.00}, $y{0.00}"), (looks["clabel"], "@value{0.000a}")],
        **looks,
    )
    case = hv.Points([at or NOWHERE], [across, upwards], group="Yours", label="your case").opts(
        marker="circle", size=14, fill_alpha=0, color=YOURS.colour(dark), line_width=3
    )
    return framed([image, case], 440)
