r"""Pictures of densities over a plane, and of one coordinate and a pair of many."""

from __future__ import annotations

__all__ = ["MarginalView", "PlaneView"]

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Range1d, Title
from bokeh.plotting import figure
from bokeh.plotting.contour import contour_data

from amci_core.estimators.draws import Array
from amci_core.models import Problem
from amci_explorer.js.scripts import SHARED
from amci_explorer.numbers.draws import MarginalDensities
from amci_explorer.numbers.pictures import picture_of
from amci_explorer.numbers.plane import PlaneDensities
from amci_explorer.plots.colours import SHAPES, label
from amci_explorer.problems.presets import coordinate_names, coordinates, pairs
from amci_explorer.views.course import CourseView
from amci_explorer.views.densities import Lines, source_of
from amci_explorer.views.figures import Theme, describe, pane, picture, set_range, step_above
from amci_explorer.views.inputs import Select, select
from amci_explorer.views.layout import HTML, card, column, explain, side_by_side
from amci_explorer.words import HELP

# Shares of the highest density that is wanted: the same levels for what is learnt, so that lines
# meet the edges of areas where both agree.
LEVELS: list[float] = SHARED["LEVELS"]
# Of the pictures, in pixels: planes, planes with another picture above or below, one coordinate.
# With the errors beside them they fit a small screen. Two planes stand beside one another, where
# each has the least width.
HEIGHT, LOW_HEIGHT, LINE_HEIGHTS, LEAST_WIDTH = 320, 165, (76, 108), 200
# The posterior's outline where g is shown: at this share of its highest density.
OUTLINE = (0.2,)
# Widths of a close-up, as shares of the whole.
WIDTHS = tuple(SHARED["WIDTHS"])
# The pictures by name: what is wanted, and what was learnt.
PAIRS = {
    "plane-target": ("target", "q1"),
    "plane-minus": ("target_minus", "q1_minus"),
    "plane-posterior": ("posterior", "q2"),
    "plane-close-up": ("target", "q1"),
}


class PlaneView:
    """Creates the pictures of any problem in the plane, empty; `show` fills them."""

    look: Mapping[str, Any] = MappingProxyType({})
    choices: Mapping[str, Any] = MappingProxyType({})

    def __init__(self) -> None:
        self._painter = Theme()
        self._plane = _Plane(self._painter)
        self._course: CourseView | None = None
        self._dark = False
        self._help, self._place = HTML(), column()
        self.panel = card("Proposals", self._plane.panel, self._place, help_text=self._help)

    @property
    def figure(self) -> figure:
        """The first picture."""
        return self._plane.figures["plane-target"]

    def open(self, problem: Problem) -> None:
        """Makes ready for a problem."""
        explain(self._help, HELP[picture_of(problem).help])

    def show(self, found: PlaneDensities) -> None:
        """Draws new densities."""
        course = getattr(found, "course", None)
        self._plane.show(found, height=HEIGHT if course is None else LOW_HEIGHT)
        if course is not None:
            if self._course is None:
                self._course = CourseView()
                self._course.recolour(self._dark)
            self._course.show(course)
        there = [self._course.panel] if course is not None and self._course else []
        if list(self._place) != there:
            self._place[:] = there

    def describe(self, found: PlaneDensities) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        self._plane.describe(found)
        course = getattr(found, "course", None)
        if self._course is not None and course is not None:
            self._course.describe(course)

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._dark = dark
        self._painter.paint(dark)
        if self._course is not None:
            self._course.recolour(dark)


class MarginalView:
    """Creates the pictures of one coordinate and of a pair of many, empty; `show` fills them.

    What can be chosen of it is `choices`, by the names of `amci_explorer.state.fields.FIELDS`.
    """

    def __init__(self) -> None:
        self._painter = Theme()
        self.choices: Mapping[str, Any] = {
            "coordinate": _chosen("Coordinate", {"x": 1}, width=110),
            "pair": _chosen("Pair of coordinates", {"x": (1, 2)}, width=146),
        }
        self._lines = Lines(
            "marginal",
            source_of("marginal-data"),
            self._painter,
            x_range=Range1d(-3, 3),
            heights=LINE_HEIGHTS,
        )
        self._plane = _Plane(self._painter)
        self._help, self._remark = HTML(), HTML()
        self.panel = card(
            "Proposals",
            self._lines.panel,
            self._remark,
            self._plane.panel,
            tools=list(self.choices.values()),
            help_text=self._help,
        )

    @property
    def figure(self) -> figure:
        """The first picture."""
        return self._lines.figures["q1"]

    def open(self, problem: Problem) -> None:
        """Makes ready for a problem."""
        explain(self._help, HELP[picture_of(problem).help])
        names = coordinate_names(problem)
        for name, options in (("coordinate", coordinates(names)), ("pair", pairs(names))):
            labels = {label: value for value, label in options.items()}
            if labels != self.choices[name].options:
                self.choices[name].param.update(options=labels, value=next(iter(options)))

    @property
    def look(self) -> dict[str, Any]:
        """What is chosen, as `amci_explorer.numbers.pictures.densities` takes it."""
        first, second = self.choices["pair"].value or (1, 2)
        return {
            "coordinate": (self.choices["coordinate"].value or 1) - 1,
            "pair": (first - 1, second - 1),
        }

    def show(self, found: MarginalDensities) -> None:
        """Draws new densities."""
        set_range(self.figure.x_range, *found.extent)
        self._lines.show(found)
        self.figure.xaxis.axis_label = found.label
        self._plane.show(found.plane, height=LOW_HEIGHT)
        if self._remark.object != found.remark:
            self._remark.object = found.remark

    def show_draws(self, draws: Mapping[str, Array]) -> None:
        """Marks where draws of the proposals lie along the coordinate."""
        self._lines.show_draws(draws)

    def describe(self, found: MarginalDensities) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        self._lines.describe(found.about())
        self._plane.describe(found.plane)

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._painter.paint(dark)


def _chosen(label: str, options: dict[str, Any], *, width: int) -> Select:
    """A list beside the card's title; on a phone there is less room for it."""
    narrow = f"@media (max-width: 599.95px) {{ :host {{ width: {width - 16}px !important; }} }}"
    created = select(label, options, sizing_mode=None, width=width, margin=(8, 0, 0, 8))
    created.stylesheets = [*created.stylesheets, narrow]
    return created


class _Plane:
    """Areas of what is wanted under lines of what was learnt, for each pair of these."""

    def __init__(self, painter: Theme) -> None:
        self._sources: dict[str, ColumnDataSource] = {}
        self._captions: dict[str, Title] = {}
        self._ranges = Range1d(0, 1), Range1d(0, 1)
        self._closer = Range1d(0, 1), Range1d(0, 1)
        self._arranged: tuple[bool, bool, str] | None = None
        self._there: list[str] = []
        self.figures = {name: self._picture(name, painter) for name in PAIRS}
        self._panes = {name: pane(each) for name, each in self.figures.items()}
        self._remark = HTML()
        self._place = column()
        self.panel = column(self._place, self._remark)

    def show(self, found: PlaneDensities, *, height: int) -> None:
        """Draws new densities, in pictures of a height in pixels."""
        signed, has_q2 = found.target_minus is not None, found.q2 is not None
        if (signed, has_q2, found.variant) != self._arranged:
            self._arrange(signed, has_q2, found.variant)
        drawn = dict.fromkeys(PAIRS[name] for name in self._there)
        for wanted, learnt in drawn:
            self._draw(found, wanted, learnt)
        # Where g is not where the posterior is.
        outline: dict[str, Any] = {"xs": [], "ys": []}
        if found.q2 is not None and np.isfinite(found.posterior).all():
            outline = _contours(found, found.posterior, OUTLINE)
        self._sources["outline"].data = outline
        if "plane-close-up" in self._there:
            for axis, extent in zip(self._ranges, found.extent, strict=True):
                set_range(axis, *extent)
            self._approach(found, self._closer, [found.target])
        else:
            self._approach(found, self._ranges, [found.target, found.posterior])
        for name in self._there:
            shown = self.figures[name]
            if shown.height != height:
                shown.height = height
            if (shown.xaxis.axis_label, shown.yaxis.axis_label) != found.labels:
                shown.xaxis.axis_label, shown.yaxis.axis_label = found.labels
        dashed = "Dashed: the posterior." if has_q2 else ""
        remark = " ".join(filter(None, [dashed, found.doubt]))
        if self._remark.object != remark:
            self._remark.object = remark

    def describe(self, found: PlaneDensities) -> None:
        """Renews the text alternatives."""
        for name in self._there:
            closer = "Close-up. " if name == "plane-close-up" else ""
            describe(self.figures[name], closer + found.about())

    def _arrange(self, signed: bool, has_q2: bool, variant: str) -> None:
        """Shows the pictures that there are, with their names."""
        self._arranged = signed, has_q2, variant
        last = "plane-posterior" if has_q2 else "plane-close-up"
        there = ["plane-target", *(["plane-minus"] if signed else []), last]
        if there != self._there:
            self._there = there
            panes = [self._panes[name] for name in there]
            self._place[:] = [side_by_side(*panes, least=LEAST_WIDTH, gap=4)]
        for name in there:
            target, proposal = (label(n, signed=signed, variant=variant) for n in PAIRS[name])
            over = "close-up" if name == "plane-close-up" else f"over {target.split(' ')[0]}"
            self._captions[name].text = f"{proposal} {over}"

    def _picture(self, name: str, painter: Theme) -> figure:
        ranges = self._closer if name == "plane-close-up" else self._ranges
        shown = picture(
            name,
            alternative="Densities over a plane.",
            x_label="x₁",
            y_label="x₂",
            height=LOW_HEIGHT,
            x_range=ranges[0],
            y_range=ranges[1],
        )
        shown.min_border_left = 50
        shown.xaxis.ticker.desired_num_ticks = 3
        shown.yaxis.ticker.desired_num_ticks = 4
        wanted, learnt = PAIRS[name]
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
        outline = shown.multi_line("xs", "ys", source=self._source("outline"), line_dash=[4, 3])
        outline.visible = wanted != "posterior"
        painter.follow(outline.glyph, SHAPES["threshold"], "line_color")
        caption = Title(text_font_size="12px", text_font_style="normal")
        shown.add_layout(caption, "above")
        self._captions[name] = caption
        return shown

    def _source(self, name: str, *more: str) -> ColumnDataSource:
        if name not in self._sources:
            columns: dict[str, Any] = {each: [] for each in ("xs", "ys", *more)}
            self._sources[name] = ColumnDataSource(columns, name=f"plane-{name}-data")
        return self._sources[name]

    def _draw(self, found: PlaneDensities, wanted: str, learnt: str) -> None:
        density: Array = getattr(found, wanted)
        # What cannot be judged has no level of its own: what was learnt is drawn by its own.
        known = np.isfinite(density).all()
        other: Array = getattr(found, learnt)
        highest = density.max() if known else np.nanmax(other, initial=1e-300)
        levels = np.array([*LEVELS, 1.01]) * highest
        xs, ys, alpha = [], [], []
        if known:
            areas: Any = contour_data(found.x, found.y, density, levels, want_line=False).fill_data
            xs, ys = areas.xs, areas.ys
            alpha = np.linspace(0.25, 0.9, len(LEVELS)).tolist()
        self._sources[wanted].data = {"xs": xs, "ys": ys, "alpha": alpha}
        self._sources[learnt].data = _contours(found, np.nan_to_num(other), LEVELS, highest)

    def _approach(
        self, found: PlaneDensities, axes: tuple[Range1d, Range1d], densities: list[Array]
    ) -> None:
        """Moves axes to where densities are."""
        known = [np.nan_to_num(density, nan=1.0) for density in densities]
        high = np.any([density > LEVELS[0] * density.max() for density in known], 0)
        for axis, points, there, whole in zip(
            axes, (found.x, found.y), (high.any(0), high.any(1)), found.extent, strict=True
        ):
            low, end = points[there][[0, -1]]
            length = whole[1] - whole[0]
            width = length * step_above(1.1 * (end - low) / length, WIDTHS)
            start = min(max((low + end - width) / 2, whole[0]), whole[1] - width)
            set_range(axis, start, start + width)


def _contours(
    found: PlaneDensities, density: Array, shares: Any, highest: float | None = None
) -> dict[str, Any]:
    """Contour lines at shares of a height, by default of the highest density."""
    top = density.max() if highest is None else highest
    lines: Any = contour_data(
        found.x, found.y, density, np.asarray(shares) * top, want_fill=False
    ).line_data
    return {"xs": lines.xs, "ys": lines.ys}
