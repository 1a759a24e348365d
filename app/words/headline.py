r"""The page's headline: what AMCI is worth at this case, in one sentence, from its numbers."""

from __future__ import annotations

__all__ = ["Headline", "awaited", "headline", "how_typical"]

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from amci_core.diagnostics.verdict import LEVELS
from amci_core.errors import Curve, ErrorCurves
from app.colours import ESTIMATORS
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
# Draws from which on the asymptotic bound is told.
BOUND_FROM = 10
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
    """A relative error of an estimator: the root mean square over the runs, or the median."""

    size: float
    mean: bool

    @classmethod
    def of(cls, curve: Curve, at: int, *, mean: bool) -> _Error:
        squared = curve.squared.mean if mean else curve.squared.quartiles[1]
        return cls(math.sqrt(float(squared[at])), mean)

    @classmethod
    def best(cls, curve: Curve, at: int) -> _Error:
        """The root mean square where the runs determine it."""
        return cls.of(curve, at, mean=bool(curve.mean_judged[at]))


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
    amci = _Error.best(curves["amci"], at)
    useless = amci.size > USELESS and found.verdict == RELIABLE
    level, reason = MORE_DRAWS if useless else found.verdict, found.reason
    if not math.isfinite(amci.size):
        return Headline("These runs do not determine the errors.", MORE_DRAWS, reason)
    if not amci.mean:
        reason = f"{reason}. {UNSETTLED}"
    # Only what is of one kind is compared: means with means and the bound, medians with medians.
    rivals = _rivals(curves, at, mean=amci.mean)
    name = min(rivals, key=lambda each: rivals[each].size, default="")
    rival = rivals[name].size if name else math.inf
    bound = _bound(curves, at) if amci.mean else math.inf
    least, own = min(bound, rival), f"AMCI is {_off(amci)}"
    best = f"the best self-normalised sampler by {'at least ' if least == bound else ''}"
    best += _percent(least)
    if math.isinf(least):
        return Headline(f"{draws}: {own}.", level, reason)
    if amci.size < EXACT:
        return Headline(f"{draws}: AMCI is exact (Theorem 1), {best}.", level, reason)
    if least > ALIKE * amci.size:
        times = f"That is {_times((least / amci.size) ** 2)} less squared error."
        text = f"{draws}: {own}, {best}. {times}"
        if not amci.mean:
            text = f"{draws}: {own}, {ESTIMATORS[name].label} {_by(rivals[name])}."
        return Headline(text, level, reason)
    lost = _lost(curves, at)
    small = "There is little mismatch here. " if found.level.value < NOTHING_TO_GAIN else ""
    if lost is not None:
        return Headline(f"{small}{draws}: {lost[0]}.", level, reason, shares=lost[1])
    limit = f"; the least of any self-normalised sampler is {_percent(bound)}"
    limit = limit if math.isfinite(bound) else ""
    if not name:
        return Headline(f"{small}{draws}: {own}{limit}.", level, reason)
    text = f"{small}{draws}: {own}, {ESTIMATORS[name].label} {_by(rivals[name])}{limit}."
    return Headline(text, level, reason)


def _lost(curves: ErrorCurves, at: int) -> tuple[str, bool] | None:
    """That AMCI loses to another, in words, and whether it gains by sharing; None: it does not.

    By root mean squares where the runs determine those of all that are named, else by medians.
    """
    told = None
    for mean in (True, False):
        if mean and not curves["amci"].mean_judged[at]:
            continue
        amci, rivals = _Error.of(curves["amci"], at, mean=mean), _rivals(curves, at, mean=mean)
        name = min(rivals, key=lambda each: rivals[each].size, default="")
        if not name or amci.size <= ALIKE * rivals[name].size:
            continue
        text = f"AMCI is {_off(amci)}, {ESTIMATORS[name].label} {_by(rivals[name])}"
        auto = _rivals(curves, at, mean=mean, names=("auto",)).get("auto")
        if auto is not None and ALIKE * auto.size < amci.size:
            return f"{text}; with shared samples AMCI {_by(auto)}", True
        told = told or (text, False)
        if auto is not None or "auto" not in curves.by_name:
            break
    return told


def _rivals(
    curves: ErrorCurves, at: int, *, mean: bool, names: Sequence[str] = ()
) -> dict[str, _Error]:
    """Errors of that kind which the runs determine, of these or of all self-normalised samplers.

    Who gives one answer in nearly all runs, as SNIS with a q1 that is never below the threshold,
    does not estimate: its error says how far that answer is from the truth.
    """
    wanted = names or [each for each in curves.by_name if each.startswith("snis-")]
    found = {}
    for name in [each for each in wanted if each in curves.by_name]:
        curve = curves[name]
        low, median, high = (float(quartile[at]) for quartile in curve.squared.quartiles)
        error = _Error.of(curve, at, mean=mean)
        judged = bool(curve.mean_judged[at]) or not mean
        varies = high > low or (mean and not math.isclose(error.size**2, median, rel_tol=1e-6))
        if judged and (varies or error.size < EXACT) and math.isfinite(error.size):
            found[name] = error
    return found


def _bound(curves: ErrorCurves, at: int) -> float:
    """The bound on self-normalised sampling; not for a few draws, since it is asymptotic."""
    if "bound" not in curves.by_name or curves.budgets[at] < BOUND_FROM:
        return math.inf
    size = math.sqrt(float(curves["bound"].squared.mean[at]))
    return size if math.isfinite(size) else math.inf


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
    own = _Error.best(curves["amci"], at)
    if not math.isfinite(own.size):
        return "Its draws miss part of the integral."
    return f"In {curves.runs:,} runs it was {_off(own)}."


def _off(error: _Error) -> str:
    return f"{'' if error.mean else 'typically '}off by {_percent(error.size)}"


def _by(error: _Error) -> str:
    return f"{'' if error.mean else 'typically '}by {_percent(error.size)}"


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
