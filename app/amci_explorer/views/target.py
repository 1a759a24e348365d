r"""The field for another f: a line of text, examples to pick, and the way back."""

from __future__ import annotations

__all__ = ["TargetControls"]

from typing import Any

import panel as pn
import panel_material_ui as pmui
from bokeh.models import Div
from panel.util import edit_readonly

from amci_core.models.expression import LONGEST
from amci_explorer.problems import registry
from amci_explorer.problems.examples import examples
from amci_explorer.server.session import callback
from amci_explorer.state.state import State
from amci_explorer.views.inputs import flat_button, select
from amci_explorer.views.layout import HELP, HTML, column, explain, hide
from amci_explorer.words.target import allowed, at_its_place, wrong

LABEL = "f(x, θ), then Enter"
CARET = """
pre { margin: 0 0 4px 0; font-size: var(--small); line-height: 1.25; color: #d32f2f; }
"""
PICK = "Examples"


class TargetControls:
    """Creates the field of f; what is typed changes nothing until it is right and applied.

    Arguments:
        state: What it changes, and follows.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.field = pmui.TextInput(
            label=LABEL,
            value=state.f,
            placeholder="the problem's f",
            max_length=LONGEST,
            css_classes=["own-f"],
            size="small",
            sizing_mode="stretch_width",
            margin=(6, 0, 0, 0),
        )
        # The page's keys reach the server by its tags; its text is what Escape goes back to.
        self._channel = Div(visible=False, name="own-f", text=state.f)
        answered = callback(self._key)
        self._channel.on_change("tags", lambda attr, old, new: answered(new))
        self._caret = HTML("", CARET)
        self._allowed = HTML("", HELP)
        self._own = flat_button("Restore the problem's f", lambda _: self._take(""))
        self._examples = select(PICK, {PICK: ""}, margin=(6, 0, 0, 0))
        self._examples.param.watch(callback(self._pick), "value")
        state.param.watch(lambda *_: self.show(), "f")
        self.panel = column(
            self.field,
            self._caret,
            self._allowed,
            self._examples,
            self._own,
            pn.pane.Bokeh(self._channel, width=0, height=0, margin=0),
            gap=6,
        )
        self.open()

    def open(self) -> None:
        """Offers what fits the state's problem."""
        problem = registry.problem(self._state.original)
        found = examples(problem).items()
        options = {"choose one": "", **{f"{name}: {text}": text for name, text in found}}
        if self._examples.options != options:
            self._examples.param.update(options=options, value="")
        explain(self._allowed, allowed(problem), "What f may hold")
        self.show()

    def show(self) -> None:
        """Follows the state, and forgets what was typed."""
        f = self._state.f
        self._channel.text = f
        self._own.disabled = not f
        self.field.param.update(value=f, error_state=False, helper_text="")
        # What was typed and not left is known as that alone.
        with edit_readonly(self.field):
            self.field.value_input = f
        if self._examples.value not in ("", f):
            self._examples.value = ""
        self._caret.object = ""
        hide(self._caret, True)

    def complain(self, text: str, caret: str = "") -> None:
        """Says what is wrong; assistive technology reads it with the field."""
        self.field.param.update(error_state=True, helper_text=text)
        self._caret.object = f"<pre aria-hidden=true>{caret}</pre>" if caret else ""
        hide(self._caret, not caret)

    def _key(self, tags: Any) -> None:
        """Takes what a key did in the page: a text to apply, or none to go back."""
        text = tags[0] if isinstance(tags, list) and tags else None
        if isinstance(text, str):
            self._take(text)
        else:
            self.show()

    def _pick(self, event: Any) -> None:
        if event.new and event.new != self._state.f:
            self._take(event.new)

    def _take(self, text: str) -> None:
        """Has the state take a text, or says what is wrong with it."""
        text = " ".join(text[: 2 * LONGEST].split())
        if text == self._state.f:
            self.show()
            return
        try:
            self._state.open(self._state.original, f=text)
        except ValueError as error:
            self.complain(wrong(error), at_its_place(text, error))
        else:
            self._state.commit()
