r"""What sharing draws between q1 and q2 does: a map over (alpha, beta), and a cut through it."""

from __future__ import annotations

__all__ = ["ReuseCard"]

from functools import partial
from typing import Any

import panel_material_ui as pmui

from amci_core.evaluation import ReuseErrors
from amci_core.models import Problem
from amci_explorer.compute.computations import computations_of
from amci_explorer.compute.requests import Request
from amci_explorer.plots import reuse_cut, reuse_map
from amci_explorer.server.session import callback
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.state import State
from amci_explorer.text import in_per_cent
from amci_explorer.views.bound import flag, sliding
from amci_explorer.views.card import Card
from amci_explorer.views.layout import HTML, column, side_by_side
from amci_explorer.views.picture import Picture
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


class ReuseCard(Card):
    """What sharing draws does."""

    name = "reuse"
    title = "Sample reuse"
    help = HELP["reuse"]
    drawn = ("alpha", "beta")

    def content(self) -> list[Any]:
        self.map = Picture(
            "reuse-map",
            "Relative error over alpha and beta.",
            height=400,
            moved=self._move,
            dropped=self.state.commit,
        )
        self.cut = Picture("reuse-cut", "Relative error along alpha at your beta.", height=400)
        alpha = sliding(self.state, "alpha", "α: share of E₁ from q₁")
        beta = sliding(self.state, "beta", "β: share of E₂ from q₁")
        # As much room without marks as with them: nothing below may jump when they come.
        self.share = sliding(self.state, "share", SPLIT, splits=True, margin=(10, 0, 20, 0))
        self.take_split = {name: self._splitter(name) for name in SHARERS}
        common = flag(self.state, "common", "common random numbers")
        self._text, self._split = HTML("<p></p>", TEXT), HTML("<p></p>", TEXT)
        self._offer_splits({})
        buttons = side_by_side(*self.take_split.values(), least=200, gap=8)
        return [
            side_by_side(self.map.panel, self.cut.panel, least=340),
            side_by_side(alpha, beta, least=340),
            self._text,
            side_by_side(self.share, column(common, buttons, gap=8), least=340),
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
        if computations_of(problem.name).shares_samples:
            return ""
        why = (
            "E₂ is known, so there is no q₂ to share with"
            if problem.nonnegative
            else "f takes both signs, and each has its own proposal"
        )
        return f"No sample reuse for this problem: {why}."

    def clear(self) -> None:
        self.map.clear()
        self.cut.clear()
        self._text.object = self._split.object = "<p></p>"
        self._offer_splits({})

    def begin(self) -> None:
        super().begin()
        # What holds for another case: its best splits.
        self._split.object = "<p></p>"
        self._offer_splits({})

    def draw(self, found: ReuseErrors, *, complete: bool) -> None:
        alpha, beta = self.state.alpha, self.state.beta
        self.map.draw(reuse_map(found, alpha=alpha, beta=beta, dark=self.dark))
        self.map.describe(about_map(found))
        self._show_cut(found)
        self._text.object = f"<p>{about_reuse(found, alpha, beta)}</p>"
        if complete:
            total = sum(found.counts)
            self._offer_splits({name: n / total for name, n in best_splits(found).items()})
            self._split.object = f"<p>{about_split(found)}</p>"

    def redraw(self) -> None:
        """Moves the point with a drag; the cut follows on release."""
        alpha, beta = self.state.alpha, self.state.beta
        if (yours := self.map.source("yours-yours")) is not None:
            yours.data = {"alpha": [alpha], "beta": [beta]}
        if self.share.disabled != self.state.common:
            self.share.disabled = self.state.common
        if self.shown is not None:
            self._text.object = f"<p>{about_reuse(self.shown.value, alpha, beta)}</p>"

    def start(self) -> None:
        super().start()
        if self.shown is not None and (self.state.alpha, self.state.beta) != self._cut_at:
            self._show_cut(self.shown.value)

    def _show_cut(self, found: ReuseErrors) -> None:
        self._cut_at = alpha, beta = self.state.alpha, self.state.beta
        self.cut.draw(reuse_cut(found, beta, alpha=alpha, dark=self.dark))
        self.cut.describe(about_cut(found, beta))

    def _move(self, alpha: float, beta: float) -> None:
        """Moves the point to a place of the map."""
        for name, value in (("alpha", alpha), ("beta", beta)):
            low, high = FIELDS[name].bounds or (0.0, 1.0)
            self.state.set(**{name: round(min(max(value, low), high), 2)})

    def _splitter(self, name: str) -> pmui.Button:
        """A button that gives q1 its best share of the draws."""
        button = pmui.Button(
            label=f"Use the best split for {name}",
            size="small",
            variant="outlined",
            sizing_mode="stretch_width",
            margin=0,
        )
        button.on_click(callback(partial(self._split_at, name)))
        return button

    def _split_at(self, name: str, _: Any) -> None:
        # Between the ends of the slider; to the draw, not to its step.
        low, high = FIELDS["share"].bounds or (0.0, 1.0)
        self.state.set(share=min(max(self.best[name], low), high))
        self.state.commit()

    def _offer_splits(self, best: dict[str, float]) -> None:
        """Marks the best splits on the slider, and offers to go there."""
        self.best = best
        self.share.marks = [
            {
                "value": share,
                "label": f"best for {name}, {in_per_cent(share)}",
                "above": name == SHARERS[0],
            }
            for name, share in best.items()
        ]
        for name, button in self.take_split.items():
            button.disabled = name not in best
