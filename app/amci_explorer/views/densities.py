r"""The proposals on the line beside what they should be, and the log-ratio of q1 to g below."""

from __future__ import annotations

__all__ = ["DensityView"]

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Range1d, Span
from bokeh.plotting import figure

from amci_core.estimators.draws import Array
from amci_core.models import Problem
from amci_explorer.numbers.line import LineDensities
from amci_explorer.numbers.pictures import picture_of
from amci_explorer.plots.colours import SHAPES
from amci_explorer.views.curves import Curves, Marked
from amci_explorer.views.figures import (
    Theme,
    add_hover,
    describe,
    pane,
    picture,
    set_range,
    step_above,
)
from amci_explorer.views.inputs import choice
from amci_explorer.views.layout import HTML, card, column, explain
from amci_explorer.words import HELP

LEARNT = ("q1", "q1_minus")
# Of the pictures, in pixels: with the errors beside them they fit a small screen.
HEIGHT, RATIO_HEIGHT = 222, 160
# In nats.
HALF_HEIGHTS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class DensityView:
    """Creates the pictures of any problem on the line, empty; `show` fills them.

    The one on the linear axis and the one on the logarithmic axis are figures of their own, of
    which one is part of the page: that lays out and paints also what cannot be seen.
    """

    look: Mapping[str, Any] = MappingProxyType({})

    def __init__(self) -> None:
        self._painter = Theme()
        self._latest: LineDensities | None = None
        self._draws: Mapping[str, Array] = {}
        self._shared = Range1d(0, 1)
        self._dark = False
        self._made: dict[bool, tuple[Curves, Any]] = {}
        # The picture below has the same axis.
        self._visible, shown = self._curves(False)
        self._place = column(shown)
        self._ratio = _Ratio(self._shared, self._painter)
        scale = choice("Scale of the densities", {"linear": False, "log": True}, value=False)
        self.choices: Mapping[str, Any] = {"logarithmic": scale}
        self._help, self._remark = HTML(), HTML()
        self.panel = card(
            "Densities",
            self._place,
            pane(self._ratio.figure),
            self._remark,
            tools=[scale],
            help_text=self._help,
        )

    @property
    def figure(self) -> figure:
        """The picture that the page opens with."""
        return self._curves(False)[0].figure

    def open(self, problem: Problem) -> None:
        """Makes ready for a problem."""
        self._latest = None
        explain(self._help, HELP[picture_of(problem).help])

    def show(self, found: LineDensities) -> None:
        """Draws new densities."""
        self._latest = found
        set_range(self._shared, *found.extent)
        self._visible.show(found)
        self._ratio.show(found)
        self._remark.object = found.doubt

    def show_draws(self, draws: Mapping[str, Array]) -> None:
        """Marks where draws of the proposals lie."""
        self._draws = draws
        self._visible.show_draws(draws)

    def describe(self, found: LineDensities) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        for curves, _ in self._made.values():
            describe(curves.figure, found.about())

    def set_scale(self, logarithmic: bool) -> None:
        """Shows the densities on a linear or a logarithmic axis."""
        self._visible, shown = self._curves(logarithmic)
        if self._latest is not None:
            self._visible.show(self._latest)
            self._visible.show_draws(self._draws)
        if self._place[0] is not shown:
            self._place[:] = [shown]

    def _curves(self, logarithmic: bool) -> tuple[Curves, Any]:
        """The picture on that axis and its pane, made when it is first looked at."""
        if logarithmic not in self._made:
            curves = Curves(
                "densities-log" if logarithmic else "densities-linear",
                "densities-log-axis" if logarithmic else "densities",
                self._painter,
                x_range=self._shared,
                height=HEIGHT,
                scale="log" if logarithmic else "linear",
            )
            curves.figure.xaxis.axis_label = None
            self._painter.paint(self._dark)
            self._made[logarithmic] = curves, pane(curves.figure)
        return self._made[logarithmic]

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._dark = dark
        self._painter.paint(dark)


class _Ratio(Marked):
    """How far q1 is from g, on a logarithmic scale."""

    def __init__(self, x_range: Range1d, painter: Theme) -> None:
        shown = picture(
            "log-ratio",
            alternative="Log-ratio of q1 to g over x, in nats.",
            x_label="x",
            y_label="log(q₁ / g), nats",
            height=RATIO_HEIGHT,
            tools="box_zoom,reset",
            x_range=x_range,
            y_range=Range1d(-0.1, 0.1),
        )
        super().__init__(shown, painter)
        shown.yaxis.ticker.desired_num_ticks = 5
        zero = Span(location=0, dimension="width", line_width=1)
        shown.add_layout(painter.follow(zero, SHAPES["target"], "line_color"))
        columns: dict[str, Any] = {name: [] for name in ("x", *LEARNT)}
        self._source = ColumnDataSource(columns, name="log-ratio-data")
        self._lines = {
            name: shown.line("x", name, source=self._source, name=name, line_width=2.5)
            for name in LEARNT
        }
        for name, line in self._lines.items():
            painter.follow(line.glyph, SHAPES[name], "line_color")
        tips = [("x", "@x{0.00}"), ("log-ratio", "@$name{0.0000} nats")]
        add_hover(shown, [*self._lines.values()], tips, mode="vline")

    def show(self, found: LineDensities) -> None:
        """Draws new log-ratios; where g is zero there is none."""
        self.mark(found)
        signed = found.log_ratio_minus is not None
        dash = list(SHAPES["q1"].dash) if signed else []
        if self._lines["q1"].glyph.line_dash != dash:
            self._lines["q1"].glyph.line_dash = dash
        self._lines["q1_minus"].glyph.line_dash = list(SHAPES["q1_minus"].dash)
        (low, high), x = found.region, found.x
        columns = {name: np.full(len(x), np.nan) for name in LEARNT}
        largest = 0.0
        for name, log_ratio, g in (
            ("q1", found.log_ratio, found.target),
            ("q1_minus", found.log_ratio_minus, found.target_minus),
        ):
            if log_ratio is not None and g is not None:
                there = np.isfinite(log_ratio)
                columns[name][there] = log_ratio[there]
                within = (
                    (x > low) & (x <= high)
                    if name == "q1"
                    else g > 0.01 * g[there].max(initial=0.0)
                )
                largest = max(largest, np.abs(log_ratio[there & within]).max(initial=0.0))
        self._source.data = {"x": x, **columns}
        half = step_above(1.1 * largest, HALF_HEIGHTS)
        set_range(self.figure.y_range, -half, half)
