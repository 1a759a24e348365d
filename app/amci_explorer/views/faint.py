r"""The case that is kept to compare with: its pictures, faint, below those of another case."""

from __future__ import annotations

__all__ = ["Faint", "Kept"]

from collections.abc import Callable
from typing import Any

import panel as pn
from bokeh.models import ColumnDataSource, GlyphRenderer, ImageURL, Range1d, Text
from bokeh.models.glyphs import Image
from bokeh.plotting import figure

from amci_explorer.compute.results import Result
from amci_explorer.views.figures import set_range

# How much of a line's, or an area's, ink is left.
FAINT = 0.35
ALPHAS = ("line_alpha", "fill_alpha")
COLOURS = ("line_color", "fill_color")
# What would hide the picture below it, or be read as part of it.
LEFT_OUT = (Image, ImageURL, Text)


class Faint:
    """Creates the layer below all pictures of a panel, empty.

    Arguments:
        panel: What holds the pictures.
    """

    def __init__(self, panel: Any) -> None:
        self._panel = panel
        self._copies: dict[figure, list[tuple[GlyphRenderer, GlyphRenderer]]] = {}
        # Pictures may share the data that they draw.
        self._sources: dict[str, ColumnDataSource] = {}
        self._ends: dict[Range1d, tuple[float, float]] = {}

    @property
    def taken(self) -> bool:
        """Whether anything is kept."""
        return bool(self._ends)

    def take(self) -> None:
        """Keeps what the pictures draw now."""
        for shown in {pane.object for pane in self._panel.select(pn.pane.Bokeh)}:
            if shown not in self._copies:
                self._copies[shown] = _copies(shown, self._sources)
            for drawn, copy in self._copies[shown]:
                copy.data_source.data = dict(drawn.data_source.data)
                copy.visible = drawn.visible
            for axis in (shown.x_range, shown.y_range):
                self._ends[axis] = axis.start, axis.end
        self.recolour()

    def widen(self) -> None:
        """Has the axes show also what is kept, unless the user has zoomed; after each drawing."""
        for axis, (low, high) in self._ends.items():
            if (axis.start, axis.end) == (axis.reset_start, axis.reset_end):
                set_range(axis, min(low, axis.start), max(high, axis.end))

    def clear(self) -> None:
        """Keeps nothing."""
        self._ends.clear()
        for copies in self._copies.values():
            for _, copy in copies:
                copy.visible = False

    def recolour(self) -> None:
        """Follows the colours of what it copies."""
        for copies in self._copies.values():
            for drawn, copy in copies:
                copy.glyph.update(**_values(drawn.glyph, COLOURS))


class Kept:
    """Creates what takes the kept case's results for a card.

    Arguments:
        card: The card.
    """

    def __init__(self, card: Any) -> None:
        self._card = card
        self.name = f"{card.name}-a"
        self.begin: Callable[[], None] = lambda: None

    def take(self, result: Result) -> None:
        """Draws a result when it is complete."""
        if result.complete:
            self._card.draw_kept(result)

    def end(self, message: str | None) -> None:
        """It has come, or it is said why not."""
        self._card.end_kept(message)


def _copies(
    shown: figure, sources: dict[str, ColumnDataSource]
) -> list[tuple[GlyphRenderer, GlyphRenderer]]:
    """Each renderer of a figure that draws lines or areas, and its faint copy below all others."""
    found = []
    for drawn in [each for each in shown.renderers if isinstance(each, GlyphRenderer)]:
        if isinstance(drawn.glyph, LEFT_OUT) or "draws" in drawn.tags:
            continue
        glyph = drawn.glyph.clone()
        for name, alpha in _values(glyph, ALPHAS).items():
            # A column of the data may say instead how much there is.
            fixed = getattr(alpha, "value", alpha)
            if isinstance(fixed, int | float):
                setattr(glyph, name, FAINT * fixed)
        of = drawn.data_source
        sources.setdefault(of.id, ColumnDataSource(dict(of.data), name=f"{of.name}-a"))
        copy = GlyphRenderer(
            data_source=sources[of.id], glyph=glyph, level="underlay", visible=drawn.visible
        )
        shown.renderers.append(copy)
        found.append((drawn, copy))
    return found


def _values(glyph: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(glyph, name) for name in names if hasattr(glyph, name)}
