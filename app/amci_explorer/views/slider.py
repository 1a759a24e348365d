r"""Sliders that answer at once, and do not believe a page that is late."""

from __future__ import annotations

__all__ = ["STILL", "Slider", "decimals", "same", "slider"]

import math
import time
from collections import deque
from functools import partial
from typing import Any

import panel_material_ui as pmui

from amci_explorer.compute.session import TURNS, callback, late
from amci_explorer.views.options import MILLISECONDS_OF_DEBOUNCE
from amci_explorer.views.style import NARROW

# A page echoes where the server has put a slider: so many places, and those that a hand can reach
# for so long.
PUTS, SECONDS_OF_ECHO = 256, 5.0
# A user moves the handle; where it begins and ends is the server's word.
MOVES, SERVERS = {"value", "value_throttled"}, {"start", "end", "step", "format", "label"}
# The user's next word comes within this time.
MILLISECONDS_OF_DOUBT = 200
# Handles follow the pointer at once: an animated one has the page paint ten frames for each move.
STILL = {
    "& .MuiSlider-thumb, & .MuiSlider-track": {"transition": "none"},
    f"@media {NARROW}": {"& .MuiFormLabel-root, & .MuiTypography-root": {"fontSize": "0.8125rem"}},
}


class Slider(pmui.FloatSlider):
    """A slider whose moves are answered without delay, and if they come too fast the newest.

    Panel keeps the newest of the moves that come while it waits. On a machine that is slow or busy
    a fixed wait answers every move, falls behind the hand by seconds, and then sends the handle
    back to where it was.

    A page that is busy can set a slider back to where the server had put it shortly before, and
    say so, as if the user had moved it: React keeps a state of its own. Who moves a slider lets it
    go, or goes on; what comes like that with nothing after it is not believed, nor are its ends.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._answering = self._doubted = False
        # Where the server put it lately, and when.
        self._put: deque[tuple[float, float]] = deque(maxlen=PUTS)
        self._heard = 0.0
        self.param.watch(self._note, "value")

    def _note(self, event: Any) -> None:
        if not self._answering:
            self._put.append((time.monotonic(), event.old))

    def _is_echo(self, events: dict[str, Any]) -> bool:
        """Whether it is back where it was, and nobody has let it go."""
        if "value" not in events or "value_throttled" in events:
            return False
        value = events["value"]
        puts = [when for when, put in self._put if put == value]
        if not puts:
            return False
        # A hand goes from step to step, and what lies between is never its own.
        steps = (value - self.start) / self.step
        between = abs(steps - round(steps)) > 1e-6
        return between or max(puts) > self._heard - SECONDS_OF_ECHO

    @property
    def _debounce(self) -> int:  # type: ignore[override]
        return max(MILLISECONDS_OF_DEBOUNCE, math.ceil(1000 * TURNS.wait()))

    def _server_change(
        self, doc: Any, ref: str, subpath: str | None, attr: str, old: Any, new: Any
    ) -> None:
        late(doc, self)
        # The answer may come seconds later.
        self._heard = time.monotonic()
        super()._server_change(doc, ref, subpath, attr, old, new)

    def catch_up(self, document: Any) -> None:
        """Answers now what it was told and has put off."""
        if self._events:
            self._doubted = True
            self._change_event(document)

    def _change_event(self, doc: Any) -> None:
        if self._is_echo(self._events) and not self._doubted:
            self._doubted = True
            doc.add_timeout_callback(partial(self._change_event, doc), MILLISECONDS_OF_DOUBT)
            return
        self._doubted = False
        super()._change_event(doc)

    def _process_events(self, events: dict[str, Any]) -> None:
        told = SERVERS | MOVES if self._is_echo(events) else SERVERS
        echoed = events.keys() & told
        if echoed:
            callback(partial(self.param.trigger, *echoed))()
        events = {name: value for name, value in events.items() if name not in echoed}
        if not events:
            return
        self._answering = True
        try:
            with TURNS.answering():
                super()._process_events(events)
        finally:
            self._answering = False


def slider(
    label: str,
    *,
    value: float,
    start: float,
    end: float,
    step: float = 0.01,
    digits: int = 2,
) -> Slider:
    """A labelled slider, as wide as its place."""
    return Slider(
        label=label,
        value=value,
        start=start,
        end=end,
        step=step,
        format=decimals(digits),
        tooltips=False,
        sx=STILL,
        size="small",
        sizing_mode="stretch_width",
        margin=(2, 0),
    )


def same(value: Any, other: Any) -> bool:
    """Whether a widget has a value already, but for rounding.

    The steps of a key add up to a value that the state rounds. A page that were told of that would
    set the handle back to where it was some keys before.
    """
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(value == other)


def decimals(digits: int) -> str:
    """How a number with so many decimals is written, as Bokeh formats it."""
    return f"0.{'0' * digits}" if digits else "0"
