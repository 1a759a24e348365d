r"""The handles of the case: y, theta and the mismatch, three ways to move one point."""

from __future__ import annotations

__all__ = ["CaseControls"]

import math
from collections.abc import Callable, Sequence
from typing import Any

from amci_core.models import Variable
from amci_explorer.problems import registry
from amci_explorer.problems.presets import handle_label, slider_range, variable_labels
from amci_explorer.server.session import callback
from amci_explorer.state.case import Case
from amci_explorer.text import number
from amci_explorer.views.inputs import Message, choice
from amci_explorer.views.layout import HTML, NOTE, column, sections
from amci_explorer.views.slider import Slider, same
from amci_explorer.views.style import LOW, NARROW

LEVEL = "Mismatch, nats"
# The handles stand beside the pictures that they move; where there is no room for that, in a bar
# at the bottom that stays in sight. In a low window that shows one row, and the rest by scrolling.
BAR = f"""
@media {NARROW} {{
  :host {{ position: fixed !important; inset: auto 0 0 0; z-index: 20; max-height: 45vh !important;
          overflow-y: auto; display: grid !important; gap: 0 16px !important;
          grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
          padding: 6px 12px calc(6px + env(safe-area-inset-bottom)); box-sizing: border-box;
          background: var(--paper); border-top: 1px solid var(--line);
          box-shadow: 0 -2px 10px rgb(0 0 0 / 20%); }}
  :host > .later {{ order: 1; }}
}}
@media {NARROW} and {LOW} {{ :host {{ max-height: 68px !important; }} }}
"""


class CaseControls:
    """Creates the handles of the state's problem.

    A variable of one coordinate, or of named ones, has a slider for each. One of many alike has a
    slider that moves all of them, and one for each folded below it.

    Arguments:
        state: What they change, and follow.

    Attributes:
        messages: What is wrong with y, theta or the mismatch, below each.
    """

    def __init__(self, state: Case) -> None:
        self._state = state
        self.messages = {name: Message() for name in ("y", "theta", "level")}
        self._bar, self._below = column(stylesheet=BAR), column()
        self.panel = column(self._bar, self._below)
        self.open()
        state.param.watch(lambda *_: self._follow(), ["y", "theta", "level"])

    def open(self) -> None:
        """Takes the state's problem."""
        state, problem = self._state, self._state.problem
        self.problem = problem
        # What each slider shows.
        self._shown: dict[Slider, Callable[[], float]] = {}
        bar: list[Any] = []
        for name in ("y", "theta"):
            variable = getattr(problem, name)
            if variable is not None:
                bar += [*self._handles(name, variable), self.messages[name]]
        moved = "y" if problem.theta is None else "θ"
        self._level = self._slider(
            lambda: state.level,
            lambda value: state.move(level=value),
            label=LEVEL,
            end=60.0,
            moves=["level", 0],
            help="KL(g ‖ posterior): how different the targets of the two proposals are. "
            f"Moving this moves {moved}.",
        )
        self._bar[:] = bar
        self._below[:] = [self._level, self.messages["level"], *self._dimensions()]
        for message in self.messages.values():
            message.say()
        self._follow()

    def _follow(self) -> None:
        state = self._state
        if state.problem is not self.problem:
            return
        for slider, shown in self._shown.items():
            slider.follow(shown())
        ends, error = state.level_range(), state.level_error
        if ends is not None:
            start, end = math.floor(100 * ends[0]) / 100, math.ceil(100 * ends[1]) / 100
            self._level.param.update(start=start, end=end)
            return
        # The problem declares no path along which the mismatch could move the case.
        known = f", estimated ± {number(error, 1)}" if error > 0 else ""
        unknown = ", not known" if math.isnan(state.level) else ""
        self._level.param.update(disabled=True, label=LEVEL + (known or unknown))

    def _dimensions(self) -> list[Any]:
        """A choice among the problems that are this one in other numbers of dimensions."""
        state, label = self._state, "Dimensions of x"
        sizes = registry.sizes(state.original)
        if not sizes:
            return []

        def choose(event: Any) -> None:
            state.open(event.new)
            state.commit()

        options = {str(size): name for size, name in sorted(sizes.items())}
        buttons = choice(label, options, value=state.original)
        buttons.param.watch(callback(choose), "value")
        return [column(HTML(f"<p aria-hidden='true'>{label}</p>", NOTE), buttons, margin=(6, 0))]

    def _handles(self, name: str, variable: Variable) -> list[Any]:
        labels = variable_labels(self.problem, variable)
        if len(labels) == variable.dim:
            return [self._coordinates(name, label, [i]) for i, label in enumerate(labels)]

        def single() -> Any:
            names = [f"{labels[0]}, coordinate {i + 1}" for i in range(variable.dim)]
            return column(*(self._coordinates(name, text, [i]) for i, text in enumerate(names)))

        folded = sections((f"Each {'y' if name == 'y' else 'θ'}", single))
        folded.css_classes = ["later"]
        every = self._coordinates(name, f"{labels[0]}, all {variable.dim}", range(variable.dim))
        return [every, folded]

    def _coordinates(self, name: str, label: str, moved: Sequence[int]) -> Slider:
        """A slider at the mean of some coordinates, which moves them all."""
        state, variable = self._state, getattr(self.problem, name)

        def mean() -> float:
            values = getattr(state, name)
            return round(math.fsum(values[i] for i in moved) / len(moved), 10)

        def move(value: float) -> None:
            here = enumerate(getattr(state, name))
            point: Any = [float(value) if i in moved else v for i, v in here]
            state.move(**{name: point})

        return self._slider(
            mean,
            move,
            label=handle_label(label, variable),
            moves=[name, moved[0]] if len(moved) == 1 else [],
            # Coordinates that move together have one range.
            **slider_range(variable, moved[0]),
        )

    def _slider(
        self, shown: Callable[[], float], move: Callable[[float], Any], **looks: Any
    ) -> Slider:
        slider = Slider(value=shown(), **looks)
        self._shown[slider] = shown

        def act(done: bool) -> None:
            # What comes late from another problem's slider moves nothing.
            if slider not in self._shown or self._state.problem is not self.problem:
                return
            if not same(slider.value, shown()):
                for message in self.messages.values():
                    message.say()
                try:
                    move(slider.value)
                finally:
                    # A move that fails leaves the slider where the case is.
                    slider.follow(shown())
            if done:
                self._state.commit()

        slider.on_move(act)
        return slider
