r"""The panel of the proposals: the pictures of the problem's kind, live under the finger."""

from __future__ import annotations

__all__ = ["DensityPanel", "LivePage"]

import json
import math
from functools import lru_cache
from io import StringIO
from typing import Any

import panel as pn
import param
from bokeh.models import ColumnDataSource, Label, Plot
from panel.custom import JSComponent

from amci_explorer.compute.computations import computations_of
from amci_explorer.compute.requests import Request
from amci_explorer.js.scripts import FINGER
from amci_explorer.numbers.pictures import densities
from amci_explorer.numbers.play import Playback
from amci_explorer.numbers.weights import LIVE, weights
from amci_explorer.problems import registry
from amci_explorer.problems.presets import digits_of
from amci_explorer.server.session import callback
from amci_explorer.state.state import State
from amci_explorer.views import export
from amci_explorer.views.bound import tie
from amci_explorer.views.densities import DensityView
from amci_explorer.views.faint import Faint
from amci_explorer.views.figures import entitle
from amci_explorer.views.layout import column
from amci_explorer.views.planes import MarginalView, PlaneView
from amci_explorer.views.slider import Slider, same
from amci_explorer.views.tabulated import AsTable

# By the dimension of x; `MarginalView` for all others.
VIEWS: dict[int, Any] = {1: DensityView, 2: PlaneView}
# Draws of a proposal that are marked.
MOST_TICKS = 200
# What changes how the kept case's densities look; and what these do.
BESIDE = {"compared", "coordinate", "pair", "logarithmic"}
SHAPING = {"y", "theta", "variant", "snapshot", "coordinate", "pair", "logarithmic"}


class DensityPanel:
    """Creates the panel, empty; of each kind of picture there is one, made when it is needed.

    Arguments:
        state: What is looked at.
        prefix: What the names of its pictures begin with, where a page has several panels.
            The one without follows the handles at once.
    """

    def __init__(self, state: State, *, prefix: str = "") -> None:
        self._state, self._prefix = state, prefix
        self._finger = None if prefix else LiveDensities(state)
        self._dark = False
        self._found: Any = None
        self._views: dict[Any, tuple[Any, Faint]] = {}
        self._as_table = AsTable("Densities", lambda: export.joined(self._lines()))
        self.panel = column()

    @property
    def view(self) -> Any:
        """The pictures of the problem's kind."""
        return self._here[0]

    def open(self) -> None:
        """Turns to the state's problem."""
        view, _ = self._here
        self._found = None
        view.open(self._state.problem)
        entitle(view.panel, self._state.f)
        parts = [view.panel, *([self._finger.panel] if self._finger else [])]
        if self.panel.objects != parts:
            # What is folded goes from card to card, above how to read it.
            for other, _ in self._views.values():
                if self._as_table in other.panel:
                    other.panel.remove(self._as_table)
            view.panel.insert(len(view.panel) - 1, self._as_table)
            self.panel[:] = parts
        self._show()
        self._compare()

    def follow(self, changed: set[str]) -> None:
        """Follows a handle while it is dragged: exact densities, no Monte Carlo."""
        if changed & SHAPING:
            self._show()
        if changed & BESIDE:
            self._compare()

    def show_draws(self, found: Playback | None) -> None:
        """Marks the first draws of the case where the picture has an axis for them."""
        if isinstance(self.view, DensityView | MarginalView):
            lanes = found.lanes if found is not None else ()
            count = min(self._state.draws, MOST_TICKS)
            names = {"q1_plus": "q1"}
            self.view.show_draws({names.get(e.proposal, e.proposal): e.x[:count] for e in lanes})

    def describe(self) -> None:
        """Renews what the pictures are in words and in numbers."""
        if self._found is not None:
            self.view.describe(self._found)
            self._as_table.renew()

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._dark = dark
        for view, faint in self._views.values():
            view.recolour(dark)
            faint.recolour()

    def table(self) -> StringIO:
        """What is shown, as a file; and the case that is kept beside it."""
        links = {n: Request("densities", case.settings).link for n, case in self._cases.items()}
        return export.table(*((name, rows, links[name]) for name, rows in self._lines().items()))

    @property
    def _cases(self) -> dict[str, State]:
        """The case, and the one that is kept beside it."""
        beside = self._state.beside
        return {"B": self._state} if beside is None else {"A": beside, "B": self._state}

    def _lines(self) -> dict[str, Any]:
        """What is shown of each case, as lines of a table."""
        return {name: export.densities(self._of(case)) for name, case in self._cases.items()}

    @property
    def _here(self) -> tuple[Any, Faint]:
        make = VIEWS.get(self._state.problem.x.dim, MarginalView)
        if make not in self._views:
            view = make()
            view.recolour(self._dark)
            for name, widget in view.choices.items():
                tie(self._state, name, widget)
            if isinstance(view, DensityView) and not self._prefix:
                view.handle.param.watch(callback(self._grabbed), ["value", "committed"])
            self._views[make] = view, Faint(view.panel)
        return self._views[make]

    def _show(self) -> None:
        view, faint = self._here
        self._found = self._of(self._state)
        if "logarithmic" in view.choices:
            view.set_scale(self._state.logarithmic)
        self._name(view)
        if isinstance(view, DensityView):
            self._attach(view.handle)
        if self._finger is not None:
            self._finger.show(self._found)
        view.show(self._found)
        faint.widen()

    def _attach(self, handle: Slider) -> None:
        """Puts the handle of theta's line where that is; without one it is not there."""
        theta, at = self._state.problem.theta, self._state.theta
        there = theta is not None and theta.dim == 1 and self._found.threshold is not None
        if self._prefix or not there or not math.isclose(self._found.threshold, at[0]):
            handle.disabled = True
            return
        (start, end), digits = theta.typical_range, digits_of(theta)
        handle.param.update(
            value=at[0], start=start, end=end, step=10.0**-digits, digits=digits, disabled=False
        )

    def _grabbed(self, *events: Any) -> None:
        """Moves theta by its line."""
        state, handle = self._state, self.view.handle
        if not same(handle.value, state.theta[0]):
            state.move(theta=[handle.value])
        if any(event.name == "committed" for event in events):
            state.commit()

    def _name(self, view: Any) -> None:
        """Gives pictures and their data names that no others of the page have."""
        for each in view.panel.select(pn.pane.Bokeh) if self._prefix else ():
            for model in each.object.references():
                named = isinstance(model, ColumnDataSource | Label | Plot) and model.name
                if named and not named.startswith(self._prefix):
                    model.name = self._prefix + named

    def _compare(self) -> None:
        """Draws the densities of the case that is kept faint below these."""
        view, faint = self._here
        beside = self._state.beside
        if beside is None and not faint.taken:
            return
        faint.clear()
        if beside is not None:
            view.show(self._of(beside))
            faint.take()
        view.show(self._found)
        faint.widen()

    def _of(self, case: State) -> Any:
        look = {}
        if "pair" in self.view.choices:
            first, second = self._state.pair
            look = {"coordinate": self._state.coordinate - 1, "pair": (first - 1, second - 1)}
        proposals = computations_of(case.problem.name).proposals(case.settings)
        return densities(case.problem, proposals, *case.settings.pair, **look)


class LivePage(JSComponent):
    """What the page knows of the case that the server has drawn, and of its proposals."""

    key: Any = param.String(doc="Whose densities they are; empty where the page cannot compute.")
    extent: Any = param.List(default=[0.0, 1.0], doc="Ends of the pictures, on the line.")
    y: Any = param.List(default=[], doc="Of the case.")
    theta: Any = param.List(default=[], doc="Of the case.")
    asked: Any = param.String(doc="The key whose weights the page wants.")
    weights: Any = param.String(doc="Proposals in JSON, with their key; empty until asked for.")
    _esm = FINGER


class LiveDensities:
    """Creates what follows the handles in the page; invisible.

    Weights are sent when a handle is first touched: who only looks does not wait for them.

    Arguments:
        state: What is looked at.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.panel = LivePage(width=0, height=0, margin=0)
        self.panel.param.watch(callback(self._send), "asked")

    def show(self, found: Any) -> None:
        """Says what is drawn next; before it is."""
        state = self._state
        problem = state.problem
        key = f"{problem.name}/{state.settings.variant}" if self._can() else ""
        if key != self.panel.key:
            self.panel.param.update(key=key, weights="")
            if key and self.panel.asked == key:
                self._send()
        if key:
            self.panel.param.update(
                extent=list(found.extent) if problem.x.dim == 1 else [],
                y=list(state.y),
                theta=list(state.theta),
            )

    def _can(self) -> bool:
        state = self._state
        return (
            state.problem.name in LIVE
            and state.settings.snapshot is None
            and bool(_stored(state.problem.name, state.settings.variant))
        )

    def _send(self, *_: Any) -> None:
        key = self.panel.key
        if key and self.panel.asked == key:
            self.panel.weights = _stored(*key.split("/"))


@lru_cache(maxsize=16)
def _stored(problem: str, variant: str) -> str:
    """Proposals as the page reads them; empty where it cannot evaluate them."""
    try:
        proposals = weights(registry.proposals(problem, variant))
    except ValueError:
        return ""
    return json.dumps({"key": f"{problem}/{variant}", "proposals": proposals})
