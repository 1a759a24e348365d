r"""Below the pictures: the case in one line, and all estimators to those who unfold them."""

from __future__ import annotations

__all__ = ["SummaryCard"]

import math
from html import escape
from typing import Any

import numpy as np
import param

from amci_core.diagnostics.verdict import LEVELS
from amci_explorer.colours import ESTIMATORS
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Results
from amci_explorer.numbers.summary import Row, Summary
from amci_explorer.state.case import Case
from amci_explorer.text import doubt, duration, effective, number, table
from amci_explorer.views.card import Card
from amci_explorer.views.inputs import flat_button
from amci_explorer.views.layout import HTML, WIDE, column, hide, row
from amci_explorer.views.style import VERDICTS
from amci_explorer.words.headline import measured

RELIABLE, MORE_DRAWS, _ = LEVELS
DEFAULT = "amci-cv"
# Each ESS within this of the number of draws is called that number.
ALL = 0.995
LINE = """
p { margin: 0; display: flex; flex-wrap: wrap; gap: 2px 24px; align-items: baseline;
    font-size: var(--text); line-height: 1.6; min-height: 1.6em; color: var(--muted); }
b { color: var(--ink); font-weight: 600; }
.badge { padding: 0 8px; border-radius: 5px; font-weight: 600; color: var(--level);
         background: color-mix(in srgb, var(--level) 12%, var(--paper)); }
"""
TABLE = """
table { border-collapse: collapse; font-size: var(--small); width: 100%; margin-top: 8px; }
p { margin: 8px 0 0; font-size: var(--small); line-height: 1.5; color: var(--muted); }
th { text-align: left; color: var(--muted); }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:last-child { white-space: normal; min-width: 150px; }
td i { display: inline-block; width: 20px; height: 4px; margin: 0 6px 3px 0; }
svg { display: block; width: 200px; height: 16px; }
"""
# The line takes the room, and the buttons a line of their own where there is none.
ROW = """
:host { flex-wrap: wrap !important; justify-content: flex-end; }
:host > div:first-of-type { flex: 1 1 480px !important; width: auto !important; min-width: 0; }
"""
PANEL = ":host { background: var(--paper); border-radius: 10px; padding: 6px 16px; }"
FOLDED, UNFOLDED = "All numbers ▾", "All numbers ▴"


class SummaryCard(Card):
    """Verdict, estimate, mismatch and training in a line, and one run of every estimator."""

    name = param.String("summary")
    unit = ""
    compares = True

    def __init__(self, state: Case, results: Results) -> None:
        super().__init__(state, results)
        self.panel = column(self.body, self.status, stylesheet=PANEL)

    def content(self) -> list[Any]:
        self._line, self._table, self._more = HTML("", LINE), HTML("", TABLE, WIDE), column()
        flat: dict[str, Any] = {"variant": "text", "sizing_mode": None}
        self._fold = flat_button(FOLDED, lambda _: self._unfold(), **flat)
        self._find = flat_button("Find an answer", lambda _: self._to_diagnostics(), **flat)
        return [row(self._line, self._find, self._fold, stylesheet=ROW), self._more]

    def asked(self, case: Case) -> Request:
        return Request("summary", case.settings)

    def clear(self) -> None:
        self._line.object, self._table.object = "<p>Measuring …</p>", ""
        hide(self._find, True)

    def draw(self, found: Summary, *, complete: bool) -> None:
        self._line.object = self._in_a_line(found)
        hide(self._find, found.verdict == RELIABLE)
        text = self._estimators(found)
        if self.reference is not None:
            text = f"{text}<h3>A, the reference case</h3>{self._estimators(self.reference.value)}"
        self._table.object = text
        if self.shown is not None:
            self.state.learn(self.shown.asked.settings, found.level)

    def tell(self) -> None:
        super().tell()
        # It takes room only for what went wrong.
        hide(self.status, not self.halted)

    def _unfold(self) -> None:
        self._more[:] = [] if len(self._more) else [self._table, self.details.panel]
        self._fold.label = UNFOLDED if len(self._more) else FOLDED

    def _to_diagnostics(self) -> None:
        self.state.set(card="diagnostics")
        self.state.commit()

    def _in_a_line(self, found: Summary) -> str:
        best, mu, level = found.row(DEFAULT), found.mu, found.level
        judged, reason = found.verdict, found.reason
        if judged == RELIABLE and not np.isfinite(best.interval).all():
            judged, reason = MORE_DRAWS, "Too few draws for an interval."
        reliable = judged == RELIABLE
        text, digits = measured(best.value, *best.interval)
        value, *rest = text.partition(" ±")
        estimate = f"μ = <b>{value}</b>{''.join(rest)}"
        if not reliable:
            estimate, digits = f"μ ≈ <b>{number(best.value)}</b>, error not known", 5
        truth = "truth not known"
        if not math.isnan(mu.value):
            # Fewer where it is itself an estimate.
            digits = min(digits, 2 - math.ceil(math.log10(mu.error))) if mu.error else digits
            name = "reference value" if mu.name == "reference" else mu.name
            truth = f"{name} {number(mu.value, digits)}"
        mismatch = "mismatch: too few draws to say"
        if not math.isnan(level.value):
            error = f" ± {number(level.error, 1)}" if level.error else ""
            mismatch = f"mismatch <b>{number(level.value, 2)}{error} nats</b>"
        parts = [f"{estimate}, {truth}", mismatch]
        if reliable and not math.isnan(found.training):
            parts.append(f"trained in <b>{duration(found.training)}</b>")
        colour = f"--level: var(--{VERDICTS[judged]})"
        trust = f"Its 95 % interval can{'' if reliable else 'not'} be trusted"
        verdict = f'<span class="badge" title="{trust}" style="{colour}">{judged.capitalize()}'
        verdict += "</span>" if reliable else f"</span><span>{escape(reason)}</span>"
        line = "".join(f"<span>{part}</span>" for part in parts)
        return f"<p>{verdict}{line}</p>".replace(" × ", "\u00a0×\u00a0")

    def _estimators(self, found: Summary) -> str:
        known = not math.isnan(found.mu.value)
        centre = found.mu.value if known else found.row(DEFAULT).value
        reach = [
            max(abs(end - centre) for end in (row.value, *_judged(row))) for row in found.rows
        ]
        low, high = self.state.problem.f_range
        # Half of the intervals are whole.
        span = 1.2 * float(np.median(reach)) or 1.0
        around = f"95 % intervals, {'truth' if known else 'estimate'} ± {number(span, 2)}"
        head = ("estimator", "estimate", "standard error", "relative error", around, "remark")
        rows = [
            (
                f"<i style='background: {ESTIMATORS[row.name].colour(self.dark)}'></i>"
                f"{ESTIMATORS[row.name].label}",
                number(row.value, 4),
                doubt(row.standard_error, high - low, judged=row.is_reliable),
                _relative(row.relative_error, found.mu.error),
                self._bar(row, centre, span),
                escape(row.remark),
            )
            for row in found.rows
        ]
        about = " ".join(_about(found, term) for term in found.effective)
        draws = (
            f"{found.total:,} draws from proposals, {found.judging:,} from the defensive density"
        )
        return f"{table(head, rows)}<p>One run of every estimator: {draws}. {about}</p>"

    def _bar(self, row: Row, centre: float, span: float) -> str:
        """An interval on the common axis; an estimate beyond it is an arrow."""

        def at(value: float) -> float:
            return round(100 + 96 * max(-1.0, min((value - centre) / span, 1.0)), 1)

        x, (low, high) = at(row.value), map(at, _judged(row) or (row.value, row.value))
        mark = f'<circle cx="{x}" cy="8" r="3"/>'
        if abs(row.value - centre) > span:
            mark = f'<path d="M{x} 8l{-8 if x > 100 else 8} -5v10z"/>'
        colour = ESTIMATORS[row.name].colour(self.dark)
        return (
            f'<svg viewBox="0 0 200 16" aria-hidden="true" fill="{colour}" stroke="{colour}">'
            f'<path d="M100 0V16" stroke="var(--muted)" stroke-dasharray="2 2"/>'
            f'<path d="M{low} 8H{high}" stroke-width="3"/>{mark}</svg>'
        )


def _judged(row: Row) -> tuple[float, float] | tuple[()]:
    """The interval of an estimator if it can be trusted."""
    return row.interval if row.is_reliable and np.isfinite(row.interval).all() else ()


def _about(found: Summary, term: str) -> str:
    """How well a term's proposal serves it, in a sentence."""
    name = {"E1_plus": "q₁⁺" if "E1_minus" in found.effective else "q₁", "E1_minus": "q₁⁻"}
    proposal, size = name.get(term, "q₂"), found.effective[term]
    if size > ALL * found.seen:
        return f"From {proposal} every draw counts."
    return f"ESS of {found.seen:,} draws from {proposal}: {effective(size)}."


def _relative(error: float, of_mu: float) -> str:
    """An error relative to mu, which is known to `of_mu` of itself."""
    if not math.isfinite(error):
        return "not known"
    if abs(error) < 10 * of_mu:
        return f"below {number(1000 * of_mu, 1)} %"
    # Further off the estimate over mu says more.
    return f"{number(100 * error, 2)} %" if abs(error) < 100 else f"{number(error + 1, 2)} times μ"
