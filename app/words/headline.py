r"""The page's headline: what AMCI is worth at this case, in one sentence, from its numbers."""

from __future__ import annotations

__all__ = ["Headline", "awaited", "headline", "how_typical"]

import math
from dataclasses import dataclass

import numpy as np

from amci_core.diagnostics.verdict import LEVELS
from amci_core.errors import Curve, ErrorCurves
from app.colours import ESTIMATORS
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
UNSETTLED = "The runs do not determine AMCI's mean error, so its median is given"


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
    median: float

    @classmethod
    def of(cls, curve: Curve, at: int) -> _Error:
        settled = bool(curve.mean_judged[at])
        median = math.sqrt(float(curve.squared.quartiles[1][at]))
        return cls(
            math.sqrt(float(curve.squared.mean[at])) if settled else median, settled, median
        )

    @property
    def as_median(self) -> _Error:
        """The same, by its median."""
        return _Error(self.median, False, self.median)


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
        text = "μ is 0 here, so the relative error is undefined: choose MSE below."
        return Headline(text, found.verdict, found.reason)
    amci = _Error.of(curves["amci"], at)
    measured = {n: _Error.of(c, at) for n, c in curves.by_name.items() if n.startswith("snis-")}
    measured = {name: each for name, each in measured.items() if math.isfinite(each.size)}
    if not math.isfinite(amci.size) or not measured:
        return Headline("These runs do not determine the errors.", MORE_DRAWS, found.reason)
    name = min(measured, key=lambda each: measured[each].size)
    rival = measured[name]
    bound = _Error.of(curves["bound"], at).size if "bound" in curves.by_name else math.inf
    # No self-normalised sampler is better than this, as far as runs and theory tell.
    least = min(bound, rival.size)
    best = (
        "the best self-normalised sampler by "
        f"{'at least ' if least == bound or not rival.settled else ''}{_percent(least)}"
    )
    own = f"AMCI is {_off(amci)}"
    useless = amci.size > USELESS and found.verdict == RELIABLE
    said = MORE_DRAWS if useless else found.verdict, found.reason
    if amci.size < EXACT:
        return Headline(f"{draws}: AMCI is exact (Theorem 1), {best}.", *said)
    if not amci.settled:
        said = said[0], f"{found.reason}. {UNSETTLED}"
    if least > ALIKE * amci.size:
        times = f" That is {_times((least / amci.size) ** 2)} less squared error."
        return Headline(f"{draws}: {own}, {best}.{times if amci.settled else ''}", *said)
    # A median beside a mean would say nothing.
    alike = amci.settled == rival.settled
    sizes = [each.size if alike else each.median for each in (amci, rival)]
    other = f"{ESTIMATORS[name].label} by {_percent(sizes[1])}"
    own = own if alike else f"AMCI is {_off(amci.as_median)}"
    if sizes[0] > ALIKE * sizes[1]:
        small = found.level.value < NOTHING_TO_GAIN
        why = "f hardly varies here. " if small else ""
        text = f"{why}{draws}: {own}, {other}"
        auto = _Error.of(curves["auto"], at) if "auto" in curves.by_name else None
        gets_back = auto is not None and auto.median < amci.median / ALIKE
        if auto is not None and gets_back:
            text += f"; with shared samples AMCI by {_percent(auto.median)}"
        return Headline(f"{text}.", *said, shares=gets_back)
    limit = f"; the least of any self-normalised sampler is {_percent(bound)}"
    return Headline(f"{draws}: {own}, {other}{limit if math.isfinite(bound) else ''}.", *said)


def how_typical(share: float) -> str:
    """How many observations are like this one, in a sentence; empty without an observation."""
    if math.isnan(share):
        return ""
    if share == 0:
        return f"Fewer than one observation in {DRAWS:,} lies as far out as this."
    if share > 0.2:
        return f"A typical observation: {100 * share:.0f} % of all lie at least as far out."
    return f"About one observation in {float(f'{1 / share:.1g}'):,.0f} lies as far out as this."


def _measured(curves: ErrorCurves, at: int) -> str:
    """How wrong it is, as far as the runs show it."""
    own = _Error.of(curves["amci"], at)
    if not math.isfinite(own.size):
        return "Its draws miss part of the integral."
    return f"In {curves.runs:,} runs it was {_off(own)}."


def _off(error: _Error) -> str:
    return f"{'' if error.settled else 'typically '}off by {_percent(error.size)}"


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
