r"""The training film: q1 at a few moments of its training."""

from __future__ import annotations

__all__ = ["FilmView"]

import math
from typing import Any

from bokeh.models import ColumnDataSource, DataRange1d
from bokeh.plotting import figure

from amci_core.flows import Snapshot
from amci_core.proposals import DEFAULT_VARIANT
from app.colours import SHAPES
from app.session import answer
from app.state import State
from app.store import store_of
from app.views.figures import Painter, add_hover, pane, picture
from app.views.inputs import Player
from app.views.layout import HTML, column
from app.words.numbers import number

TEXT = "p { margin: 0; font-size: 0.82rem; line-height: 1.45; min-height: 3em; opacity: 0.85; }"
MILLISECONDS_A_FRAME = 1400


class FilmView:
    """Creates the film's player and the picture of how the training went; `open` fills them.

    Arguments:
        state: What it changes, and follows.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._painter = Painter()
        self._snapshots: tuple[Snapshot, ...] = ()
        self.player = Player(
            label="Frame",
            start=0,
            end=1,
            value=0,
            interval=MILLISECONDS_A_FRAME,
            loop_policy="once",
            variant="minimal",
            show_value=False,
            disabled=True,
            sizing_mode="stretch_width",
            margin=0,
        )
        self.player.param.watch(answer(self._moved), "value")
        self._text = HTML("<p></p>", TEXT)
        self._line = ColumnDataSource({"step": [], "variance": []}, name="film-line")
        self._here = ColumnDataSource({"step": [], "variance": []}, name="film")
        self.figure = self._picture()
        self._shown = pane(self.figure)
        self.panel = column(self.player, self._text, self._shown)

    def open(self) -> None:
        """Takes the film of the state's problem; without frames it is shut."""
        self._snapshots = snapshots = store_of(self._state.problem.name).snapshots
        last = max(len(snapshots) - 1, 0)
        self.player.param.update(end=max(last, 1), disabled=len(snapshots) < 2)
        self._line.data = {
            "step": [max(s.step, 1) for s in snapshots],
            "variance": list(map(_variance, snapshots)),
        }
        self._shown.visible = len(snapshots) > 1
        self.show()

    def show(self) -> None:
        """Goes to the frame that the state names, or to the trained proposal."""
        if len(self._snapshots) < 2:
            self._text.object = "<p>No snapshots of a training are installed.</p>"
            return
        usable = self._state.variant == DEFAULT_VARIANT
        last = len(self._snapshots) - 1
        frame = last if self._state.snapshot is None else self._state.snapshot
        snapshot = self._snapshots[frame]
        self.player.param.update(value=frame, disabled=not usable)
        self._here.data = {"step": [max(snapshot.step, 1)], "variance": [_variance(snapshot)]}
        self._text.object = (
            f"<p>{_caption(snapshot)}</p>"
            if usable
            else "<p>The film shows the training of the spline proposals.</p>"
        )

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._painter.paint(dark)

    def _moved(self, event: Any) -> None:
        # The last frame is the trained proposal itself.
        last = len(self._snapshots) - 1
        frame = int(event.new) if int(event.new) < last else None
        if self._snapshots and frame != self._state.snapshot:
            self._state.set(snapshot=frame)
            self._state.settle()

    def _picture(self) -> figure:
        shown = picture(
            "film",
            alternative="Relative variance of the weights of q1 along its training.",
            x_label="step",
            y_label="relative variance",
            height=170,
            x_axis_type="log",
            y_axis_type="log",
            x_range=DataRange1d(range_padding=0.2),
            y_range=DataRange1d(range_padding=0.25),
        )
        shown.toolbar_location = None
        shown.min_border_left = 60
        line = shown.line("step", "variance", source=self._line, line_width=2)
        dots = shown.scatter("step", "variance", source=self._line, size=6)
        here = shown.scatter("step", "variance", source=self._here, size=14, fill_alpha=0)
        here.glyph.line_width = 2.5
        self._painter.follow(line.glyph, SHAPES["q1"], "line_color")
        self._painter.follow(dots.glyph, SHAPES["q1"], "line_color", "fill_color")
        self._painter.follow(here.glyph, SHAPES["threshold"], "line_color")
        tips = [("step", "@step{0,0}"), ("relative variance", "@variance{0.0e+0}")]
        add_hover(shown, dots, tips)
        return shown


def _variance(snapshot: Snapshot) -> float:
    return math.nan if snapshot.relative_variance is None else snapshot.relative_variance


def _caption(snapshot: Snapshot) -> str:
    after = f"Step {snapshot.step:,}, after {_duration(snapshot.seconds)}: "
    if snapshot.relative_variance is None:
        return after + "no draw of q₁ reaches f yet."
    variance = number(snapshot.relative_variance, 2)
    return after + f"the weights of q₁ have relative variance <b>{variance}</b>."


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
