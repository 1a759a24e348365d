r"""Pictures in the page, by Bokeh and HoloViews: tools, words for those who cannot see them."""

from __future__ import annotations

__all__ = [
    "WORDS",
    "Picture",
    "dress",
    "empty_figure",
    "entitle",
    "entitle_all",
    "give_up_names",
    "lighten",
    "pane",
]

from collections.abc import Callable
from typing import Any

import holoviews as hv
import panel as pn
from bokeh.models import (
    CustomAction,
    CustomJS,
    Filter,
    HoverTool,
    LabelingPolicy,
    SaveTool,
    Scale,
    SelectionPolicy,
    Ticker,
    TickFormatter,
)
from bokeh.models.annotations.geometry import AreaVisuals
from bokeh.plotting import figure

from amci_explorer.plots.style import bare_figure, describe
from amci_explorer.server.compat import ACCESSIBLE
from amci_explorer.server.session import callback
from amci_explorer.views.layout import column

SAVE_SVG = """
    const view = [...Bokeh.index.query(v => v.model.toolbar?.tools.includes(cb_obj))][0]
    view?.export("svg").to_blob().then(blob => {
        const href = URL.createObjectURL(blob)
        const {filename} = view.model.toolbar.tools.find(({type}) => type == "SaveTool")
        const download = `${filename}.svg`
        Object.assign(document.createElement("a"), {href, download}).click()
        URL.revokeObjectURL(href)
    })
"""
# Tools show while a picture is pointed at or has the focus, and always where nothing can hover.
WITH_TOOLS = """
:host { --tools: 0; }
:host(:hover), :host(:focus-within) { --tools: 1; }
@media (hover: none) { :host { --tools: 1; } }
"""
# Low enough for all of them beside a small picture.
TOOLS = """
:host { opacity: var(--tools, 1) !important; transition: opacity 0.15s; }
div { --button-height: 24px; }
"""
# Of what is said below a picture, with room for two lines.
WORDS = """
p { margin: 6px 0 0; font-size: var(--text); line-height: 1.5; max-width: 90ch;
    min-height: 3em; }
"""
# Parts without a state of their own: one serves all pictures of a page.
STATELESS = (
    *(AreaVisuals, CustomJS, Filter, LabelingPolicy, Scale, SelectionPolicy),
    *(Ticker, TickFormatter),
)
# A page with a vector file's symbol: Bokeh has no icon of its own for it.
SVG_ICON = (
    "data:image/svg+xml;utf8,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' "
    "fill='none' stroke='gray' stroke-width='2' stroke-linecap='round' stroke-linejoin='round'>"
    "<path d='M4 20 L4 4 L14 4 L20 10 L20 20 Z'/><path d='M7 17 C 10 9, 13 19, 17 11'/></svg>"
)


def empty_figure(
    name: str,
    *,
    alternative: str,
    x_label: str,
    y_label: str,
    height: int,
    tools: str = "pan,box_zoom,wheel_zoom,reset",
    **options: Any,
) -> figure:
    """Creates an empty figure as wide as its place.

    Arguments:
        name: Its name in files and tests.
        alternative: What it shows, for someone who cannot see it.
        x_label: Label of the x axis, with the unit.
        y_label: Label of the y axis, with the unit.
        height: Height in pixels.
        tools: Tools beside those that save it.
        options: For `bokeh.plotting.figure`: ranges and kinds of axes.
    """
    created = bare_figure(
        height=height,
        x_axis_label=x_label,
        y_axis_label=y_label,
        tools=f"{tools},save".strip(","),
        toolbar_location="right",
        # The frame keeps its place when the numbers beside it grow.
        min_border_left=82,
        min_border_right=6,
        **options,
    )
    created.xaxis.ticker.desired_num_ticks = 6
    describe(created, alternative)
    dress(created, name)
    return created


def dress(shown: figure, name: str) -> None:
    """Gives a figure its name, keys for who cannot use a mouse, and the tools of all pictures."""
    shown.update(name=name, stylesheets=[WITH_TOOLS, *shown.stylesheets])
    shown.toolbar.update(logo=None, autohide=False, stylesheets=[TOOLS])
    save = CustomJS(code=SAVE_SVG)
    shown.add_tools(CustomAction(icon=SVG_ICON, description="Save as SVG", callback=save))
    shown.js_on_change("inner_width", _shared(CustomJS(code=ACCESSIBLE)))


def give_up_names(old: figure) -> None:
    """Leaves the names of a figure to the one that takes its place.

    The page finds figures by name, and keeps what has left it for a second.
    """
    for model in old.references():
        model.name = None


def pane(shown: figure) -> pn.pane.Bokeh:
    """Puts a figure into the page."""
    lighten(shown)
    return pn.pane.Bokeh(shown, sizing_mode="stretch_width", margin=0)


def lighten(shown: figure) -> None:
    """Takes what a figure does without from its parts; to be called when parts have come."""
    # Nothing is ever selected, muted or filtered: models for that are most of what a page holds.
    views: dict[str, Any] = {}
    for part in shown.renderers:
        view = views.setdefault(part.data_source.id, part.view)
        part.update(nonselection_glyph="auto", muted_glyph="auto", view=view)
    for model in shown.references():
        for name in model.properties_with_refs():
            if isinstance(part := getattr(model, name), STATELESS):
                setattr(model, name, _shared(part))


def _shared(part: Any) -> Any:
    """The one of its kind in a page: kept with the document, so that it ends with it."""
    kept = vars(pn.state.curdoc or part).setdefault("stateless", {})
    key = type(part), str(part.properties_with_values(include_defaults=False))
    return kept.setdefault(key, part)


def entitle(shown: figure, problem: str, f: str) -> None:
    """Names the problem in a picture's file, and another f in the picture."""
    shown.title.text = f and f"f = {f}"
    # To select it would look at all that the figure holds.
    save = next(tool for tool in shown.tools if isinstance(tool, SaveTool))
    save.filename = f"amci-{problem}-{shown.name}"


def entitle_all(part: Any, problem: str, f: str) -> None:
    """Names problem and f in all pictures of a part of the page."""
    for each in part.select(pn.pane.Bokeh):
        if isinstance(each.object, figure):
            entitle(each.object, problem, f)
    for each in part.select(Picture):
        each.entitle(problem, f)


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
