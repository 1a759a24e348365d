r"""Widgets that change the state and follow it: of its fields, and of the case's handles."""

from __future__ import annotations

__all__ = ["CaseControls", "bound", "flag", "sliding", "tie"]

import math
from collections.abc import Callable, Sequence
from typing import Any

import panel_material_ui as pmui

from amci_core.models import Variable
from amci_explorer.problems import registry
from amci_explorer.problems.presets import digits_of, handle_label, variable_labels
from amci_explorer.server.session import callback
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.state import State
from amci_explorer.text import number
from amci_explorer.views.inputs import Message, choice, select
from amci_explorer.views.layout import HTML, NOTE, column, sections
from amci_explorer.views.slider import Slider, same
from amci_explorer.views.style import NARROW

LEVEL = "Mismatch level, nats"
CAPTION = "p { margin: 0 0 2px; }"


def bound(state: State, name: str, label: str, *, listed: bool = False, **more: Any) -> Any:
    """A row of buttons, or a list: the field's options; what is chosen is committed at once.

    Arguments:
        state: What it changes, and follows.
        name: A field with options.
        label: What it is called.
        listed: Whether it is a list.
        more: For the widget.
    """
    return tie(state, name, (select if listed else choice)(label, {}, **more))


def flag(state: State, name: str, label: str) -> Any:
    """A switch, committed at once; what it does stands beside its name."""
    doc = FIELDS[name].doc
    text = f"{label}: {doc[0].lower()}{doc[1:].rstrip('.')}"
    return tie(state, name, pmui.Switch(label=text, margin=(2, 0)))


def sliding(state: State, name: str, label: str, **more: Any) -> Any:
    """A slider: what it changes follows it while it moves, and is committed when it is let go."""
    low, high = FIELDS[name].bounds or (0.0, 1.0)
    return tie(state, name, Slider(label=label, start=low, end=high, **more))


def tie(state: State, name: str, widget: Any) -> Any:
    """Has a widget change a field of the state, and follow it; returns the widget.

    A slider commits when it is let go, any other widget at once.
    """
    slides = isinstance(widget, Slider)

    def take(*events: Any) -> None:
        # While its options change a widget can be without a value.
        moves = widget.value is not None and not same(widget.value, getattr(state, name))
        if moves:
            state.set(**{name: widget.value})
        if any(event.name == "committed" for event in events) if slides else moves:
            state.commit()

    def follow(*_: Any) -> None:
        new = {"value": getattr(state, name)}
        if "options" in widget.param:
            new["options"] = {label: value for value, label in state.options(name).items()}
        changed = {key: new[key] for key in new if not same(getattr(widget, key), new[key])}
        if changed:
            widget.param.update(**changed)
            if changed.keys() == {"options"}:
                # The page has the value as a label, and that may be another one now.
                widget.param.trigger("value")

    follow()
    if slides:
        widget.on_move(take)
    else:
        widget.param.watch(callback(take), "value")
    state.param.watch(follow, ["problem", name])
    return widget


class CaseControls:
    """Creates the sliders for y, theta and the mismatch level of the state's problem.

    A variable of one coordinate, or of named ones, has a slider for each. One of many alike has a
    slider that moves all of them, and one for each folded below it.

    Arguments:
        state: What they change, and follow.
        stylesheet: For their place.
    """

    def __init__(self, state: State, stylesheet: str = "") -> None:
        self._state = state
        self._messages = {name: Message() for name in ("y", "theta", "level")}
        self._about_level = HTML("", NOTE, f"@media {NARROW} {{ :host {{ display: none; }} }}")
        self.panel = column(stylesheet=stylesheet)
        self.open()

    def open(self) -> None:
        """Takes the state's problem."""
        state = self._state
        self.problem = state.problem
        # Where the state has what a slider moves.
        self._at: dict[Slider, Callable[[], float]] = {}
        parts: list[Any] = self._dimensions()
        for name in ("y", "theta"):
            variable = getattr(state.problem, name)
            if variable is not None:
                parts += [*self._handles(name, variable), self._messages[name]]
        looks = {"label": LEVEL, "start": 0.0, "end": 60.0, "moves": ["level", 0]}
        self._level = self._slider(
            lambda: state.level, lambda value: state.move(level=value), **looks
        )
        moved = "y" if state.problem.theta is None else "θ"
        about = f"KL(g ‖ posterior): how far g lies from the posterior. It sets {moved}."
        self._about_level.object = f"<p>{about}</p>"
        self.panel[:] = [*parts, self._level, self._about_level, self._messages["level"]]
        for message in self._messages.values():
            message.say()
        self.show()

    def show(self) -> None:
        """Follows the state."""
        state = self._state
        if state.problem is not self.problem:
            return
        for widget, at in self._at.items():
            if not same(widget.value, at()):
                widget.value = at()
        ends, error = state.level_range(), state.level_error
        if ends is not None:
            start, end = math.floor(100 * ends[0]) / 100, math.ceil(100 * ends[1]) / 100
            self._level.param.update(start=start, end=end)
            return
        # No path is declared along which the mismatch could move the case.
        known = f", estimated ± {number(error, 1)}" if error > 0 else ""
        unknown = ", not known" if math.isnan(state.level) else ""
        self._level.param.update(disabled=True, label=LEVEL + (known or unknown))

    def complain(self, name: str, text: str) -> None:
        """Says what is wrong with what was asked of y, theta or the level."""
        self._messages[name].say(text)

    def _dimensions(self) -> list[Any]:
        """A choice among the problems that are this one in other numbers of dimensions."""
        state = self._state
        sizes = registry.sizes(state.original)
        if not sizes:
            return []

        def choose(event: Any) -> None:
            state.open(event.new)
            state.commit()

        label = "Dimensions of x"
        options = {str(size): name for size, name in sorted(sizes.items())}
        buttons = choice(label, options, value=state.original)
        buttons.param.watch(callback(choose), "value")
        caption = HTML(f"<p aria-hidden='true'>{label}</p>", CAPTION)
        return [column(caption, buttons, margin=(4, 0, 8, 0))]

    def _handles(self, name: str, variable: Variable) -> list[Any]:
        problem, labels = self.problem, variable_labels(self.problem, variable)
        if len(labels) == variable.dim:
            return [self._coordinates(name, label, [i]) for i, label in enumerate(labels)]

        def single() -> Any:
            # What comes late may be another problem's.
            number = variable.dim if self.problem is problem else 0
            names = [f"{labels[0]}, coordinate {i + 1}" for i in range(number)]
            return column(*(self._coordinates(name, text, [i]) for i, text in enumerate(names)))

        folded = sections((f"{labels[0]}, one by one", single))
        folded.css_classes = ["later"]
        every = self._coordinates(name, f"{labels[0]}, all coordinates", range(variable.dim))
        return [every, folded]

    def _coordinates(self, name: str, label: str, moved: Sequence[int]) -> Slider:
        """A slider at the mean of some coordinates, which moves them all."""
        state, variable = self._state, getattr(self.problem, name)

        def at() -> float:
            values = getattr(state, name)
            return round(math.fsum(values[i] for i in moved) / len(moved), 10)

        def move(value: float) -> None:
            now: Any = enumerate(getattr(state, name))
            state.move(**{name: [float(value) if i in moved else v for i, v in now]})  # type: ignore[arg-type]

        # Coordinates that move together have one range.
        low, high = variable.typical[:, moved[0]].tolist()
        digits = digits_of(variable, moved[0])
        return self._slider(
            at,
            move,
            label=handle_label(label, variable),
            start=low,
            end=high,
            step=10.0**-digits,
            digits=digits,
            moves=[name, moved[0]] if len(moved) == 1 else [],
        )

    def _slider(
        self, at: Callable[[], float], move: Callable[[float], Any], **looks: Any
    ) -> Slider:
        widget = Slider(value=at(), **looks)
        self._at[widget] = at

        def handle(*events: Any) -> None:
            # What comes late from another problem's slider moves nothing.
            if widget not in self._at or self._state.problem is not self.problem:
                return
            # Where the state is already, it was the state that moved the slider.
            if not same(widget.value, at()):
                for message in self._messages.values():
                    message.say()
                try:
                    move(widget.value)
                finally:
                    # A move that fails leaves the slider where the state is.
                    self.show()
            if any(event.name == "committed" for event in events):
                self._state.commit()

        widget.on_move(handle)
        return widget
