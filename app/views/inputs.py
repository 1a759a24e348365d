r"""Small inputs: sliders that answer at once, and text fields that say what is wrong."""

from __future__ import annotations

__all__ = [
    "CountField",
    "Message",
    "Scripted",
    "Slider",
    "Typed",
    "choice",
    "decimals",
    "flat_button",
    "header_button",
    "header_looks",
    "same",
    "select",
    "slider",
]

import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any

import panel_material_ui as pmui
from bokeh.models import CustomJS

from app.fields import FIELDS
from app.session import TURNS, answer, late
from app.state import State
from app.style import NARROW
from app.views.layout import HTML
from app.views.options import MILLISECONDS_OF_DEBOUNCE, choice, select

# A page echoes where the server has put a slider: so many places, and those that a hand can reach
# for so long.
PUTS, SECONDS_OF_ECHO = 256, 5.0
# The user's next word comes within this time.
MILLISECONDS_OF_DOUBT = 200
# Handles follow the pointer at once: an animated one has the page paint ten frames for each move.
STILL = {
    "& .MuiSlider-thumb, & .MuiSlider-track": {"transition": "none"},
    f"@media {NARROW}": {"& .MuiFormLabel-root, & .MuiTypography-root": {"fontSize": "0.8125rem"}},
}
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


class Slider(pmui.FloatSlider):
    """A slider whose moves are answered without delay, and if they come too fast the newest.

    Panel keeps the newest of the moves that come while it waits. On a machine that is slow or busy
    a fixed wait answers every move, falls behind the hand by seconds, and then sends the handle
    back to where it was.

    A page that is busy can set a slider back to where the server had put it shortly before, and
    say so, as if the user had moved it: React keeps a state of its own. Who moves a slider lets it
    go, or goes on; what comes like that with nothing after it is not believed, nor are its ends.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._answering = self._doubted = False
        # Where the server put it lately, and when.
        self._put: deque[tuple[float, float]] = deque(maxlen=PUTS)
        self._heard = 0.0
        self.param.watch(self._note, "value")

    def _note(self, event: Any) -> None:
        if not self._answering:
            self._put.append((time.monotonic(), event.old))

    def _is_echo(self, events: dict[str, Any]) -> bool:
        """Whether it is back where it was, and nobody has let it go."""
        if "value" not in events or "value_throttled" in events:
            return False
        value = events["value"]
        puts = [when for when, put in self._put if put == value]
        if not puts:
            return False
        # A hand goes from step to step, and what lies between is never its own.
        steps = (value - self.start) / self.step
        between = abs(steps - round(steps)) > 1e-6
        return between or max(puts) > self._heard - SECONDS_OF_ECHO

    @property
    def _debounce(self) -> int:  # type: ignore[override]
        return max(MILLISECONDS_OF_DEBOUNCE, math.ceil(1000 * TURNS.wait()))

    def _server_change(
        self, doc: Any, ref: str, subpath: str | None, attr: str, old: Any, new: Any
    ) -> None:
        late(doc, self)
        # The answer may come seconds later.
        self._heard = time.monotonic()
        super()._server_change(doc, ref, subpath, attr, old, new)

    def catch_up(self, document: Any) -> None:
        """Answers now what it was told and has put off."""
        if self._events:
            self._doubted = True
            self._change_event(document)

    def _change_event(self, doc: Any) -> None:
        if self._is_echo(self._events) and not self._doubted:
            self._doubted = True
            doc.add_timeout_callback(partial(self._change_event, doc), MILLISECONDS_OF_DOUBT)
            return
        self._doubted = False
        super()._change_event(doc)

    def _process_events(self, events: dict[str, Any]) -> None:
        # A user moves the handle and nothing else: where it begins and ends is the server's word.
        moved = {"value", "value_throttled"}
        echoed = events.keys() if self._is_echo(events) else events.keys() - moved
        if echoed:
            answer(partial(self.param.trigger, *echoed))()
        events = {name: value for name, value in events.items() if name not in echoed}
        if not events:
            return
        self._answering = True
        try:
            with TURNS.answering():
                super()._process_events(events)
        finally:
            self._answering = False


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


def slider(
    label: str,
    *,
    value: float,
    start: float,
    end: float,
    step: float = 0.01,
    digits: int = 2,
) -> Slider:
    """A labelled slider, as wide as its place."""
    return Slider(
        label=label,
        value=value,
        start=start,
        end=end,
        step=step,
        format=decimals(digits),
        tooltips=False,
        sx=STILL,
        size="small",
        sizing_mode="stretch_width",
        margin=(2, 0),
    )


def same(value: Any, other: Any) -> bool:
    """Whether a widget has a value already, but for rounding.

    The steps of a key add up to a value that the state rounds. A page that were told of that would
    set the handle back to where it was some keys before.
    """
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(value == other)


def decimals(digits: int) -> str:
    """How a number with so many decimals is written, as Bokeh formats it."""
    return f"0.{'0' * digits}" if digits else "0"


def flat_button(
    label: str, act: Callable[[Any], Any], *, chip: bool = False, **options: Any
) -> pmui.Button:
    """A small button as wide as its place or, as a chip, as its words."""
    settings: dict[str, Any] = {"variant": "outlined", "size": "small", "margin": 0} | options
    settings["sx"] = {"textTransform": "none"} | ({"borderRadius": "16px"} if chip else {})
    if not chip:
        settings["sizing_mode"] = "stretch_width"
    created = pmui.Button(label=label, **settings)
    created.on_click(answer(act))
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
    created.on_click(answer(act))
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
        self.widget.param.watch(answer(self._typed), "value")
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
                self._state.settle()
