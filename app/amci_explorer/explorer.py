r"""One session's page: state, results and views, tied together."""

from __future__ import annotations

__all__ = ["Explorer"]

import logging
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

import panel_material_ui as pmui
import param
from panel.custom import JSComponent

from amci_explorer.compute.results import Results
from amci_explorer.compute.training import TrainingSession
from amci_explorer.js.scripts import ADDRESS
from amci_explorer.problems import registry, session_proposals
from amci_explorer.problems.registry import troubles
from amci_explorer.server.session import browser_of, guarded, on_failure
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.state import OPENING_PROBLEM, State
from amci_explorer.state.tour import Step, tour
from amci_explorer.views import export
from amci_explorer.views.amortization import MapCard
from amci_explorer.views.card import Card
from amci_explorer.views.controls import Controls
from amci_explorer.views.diagnostics import DiagnosticsCard
from amci_explorer.views.errors import ErrorCard
from amci_explorer.views.evaluation import EvaluationCard
from amci_explorer.views.film import FilmView
from amci_explorer.views.headline import HeadlineView
from amci_explorer.views.inputs import copying, header_button
from amci_explorer.views.layout import column, pictures, place_on_phones
from amci_explorer.views.panel import DensityPanel
from amci_explorer.views.play import PlayCard
from amci_explorer.views.reuse import ReuseCard
from amci_explorer.views.summary import SummaryCard
from amci_explorer.views.tabs import TabsView
from amci_explorer.views.tour import TourView
from amci_explorer.views.train import TrainCard
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
    fields: Any = param.List(default=["problem", "tour", *FIELDS], doc="Names in a query.")
    _esm = ADDRESS


class Explorer:
    """Creates everything that one session shows, and starts computing for the point asked for.

    Arguments:
        document: The session's Bokeh document.
        query: The parameters in the page's address.
    """

    def __init__(self, document: Any, query: Mapping[str, str]) -> None:
        self.state = State(registry.opening() or OPENING_PROBLEM)
        self.results = Results(document)
        self.training = TrainingSession(self.state, document, browser_of(document))
        self.results.training = self.training
        self._document = document
        wrong = self.state.read(query)
        # For slides and frames: one picture, of the densities unless a card is named.
        self.small = query.get("ui") == "min"
        self._with_card = "card" in query
        self.densities = DensityPanel(self.state)
        self.address = Address(width=0, height=0, margin=0)
        self.alerts: Any = column()
        self.headline = HeadlineView(self.state, self.results)
        self.results.heard += [self.headline.show, self._show_draws]
        self.errors = ErrorCard(self.state, self.results)
        self.summary = SummaryCard(self.state, self.results)
        self.tabs = TabsView(*TABS, state=self.state, results=self.results)
        self.film = FilmView(self.state)
        self.controls = Controls(
            self.state,
            self.film,
            about=self.headline.about,
            downloads=self._downloads(),
            choose=self.state.apply,
        )
        self.tour = TourView(self._visit, self._write_address)
        self.pictures = pictures(self.densities.panel, self.errors.panel)
        # In one column what is folded comes after the pictures and their numbers.
        place_on_phones(self.controls.side, 1)
        place_on_phones(self.tabs.panel, 2)
        self.rest = column(
            # Without a gap: most of the time there are no alerts.
            column(self.alerts, self.controls.top),
            self.headline.panel,
            self.pictures,
            self.summary.panel,
            self.tabs.panel,
            self.tour.panel,
            gap=8,
        )
        # What steps of the tour light up is found by its class.
        for name, part in {
            "headline": self.headline.panel,
            "densities": self.densities.panel,
            "errors": self.errors.panel,
            "summary": self.summary.panel,
            **self.controls.parts,
            **{card.name: self.tabs.panel for card in TABS},
        }.items():
            part.css_classes = [*part.css_classes, f"part-{name}"]
        self.header: list[Any] = [header_button("Tour", lambda _: self.tour.open())]
        on_failure(document, self.report)
        self.state.param.watch(self._follow, ["problem", *FIELDS])
        self.state.param.watch(lambda _: self.start(), "committed")
        # The theme starts nothing.
        self.state.param.watch(lambda _: self._write_address(), "theme")
        self.state.param.watch(lambda _: self._renew(), "renewed")
        self._open()
        if "tour" in query and not self.small:
            self.tour.open(query["tour"], visit="problem" not in query)
            if query["tour"] and tour().index(query["tour"]) is None:
                self.complain("Unknown tour step; this is the first one.")
        if self.small and wrong:
            self.complain("; ".join(f"{name}: {text}" for name, text in wrong.items()))
        self.controls.complain(wrong)
        if troubles():
            # As code, so that no name of a file becomes a link.
            lines = [line.replace("`", "'") for line in troubles()]
            self.complain("\n\n".join(f"`{line}`" for line in lines))

    @property
    def cards(self) -> list[Card]:
        """The cards that can be seen."""
        if self.small:
            return [self.tabs.card] if self._with_card else []
        return [self.errors, self.summary, *([self.tabs.card] if self.tabs.sight.seen else [])]

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        for view in (self.densities, self.errors, self.summary, self.tabs):
            view.recolour(dark)

    def start(self) -> None:
        """Starts Monte Carlo for what the state asks for, unless that is under way or done."""
        self._write_address()
        self.densities.describe()
        for card in self.cards:
            card.start()

    def close(self, _: Any) -> None:
        """The session is over."""
        self.training.close()
        self.results.close()
        session_proposals.forget(self.state)

    def report(self, error: Exception) -> None:
        """Shows what failed in words; the page stays alive."""
        log.error("a visitor could not be answered", exc_info=error)
        why = str(error) or type(error).__name__
        self.complain(f"The page could not be updated: {why}. Your settings are unchanged.")

    def complain(self, message: str) -> None:
        """Says what went wrong, above all else, below what went wrong before."""
        looks = {"severity": "error", "closeable": True, "sizing_mode": "stretch_width"}
        text = escape(message)
        before = [each for each in self.alerts if not each.closed and each.object != text]
        new = pmui.Alert(title="", object=text, margin=(0, 0, 10, 0), **looks)
        # Of more than four the oldest leaves.
        self.alerts[:] = [*before[-3:], new]

    def _follow(self, *events: Any) -> None:
        """Follows the state: another problem brings another point with it, once."""
        changed = {event.name for event in events}
        if "problem" in changed:
            self._open()
            return
        self.densities.follow(changed)
        self._show_draws()
        if changed & {"variant", "snapshot"}:
            self.film.show()
        self.headline.show()
        if "card" in changed:
            self.tabs.show()
        for card in self.cards:
            card.follow(changed)

    def _show_draws(self) -> None:
        """Marks the case's first draws."""
        found = self.results.of("summary")
        current = found is not None and found.asked.settings == self.state.settings
        self.densities.show_draws(found.value.points if found is not None and current else {})

    def _renew(self) -> None:
        """Follows proposals that got better: pictures are drawn anew, and errors computed."""
        self.densities.follow({"variant"})
        for card in self.cards:
            card.follow({"variant"})
        self.start()

    def _open(self) -> None:
        """Opens the state's problem in every view, and calls off all computing.

        If one view fails the visitor sees a message, and the others still open.
        """
        self.results.forget()
        for view in (self.densities, self.controls, self.film, self.summary, self.errors):
            with guarded(self._document):
                view.open()
        with guarded(self._document):
            self.headline.show()
            self.tabs.open()

    def _visit(self, step: Step) -> None:
        """Goes to a step of the tour."""
        card = {"card": step.light} if step.light in {each.name for each in TABS} else {}
        self.state.visit({**card, **step.state})
        self.controls.unfold(step.light)

    def _write_address(self) -> None:
        step = {"tour": self.tour.step.name} if self.tour.opened else {}
        link = urlencode({**self.state.link(), **step}, safe=",")
        self.address.param.update(query=link, script=script(self.state.settings))

    def _downloads(self) -> list[Any]:
        def button(label: str, filename: str, make: Any) -> Any:
            looks = {"size": "small", "variant": "outlined", "sizing_mode": "stretch_width"}
            return pmui.FileDownload(
                callback=make, filename=filename, label=label, margin=0, **looks
            )

        return [
            copying("Copy link", "window.location.href"),
            copying("Copy Python", "window.case_in_python()"),
            button("Densities, CSV", "densities.csv", self.densities.table),
            button("Everything, JSON", "amci-explorer.json", self._everything),
        ]

    def _everything(self) -> Any:
        compares, found = self.state.same_reference is not None, self.results.all.items()
        shown = {name: each for name, each in found if compares or not name.endswith("-a")}
        return export.everything(self.state, shown)
