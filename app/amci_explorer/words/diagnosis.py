r"""What the draws say of an estimate and of each term's proposal, in words."""

from __future__ import annotations

__all__ = [
    "about_answer",
    "about_terms",
    "about_verdict",
    "sentence",
]

import math
from html import escape

from amci_explorer.numbers.answer import WAYS, CaseAnswer
from amci_explorer.numbers.diagnosis import Diagnosis, TermWeights
from amci_explorer.text import effective, in_symbols, number, percent, pretty, table

# What "reliable" says, after how well the estimate is determined.
REACHED = "draws of the defensive density, or a long check after training, reach every term"
HEADS = ("Term", "From", "Effective sample size", "Pareto k-hat", "Largest weight")
# A term is the harder one if its relative variance per draw is so many times the other's.
HARDER = 2.0
ALL = 0.995


def about_verdict(found: Diagnosis) -> str:
    """Why the estimate is reliable or not."""
    reasons = found.reasons or (found.text.partition(": ")[2], REACHED)
    items = "".join(f"<li>{sentence(reason)}</li>" for reason in reasons)
    return f'<ul aria-label="Why">{items}</ul><p>Judged by {found.draws:,} draws per proposal.</p>'


def about_answer(found: CaseAnswer, seconds: float) -> str:
    """What more draws, another share of the defensive density or the reference gave."""
    cost = f"{found.draws:,} draws and evaluations of p(x, y) in {seconds:.1f} s"
    if found.refused:
        ways = ", nor ".join(WAYS)
        return f"<p>No answer after {cost}: neither {ways}. {sentence(found.refused)}</p>"
    value, low, high = (number(each, 4) for each in (found.value, *found.interval))
    return f"<p><b>μ = {value}</b>, 95 % interval {low} to {high}, by {found.way}: {cost}.</p>"


def about_terms(found: Diagnosis, *, signed: bool) -> str:
    """How well each term's proposal serves it, as a table, and which integral is harder."""
    rows = [
        (
            pretty(term.name, signed=signed),
            pretty(term.core.proposal, signed=signed),
            "every draw counts"
            if term.core.smallest_ess > ALL * found.draws
            else f"{effective(float(term.core.smallest_ess))} of {found.draws:,}",
            f"{about_k(term)} (good below {term.core.pareto_threshold:.2f})",
            percent(float(term.core.largest_weight))
            if term.core.nonzero_draws
            else "all weights are zero",
        )
        for term in found.terms
    ]
    harder = f"<p>{_harder(found)}</p>" if not signed and len(rows) > 1 else ""
    return table(HEADS, rows) + harder


def _harder(found: Diagnosis) -> str:
    costs = [found.draws / max(float(term.core.smallest_ess), 1e-9) - 1 for term in found.terms]
    if max(costs) < max(HARDER * min(costs), 1 / ALL - 1):
        return "Which integral is harder is not clear at this number of draws."
    term = found.terms[costs.index(max(costs))]
    return f"{pretty(term.name, signed=False)} is the harder integral: most error comes from it."


def about_k(term: TermWeights) -> str:
    """The tail's k-hat, or why there is none."""
    k = float(term.core.pareto_k)
    if math.isnan(k):
        return "too few to say"
    if math.isinf(k):
        return "no tail"
    return f"{k:.2f} ± {term.error:.2f}".replace("-", "−")


def sentence(words: str) -> str:
    """Words of the core as a sentence of the page."""
    words = in_symbols(words)
    # A Greek letter is a symbol, which stays small.
    return escape((words[0].upper() if words[:1].isascii() else words[:1]) + words[1:]) + "."
