r"""The page's headline: what AMCI is worth at this case, in one sentence, from its numbers."""

from __future__ import annotations

__all__ = ["Headline", "awaited", "headline", "how_typical"]

import math
from dataclasses import dataclass

import numpy as np

from amci_core.diagnostics.verdict import LEVELS
from amci_core.errors import Curve, ErrorCurves
from app.numbers.typical import DRAWS
from app.summary import Summary
from app.words.numbers import number

RELIABLE, MORE_DRAWS, NO_TRUST = LEVELS
# Errors of the same size, as far as a reader cares.
ALIKE = 1.5
# Below this relative error an estimate is exact to rounding.
EXACT = 1e-11
# An error above this makes an estimate useless, whatever its draws say of it.
USELESS = 0.5
# Below this mismatch, in nats, f is nearly the same everywhere.
NOTHING_TO_GAIN = 0.1
UNSETTLED = "The runs do not settle AMCI's mean error: the median is given."


@dataclass(frozen=True)
class Headline:
    """What stands in large type.

    Arguments:
        text: A sentence or two.
        level: One of `LEVELS`, whose colour it has; empty where nothing is judged.
        reason: Why that level, in a sentence.
        shares: Whether sharing samples would help, so that the page offers to go there.
    """

    text: str
    level: str = ""
    reason: str = ""
    shares: bool = False


@dataclass(frozen=True)
class _Error:
    """The typical relative error of an estimator: a root mean square where the runs settle it."""

    size: float
    settled: bool

    @classmethod
    def of(cls, curve: Curve, at: int) -> _Error:
        settled = bool(curve.mean_judged[at])
        squared = curve.squared.mean if settled else curve.squared.quartiles[1]
        return cls(math.sqrt(float(squared[at])), settled)


def awaited(log_truth: float, about_truth: str) -> Headline:
    """What is known before a single draw: mu.

    Arguments:
        log_truth: log|mu|, NaN where it is not known.
        about_truth: What mu is, in words.
    """
    if math.isnan(log_truth):
        return Headline("The truth is not known here. Measuring the errors …")
    said = about_truth[:1].upper() + about_truth[1:]
    value = number(math.exp(log_truth), 3)
    if any(character.isdigit() for character in said):
        return Headline(f"{said}. Measuring the errors …")
    return Headline(f"{said or 'μ'} is {value} here. Measuring the errors …")


def headline(found: Summary, curves: ErrorCurves) -> Headline:
    """The sentence for a case whose figures and complete error curves are there."""
    at = int(np.searchsorted(curves.budgets, min(found.total, int(curves.budgets[-1]))))
    draws = f"{curves.budgets[at]:,} draws"
    if found.verdict == NO_TRUST:
        return Headline(f"Do not trust AMCI here. {_measured(curves, at)}", NO_TRUST, found.reason)
    if np.isnan(curves.truth_error):
        text = "μ is 0 here, so that there is no relative error: choose MSE below."
        return Headline(text, found.verdict, found.reason)
    amci = _Error.of(curves["amci"], at)
    rivals = {
        name: _Error.of(curve, at)
        for name, curve in curves.by_name.items()
        if name == "bound" or name.startswith("snis-")
    }
    usable = {name: each.size for name, each in rivals.items() if math.isfinite(each.size)}
    if not math.isfinite(amci.size) or not usable:
        return Headline("These runs do not settle the errors.", MORE_DRAWS, found.reason)
    name = min(usable, key=lambda each: usable[each])
    best = usable[name]
    worse = amci.size > USELESS and found.verdict == RELIABLE
    level = MORE_DRAWS if worse else found.verdict
    own = f"AMCI is {_off(amci)}"
    if amci.size < EXACT:
        text = f"{draws}: AMCI is exact (Theorem 1); {_best(name, best)}."
    elif not amci.settled:
        text = f"{draws}: {own}, {_best(name, best)}."
        return Headline(text, level, f"{UNSETTLED} {found.reason}")
    elif best > ALIKE * amci.size:
        times = _times((best / amci.size) ** 2)
        text = f"{draws}: {own}, {_best(name, best)}. That is {times} less squared error."
    elif amci.size > ALIKE * best:
        return _loss(found, curves, at, draws, amci=amci, best=best, level=level)
    else:
        text = f"{draws}: {own}, {_best(name, best)}: about the same."
    return Headline(text, level, found.reason)


def how_typical(share: float) -> str:
    """How many observations are like this one, in a sentence; empty without an observation."""
    if math.isnan(share):
        return ""
    if share == 0:
        return f"Fewer than one observation in {DRAWS:,} lies as far out as this."
    if share > 0.2:
        return f"A typical observation: {100 * share:.0f} % of all lie as far out."
    return f"About one observation in {float(f'{1 / share:.1g}'):,.0f} lies as far out as this."


def _loss(
    found: Summary,
    curves: ErrorCurves,
    at: int,
    draws: str,
    *,
    amci: _Error,
    best: float,
    level: str,
) -> Headline:
    """Where a self-normalised sampler does better."""
    small = found.level.value < NOTHING_TO_GAIN
    why = "Here f is nearly the same everywhere, so AMCI has little to gain: " if small else ""
    text = f"{why}{draws}: AMCI is {_off(amci)}, a self-normalised sampler {_percent(best)}."
    auto = _Error.of(curves["auto"], at).size if "auto" in curves.by_name else math.inf
    gets_back = auto < amci.size / ALIKE
    if gets_back:
        text += f" Sharing samples brings AMCI to {_percent(auto)}."
    return Headline(text, level, found.reason, shares=gets_back)


def _measured(curves: ErrorCurves, at: int) -> str:
    """How wrong it is, as far as the runs show it."""
    own = _Error.of(curves["amci"], at)
    if not math.isfinite(own.size):
        return "Its draws miss part of the integral."
    return f"In {curves.runs:,} runs it was {_off(own)}."


def _off(error: _Error) -> str:
    return f"{'' if error.settled else 'typically '}off by {_percent(error.size)}"


def _best(name: str, error: float) -> str:
    least = "at least " if name == "bound" else ""
    return f"the best self-normalised sampler by {least}{_percent(error)}"


def _percent(error: float) -> str:
    if error < EXACT:
        return "nothing but rounding"
    if error >= 10:
        return f"a factor of {number(error, 2)}"
    return f"{number(100 * error, 2)} %"


def _times(ratio: float) -> str:
    """How many times less, to one digit: nobody remembers more."""
    if ratio < 10:
        return f"{ratio:.1f} times"
    power = math.floor(math.log10(ratio))
    rounded = round(ratio / 10**power) * 10**power
    for size, name in ((10**9, "billion"), (10**6, "million")):
        if size <= rounded < 1000 * size:
            count = f"{rounded / size:,.0f}"
            return f"{'a' if count == '1' else count} {name} times"
    return f"{rounded:,.0f} times" if rounded < 10**6 else f"{number(float(rounded), 1)} times"
