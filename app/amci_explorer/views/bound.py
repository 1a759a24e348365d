r"""Widgets made from the table of fields: they change the state, and follow it."""

from __future__ import annotations

__all__ = ["bound", "flag", "sliding", "tie"]

from typing import Any

import panel_material_ui as pmui

from amci_explorer.compute.session import callback
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.state import State
from amci_explorer.views.inputs import choice, select
from amci_explorer.views.slider import Slider, same, slider


def bound(state: State, name: str, label: str, *, listed: bool = False, **more: Any) -> Any:
    """A row of buttons, or a list: the field's options; what is chosen is settled at once.

    Arguments:
        state: What it changes, and follows.
        name: A field with options.
        label: What it is called.
        listed: Whether it is a list.
        more: For the widget.
    """
    widget = (select if listed else choice)(label, _options(state, name), **more)
    tie(state, name, widget)
    return widget


def flag(state: State, name: str, label: str) -> pmui.Switch:
    """A switch, settled at once; what it does stands beside its name."""
    doc = FIELDS[name].doc
    text = f"{label}: {doc[0].lower()}{doc[1:].rstrip('.')}"
    widget = pmui.Switch(label=text, margin=(2, 0))
    tie(state, name, widget)
    return widget


def sliding(state: State, name: str, label: str, **more: Any) -> Slider:
    """A slider: what it changes follows it while it moves, and is settled when it is let go."""
    low, high = FIELDS[name].bounds or (0.0, 1.0)
    widget = slider(label, value=getattr(state, name), start=low, end=high, **more)
    tie(state, name, widget, settled_by="value_throttled")
    return widget


def tie(state: State, name: str, widget: Any, *, settled_by: str = "value") -> None:
    """Has a widget change a field of the state, and follow it.

    Arguments:
        state: The state.
        name: The field.
        widget: A widget with a value.
        settled_by: What of the widget changes when it is let go.
    """

    def take(*events: Any) -> None:
        # While its options change a widget can be without a value.
        moves = widget.value is not None and not same(widget.value, getattr(state, name))
        if moves:
            state.set(**{name: widget.value})
        if any(event.name == settled_by for event in events) and (moves or settled_by != "value"):
            state.commit()

    def follow(*_: Any) -> None:
        new = {"value": getattr(state, name)}
        if state.options(name) and "options" in widget.param:
            new["options"] = _options(state, name)
        changed = {key: new[key] for key in new if not same(getattr(widget, key), new[key])}
        if changed:
            widget.param.update(**changed)
            if changed.keys() == {"options"}:
                # The page has the value as a label, and that may be another one now.
                widget.param.trigger("value")

    follow()
    widget.param.watch(callback(take), list({"value", settled_by}))
    state.param.watch(follow, ["problem", name])


def _options(state: State, name: str) -> dict[str, Any]:
    """The labels of a field's options, and what they stand for."""
    return {label: value for value, label in state.options(name).items()}
