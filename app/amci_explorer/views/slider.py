r"""The slider of the page: a native range input, for all that has a range."""

from __future__ import annotations

__all__ = ["Grip", "Slider", "same"]

import math
from collections.abc import Callable
from typing import Any

import param
from panel.custom import JSComponent

from amci_explorer.js.scripts import source
from amci_explorer.server.compat import Prompt
from amci_explorer.server.session import callback

STYLE = """
.slider { --ink-of: var(--accent, #1f5f8b); display: grid; grid-template-columns: 1fr auto;
          column-gap: 8px; font-size: var(--text, 0.875rem); line-height: 1.3; }
output { font-weight: 600; font-variant-numeric: tabular-nums; }
.name { color: var(--muted, inherit); }
.track { grid-column: 1 / -1; position: relative; }
input { appearance: none; display: block; width: 100%; height: 26px; margin: 0; border-radius: 6px;
        background: none; cursor: pointer; touch-action: pan-y; }
input::-webkit-slider-runnable-track { height: 4px; border-radius: 2px; background:
  linear-gradient(var(--ink-of) 0 0) 0 / calc(12px + (100% - 24px) * var(--along)) no-repeat,
  var(--line, #d5dbe1); }
input::-moz-range-track { height: 4px; border-radius: 2px; background: var(--line, #d5dbe1); }
input::-moz-range-progress { height: 4px; border-radius: 2px; background: var(--ink-of); }
input::-webkit-slider-thumb { appearance: none; box-sizing: border-box; width: 24px; height: 24px;
  margin-top: -10px; border: 3px solid var(--paper, white); border-radius: 50%;
  background: var(--ink-of); }
input::-moz-range-thumb { box-sizing: border-box; width: 24px; height: 24px;
  border: 3px solid var(--paper, white); border-radius: 50%; background: var(--ink-of); }
input:focus-visible { outline: 2px solid var(--ink-of); }
input:disabled { cursor: default; opacity: 0.5; }
"""
# A pill in the last row of the picture above its place, below the numbers of the x axis.
PILL = """
:host { position: relative; height: 0; z-index: 1; }
.thumb { position: absolute; bottom: 0; transform: translateX(-50%); padding: 3px 9px;
         border-radius: 11px; font-size: var(--small); white-space: nowrap; color: var(--paper);
         background: var(--ink); cursor: ew-resize; touch-action: none; user-select: none; }
.thumb::before { content: ""; position: absolute; inset: -150px -2px -8px; }
.thumb:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""


class Slider(Prompt, JSComponent):
    """A slider under its name and its value, which stands there in fixed decimals.

    The server hears of a move once it has answered the last one.
    """

    label: Any = param.String(doc="Its name.")
    help: Any = param.String(doc="What it is, in a sentence; shown where a pointer rests.")
    value: Any = param.Number(default=0.0, doc="Where it is.")
    start: Any = param.Number(default=0.0, doc="Its lower end.")
    end: Any = param.Number(default=1.0, doc="Its upper end.")
    step: Any = param.Number(default=0.01, doc="What an arrow key moves it by.")
    digits: Any = param.Integer(default=2, doc="Decimals of the value.")
    disabled: Any = param.Boolean(default=False, doc="Whether it only shows a value.")
    moves: Any = param.List(
        default=[], doc="What of a case it moves: y, theta or level, and which coordinate."
    )
    committed: Any = param.Integer(default=0, doc="How often it was let go.")
    answered: Any = param.Integer(default=0, doc="How often a move, or its end, was answered.")
    _esm = source("slider.mjs")
    _stylesheets = [STYLE]  # noqa: RUF012  Panel reads it of the class

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"sizing_mode": "stretch_width", "margin": (2, 0)} | options)
        self._follows = False

    def on_move(self, act: Callable[[bool], Any]) -> None:
        """Has an action called at a move of the user's; with True once it is let go."""

        def answer(*events: Any) -> None:
            try:
                act(any(event.name == "committed" for event in events))
            finally:
                self.answered += 1

        answered = callback(answer)
        self.param.watch(
            lambda *events: None if self._follows else answered(*events), ["value", "committed"]
        )

    def drive(self, state: Any, shown: Callable[[], float], move: Callable[[float], Any]) -> None:
        """Has it move a case, which is committed when it is let go.

        Arguments:
            state: The case.
            shown: Gives the case's value.
            move: Gives the case another one.
        """

        def act(done: bool) -> None:
            if not same(self.value, shown()):
                move(self.value)
            if done:
                state.commit()

        self.on_move(act)

    def follow(self, value: float, **looks: Any) -> None:
        """Shows a value, unless it is there already, and looks; no move of the user's."""
        self._follows = True
        try:
            self.param.update(**({} if same(self.value, value) else {"value": value}), **looks)
        finally:
            self._follows = False


class Grip(Slider):
    """The handle of a line in a picture, below which it stands: of theta, or of draws."""

    figure: Any = param.String(doc="The picture's name.")
    text: Any = param.String(default="θ = {}", doc="What it says, with its value.")
    stops: Any = param.List(default=[], doc="The only values that it may have, increasing.")
    _esm = source("grip.mjs")
    _stylesheets = [PILL]  # noqa: RUF012  Panel reads it of the class


def same(value: Any, other: Any) -> bool:
    """Whether a widget has a value already, but for rounding.

    The steps of a key add up to a value that the state rounds.
    """
    if isinstance(value, float) and isinstance(other, float):
        both_unknown = math.isnan(value) and math.isnan(other)
        return both_unknown or math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(value == other)
