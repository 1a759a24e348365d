r"""The headline of the page: what AMCI is worth at the case, with the verdict's colour."""

from __future__ import annotations

__all__ = ["HeadlineView"]

from html import escape

from amci_explorer.compute.results import Results
from amci_explorer.numbers.known import log_truth
from amci_explorer.numbers.typical import typical
from amci_explorer.problems.presets import about_truth
from amci_explorer.state.state import State
from amci_explorer.views.layout import HTML
from amci_explorer.views.style import VERDICTS
from amci_explorer.words.diagnosis import sentence
from amci_explorer.words.headline import Headline, awaited, headline, how_typical

# Room for two lines of either on a wide page, so that nothing below jumps.
STYLE = """
.said { border-left: 6px solid var(--level, var(--line)); padding-left: 12px; min-height: 6.1rem;
        box-sizing: border-box; }
.headline { margin: 0; font-size: var(--headline); line-height: 1.3; font-weight: 600;
            max-width: 75ch; min-height: 2.6em;  color: var(--ink); text-wrap: balance; }
.why { margin: 2px 0 0 0; font-size: var(--small); line-height: 1.45; color: var(--muted); }
.verdict { color: var(--level); font-weight: 600; }
@media (max-width: 599.95px) { .said { min-height: 12rem; } .headline { font-size: 1.2rem; } }
"""


class HeadlineView:
    """Creates the headline, with nothing to say.

    Arguments:
        state: Whose case it is about.
        results: Where its numbers come from.
    """

    def __init__(self, state: State, results: Results) -> None:
        self._state, self._results = state, results
        self.panel = HTML("", STYLE)

    def show(self) -> None:
        """Says what is known of the state's case."""
        found = self._found()
        colour = f"--level: var(--{VERDICTS[found.level]})" if found.level else ""
        common = how_typical(typical(self._state.problem, self._state.y))
        reason = sentence(found.reason) if found.reason else ""
        why = f'<span class="verdict">{reason}</span> {escape(found.bound)} {escape(common)}'
        self.panel.object = (
            f'<div class="said" style="{colour}">'
            f'<p class="headline" role="status">{escape(found.text)}</p>'
            f'<p class="why">{why}</p></div>'
        )

    def _found(self) -> Headline:
        summary, curves = (self._results.of(name) for name in ("strip", "errors"))
        choice = self._state.settings
        if summary and curves and curves.complete:
            if summary.asked.settings == curves.asked.settings == choice:
                return headline(summary.value, curves.value)
        failed = [self._results.failed(name) for name in ("strip", "errors")]
        if any(asked is not None and asked.settings == choice for asked in failed):
            return Headline("The errors could not be computed here.")
        known = log_truth(self._state.problem, *choice.pair)
        return awaited(known, about_truth(self._state.problem, known))
