r"""What sharing draws between q1 and q2 does: a map over (alpha, beta)."""

from __future__ import annotations

__all__ = ["ReuseCard"]

from typing import Any

import param

from amci_core.evaluation import ReuseErrors
from amci_core.models import Problem
from amci_explorer.compute.computations import computations_of
from amci_explorer.compute.requests import Request
from amci_explorer.plots import reuse_map
from amci_explorer.state.state import State
from amci_explorer.views.bound import flag, sliding
from amci_explorer.views.card import Card
from amci_explorer.views.layout import side_by_side
from amci_explorer.views.picture import Picture, Words
from amci_explorer.words.reuse import about_map, about_reuse, best_splits

SPLIT = "N : M, draws from q₁ and q₂ in per cent"


class ReuseCard(Card):
    """What sharing draws does."""

    name = param.String("reuse")
    drawn = ("alpha", "beta")

    def content(self) -> list[Any]:
        acts: dict[str, Any] = {"moved": self._move, "dropped": self.state.commit}
        self.map = Picture("reuse-map", height=400, **acts)
        alpha = sliding(self.state, "alpha", "α: share of E₁ from q₁")
        beta = sliding(self.state, "beta", "β: share of E₂ from q₁")
        # As much room without marks as with them: nothing below may jump when they come.
        self.share = sliding(self.state, "share", SPLIT, splits=True, margin=(10, 0, 20, 0))
        common = flag(self.state, "common", "common random numbers")
        self._text = Words(4)
        return [
            self.map.panel,
            side_by_side(alpha, beta, least=340),
            self._text,
            side_by_side(self.share, common, least=340),
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
        self._text.say("")
        self.share.marks = []

    def draw(self, found: ReuseErrors, *, complete: bool) -> None:
        alpha, beta = self.state.alpha, self.state.beta
        picture = reuse_map(found, alpha=alpha, beta=beta, dark=self.dark)
        self.map.draw(picture, about_map(found))
        self._text.say(about_reuse(found, alpha, beta))
        marks = []
        for name, n in best_splits(found).items() if complete else ():
            share = n / sum(found.counts)
            label = f"best for {name}, {100 * share:.0f} : {100 - 100 * share:.0f}"
            marks.append({"value": share, "label": label, "above": name == "AMCI"})
        self.share.marks = marks

    def redraw(self) -> None:
        """Moves the point with a drag."""
        alpha, beta = self.state.alpha, self.state.beta
        if (yours := self.map.source("yours-yours")) is not None:
            yours.data = {"alpha": [alpha], "beta": [beta]}
        self.share.disabled = self.state.common
        if self.shown is not None:
            self._text.say(about_reuse(self.shown.value, alpha, beta))

    def _move(self, alpha: float, beta: float) -> None:
        """Moves the point to a place of the map."""
        for name, value in (("alpha", alpha), ("beta", beta)):
            low, high = State.param[name].bounds
            self.state.set(**{name: round(min(max(value, low), high), 2)})
