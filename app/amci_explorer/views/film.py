r"""The training film: q1 at a few moments of its training."""

from __future__ import annotations

__all__ = ["FilmView"]

from typing import Any

import panel_material_ui as pmui

from amci_core.flows import HistoryEntry
from amci_core.proposals import DEFAULT_VARIANT
from amci_explorer.problems import registry
from amci_explorer.server.session import callback
from amci_explorer.state.state import State
from amci_explorer.text import duration, number
from amci_explorer.views.layout import HTML

STYLE = """
p, table { margin: 0; font-size: var(--small); line-height: 1.45; color: var(--muted); }
th, td { white-space: nowrap; padding: 2px 8px 2px 0; text-align: right; font-weight: 400; }
[aria-current] td { color: var(--ink); font-weight: 600; }
"""
# The error curves of a frame take a while to come.
MILLISECONDS_A_FRAME = 2500


class FilmView:
    """Creates the film's player and a table of its frames; `open` fills them.

    Arguments:
        state: What it changes, and follows.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._frames: tuple[HistoryEntry, ...] = ()
        self.player = pmui.Player(
            label="Frame",
            variant="minimal",
            start=0,
            end=1,
            interval=MILLISECONDS_A_FRAME,
            loop_policy="once",
            sizing_mode="stretch_width",
            margin=0,
        )
        self.player.param.watch(callback(self._moved), ["value", "direction"])
        self._table = HTML("", STYLE)
        self.parts = [self.player, self._table]

    def open(self) -> None:
        """Takes the film of the state's problem; without frames it is shut."""
        self._frames = registry.history(self._state.problem.name)
        self.player.end = max(len(self._frames) - 1, 1)
        self.show()

    def show(self) -> None:
        """Goes to the frame that the state names, or to the trained proposal, the last one."""
        usable = self._state.variant == DEFAULT_VARIANT
        self.player.disabled = len(self._frames) < 2 or not usable
        if len(self._frames) < 2:
            self._table.object = "<p>No training snapshots are installed.</p>"
            return
        last, frame = len(self._frames) - 1, self._state.snapshot
        self.player.value = frame = last if frame is None else frame
        note = (
            "Relative variance of the weights of q₁, the median over held-out cases."
            if usable
            else 'Training history exists only for "spline". Select it under Proposals.'
        )
        rows = "".join(
            f"<tr{' aria-current=true' * (i == frame)}><td>{each.step:,}</td>"
            f"<td>{duration(each.seconds)}</td><td>{_variance(each)}</td></tr>"
            for i, each in enumerate(self._frames)
        )
        head = "<tr><th>step</th><th>after</th><th>variance</th></tr>"
        self._table.object = f"<table>{head}{rows}</table><p>{note}</p>"

    def _moved(self, event: Any) -> None:
        player, last = self.player, len(self._frames) - 1
        if event.name == "direction":
            # At its end it plays from the start.
            if event.new == 1 and player.value == last:
                player.value = 0
            return
        frame = player.value if player.value < last else None
        if self._frames and frame != self._state.snapshot:
            self._state.set(snapshot=frame)
            self._state.commit()


def _variance(frame: HistoryEntry) -> str:
    variance = frame.relative_variance
    return "no draw reaches f" if variance is None else number(variance, 2)
