r"""A HoloViews picture in the page: redrawn in place, with words for those who cannot see it."""

from __future__ import annotations

__all__ = ["WORDS", "Picture"]

from collections.abc import Callable
from typing import Any

import holoviews as hv
import panel as pn
from bokeh.models import HoverTool
from bokeh.plotting import figure

from amci_explorer.plots.style import describe
from amci_explorer.server.session import callback
from amci_explorer.views.figures import dress, entitle, give_up_names
from amci_explorer.views.layout import column

# Of what is said below a picture, with room for two lines.
WORDS = """
p { margin: 6px 0 0; font-size: var(--text); line-height: 1.5; max-width: 90ch;
    min-height: 3em; }
"""


class Picture(pn.pane.HoloViews):
    """Creates a picture, empty, with the room that it will take.

    A picture whose parts stay the same is redrawn in place, so that nothing flickers while runs
    come in. Its sources are called after it and their element: `reuse-map-yours`. What stands in
    the page is its `panel`.

    Arguments:
        called: Its name in files and tests.
        height: Height in pixels.
        moved: Called with the place of a click or a drag, and whether that is its end.
    """

    def __init__(
        self,
        called: str,
        *,
        height: int,
        moved: Callable[[float, float, bool], None] | None = None,
    ) -> None:
        looks: dict[str, Any] = {"sizing_mode": "stretch_width", "margin": 0}
        super().__init__(None, linked_axes=False, widgets={}, **looks)
        self._called, self._moved = called, moved
        self._words, self._titles = "", ("", "")
        self._parts: list[Any] = []
        self._pipe = hv.streams.Pipe()
        self.figure: figure | None = None
        self.shown: Any = None
        # Without a picture it has no height.
        self.panel = column(self, stylesheet=f":host {{ min-height: {height}px; }}")

    def draw(self, picture: hv.Overlay, words: str) -> None:
        """Draws a picture, in place if it has the parts of the last one.

        Arguments:
            picture: What is shown.
            words: The same, for someone who cannot see it.
        """
        self._words = words
        self.shown = picture = picture.opts(hv.opts.Overlay(hooks=[self._dress]))
        parts = [(type(part), part.group, part.label) for part in picture]
        if parts == self._parts:
            self._pipe.send(picture)
            self._label()
        else:
            self._parts, self._pipe = parts, hv.streams.Pipe(data=picture)
            self.object = hv.DynamicMap(lambda data: data, streams=[self._pipe])

    def clear(self) -> None:
        """Shows nothing, and keeps the room."""
        if self.figure is not None:
            give_up_names(self.figure)
        self._parts, self.shown, self.figure, self.object = [], None, None, None

    def source(self, part: str) -> Any:
        """A part's data in the page, to move what follows a drag; None before it is there."""
        name = f"{self._called}-{part}".lower()
        return None if self.figure is None else self.figure.select_one({"name": name})

    def entitle(self, problem: str, f: str) -> None:
        """Names the problem in the picture's file, and another f in the picture."""
        self._titles = problem, f
        self._label()

    def _label(self) -> None:
        if self.figure is not None:
            describe(self.figure, self._words)
            entitle(self.figure, *self._titles)

    def _dress(self, plot: Any, picture: Any) -> None:
        """Gives a figure its name, tools and words; called whenever HoloViews has drawn it."""
        if plot.state is self.figure:
            return
        if self.figure is not None:
            give_up_names(self.figure)
        self.figure = plot.state
        self.figure.min_border_left = 60
        for tool in self.figure.select({"type": HoverTool}):
            tool.visible = False
        dress(self.figure, self._called)
        for part, drawn in zip(picture, plot.subplots.values(), strict=True):
            if "source" in drawn.handles:
                label = part.label and f"-{part.label}"
                drawn.handles["source"].name = f"{self._called}-{part.group}{label}".lower()
        self._label()
        for event in ("tap", "pan", "panend") if self._moved else ():
            self.figure.on_event(event, callback(self._take))

    def _take(self, event: Any) -> None:
        if self._moved is not None and event.x is not None:
            self._moved(event.x, event.y, event.event_name != "pan")
