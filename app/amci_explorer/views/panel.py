r"""The panel of the proposals: the pictures of the problem's kind, live while a handle moves."""

from __future__ import annotations

__all__ = ["DensityPanel"]

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from io import StringIO
from typing import Any

import panel as pn
import param
from panel.custom import JSComponent

from amci_core.estimators.draws import Array
from amci_explorer.compute.computations import computations_of
from amci_explorer.compute.requests import Request
from amci_explorer.js.scripts import LIVE_DENSITIES
from amci_explorer.numbers.pictures import densities, picture_of
from amci_explorer.numbers.weights import LIVE, weights
from amci_explorer.problems import registry
from amci_explorer.problems.presets import digits_of
from amci_explorer.server.session import callback
from amci_explorer.state.state import State
from amci_explorer.views import export
from amci_explorer.views.bound import bound, same
from amci_explorer.views.densities import DensityView
from amci_explorer.views.figures import entitle_all, give_up_names
from amci_explorer.views.layout import HTML, card, column, explain, hide
from amci_explorer.views.tabulated import AsTable
from amci_explorer.words import HELP

# What changes the case to compare with, or how both cases look; and what changes the case's own.
COMPARING = {"compared", "coordinate", "pair", "logarithmic"}
SHAPING = {"y", "theta", "variant", "snapshot"} | COMPARING


class LivePage(JSComponent):
    """What the page knows of the case that the server has drawn, and of its proposals.

    Weights are sent when a handle is first touched: who only looks does not wait for them.
    """

    key: Any = param.String(doc="Whose densities they are; empty where the page cannot compute.")
    extent: Any = param.List(default=[0.0, 1.0], doc="Ends of the pictures, on the line.")
    y: Any = param.List(default=[], doc="Of the case.")
    theta: Any = param.List(default=[], doc="Of the case.")
    asked: Any = param.String(doc="The key whose weights the page wants.")
    weights: Any = param.String(doc="Proposals in JSON, with their key; empty until asked for.")
    _esm = LIVE_DENSITIES


class DensityPanel:
    """Creates the panel, empty; `open` fills it.

    Arguments:
        state: What is looked at.
    """

    def __init__(self, state: State) -> None:
        self._state, self._dark = state, False
        self._draws: dict[str, Any] = {}
        self._found: Any = None
        self._reference: Any = None
        self._kind: Any = None
        self.view: Any = None
        self._live = LivePage(width=0, height=0, margin=0)
        self._live.param.watch(callback(self._send), "asked")
        narrow: dict[str, Any] = {"listed": True, "sizing_mode": None, "margin": (8, 0, 0, 8)}
        self._choices = {
            "logarithmic": bound(state, "logarithmic", "Scale of the densities"),
            "coordinate": bound(state, "coordinate", "Coordinate", width=110, **narrow),
            "pair": bound(state, "pair", "Pair of coordinates", width=146, **narrow),
        }
        self._help, self._place = HTML(), column()
        self._as_table = AsTable("Densities", lambda: export.joined(self._lines()))
        self.panel = card(
            "Proposals",
            self._place,
            self._as_table.panel,
            self._live,
            tools=[*self._choices.values()],
            help_text=self._help,
        )

    def open(self) -> None:
        """Turns to the state's problem."""
        problem = self._state.problem
        explain(self._help, HELP[picture_of(problem).help])
        for name, choice in self._choices.items():
            hide(choice, (problem.x.dim == 1) != (name == "logarithmic") or problem.x.dim == 2)
        self.follow(SHAPING)
        entitle_all(self.panel, self._state.original, self._state.f)

    def follow(self, changed: set[str]) -> None:
        """Follows a handle while it is dragged: exact densities, no Monte Carlo."""
        if changed & COMPARING:
            reference = self._state.same_reference
            self._reference = None if reference is None else self._of(reference)
        if changed & SHAPING:
            self.draw()

    def draw(self) -> None:
        """Draws the densities of the state's case, in new pictures if the old ones do not fit."""
        state = self._state
        found = self._found = self._of(state)
        kind = DensityView.kind(found), state.logarithmic, self._dark
        if kind != self._kind:
            self._kind = kind
            for old in self.view.panel.select(pn.pane.Bokeh) if self.view is not None else ():
                give_up_names(old.object)
            self.view = DensityView(found, logarithmic=state.logarithmic, dark=self._dark)
            self.view.describe(found)
            self.view.show_draws(self._draws)
            entitle_all(self.view.panel, state.original, state.f)
            if self.view.handle is not None:
                self.view.handle.on_move(self._grabbed)
        if self.view.handle is not None:
            self._attach()
        self._tell()
        self.view.show(found, self._reference)
        if list(self._place) != [self.view.panel]:
            self._place[:] = [self.view.panel]

    def show_draws(self, points: Mapping[str, Array]) -> None:
        """Marks the first draws of the case, (n, D), where the picture has an axis for them."""
        at = self._state.coordinate - 1
        names = {"q1_plus": "q1"}
        self._draws = {names.get(name, name): x[:, at] for name, x in points.items()}
        if self.view is not None:
            self.view.show_draws(self._draws)

    def describe(self) -> None:
        """Renews what the pictures are in words and in numbers."""
        if self._found is not None:
            self.view.describe(self._found)
            self._as_table.renew()

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        if dark != self._dark:
            self._dark = dark
            if self._found is not None:
                self.draw()

    def table(self) -> StringIO:
        """What is shown, as a file; and the reference case."""
        asked = {n: Request("densities", case.settings) for n, case in self._cases.items()}
        return export.file(self._lines(), asked)

    @property
    def _cases(self) -> dict[str, State]:
        """The case, and the reference case."""
        reference = self._state.same_reference
        return {"B": self._state} if reference is None else {"A": reference, "B": self._state}

    def _lines(self) -> dict[str, Any]:
        """What is shown of each case, as lines of a table."""
        return {name: export.frame(self._of(case)) for name, case in self._cases.items()}

    def _of(self, case: State) -> Any:
        look = {}
        if case.problem.x.dim > 2:
            first, second = self._state.pair
            look = {"coordinate": self._state.coordinate - 1, "pair": (first - 1, second - 1)}
        proposals = computations_of(case.problem.name).proposals(case.settings)
        return densities(case.problem, proposals, *case.settings.pair, **look)

    def _attach(self) -> None:
        """Puts the handle of theta's line where that is; without one it is not there."""
        handle, theta, at = self.view.handle, self._state.problem.theta, self._state.theta
        there = self._found.threshold
        handle.disabled = there is None or len(at) != 1 or not math.isclose(there, at[0])
        if theta is not None and not handle.disabled:
            (start, end), digits = theta.typical[:, 0].tolist(), digits_of(theta)
            looks = {"start": start, "end": end, "step": 10.0**-digits, "digits": digits}
            handle.param.update(value=at[0], **looks)

    def _grabbed(self, *events: Any) -> None:
        """Moves theta by its line."""
        state, handle = self._state, self.view.handle
        if not same(handle.value, state.theta[0]):
            state.move(theta=[handle.value])
        if any(event.name == "committed" for event in events):
            state.commit()

    def _tell(self) -> None:
        """Tells the page what is drawn next; before it is."""
        state, live = self._state, self._live
        problem, variant = state.problem.name, state.settings.variant
        can = problem in LIVE and state.settings.snapshot is None and _stored(problem, variant)
        key = f"{problem}/{variant}" if can else ""
        if key != live.key:
            live.param.update(key=key, weights="")
            self._send()
        if key:
            extent = list(self._found.extent) if state.problem.x.dim == 1 else []
            live.param.update(extent=extent, y=list(state.y), theta=list(state.theta))

    def _send(self, *_: Any) -> None:
        live = self._live
        if live.key and live.asked == live.key:
            live.weights = _stored(*live.key.split("/"))


@lru_cache(maxsize=16)
def _stored(problem: str, variant: str) -> str:
    """Proposals as the page reads them; empty where it cannot evaluate them."""
    try:
        proposals = weights(registry.proposals(problem, variant))
    except ValueError:
        return ""
    return json.dumps({"key": f"{problem}/{variant}", "proposals": proposals})
