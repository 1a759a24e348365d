r"""The training film: q1 at a few moments of its training."""

from __future__ import annotations

__all__ = ["FilmView"]

import math
from typing import Any

import param
from panel.custom import JSComponent

from amci_core.flows import HistoryEntry
from amci_core.proposals import DEFAULT_VARIANT
from amci_explorer.compute.computations import computations_of
from amci_explorer.js.scripts import FILM
from amci_explorer.plots.colours import SHAPES
from amci_explorer.server.session import callback
from amci_explorer.state.state import State
from amci_explorer.text import number
from amci_explorer.views.layout import HTML

TEXT = """
p { margin: 0; font-size: var(--small); line-height: 1.45; min-height: 3em; color: var(--muted); }
svg { display: block; width: 100%; font-size: 11px; }
text { fill: currentColor; color: var(--muted); }
.grid { stroke: currentColor; opacity: 0.2; }
"""
# The drawing's size, and its frame: left, top, right, bottom.
SIZE, FRAME = (280, 170), (52, 8, 272, 130)
# The error curves of a frame take a while to come.
MILLISECONDS_A_FRAME = 2500
PLAYER = """
.film { display: flex; gap: 10px; align-items: center; }
button { font: inherit; font-size: var(--small); font-weight: 600; min-height: 32px; width: 76px;
         border: 1px solid var(--accent); border-radius: 6px; background: var(--paper);
         color: var(--accent); cursor: pointer; }
button:disabled { opacity: 0.5; cursor: default; }
input { flex: 1 1 auto; min-width: 0; min-height: 24px; accent-color: var(--accent); }
:is(button, input):focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""


class FilmPlayer(JSComponent):
    """What the browser shows of the film: a button and a slider over its frames."""

    value: Any = param.Integer(default=0, doc="The frame, from 0 on.")
    end: Any = param.Integer(default=1, doc="The last one.")
    disabled: Any = param.Boolean(default=True, doc="Whether there is nothing to play.")
    milliseconds: Any = param.Integer(default=MILLISECONDS_A_FRAME, doc="Of a frame.")
    _esm = FILM
    _stylesheets = [PLAYER]  # noqa: RUF012  Panel reads it of the class


class FilmView:
    """Creates the film's player and a drawing of how the training went; `open` fills them.

    The drawing is not one of Bokeh's, which would be a tenth of what the page consists of.

    Arguments:
        state: What it changes, and follows.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._dark = False
        self._snapshots: tuple[HistoryEntry, ...] = ()
        self.player = FilmPlayer(sizing_mode="stretch_width", margin=0)
        self.player.param.watch(callback(self._moved), "value")
        self._shown = HTML("<p></p>", TEXT)
        self.parts = [self.player, self._shown]

    def open(self) -> None:
        """Takes the film of the state's problem; without frames it is shut."""
        self._snapshots = snapshots = computations_of(self._state.problem.name).snapshots
        last = max(len(snapshots) - 1, 0)
        self.player.param.update(end=max(last, 1), disabled=len(snapshots) < 2)
        self.show()

    def show(self) -> None:
        """Goes to the frame that the state names, or to the trained proposal."""
        if len(self._snapshots) < 2:
            self._shown.object = "<p>No training snapshots are installed.</p>"
            return
        usable = self._state.variant == DEFAULT_VARIANT
        last = len(self._snapshots) - 1
        frame = last if self._state.snapshot is None else self._state.snapshot
        snapshot = self._snapshots[frame]
        self.player.param.update(value=frame, disabled=not usable)
        words = (
            _caption(snapshot)
            if usable
            else "The film is of the spline proposals: choose them to play it."
        )
        drawing = _drawing(self._snapshots, snapshot, dark=self._dark)
        self._shown.object = f"<p>{words}</p>{drawing}"

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._dark = dark
        self.show()

    def _moved(self, _: Any) -> None:
        # The last frame is the trained proposal itself.
        last = len(self._snapshots) - 1
        frame = int(self.player.value) if int(self.player.value) < last else None
        if self._snapshots and frame != self._state.snapshot:
            self._state.set(snapshot=frame)
            self._state.commit()


def _drawing(snapshots: tuple[HistoryEntry, ...], shown: HistoryEntry, *, dark: bool) -> str:
    """The relative variance along the training on logarithmic axes, with the frame marked."""
    known = {
        max(s.step, 1): variance
        for s in snapshots
        if (variance := s.relative_variance) is not None and variance > 0
    }
    if not known:
        return ""
    left, top, right, bottom = FRAME
    across, along_x = _axis(list(known), left, right)
    up, along_y = _axis(list(known.values()), bottom, top)
    grid = [f'<path class="grid" d="M{across(x):.1f} {bottom}V{top}"/>' for x in along_x]
    grid += [f'<path class="grid" d="M{left} {up(y):.1f}H{right}"/>' for y in along_y]
    ticks = [_text(_power(x), across(x), bottom + 14, "middle") for x in along_x]
    ticks += [_text(_power(y), left - 5, up(y) + 4, "end") for y in along_y]
    middle, height = (left + right) / 2, (top + bottom) / 2
    ticks.append(_text("step", middle, SIZE[1] - 6, "middle"))
    turned = f'<g transform="rotate(-90 12 {height})">'
    ticks.append(turned + _text("relative variance", 12, height, "middle") + "</g>")
    at = {step: f"{across(step):.1f},{up(variance):.1f}" for step, variance in known.items()}
    colour, mark = (SHAPES[name].colour(dark) for name in ("q1", "threshold"))
    line = f'<polyline points="{" ".join(at.values())}" fill="none" stroke-width="2"/>'
    dots = "".join(
        f"{_circle(point, 3)}<title>step {step:,}: {number(known[step], 2)}</title></circle>"
        for step, point in at.items()
    )
    here = at.get(max(shown.step, 1))
    ring = f'<g stroke="{mark}" fill="none" stroke-width="2.5">{_circle(here, 7)}</circle></g>'
    return (
        f'<svg viewBox="0 0 {SIZE[0]} {SIZE[1]}" role="img" aria-label="Relative variance of the '
        f'weights of q1 along its training, the median over held-out cases.">'
        f"{''.join(grid + ticks)}"
        f'<g stroke="{colour}" fill="{colour}">{line}{dots}</g>{ring if here else ""}</svg>'
    )


def _axis(values: list[float], start: float, end: float) -> tuple[Any, list[float]]:
    """Where a value stands on a logarithmic axis, and the powers of ten that are marked."""
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = 0.1 * (high - low) or 0.5
    low, high = low - margin, high + margin
    step = math.ceil((high - low) / 5)
    marked = [10.0**k for k in range(math.ceil(low), math.floor(high) + 1) if k % step == 0]
    scale = (end - start) / (high - low)
    return lambda value: start + scale * (math.log10(value) - low), marked


def _circle(point: str | None, radius: float) -> str:
    x, _, y = (point or "").partition(",")
    return f'<circle cx="{x}" cy="{y}" r="{radius}">'


def _text(text: str, x: float, y: float, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _power(value: float) -> str:
    power = f"{math.log10(value):.0f}".replace("-", "−")
    return f'10<tspan dy="-4" font-size="8">{power}</tspan>'


def _caption(snapshot: HistoryEntry) -> str:
    after = f"Step {snapshot.step:,}, after {_duration(snapshot.seconds)}: "
    if snapshot.relative_variance is None:
        return after + "no draw of q₁ reaches f yet."
    variance = number(snapshot.relative_variance, 2)
    return (
        f"{after}relative variance of the weights of q₁ <b>{variance}</b>, the median over "
        "held-out cases; your case may differ."
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
