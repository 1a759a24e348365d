r"""One visitor's page: state, results and views, tied together."""

from __future__ import annotations

__all__ = ["Explorer"]

import logging
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import panel_material_ui as pmui
from bokeh.models import CustomJS

from app import export
from app.computations import Asked
from app.fields import FIELDS
from app.jobs import Jobs
from app.pictures import densities, picture
from app.presets import Preset
from app.results import Results
from app.session import answer, on_failure
from app.state import State
from app.store import Store, store_of
from app.views.amortization import MapCard
from app.views.bound import tie
from app.views.card import Card
from app.views.controls import Controls
from app.views.diagnostics import DiagnosticsCard
from app.views.errors import ErrorCard
from app.views.faint import Faint
from app.views.film import FilmView
from app.views.inputs import copying
from app.views.layout import column
from app.views.reuse import ReuseCard
from app.views.story import StoryView
from app.views.strip import StripCard
from app.views.tabs import TabsView
from app.words.script import script

log = logging.getLogger(__name__)

# Another problem's handles and densities have so long to be painted before the rest of the page is
# made ready: what a message brings meanwhile is built before anything is painted.
MILLISECONDS_AHEAD = 250
# What changes how the kept case's densities look.
BESIDE = {"compared", "coordinate", "pair", "logarithmic"}
# What moves the densities.
SHAPING = {"y", "theta", "variant", "snapshot", "coordinate", "pair", "logarithmic"}
# The cards behind tabs, from left to right.
TABS: tuple[type[Card], ...] = (ReuseCard, DiagnosticsCard, MapCard)


class Explorer:
    """Creates everything that one visitor sees, and starts computing for the point asked for.

    Arguments:
        document: The visitor's Bokeh document.
        query: The parameters in the page's address.
    """

    def __init__(self, document: Any, query: Mapping[str, str]) -> None:
        self.state = State()
        self.results = Results(Jobs(document))
        self._document = document
        # While views are still to be turned to the problem; and whether to compute for it then.
        self._turning = self._asked = False
        self._densities: Any = None
        self._dark = False
        self._density_views: dict[Any, Any] = {}
        self._faint: dict[Any, Faint] = {}
        self._tied: list[Any] = []
        wrong = self.state.read(query)
        # For slides and frames: one picture, of the densities unless a card is named.
        self.small = query.get("ui") == "min"
        self._with_card = "card" in query
        self.density_place = column()
        self.story = StoryView(self.state)
        self.errors = ErrorCard(self.state, self.results)
        self.strip = StripCard(self.state, self.results)
        self.tabs = TabsView(*TABS, state=self.state, results=self.results)
        self.film = FilmView(self.state)
        self.controls = Controls(
            self.state, self.film, downloads=self._downloads(), choose=self._choose
        )
        on_failure(document, self.report)
        self.state.param.watch(self._follow, ["problem", *FIELDS])
        self.state.param.watch(lambda _: self.start(), "released")
        self.errors.figure.js_on_change("tags", CustomJS(code=REPLACE_ADDRESS % list(FIELDS)))
        self._open_case()
        self._open_rest()
        self.controls.complain(wrong)

    @property
    def store(self) -> Store:
        """What follows for the problem that is looked at."""
        return store_of(self.state.problem.name)

    @property
    def cards(self) -> list[Card]:
        """The cards that can be seen."""
        if self.small:
            return [self.tabs.card] if self._with_card else []
        return [self.errors, self.strip, self.tabs.card]

    @property
    def densities(self) -> Any:
        """The density pictures of its kind, made when they are first asked for."""
        make = picture(self.state.problem).view
        if make not in self._density_views:
            self._density_views[make] = created = make()
            created.recolour(self._dark)
        return self._density_views[make]

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._dark = dark
        for view in (self.errors, self.strip, self.tabs, self.film, *self._density_views.values()):
            view.recolour(dark)
        for faint in self._faint.values():
            faint.recolour()

    def start(self) -> None:
        """Starts Monte Carlo for what the state asks for, unless that is under way or done."""
        if self._turning:
            self._asked = True
            return
        self._write_address()
        if self._densities is not None:
            self.densities.describe(self._densities)
        for card in self.cards:
            card.start()

    def close(self, _: Any) -> None:
        """The visitor has gone."""
        self.results.forget()

    def report(self, error: Exception) -> None:
        """Shows what failed in words; the page stays alive."""
        log.error("a visitor could not be answered", exc_info=error)
        self.story.complain(f"That did not work: {str(error) or type(error).__name__}")

    def _follow(self, *events: Any) -> None:
        """Follows the state: another problem brings another point with it, once."""
        changed = {event.name for event in events}
        if "problem" in changed:
            # The page builds what one looks at first while the server makes ready the rest.
            self._open_case()
            self._turning = True
            self._document.add_timeout_callback(answer(self._turn), MILLISECONDS_AHEAD)
            return
        if changed & SHAPING:
            self._move()
        if changed & BESIDE:
            self._compare()
        if changed & {"variant", "snapshot"}:
            self.film.show()
        self.story.show()
        if not self._turning:
            if "card" in changed:
                self.tabs.show()
            for card in self.cards:
                card.follow(changed)

    def _turn(self) -> None:
        """Turns what is left to the state's problem, and computes if that was asked for."""
        if self._turning:
            asked, self._turning, self._asked = self._asked, False, False
            self._open_rest()
            if asked:
                self.start()

    def _open_case(self) -> None:
        """Turns handles and densities to the state's problem, and calls off all computing."""
        self.results.forget()
        view = self.densities
        view.open(picture(self.state.problem))
        if view not in self._tied:
            self._tied.append(view)
            for name, widget in view.choices.items():
                tie(self.state, name, widget)
        if self.density_place.objects != [view.panel]:
            self.density_place[:] = [view.panel]
        self.story.show()
        self.controls.open()
        self.film.open()
        self.strip.open()
        self._move()
        self._compare()

    def _open_rest(self) -> None:
        """Turns the other views to it; nothing of another problem stays."""
        self.errors.open()
        self.tabs.open()

    def _move(self, *_: Any) -> None:
        """Follows a handle while it is dragged: exact densities, no Monte Carlo."""
        view = self.densities
        self._densities = self._densities_of(self.state)
        if "logarithmic" in view.choices:
            view.set_scale(self.state.logarithmic)
        view.show(self._densities)
        if view in self._faint:
            self._faint[view].widen()

    def _compare(self) -> None:
        """Draws the densities of the case that is kept faint below these."""
        view, beside = self.densities, self.state.beside
        if beside is None and view not in self._faint:
            return
        faint = self._faint.setdefault(view, Faint(view.panel))
        faint.clear()
        if beside is not None:
            view.show(self._densities_of(beside))
            faint.take()
        view.show(self._densities)
        faint.widen()

    def _densities_of(self, case: State) -> Any:
        look = {}
        if "pair" in self.densities.choices:
            first, second = self.state.pair
            look = {"coordinate": self.state.coordinate - 1, "pair": (first - 1, second - 1)}
        proposals = self.store.proposals(case.choice)
        return densities(case.problem, proposals, *case.choice.pair, **look)

    def _choose(self, preset: Preset) -> None:
        self.state.apply(preset)
        self.story.tell(preset)

    def _write_address(self) -> None:
        link = urlencode(self.state.link(), safe=",")
        self.errors.figure.tags = [link, script(self.state.choice)]

    def _downloads(self) -> list[Any]:
        def button(label: str, filename: str, make: Any) -> Any:
            return pmui.FileDownload(
                callback=make,
                filename=filename,
                label=label,
                size="small",
                variant="outlined",
                sizing_mode="stretch_width",
                margin=0,
            )

        return [
            copying("Copy link", self.errors.figure, "window.location.href"),
            copying("Copy Python", self.errors.figure, "source.tags[1]"),
            button("Densities, CSV", "densities.csv", self._densities_csv),
            button("Everything, JSON", "amci-explorer.json", self._everything),
        ]

    def _densities_csv(self) -> Any:
        beside = self.state.beside
        cases = {"B": self.state} if beside is None else {"A": beside, "B": self.state}
        return export.table(
            *(
                (
                    name,
                    export.densities(self._densities_of(case)),
                    Asked("densities", case.choice).link,
                )
                for name, case in cases.items()
            )
        )

    def _everything(self) -> Any:
        return export.everything(self.state, self.results.all)


# The address is replaced, not pushed: Back leads to where the visitor came from.
REPLACE_ADDRESS = """
    const address = new URL(window.location.href)
    const asked = new URLSearchParams(cb_obj.tags[0])
    for (const name of ["problem", ...%s]) { address.searchParams.delete(name) }
    for (const [name, value] of asked) { address.searchParams.set(name, value) }
    window.history.replaceState(window.history.state, "", address)
"""


class _Callable(ModuleType):
    """Lets a notebook say `from app import explorer; explorer()`."""

    def __call__(self, **options: Any) -> Any:
        """Shows the dashboard in a cell, see `app.cell.open_dashboard`."""
        from app.cell import open_dashboard

        return open_dashboard(**options)


sys.modules[__name__].__class__ = _Callable
