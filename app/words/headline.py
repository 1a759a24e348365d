r"""The page's headline: what AMCI is worth at this case, in one sentence, from its numbers."""

from __future__ import annotations

__all__ = ["Headline", "awaited", "headline", "how_typical"]

import math
from dataclasses import dataclass

import numpy as np

from amci_core.diagnostics.verdict import LEVELS
from amci_core.errors import Curve, ErrorCurves
from app.colours import ESTIMATORS, PLAIN
from app.numbers.typical import DRAWS, LEAST
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
# Draws from which on the bound, which is asymptotic, is told.
BOUND_FROM = 10


@dataclass(frozen=True)
class Headline:
    """What stands in large type.

    Arguments:
        text: A sentence or two.
        level: One of `LEVELS`, whose colour it has; empty where nothing is judged.
        reason: Why that level, in a sentence.
        bound: The bound on self-normalised samplers, in a sentence; or nothing.
        shares: Whether sharing samples would help, so that the page offers to go there.
    """

    text: str
    level: str = ""
    reason: str = ""
    bound: str = ""
    shares: bool = False


@dataclass(frozen=True)
class _Error:
    """A relative error of an estimator: the root mean square over the runs, or the median."""

    size: float
    mean: bool

    @classmethod
    def of(cls, curve: Curve, at: int, *, mean: bool) -> _Error:
        squared = curve.squared.mean if mean else curve.squared.quartiles[1]
        return cls(math.sqrt(float(squared[at])), mean)


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
    amci, rivals, shared = _compared(curves, at)
    useless = amci.size > USELESS and found.verdict == RELIABLE
    level, reason = MORE_DRAWS if useless else found.verdict, found.reason
    if not math.isfinite(amci.size):
        return Headline("These runs do not determine the errors.", MORE_DRAWS, reason)
    bound = about_bound(curves, at)
    own = f"{draws}: AMCI is {'exact (Theorem 1)' if amci.size < EXACT else _off(amci)}"
    if not rivals:
        return Headline(f"{own}.", level, reason, bound)
    name = min(rivals, key=lambda each: rivals[each].size)
    rival, label = rivals[name], ESTIMATORS[name].label
    if rival.size > ALIKE * amci.size:
        if len(rivals) > 1 and name not in PLAIN:
            label = f"the best SNIS from the same proposals ({label.removeprefix('SNIS ')})"
        text = f"{own}, {label} by {_percent(rival.size)}."
        if amci.size >= EXACT:
            text += f" That is {_times((rival.size / amci.size) ** 2)} less squared error."
        return Headline(text, level, reason, bound)
    small = "There is little mismatch here. " if found.level.value < NOTHING_TO_GAIN else ""
    text = f"{small}{own}, {label} by {_percent(rival.size)}"
    shares = amci.size > ALIKE * max(rival.size, shared.size)
    if shares:
        text += f"; with shared samples AMCI by {_percent(shared.size)}"
    return Headline(f"{text}.", level, reason, bound, shares)


def _compared(curves: ErrorCurves, at: int) -> tuple[_Error, dict[str, _Error], _Error]:
    """Errors of one kind: AMCI's, those of self-normalised samplers, AMCI's with shared samples.

    Root mean squares where the runs determine AMCI's and that of whoever may have the least, else
    medians. Who gives one answer in nearly all runs, as SNIS with a q1 that is never below the
    threshold, does not estimate: its error says how far that answer is from the truth.
    """
    # Where E2 is known nobody self-normalises.
    names = [each for each in curves.by_name if each in PLAIN] or [
        each for each in curves.by_name if each.startswith("snis-") or each == "auto"
    ]
    found = {name: curves[name] for name in names if _estimates(curves[name], at)}
    mean = bool(curves["amci"].mean_judged[at])
    if mean:
        sizes = {n: _Error.of(c, at, mean=bool(c.mean_judged[at])) for n, c in found.items()}
        for group in (("auto",), [name for name in sizes if name != "auto"]):
            there = [sizes[name] for name in group if name in sizes]
            mean &= min(there, key=lambda each: each.size).mean if there else True
    errors = {
        name: _Error.of(curve, at, mean=mean)
        for name, curve in found.items()
        if not mean or curve.mean_judged[at]
    }
    amci = _Error.of(curves["amci"], at, mean=mean)
    shared = errors.pop("auto", _Error(math.inf, mean))
    return amci, {name: each for name, each in errors.items() if math.isfinite(each.size)}, shared


def _estimates(curve: Curve, at: int) -> bool:
    """Whether its answer differs from run to run, or is right."""
    low, median, high = (float(quartile[at]) for quartile in curve.squared.quartiles)
    varies = high > low or not math.isclose(float(curve.squared.mean[at]), median, rel_tol=1e-6)
    return varies or math.sqrt(median) < EXACT


def about_bound(curves: ErrorCurves, at: int) -> str:
    """The bound on SNIS in its own words; empty where it is not known, and for a few draws.

    Nor is it given where E2 is known, since there nobody self-normalises.
    """
    if "bound" not in curves.by_name or curves.budgets[at] < BOUND_FROM:
        return ""
    if not PLAIN.keys().isdisjoint(curves.by_name):
        return ""
    bound = float(curves["bound"].squared.mean[at])
    if not math.isfinite(bound):
        return ""
    least = _percent(math.sqrt(bound))
    return f"With many independent draws from one proposal, no SNIS does better than {least}."


def how_typical(share: float) -> str:
    """How many observations are like this one, in a sentence; empty without an observation."""
    if math.isnan(share):
        return ""
    if share < LEAST / DRAWS:
        return f"Fewer than one observation in {DRAWS // LEAST:,} lies as far from the middle."
    if share > 0.2:
        what = "An observation near the middle" if share > 0.9 else "A typical observation"
        return f"{what}: {100 * share:.0f} % of all lie at least as far out."
    rare = float(f"{1 / share:.1g}")
    return f"About one observation in {rare:,.0f} lies as far from the middle."


def _measured(curves: ErrorCurves, at: int) -> str:
    """How wrong it is, as far as the runs show it."""
    own = _compared(curves, at)[0]
    if not math.isfinite(own.size):
        return "Its draws miss part of the integral."
    return f"In {curves.runs:,} runs it was {_off(own)}."


def _off(error: _Error) -> str:
    return f"{'' if error.mean else 'typically '}off by {_percent(error.size)}"


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
