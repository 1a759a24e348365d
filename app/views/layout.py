r"""Cards: a title, tools, content and a few sentences of help, all in the same form."""

from __future__ import annotations

__all__ = ["HTML", "card", "heading"]

from collections.abc import Sequence
from typing import Any

import panel as pn
import panel_material_ui as pmui

TITLE = """
h2 { font-size: 1.05rem; font-weight: 600; margin: 0; line-height: 1.4; }
h3 { font-size: 0.8rem; font-weight: 600; margin: 0; letter-spacing: 0.06em;
     text-transform: uppercase; opacity: 0.75; }
"""
HELP = """
details { font-size: 0.85rem; line-height: 1.5; }
summary { cursor: pointer; opacity: 0.8; width: max-content; border-radius: 4px; }
summary:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
p { margin: 0.4rem 0 0 0; max-width: 75ch; }
"""


class HTML(pn.pane.HTML):
    """HTML that fills the width and brings its own style."""

    def __init__(self, content: str = "", *styles: str, **options: Any) -> None:
        settings = {"sizing_mode": "stretch_width", "margin": 0} | options
        super().__init__(content, stylesheets=list(styles), **settings)


def heading(text: str, level: int = 3) -> HTML:
    """A heading, as assistive technology expects it."""
    return HTML(f"<h{level}>{text}</h{level}>", TITLE)


def card(
    title: str,
    *content: Any,
    tools: Sequence[Any] = (),
    help_text: str = "",
) -> pmui.Paper:
    """Puts content under a title, with tools at its right and help below.

    Arguments:
        title: What the card is about.
        content: What it shows, from top to bottom.
        tools: Small controls of this card alone.
        help_text: How to read it.
    """
    top = pmui.Row(
        heading(title, 2),
        *tools,
        sizing_mode="stretch_width",
        margin=(0, 0, 8, 0),
        styles={"align-items": "center"},
    )
    more = [
        HTML(
            f"<details><summary>How to read this</summary><p>{help_text}</p></details>",
            HELP,
            margin=(8, 0, 0, 0),
        )
    ]
    return pmui.Paper(
        top,
        *content,
        *(more if help_text else []),
        variant="outlined",
        elevation=0,
        sizing_mode="stretch_width",
        margin=0,
        sx={
            "p": {"xs": "10px", "sm": "14px 16px"},
            "borderRadius": "10px",
            "minWidth": 0,
        },
    )
