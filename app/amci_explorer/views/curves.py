r"""Densities of one coordinate: what is wanted as areas, what was learnt as lines."""

from __future__ import annotations

__all__ = ["Curves", "Marked", "arranged"]

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from bokeh.models import BoxAnnotation, ColumnDataSource, Range1d, Span
from bokeh.plotting import figure

from amci_core.estimators.draws import Array
from amci_explorer.numbers import SMALLEST_DENSITY
from amci_explorer.numbers.line import Line
from amci_explorer.plots.colours import SHAPES, label
from amci_explorer.views.figures import Theme, add_hover, decimal_step_above, picture, set_range
from amci_explorer.views.legends import Legends

DRAWN = ("posterior", "target", "target_minus", "q2", "q1", "q1_minus")
WANTED = ("posterior", "target", "target_minus")
# Heights of the axes change in steps: one that changed with every move would be measured, laid out
# and painted with every move, and could not be read.
STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
LEAST_HEIGHT = 0.3
# A share of the axis narrower than a pixel: so near its ends a density may be infinite.
SLIVER = 2e-3
# Ends of the logarithmic axis, unless a density is higher.
DECADES = (1e-8, 30.0)
# Whose draws are ticks on the axis, and how high, as a share of the picture.
TICKED, TICK_HEIGHT = ("q2", "q1_minus", "q1"), 0.03


def arranged(found: Any) -> tuple[bool, bool, str]:
    """What legends depend on: whether f takes both signs, whether there is a q2, the variant."""
    return found.target_minus is not None, found.q2 is not None, found.variant


class Marked:
    """A figure with the threshold and the region that carries 99 % of g."""

    def __init__(self, shown: figure, painter: Theme) -> None:
        self.figure = shown
        self._region = BoxAnnotation(fill_alpha=0.16, line_alpha=0)
        self._threshold = Span(dimension="height", line_width=1.5)
        self._threshold.line_dash = list(SHAPES["threshold"].dash)
        shown.add_layout(painter.follow(self._region, SHAPES["region"], "fill_color"))
        shown.add_layout(painter.follow(self._threshold, SHAPES["threshold"], "line_color"))

    def mark(self, found: Line) -> None:
        """Moves the marks; what is not known is not there."""
        known = bool(np.isfinite(found.target).any())
        if self._threshold.visible != (found.threshold is not None):
            self._threshold.visible = found.threshold is not None
        if self._region.visible != known:
            self._region.visible = known
        self._threshold.location = found.threshold or 0.0
        self._region.update(left=found.region[0], right=found.region[1])


class Curves(Marked):
    """Creates the densities on a linear or a logarithmic axis, empty.

    Arguments:
        name: The picture's name.
        source: Its data's name.
        painter: What draws it for a dark page.
        x_range: The range of its x axis.
        height: In pixels.
        scale: Of the y axis.
    """

    def __init__(
        self,
        name: str,
        source: str,
        painter: Theme,
        *,
        x_range: Range1d,
        height: int,
        scale: str = "linear",
    ) -> None:
        self._linear = scale == "linear"
        shown = picture(
            name,
            alternative="Densities: proposals, the posterior and g.",
            x_label="x",
            y_label="density" if self._linear else "density, log scale",
            height=height,
            x_range=x_range,
            y_range=Range1d(*((0, 1) if self._linear else DECADES)),
            y_axis_type=scale,
        )
        super().__init__(shown, painter)
        self._source = ColumnDataSource({each: [] for each in ("x", *DRAWN)}, name=source)
        self._parts: dict[str, list[Any]] = {each: [] for each in DRAWN}
        for each, parts in self._parts.items():
            style, wanted = SHAPES[each], each in WANTED
            if wanted:
                bottom = 0 if self._linear else SMALLEST_DENSITY
                area = shown.varea("x", bottom, each, source=self._source)
                area.glyph.fill_alpha = 0.18 if each == "posterior" else 0.3
                painter.follow(area.glyph, style, "fill_color")
                parts.append(area)
            line = shown.line("x", each, source=self._source, name=each)
            line.glyph.update(
                line_width=1.5 if wanted else 2.5, line_dash=list(style.dash) or "solid"
            )
            painter.follow(line.glyph, style, "line_color")
            parts.append(line)
        self._draws = ColumnDataSource({each: [] for each in TICKED}, name=f"{source}-draws")
        shown.extra_y_ranges = {"ticks": Range1d(0, 1)}
        for each in TICKED:
            ticks = shown.scatter(each, TICK_HEIGHT, source=self._draws, y_range_name="ticks")
            ticks.glyph.update(marker="dash", angle=math.pi / 2, size=8, line_alpha=0.55)
            ticks.tags = ["draws"]
            painter.follow(ticks.glyph, SHAPES[each], "line_color")
        self._hover = add_hover(shown, [self._parts["q1"][-1]], [], mode="vline")
        self._legend = Legends(shown, self._parts)
        self._arranged: tuple[bool, bool, str] | None = None

    def show(self, found: Line) -> None:
        """Draws new densities."""
        if arranged(found) != self._arranged:
            self._arrange(found)
        columns, missing = found.columns, np.full(len(found.x), np.nan)
        self._source.data = {name: columns.get(name, missing) for name in ("x", *DRAWN)}
        self.mark(found)
        wanted, learnt = ([n for n in columns if n.startswith(k)] for k in ("target", "q1"))
        (low, high), sliver = found.extent, SLIVER * np.ptp(found.extent)
        inside = slice(*np.searchsorted(found.x, [low + sliver, high - sliver]))
        columns = {name: values[inside] for name, values in columns.items()}
        highest = _highest(columns, ["posterior", *wanted])
        # A bad q1 can be a spike: it may leave the picture, g and the posterior may not.
        height = 1.05 * max(highest, min(_highest(columns, learnt), 1.3 * highest))
        top = decimal_step_above(max(height, LEAST_HEIGHT), STEPS)
        low, high = DECADES
        if self._linear:
            set_range(self.figure.y_range, 0, top)
        else:
            set_range(self.figure.y_range, low * max(1, 3 * top / high), max(high, 3 * top))

    def show_draws(self, draws: Mapping[str, Array]) -> None:
        """Marks where draws lie: those of each proposal, of equal number; of none, no marks."""
        count = len(next(iter(draws.values()), ()))
        if count or len(self._draws.data["q1"]):
            missing = np.full(count, np.nan)
            self._draws.data = {name: draws.get(name, missing) for name in TICKED}

    def _arrange(self, found: Line) -> None:
        """Names what there is, and hides what there is not."""
        signed, has_q2, variant = self._arranged = arranged(found)
        there = {n: label(n, signed=signed, variant=variant) for n in DRAWN}
        for name in DRAWN:
            if (name == "q2" and not has_q2) or (name.endswith("_minus") and not signed):
                del there[name]
        for name, parts in self._parts.items():
            for part in parts:
                part.visible = name in there
        self._legend.show(there)
        tips = [(text, f"@{name}{{0.000e+0}}") for name, text in there.items()]
        self._hover.tooltips = [("x", "@x{0.00}"), *tips]


def _highest(columns: dict[str, Any], names: list[str]) -> float:
    return max((np.nanmax(columns[n], initial=0.0) for n in names), default=0.0)
