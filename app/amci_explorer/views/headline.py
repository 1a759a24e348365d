r"""Above the pictures: the question, its answer, and why it takes more than one proposal."""

from __future__ import annotations

__all__ = ["HeadlineView"]

from html import escape

from amci_explorer.compute.results import Results
from amci_explorer.numbers.known import exact, level, log_truth
from amci_explorer.numbers.summary import Summary
from amci_explorer.problems import registry
from amci_explorer.problems.presets import preset_at
from amci_explorer.state.case import Case
from amci_explorer.views.formula import FORMULA, formula
from amci_explorer.views.layout import HTML, column
from amci_explorer.words.headline import answer, how_extreme, lesson, measured, question

DOCS = '<a href="docs/dashboard.md" target="_blank">Documentation</a>'
STYLE = """
p { margin: 0; text-wrap: pretty; }
.headline { font-size: var(--headline); line-height: 1.3; font-weight: 600; color: var(--ink); }
.lesson { margin-top: 4px; font-size: var(--text); line-height: 1.45; color: var(--muted);
          /* Two lines, so that nothing below jumps. */
          min-height: 2.9em; }
b { color: var(--of, var(--ink)); font-weight: 600; }
"""
ABOUT = """
p { margin: 0 0 6px 0; font-size: var(--small); line-height: 1.5; }
a { color: inherit; }
"""


class HeadlineView:
    """Creates headline and lesson, empty, and `about` the problem at length.

    Arguments:
        state: Whose case they are about.
        results: Where estimates come from, if the problem does not know mu.
    """

    def __init__(self, state: Case, results: Results) -> None:
        self._state, self._results = state, results
        self.panel = HTML("", STYLE)
        self._about, self._formula = HTML("", ABOUT), HTML("", FORMULA)
        self.about = column(self._about, self._formula)

    def show(self) -> None:
        """Says what is known of the state's case."""
        state, settings = self._state, self._state.settings
        problem, pair = state.problem, settings.pair
        proposals = registry.chosen(settings).by_name
        found = self._found()
        mismatch = level(problem, None, *pair) if found is None else found.level
        why = lesson(problem, mismatch, settings.draws, proposals, state.variant)
        asked = escape(question(problem, state.y, state.theta))
        self.panel.object = (
            f'<p class="headline" role="status">{asked} {self._answer(found)}</p>'
            f'<p class="lesson">{why}</p>'
        )
        preset = preset_at(state.link())
        words = [problem.description, how_extreme(problem, state.y)]
        words += [f"{preset.name.capitalize()}: {preset.text}"] if preset else []
        paragraphs = [escape(text) for text in words if text]
        self._about.object = "".join(f"<p>{text}</p>" for text in [*paragraphs, DOCS])
        self._formula.object = formula(problem.formula)

    def _found(self) -> Summary | None:
        """The figures of the case, if they are there."""
        result = self._results.all.get("summary")
        current = result is not None and result.asked.settings == self._state.settings
        return result.value if result is not None and current else None

    def _answer(self, found: Summary | None) -> str:
        problem, pair = self._state.problem, self._state.settings.pair
        mu = exact(problem, *pair)
        text = answer(problem, mu, log_truth(problem, *pair))
        if not text and found is not None:
            text = answer(problem, found.mu)
        if text:
            return text
        if found is not None:
            row = found.row("amci-cv")
            about = f"About {measured(row.value, *row.interval)[0]}."
            return about if row.is_reliable else "These draws cannot tell."
        failed = self._results.failed.get("summary")
        is_over = failed is not None and failed.settings == self._state.settings
        return "Not known." if is_over else "Measuring …"
