r"""The case in numbers: tiles, and one run of every estimator."""

from __future__ import annotations

__all__ = ["SummaryCard"]

import math
from html import escape
from typing import Any

from amci_explorer.colours import ESTIMATORS
from amci_explorer.compute.requests import Request
from amci_explorer.numbers.summary import Summary
from amci_explorer.state.state import State
from amci_explorer.text import number
from amci_explorer.views.card import Card
from amci_explorer.views.layout import HTML, WIDE
from amci_explorer.words import HELP

STYLE = """
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; }
.tiles div { border-left: 3px solid var(--line); padding-left: 10px; font-size: var(--small);
             line-height: 1.4; min-height: 7em; }
.tiles b { display: block; font-size: var(--title); line-height: 1.5; }
table { border-collapse: collapse; font-size: var(--text); width: 100%; }
caption, th { text-align: left; font-size: var(--small); color: var(--muted); }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:last-child { white-space: normal; min-width: 150px; width: 40%; }
td i { display: inline-block; width: 20px; height: 4px; margin: 0 6px 3px 0; }
"""
NAMES = ("estimator", "estimate", "standard error", "relative error")


class SummaryCard(Card):
    """The figures of the case, and one run of every estimator."""

    name = "summary"
    title = "This case in numbers"
    unit = ""
    compares = True
    help = HELP["summary"]

    def content(self) -> list[Any]:
        self._text = HTML("", STYLE, WIDE)
        return [self._text]

    def asked(self, case: State) -> Request:
        return Request("summary", case.settings)

    def clear(self) -> None:
        # What is to come has its place: nothing below jumps when it does.
        rows = [(name, ["–", "–", "–", ""]) for name in self.store.estimators if name != "bound"]
        tiles = [("", "–", "")] * (2 + len(self.store.terms))
        self._text.object = self._html(tiles, rows, "One run of every estimator")

    def draw(self, found: Summary, *, complete: bool) -> None:
        text = self._of(found)
        if self.reference is not None:
            text = f"{text}<h3>A, the reference case</h3>{self._of(self.reference.value)}"
        self._text.object = text
        if self.shown is not None:
            self.state.learn(self.shown.asked.settings, found.level)

    def _of(self, found: Summary) -> str:
        caption = (
            f"One run of every estimator, {found.total:,} draws from proposals and "
            f"{found.judging:,} from the defensive density"
        )
        rows = []
        for row in found.rows:
            error = _relative(row.relative_error, found.mu.error)
            cells = [number(row.value, 4), row.doubt, error, escape(row.remark)]
            rows.append((row.name, cells))
        return self._html(found.figures(), rows, caption)

    def _html(
        self, tiles: list[tuple[str, str, str]], rows: list[tuple[str, list[str]]], caption: str
    ) -> str:
        figures = "".join(
            f"<div>{name}<b>{figure}</b>{escape(words)}</div>" for name, figure, words in tiles
        )
        head = "".join(f"<th>{name}</th>" for name in NAMES)
        body = "".join(
            f'<tr><td><i style="background: {ESTIMATORS[name].colour(self.dark)}"></i>'
            f"{ESTIMATORS[name].label}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
            for name, cells in rows
        )
        return (
            f'<div class="tiles">{figures}</div><div class="wide" tabindex="0"><table>'
            f"<caption>{caption}</caption><tr>{head}<td></td></tr>{body}</table></div>"
        )


def _relative(error: float, of_mu: float) -> str:
    """An error relative to mu, which is known to `of_mu` of itself."""
    if not math.isfinite(error):
        return "not known"
    if abs(error) < 10 * of_mu:
        return f"below {number(1000 * of_mu, 1)} %"
    # Further off the estimate over mu says more.
    return f"{number(100 * error, 2)} %" if abs(error) < 100 else f"{number(error + 1, 2)} times μ"
