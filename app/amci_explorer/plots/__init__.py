r"""The pictures as HoloViews objects, the same for the page's cards and for notebooks."""

from __future__ import annotations

__all__ = ["error_curves"]

import holoviews as hv

# What `hv.extension("bokeh")` does besides writing scripts into a notebook.
import holoviews.plotting.bokeh

from amci_explorer.plots.errors import error_curves

hv.Store.set_current_backend("bokeh")
