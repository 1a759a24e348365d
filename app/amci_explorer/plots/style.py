r"""What the pictures have in common: their looks, and what HoloViews leaves to Bokeh."""

from __future__ import annotations

__all__ = [
    "NOWHERE",
    "Theme",
    "bare_figure",
    "decades",
    "describe",
    "draws_ticks",
    "empty_source",
    "framed",
    "set_range",
    "short_ticks",
]

from collections.abc import Iterable, Sequence
from typing import Any

import holoviews as hv
import numpy as np
from bokeh.models import (
    ColumnDataSource,
    CustomJSTickFormatter,
    NumeralTickFormatter,
    Range1d,
    Title,
)
from bokeh.plotting import figure

from amci_core.estimators.draws import Array
from amci_explorer.colours import Style

LEGEND: dict[str, Any] = {"margin": 0, "padding": 4, "label_text_font_size": "13px"}
LEGEND |= {"border_line_alpha": 0, "background_fill_alpha": 0}
# A point that is not drawn: of no point at all a legend shows nothing.
NOWHERE = (np.nan, np.nan)
SHORT = 'return Number(tick.toPrecision(4)).toString().replaceAll("-", "−")'


def framed(parts: Sequence[hv.Element], height: int, **options: Any) -> hv.Overlay:
    """A picture as wide as there is room, with its legend above it.

    A finger that scrolls the page does not drag the picture.
    """
    wide = hv.opts.Overlay(
        height=height,
        responsive=True,
        toolbar="right",
        active_tools=[],
        legend_position="top",
        legend_opts=LEGEND,
        **options,
    )
    return hv.Overlay(parts).opts(wide)


def empty_source(name: str, columns: Iterable[str]) -> ColumnDataSource:
    """A source with these columns, to be filled."""
    return ColumnDataSource({column: [] for column in columns}, name=name)


def describe(shown: figure, words: str) -> None:
    """Renews the text alternative of a picture."""
    shown.html_attributes = {"role": "img", "aria-label": words}


def bare_figure(**options: Any) -> figure:
    """An empty figure as wide as its place, which a finger that scrolls the page does not drag.

    A title without text takes no room.
    """
    still = {"active_drag": None, "active_scroll": None}
    return figure(sizing_mode="stretch_width", title=Title(), **still, **options)


def short_ticks() -> CustomJSTickFormatter:
    """Numbers of an axis in at most four digits."""
    return CustomJSTickFormatter(code=SHORT)


def draws_ticks() -> NumeralTickFormatter:
    """Numbers of draws: 1k, so that they fit side by side."""
    return NumeralTickFormatter(format="0[.]0a")


def decades(values: Array, low: float, high: float) -> tuple[float, float]:
    """Whole decades around values, between low and high; all of these without any value."""
    values = values[np.isfinite(values) & (values > 0)]
    if not values.size:
        return low, high
    ends = np.log10(np.clip([values.min(), values.max()], low, high))
    least, most = float(np.floor(ends[0])), float(np.ceil(ends[1]))
    return 10.0**least, 10.0 ** max(most, least + 1)


def set_range(axis: Range1d, low: float, high: float) -> None:
    """Moves an axis, and where the reset tool leads back to."""
    if (axis.start, axis.end, axis.reset_end) != (low, high, high):
        axis.update(start=low, end=high, reset_start=low, reset_end=high)


class Theme:
    """Remembers what is drawn in which style, to draw it again when the page turns dark."""

    def __init__(self, dark: bool = False) -> None:
        self.dark = dark
        self._drawn: list[tuple[Any, Style, tuple[str, ...]]] = []

    def follow(self, model: Any, style: Style, *properties: str) -> None:
        """Has colour properties of a Bokeh model follow the page's theme."""
        model.update(**dict.fromkeys(properties, style.colour(self.dark)))
        self._drawn.append((model, style, properties))

    def paint(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self.dark = dark
        for model, style, properties in self._drawn:
            model.update(**dict.fromkeys(properties, style.colour(dark)))
