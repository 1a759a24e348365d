r"""What all pictures have in common: tools, text alternatives, colours that follow the page."""

from __future__ import annotations

__all__ = [
    "Theme",
    "add_hover",
    "at_most",
    "decimal_step_above",
    "describe",
    "entitle",
    "pane",
    "picture",
    "script",
    "set_range",
    "step_above",
]

import math
from collections.abc import Callable
from typing import Any

import panel as pn
from bokeh.models import (
    BoxInteractionHandles,
    CustomAction,
    CustomJS,
    Filter,
    HoverTool,
    LabelingPolicy,
    Node,
    Range1d,
    Renderer,
    Scale,
    SelectionPolicy,
    Ticker,
    TickFormatter,
    Title,
)
from bokeh.models.annotations.geometry import AreaVisuals
from bokeh.plotting import figure

from amci_explorer.js.scripts import FIGURES
from amci_explorer.plots.colours import Style
from amci_explorer.server.compat import Clickable
from amci_explorer.views.style import LOW, NARROW

# Scripts find what they are of by themselves: one of each serves all pictures.
SAVE_SVG = """
    const view = [...Bokeh.index.query(v => v.model.toolbar?.tools.includes(cb_obj))][0]
    if (view == null) { return }
    view.export("svg").to_blob().then(blob => {
        const link = document.createElement("a")
        link.href = URL.createObjectURL(blob)
        link.download = view.model.name + ".svg"
        link.click()
        URL.revokeObjectURL(link.href)
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
:host { opacity: var(--tools, 1); transition: opacity 0.15s; }
div { --button-height: 24px; }
"""
# Parts that hold none of these, and parts that do.
STATELESS = (
    (AreaVisuals, Filter, LabelingPolicy, Node, Scale, SelectionPolicy, Ticker),
    (BoxInteractionHandles, TickFormatter),
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
    tools: str | None = None,
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
    created = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        x_axis_label=x_label,
        y_axis_label=y_label,
        tools="pan,box_zoom,wheel_zoom,reset" if tools is None else tools,
        # A finger that scrolls the page must not drag the picture.
        active_drag=None,
        active_scroll=None,
        toolbar_location="right",
        # The frame keeps its place when the numbers beside it grow.
        min_border_left=82,
        min_border_right=6,
        html_attributes={"role": "img", "aria-label": alternative},
        stylesheets=[WITH_TOOLS],
        **options,
    )
    created.toolbar.update(logo=None, autohide=False, stylesheets=[TOOLS])
    created.js_on_change("inner_width", script(created, FIGURES))
    # Empty it takes no room. One that came and went with f would be unknown to the server where
    # both happen in one message, and what the page says of its colours an error.
    created.title = Title()
    created.add_tools(
        "save",
        CustomAction(
            icon=SVG_ICON,
            description="Save as SVG",
            callback=script(created, SAVE_SVG),
        ),
    )
    created.xaxis.ticker.desired_num_ticks = 6
    return created


def at_most(height: int) -> str:
    """A style sheet of a figure, by which it is no higher than this on a low, narrow screen."""
    return f"@media {LOW} and {NARROW} {{ :host {{ max-height: {height}px !important; }} }}"


def add_hover(
    shown: figure, renderers: list[Any], tips: list[tuple[str, str]], *, mode: str = "mouse"
) -> HoverTool:
    """Shows values at the pointer, with no button of its own in the toolbar."""
    tool = HoverTool(renderers=renderers, tooltips=tips, mode=mode, visible=False)
    shown.add_tools(tool)
    return tool


class Picture(Clickable):
    """A figure in the page."""

    def entitle(self, f: str) -> None:
        """Names another f in it."""
        self.object.title.text = f and f"f = {f}"


def pane(shown: figure) -> pn.pane.Bokeh:
    """Puts a figure into the page, when all of its parts are there."""
    _lighten(shown)
    return Picture(shown, sizing_mode="stretch_width", margin=0)


def describe(shown: figure, text: str) -> None:
    """Renews the text alternative of a picture."""
    shown.html_attributes = {"role": "img", "aria-label": text}


def entitle(part: Any, f: str) -> None:
    """Names another f in the pictures of a part of the page, so that saved ones name it too."""
    for each in part.select(lambda part: hasattr(part, "entitle")):
        each.entitle(f)


def set_range(axis: Range1d, low: float, high: float) -> None:
    """Moves an axis, and where the reset tool leads back to."""
    if (axis.start, axis.end, axis.reset_end) != (low, high, high):
        axis.update(start=low, end=high, reset_start=low, reset_end=high)


def script(shown: figure, code: str) -> CustomJS:
    """A script, of which the pictures of a page have one together."""
    kept = _shared(shown)
    if code not in kept:
        kept[code] = CustomJS(code=code)
    found: CustomJS = kept[code]
    return found


def step_above(wanted: float, steps: tuple[float, ...]) -> float:
    """The least of the steps that is enough, or the largest."""
    return next((step for step in steps if step >= wanted), steps[-1])


def decimal_step_above(wanted: float, steps: tuple[float, ...]) -> float:
    """The least of the steps from 1 to 10, times a power of ten, that is enough."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return power * step_above(wanted / power, steps)


def _shared(shown: figure) -> dict[Any, Any]:
    """What the pictures of a page share; kept with its document, so that it ends with it."""
    kept: dict[Any, Any] = vars(pn.state.curdoc or shown).setdefault("stateless", {})
    return kept


def _lighten(shown: figure) -> None:
    """Leaves out what a page need not hold: each model costs time, on both sides.

    Nothing is ever selected or muted, and what has no state of its own serves the whole page.
    """
    views: dict[str, Any] = {}
    for part in shown.renderers:
        part.update(nonselection_glyph="auto", muted_glyph="auto")
        part.view = views.setdefault(part.data_source.id, part.view)
    kept = _shared(shown)
    for kinds in STATELESS:
        for model in shown.references():
            for name in model.properties_with_refs():
                part = getattr(model, name)
                if isinstance(part, kinds) and not isinstance(part, Renderer):
                    key = type(part), str(part.properties_with_values(include_defaults=False))
                    setattr(model, name, kept.setdefault(key, part))


class Theme:
    """Remembers what is drawn in which style, to draw it again when the page turns dark."""

    def __init__(self) -> None:
        self._strokes: list[Callable[[bool], None]] = []

    def line(self, style: Style) -> dict[str, Any]:
        """Properties of a line in this style on a light page."""
        return {"line_color": style.light, "line_dash": list(style.dash) or "solid"}

    def follow(self, model: Any, style: Style, *properties: str) -> Any:
        """Has colour properties of a Bokeh model follow the page's theme; returns the model."""

        def paint(dark: bool) -> None:
            model.update(**dict.fromkeys(properties, style.colour(dark)))

        paint(False)
        self._strokes.append(paint)
        return model

    def paint(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        for stroke in self._strokes:
            stroke(dark)
