r"""Evaluation: errors over many cases, stored with the proposals or computed live."""

from __future__ import annotations

__all__ = ["EvaluationCard"]

from dataclasses import replace
from typing import Any

import numpy as np
import param

from amci_explorer.compute.requests import Request
from amci_explorer.numbers.evaluated import Evaluated, chosen
from amci_explorer.plots.evaluation import evaluation
from amci_explorer.server.session import callback
from amci_explorer.state.case import Case
from amci_explorer.state.links import nearest
from amci_explorer.text import number
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.inputs import select
from amci_explorer.views.layout import HTML, hide, side_by_side
from amci_explorer.views.picture import WORDS, Picture
from amci_explorer.words.evaluation import about_evaluation, about_picture

# Of a live evaluation; more of both by `amci evaluate`.
CASES, RUNS = 20, 50
# In the list of cases: none of them.
NONE = {"no case selected": -1}
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
        self.cases = select("Go to a case", NONE, margin=(16, 0, 6, 0))
        self.cases.param.watch(callback(self._go), "value")
        return [side_by_side(*choices, least=170), self.picture.panel, self.text, self.cases]

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
        self.cases.param.update(options=NONE, value=-1)
        hide(self.cases, True)

    def draw(self, found: Evaluated, *, complete: bool) -> None:
        single, cases, options = self.state.single, found.cases, dict(NONE)
        if complete and cases is not None and single in cases.by_name:
            # The hardest first.
            errors = cases.by_name[single]["remse"][:, -1]
            for i in np.argsort(-np.nan_to_num(errors, nan=-1.0), kind="stable").tolist():
                y, theta = (np.round(v[i], 3).tolist() for v in (cases.y, cases.theta))
                what = f"case {cases.number[i]}, y = {y}, θ = {theta}"
                options[f"{what}: {number(errors[i], 2)}"] = i
        rank = self.cases.value if self.cases.value in options.values() else -1
        self.cases.param.update(options=options, value=rank)
        hide(self.cases, len(options) == 1)
        of = rank if rank >= 0 else None
        picture = evaluation(found, single=single, rank=of, dark=self.dark)
        self.picture.draw(picture, about_picture(found))
        variant = self.shown.asked.settings.variant if self.shown else self.state.variant
        about = about_evaluation(found, self.state.problem, variant, single)
        self.text.object = f"<p>{about}</p>"

    def redraw(self) -> None:
        if self.asked(self.state) is None:
            self.clear()
            self.text.object = f"<p>{NOT_STORED}</p>"
        super().redraw()

    def _go(self, event: Any) -> None:
        """Goes to a case of the list, as near as the handles come to it."""
        cases = None if self.shown is None else self.shown.value.cases
        if event.new is None or event.new < 0 or cases is None:
            return
        at = {"y": cases.y[event.new], "theta": cases.theta[event.new]}
        problem = self.state.problem
        near = {n: nearest(getattr(problem, n), v.tolist()) for n, v in at.items() if len(v)}
        self.state.move(**near)
        self.state.commit()
        self.redraw()
