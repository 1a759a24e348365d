r"""The handles of one case: sliders for y, theta and the mismatch level of a problem."""

from __future__ import annotations

__all__ = ["CaseControls"]

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import panel_material_ui as pmui

from amci_core.models import Variable
from amci_explorer.compute.session import callback
from amci_explorer.problems.presets import digits_of, handle_label, variable_labels
from amci_explorer.state.state import State
from amci_explorer.text import number
from amci_explorer.views.inputs import Message
from amci_explorer.views.layout import HTML, NOTE, column
from amci_explorer.views.slider import Slider, decimals, same, slider
from amci_explorer.views.style import NARROW

LEVEL = "Mismatch level, nats"
LEVEL_HELP = {
    True: "KL(g ‖ posterior): how far g lies from the posterior. It sets θ.",
    False: "KL(g ‖ posterior): how far g lies from the posterior. It sets y.",
}
FOLDED = {
    "boxShadow": "none",
    "background": "transparent",
    "& .MuiAccordionSummary-root": {"minHeight": "32px", "padding": 0},
    "& .MuiAccordionSummary-content": {"margin": 0},
    "& .MuiAccordionSummary-root .MuiTypography-root": {"fontSize": "0.85rem", "fontWeight": 400},
    "& .MuiAccordionDetails-root": {"padding": 0},
}


class _Moves(NamedTuple):
    """What a slider moves: where the state has it, and how it gets elsewhere."""

    at: Callable[[], float]
    move: Callable[[float], None]
    ends: tuple[float, float] = (-math.inf, math.inf)


class CaseControls:
    """Creates the sliders of the state's problem.

    A variable of one coordinate, or of named ones, has a slider for each. One of many alike has a
    slider that moves all of them, and one for each folded below it. Another problem takes the
    sliders that are there, under its names: to make some takes page and server longer.

    Arguments:
        state: What they change, and follow.
        stylesheet: Where they stand.
    """

    def __init__(self, state: State, stylesheet: str = "") -> None:
        self._state = state
        self._messages = {name: Message() for name in ("y", "theta", "level")}
        # What there is for any problem; and of what is in use, what it moves.
        self._pool: dict[str, list[Slider]] = {"y": [], "theta": []}
        self._moves: dict[Slider, _Moves] = {}
        # A slider for each coordinate.
        self.single: list[Slider] = []
        self._level = slider(LEVEL, value=0.0, start=0, end=60)
        self._about_level = HTML("", NOTE, f"@media {NARROW} {{ :host {{ display: none; }} }}")
        self._watch(self._level)
        self.panel = column(stylesheet=stylesheet)
        self.open()

    def open(self) -> None:
        """Takes the state's problem."""
        state = self._state
        self._problem = state.problem
        self._moves, self.single = {}, []
        parts: list[Any] = []
        for name in self._pool:
            variable = getattr(state.problem, name)
            if variable is not None:
                parts += [*self._make(name, variable), self._messages[name]]
        level = 0.0 if math.isnan(state.level) else state.level
        self._level.param.update(
            label=LEVEL,
            value=level,
            start=min(0, level),
            end=max(60, level),
            disabled=False,
        )
        self._about_level.object = f"<p>{LEVEL_HELP[state.problem.theta is not None]}</p>"
        # From here on it moves the state: what it shows of an unknown level is no choice.
        self._moves[self._level] = _Moves(
            lambda: state.level, lambda value: state.move(level=value)
        )
        parts += [self._level, self._about_level, self._messages["level"]]
        for message in self._messages.values():
            message.say()
        if list(self.panel) != parts:
            self.panel[:] = parts
        self.show()

    def show(self) -> None:
        """Follows the state."""
        state = self._state
        if state.problem is not self._problem:
            return
        for widget, moves in self._moves.items():
            if widget is not self._level and not same(widget.value, moves.at()):
                widget.value = moves.at()
        ends = state.level_range()
        if ends is None:
            # No path is declared along which the mismatch could move the case.
            self._show_level()
            return
        low, high = ends
        start, end = math.floor(100 * low) / 100, math.ceil(100 * high) / 100
        new = {"start": start, "end": end, "value": state.level}
        changed = {k: v for k, v in new.items() if not same(getattr(self._level, k), v)}
        if changed:
            self._level.param.update(**changed)

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
        labels = variable_labels(self._problem, variable)
        alike = len(labels) != variable.dim
        each = [f"{labels[0]}, coordinate {i + 1}" for i in range(variable.dim)]
        pool = [] if alike else self._pool[name]
        single = [
            self._slider(label, name, variable, [i], pool)
            for i, label in enumerate(each if alike else labels)
        ]
        self.single += single
        if not alike:
            return single
        label, all_of_them = f"{labels[0]}, all coordinates", range(variable.dim)
        every = self._slider(label, name, variable, all_of_them, self._pool[name])
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

        folded.param.watch(callback(unfold), "active")
        return [every, folded]

    def _slider(
        self, label: str, name: str, variable: Variable, moved: Sequence[int], pool: list[Slider]
    ) -> Slider:
        """A slider of the pool that stands at the mean of some coordinates, and moves them all."""
        state = self._state

        def at() -> float:
            values = getattr(state, name)
            return round(math.fsum(values[i] for i in moved) / len(moved), 10)

        def move(value: float) -> None:
            values = list(getattr(state, name))
            for i in moved:
                values[i] = float(value)
            asked: dict[str, Any] = {name: values}
            state.move(**asked)

        low, high = variable.typical_range
        digits = digits_of(variable)
        looks: dict[str, Any] = {
            "label": handle_label(label, variable),
            "value": at(),
            "start": low,
            "end": high,
            "step": 10.0**-digits,
        }
        free = [each for each in pool if each not in self._moves]
        if free:
            taken = free[0]
            taken.param.update(format=decimals(digits), **looks)
        else:
            taken = slider(**looks, digits=digits)
            self._watch(taken)
            pool.append(taken)
        self._moves[taken] = _Moves(at, move, (low, high))
        return taken

    def _watch(self, widget: Slider) -> None:
        handled = callback(partial(self._handled, widget))
        widget.param.watch(handled, ["value", "value_throttled"])

    def _handled(self, widget: Slider, *events: Any) -> None:
        """Follows a slider; a move and its end may come together."""
        # Of another problem than is open, or of none, while one is being turned to.
        moves = self._moves.get(widget) if self._state.problem is self._problem else None
        # A value beyond its ends is one of another problem, whose slider it was.
        low, high = moves.ends if moves is not None else (-math.inf, math.inf)
        ours = low <= widget.value <= high
        # Where the state is already, it was the state that moved the slider.
        if moves is not None and not same(widget.value, moves.at()):
            if not ours:
                self.show()
                return
            for message in self._messages.values():
                if message.visible:
                    message.say()
            try:
                moves.move(widget.value)
            finally:
                # A move that fails leaves the slider where the state is.
                self.show()
        if any(event.name == "value_throttled" for event in events):
            self._state.commit()
