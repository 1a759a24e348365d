r"""What the draws say of an estimate and of each term's proposal, in words."""

from __future__ import annotations

__all__ = [
    "about_histogram",
    "about_k",
    "about_scatter",
    "about_verdict",
    "about_way",
    "about_weights",
    "pretty",
    "sentence",
]

import math
from html import escape

import numpy as np

from amci_core.diagnostics.verdict import AGREE, LEVELS
from amci_explorer.numbers.diagnosis import Answer, Diagnosis, TermWeights
from amci_explorer.text import effective, in_symbols, number, percent

# What "reliable" says, after how well the estimate is determined.
AGREED = (
    f"all draws together, AMCI with control variates, agree within {AGREE:g} standard errors",
    "draws of the defensive density, or a long check after training, reach every term",
)


def about_verdict(found: Diagnosis) -> str:
    """Whether the estimate is determined, the draws agree and they could know; the next step."""
    reasons = found.reasons or (found.text.partition(": ")[2], *AGREED)
    items = "".join(f"<li>{sentence(reason)}</li>" for reason in reasons)
    text = f'<ul aria-label="Why">{items}</ul><p>{_about_control(found)}</p>'
    if found.asked < found.draws:
        text += (
            f"<p>A verdict takes many draws: this uses {found.draws:,} per proposal. Your "
            f"{found.asked:,} alone say: {sentence(found.asked_text)}</p>"
        )
    return text


def _about_control(found: Diagnosis) -> str:
    """What AMCI with control variates makes of it, and what to do where that is not reliable."""

    def of(answer: Answer) -> str:
        return f"{number(answer.value, 4)} ± {number(answer.error, 2)}"

    same, *others = found.answers
    text = f"AMCI with control variates gives {of(same)} with the same draws: {same.level}."
    if not others:
        return text
    steps = [f"{each.draws} ({of(each)})" for each in others if each.level == LEVELS[0]]
    if steps:
        return f"{text} Next step, with which it is reliable: {', or '.join(steps)}."
    either = " nor ".join(each.draws for each in others)
    return f"{text} Next step: train proposals for such cases, since neither {either} answers."


def about_way(found: Diagnosis) -> str:
    """The text alternative of the complete running estimate."""
    if found.along is None:
        return ""
    value, low, high = (
        number(float(column[-1]), 4)
        for column in (found.along.value, found.along.low, found.along.high)
    )
    value_of_mu = "not known" if math.isnan(found.mu.value) else number(found.mu.value, 4)
    return (
        f"After {found.draws:,} draws from each proposal the estimate is {value}, with 95 % "
        f"interval {low} to {high}; the {found.mu.name} is {value_of_mu}."
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
    return (
        f"Weights of {label} against {coordinate}, {draws:,} draws. The largest is at x = {at}, "
        "and makes up "
        f"{percent(term.largest)} of the sum."
    )


def about_k(term: TermWeights) -> str:
    """The tail's k-hat, or why there is none."""
    if math.isnan(term.k):
        return "not judged"
    if math.isinf(term.k):
        return "no tail"
    return f"{term.k:.2f} ± {term.error:.2f}".replace("-", "−")


def about_weights(term: TermWeights, draws: int, proposal: str) -> str:
    """What a term's draws are worth, and what to watch."""
    if term.nonzero == 0:
        return f"All weights of {proposal} are zero."
    parts = []
    if term.nonzero < draws:
        parts.append(f"{term.nonzero:,} of {draws:,} weights are positive.")
    parts.append(
        f"The effective sample size is {effective(term.effective)} of {draws:,}; the largest "
        f"weight is {percent(term.largest)} of the sum."
    )
    if term.missed > 1e-3:
        parts.append(
            f"{percent(term.missed)} of the integral lies where {proposal} almost never samples."
        )
    return " ".join(parts)


def pretty(name: str, *, signed: bool) -> str:
    """E1_plus as E₁⁺, or as E₁ where f takes one sign."""
    return in_symbols(name if signed else name.replace("_plus", ""))


def sentence(words: str) -> str:
    """Words of the core as a sentence of the page."""
    words = in_symbols(words)
    # A Greek letter is a symbol, which stays small.
    return escape((words[0].upper() if words[:1].isascii() else words[:1]) + words[1:]) + "."
