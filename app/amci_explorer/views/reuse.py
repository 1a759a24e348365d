r"""What sharing draws between q1 and q2 does: a map over (alpha, beta), and a cut through it."""

from __future__ import annotations

__all__ = ["ReuseCard"]

from functools import partial
from typing import Any

import pandas as pd
import panel_material_ui as pmui

from amci_core.evaluation import ReuseErrors
from amci_core.models import Problem
from amci_explorer.compute.requests import Request
from amci_explorer.compute.session import callback
from amci_explorer.compute.store import store_of
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.state import State
from amci_explorer.text import in_per_cent
from amci_explorer.views import export
from amci_explorer.views.bound import flag, sliding
from amci_explorer.views.card import Card
from amci_explorer.views.figures import describe, pane
from amci_explorer.views.layout import HTML, column, side_by_side
from amci_explorer.views.reuse_pictures import ReusePictures
from amci_explorer.words import HELP
from amci_explorer.words.reuse import (
    SHARERS,
    about_cut,
    about_map,
    about_reuse,
    about_split,
    best_splits,
)

TEXT = """
p { margin: 6px 0 0 0; font-size: var(--text); line-height: 1.5; min-height: 4.5em;
    max-width: 90ch; }
"""
SPLIT = "N : M, draws from q₁ and q₂ in per cent"
# On which side of the slider's track the best splits are marked.
MARKED = dict(zip(SHARERS, ("above", "below"), strict=True))


class ReuseCard(Card):
    """What sharing draws does."""

    name = "reuse"
    title = "Sample reuse"
    help = HELP["reuse"]
    drawn = ("alpha", "beta")

    def content(self) -> list[Any]:
        self.pictures = ReusePictures(self.painter)
        alpha = sliding(self.state, "alpha", "α: share of E₁ from q₁")
        beta = sliding(self.state, "beta", "β: share of E₂ from q₁")
        # As much room without marks as with them: nothing below may jump when they come.
        self.share = sliding(self.state, "share", SPLIT, splits=True, margin=(10, 0, 20, 0))
        self._best: dict[str, float] = {}
        self.take_split = {name: self._splitter(name) for name in MARKED}
        common = flag(self.state, "common", "common random numbers")
        self._text = HTML("<p></p>", TEXT)
        self._split = HTML("<p></p>", TEXT)
        return [
            side_by_side(pane(self.pictures.map), pane(self.pictures.curve), least=340),
            side_by_side(alpha, beta, least=340),
            self._text,
            side_by_side(
                self.share,
                column(common, side_by_side(*self.take_split.values(), least=200, gap=8), gap=8),
                least=340,
            ),
            self._split,
        ]

    def asked(self, case: State) -> Request | None:
        if self.why_not(case.problem):
            return None
        # A pair of draws needs one of each.
        share = 0.5 if case.common else case.share
        options = (("share", share), ("common", case.common))
        return Request("reuse", case.settings, options)

    @staticmethod
    def why_not(problem: Problem) -> str:
        if store_of(problem.name).shares_samples:
            return ""
        why = (
            "E₂ is known, so there is no q₂ to share with"
            if problem.nonnegative
            else "f takes both signs, and each has its own proposal"
        )
        return f"No sample reuse for this problem: {why}."

    def clear(self) -> None:
        self.pictures.clear()
        self._text.object = self._split.object = "<p></p>"
        self._mark_splits({})

    def begin(self) -> None:
        super().begin()
        # What holds for another case: its best splits.
        self._split.object = "<p></p>"
        self._mark_splits({})

    def draw(self, found: ReuseErrors, *, complete: bool) -> None:
        self.pictures.show(found, self.case.alpha, self.case.beta)
        self._text.object = f"<p>{about_reuse(found, self.case.alpha, self.case.beta)}</p>"
        if complete:
            total = sum(found.counts)
            self._mark_splits({name: n / total for name, n in best_splits(found).items()})
            self._split.object = f"<p>{about_split(found)}</p>"

    def redraw(self) -> None:
        alpha, beta = self.case.alpha, self.case.beta
        found = None if self.shown is None else self.shown.value
        self.pictures.move(alpha, beta, found)
        if self.share.disabled != self.state.common:
            self.share.disabled = self.state.common
        if found is not None:
            self._text.object = f"<p>{about_reuse(found, alpha, beta)}</p>"

    def describe(self, found: ReuseErrors) -> None:
        describe(self.pictures.map, about_map(found))
        describe(self.pictures.curve, about_cut(found, self.state.beta))

    def frame(self, found: ReuseErrors) -> pd.DataFrame:
        return export.reuse(found)

    def _splitter(self, name: str) -> pmui.Button:
        """A button that gives q1 its best share of the draws."""
        button = pmui.Button(
            label=f"Use the best split for {name}",
            size="small",
            variant="outlined",
            disabled=True,
            sizing_mode="stretch_width",
            margin=0,
        )
        button.on_click(callback(partial(self._split_at, name)))
        return button

    def _split_at(self, name: str, _: Any) -> None:
        # Between the ends of the slider; to the draw, not to its step.
        low, high = FIELDS["share"].bounds or (0.0, 1.0)
        self.state.set(share=min(max(self._best[name], low), high))
        self.state.commit()

    def _mark_splits(self, best: dict[str, float]) -> None:
        """Marks the best splits on the slider, and offers to go there."""
        self._best = best
        self.share.marks = [
            {
                "value": share,
                "label": f"best for {name}, {in_per_cent(share)}",
                "above": MARKED[name] == "above",
            }
            for name, share in best.items()
        ]
        for name, button in self.take_split.items():
            button.disabled = name not in best
