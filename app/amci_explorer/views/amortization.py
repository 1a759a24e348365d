r"""Where amortization works: the quality of the proposals over a plane of (y, theta).

The map is of the proposals, not of the case looked at: while that moves within the plane, only its
mark does.
"""

from __future__ import annotations

__all__ = ["MapCard"]

from dataclasses import replace
from typing import Any

import param

from amci_core.amortization import AmortizationMap
from amci_core.models import Problem
from amci_explorer.compute.requests import Request
from amci_explorer.plots.amortization import amortization_map
from amci_explorer.problems.presets import digits_of, opening
from amci_explorer.problems.settings import Settings
from amci_explorer.state.options import layers, opens, plane_axes
from amci_explorer.state.state import State
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.layout import column, hide, side_by_side
from amci_explorer.views.picture import Picture, Words
from amci_explorer.words.plane import about_map, about_place


class MapCard(Card):
    """Where amortization works."""

    name = param.String("map")
    unit = "cases"
    drawn = ("y", "theta", "layer", "across", "upwards")

    def content(self) -> list[Any]:
        acts: dict[str, Any] = {"moved": self._move, "dropped": self.state.commit}
        self.map = Picture("amortization-map", height=440, **acts)
        layer, across, upwards = (
            bound(self.state, name, label, listed=True, margin=(6, 0))
            for name, label in (
                ("layer", "Quantity"),
                ("across", "Horizontal axis"),
                ("upwards", "Vertical axis"),
            )
        )
        self._planes = side_by_side(across, upwards, least=240)
        self._text = Words(2)
        return [column(layer, self._planes, gap=4), self.map.panel, self._text]

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
        self.map.clear()
        self._text.say("")
        hide(self._planes, len(plane_axes(self.state.problem)) <= 2)

    def draw(self, found: AmortizationMap, *, complete: bool) -> None:
        labels = plane_axes(self.state.problem)
        self._drawn = self.state.layer
        about, name = about_map(found, labels), layers(self.state.problem)[self._drawn]
        self.map.draw(
            amortization_map(found, self._drawn, at=self._at, labels=labels, dark=self.dark),
            f"{about} Its colours show: {name}.",
        )
        self._say(found)

    def redraw(self) -> None:
        if self.shown is None or self.why_not(self.state.problem):
            return
        yours = self.map.source("yours-your case")
        if self._drawn != self.state.layer or yours is None:
            self.draw(self.shown.value, complete=self.shown.complete)
            return
        across, upwards = self._at
        yours.data = dict(zip(self._along, ([across], [upwards]), strict=True))
        self._say(self.shown.value)

    def _move(self, across: float, upwards: float) -> None:
        """Moves the case to a point of the plane that is shown."""
        problem, state = self.state.problem, self.state
        point: dict[str, Any] = {n: list(getattr(state, n)) for n in ("y", "theta")}
        for name, value in zip(self._along, (across, upwards), strict=True):
            for variable, i in _moved(problem, name):
                moved = getattr(problem, variable)
                low, high = moved.typical[:, i].tolist()
                point[variable][i] = min(max(round(value, digits_of(moved, i)), low), high)
        state.move(**{name: value for name, value in point.items() if value})

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
            [getattr(self.state, v)[i] for v, i in _moved(self.state.problem, name)]
            for name in self._along
        ]

    @property
    def _at(self) -> Any:
        """Where the case is along both axes: at the mean of the coordinates that they move."""
        return tuple(sum(values) / len(values) for values in self._places)

    def _say(self, found: AmortizationMap) -> None:
        """Says what a map has near the case."""
        # That lies in the plane if what an axis moves together is equal.
        inside = all(len(set(values)) == 1 for values in self._places)
        self._text.say(about_place(found, self._at, inside=inside))


def plane_choice(problem: Problem, choice: Settings, along: tuple[str, str]) -> Settings:
    """What the map of a plane through a case depends on.

    What the axes move, and what maps do not depend on, is set to where the problem opens.
    """
    kept = {"y": list(choice.y), "theta": list(choice.theta)}
    usual = dict(zip(("y", "theta"), opening(problem), strict=True))
    for name in along:
        for variable, i in _moved(problem, name):
            kept[variable][i] = usual[variable][i]
    runs = opens("runs", problem)
    return replace(
        choice, y=tuple(kept["y"]), theta=tuple(kept["theta"]), draws=0, runs=runs, seed=0
    )


def _moved(problem: Problem, name: str) -> list[tuple[str, int]]:
    """The coordinates that an axis moves, as (variable, index)."""
    variable, _, coordinate = name.rstrip("]").partition("[")
    if coordinate:
        return [(variable, int(coordinate))]
    return [(variable, i) for i in range(getattr(problem, variable).dim)]
