r"""A HoloViews picture in the page: redrawn in place, with words for those who cannot see it."""

from __future__ import annotations

__all__ = ["Picture", "Words"]

from collections.abc import Callable
from typing import Any

import holoviews as hv
import panel as pn
from bokeh.models import HoverTool
from bokeh.plotting import figure

from amci_explorer.server.session import callback
from amci_explorer.views.figures import dress, entitle, give_up_names
from amci_explorer.views.layout import HTML, column

# Until there is a picture, two axes and a word.
EMPTY = """
:host(.empty) { --line-of: linear-gradient(var(--muted) 0 0); background:
    var(--line-of) 60px calc(100% - 40px) / calc(100% - 80px) 1px no-repeat,
    var(--line-of) 60px 8px / 1px calc(100% - 48px) no-repeat; }
:host(.empty)::after { content: "no result yet"; margin: auto; color: var(--muted); }
"""

WORDS = """
p { margin: 6px 0 0 0; font-size: var(--text); line-height: 1.5; max-width: 90ch;
    min-height: %gem; }
"""

Point = Callable[[float, float], None]


class Picture(pn.pane.HoloViews):
    """Creates a picture, empty, with the room that it will take.

    A picture whose parts stay the same is redrawn in place, so that nothing flickers while runs
    come in. Its sources are called after it and their element: `reuse-map-yours`. What stands in
    the page is its `panel`.

    Arguments:
        called: Its name in files and tests.
        height: Height in pixels.
        moved: Called with the place that was clicked, if that means anything.
        dropped: If there is one, a drag moves too, and this is called at the end of a click or
            drag.
    """

    def __init__(
        self,
        called: str,
        *,
        height: int,
        moved: Point | None = None,
        dropped: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(
            None,
            sizing_mode="stretch_width",
            margin=0,
            linked_axes=False,
            widgets={},
        )
        self._called, self._words, self._titles = called, "", ("", "")
        self._moved, self._dropped = moved, dropped
        self._parts: list[Any] = []
        self._pipe = hv.streams.Pipe()
        self.figure: figure | None = None
        self.shown: Any = None
        # Without a picture it has no height.
        room = f":host {{ min-height: {height}px; }} {EMPTY}"
        self.panel = column(self, stylesheet=room, css_classes=["empty"])

    def draw(self, picture: hv.Element | hv.Overlay, words: str) -> None:
        """Draws a picture, in place if it has the parts of the last one.

        Arguments:
            picture: What is shown.
            words: The same, for someone who cannot see it.
        """
        self._words = words
        kind = hv.opts.Overlay if isinstance(picture, hv.Overlay) else hv.opts.Points
        self.shown = picture = picture.opts(kind(hooks=[self._dress]))
        parts = [(type(each), each.group, each.label) for each in _elements(picture)]
        if parts == self._parts:
            self._pipe.send(picture)
            self._label()
            return
        self._parts, self._pipe = parts, hv.streams.Pipe(data=picture)
        self.object = hv.DynamicMap(lambda data: data, streams=[self._pipe])
        self.panel.css_classes = []

    def clear(self) -> None:
        """Shows nothing, and keeps the room."""
        if self.figure is not None:
            give_up_names(self.figure)
        self._parts, self.shown, self.figure = [], None, None
        self.object = None
        self.panel.css_classes = ["empty"]

    def source(self, group: str) -> Any:
        """An element's data in the page, to move what follows a drag; None before it is there."""
        name = f"{self._called}-{group}".lower()
        return None if self.figure is None else self.figure.select_one({"name": name})

    def entitle(self, problem: str, f: str) -> None:
        """Names the problem in the picture's file, and another f in the picture."""
        self._titles = problem, f
        self._label()

    def _label(self) -> None:
        if self.figure is not None:
            self.figure.html_attributes = {"role": "img", "aria-label": self._words}
            entitle(self.figure, *self._titles)

    def _dress(self, plot: Any, element: Any) -> None:
        """Gives a figure its name, tools and words; called whenever HoloViews has drawn it."""
        if plot.state is self.figure:
            return
        if self.figure is not None:
            give_up_names(self.figure)
        self.figure = shown = plot.state
        shown.min_border_left = 60
        for tool in shown.select({"type": HoverTool}):
            tool.visible = False
        dress(shown, self._called)
        plots = getattr(plot, "subplots", None) or {None: plot}
        for each, drawn in zip(_elements(element), plots.values(), strict=True):
            if "source" in drawn.handles:
                label = each.label and f"-{each.label}"
                drawn.handles["source"].name = f"{self._called}-{each.group}{label}".lower()
        self._label()
        if self._moved is not None:
            shown.on_event("tap", callback(self._take))
        if self._dropped is not None:
            shown.on_event("pan", callback(self._take))
            shown.on_event("panend", callback(self._take))

    def _take(self, event: Any) -> None:
        if self._moved is not None and event.x is not None:
            self._moved(event.x, event.y)
        if self._dropped is not None and event.event_name != "pan":
            self._dropped()


class Words(HTML):
    """Creates what is said below a picture, nothing yet, with room for so many lines."""

    def __init__(self, lines: int = 0, **options: Any) -> None:
        super().__init__("<p></p>", WORDS % (1.5 * lines), **options)

    def say(self, text: str) -> None:
        """Says another text, in HTML."""
        self.object = f"<p>{text}</p>"


def _elements(picture: Any) -> list[hv.Element]:
    return list(picture) if isinstance(picture, hv.Overlay) else [picture]
