r"""The pictures, by Bokeh and HoloViews, the same for the page's cards and for notebooks."""

from __future__ import annotations

__all__ = [
    "amortization_map",
    "densities",
    "diagnostics",
    "error_curves",
    "evaluation",
    "reuse_map",
]

import holoviews as hv

# What `hv.extension("bokeh")` does besides writing scripts into a notebook.
import holoviews.plotting.bokeh

from amci_explorer.plots.amortization import amortization_map
from amci_explorer.plots.densities import densities
from amci_explorer.plots.diagnostics import diagnostics
from amci_explorer.plots.errors import error_curves
from amci_explorer.plots.evaluation import evaluation
from amci_explorer.plots.reuse import reuse_map

hv.Store.set_current_backend("bokeh")
# On a plain canvas, which saves as SVG and needs no bokeh-gl.
hv.renderer("bokeh").webgl = False
