r"""The card of the two proposals, live while a handle moves."""

from __future__ import annotations

__all__ = ["DensityPanel"]

import json
import math
from functools import lru_cache
from typing import Any

import panel as pn
import param
from panel.custom import JSComponent

from amci_explorer.compute.requests import Request
from amci_explorer.js.scripts import source
from amci_explorer.numbers.marks import marks
from amci_explorer.numbers.pictures import densities, picture_of
from amci_explorer.numbers.tumour import TumourDensities
from amci_explorer.numbers.weights import LIVE, weights
from amci_explorer.plots.densities import CoursePicture, DensityPicture
from amci_explorer.problems import registry
from amci_explorer.problems.presets import slider_range
from amci_explorer.server.session import callback
from amci_explorer.state.case import Case
from amci_explorer.views import export
from amci_explorer.views.bound import bound
from amci_explorer.views.details import Details
from amci_explorer.views.figures import dress, entitle, give_up_names, lighten
from amci_explorer.views.inputs import select
from amci_explorer.views.layout import HTML, NOTE, card, column, hide
from amci_explorer.views.slider import Grip
from amci_explorer.words import HELP, TITLES

# What changes the case to compare with, or how both cases look; and what changes the case's own.
COMPARING = {"compared", "coordinate", "pair", "logarithmic"}
SHAPING = {"y", "theta", "variant", "snapshot"} | COMPARING
PICTURES = {"proposals": "densities", "tumour size": "course"}
# A list beside the title, as low as that; its name is read, not shown. Its width is not Panel's:
# that makes a row as wide as all of its lists together, hidden ones among them.
SMALL = """
:host { margin: 0 0 0 8px !important; width: 104px !important; }
.bk-input-group { margin: 0; }
label { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
select { height: 26px !important; padding: 0 22px 0 8px !important; border-radius: 4px;
         font-size: var(--small); color: inherit; background-color: transparent; }
"""


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
    _esm = source("live_densities.mjs")


class DensityPanel:
    """Creates the card, empty; `open` fills it.

    Arguments:
        state: What is looked at.
    """

    def __init__(self, state: Case) -> None:
        self._state, self._dark = state, False
        self._found: Any = None
        self._reference: Any = None
        self._kind: Any = None
        self.picture: Any = None
        self._live = LivePage(width=0, height=0, margin=0)
        self._live.param.watch(callback(self._send), "asked")
        self.handle = Grip(
            figure="densities-q1", moves=["theta", 0], label="Line of θ in the picture", margin=0
        )
        self.handle.drive(state, lambda: state.theta[0], lambda value: state.move(theta=[value]))
        looks: dict[str, Any] = {"sizing_mode": None, "width": 88, "stylesheets": [SMALL]}
        self._choices = {
            name: bound(state, name, label, listed=True, **looks)
            for name, label in (
                ("logarithmic", "Scale"),
                ("coordinate", "Coordinate"),
                ("pair", "Pair"),
            )
        }
        self._which = select("Picture", PICTURES, **looks)
        self._which.param.watch(callback(self._redraw), "value")
        self._place, self._doubt, title = column(), HTML("", NOTE), TITLES["densities"]
        self._details = Details(title, self._help, self.answers)
        self.panel = card(
            title,
            self._place,
            self._doubt,
            self._details.panel,
            self._live,
            tools=[*self._choices.values(), self._which],
        )

    def open(self) -> None:
        """Turns to the state's problem."""
        problem, self._found = self._state.problem, None
        for name, choice in self._choices.items():
            hide(choice, (problem.x.dim == 1) != (name == "logarithmic") or problem.x.dim == 2)
        self._which.value = "densities"
        self.follow(SHAPING)
        hide(self._which, not isinstance(self._found, TumourDensities))
        self._details.renew()

    def follow(self, changed: set[str]) -> None:
        """Follows a handle while it is dragged: exact densities, no Monte Carlo."""
        if changed & COMPARING:
            reference = self._state.same_reference
            self._reference = None if reference is None else self._of(reference)
        if changed & SHAPING:
            self._found = self._of(self._state)
            self.draw()
        elif changed & {"draws", "seed"}:
            self._mark()

    def draw(self) -> None:
        """Draws the densities, in new figures if the old ones do not fit."""
        state, found, which = self._state, self._found, self._which.value
        kind = DensityPicture.kind(found), which, state.logarithmic, self._dark, state.problem
        is_new = kind != self._kind
        if is_new:
            self._renew(
                CoursePicture(dark=self._dark)
                if which == "course"
                else DensityPicture(found, logarithmic=state.logarithmic, dark=self._dark)
            )
            self._kind = kind
        self._attach()
        self._tell()
        self.picture.show(found, self._reference)
        self._mark()
        self._doubt.object = found.doubt and f"<p>{found.doubt}</p>"
        if is_new:
            self.picture.describe()
            shown = pn.pane.Bokeh(self.picture.layout, sizing_mode="stretch_width", margin=0)
            alone = "densities-q1" in self.picture.figures
            self._place[:] = [shown, *([self.handle] if alone else [])]

    def describe(self) -> None:
        """Renews what the pictures are in words and in numbers."""
        if self._found is not None:
            self.picture.describe()
            self._details.renew()

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        if dark != self._dark:
            self._dark = dark
            self._redraw()

    def answers(self) -> export.Answers:
        """What is shown of the case, and of the reference case, as tables."""
        reference = self._state.same_reference
        cases = {"B": self._state} if reference is None else {"A": reference, "B": self._state}
        return {
            name: (Request("densities", case.settings), export.frame(self._of(case)))
            for name, case in cases.items()
        }

    def _help(self) -> str:
        return HELP[picture_of(self._state.problem).help]

    def _redraw(self, *_: Any) -> None:
        if self._found is not None:
            self.draw()

    def _renew(self, picture: Any) -> None:
        """Takes new figures."""
        for old in self.picture.figures.values() if self.picture is not None else ():
            give_up_names(old)
        self.picture = picture
        for name, shown in picture.figures.items():
            dress(shown, name)
            lighten(shown)
            entitle(shown, self._state.original, self._state.f)

    def _mark(self) -> None:
        """Marks the first draws of the case."""
        if isinstance(self.picture, DensityPicture):
            asked = self._state.settings
            case = self._state.problem, registry.chosen(asked), *asked.pair
            self.picture.mark(marks(*case, draws=asked.draws, seed=asked.seed))

    def _of(self, case: Case) -> Any:
        look = {}
        if case.problem.x.dim > 2:
            first, second = self._state.pair
            look = {"coordinate": self._state.coordinate - 1, "pair": (first - 1, second - 1)}
        settings = case.settings
        return densities(case.problem, registry.chosen(settings), *settings.pair, **look)

    def _attach(self) -> None:
        """Puts the handle of theta's line where that is; without one it is not there."""
        handle, theta, at = self.handle, self._state.problem.theta, self._state.theta
        there = getattr(self._found, "threshold", None)
        handle.disabled = there is None or len(at) != 1 or not math.isclose(there, at[0])
        if theta is not None and not handle.disabled:
            handle.param.update(value=at[0], **slider_range(theta))

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
