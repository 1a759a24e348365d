r"""Small inputs: lists, buttons and text fields that say what is wrong."""

from __future__ import annotations

__all__ = [
    "UNSEEN_LABEL",
    "Message",
    "Typed",
    "choice",
    "copying",
    "download",
    "flat_button",
    "select",
]

from collections.abc import Callable
from html import escape
from typing import Any

import panel as pn
import panel_material_ui as pmui

from amci_explorer.server.compat import Prompt, PromptText
from amci_explorer.server.session import callback
from amci_explorer.views.layout import HTML

# As Material's fields look, whose own list is no list for assistive technology.
LIST = """
:host { position: relative; }
label { position: absolute; z-index: 1; top: -0.55em; left: 9px; padding: 0 5px; line-height: 1.1;
        font-size: 0.75rem; color: var(--muted);
        background: linear-gradient(transparent 45%, var(--paper) 45%); }
.bk-input-group { margin: 0; }
select.bk-input { width: 100%; height: 36px; padding: 0 6px 0 9px; margin: 0; font: inherit;
         font-size: 1rem; text-overflow: ellipsis; border-radius: 4px;
         border: 1px solid color-mix(in srgb, currentColor 45%, transparent); }
/* Bokeh's arrow is black. */
select:not([multiple]).bk-input {
  background: linear-gradient(45deg, transparent 50%, currentColor 50%) right 14px top 50%,
              linear-gradient(-45deg, transparent 50%, currentColor 50%) right 9px top 50%;
  background-size: 5px 5px; background-repeat: no-repeat; }
select.bk-input, option { color: var(--ink); background-color: var(--paper) !important; }
select.bk-input:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }
"""
UNSEEN_LABEL = """
.MuiFormLabel-root { position: absolute; width: 1px; height: 1px; overflow: hidden;
                     clip-path: inset(50%); }
"""
# Where a page may not write to the clipboard (plain http from another machine), the user may.
COPY = """
    const text = %s, label = "%s"
    const copied = navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject()
    copied.then(() => {
        source.data.label = "Copied"
        window.setTimeout(() => { source.data.label = label }, 2000)
    }, () => window.prompt(label, text))
"""
FLAT: dict[str, Any] = {"variant": "outlined", "size": "small", "margin": 0}
WRONG = "p { margin: 0; font-size: var(--small); line-height: 1.4; color: #d32f2f; }"


class Select(Prompt, pn.widgets.Select):
    """A list whose choice reaches the server without delay."""


def select(label: str, options: list[str] | dict[str, Any], **more: Any) -> Select:
    """A list to choose from, at first the first; as wide as its place."""
    first = next(iter(options.values() if isinstance(options, dict) else options), None)
    settings = {"value": first, "sizing_mode": "stretch_width", "stylesheets": [LIST]} | more
    return Select(label=label, options=options, **settings)


def choice(label: str, options: list[Any] | dict[str, Any], **more: Any) -> pmui.RadioButtonGroup:
    """A row of buttons, one of them pressed; the label is for assistive technology."""
    return pmui.RadioButtonGroup(
        options=options,
        label=label,
        sx={"& .MuiToggleButton-root": {"textTransform": "none", "py": "3px"}},
        stylesheets=[UNSEEN_LABEL],
        **{"size": "small", "margin": 0} | more,
    )


def flat_button(
    label: str, act: Callable[[Any], Any] | None = None, **options: Any
) -> pmui.Button:
    """A small button, as wide as its place unless an option says otherwise."""
    looks = FLAT | {"sizing_mode": "stretch_width"} | options
    return pmui.Button(label=label, on_click=act and callback(act), **looks)


def download(label: str, make: Callable[[], Any] | None, **options: Any) -> pmui.FileDownload:
    """A small button that downloads what a function makes."""
    return pmui.FileDownload(label=label, callback=make, **FLAT | options)


def copying(label: str, text: str) -> pmui.Button:
    """A button that copies a text of the page, and says that it did.

    Arguments:
        label: What it copies.
        text: What is copied, in JavaScript.
    """
    created = flat_button(label)
    created.js_on_click({}, COPY % (text, label))
    return created


class Message(HTML):
    """A line below a control that says what is wrong with its value; gone when nothing is."""

    def __init__(self) -> None:
        super().__init__("", WRONG, visible=False)

    def say(self, text: str = "") -> None:
        """Shows what is wrong, or with no text hides."""
        self.param.update(object=f'<p role="alert">{escape(text)}</p>', visible=bool(text))


class Typed(PromptText, pmui.TextInput):
    """A text field whose text has reached the server before a button is pressed.

    Arguments:
        label: Its label.
        value: Its text.
        description: A sentence of help, below it while nothing is wrong.
    """

    def __init__(self, label: str, value: str, description: str) -> None:
        self._help = description
        looks = {"size": "small", "sizing_mode": "stretch_width", "margin": (6, 0)}
        super().__init__(label=label, value=value, helper_text=description, **looks)

    def complain(self, text: str = "") -> None:
        """Says what is wrong with what was asked for, or nothing any more."""
        self.param.update(error_state=bool(text), helper_text=text or self._help)
