r"""The amortization map of the page: which plane it shows, when it is computed, what a click does.

The map is of the proposals, not of the case looked at: while that moves within the plane, only its
mark does.
"""

from __future__ import annotations

__all__ = ["Amortization", "Plane", "axes_of", "plane_of"]

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from amci_core.amortization import AmortizationMap, axis_names, default_plane
from amci_core.models import Problem
from app.computations import Asked
from app.jobs import Jobs
from app.presets import opening, variable_labels
from app.session import answer
from app.state import Choice, Point, State, shown_range
from app.views.amortization import AmortizationView

JOB = "amortization"


@dataclass(frozen=True)
class Plane:
    """What a map depends on; equal planes give equal maps.

    Arguments:
        choice: The proposals, and the case where the axes do not move it.
        along: The axes across and upwards, as `amci_core.amortization_map` takes them.
    """

    choice: Choice
    along: tuple[str, str]


def axes_of(problem: Problem) -> dict[str, str]:
    """The axes a plane can have: what they are called, and their names in the core."""
    labels = {}
    for name in axis_names(problem):
        variable = getattr(problem, name.partition("[")[0])
        own = variable_labels(problem, variable)
        coordinate = int(name[:-1].partition("[")[2]) if "[" in name else None
        alike = len(own) != variable.dim
        if coordinate is None and variable.dim > 1 and not alike:
            continue
        if coordinate is not None and variable.dim == 1:
            continue
        if alike:
            which = "all coordinates" if coordinate is None else f"coordinate {coordinate + 1}"
            label = f"{own[0]}, {which}"
        else:
            label = own[coordinate or 0]
        labels[f"{label}, {variable.unit}" if variable.unit else label] = name
    return labels


def plane_of(problem: Problem, choice: Choice, along: tuple[str, str]) -> Plane:
    """The plane through a case; what the axes move, and what maps do not depend on, is set to
    where the problem opens."""
    kept = {"y": list(choice.y), "theta": list(choice.theta)}
    usual = dict(zip(("y", "theta"), opening(problem), strict=True))
    for name in along:
        for variable, i in _moved(problem, name):
            kept[variable][i] = usual[variable][i]
    settled = replace(
        choice, y=tuple(kept["y"]), theta=tuple(kept["theta"]), draws=0, runs=0, seed=0
    )
    return Plane(settled, along)


class Amortization:
    """Creates the card of one visitor and ties it to the state.

    The map as far as it is computed is `found`, of the plane `plane`.

    Arguments:
        state: What a click moves.
        jobs: What computes in the background.
        store: Gives the store of the problem looked at.
        report: Shows a message.
    """

    def __init__(
        self,
        state: State,
        jobs: Jobs,
        *,
        store: Callable[[], Any],
        report: Callable[[str | None], None],
    ) -> None:
        self._state, self._jobs = state, jobs
        self._store, self._report = store, report
        self._asked: Plane | None = None
        self._running = False
        self.found: AmortizationMap | None = None
        self.plane: Plane | None = None
        self.view = AmortizationView(
            click=answer(self._click), turn=answer(self._turn), press=answer(self._press)
        )

    def open(self) -> None:
        """Makes ready for the state's problem."""
        self._asked = self.found = self.plane = None
        self._running = False
        problem = self._state.problem
        self.view.open(self._store().terms, axes_of(problem), default_plane(problem))
        self.mark()

    def mark(self) -> None:
        """Follows the case while it moves."""
        self.view.mark(
            *(self._coordinate(name) for name in self.view.along), inside=self._is_inside()
        )

    def start(self, choice: Choice) -> None:
        """Computes the map of a choice's proposals, unless that is under way or done."""
        asked = plane_of(self._state.problem, choice, self.view.along)
        if asked == self._asked:
            return
        self._asked, self.found, self._running = asked, None, True
        self.plane = asked
        self.view.begin()
        self._jobs.start(
            JOB,
            Asked("amortization", asked.choice, (asked.along,)),
            show=self._show,
            finish=self._finish,
        )

    def stop(self) -> None:
        """Calls it off; it starts anew when it is asked for again."""
        if self._running:
            self._jobs.cancel(JOB)
            self._running, self._asked = False, None
            self.view.stop()

    def _show(self, found: AmortizationMap) -> None:
        self.found = found
        self.view.show(found)

    def _finish(self, message: str | None) -> None:
        self._running = False
        self.view.end()
        self._report(message)

    def _press(self, _: Any) -> None:
        if self._running:
            asked = self._asked
            self.stop()
            # The user called it off: it stays so until something else is asked for.
            self._asked = asked
        else:
            self._asked = None
            self.start(self._state.choice)

    def _turn(self, _: Any) -> None:
        self.mark()
        self.start(self._state.choice)

    def _click(self, across: float, upwards: float) -> None:
        """Moves the case to a point of the plane."""
        problem, state = self._state.problem, self._state
        point = {"y": list(state.y), "theta": list(state.theta)}
        for name, value in zip(self.view.along, (across, upwards), strict=True):
            for variable, i in _moved(problem, name):
                low, high = shown_range(getattr(problem, variable))
                digits = 0 if high - low > WIDE else 2
                point[variable][i] = min(max(round(value, digits), low), high)
        asked: dict[str, Any] = {name: value for name, value in point.items() if value}
        state.move(**asked)
        state.param.trigger("released")

    def _coordinate(self, name: str) -> float:
        """Where the case is along an axis: at the mean of the coordinates that it moves."""
        values = [getattr(self._state, v)[i] for v, i in _moved(self._state.problem, name)]
        return sum(values) / len(values)

    def _is_inside(self) -> bool:
        """Whether the case lies in the plane: what an axis moves together is equal."""
        each: list[Point] = [
            tuple(getattr(self._state, v)[i] for v, i in _moved(self._state.problem, name))
            for name in self.view.along
        ]
        return all(len(set(values)) == 1 for values in each)


# Wider ranges than this are moved in whole numbers, as by sliders.
WIDE = 100.0


def _moved(problem: Problem, name: str) -> list[tuple[str, int]]:
    """The coordinates that an axis moves, as (variable, index)."""
    variable, _, coordinate = name.rstrip("]").partition("[")
    if coordinate:
        return [(variable, int(coordinate))]
    return [(variable, i) for i in range(getattr(problem, variable).dim)]
