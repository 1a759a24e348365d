r"""Evaluation: errors over many cases, stored with the proposals or computed live."""

from __future__ import annotations

__all__ = ["EvaluationCard"]

from dataclasses import replace
from typing import Any

import numpy as np
import param

from amci_explorer.colours import SWEPT
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result
from amci_explorer.numbers.evaluated import Evaluated, chosen, stored
from amci_explorer.plots.evaluation import evaluation
from amci_explorer.server.session import callback
from amci_explorer.state.links import nearest
from amci_explorer.state.state import State
from amci_explorer.text import number
from amci_explorer.views.bound import CountField, bound
from amci_explorer.views.card import Card
from amci_explorer.views.figures import LEGEND, legend
from amci_explorer.views.inputs import select
from amci_explorer.views.layout import HTML, column, hide, side_by_side
from amci_explorer.views.picture import Picture, Words
from amci_explorer.words.evaluation import about_evaluation, about_picture

# In the list of cases: none of them.
NONE = {"no case selected": -1}


class EvaluationCard(Card):
    """Errors over the cases that the proposals were learnt for."""

    name = param.String("evaluation")
    unit = "cases"
    # It computes what the user orders, and nothing else.
    drawn = ("y", "theta", "band", "single", "source", "variant", "snapshot")

    def content(self) -> list[Any]:
        # The live evaluation that was started last; and where the listed case that is looked at
        # has brought the page.
        self._ordered: Request | None = None
        self._place: Any = None
        self._drawn: Any = None
        self.picture = Picture(self.name, height=460)
        labels = {"source": "Results", "band": "Band", "single": "Single cases of"}
        choices = (
            bound(self.state, name, label, listed=True, margin=(6, 0))
            for name, label in labels.items()
        )
        fields = (
            CountField(self.state, name, label)
            for name, label in (("cases", "Cases"), ("case_runs", "Runs per case"))
        )
        self._sizes = side_by_side(*(column(field) for field in fields), least=140)
        self._text = Words(html_attributes={"role": "status"})
        self.cases = select("Go to a case", NONE, margin=(16, 0, 6, 0))
        self.cases.param.watch(callback(self._go), "value")
        return [
            side_by_side(*choices, least=170),
            self._sizes,
            HTML(legend(SWEPT), LEGEND),
            self.picture.panel,
            self._text,
            self.cases,
        ]

    def asked(self, case: State) -> Request | None:
        if case.source == "live":
            settings = replace(case.settings, y=(), theta=(), draws=0, runs=case.case_runs)
            return Request("evaluation", settings, (("cases", case.cases),))
        # Read here, and asked of no worker.
        kept = chosen(case.settings)
        return None if kept is None else Request("stored_evaluation", kept)

    def progress(self, found: Evaluated) -> tuple[int, int]:
        return found.done, found.wanted

    def clear(self) -> None:
        self._ordered = self._place = self.shown = None
        self.picture.clear()
        self._text.say("")
        self.cases.param.update(options=NONE, value=-1)
        hide(self.cases, True)

    def start(self) -> None:
        live = self.state.source == "live"
        if live and self.asked(self.state) == self._ordered:
            super().start()
            return
        self.results.cancel(self.name)
        # What costs something is computed when the user says so.
        self.halted = "Press Run to start a live evaluation" if live else ""
        self.tell()

    def press(self) -> None:
        self._ordered = self.asked(self.state)
        super().press()

    def draw(self, found: Evaluated, *, complete: bool) -> None:
        state, rank = self.state, self._rank
        self._drawn = rank, state.band, state.single
        looks: dict[str, Any] = {"band": state.band, "single": state.single, "dark": self.dark}
        picture = evaluation(found, rank=rank if rank >= 0 else None, **looks)
        self.picture.draw(picture, about_picture(found))
        if self.shown is not None:
            variant = self.shown.asked.settings.variant
            self._text.say(about_evaluation(found, state.problem, variant, state.single))
        options = dict(NONE)
        if complete and found.cases is not None and state.single in found.cases.by_name:
            # The hardest first.
            errors = found.cases.by_name[state.single]["remse"][:, -1]
            for i in np.argsort(-np.nan_to_num(errors, nan=-1.0), kind="stable").tolist():
                y, theta = (np.round(v[i], 3).tolist() for v in (found.cases.y, found.cases.theta))
                what = f"case {found.cases.number[i]}, y = {y}, θ = {theta}"
                options[f"{what}: {number(errors[i], 2)}"] = i
        self.cases.param.update(options=options, value=rank if rank in options.values() else -1)
        hide(self.cases, len(options) == 1)

    def redraw(self) -> None:
        live, asked = self.state.source == "live", self.asked(self.state)
        is_open, shown = self.state.card == self.name, self.shown and self.shown.asked
        hide(self._sizes, not live)
        if asked is None:
            self.clear()
            words = "No evaluation is stored for these proposals. Choose live to run a small one."
            self._text.say(words)
        elif is_open and not live and asked != shown:
            found = Result(asked, stored(asked.settings), 0.0, complete=True)
            self.results.all[self.name] = found
            self.take(found)
        elif self._drawn != (self._rank, self.state.band, self.state.single):
            super().redraw()

    @property
    def _rank(self) -> int:
        """The case of the list that the page still shows; or -1."""
        return self.cases.value if self._place == (self.state.y, self.state.theta) else -1

    def _go(self, event: Any) -> None:
        """Goes to a case of the list, as near as the sliders come to it."""
        cases = None if self.shown is None else self.shown.value.cases
        if event.new is None or event.new < 0 or cases is None:
            return
        state, at = self.state, {"y": cases.y[event.new], "theta": cases.theta[event.new]}
        for name, values in at.items():
            if len(values):
                variable = getattr(state.problem, name)
                point: Any = nearest(variable, tuple(map(float, values)))
                state.move(**{name: point})
        self._place = state.y, state.theta
        self.redraw()
        state.commit()
