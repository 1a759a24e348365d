r"""Whether an estimate can be trusted: each term's weights, their tail, the running estimate."""

from __future__ import annotations

__all__ = ["DiagnosticsCard"]

from html import escape
from types import SimpleNamespace
from typing import Any

import panel_material_ui as pmui
import param

from amci_core.diagnostics.verdict import LEVELS
from amci_explorer.compute.computations import MOST_DRAWS
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result
from amci_explorer.numbers.diagnosis import Diagnosis
from amci_explorer.plots.diagnostics import (
    STYLES,
    running_estimate,
    weights_against_x,
    weights_histogram,
)
from amci_explorer.problems.presets import coordinate_names
from amci_explorer.server.session import callback
from amci_explorer.state.state import State
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.layout import HTML, column, hide, row, side_by_side
from amci_explorer.views.picture import Picture
from amci_explorer.views.status import VERDICT, verdict
from amci_explorer.words.diagnosis import (
    about_answer,
    about_histogram,
    about_scatter,
    about_terms,
    about_verdict,
    about_way,
    pretty,
)

STYLE = "th, td { padding: 2px 24px 2px 0; text-align: left; }"
ANSWER = "answer"
SEARCHING = (
    "Tries more draws, then half of them from the defensive density, then a reference value: each "
    f"up to {MOST_DRAWS:,} draws, some seconds …"
)
EMPTY = '<div class="verdict"><p>Sampling …</p></div>'


class DiagnosticsCard(Card):
    """Whether an estimate can be trusted."""

    name = param.String("diagnostics")
    unit = ""
    drawn = ("coordinate",)

    def content(self) -> list[Any]:
        self._verdict = HTML(EMPTY, VERDICT, STYLE)
        self._histograms, self._scatters = (
            {name: Picture(f"diagnostics-{what}-{name}", height=230) for name in STYLES}
            for what in ("weights", "scatter")
        )
        self._coordinate = bound(
            self.state,
            "coordinate",
            "Coordinate of x",
            listed=True,
            sizing_mode=None,
            width=220,
            margin=(0, 0, 8, 0),
        )
        self._place = column()
        self._there: tuple[str, ...] = ()
        self.way = Picture("diagnostics-way", height=280)
        self.find = pmui.Button(
            label="Find an answer", variant="outlined", size="small", margin=0, visible=False
        )
        self.find.on_click(callback(lambda _: self._ask()))
        self.answer = HTML("", VERDICT)
        self._asker = SimpleNamespace(
            name=ANSWER, begin=self._searching, take=self._take_answer, end=self._end_answer
        )
        return [
            self._verdict,
            row(self.find, self.answer, gap=12),
            self._coordinate,
            self._place,
            self.way.panel,
        ]

    def asked(self, case: State) -> Request:
        return Request("diagnosis", case.settings)

    def clear(self) -> None:
        terms = self.store.terms
        hide(self._coordinate, self.state.problem.x.dim == 1)
        for each in (*self._histograms.values(), *self._scatters.values(), self.way):
            each.clear()
        # A picture in a hidden place has no width, and the page waits for one: what a problem
        # does not have is not there.
        if terms != self._there:
            self._there = terms
            panels = [
                column(self._histograms[name].panel, self._scatters[name].panel) for name in terms
            ]
            self._place[:] = [side_by_side(*panels, least=300)]
        self._verdict.object = EMPTY

    def draw(self, found: Diagnosis, *, complete: bool) -> None:
        judged = verdict(found.level, about_verdict(found), dark=self.dark)
        self._verdict.object = judged + about_terms(found, signed=self._signed)
        # An answer is the case's: for another one it has to be asked for.
        self.find.visible = found.level != LEVELS[0]
        self.answer.object = ""
        if (answer := self.results.of(ANSWER)) is not None:
            self._take_answer(answer)
        for term in found.terms:
            name = pretty(term.name, signed=self._signed)
            picture = weights_histogram(term, name, dark=self.dark)
            self._histograms[term.name].draw(picture, about_histogram(term, name))
        self.way.draw(running_estimate(found, dark=self.dark), about_way(found))
        self.redraw()

    def _ask(self) -> None:
        self.results.again(self._asker, Request(ANSWER, self.state.settings))

    def _searching(self) -> None:
        self.find.disabled = True
        self.answer.object = f"<p role=status>{SEARCHING}</p>"

    def _take_answer(self, result: Result) -> None:
        if result.asked.settings == self.state.settings:
            self.answer.object = about_answer(result.value, result.seconds)

    def _end_answer(self, message: str | None) -> None:
        self.find.disabled = False
        if message:
            self.answer.object = f"<p>{escape(message)}</p>"

    @property
    def _names(self) -> tuple[str, ...]:
        return *super()._names, ANSWER

    def redraw(self) -> None:
        if self.shown is None:
            return
        at = self.state.coordinate - 1
        label = coordinate_names(self.state.problem)[at]
        for term in self.shown.value.terms:
            name = pretty(term.name, signed=self._signed)
            picture = weights_against_x(term, name, at, label=label, dark=self.dark)
            about = about_scatter(term, name, self.shown.value.draws, label)
            self._scatters[term.name].draw(picture, about)

    @property
    def _signed(self) -> bool:
        return not self.state.problem.nonnegative
