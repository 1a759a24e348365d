r"""Cards: a title, tools, content and a few sentences of help, all in the same form."""

from __future__ import annotations

__all__ = [
    "HTML",
    "NOTE",
    "ON_SCREEN",
    "WIDE",
    "card",
    "column",
    "hide",
    "row",
    "sections",
    "side_by_side",
]

from collections.abc import Sequence
from types import FunctionType, MethodType
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param

from amci_explorer.server.compat import Pane
from amci_explorer.server.session import callback

TITLE = """
h2 { font-size: var(--text); font-weight: 600; margin: 0; line-height: 1.4; }
"""
TOP = """
:host { flex-wrap: wrap !important; }
:host > div:first-of-type { flex: 1 0 auto !important; width: auto !important; }
"""
# A sentence about a control, below it.
NOTE = "p { margin: 0; font-size: var(--small); line-height: 1.4; color: var(--muted); }"
# For controls, which paper does without.
ON_SCREEN = "@media print { :host { display: none !important; } }"
# A wide table: a shadow at its edge says that more follows to the right.
WIDE = """
.wide { overflow-x: auto; font-variant-numeric: tabular-nums; background:
    linear-gradient(90deg, transparent, var(--paper) 60%) right / 40px 100% no-repeat local,
    linear-gradient(90deg, transparent, rgb(0 0 0 / 25%)) right / 14px 100% no-repeat scroll; }
.wide td { white-space: nowrap; }
@media print { .wide { overflow: visible; } }
"""
CARD = """
:host { background: var(--paper); border-radius: 10px; padding: 8px 16px 12px;
        min-width: 0; box-sizing: border-box; }
@media (max-width: 599.95px) { :host { padding: 10px; } }
@media print { :host { break-inside: avoid; } }
"""
SECTIONS = {
    # Material's own text follows the page's theme late.
    "color": "var(--ink)",
    "boxShadow": "none",
    "background": "transparent",
    "borderTop": "1px solid var(--line)",
    "&::before": {"display": "none"},
    "& .MuiAccordionSummary-root": {"minHeight": "40px", "padding": "0 4px"},
    "& .MuiAccordionSummary-content": {"margin": "8px 0"},
    "& .MuiAccordionSummary-expandIconWrapper": {"color": "inherit"},
    "& .title": {"fontSize": "var(--text)", "fontWeight": 600},
}


class HTML(Pane):
    """HTML that fills the width and brings its own style."""

    html_attributes = param.Dict(default={}, doc="Attributes of the element around it.")

    def __init__(self, content: str = "", *styles: str, **options: Any) -> None:
        settings = {"sizing_mode": "stretch_width", "margin": 0} | options
        super().__init__(content, stylesheets=list(styles), **settings)


class Column(pn.Column):
    """A column whose element has attributes of its own."""

    html_attributes = param.Dict(default={}, doc="Attributes of its element, such as a role.")


def column(*content: Any, gap: int = 0, stylesheet: str = "", **options: Any) -> Column:
    """Content below content, as wide as there is room."""
    return _stack(Column, content, gap, stylesheet, options)


def row(*content: Any, gap: int = 0, stylesheet: str = "", **options: Any) -> pn.Row:
    """Content beside content, centred on one line."""
    return _stack(pn.Row, content, gap, stylesheet + ":host { align-items: center; }", options)


def side_by_side(*content: Any, least: int, gap: int = 16) -> pn.Column:
    """Content in columns of equal width, below one another where they would be too narrow.

    Not in Panel's FlexBox: in that a Bokeh figure can come out without any width, and the page
    then waits for it for good.

    Arguments:
        content: What the columns hold.
        least: Least width of a column in pixels.
        gap: Space between columns in pixels.
    """
    wrapped = ":host { flex-flow: row wrap !important; align-items: stretch !important; }"
    place = f":host {{ flex: 1 1 {least}px !important; min-width: 0; width: auto !important; }}"
    # A figure finds its width in a column of its own; all else does without one.
    parts = [column(part) if isinstance(part, pn.pane.Bokeh) else part for part in content]
    for part in parts:
        if place not in part.stylesheets:
            part.stylesheets = [*part.stylesheets, place]
    return column(*parts, gap=gap, stylesheet=wrapped)


def sections(*named: tuple[str, Any]) -> pmui.Accordion:
    """Parts under their titles, which are in the page while they are unfolded.

    Arguments:
        named: Titles and parts; or functions that make the parts, when they are first unfolded.
    """
    looks = {"active": [], "disable_gutters": True, "sizing_mode": "stretch_width", "margin": 0}
    # Not `dynamic`: what that brings is no part of the page's document, and cannot be pressed.
    places = [column() for _ in named]
    titled = [(title, place) for (title, _), place in zip(named, places, strict=True)]
    parts = [part for _, part in named]
    created = pmui.Accordion(*titled, sx=SECTIONS, **looks)

    def unfold(event: Any) -> None:
        for i, place in enumerate(places):
            if (i in event.new) != bool(len(place)):
                if isinstance(parts[i], FunctionType | MethodType):
                    parts[i] = parts[i]()
                place[:] = [parts[i]] if i in event.new else []

    # A page can open with some of them unfolded.
    created.param.watch(callback(unfold, early=True), "active")
    return created


def hide(part: Any, hidden: bool) -> None:
    """Hides a part by its style, or shows it.

    What turns invisible by Panel's own means has the whole page measured and laid out again. Not
    for pictures: without a width a picture keeps the page waiting.
    """
    # A page does not take back what is no longer named.
    part.styles = {"display": "none" if hidden else ""}


def card(
    title: str,
    *content: Any,
    tools: Sequence[Any] = (),
) -> pn.Column:
    """Puts content under a title, with tools at its right.

    Arguments:
        title: What the card is about.
        content: What it shows, from top to bottom.
        tools: Small controls of this card alone.
    """
    return column(
        row(HTML(f"<h2>{title}</h2>", TITLE), *tools, margin=(0, 0, 6, 0), stylesheet=TOP),
        *content,
        stylesheet=CARD,
    )


def _stack(kind: Any, content: Any, gap: int, stylesheet: str, options: Any) -> Any:
    # Panel's own layouts: a Material one costs a React root each, on both sides of the wire.
    settings = {"sizing_mode": "stretch_width", "margin": 0} | options
    # Panel lets no layout be taller than the window, and what comes next would lie on it. Its own
    # style is taken away and put back when the page is measured: without a display here every
    # box inside would be made anew, which a browser counts as a shift of the layout; and without
    # a direction a page that is measured is lower for a moment, and scrolls up.
    own = f"display: flex; flex-direction: {'row' if kind is pn.Row else 'column'}; gap: {gap}px;"
    own += "max-height: none !important; min-width: 0 !important;"
    # The button to scroll with that a column brings would take a gap of its own.
    sheet = f":host {{ {own} }} .scroll-button {{ display: none !important; }} {stylesheet}"
    return kind(*content, stylesheets=[sheet], **settings)
