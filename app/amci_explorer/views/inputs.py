r"""Small inputs: text fields that say what is wrong, and buttons."""

from __future__ import annotations

__all__ = [
    "CountField",
    "Message",
    "Scripted",
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

import panel_material_ui as pmui
from bokeh.models import CustomJS

from amci_explorer.compute.session import callback, late
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.state import State
from amci_explorer.views.layout import HTML
from amci_explorer.views.options import MILLISECONDS_OF_DEBOUNCE, choice, select

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


class Typed(pmui.TextInput):
    """A text field whose text has reached the server before a button is pressed."""

    _debounce = MILLISECONDS_OF_DEBOUNCE

    def _server_change(
        self, doc: Any, ref: str, subpath: str | None, attr: str, old: Any, new: Any
    ) -> None:
        late(doc, self)
        super()._server_change(doc, ref, subpath, attr, old, new)

    def catch_up(self, document: Any) -> None:
        """Answers now what it was told and has put off."""
        if self._events:
            self._change_event(document)


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


def copying(label: str, source: Any, text: str) -> pmui.Button:
    """A button that copies a text of the page, and says that it did.

    Arguments:
        label: What it copies.
        source: A Bokeh model that the page has.
        text: What is copied, in JavaScript, of `source`.
    """
    script = CustomJS(args={"source": source}, code=COPY % (text, label))
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
