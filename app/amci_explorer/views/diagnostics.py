r"""Whether an estimate can be trusted: each term's weights, their tail, the running estimate."""

from __future__ import annotations

__all__ = ["DiagnosticsCard"]

from html import escape
from types import SimpleNamespace
from typing import Any

import param

from amci_core.diagnostics.verdict import LEVELS
from amci_explorer.compute.computations import MOST_DRAWS
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result
from amci_explorer.numbers.diagnosis import Diagnosis
from amci_explorer.plots.diagnostics import STYLES, running_estimate, weights_histogram
from amci_explorer.problems import registry
from amci_explorer.state.case import Case
from amci_explorer.text import pretty
from amci_explorer.views.card import Card
from amci_explorer.views.figures import Picture
from amci_explorer.views.inputs import flat_button
from amci_explorer.views.layout import HTML, WIDE, column, row, side_by_side
from amci_explorer.views.style import VERDICTS
from amci_explorer.words.diagnosis import about_answer, about_terms, about_verdict

VERDICT = f"""
.verdict {{ border-left: 5px solid var(--level); padding: 2px 0 2px 12px; min-height: 3.6em; }}
.level {{ font-size: var(--text); font-weight: 600; line-height: 1.4; color: var(--level); }}
.verdict, .wide {{ margin: 12px 0; }}
p, li {{ margin: 4px 0; font-size: var(--text); line-height: 1.5; max-width: 90ch; }}
ul {{ margin: 0; padding-left: 1.1rem; }}
table {{ border-spacing: 0; font-size: var(--small); font-variant-numeric: tabular-nums; }}
th, td {{ padding: 2px 24px 2px 0; text-align: left; }}
{WIDE}"""
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
    drawn = ()

    def content(self) -> list[Any]:
        self._verdict = HTML(EMPTY, VERDICT)
        looks = {"sizing_mode": None, "visible": False}
        self.find = flat_button("Find an answer", lambda _: self._ask(), **looks)
        self.answer = HTML("", VERDICT)
        self._asker = SimpleNamespace(
            name=ANSWER, begin=self._searching, take=self._answer, end=self._answered
        )
        self._weights = {n: Picture(f"diagnostics-weights-{n}", height=230) for n in STYLES}
        self._place = column()
        self.way = Picture("diagnostics-way", height=280)
        return [self._verdict, row(self.find, self.answer, gap=12), self._place, self.way.panel]

    def asked(self, case: Case) -> Request:
        return Request("diagnosis", case.settings)

    def clear(self) -> None:
        self._verdict.object = EMPTY
        for picture in (*self._weights.values(), self.way):
            picture.clear()
        # A picture in a hidden place has no width, and the page waits for one.
        panels = [self._weights[term].panel for term in registry.terms(self.state.problem.name)]
        self._place[:] = [side_by_side(*panels, least=300)]

    def draw(self, found: Diagnosis, *, complete: bool) -> None:
        signed = not self.state.problem.nonnegative
        self._verdict.object = (
            f'<div class="verdict" role="status" style="--level: var(--{VERDICTS[found.level]})">'
            f'<div class="level">{found.level.capitalize()}</div>{about_verdict(found)}</div>'
            f"{about_terms(found, signed=signed)}"
        )
        for term in found.terms:
            name = pretty(term.name, signed=signed)
            picture = weights_histogram(term, name, dark=self.dark)
            self._weights[term.name].draw(picture, f"Histogram of the weights of {name}.")
        words = f"The estimate along the draws, relative to the {found.mu.name}."
        self.way.draw(running_estimate(found, dark=self.dark), words)
        # An answer is the case's: for another one it has to be asked for.
        self.find.visible = found.level != LEVELS[0]
        self.find.disabled = ANSWER in self.results.running
        self.answer.object = ""
        if (last := self.results.all.get(ANSWER)) is not None:
            self._answer(last)

    def _ask(self) -> None:
        self.results.again(self._asker, Request(ANSWER, self.state.settings))

    def _searching(self) -> None:
        self.find.disabled = True
        self.answer.object = f"<p role=status>{SEARCHING}</p>"

    def _answer(self, result: Result) -> None:
        if result.asked.settings == self.state.settings:
            self.answer.object = about_answer(result.value, result.seconds)

    def _answered(self, message: str | None) -> None:
        self.find.disabled = False
        if message:
            self.answer.object = f"<p>{escape(message)}</p>"
