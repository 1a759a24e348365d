r"""Small inputs: text fields that say what is wrong, and buttons."""

from __future__ import annotations

__all__ = [
    "CountField",
    "Message",
    "Scripted",
    "Select",
    "Typed",
    "choice",
    "flat_button",
    "header_button",
    "header_looks",
    "select",
]

from collections.abc import Callable
from html import escape
from typing import Any

import panel as pn
import panel_material_ui as pmui
from bokeh.models import CustomJS

from amci_explorer.server.session import callback
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.state import State
from amci_explorer.views.layout import HTML

# Panel waits 50 ms before it looks at an input; more than a slider's move takes it altogether.
MILLISECONDS_OF_DEBOUNCE = 1
# As Material's fields look, whose own list is no list for assistive technology.
LIST = """
:host { position: relative; }
label { position: absolute; z-index: 1; top: -0.55em; left: 9px; padding: 0 5px; line-height: 1.1;
        font-size: 0.75rem; color: var(--panel-on-surface-color, inherit); opacity: 0.8; }
label::before { content: ""; position: absolute; z-index: -1; inset: 0;
                background: linear-gradient(transparent 45%, var(--paper) 45%); }
.bk-input-group { margin: 0; }
select.bk-input { appearance: none; width: 100%; height: 36px; padding: 0 30px 0 13px; margin: 0;
         font: inherit; font-size: 1rem; text-overflow: ellipsis; cursor: pointer;
         color: var(--panel-on-surface-color, inherit);
         background: var(--panel-surface-color, canvas) !important;
         border: 1px solid color-mix(in srgb, currentColor 45%, transparent);
         border-radius: 4px; }
select.bk-input:hover { border-color: currentColor; }
select.bk-input:focus-visible { outline: 2px solid var(--panel-primary-color, currentColor);
                                outline-offset: -2px; border-color: transparent; }
select.bk-input:disabled { opacity: 0.6; cursor: default; }
option { color: var(--panel-on-surface-color, canvastext);
         background: var(--panel-surface-color, canvas); }
:host::after { content: ""; position: absolute; right: 14px; bottom: 15px; width: 7px; height: 7px;
               border: solid var(--panel-on-surface-color, currentColor);
               border-width: 0 2px 2px 0; transform: rotate(45deg); opacity: 0.7;
               pointer-events: none; }
"""
UNSEEN_LABEL = """
.MuiFormLabel-root { position: absolute; width: 1px; height: 1px; overflow: hidden;
                     clip-path: inset(50%); }
"""
# Where a page may not write to the clipboard (plain http from another machine), a field is copied.
COPY = """
    const text = %s, label = "%s"
    const field = () => {
        const area = document.createElement("textarea")
        area.value = text
        document.body.appendChild(area)
        area.select()
        const done = document.execCommand("copy")
        area.remove()
        if (!done) { throw new Error("not copied") }
    }
    const say = words => {
        cb_obj.origin.data.label = words
        window.setTimeout(() => { cb_obj.origin.data.label = label }, 2000)
    }
    const copied = navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject()
    copied.catch(field).then(() => say("Copied"), () => window.prompt(label, text))
"""
WRONG = "p { margin: 0; font-size: var(--small); line-height: 1.4; color: #d32f2f; }"


class Select(pn.widgets.Select):
    """A list whose choice reaches the server without delay."""

    _debounce = MILLISECONDS_OF_DEBOUNCE


def select(label: str, options: list[str] | dict[str, Any], **more: Any) -> Select:
    """A list to choose from, at first the first; as wide as its place."""
    first = next(iter(options.values() if isinstance(options, dict) else options), None)
    settings = {"value": first, "sizing_mode": "stretch_width", "stylesheets": [LIST]} | more
    return Select(label=label, options=options, **settings)


def choice(label: str, options: list[Any] | dict[str, Any], **more: Any) -> pmui.RadioButtonGroup:
    """A row of buttons of which one is pressed; the label is for assistive technology."""
    settings = {"size": "small", "margin": 0} | more
    return pmui.RadioButtonGroup(
        options=options,
        label=label,
        sx={"& .MuiToggleButton-root": {"textTransform": "none", "py": "3px"}},
        stylesheets=[UNSEEN_LABEL],
        **settings,
    )


class Typed(pmui.TextInput):
    """A text field whose text has reached the server before a button is pressed."""

    _debounce = MILLISECONDS_OF_DEBOUNCE

    def _server_change(
        self, doc: Any, ref: str, subpath: str | None, attr: str, old: Any, new: Any
    ) -> None:
        super()._server_change(doc, ref, subpath, attr, old, new)
        # Panel would wait, and the button be answered first.
        self._change_event(doc)


def flat_button(
    label: str, act: Callable[[Any], Any], *, chip: bool = False, **options: Any
) -> pmui.Button:
    """A small button as wide as its place or, as a chip, as its words."""
    settings: dict[str, Any] = {"variant": "outlined", "size": "small", "margin": 0} | options
    settings["sx"] = {"textTransform": "none"} | ({"borderRadius": "16px"} if chip else {})
    if not chip:
        settings["sizing_mode"] = "stretch_width"
    created = pmui.Button(label=label, **settings)
    created.on_click(callback(act))
    return created


def header_looks(label: str, *, on_phones: bool = True) -> dict[str, Any]:
    """How a button in the page's header looks, and whether phones have room for it."""
    there = {} if on_phones else {"@media (max-width: 599.95px)": {"display": "none"}}
    return {
        "label": label,
        "variant": "outlined",
        "size": "small",
        "margin": (0, 4, 0, 12),
        "sx": {"textTransform": "none", "color": "#ffffff", "borderColor": "#ffffff"} | there,
    }


def header_button(label: str, act: Callable[[Any], Any]) -> pmui.Button:
    """A button in the page's header."""
    created = pmui.Button(**header_looks(label))
    created.on_click(callback(act))
    return created


def copying(label: str, text: str) -> pmui.Button:
    """A button that copies a text of the page, and says that it did.

    Arguments:
        label: What it copies.
        text: What is copied, in JavaScript.
    """
    script = CustomJS(code=COPY % (text, label))
    return Scripted(
        script,
        label=label,
        size="small",
        variant="outlined",
        sizing_mode="stretch_width",
        margin=0,
    )


class Scripted(pmui.Button):
    """A button that runs a script in the page.

    Where there is one of Panel's own links, Panel searches the page for all of their ends whenever
    a layout changes.
    """

    def __init__(self, script: CustomJS, **options: Any) -> None:
        super().__init__(**options)
        self._script = script

    def _get_model(self, *place: Any, **more: Any) -> Any:
        model = super()._get_model(*place, **more)
        model.js_on_event("dom_event", self._script)
        return model


class Message(HTML):
    """A line below a control that says what is wrong with its value; gone when nothing is."""

    def __init__(self) -> None:
        super().__init__("", WRONG, visible=False)

    def say(self, text: str = "") -> None:
        """Shows what is wrong, or with no text hides."""
        self.param.update(object=f'<p role="alert">{escape(text)}</p>', visible=bool(text))


class CountField:
    """Creates a text field for a whole number; a wrong one stays there, with the reason.

    Arguments:
        state: What it changes, and follows.
        name: The field of the state.
        label: Its label.
        description: A sentence of help, below it while nothing is wrong.
    """

    def __init__(self, state: State, name: str, label: str, description: str) -> None:
        self._state, self._name, self._help = state, name, description
        self.widget = pmui.TextInput(
            label=label,
            value=str(getattr(state, name)),
            helper_text=description,
            size="small",
            sizing_mode="stretch_width",
            margin=(6, 0),
        )
        self.widget.param.watch(callback(self._typed), "value")
        state.param.watch(self._show, name)

    def complain(self, text: str) -> None:
        """Says what is wrong with what was asked for."""
        self.widget.param.update(error_state=True, helper_text=text)

    def _show(self, event: Any) -> None:
        self.widget.param.update(value=str(event.new), error_state=False, helper_text=self._help)

    def _typed(self, event: Any) -> None:
        try:
            value = FIELDS[self._name].read(self._state.problem, event.new)
        except ValueError as error:
            self.complain(str(error))
        else:
            self.widget.param.update(error_state=False, helper_text=self._help)
            if value != getattr(self._state, self._name):
                self._state.set(**{self._name: value})
                self._state.commit()
