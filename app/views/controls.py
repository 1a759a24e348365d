r"""The controls at the side: they change the state, and follow it."""

from __future__ import annotations

__all__ = ["Controls"]

import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import panel_material_ui as pmui

from amci_core.models import Preset
from app.session import answer
from app.state import LIMITS, VARIANTS, State
from app.views.film import FilmView
from app.views.inputs import CountField, Message, Slider, choice, slider
from app.views.layout import column, heading, row

HANDLES = ("y", "theta", "level")


class Controls:
    """Creates the controls of one visitor.

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
        self.handles = self._make_handles()
        self._messages = {name: Message() for name in (*HANDLES, "variant")}
        self.variant = choice(
            "Proposals", list(VARIANTS), value=state.variant, sizing_mode="stretch_width"
        )
        self.counts = {
            "draws": self._count("draws", "Draws N = M", "From each of q₁ and q₂, in one run."),
            "runs": self._count("runs", "Runs", "Independent repetitions that errors are over."),
            "seed": self._count("seed", "Seed", "The same seed gives the same draws."),
        }
        resample = self._button("Resample", self._resample)
        reset = self._button("Reset", lambda _: state.reset())
        presets = [
            self._button(preset.name, partial(_call, choose, preset), variant="text")
            for preset in state.problem.presets
        ]
        self._follow()
        self.panel = column(
            heading("The case"),
            *self._with_messages(),
            heading("Presets"),
            column(*presets, margin=(0, 0, 0, -6)),
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

    def complain(self, wrong: dict[str, str]) -> None:
        """Says beside each control what is wrong with what was asked of it."""
        for name, text in wrong.items():
            if name in self.counts:
                self.counts[name].complain(text)
            else:
                self._messages[name].say(text)

    def _make_handles(self) -> dict[str, Slider]:
        problem = self._state.problem
        assert problem.y is not None
        assert problem.theta is not None
        y_range = problem.y.shown or (problem.y.low, problem.y.high)
        theta_range = problem.theta.shown or (problem.theta.low, problem.theta.high)
        handles = {
            "y": slider("Observation y", value=self._state.y, start=y_range[0], end=y_range[1]),
            "theta": slider(
                "Threshold θ", value=self._state.theta, start=theta_range[0], end=theta_range[1]
            ),
            "level": slider(
                "Mismatch level, nats",
                value=self._state.level,
                start=0,
                end=60,
                description="How far f looks from where the posterior is. It moves θ at this y, "
                "and moves itself when y or θ move.",
            ),
        }
        for name, widget in handles.items():
            widget.param.watch(answer(partial(self._dragged, name)), "value")
            widget.param.watch(answer(self._released), "value_throttled")
        return handles

    def _with_messages(self) -> list[Any]:
        return [part for n, w in self.handles.items() for part in (w, self._messages[n])]

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
        state.param.watch(self._show_handles, list(HANDLES))
        state.param.watch(lambda event: self.variant.param.update(value=event.new), "variant")
        self.variant.param.watch(answer(self._chose_variant), "value")
        for name in LIMITS:
            state.param.watch(lambda event, n=name: self.counts[n].show(event.new), name)
        self._show_handles()

    def _dragged(self, name: str, event: Any) -> None:
        value = event.new
        if value == getattr(self._state, name):
            return
        for message in self._messages.values():
            if message.visible:
                message.say()
        self._state.move(**{name: value})

    def _released(self, *_: Any) -> None:
        self._state.param.trigger("released")

    def _chose_variant(self, event: Any) -> None:
        if event.new != self._state.variant:
            self._messages["variant"].say()
            self._state.variant = event.new
            self._released()

    def _resample(self, _: Any) -> None:
        self._state.seed = random.SystemRandom().randrange(LIMITS["seed"][1])
        self._released()

    def _show_handles(self, *_: Any) -> None:
        state = self._state
        low, high = state.level_range()
        for name in ("y", "theta"):
            if self.handles[name].value != getattr(state, name):
                self.handles[name].value = getattr(state, name)
        start, end = math.floor(100 * low) / 100, math.ceil(100 * high) / 100
        level = self.handles["level"]
        if (level.start, level.end, level.value) != (start, end, state.level):
            level.param.update(start=start, end=end, value=state.level)


def _call(act: Callable[[Any], Any], argument: Any, _: Any) -> None:
    """Calls back with an argument in the place of the click."""
    act(argument)
