r"""What the draws say of an estimate and of each term's proposal, in words."""

from __future__ import annotations

__all__ = [
    "about_answer",
    "about_histogram",
    "about_scatter",
    "about_terms",
    "about_verdict",
    "about_way",
    "pretty",
    "sentence",
]

import math
from html import escape

import numpy as np

from amci_core.diagnostics.verdict import AGREE, LEVELS
from amci_explorer.numbers.answer import WAYS, CaseAnswer
from amci_explorer.numbers.diagnosis import Answer, Diagnosis, TermWeights
from amci_explorer.text import effective, in_symbols, number, percent

# What "reliable" says, after how well the estimate is determined.
AGREED = (
    f"all draws together, AMCI with control variates, agree within {AGREE:g} standard errors",
    "draws of the defensive density, or a long check after training, reach every term",
)
HEADS = ("Term", "From", "Effective sample size", "Pareto k-hat", "Largest weight")


def about_verdict(found: Diagnosis) -> str:
    """Whether the estimate is determined, the draws agree and they could know; the next step."""

    def of(answer: Answer) -> str:
        value = number(answer.value, 4)
        if answer.level != LEVELS[0]:
            return f"{value}; its standard error is not judged"
        return f"{value} ± {number(answer.error, 2)}"

    reasons = found.reasons or (found.text.partition(": ")[2], *AGREED)
    items = "".join(f"<li>{sentence(reason)}</li>" for reason in reasons)
    same, *others = found.answers
    text = f"With the same draws AMCI with control variates gives {of(same)}: {same.level}."
    steps = [f"{each.draws} ({of(each)})" for each in others if each.level == LEVELS[0]]
    if steps:
        text += f" Next step, with which it is reliable: {', or '.join(steps)}."
    elif others:
        text += " Next step: train proposals for such cases; more draws do not answer."
    return (
        f'<ul aria-label="Why">{items}</ul><p>{text} All of this is judged by {found.draws:,} '
        "draws per proposal.</p>"
    )


def about_answer(found: CaseAnswer, seconds: float) -> str:
    """What more draws, another share of the defensive density or the reference gave."""
    cost = f"{found.draws:,} draws and evaluations of p(x, y) in {seconds:.1f} s"
    if found.refused:
        return (
            f"<p>No answer after {cost}: neither {', nor '.join(WAYS)}. "
            f"{sentence(found.refused)}</p>"
        )
    low, high = (number(end, 4) for end in found.interval)
    return (
        f"<p><b>μ = {number(found.value, 4)}</b>, 95 % interval {low} to {high}, by "
        f"{found.way}; it took {cost}.</p>"
    )


def about_terms(found: Diagnosis, *, signed: bool) -> str:
    """How well each term's proposal serves it, as a table."""
    rows = [
        (
            pretty(term.name, signed=signed),
            pretty(term.proposal, signed=signed),
            f"{effective(term.effective)} of {found.draws:,}",
            f"{about_k(term)} (good below {term.threshold:.2f})",
            percent(term.largest) if term.nonzero else "all weights are zero",
        )
        for term in found.terms
    ]
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    head = "".join(f"<th>{head}</th>" for head in HEADS)
    return f'<div class="wide" tabindex="0"><table><tr>{head}</tr>{body}</table></div>'


def about_way(found: Diagnosis) -> str:
    """The text alternative of the running estimate."""
    low, high = (float(ends[-1]) for ends in (found.along.low, found.along.high))
    interval = "; its 95 % interval is not known"
    if math.isfinite(high - low):
        interval = f", with 95 % interval {number(low, 4)} to {number(high, 4)}"
    value_of_mu = "not known" if math.isnan(found.mu.value) else number(found.mu.value, 4)
    return (
        f"After {found.draws:,} draws from each proposal the estimate is "
        f"{number(found.estimate, 4)}{interval}; the {found.mu.name} is {value_of_mu}."
    )


def about_histogram(term: TermWeights, label: str) -> str:
    """The text alternative of a term's histogram of weights."""
    return (
        f"Histogram of {term.nonzero:,} log weights of {label}, from {term.edges[0]:.2g} to "
        f"{term.edges[-1]:.2g} in powers of ten of their mean. k-hat: {about_k(term)}."
    )


def about_scatter(term: TermWeights, label: str, draws: int, coordinate: str) -> str:
    """The text alternative of a term's weights against a coordinate of x."""
    top = int(np.nanargmax(term.log_weights)) if term.nonzero else 0
    at = ", ".join(f"{value:.3g}" for value in term.x[top])
    return f"Weights of {label} against {coordinate}, {draws:,} draws. The largest is at x = {at}."


def about_k(term: TermWeights) -> str:
    """The tail's k-hat, or why there is none."""
    if math.isnan(term.k):
        return "not judged"
    if math.isinf(term.k):
        return "no tail"
    return f"{term.k:.2f} ± {term.error:.2f}".replace("-", "−")


def pretty(name: str, *, signed: bool) -> str:
    """E1_plus as E₁⁺, or as E₁ where f takes one sign."""
    return in_symbols(name if signed else name.replace("_plus", ""))


def sentence(words: str) -> str:
    """Words of the core as a sentence of the page."""
    words = in_symbols(words)
    # A Greek letter is a symbol, which stays small.
    return escape((words[0].upper() if words[:1].isascii() else words[:1]) + words[1:]) + "."
