r"""Pictures of densities over a plane, and of one coordinate and a pair of many."""

from __future__ import annotations

__all__ = ["MarginalView", "PlaneView"]

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from bokeh.models import BoxAnnotation, ColumnDataSource, Range1d, Span
from bokeh.plotting import figure
from bokeh.plotting.contour import contour_data

from amci_core.estimators.draws import Array
from app.colours import SHAPES
from app.planes import MarginalDensities, PlaneDensities
from app.session import answer
from app.summary import number
from app.views.figures import (
    Painter,
    add_hover,
    add_legend,
    describe,
    pane,
    picture,
    set_range,
    step_above,
)
from app.views.inputs import select
from app.views.layout import card, column, row

# Shares of the highest density that is wanted: the same levels for what is learnt, so that lines
# meet the edges of areas where both agree.
LEVELS = (0.05, 0.2, 0.4, 0.6, 0.8)
HEIGHT = 270
HEIGHTS = (0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
# Widths of a close-up.
WIDTHS = (0.1, 0.2, 0.4, 0.7, 1.0)
CURVES = ("posterior", "target", "q2", "q1")
MARGINAL_HELP = (
    "x has more coordinates than a picture can show, so you see one of them, and a pair. q₂ "
    "should look like the posterior; q₁ like g, which lives where every coordinate is above its "
    "threshold θ; the shaded part carries 99 % of it. In the planes the areas are what is wanted, "
    "the lines what was learnt, at the same levels: where they agree, lines follow edges."
)


class PlaneView:
    """Creates the pictures of a plane, empty; `show` fills them.

    Arguments:
        labels: What the axes are called, with units.
        x_range: Ends of the first axis.
        y_range: Ends of the second axis.
        has_q2: Whether there is a q2, to be shown over the posterior; else the second picture is
            a close-up of the first.
        help_text: How to read it.
        extra: What else the card holds, below the plane.
    """

    def __init__(
        self,
        *,
        labels: tuple[str, str],
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        has_q2: bool,
        help_text: str,
        extra: Sequence[Any] = (),
    ) -> None:
        self._painter = Painter()
        self._plane = _Plane(
            self._painter,
            labels=labels,
            ranges=(Range1d(*x_range), Range1d(*y_range)),
            has_q2=has_q2,
        )
        self.panel = card("Densities", self._plane.panel, *extra, help_text=help_text)

    @property
    def figure(self) -> figure:
        """The first picture."""
        return self._plane.figures[0]

    def show(self, found: PlaneDensities) -> None:
        """Draws new densities."""
        self._plane.show(found)

    def describe(self, found: PlaneDensities) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        self._plane.describe(found)

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._painter.paint(dark)


class MarginalView:
    """Creates the pictures of one coordinate and of a pair of them, empty; `show` fills them.

    Arguments:
        dim: The number of coordinates.
        changed: Called when the user picks another coordinate or pair.
    """

    def __init__(self, dim: int, *, changed: Callable[[], Any]) -> None:
        self._painter = Painter()
        self._changed = changed
        self.coordinate = 0
        self.pair = (0, 1)
        names = [f"x{_subscript(i)}" for i in range(dim)]
        self._coordinates = {name: i for i, name in enumerate(names)}
        self._pairs = {
            f"{names[i]}, {names[j]}": (i, j) for i in range(dim) for j in range(i + 1, dim)
        }
        self._coordinate = select("Coordinate", list(self._coordinates))
        self._pair = select("Pair of coordinates", list(self._pairs))
        for chosen in (self._coordinate, self._pair):
            chosen.param.watch(answer(self._look), "value")
        self._curves = _Curves(self._painter)
        self._plane = _Plane(
            self._painter,
            labels=("x₁", "x₂"),
            ranges=(Range1d(-1, 1), Range1d(-1, 1)),
            has_q2=True,
            fits=True,
        )
        self.panel = card(
            "Densities",
            row(self._coordinate),
            self._curves.panel,
            row(self._pair),
            self._plane.panel,
            help_text=MARGINAL_HELP,
        )

    @property
    def figure(self) -> figure:
        """The first picture."""
        return self._curves.figure

    @property
    def look(self) -> tuple[int, tuple[int, int]]:
        """The coordinate and the pair to look at."""
        return self.coordinate, self.pair

    def show(self, found: MarginalDensities) -> None:
        """Draws new densities."""
        self._curves.show(found)
        self._plane.show(found.plane)

    def describe(self, found: MarginalDensities) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        low, high = found.region
        describe(
            self.figure,
            f"Marginal densities of coordinate {found.coordinate + 1}. The threshold is at "
            f"{found.threshold:.3g}; 99 % of g lies from {low:.3g} to {high:.3g}. The divergence "
            f"of q1 from g in all coordinates is {number(found.divergence, 2)} nats.",
        )
        self._plane.describe(found.plane)

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._painter.paint(dark)

    def _look(self, _: Any) -> None:
        self.coordinate = self._coordinates[self._coordinate.value]
        self.pair = self._pairs[self._pair.value]
        self._changed()


class _Plane:
    """Areas of what is wanted, under lines of what was learnt: g and q1, the posterior and q2."""

    def __init__(
        self,
        painter: Painter,
        *,
        labels: tuple[str, str],
        ranges: tuple[Range1d, Range1d],
        has_q2: bool,
        fits: bool = False,
    ) -> None:
        self._fits, self._has_q2 = fits, has_q2
        self._sources: dict[str, ColumnDataSource] = {}
        self._ranges = ranges
        closer = ranges if has_q2 else (Range1d(0, 1), Range1d(0, 1))
        self._closer = closer
        first = self._picture("plane-target", labels, ranges, painter, ("target", "q1"))
        if has_q2:
            shown = self._picture("plane-posterior", labels, closer, painter, ("posterior", "q2"))
        else:
            shown = self._picture("plane-close-up", labels, closer, painter, ("target", "q1"))
        self.figures = (first, shown)
        self.panel = column(*(pane(each) for each in self.figures))

    def show(self, found: PlaneDensities) -> None:
        """Draws new densities."""
        self._draw(found, "target", "q1")
        if self._has_q2:
            self._draw(found, "posterior", "q2")
        else:
            self._approach(found)
        if self._fits:
            for axis, points in zip(self._ranges, (found.x, found.y), strict=True):
                set_range(axis, math.floor(points[0]), math.ceil(points[-1]))
            for each in self.figures:
                each.xaxis.axis_label, each.yaxis.axis_label = found.labels

    def describe(self, found: PlaneDensities) -> None:
        """Renews the text alternatives."""
        names = " and ".join(found.labels)
        x, y = _mode(found, found.target)
        text = (
            f"Densities over the plane of {names}. g is highest near ({x:.3g}, {y:.3g}). The "
            f"divergence of q1 from g is {number(max(found.divergence, 0), 2)} nats."
        )
        describe(self.figures[0], text)
        if self._has_q2:
            x, y = _mode(found, found.posterior)
            text = (
                f"Densities over the plane of {names}. The posterior is highest near "
                f"({x:.3g}, {y:.3g}); lines show q2."
            )
        describe(self.figures[1], text if self._has_q2 else f"Close-up. {text}")

    def _picture(
        self,
        name: str,
        labels: tuple[str, str],
        ranges: tuple[Range1d, Range1d],
        painter: Painter,
        shapes: tuple[str, str],
    ) -> figure:
        wanted, learnt = shapes
        shown = picture(
            name,
            alternative="Densities over a plane.",
            x_label=labels[0],
            y_label=labels[1],
            height=HEIGHT,
            x_range=ranges[0],
            y_range=ranges[1],
        )
        shown.min_border_left = 60
        areas = shown.multi_polygons(
            "xs", "ys", source=self._source(wanted, "alpha"), fill_alpha="alpha", line_alpha=0
        )
        lines = shown.multi_line(
            "xs",
            "ys",
            source=self._source(learnt),
            line_width=2,
            line_dash=list(SHAPES[learnt].dash),
        )
        painter.follow(areas.glyph, SHAPES[wanted], "fill_color")
        painter.follow(lines.glyph, SHAPES[learnt], "line_color")
        add_legend(shown, [(SHAPES[wanted].label, [areas]), (SHAPES[learnt].label, [lines])])
        return shown

    def _source(self, name: str, *more: str) -> ColumnDataSource:
        if name not in self._sources:
            columns: dict[str, Any] = {each: [] for each in ("xs", "ys", *more)}
            self._sources[name] = ColumnDataSource(columns, name=f"plane-{name}-data")
        return self._sources[name]

    def _draw(self, found: PlaneDensities, wanted: str, learnt: str) -> None:
        density: Array = getattr(found, wanted)
        levels = np.array([*LEVELS, 1.01]) * density.max()
        areas = contour_data(found.x, found.y, density, levels, want_line=False).fill_data
        lines = contour_data(
            found.x, found.y, getattr(found, learnt), levels[:-1], want_fill=False
        ).line_data
        assert areas is not None
        assert lines is not None
        alpha = np.linspace(0.25, 0.9, len(LEVELS))
        self._sources[wanted].data = {"xs": areas.xs, "ys": areas.ys, "alpha": alpha}
        self._sources[learnt].data = {"xs": lines.xs, "ys": lines.ys}

    def _approach(self, found: PlaneDensities) -> None:
        """Moves the close-up to where g is."""
        high = found.target > LEVELS[0] * found.target.max()
        for axis, points, there in zip(
            self._closer, (found.x, found.y), (high.any(0), high.any(1)), strict=True
        ):
            low, end = points[there][[0, -1]]
            width = step_above(1.1 * (end - low), WIDTHS)
            start = min(max((low + end - width) / 2, points[0]), points[-1] - width)
            set_range(axis, start, start + width)


class _Curves:
    """Densities of one coordinate."""

    def __init__(self, painter: Painter) -> None:
        self.figure = shown = picture(
            "marginal",
            alternative="Marginal densities: learnt proposals, the posterior and g.",
            x_label="x",
            y_label="density",
            height=HEIGHT,
            x_range=Range1d(-3, 3),
            y_range=Range1d(0, 1),
        )
        self.panel = pane(shown)
        self._source = ColumnDataSource(
            {name: [] for name in ("x", *CURVES)}, name="marginal-data"
        )
        self._region = BoxAnnotation(fill_alpha=0.16, line_alpha=0)
        self._threshold = Span(dimension="height", line_width=1.5)
        self._threshold.line_dash = list(SHAPES["threshold"].dash)
        shown.add_layout(painter.follow(self._region, SHAPES["region"], "fill_color"))
        shown.add_layout(painter.follow(self._threshold, SHAPES["threshold"], "line_color"))
        items, tips = [], []
        for name in CURVES:
            style, parts = SHAPES[name], []
            wanted = name in ("posterior", "target")
            if wanted:
                area = shown.varea("x", 0, name, source=self._source)
                area.glyph.fill_alpha = 0.18 if name == "posterior" else 0.3
                painter.follow(area.glyph, style, "fill_color")
                parts.append(area)
            line = shown.line("x", name, source=self._source, name=name)
            line.glyph.update(
                line_width=1.5 if wanted else 2.5, line_dash=list(style.dash) or "solid"
            )
            painter.follow(line.glyph, style, "line_color")
            items.append((style.label, [*parts, line]))
            tips.append((style.label, f"@{name}{{0.000}}"))
        add_hover(shown, line, [("x", "@x{0.00}"), *tips], mode="vline")
        add_legend(shown, items)

    def show(self, found: MarginalDensities) -> None:
        """Draws new densities."""
        self._source.data = {name: getattr(found, name) for name in ("x", *CURVES)}
        self._threshold.location = found.threshold
        self._region.update(left=found.region[0], right=found.region[1])
        self.figure.xaxis.axis_label = f"x{_subscript(found.coordinate)}"
        set_range(self.figure.x_range, math.floor(found.x[0]), math.ceil(found.x[-1]))
        # A bad q1 can be a spike: it may leave the picture, g and the posterior may not.
        highest = max(found.target.max(), found.posterior.max())
        wanted = 1.05 * max(highest, min(found.q1.max(), 1.3 * highest))
        set_range(self.figure.y_range, 0, step_above(wanted, HEIGHTS))


def _mode(found: PlaneDensities, density: Array) -> tuple[float, float]:
    row_, column_ = np.unravel_index(int(density.argmax()), density.shape)
    return float(found.x[column_]), float(found.y[row_])


def _subscript(i: int) -> str:
    return chr(ord("₁") + i)
