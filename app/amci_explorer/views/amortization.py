r"""Where amortization works: the quality of the proposals over a plane of (y, theta).

The map is of the proposals, not of the case looked at: while that moves within the plane, only its
mark does.
"""

from __future__ import annotations

__all__ = ["MapCard"]

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import BasicTicker, ColorBar, ColumnDataSource, LinearColorMapper, Range1d
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from amci_core.amortization import AmortizationMap
from amci_core.estimators.draws import Array
from amci_core.models import Problem
from amci_explorer.compute.requests import Request
from amci_explorer.compute.session import callback
from amci_explorer.problems.presets import digits_of, opening
from amci_explorer.problems.settings import Settings
from amci_explorer.state.fields import FIELDS, layers, plane_axes
from amci_explorer.state.state import State
from amci_explorer.views import export
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.figures import add_hover, describe, pane, picture, set_range
from amci_explorer.views.layers import layer_of
from amci_explorer.views.layout import HTML, column, hide, side_by_side
from amci_explorer.views.legends import add_legend
from amci_explorer.words import HELP
from amci_explorer.words.plane import about_layer, about_map, about_place

GREY = "#9a9a9a"
TEXT = """
p { margin: 6px 0 0 0; font-size: var(--text); line-height: 1.5; min-height: 3em; max-width: 90ch }
"""


class MapCard(Card):
    """Where amortization works."""

    name = "map"
    title = "Amortization map"
    unit = "cases"
    help = HELP["map"]
    drawn = ("y", "theta", "layer", "across", "upwards")

    def content(self) -> list[Any]:
        columns = ("shown", "value", "x", "y", "dw", "dh")
        self.image = ColumnDataSource({n: [] for n in columns}, name="amortization-image")
        self.current = ColumnDataSource({"x": [], "y": []}, name="amortization-current")
        self._mapper = LinearColorMapper(
            palette=Cividis256, low=0, high=1, nan_color=GREY, name="amortization-colours"
        )
        self._bar = ColorBar(
            color_mapper=self._mapper, ticker=BasicTicker(desired_num_ticks=6), width=12, padding=4
        )
        self.map = self._map()
        layer, across, upwards = (
            bound(self.state, name, label, listed=True, margin=(6, 0))
            for name, label in (
                ("layer", "Quantity"),
                ("across", "Horizontal axis"),
                ("upwards", "Vertical axis"),
            )
        )
        self._planes = side_by_side(across, upwards, least=240)
        self._text = HTML("<p></p>", TEXT)
        return [column(layer, self._planes, gap=4), pane(self.map), self._text]

    def asked(self, case: State) -> Request | None:
        if self.why_not(case.problem):
            return None
        # Of a case that is kept as well the plane that is looked at.
        along = (self.state.across, self.state.upwards)
        options = (("across", along[0]), ("upwards", along[1]))
        return Request("amortization", plane_choice(case.problem, case.settings, along), options)

    @staticmethod
    def why_not(problem: Problem) -> str:
        axes = plane_axes(problem)
        return "" if len(axes) > 1 else "No map: (y, θ) has fewer than two coordinates."

    def progress(self, found: AmortizationMap) -> tuple[int, int]:
        return found.cases, found.done.size

    def clear(self) -> None:
        self.image.data = {name: [] for name in self.image.data}
        self._text.object = "<p></p>"
        hide(self._planes, len(plane_axes(self.state.problem)) <= 2)
        self._drawn = self.state.layer

    def draw(self, found: AmortizationMap, *, complete: bool) -> None:
        del complete
        self._drawn = self.state.layer
        layer = layer_of(self.state.layer)
        shown, values = layer.shown(found), layer.values(found)
        low, high = layer.ends
        if not layer.fixed and np.isfinite(shown).any():
            # Whole powers of ten, so that colours do not flicker while the map is refined.
            low, high = np.floor(np.nanmin(shown)), np.ceil(np.nanmax(shown))
        self._mapper.update(palette=layer.palette, low=low, high=max(high, low + 1))
        self._bar.title = layer.title
        edges = [_edges(axis.values) for axis in (found.x, found.y)]
        for axis, (start, end) in zip((self.map.x_range, self.map.y_range), edges, strict=True):
            # Within one plane the user may have zoomed in.
            if (axis.reset_start, axis.reset_end) != (start, end):
                set_range(axis, start, end)
        (left, right), (bottom, top) = edges
        place = {"x": [left], "y": [bottom], "dw": [right - left], "dh": [top - bottom]}
        self.image.data = {"shown": [shown], "value": [values], **place}
        self._label()
        self._say_place(found)

    def redraw(self) -> None:
        if self.why_not(self.state.problem):
            return
        across, upwards = self._at
        self.current.data = {"x": [across], "y": [upwards]}
        if self.shown is None:
            self._label()
        elif self._drawn != self.state.layer:
            self.draw(self.shown.value, complete=self.shown.complete)
        else:
            self._say_place(self.shown.value)

    def describe(self, found: AmortizationMap) -> None:
        about = about_map(found, plane_axes(self.state.problem))
        values = layer_of(self._drawn).values(found)
        describe(
            self.map, f"{about} {about_layer(layers(self.state.problem)[self._drawn], values)}"
        )

    def frame(self, found: AmortizationMap) -> pd.DataFrame:
        return export.plane(found)

    def _label(self) -> None:
        """Names the axes: the map's own, or of the one to come."""
        labels = plane_axes(self.state.problem)
        for axis, name in zip((self.map.xaxis, self.map.yaxis), self._along, strict=True):
            axis.axis_label = labels.get(name, name)

    def _say_place(self, found: AmortizationMap) -> None:
        self._text.object = f"<p>{about_place(found, self._at, inside=self._is_inside)}</p>"

    def _map(self) -> figure:
        shown = picture(
            "amortization-map",
            alternative="Quality of the proposals over y and theta.",
            x_label="",
            y_label="",
            height=440,
            x_range=Range1d(0, 1),
            y_range=Range1d(0, 1),
        )
        image = shown.image(
            "shown", "x", "y", "dw", "dh", source=self.image, color_mapper=self._mapper
        )
        tips = [("at", "$x{0.00}, $y{0.00}"), ("value", "@value{%.3g}")]
        add_hover(shown, [image], tips).formatters = {"@value": "printf"}
        shown.center = []
        current = shown.scatter("x", "y", source=self.current, size=14, fill_alpha=0)
        current.glyph.update(line_color="#e8000b", line_width=3)
        add_legend(shown, [("your case (click to move it)", [current])], ncols=1)
        shown.add_layout(self._bar, "right")
        shown.on_event("tap", callback(lambda event: self._click(event.x, event.y)))
        return shown

    def _click(self, across: float, upwards: float) -> None:
        """Moves the case to a point of the plane that is shown."""
        problem, state = self.state.problem, self.state
        point: dict[str, Any] = {n: list(getattr(state, n)) for n in ("y", "theta")}
        for name, value in zip(self._along, (across, upwards), strict=True):
            for variable, i in _moved(problem, name):
                moved = getattr(problem, variable)
                low, high = moved.typical_range
                point[variable][i] = min(max(round(value, digits_of(moved)), low), high)
        state.move(**{name: value for name, value in point.items() if value})
        state.commit()

    @property
    def _along(self) -> tuple[str, str]:
        """The axes of the map that is shown, or of the one to come."""
        if self.shown is None:
            return self.state.across, self.state.upwards
        shown = dict(self.shown.asked.options)
        return shown["across"], shown["upwards"]

    @property
    def _places(self) -> list[list[float]]:
        """The coordinates of the case that each axis moves."""
        return [
            [getattr(self.case, v)[i] for v, i in _moved(self.case.problem, name)]
            for name in self._along
        ]

    @property
    def _at(self) -> tuple[float, float]:
        """Where the case is along both axes: at the mean of the coordinates that they move."""
        across, upwards = (sum(values) / len(values) for values in self._places)
        return across, upwards

    @property
    def _is_inside(self) -> bool:
        """Whether the case lies in the plane: what an axis moves together is equal."""
        return all(len(set(values)) == 1 for values in self._places)


def plane_choice(problem: Problem, choice: Settings, along: tuple[str, str]) -> Settings:
    """What the map of a plane through a case depends on.

    What the axes move, and what maps do not depend on, is set to where the problem opens.
    """
    kept = {"y": list(choice.y), "theta": list(choice.theta)}
    usual = dict(zip(("y", "theta"), opening(problem), strict=True))
    for name in along:
        for variable, i in _moved(problem, name):
            kept[variable][i] = usual[variable][i]
    runs = FIELDS["runs"].default(problem)
    return replace(
        choice, y=tuple(kept["y"]), theta=tuple(kept["theta"]), draws=0, runs=runs, seed=0
    )


def _moved(problem: Problem, name: str) -> list[tuple[str, int]]:
    """The coordinates that an axis moves, as (variable, index)."""
    variable, _, coordinate = name.rstrip("]").partition("[")
    if coordinate:
        return [(variable, int(coordinate))]
    return [(variable, i) for i in range(getattr(problem, variable).dim)]


def _edges(values: Array) -> tuple[float, float]:
    """Half a step beyond the first and the last case."""
    half = float(values[1] - values[0]) / 2
    return float(values[0]) - half, float(values[-1]) + half
