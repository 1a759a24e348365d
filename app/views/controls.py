r"""The controls at the side: they change the state, and follow it."""

from __future__ import annotations

__all__ = ["Controls"]

import random
from collections.abc import Callable
from functools import partial
from html import escape
from itertools import zip_longest
from typing import Any

from app import own
from app.fields import FIELDS, problem_names
from app.presets import Preset, presets
from app.session import answer
from app.state import State
from app.views.bound import bound
from app.views.case import CaseControls
from app.views.film import FilmView
from app.views.inputs import CountField, Message, flat_button, select
from app.views.layout import HTML, column, heading, hide, row
from app.views.target import TargetControls
from app.words.choice import about_kept
from app.words.own import about_warnings, note

COUNTS = {
    "draws": ("Draws per proposal", "Draws from each proposal in one run."),
    "runs": ("Runs", "Independent repetitions from which errors are computed."),
    "seed": ("Seed", "The same seed gives the same draws."),
}
KEPT = "p { margin: 0; font-size: 0.85rem; line-height: 1.4; opacity: 0.85; }"


class Controls:
    """Creates the controls of one visitor; `open` fills in those of a problem.

    Arguments:
        state: What they change.
        film: The training film's player, which is one of them.
        downloads: What can be taken home.
        choose: Called with a preset that the user goes to.
    """

    def __init__(
        self,
        state: State,
        film: FilmView,
        *,
        downloads: list[Any],
        choose: Callable[[Preset], Any],
    ) -> None:
        self._state = state
        self._choose = choose
        self._messages = {name: Message() for name in ("problem", "variant", "else")}
        names = problem_names()
        titles = {title: name for name, title in names.items()}
        self.problem = select("Problem", titles, value=state.original, margin=(6, 0))
        self.problem.param.watch(answer(self._chose_problem), "value")
        self.target = TargetControls(state)
        # What a check of a problem of one's own found, and what its proposals are not.
        self._warned, self._note = HTML("", KEPT), HTML("", KEPT)
        self.case = CaseControls(state)
        # As many buttons as the problem with most presets has: to name them anew takes page and
        # server less time than to exchange them.
        most = max(len(presets(own.problem(name))) for name in names)
        self._presets = [
            flat_button("", partial(self._chose_preset, i), text=True) for i in range(most)
        ]
        self._above_presets = heading("Presets")
        self.counts = {name: CountField(state, name, *text) for name, text in COUNTS.items()}
        self._steps = [
            flat_button(label, partial(self._go, step))
            for label, step in (("Back", -1), ("Forward", 1))
        ]
        self._compare = flat_button("", lambda _: state.pin(not state.compared))
        self._kept = HTML("", KEPT)
        state.param.watch(self._show_steps, "released")
        self._show_steps()
        state.param.watch(lambda *_: self._show_note(), ["problem", "variant"])
        self.open()
        state.param.watch(lambda *_: self.case.show(), ["y", "theta", "level"])
        self.panel = column(
            heading("The problem"),
            self.problem,
            self._messages["problem"],
            self._warned,
            heading("The case"),
            self.case.panel,
            row(*self._steps, flat_button("Reset", lambda _: state.reset()), gap=8),
            self._compare,
            self._kept,
            self._messages["else"],
            self._above_presets,
            column(*self._presets, margin=(0, 0, 0, -6)),
            heading("The target f"),
            self.target.panel,
            heading("Proposals"),
            bound(state, "variant", "Proposals", sizing_mode="stretch_width"),
            self._messages["variant"],
            self._note,
            heading("Training film"),
            *film.parts,
            heading("Monte Carlo"),
            *(field.widget for field in self.counts.values()),
            flat_button("Resample", self._resample),
            heading("Take it with you"),
            *downloads,
            gap=8,
            stylesheet=":host { padding: 16px 20px 32px 20px; box-sizing: border-box; }",
        )

    def open(self) -> None:
        """Takes the handles and presets of the state's problem."""
        state = self._state
        self.case.open()
        for button, preset in zip_longest(self._presets, presets(state.problem)):
            button.label = preset.name if preset else ""
            hide(button, preset is None)
        hide(self._above_presets, not presets(state.problem))
        self.problem.value = state.original
        self.target.open()
        self._warned.object = about_warnings(own.warnings(state.original))
        self._show_note()
        for message in self._messages.values():
            message.say()

    def complain(self, wrong: dict[str, str]) -> None:
        """Says beside each control what is wrong with what was asked of it."""
        for name, text in wrong.items():
            if name in self.counts:
                self.counts[name].complain(text)
            elif name in self._messages:
                self._messages[name].say(text)
            elif name == "f":
                self.target.complain(text)
            elif name in ("y", "theta"):
                self.case.complain(name, text)
            else:
                self._messages["else"].say(f"{name}: {text}")

    def _go(self, step: int, _: Any) -> None:
        self._state.go(step)

    def _show_steps(self, *_: Any) -> None:
        for button, can in zip(self._steps, self._state.can_go, strict=True):
            button.disabled = not can
        state = self._state
        self._compare.label = "Stop comparing" if state.compared else "Keep as A to compare"
        kept = None if state.pinned is None else state.pinned.choice
        text = about_kept(kept, state.choice)
        self._kept.object = f"<p>{escape(text)}</p>" if text else ""

    def _show_note(self) -> None:
        """Says beside the proposals what they were not trained for."""
        text = note(self._state.problem.name, self._state.variant)
        content = f'<p role="status">{escape(text)}</p>' if text else ""
        if self._note.object != content:
            self._note.object = content

    def _chose_problem(self, event: Any) -> None:
        if event.new != self._state.original:
            self._state.open(event.new)
            self._state.settle()

    def _chose_preset(self, i: int, _: Any) -> None:
        # A click may come after the problem has changed to one with fewer.
        for preset in presets(self._state.problem)[i : i + 1]:
            self._choose(preset)

    def _resample(self, _: Any) -> None:
        low, high = FIELDS["seed"].bounds or (0, 1)
        self._state.set(seed=random.SystemRandom().randrange(int(low), int(high)))
        self._state.settle()
