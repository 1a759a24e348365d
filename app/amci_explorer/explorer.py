r"""One session's page: state, results and views, tied together."""

from __future__ import annotations

__all__ = ["Explorer"]

import logging
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

import panel as pn
import panel_material_ui as pmui
import param
from panel.custom import JSComponent

from amci_explorer.compute.results import Results
from amci_explorer.compute.training import TrainingSession
from amci_explorer.js.scripts import source
from amci_explorer.problems import registry, session_proposals
from amci_explorer.problems.presets import Stop
from amci_explorer.problems.registry import troubles
from amci_explorer.server.session import browser_of, guarded, on_failure
from amci_explorer.state.case import CHOICES, OPENING_PROBLEM, Case
from amci_explorer.state.tour import tour
from amci_explorer.views import export
from amci_explorer.views.amortization import MapCard
from amci_explorer.views.card import Card
from amci_explorer.views.controls import Controls
from amci_explorer.views.diagnostics import DiagnosticsCard
from amci_explorer.views.errors import ErrorCard
from amci_explorer.views.evaluation import EvaluationCard
from amci_explorer.views.headline import HeadlineView
from amci_explorer.views.inputs import copying, download
from amci_explorer.views.layout import column
from amci_explorer.views.panel import DensityPanel
from amci_explorer.views.play import PlayCard
from amci_explorer.views.reuse import ReuseCard
from amci_explorer.views.summary import SummaryCard
from amci_explorer.views.tabs import TabsView
from amci_explorer.views.tour import TourView
from amci_explorer.views.train import TrainCard
from amci_explorer.words import CARDS
from amci_explorer.words.script import script

log = logging.getLogger(__name__)

# The cards behind tabs, from left to right.
TABS: tuple[type[Card], ...] = (
    PlayCard,
    ReuseCard,
    DiagnosticsCard,
    MapCard,
    EvaluationCard,
    TrainCard,
)


class Address(JSComponent):
    """Writes the case into the page's address; nothing of it shows."""

    query: Any = param.String(doc="Of the case.")
    script: Any = param.String(doc="The case as a Python script.")
    fields: Any = param.List(default=["problem", "tour", *CHOICES], doc="Names in a query.")
    _esm = source("address.js")


class Explorer(pn.viewable.Viewer):
    """Creates everything that one session shows, for the case that an address names.

    Cards follow the case by themselves, all else through here.

    Arguments:
        document: The session's Bokeh document.
        query: The parameters in the page's address.
    """

    state: Any = param.Parameter(doc="The page's case.")

    def __init__(self, document: Any, query: Mapping[str, str]) -> None:
        state = Case(registry.opening() or OPENING_PROBLEM)
        wrong = state.read(query)
        super().__init__(state=state)
        self.results = Results(document)
        self.training = TrainingSession(state, document, browser_of(document))
        self.results.training = self.training
        self._document = document
        # For slides and frames: one picture, of the densities unless a card is named.
        self.small = query.get("ui") == "min"
        self.densities = DensityPanel(state)
        self.headline = HeadlineView(state, self.results)
        self.errors = ErrorCard(state, self.results)
        self.summary = SummaryCard(state, self.results)
        self.tabs = TabsView(*TABS, state=state, results=self.results)
        self.errors.seen = self.summary.seen = not self.small
        self.tabs.sight.seen = self.small and "card" in query
        about, downloads = self.headline.about, self._downloads()
        self.controls = Controls(state, about=about, downloads=downloads)
        self.tour = TourView(self._visit, self._write_address)
        self.address = Address(width=0, height=0, margin=0)
        self.alerts: Any = column()
        # What steps of the tour light up is found by its class.
        for name, part in {
            "headline": self.headline.panel,
            "densities": self.densities.panel,
            "errors": self.errors.panel,
            "summary": self.summary.panel,
            **self.controls.parts,
            **dict.fromkeys((card.name for card in TABS), self.tabs.panel),
        }.items():
            part.css_classes = [*part.css_classes, f"part-{name}"]
        on_failure(document, self.report)
        self.results.heard += [self.headline.show]
        state.param.watch(self._follow, [name for name in state.param if name != "name"])
        self._open(self.summary, self.errors)
        self._say_what_is_wrong(query, wrong)

    @property
    def card(self) -> Card | None:
        """The only card of a frame, if it has one."""
        return self.tabs.card if self.small and self.tabs.sight.seen else None

    def start(self) -> None:
        """Starts Monte Carlo for the case that the page opens with."""
        self._write_address()
        self.densities.describe()
        for card in (self.errors, self.summary, self.tabs.card):
            if card.seen:
                card.start()

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        for view in (self.densities, self.errors, self.summary, self.tabs):
            view.recolour(dark)

    def close(self, _: Any) -> None:
        """The session is over."""
        self.training.close()
        self.results.forget()
        session_proposals.forget(self.state)

    def report(self, error: Exception) -> None:
        """Shows what failed in words; the page stays alive."""
        log.error("a visitor could not be answered", exc_info=error)
        why = str(error) or type(error).__name__
        self.complain(f"The page could not be updated: {why}. Your settings are unchanged.")

    def complain(self, message: str) -> None:
        """Adds a notice to those that are not closed, above all else; of five the first leaves."""
        text = escape(message)
        before = [alert for alert in self.alerts if not alert.closed and alert.object != text]
        looks = {"severity": "error", "closeable": True, "sizing_mode": "stretch_width"}
        new = pmui.Alert(title="", object=text, margin=(0, 0, 10, 0), **looks)
        self.alerts[:] = [*before[-3:], new]

    @param.depends("state.problem", watch=True)
    def _forget(self) -> None:
        """Calls off all computing, before any card opens another problem."""
        self.results.forget()

    def _follow(self, *events: Any) -> None:
        """Follows the case in what is not a card."""
        changed = {event.name for event in events}
        if "problem" in changed:
            self._open()
        else:
            # Proposals that got better are drawn as others would be.
            self.densities.follow({"variant"} if "renewed" in changed else changed)
            self.headline.show()
            if "card" in changed:
                self.tabs.show()
        if changed & {"committed", "renewed"}:
            self.densities.describe()
        if changed & {"committed", "renewed", "theme"}:
            self._write_address()

    def _open(self, *cards: Card) -> None:
        """Opens the case's problem; if one view fails the others still open."""
        views: tuple[Any, ...] = (self.densities, self.controls, *cards, self.tabs)
        for act in (*(view.open for view in views), self.headline.show):
            with guarded(self._document):
                act()

    def _say_what_is_wrong(self, query: Mapping[str, str], wrong: dict[str, str]) -> None:
        """Says what an address asks for that there is not, and which files hold no problem."""
        if "tour" in query and not self.small:
            self.tour.open(query["tour"], visit="problem" not in query)
            if query["tour"] and tour().index(query["tour"]) is None:
                self.complain("Unknown tour step; this is the first one.")
        if self.small and wrong:
            self.complain("; ".join(f"{name}: {text}" for name, text in wrong.items()))
        self.controls.complain(wrong)
        if troubles():
            # As code, so that no name of a file becomes a link.
            lines = (line.replace("`", "'") for line in troubles())
            self.complain("\n\n".join(f"`{line}`" for line in lines))

    def _visit(self, step: Stop) -> None:
        """Goes to a step of the tour."""
        card = {"card": step.light} if step.light in CARDS else {}
        self.state.visit({**card, **step.link})
        self.controls.unfold(step.light)

    def _write_address(self) -> None:
        step = {"tour": self.tour.step.name} if self.tour.opened else {}
        link = urlencode({**self.state.link(), **step}, safe=",")
        self.address.param.update(query=link, script=script(self.state.settings))

    def _downloads(self) -> list[Any]:
        def densities() -> Any:
            return export.file(self.densities.answers())

        wide = {"sizing_mode": "stretch_width"}
        return [
            copying("Copy link", "window.location.href"),
            copying("Copy Python", "window.case_in_python()"),
            download("Densities, CSV", densities, filename="densities.csv", **wide),
            download("Everything, JSON", self._everything, filename="amci-explorer.json", **wide),
        ]

    def _everything(self) -> Any:
        compares, found = self.state.same_reference is not None, self.results.all.items()
        shown = {name: each for name, each in found if compares or not name.endswith("-a")}
        return export.everything(self.state, shown)
