r"""What all pictures have in common: tools, text alternatives, colours that follow the page."""

from __future__ import annotations

__all__ = [
    "Theme",
    "dress",
    "entitle",
    "entitle_all",
    "give_up_names",
    "lighten",
    "pane",
    "picture",
]

from typing import Any

import panel as pn
from bokeh.models import (
    CustomAction,
    CustomJS,
    Filter,
    LabelingPolicy,
    SaveTool,
    Scale,
    SelectionPolicy,
    Ticker,
    TickFormatter,
)
from bokeh.models.annotations.geometry import AreaVisuals
from bokeh.plotting import figure

from amci_explorer.colours import Style
from amci_explorer.plots.style import bare_figure, describe
from amci_explorer.server.compat import ACCESSIBLE

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


def picture(
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
    shown.update(name=name, stylesheets=[WITH_TOOLS])
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
    for each in part.select(lambda part: hasattr(part, "entitle")):
        each.entitle(problem, f)


class Theme:
    """Remembers what is drawn in which style, to draw it again when the page turns dark."""

    def __init__(self) -> None:
        self._drawn: list[tuple[Any, Style, tuple[str, ...]]] = []

    def follow(self, model: Any, style: Style, *properties: str) -> Any:
        """Has colour properties of a Bokeh model follow the page's theme; returns the model."""
        model.update(**dict.fromkeys(properties, style.light))
        self._drawn.append((model, style, properties))
        return model

    def paint(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        for model, style, properties in self._drawn:
            model.update(**dict.fromkeys(properties, style.colour(dark)))
