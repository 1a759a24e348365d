r"""The controls at the side: they change the state, and follow it."""

from __future__ import annotations

__all__ = ["Controls"]

import random
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any

import panel_material_ui as pmui

import amci_core as amci
from amci_core.proposals import available_variants
from app.presets import Preset, presets
from app.session import answer
from app.state import LIMITS, State
from app.views.case import CaseControls
from app.views.film import FilmView
from app.views.inputs import CountField, Message, choice, select
from app.views.layout import column, heading, hide, row


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
        self._messages = {name: Message() for name in ("problem", "variant")}
        titles = {
            amci.problem(name).title: name for name in amci.problems() if available_variants(name)
        }
        self.problem = select("Problem", titles, value=state.problem.name, margin=(6, 0))
        self._case = column()
        # As many buttons as the problem with most presets has: to name them anew takes page and
        # server less time than to exchange them.
        most = max(len(presets(amci.problem(name))) for name in titles.values())
        self._presets = [
            self._button("", partial(self._chose_preset, i), variant="text") for i in range(most)
        ]
        self.variant = choice("Proposals", ["spline"], sizing_mode="stretch_width")
        self.counts = {
            "draws": self._count("draws", "Draws N = M", "From each proposal, in one run."),
            "runs": self._count("runs", "Runs", "Independent repetitions that errors are over."),
            "seed": self._count("seed", "Seed", "The same seed gives the same draws."),
        }
        resample = self._button("Resample", self._resample)
        reset = self._button("Reset", lambda _: state.reset())
        self.open()
        self._follow()
        self.panel = column(
            heading("The problem"),
            self.problem,
            self._messages["problem"],
            heading("The case"),
            self._case,
            heading("Presets"),
            column(*self._presets, margin=(0, 0, 0, -6)),
            heading("Proposals"),
            self.variant,
            self._messages["variant"],
            heading("Training film"),
            film.panel,
            heading("Monte Carlo"),
            self.counts["draws"].widget,
            self.counts["runs"].widget,
            self.counts["seed"].widget,
            row(resample, reset, gap=8),
            heading("Take it with you"),
            *downloads,
            gap=8,
            stylesheet=":host { padding: 16px 20px 32px 20px; box-sizing: border-box; }",
        )

    def open(self) -> None:
        """Takes the handles, presets and proposals of the state's problem."""
        state = self._state
        self.case = CaseControls(state)
        self._case[:] = [self.case.panel]
        for button, preset in zip_longest(self._presets, presets(state.problem)):
            button.label = preset.name if preset else ""
            hide(button, preset is None)
        options = list(available_variants(state.problem.name))
        self.variant.param.update(options=options, value=state.variant)
        self.problem.value = state.problem.name
        for message in self._messages.values():
            message.say()

    def complain(self, wrong: dict[str, str]) -> None:
        """Says beside each control what is wrong with what was asked of it."""
        for name, text in wrong.items():
            if name in self.counts:
                self.counts[name].complain(text)
            elif name in self._messages:
                self._messages[name].say(text)
            else:
                self.case.complain(name, text)

    def _count(self, name: str, label: str, description: str) -> CountField:
        def take(value: int) -> None:
            if value != getattr(self._state, name):
                self._state.param.update(**{name: value})
                self._released()

        value = getattr(self._state, name)
        return CountField(name, label, value=value, description=description, take=take)

    def _button(self, label: str, act: Callable[[Any], Any], **options: Any) -> pmui.Button:
        settings = {"variant": "outlined", "size": "small", "margin": 0} | options
        if settings["variant"] == "text":
            settings["sx"] = {"justifyContent": "flex-start", "textTransform": "none"}
        created = pmui.Button(label=label, sizing_mode="stretch_width", **settings)
        created.on_click(answer(act))
        return created

    def _follow(self) -> None:
        state = self._state
        state.param.watch(lambda *_: self.case.show(), ["y", "theta", "level"])
        state.param.watch(lambda event: self.variant.param.update(value=event.new), "variant")
        self.variant.param.watch(answer(self._chose_variant), "value")
        self.problem.param.watch(answer(self._chose_problem), "value")
        for name in LIMITS:
            state.param.watch(lambda event, n=name: self.counts[n].show(event.new), name)

    def _released(self, *_: Any) -> None:
        self._state.param.trigger("released")

    def _chose_variant(self, event: Any) -> None:
        # While its options change the group has no value.
        if event.new is not None and event.new != self._state.variant:
            self._messages["variant"].say()
            self._state.variant = event.new
            self._released()

    def _chose_problem(self, event: Any) -> None:
        if event.new != self._state.problem.name:
            self._state.open(event.new)
            self._released()

    def _chose_preset(self, i: int, _: Any) -> None:
        # A click may come after the problem has changed to one with fewer.
        for preset in presets(self._state.problem)[i : i + 1]:
            self._choose(preset)

    def _resample(self, _: Any) -> None:
        self._state.seed = random.SystemRandom().randrange(LIMITS["seed"][1])
        self._released()
