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
from amci_explorer.state.case import Case
from amci_explorer.state.links import nearest
from amci_explorer.state.options import layers, moved_by, plane_axes
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.figures import WORDS, Picture
from amci_explorer.views.layout import HTML, column, hide, side_by_side
from amci_explorer.words.maps import about_place

OUTSIDE = "Your case lies outside this plane: coordinates that move together differ."


class MapCard(Card):
    """Where amortization works."""

    name = param.String("map")
    unit = "cases"
    drawn = ("y", "theta", "layer", "across", "upwards")

    def content(self) -> list[Any]:
        self.map = Picture("amortization-map", height=440, moved=self._move)
        labels = {
            "layer": "Quantity",
            "across": "Horizontal axis",
            "upwards": "Vertical axis",
        }
        layer, *axes = (
            bound(self.state, name, label, listed=True, margin=(6, 0))
            for name, label in labels.items()
        )
        self._planes = side_by_side(*axes, least=240)
        self.text = HTML("", WORDS)
        return [column(layer, self._planes, gap=4), self.map.panel, self.text]

    def asked(self, case: Case) -> Request | None:
        if self.why_not(case.problem):
            return None
        along = {"across": self.state.across, "upwards": self.state.upwards}
        settings = plane_choice(case.problem, case.settings, tuple(along.values()))
        return Request("amortization", settings, tuple(along.items()))

    @staticmethod
    def why_not(problem: Problem) -> str:
        axes = plane_axes(problem)
        return "" if len(axes) > 1 else "No map: (y, θ) has fewer than two coordinates."

    def progress(self, found: AmortizationMap) -> tuple[int, int]:
        return found.cases, found.done.size

    def clear(self) -> None:
        self.map.clear()
        self.text.object = ""
        hide(self._planes, len(plane_axes(self.state.problem)) <= 2)

    def draw(self, found: AmortizationMap, *, complete: bool) -> None:
        labels, self._layer = plane_axes(self.state.problem), self.state.layer
        at = self._at(found)
        picture = amortization_map(found, self._layer, at=at, labels=labels, dark=self.dark)
        shows, axes = layers(self.state.problem)[self._layer], (found.x.name, found.y.name)
        across, upwards = (labels.get(name, name) for name in axes)
        self.map.draw(picture, f"Amortization map: {shows}, over {across} and {upwards}.")
        self._say(found, at)

    def redraw(self) -> None:
        """Moves the mark with a drag."""
        if self.shown is None:
            return
        found, yours = self.shown.value, self.map.source("yours-your case")
        if yours is None or self._layer != self.state.layer:
            super().redraw()
            return
        at = self._at(found)
        axes = (found.x.name, found.y.name)
        yours.data = {name: [at[i]] if at else [] for i, name in enumerate(axes)}
        self._say(found, at)

    def _say(self, found: AmortizationMap, at: tuple[float, float] | None) -> None:
        self.text.object = f"<p>{OUTSIDE if at is None else about_place(found, at)}</p>"

    def _move(self, across: float, upwards: float, last: bool) -> None:
        """Moves the case to a point of the plane that is shown."""
        if self.shown is None:
            return
        problem, found = self.state.problem, self.shown.value
        point = {name: list(getattr(self.state, name)) for name in ("y", "theta")}
        for axis, value in ((found.x, across), (found.y, upwards)):
            for variable, i in moved_by(problem, axis.name):
                point[variable][i] = round(value, digits_of(getattr(problem, variable), i))
        at = {name: nearest(getattr(problem, name), v) for name, v in point.items() if v}
        self.state.move(**at)
        if last:
            self.state.commit()

    def _at(self, found: AmortizationMap) -> tuple[float, float] | None:
        """Where the case is along both axes; None if it is not in the plane."""
        at: list[float] = []
        for axis in (found.x, found.y):
            moved = moved_by(self.state.problem, axis.name)
            values = {getattr(self.state, variable)[i] for variable, i in moved}
            if len(values) > 1:
                return None
            at += values
        return at[0], at[1]


def plane_choice(problem: Problem, choice: Settings, along: tuple[str, ...]) -> Settings:
    """What the map of a plane through a case depends on.

    What the axes move, and what maps do not depend on, is set to where the problem opens.
    """
    opens = dict(zip(("y", "theta"), opening(problem), strict=True))
    kept = {"y": list(choice.y), "theta": list(choice.theta)}
    for name in along:
        for variable, i in moved_by(problem, name):
            kept[variable][i] = opens[variable][i]
    y, theta = tuple(kept["y"]), tuple(kept["theta"])
    return replace(choice, y=y, theta=theta, draws=0, runs=100, seed=0)
