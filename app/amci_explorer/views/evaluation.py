r"""Evaluation: errors over many cases, stored with the proposals or computed live."""

from __future__ import annotations

__all__ = ["EvaluationCard"]

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import panel_material_ui as pmui

from amci_core.estimators.draws import Array
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result
from amci_explorer.numbers import evaluated
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.plots.evaluation import evaluation, shown_errors
from amci_explorer.server.session import callback
from amci_explorer.state.fields import FIELDS, nearest
from amci_explorer.state.state import State
from amci_explorer.text import number
from amci_explorer.views import export
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.inputs import CountField, Message, select
from amci_explorer.views.layout import HTML, column, hide, row, side_by_side
from amci_explorer.views.picture import Picture
from amci_explorer.words import HELP
from amci_explorer.words.evaluation import (
    about_case,
    about_evaluation,
    about_origin,
    about_picture,
)
from amci_explorer.words.settings import difference

STORED, LIVE = "stored", "live"
TEXT = "p { margin: 6px 0 0 0; font-size: var(--text); line-height: 1.5; max-width: 90ch }"
ORIGIN = "p { margin: 4px 0; font-size: var(--small); color: var(--muted); max-width: 90ch }"
WAITING = "Press Run to start a live evaluation."
# A click so near to a line means it, in factors of ten: some ten pixels.
NEAR = 0.25
# In the list of cases: none of them.
NONE, NO_CASE = -1, "no case selected"


class EvaluationCard(Card):
    """Errors over the cases that the proposals were learnt for."""

    name = "evaluation"
    title = "Evaluation"
    unit = "cases"
    help = HELP["evaluation"]
    compares = False
    drawn = ("y", "theta", "band", "single", "source")

    def content(self) -> list[Any]:
        # The live evaluation that was started last, and where its cases are, by rank.
        self._ordered: Request | None = None
        self._ranks: dict[Any, int] = {}
        self._drawn: tuple[str, str, int | None] | None = None
        self.picture = Picture(
            self.name,
            "Relative mean squared error of every estimator against total draws.",
            height=460,
            moved=self._tapped,
        )
        source, band, single = (
            bound(self.state, name, label, listed=True, margin=(6, 0))
            for name, label in (
                ("source", "Results"),
                ("band", "Band"),
                ("single", "Single cases of"),
            )
        )
        self._fields = [
            CountField(self.state, name, label, FIELDS[name].doc)
            for name, label in (("cases", "Cases"), ("case_runs", "Runs per case"))
        ]
        self.run_button = pmui.Button(label="Run", size="small", variant="contained", margin=0)
        self.run_button.on_click(callback(self._run))
        self._order = column(
            side_by_side(*(column(field) for field in self._fields), least=140),
            row(self.run_button),
            gap=4,
            margin=(0, 0, 8, 0),
        )
        self._origin = HTML("<p></p>", ORIGIN)
        self._text = HTML("<p></p>", TEXT)
        self.cases = select("Go to a case", {NO_CASE: NONE}, margin=(16, 0, 6, 0))
        self.cases.param.watch(callback(self._listed), "value")
        self.message = Message()
        self.faded = (self.picture.panel, self._text)
        return [
            side_by_side(source, band, single, least=170),
            self._order,
            self._origin,
            self.picture.panel,
            self._text,
            self.cases,
            self.message,
        ]

    def asked(self, case: State) -> Request | None:
        if self.state.source == LIVE:
            # What costs something is computed when the user says so.
            wanted = self._live() if case is self.state else None
            return wanted if wanted == self._ordered else None
        choice = case.settings
        if not evaluated.is_stored(choice):
            return None
        return Request("stored_evaluation", evaluated.chosen(choice))

    def wanted(self) -> Request | None:
        return self._live() if self.state.source == LIVE else self.asked(self.state)

    def difference(self, found: Request, wanted: Request) -> str:
        cases = [dict(asked.options).get("cases") for asked in (found, wanted)]
        if found.settings == wanted.settings and cases[0] != cases[1]:
            return f"for {cases[0]} cases"
        return difference(found.settings, wanted.settings)

    def progress(self, found: Evaluated) -> tuple[int, int]:
        return found.done, found.wanted

    def clear(self) -> None:
        self._ordered, self._ranks = None, {}
        self._empty()

    def start(self) -> None:
        if self.shown is not None and self.shown.asked.what != self._what:
            # The other source's figures are none of this one's.
            self.shown = None
            self._empty()
        asked = self.asked(self.state)
        if asked is not None and asked.what != "evaluation" and not self._shows(asked):
            # What the card of the proposals holds is in memory: only the cases are to come.
            self._show_card(asked)
        going = self.results.is_running(self.name)
        super().start()
        if going and not self.results.is_running(self.name) and asked is None:
            self._status.share = None
            self._say("cancelled")
        if self.asked(self.state) is None:
            self._wait()
        self._label()

    def _shows(self, asked: Request) -> bool:
        return self.shown is not None and self.shown.asked == asked

    def _show_card(self, asked: Request) -> None:
        self.shown = Result(asked, evaluated.summary(asked.settings), 0.0)
        self.draw(self.shown.value, complete=False)

    def begin(self) -> None:
        super().begin()
        self._list(None)
        self._label()

    def take(self, result: Result) -> None:
        super().take(result)
        if result.complete:
            self._list(result.value)

    def end(self, message: str | None) -> None:
        super().end(message)
        self._label()

    def draw(self, found: Evaluated, *, complete: bool) -> None:
        del complete
        state = self.state
        self._ranks = {}
        if found.cases is not None:
            pairs = zip(found.cases.y, found.cases.theta, strict=True)
            self._ranks = {self._reached(*pair): rank for rank, pair in enumerate(pairs)}
        if self.shown is not None:
            stored = self.shown.asked.what != "evaluation"
            variant = self.shown.asked.settings.variant
            origin = about_origin(found, state.problem, stored=stored, variant=variant)
            self._origin.object = f"<p>{origin}</p>"
        self._text.object = f'<p role="status">{about_evaluation(found, self.state.single)}</p>'
        self._draw_picture(found)

    def _draw_picture(self, found: Evaluated) -> None:
        self._drawn = self._looks
        band, single, rank = self._drawn
        self.picture.draw(evaluation(found, band=band, single=single, rank=rank, dark=self.dark))

    def redraw(self) -> None:
        hide(self._order, self.state.source != LIVE)
        hide(self._button, self.state.source == LIVE)
        if self.shown is not None and self._drawn != self._looks:
            self.draw(self.shown.value, complete=self.shown.complete)
            if self.shown.complete:
                self._list(self.shown.value)
        self._point_out()

    def recolour(self, dark: bool) -> None:
        super().recolour(dark)
        if self.shown is not None:
            self._draw_picture(self.shown.value)

    def describe(self, found: Evaluated) -> None:
        self.picture.describe(about_picture(found))

    def frame(self, found: Evaluated) -> pd.DataFrame:
        return export.evaluation(found)

    @property
    def _what(self) -> str:
        return "evaluation" if self.state.source == LIVE else "stored_evaluation"

    @property
    def _looks(self) -> tuple[str, str, int | None]:
        """What the picture shows: bands, whose single cases, and which of these is the page's."""
        state = self.state
        return state.band, state.single, self._ranks.get((state.y, state.theta))

    def _live(self) -> Request:
        """The live evaluation that Run would start."""
        state = self.state
        choice = replace(state.settings, y=(), theta=(), draws=0, runs=state.case_runs)
        return Request("evaluation", choice, (("cases", state.cases),))

    def _run(self, _: Any) -> None:
        """Starts a live evaluation, or stops it."""
        if self.results.is_running(self.name):
            self._press(None)
            self._list(None if self.shown is None else self.shown.value)
        else:
            self._ordered = self._live()
            self.results.again(self, self._ordered)
        self._label()

    def _label(self) -> None:
        going = self.results.is_running(self.name)
        label, looks = ("Stop", "outlined") if going else ("Run", "contained")
        if self.run_button.label != label:
            self.run_button.param.update(label=label, variant=looks)

    def _wait(self) -> None:
        """Says why there is nothing, or what it takes."""
        if self.state.source == LIVE:
            if self.shown is None:
                self._origin.object = f"<p>{WAITING}</p>"
            return
        self.shown = None
        self._empty()
        self._csv.disabled = True
        self._say("")
        self._origin.object = f"<p>{evaluated.why_not_stored(self.state.settings)}</p>"

    def _empty(self) -> None:
        self._drawn = None
        self.picture.clear()
        self._origin.object = self._text.object = "<p></p>"
        self._list(None)
        self.message.say()

    def _list(self, found: Evaluated | None) -> None:
        """Lists the cases, hardest first."""
        options = {NO_CASE: NONE}
        single = self.state.single
        if found is not None and found.cases is not None and single in found.cases.by_name:
            cases = found.cases
            errors = cases.by_name[single]["remse"][:, -1]
            for rank in np.argsort(-np.nan_to_num(errors, nan=-1.0), kind="stable").tolist():
                what = about_case(int(cases.number[rank]), cases.y[rank], cases.theta[rank])
                options[f"{what}: {number(errors[rank], 2)}"] = rank
        if self.cases.options != options:
            self.cases.param.update(options=options, value=self._rank(options))
        hide(self.cases, len(options) == 1)

    def _rank(self, options: dict[str, int]) -> int:
        """The page's case, if it is one of those that are listed."""
        rank = self._ranks.get((self.state.y, self.state.theta), NONE)
        return rank if rank in options.values() else NONE

    def _point_out(self) -> None:
        """Has the list follow the page's case."""
        rank = self._rank(self.cases.options)
        if self.cases.value != rank:
            self.cases.value = rank

    def _listed(self, event: Any) -> None:
        if event.new not in (None, NONE, self._rank(self.cases.options)):
            self._go(event.new)

    def _tapped(self, draws: float, error: float) -> None:
        """Goes to the case whose line was clicked."""
        found = None if self.shown is None else self.shown.value
        if found is None or found.cases is None or min(draws, error) <= 0:
            return
        errors = shown_errors(found, self.state.single)
        if len(errors) and (rank := nearest_line((draws, error), found.budgets, errors)) >= 0:
            self._go(rank)

    def _reached(self, y: Any, theta: Any) -> tuple[Any, ...]:
        """Where the page gets to for a case: it keeps a few digits, within the usual ranges."""
        problem = self.state.problem
        return tuple(
            nearest(FIELDS[name], problem, tuple(map(float, value)))
            for name, value in (("y", y), ("theta", theta))
        )

    def _go(self, rank: int) -> None:
        """Goes to a case."""
        cases = None if self.shown is None else self.shown.value.cases
        if cases is None or rank >= len(cases):
            return
        y, theta = self._reached(cases.y[rank], cases.theta[rank])
        reached = np.allclose([*y, *theta], [*cases.y[rank], *cases.theta[rank]], rtol=1e-4)
        what = about_case(int(cases.number[rank]), cases.y[rank], cases.theta[rank])
        self.message.say(
            "" if reached else f"{what} is beyond the sliders: the nearest case is shown."
        )
        self.state.move(y=y or None, theta=theta or None)
        self.state.commit()


def nearest_line(at: tuple[float, float], draws: Sequence[int], errors: Array) -> int:
    """The line that passes a place within `NEAR` of a factor of ten upwards; -1 for none.

    Arguments:
        at: Draws and error of the place.
        draws: Where every line has its points, (B,), on a logarithmic axis.
        errors: How high they are there, (n, B), on a logarithmic axis; NaN where a line has none.
    """
    x, lines = np.log10(draws), np.log10(errors)
    there = [np.interp(np.log10(at[0]), x, line) for line in lines]
    ways = np.nan_to_num(np.abs(there - np.log10(at[1])), nan=np.inf)
    return int(ways.argmin()) if ways.min() <= NEAR else -1
