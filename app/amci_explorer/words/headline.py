r"""The first words of the page: a question, its answer, and why AMCI uses several proposals."""

from __future__ import annotations

__all__ = ["answer", "how_extreme", "lesson", "measured", "question"]

import math
import re
from collections.abc import Collection, Sequence
from html import escape

from amci_core.models import Problem
from amci_core.target import FALLBACK
from amci_explorer.numbers.known import Level, Mu
from amci_explorer.numbers.typical import DRAWS, as_extreme
from amci_explorer.problems import registry
from amci_explorer.problems.presets import TABLE
from amci_explorer.text import number

# Below this mismatch, in nats, f is nearly the same everywhere.
LITTLE = 0.1
# Shares of posterior draws that f needs: above them some get there, or many; and their expected
# number below which none does.
RARE, COMMON, NEVER = 0.01, 0.1, 1e-3
# Fewer simulated observations do not tell how rare an observation is.
FEWEST = 10
# Vectors with more coordinates, and expressions of more characters, are not written out.
LONGEST, LONGEST_F = 3, 24
# Relative error below which a number is exact to rounding.
ROUNDING = 1e-12
COMPARISON = re.compile(r"[^<>()]+[<>]=?[^<>()]+")
SCALES = {1e12: "trillion", 1e9: "billion", 1e6: "million"}


def question(problem: Problem, y: Sequence[float], theta: Sequence[float]) -> str:
    """What is estimated, in the problem's own words; of other problems in the field's."""
    f = registry.split(problem.name)[1]
    asked = TABLE.get(problem.name, {}).get("question", "")
    if not asked:
        event = COMPARISON.fullmatch(f)
        asked = "How likely is {f}" if event else "What is the mean of {f}"
        asked += ", given {seen}" * bool(y) + ", at {parameter}" * bool(theta) + "?"
        if len(f) > LONGEST_F:
            f = "this event" if event else "this f"
    text = asked.format(
        f=f or "f",
        y=y,
        theta=theta,
        seen=_named("y", y),
        parameter=_named("θ", theta),
        threshold=_vector(theta) or "θ",
    )
    return re.sub(r"-(?=[\d.])", "−", text)


def answer(problem: Problem, mu: Mu, log_mu: float = math.nan) -> str:
    """mu in a sentence; empty if it is not known.

    Arguments:
        problem: The problem.
        mu: Its value, or a reference value.
        log_mu: log|mu| in nats, if the problem knows it.
    """
    if math.isnan(mu.value):
        return ""
    of = TABLE.get(problem.name, {})
    if "among" in of or COMPARISON.fullmatch(registry.split(problem.name)[1]):
        return _chance(mu.value, log_mu, of.get("among", ""))
    # Two sides can cancel but for rounding.
    value = mu.value if problem.nonnegative or abs(mu.value) > ROUNDING else 0.0
    return f"{_decimal(value)}."


def measured(value: float, low: float, high: float) -> tuple[str, int]:
    """An estimate with its 95 % interval, as 0.1803 ± 0.0016, and its significant digits."""
    half = max(high - value, value - low)
    if not math.isfinite(half):
        return f"{number(value)}, error not known", 5
    if half <= ROUNDING * abs(value):
        return f"{number(value, 5)}, exact up to rounding", 5
    digits = max(2, 2 + _size(value) - _size(half)) if value else 2
    if min(high - value, value - low) < 0.9 * half:
        return f"{number(value, 3)}, between {number(low, 3)} and {number(high, 3)}", digits
    power = 0 if -3 <= _size(value) < 4 else _size(value)
    decimals = max(0, 1 - _size(half) + power)
    text = " ± ".join(f"{each / 10.0**power:,.{decimals}f}" for each in (value, half))
    text = text.replace("-", "−")
    return f"({text}){number(10.0**power, 1)[1:]}" if power else text, digits


def lesson(
    problem: Problem, level: Level, draws: int, proposals: Collection[str], variant: str = ""
) -> str:
    """Why there are so many proposals, as HTML with names in the colours of their curves.

    Arguments:
        problem: The problem.
        level: Its mismatch.
        draws: Draws from each proposal.
        proposals: The names of those drawn from.
        variant: Which they are; fallback proposals were not trained for this f.
    """
    if variant == FALLBACK:
        drawn = _in("q2", "q₂") if "q2" in proposals else "a defensive density"
        return f"No proposal is trained for this f: AMCI draws from {drawn} for each integral."
    known, evidence = TABLE.get(problem.name, {}), "q2" in proposals
    of_x, of_y = ("prior", "E₂") if problem.y is None else ("posterior", "p(y)")
    good = _in("q2" if evidence else "prior", f"Draws that match the {of_x}")
    one = "uses one proposal for each integral"
    mu = "E₁" if problem.nonnegative else "E₁⁺ − E₁⁻"
    if level.value < LITTLE and "among" in known and "q1_complement" in proposals:
        why = f"{good} nearly all get there: the rare event is to miss."
        one = f"draws that too, from {_in('q1_complement', 'q₁ᶜ')}"
    elif level.value < LITTLE:
        why = f"{good} do well alone here: there is less to gain."
    elif not problem.nonnegative:
        plus, minus = known.get("sides", ("Positive f", "negative f"))
        rest = f" and {_in('q2', of_y)}" if evidence else ""
        both = f"{_in('q1', plus)}{',' if rest else ' and'} {_in('q1_minus', minus)}"
        why = f"{both}{rest} need different draws."
    else:
        share = math.exp(-level.value)
        hardly = "hardly ever" if share * draws > NEVER else "never"
        often = "need not" if math.isnan(share) else "only sometimes" if share > RARE else hardly
        there = "there" if known else "where f is large"
        # The fewer posterior draws get there, the less of the posterior do draws that are there.
        serve = "are poor for p(y)" if share > COMMON else f"miss most of the {of_x}"
        miss = f"; {_in('q1', 'draws that get there')} {serve}" if evidence else ""
        why = f"{good} {often} get {there}{miss}."
    if not evidence and problem.nonnegative:
        one = "uses one proposal, for the one unknown integral"
    if evidence:
        mu = f"{mu} / E₂" if problem.nonnegative else f"({mu}) / E₂"
    return f"{why} {_in('amci-cv', 'AMCI')} {one}: μ = {mu}."


def how_extreme(problem: Problem, y: Sequence[float]) -> str:
    """How many observations are like this one, in a sentence; empty without an observation."""
    if not y:
        return ""
    found = as_extreme(problem, y)
    if not found:
        return f"None of {DRAWS:,} simulated observations is as extreme."
    if found < FEWEST:
        return f"Fewer than 1 in {DRAWS // FEWEST:,} simulated observations are as extreme."
    if found > 0.1 * DRAWS:
        return f"About {100 * found / DRAWS:.0f} in 100 simulated observations are as extreme."
    return f"About 1 in {float(f'{DRAWS / found:.2g}'):,.0f} simulated observations is as extreme."


def _named(name: str, values: Sequence[float]) -> str:
    """A vector's name and numbers; of a long one the name alone."""
    text = _vector(values)
    return f"{name} = {text}" if text else name


def _vector(values: Sequence[float]) -> str:
    """Its numbers, one if they are alike; empty for many others."""
    # Plus zero: no coordinate is at minus zero.
    text = [f"{value + 0.0:.3g}" for value in values]
    if len(set(text)) == 1:
        return text[0]
    return f"({', '.join(text)})" if len(text) <= LONGEST else ""


def _chance(p: float, log_p: float, among: str) -> str:
    """A probability: one in so many, so many of 100, or all but one in so many."""
    if 0.1 <= p <= 0.99:
        return f"In {100 * p:.0f} of 100 {among or 'cases'}."
    rare = p < 0.5
    log_p = math.log(p) if rare and p > 0 else log_p
    nats = -log_p if rare else -math.log(max(1 - p, ROUNDING))
    if not nats < math.inf or (not rare and 1 - p <= ROUNDING):
        return "Practically never." if rare else "Practically always."
    if among:
        return f"In {'' if rare else 'all but '}one of {_rounded(nats)} {among}."
    return f"{'One' if rare else 'Almost surely: all but one'} in {_rounded(nats)}."


def _rounded(nats: float) -> str:
    """e to that power, for reading: 4,915; 714,000; 168 billion."""
    if nats > 690:
        return "more than 10³⁰⁰"
    n = math.exp(nats)
    if n < 1e4:
        return f"{n:,.0f}"
    n = float(f"{n:.3g}")
    if n >= 1e15:
        return number(n)
    scale = next((scale for scale in SCALES if n >= scale), 1.0)
    return f"{n / scale:,.15g} {SCALES.get(scale, '')}".strip()


def _size(value: float) -> int:
    """The power of ten of its first digit."""
    return math.floor(math.log10(abs(value))) if value else 0


def _decimal(value: float) -> str:
    """A value with three digits, and two decimals at least."""
    if not 0.00995 < abs(value) < 1e4:
        return number(value)
    decimals = len(f"{value:.3g}".partition(".")[2])
    return f"{value:,.{max(2, decimals)}f}".replace("-", "−")


def _in(curve: str, text: str) -> str:
    """A text in the colour of a curve."""
    return f'<b style="--of: var(--of-{curve})">{escape(text)}</b>'
