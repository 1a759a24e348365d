r"""Above the pictures: what is estimated, what AMCI is worth at the case, and the verdict."""

from __future__ import annotations

__all__ = ["HeadlineView"]

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from html import escape

from amci_explorer.compute.computations import computations_of
from amci_explorer.compute.results import Results
from amci_explorer.numbers.known import facts
from amci_explorer.numbers.typical import typical
from amci_explorer.problems.presets import presets
from amci_explorer.state.state import State
from amci_explorer.views.formula import FORMULA, formula
from amci_explorer.views.layout import HTML, column
from amci_explorer.views.style import NARROW, VERDICTS
from amci_explorer.words.definition import definition
from amci_explorer.words.diagnosis import sentence
from amci_explorer.words.headline import RELIABLE, Headline, headline, how_typical

DOCS = '<a href="docs/dashboard.md" target="_blank">Documentation</a>'
# Room for two lines of each, so that nothing below jumps. On a narrow page the definition is last.
STYLE = f"""
p {{ margin: 0; }}
a {{ color: inherit; }}
.definition, .why {{ font-size: var(--small); line-height: 1.45; color: var(--muted);
                     min-height: 2.9em; }}
.headline {{ margin: 2px 0; font-size: var(--headline); line-height: 1.25; font-weight: 600;
             min-height: 2.5em; color: var(--ink); text-wrap: balance; }}
b {{ color: var(--of, var(--ink)); font-weight: 600; }}
.badge {{ display: inline-block; padding: 0 8px; margin-right: 4px; border-radius: 5px;
          font-weight: 600; color: var(--level);
          background: color-mix(in srgb, var(--level) 12%, var(--paper)); }}
@media {NARROW} {{
  .said {{ display: flex; flex-direction: column; gap: 4px; }}
  .definition {{ order: 1; }}
}}
"""
ABOUT = "p { margin: 0 0 6px 0; font-size: var(--small); line-height: 1.5; }"


class HeadlineView:
    """Creates definition, headline and verdict, with nothing to say.

    Arguments:
        state: Whose case they are about.
        results: Where its numbers come from.
    """

    def __init__(self, state: State, results: Results) -> None:
        self._state, self._results = state, results
        self.panel = HTML("", STYLE)
        self._about, self._formula = HTML("", ABOUT), HTML("", FORMULA)
        # The problem at length, for those who want to know more.
        self.about = column(self._about, self._formula)

    def show(self) -> None:
        """Says what is known of the state's case."""
        problem, found = self._state.problem, self._found()
        here = [each for each in presets(problem) if self._state.at(each)]
        # Of several at one place, the one that says most of it.
        preset = max(here, key=lambda each: -[*vars(each).values()].count(None), default=None)
        badge = f'<span class="badge">{found.level.capitalize()}</span>' if found.level else ""
        reason = sentence(found.reason) if found.level not in ("", RELIABLE) else ""
        words = [found.note, preset.learnt if preset else ""]
        why = " ".join([badge, reason, *(escape(text) for text in words if text)])
        self.panel.object = (
            f'<div class="said" style="--level: var(--{VERDICTS.get(found.level, "muted")})">'
            f'<p class="definition">{_coloured(*definition(problem))} {DOCS}</p>'
            f'<p class="headline" role="status">{_coloured(found.text, found.marks)}</p>'
            f'<p class="why">{why}</p></div>'
        )
        self._about.object = "".join(
            f"<p>{escape(text)}</p>"
            for text in (
                problem.description,
                f"{preset.name}: {preset.watch}" if preset else "",
                how_typical(typical(problem, self._state.y)),
            )
            if text
        )
        self._formula.object = formula(problem.formula)

    def _found(self) -> Headline:
        choice, names = self._state.settings, ("summary", "errors")
        failed = [self._results.failed(name) for name in names]
        if any(asked is not None and asked.settings == choice for asked in failed):
            return Headline("The errors could not be computed here.")
        store = computations_of(choice.problem)
        total = choice.draws * len(store.proposals(choice).present)
        known = facts(self._state.problem, *choice.pair, total)
        if store.plain:
            # E2 is known: nobody would self-normalize.
            known = replace(known, bound=math.nan)
        results = [self._results.of(name) for name in names]
        summary, curves = (r.value if r and r.asked.settings == choice else None for r in results)
        # None come after a cancelled one.
        complete = not self._results.is_running("errors")
        return headline(known, summary, curves, complete=complete)


def _coloured(text: str, marks: Mapping[str, str]) -> str:
    """A text as HTML, with these words in the colours of their curves."""
    # A number stays with its unit.
    text = text.replace(" %", "\u00a0%")
    words = "|".join(re.escape(word) for word in sorted(marks, key=len, reverse=True)) or "$^"
    return "".join(
        f'<b style="--of: var(--of-{marks[part]})">{escape(part)}</b>'
        if part in marks
        else escape(part)
        for part in re.split(f"({words})", text)
    )
