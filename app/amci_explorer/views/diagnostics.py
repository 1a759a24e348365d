r"""Whether an estimate can be trusted: each term's weights, their tail, the running estimate."""

from __future__ import annotations

__all__ = ["DiagnosticsCard"]

from typing import Any

from amci_explorer.compute.requests import Request
from amci_explorer.numbers.diagnosis import Diagnosis
from amci_explorer.plots.colours import VERDICTS
from amci_explorer.plots.diagnostics import STYLES, running_estimate
from amci_explorer.problems.presets import coordinate_names
from amci_explorer.state.state import State
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.layout import HTML, column, hide, side_by_side
from amci_explorer.views.picture import Picture
from amci_explorer.views.term import METER, TermView
from amci_explorer.words import HELP
from amci_explorer.words.diagnosis import about_verdict, about_way, pretty

VERDICT = """
.verdict { border-left: 5px solid var(--level); padding: 2px 0 2px 12px; min-height: 3.6em; }
.level { font-size: var(--title); font-weight: 600; line-height: 1.4; color: var(--level); }
p, li { margin: 0 0 4px 0; font-size: var(--text); line-height: 1.5; max-width: 90ch; }
ul { margin: 0; padding-left: 1.1rem; }
"""
EMPTY = '<div class="verdict"><p>Sampling …</p></div>'


class DiagnosticsCard(Card):
    """Whether an estimate can be trusted."""

    name = "diagnostics"
    title = "Diagnostics"
    unit = "steps"
    help = HELP["diagnostics"]
    drawn = ("coordinate",)

    def content(self) -> list[Any]:
        self._verdict = HTML(EMPTY, VERDICT, margin=(0, 0, 12, 0))
        self.terms = {name: TermView(name) for name in STYLES}
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
        self.way = Picture(
            "diagnostics-way",
            "The estimate along the draws, with its 95 % interval.",
            height=280,
        )
        return [
            self._verdict,
            self._coordinate,
            self._place,
            HTML("<h3>AMCI's estimate as draws are added</h3>", METER, margin=(8, 0, 0, 0)),
            self.way.panel,
        ]

    def asked(self, case: State) -> Request:
        return Request("diagnosis", case.settings)

    def progress(self, found: Diagnosis) -> tuple[int, int]:
        return found.steps

    def clear(self) -> None:
        problem, terms = self.state.problem, self.store.terms
        hide(self._coordinate, problem.x.dim == 1)
        for name, view in self.terms.items():
            view.open(pretty(name, signed=not problem.nonnegative))
        # A picture in a hidden place has no width, and the page waits for one: what a problem
        # does not have is not there.
        if terms != self._there:
            self._there = terms
            panels = [self.terms[name].panel for name in terms]
            self._place[:] = [side_by_side(*panels, least=300)]
        self.way.clear()
        self._verdict.object = EMPTY
        self._drawn: Request | None = None

    def draw(self, found: Diagnosis, *, complete: bool) -> None:
        del complete
        if self.shown is None:
            return
        if self._drawn != self.shown.asked:
            self._drawn = self.shown.asked
            self._show_words(found)
            for term in found.terms:
                self.terms[term.name].show(term, self.dark)
            self._look()
        if found.along is not None:
            self.way.draw(running_estimate(found, dark=self.dark))
            self.way.describe(about_way(found))

    def redraw(self) -> None:
        if self.shown is not None:
            self._look()

    def recolour(self, dark: bool) -> None:
        self._drawn = None
        super().recolour(dark)

    @property
    def _looked(self) -> str:
        """What the coordinate that is looked at is called."""
        return coordinate_names(self.state.problem)[self.state.coordinate - 1]

    def _show_words(self, found: Diagnosis) -> None:
        style = VERDICTS[found.level]
        self._verdict.object = (
            f'<div class="verdict" role="status" style="--level: {style.colour(self.dark)}">'
            f'<div class="level">{style.label}</div>{about_verdict(found)}</div>'
        )
        for term in found.terms:
            self.terms[term.name].show_words(term, found.draws, self.dark)

    def _look(self) -> None:
        """Shows the weights against the coordinate that is looked at."""
        if self.shown is None:
            return
        found, name = self.shown.value, self._looked
        for term in found.terms:
            self.terms[term.name].look(term, self.state.coordinate - 1, name, self.dark)
            self.terms[term.name].describe(term, found.draws, name)
