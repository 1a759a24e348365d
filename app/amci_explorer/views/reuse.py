r"""What sharing draws between q1 and q2 does: a map over (alpha, beta)."""

from __future__ import annotations

__all__ = ["ReuseCard"]

from typing import Any

import numpy as np
import param

from amci_core.evaluation import ReuseErrors
from amci_core.models import Problem
from amci_explorer.compute.computations import REUSE_GRID
from amci_explorer.compute.requests import Request
from amci_explorer.plots import reuse_map
from amci_explorer.problems import registry
from amci_explorer.state.case import Case
from amci_explorer.views.bound import flag, sliding
from amci_explorer.views.card import Card
from amci_explorer.views.figures import Picture
from amci_explorer.views.layout import HTML, WIDE, side_by_side
from amci_explorer.words.maps import about_reuse

STYLE = f"""
table {{ border-spacing: 0; font-size: var(--text); font-variant-numeric: tabular-nums; }}
th, td {{ padding: 2px 24px 2px 0; text-align: left; font-weight: normal; }}
tr:nth-child(2) {{ font-weight: bold; }}
{WIDE}"""


class ReuseCard(Card):
    """What sharing draws does."""

    name = param.String("reuse")
    drawn = ("alpha", "beta", "common")

    def content(self) -> list[Any]:
        self.map = Picture("reuse-map", height=400, moved=self._move)
        self._share = sliding(self.state, "share", "Share of the draws that q₁ gets")
        self.text = HTML("", STYLE)
        return [
            self.map.panel,
            side_by_side(
                sliding(self.state, "alpha", "α: share of E₁ from q₁"),
                sliding(self.state, "beta", "β: share of E₂ from q₁"),
                least=340,
            ),
            self.text,
            side_by_side(
                self._share, flag(self.state, "common", "common random numbers"), least=340
            ),
        ]

    def asked(self, case: Case) -> Request | None:
        if self.why_not(case.problem):
            return None
        # A pair of draws needs one of each.
        share = 0.5 if case.common else case.share
        return Request("reuse", case.settings, (("share", share), ("common", case.common)))

    @staticmethod
    def why_not(problem: Problem) -> str:
        if problem.nonnegative and "snis-q2" in registry.swept(problem.name):
            return ""
        why = (
            "E₂ is known, so there is no q₂ to share with"
            if problem.nonnegative
            else "f takes both signs, and each has its own proposal"
        )
        return f"No sample reuse for this problem: {why}."

    def clear(self) -> None:
        self.map.clear()
        self.text.object = ""

    def draw(self, found: ReuseErrors, *, complete: bool) -> None:
        at = {"alpha": self.state.alpha, "beta": self.state.beta}
        words = "Relative error over alpha and beta; the table below has its smallest values."
        self.map.draw(reuse_map(found, **at, dark=self.dark), words)
        self.text.object = about_reuse(found, **at)

    def redraw(self) -> None:
        """Moves the point with a drag."""
        at = {"alpha": self.state.alpha, "beta": self.state.beta}
        self._share.disabled = self.state.common
        if (yours := self.map.source("yours-yours")) is not None and self.shown is not None:
            yours.data = {name: [value] for name, value in at.items()}
            self.text.object = about_reuse(self.shown.value, **at)

    def _move(self, alpha: float, beta: float, last: bool) -> None:
        """Moves the point to a place of the map."""
        at = np.clip([alpha, beta], REUSE_GRID[0], REUSE_GRID[-1]).round(2).tolist()
        self.state.set(alpha=at[0], beta=at[1])
        if last:
            self.state.commit()
