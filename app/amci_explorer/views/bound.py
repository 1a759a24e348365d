r"""Widgets of choices: they change the case by the user's hand alone, and follow it."""

from __future__ import annotations

__all__ = ["CountField", "bound", "flag", "sliding", "tie"]

from typing import Any

import panel_material_ui as pmui

from amci_explorer.server.session import callback
from amci_explorer.state.case import Case
from amci_explorer.views.inputs import Typed, choice, select
from amci_explorer.views.slider import Slider


def bound(state: Case, name: str, label: str, *, listed: bool = False, **more: Any) -> Any:
    """A row of buttons, or a list: the choice's options; what is chosen is committed at once.

    Arguments:
        state: What it changes, and follows.
        name: A choice with options.
        label: Its label.
        listed: Whether it is a list.
        more: For the widget.
    """
    return tie(state, name, (select if listed else choice)(label, {}, **more))


def flag(state: Case, name: str, label: str) -> Any:
    """A switch, committed at once; what it does stands beside its name."""
    doc: Any = Case.param[name].doc
    text = f"{label}: {doc[0].lower()}{doc[1:].rstrip('.')}"
    return tie(state, name, pmui.Switch(label=text, margin=(2, 0)))


def sliding(state: Case, name: str, label: str, **more: Any) -> Slider:
    """A slider: the case follows it while it moves, and is committed when it is let go."""
    low, high = Case.param[name].bounds
    slider = Slider(label=label, start=low, end=high, value=getattr(state, name), **more)
    slider.drive(state, lambda: getattr(state, name), lambda value: state.set(**{name: value}))
    state.param.watch(lambda event: slider.follow(event.new), name)
    return slider


def tie(state: Case, name: str, widget: Any) -> Any:
    """Has a widget change a choice, committed at once, and follow it; returns the widget.

    Not by `from_param`: that sets a choice outside of the one message of `callback`, without a
    step for Back, and a list whose options and value change in turn would choose by itself.
    """

    def take(_: Any) -> None:
        allowed = state.options(name)
        # While its options change a widget can have a value that is none of them.
        known = not allowed or widget.value in allowed
        if known and widget.value != getattr(state, name):
            state.set(**{name: widget.value})
            state.commit()

    def follow(*_: Any) -> None:
        new = {"value": getattr(state, name)}
        if "options" in widget.param:
            new["options"] = {label: value for value, label in state.options(name).items()}
        changed = {key: new[key] for key in new if getattr(widget, key) != new[key]}
        widget.param.update(**changed)
        if changed.keys() == {"options"}:
            # The page has the value as a label, and that may be another one now.
            widget.param.trigger("value")

    follow()
    widget.param.watch(callback(take), "value")
    state.param.watch(follow, ["problem", name])
    return widget


class CountField(Typed):
    """A text field for a whole number; a wrong one stays there, with the reason.

    Arguments:
        state: What it changes, and follows.
        name: The choice, whose declaration has its label and a sentence of help.
    """

    def __init__(self, state: Case, name: str) -> None:
        declared: Any = Case.param[name]
        super().__init__(declared.label, str(getattr(state, name)), declared.doc or "")

        def take(event: Any) -> None:
            try:
                if event.new != str(getattr(state, name)):
                    state.set(**{name: event.new})
                    state.commit()
                self.complain()
            except ValueError as error:
                self.complain(str(error).removeprefix(f"{name}: "))

        def follow(event: Any) -> None:
            self.value = str(event.new)
            self.complain()

        self.param.watch(callback(take), "value")
        state.param.watch(follow, name)
