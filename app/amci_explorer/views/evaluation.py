r"""Evaluation: errors over many cases, stored with the proposals or computed live."""

from __future__ import annotations

__all__ = ["EvaluationCard"]

from dataclasses import replace
from typing import Any

import param

from amci_explorer.compute.requests import Request
from amci_explorer.numbers.evaluated import Evaluated, chosen
from amci_explorer.plots.evaluation import evaluation
from amci_explorer.state.case import Case
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.figures import WORDS, Picture
from amci_explorer.views.layout import HTML, side_by_side
from amci_explorer.words.evaluation import about_evaluation

# Of a live evaluation; more of both by `amci evaluate`.
CASES, RUNS = 20, 50
NOT_STORED = "No evaluation is stored for these proposals. Choose live to run a small one."


class EvaluationCard(Card):
    """Errors over the cases that the proposals were learnt for."""

    name = param.String("evaluation")
    unit = "cases"
    drawn = ("single", "source", "variant", "snapshot")

    def content(self) -> list[Any]:
        self.picture = Picture(self.name, height=460)
        labels = {"source": "Results", "single": "Single cases of"}
        choices = [
            bound(self.state, name, label, listed=True, margin=(6, 0))
            for name, label in labels.items()
        ]
        self.text = HTML("", WORDS, html_attributes={"role": "status"})
        return [side_by_side(*choices, least=170), self.picture.panel, self.text]

    def asked(self, case: Case) -> Request | None:
        if case.source == "live":
            settings = replace(case.settings, y=(), theta=(), draws=0, runs=RUNS)
            return Request("evaluation", settings, (("cases", CASES),))
        kept = chosen(case.settings)
        return None if kept is None else Request("stored_evaluation", kept)

    def progress(self, found: Evaluated) -> tuple[int, int]:
        return found.done, found.wanted

    def clear(self) -> None:
        self.shown = None
        self.picture.clear()
        self.text.object = ""

    def draw(self, found: Evaluated, *, complete: bool) -> None:
        single = self.state.single
        words = "Relative mean squared error against total draws, over many cases."
        self.picture.draw(evaluation(found, single=single, dark=self.dark), words)
        variant = self.shown.asked.settings.variant if self.shown else self.state.variant
        about = about_evaluation(found, self.state.problem, variant, single)
        self.text.object = f"<p>{about}</p>"

    def redraw(self) -> None:
        if self.asked(self.state) is None:
            self.clear()
            self.text.object = f"<p>{NOT_STORED}</p>"
        super().redraw()
