r"""What names the curves of a picture: legends above it, labels where the curves end."""

from __future__ import annotations

__all__ = ["Legends", "add_legend", "apart", "label_ends", "room_for_labels"]

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from bokeh.models import ColumnDataSource, LabelSet, Legend, LegendItem
from bokeh.plotting import figure

from amci_explorer.views.figures import script, set_range

FIT_LEGEND = """
    const view = [...Bokeh.index.query(
        v => v.model.above != null && (v.model == cb_obj || v.model.above.includes(cb_obj))
    )][0]
    if (view == null) { return }
    const picture = view.model, legend = picture.above.find(model => model.type == "Legend")
    const shown = Bokeh.index.find_one(legend)
    const words = shown?.entries.map(entry => entry.label_el.offsetWidth) ?? []
    if (words.length == 0 || words.includes(0)) { return }
    const items = words.map(width => legend.glyph_width + legend.label_standoff + width)
    const taken = columns => {
        let sum = (columns - 1) * legend.spacing
        for (let i = 0; i < columns; i++) {
            sum += Math.max(...items.filter((_, j) => j % columns == i))
        }
        return sum
    }
    const room = picture.outer_width - 22
    let columns = Math.min(4, items.length)
    while (columns > 1 && taken(columns) > room) { columns -= 1 }
    // No more of them than this many rows need.
    columns = Math.ceil(items.length / Math.ceil(items.length / columns))
    const over = Math.max(0, Math.ceil(view.frame.bbox.left + taken(columns) - room))
    legend.setv({ncols: columns, styles: {"margin-left": `${-over}px`}})
"""
# By a style sheet: the page's theme gives all legends a size of its own.
WORDS = ".bk-label { font-size: 13px !important; }"
# Room for names beside the curves, as a share of the axis, and the height of one in pixels.
ROOM_FOR_LABELS, LABEL_HEIGHT = 0.42, 15


def add_legend(shown: figure, items: list[Any], **options: Any) -> Legend:
    """Puts a legend above a figure, in as many columns as there is room for.

    It begins where the frame does, or as far to the left of that as it needs room.
    """
    looks = {"margin": 0, "padding": 7, "stylesheets": [WORDS]}
    options = {"orientation": "horizontal", "ncols": 2, **looks} | options
    legend = Legend(items=items, location="top_left", **options)
    shown.add_layout(legend, "above")
    shown.js_on_change("inner_width", script(shown, FIT_LEGEND))
    return legend


def label_ends(shown: figure, ends: ColumnDataSource) -> None:
    """Names curves where they end, in the place of the legend; on a phone the legend stays.

    Arguments:
        shown: The figure, with its legend.
        ends: Columns x, y, text and colour.
    """
    labels = LabelSet(
        x="x",
        y="y",
        text="text",
        text_color="colour",
        source=ends,
        x_offset=8,
        text_baseline="middle",
        text_font_size="12px",
        name="ends",
    )
    shown.add_layout(labels)
    shown.legend.visible = False


def room_for_labels(shown: figure, start: float, end: float) -> None:
    """Has a logarithmic x axis end where the curves do, with room for their names beside it."""
    set_range(shown.x_range, start, end * (end / start) ** ROOM_FOR_LABELS)
    for part in (*shown.xaxis, *shown.xgrid):
        part.bounds = (start, end)
    # Where a phone has the axis end, see `amci_explorer/js`.
    shown.tags = [end]


def apart(values: Sequence[float], low: float, high: float, *, height: float) -> list[float]:
    """Moves values on a logarithmic axis as far from one another as their labels need.

    Arguments:
        values: Where the labels would stand.
        low: The axis' lower end.
        high: Its upper end.
        height: Of the axis, in pixels.
    """
    least = LABEL_HEIGHT * math.log(high / low) / height
    order = sorted(range(len(values)), key=lambda i: values[i])
    placed = {i: math.log(values[i]) for i in order}
    # Upwards from the lowest; then what has left the axis at the top pushes the others down.
    for lower, upper in pairwise(order):
        placed[upper] = max(placed[upper], placed[lower] + least)
    top = math.log(high)
    for i in reversed(order):
        placed[i] = min(placed[i], top)
        top = placed[i] - least
    return [math.exp(placed[i]) for i in range(len(values))]


class Legends:
    """A legend whose items have other names, or are not there, for another problem.

    Arguments:
        shown: The figure.
        parts: What each item stands for, by name.
    """

    def __init__(self, shown: figure, parts: dict[str, list[Any]]) -> None:
        self._items = {n: LegendItem(label=n, renderers=list(p)) for n, p in parts.items()}
        self._legend = add_legend(shown, [])
        # The words' widths are known when the page has drawn them.
        code = f"setTimeout(() => {{ {FIT_LEGEND} }}, 0)"
        self._legend.js_on_change("items", script(shown, code))

    def show(self, names: dict[str, str]) -> None:
        """Shows these items, under these names, in this order."""
        for name, text in names.items():
            self._items[name].label = {"value": text}
        items = [self._items[name] for name in names]
        if self._legend.items != items:
            self._legend.items = items
