r"""The handles of one case: sliders for y, theta and the mismatch level of a problem."""

from __future__ import annotations

__all__ = ["CaseControls"]

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import panel_material_ui as pmui

from amci_core.models import Variable
from app.presets import variable_labels
from app.session import answer
from app.state import State
from app.views.inputs import Message, Slider, slider
from app.views.layout import column
from app.words.numbers import number

# Wider ranges than this are moved in whole numbers.
WIDE = 100.0
LEVEL = "Mismatch level, nats"
LEVEL_HELP = {
    True: "How far f looks from where the posterior is. It moves θ, and moves itself when y or θ "
    "move.",
    False: "How far f looks from where the posterior is. It moves y, and moves itself when y "
    "moves.",
}
FOLDED = {
    "boxShadow": "none",
    "background": "transparent",
    "& .MuiAccordionSummary-root": {"minHeight": "32px", "padding": 0},
    "& .MuiAccordionSummary-content": {"margin": 0},
    "& .MuiAccordionSummary-root .MuiTypography-root": {"fontSize": "0.85rem", "fontWeight": 400},
    "& .MuiAccordionDetails-root": {"padding": 0},
}


class CaseControls:
    """Creates the sliders of the state's problem.

    A variable of one coordinate, or of named ones, has a slider for each. One of many alike has a
    slider that moves all of them, and one for each folded below it.

    Arguments:
        state: What they change, and follow.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._problem = state.problem
        self._messages = {name: Message() for name in ("y", "theta", "level")}
        self._single: dict[tuple[str, int], Slider] = {}
        self._all: dict[str, Slider] = {}
        parts: list[Any] = []
        for name in ("y", "theta"):
            variable = getattr(state.problem, name)
            if variable is not None:
                parts += [*self._make(name, variable), self._messages[name]]
        self._level = slider(
            LEVEL,
            value=0.0 if math.isnan(state.level) else state.level,
            start=0,
            end=60,
            description=LEVEL_HELP[state.problem.theta is not None],
        )
        self._watch(self._level, lambda value: state.move(level=value))
        parts += [self._level, self._messages["level"]]
        self.panel = column(*parts)
        self.show()

    def show(self) -> None:
        """Follows the state."""
        state = self._state
        if state.problem is not self._problem:
            return
        for (name, i), widget in self._single.items():
            value = getattr(state, name)[i]
            if widget.value != value:
                widget.value = value
        for name, widget in self._all.items():
            values = getattr(state, name)
            middle = round(math.fsum(values) / len(values), 10)
            if widget.value != middle:
                widget.value = middle
        ends = state.level_range()
        if ends is None:
            # No path is declared along which the mismatch could move the case.
            self._show_level()
            return
        low, high = ends
        start, end = math.floor(100 * low) / 100, math.ceil(100 * high) / 100
        if (self._level.start, self._level.end, self._level.value) != (start, end, state.level):
            self._level.param.update(start=start, end=end, value=state.level)

    def _show_level(self) -> None:
        """Shows a mismatch that cannot be chosen, as far as it is known."""
        level, error = self._state.level, self._state.level_error
        known = ", not known" if math.isnan(level) else ""
        estimated = f", estimated ± {number(error, 1)}" if error > 0 else known
        self._level.param.update(
            disabled=True,
            label=LEVEL + estimated,
            value=self._level.value if known else level,
            end=max(self._level.end, self._level.value if known else math.ceil(level)),
        )

    def complain(self, name: str, text: str) -> None:
        """Says what is wrong with what was asked of y, theta or the level."""
        self._messages[name].say(text)

    def _make(self, name: str, variable: Variable) -> list[Any]:
        labels = variable_labels(self._state.problem, variable)
        if len(labels) == variable.dim:
            return [self._one(name, variable, i, label) for i, label in enumerate(labels)]
        self._all[name] = every = self._slider(
            f"{labels[0]}, all coordinates", variable, getattr(self._state, name)[0]
        )
        self._watch(every, lambda value: self._move(name, [float(value)] * variable.dim))
        single = [
            self._one(name, variable, i, f"{labels[0]}, coordinate {i + 1}")
            for i in range(variable.dim)
        ]
        inside = column()
        folded = pmui.Accordion(
            (f"{labels[0]}, one by one", inside),
            active=[],
            disable_gutters=True,
            title_variant="body2",
            sizing_mode="stretch_width",
            margin=0,
            sx=FOLDED,
        )

        def unfold(event: Any) -> None:
            # Most are never looked at, and a slider takes page and server some time to build.
            if event.new and not len(inside):
                inside[:] = single

        folded.param.watch(answer(unfold), "active")
        return [every, folded]

    def _one(self, name: str, variable: Variable, i: int, label: str) -> Slider:
        def move(value: float) -> None:
            values = list(getattr(self._state, name))
            values[i] = float(value)
            self._move(name, values)

        self._single[name, i] = created = self._slider(
            label, variable, getattr(self._state, name)[i]
        )
        self._watch(created, move)
        return created

    @staticmethod
    def _slider(label: str, variable: Variable, value: float) -> Slider:
        low, high = variable.usual_range
        wide = high - low > WIDE
        return slider(
            f"{label}, {variable.unit}" if variable.unit else label,
            value=value,
            start=low,
            end=high,
            step=1.0 if wide else 0.01,
            digits=0 if wide else 2,
        )

    def _move(self, name: str, values: list[float]) -> None:
        asked: dict[str, Any] = {name: values}
        self._state.move(**asked)

    def _watch(self, widget: Slider, move: Callable[[float], None]) -> None:
        handled = answer(partial(self._handled, widget, move))
        widget.param.watch(handled, ["value", "value_throttled"])

    def _handled(self, widget: Slider, move: Callable[[float], None], *events: Any) -> None:
        """Follows a slider; a move and its end may come together."""
        moves = self._state.problem is self._problem and not self._shows(widget, widget.value)
        if moves:
            for message in self._messages.values():
                if message.visible:
                    message.say()
            move(widget.value)
        if any(event.name == "value_throttled" for event in events):
            self._state.settle()

    def _shows(self, widget: Slider, value: float) -> bool:
        """Whether the state is where the widget stands: then it was the state that moved it."""
        state = self._state
        if widget is self._level:
            return bool(value == state.level)
        for (name, i), single in self._single.items():
            if widget is single:
                return bool(value == getattr(state, name)[i])
        for name, every in self._all.items():
            if widget is every:
                values = getattr(state, name)
                return bool(value == round(math.fsum(values) / len(values), 10))
        return False
