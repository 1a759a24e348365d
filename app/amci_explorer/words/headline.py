r"""The page's headline: what AMCI is worth at this case, in one sentence, from its numbers."""

from __future__ import annotations

__all__ = [
    "EXACT",
    "RELIABLE",
    "Headline",
    "compare",
    "headline",
    "how_typical",
    "position",
    "stands",
]

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from amci_core.diagnostics.verdict import LEVELS
from amci_core.evaluation import ErrorCurves, runs_by_draws
from amci_core.evaluation.runs import is_determined, least_effective
from amci_explorer.colours import ESTIMATORS, PLAIN
from amci_explorer.numbers.known import Facts
from amci_explorer.numbers.summary import Summary
from amci_explorer.text import duration, number, percent

RELIABLE, MORE_DRAWS, NO_TRUST = LEVELS
# Below this relative error an estimate is exact to rounding.
EXACT = 1e-11
# An error above this makes an estimate useless, with any verdict.
USELESS = 0.5
# Below this mismatch, in nats, f is nearly the same everywhere.
NOTHING_TO_GAIN = 0.1
# How the sentence names an estimator, where its label in pictures would not say enough.
NAMES = {
    "snis-q1": "SNIS from q₁",
    "snis-q2": "SNIS from q₂",
    "snis-qm": "SNIS from the mixture qₘ",
    "snis-qm-stratified": "SNIS from the same draws",
}
# The effective number of errors from which on an undetermined mean is shown, as
# "about" and one digit: rare runs make it, and it is right within a factor of two or so.
ROUGH = 8
# The runs from which on the headline gives errors, before all are there.
ENOUGH = 250
# Draws from which on the bound, which is asymptotic, is shown.
BOUND_FROM = 10


@dataclass(frozen=True)
class Headline:
    """What stands in large type, and below it.

    Arguments:
        text: A sentence or two.
        level: One of `LEVELS`, whose colour it has; empty where nothing is judged.
        reason: Why that level, in a sentence.
        note: What the errors are, the bound on self-normalized samplers, and the time of training.
        marks: Words of the text that have the colour of a curve, and that curve's estimator.
    """

    text: str
    level: str = ""
    reason: str = ""
    note: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Compared:
    """Root mean squared relative errors at one number of draws; NaN if the runs do not show one.

    Arguments:
        amci: AMCI's.
        control: AMCI's with control variates.
        rival: The best of the estimators that AMCI is compared with; empty if there is none.
        best: The rival's error.
        rough: Errors known to one digit.
    """

    amci: float = math.nan
    control: float = math.nan
    rival: str = ""
    best: float = math.nan
    rough: frozenset[str] = frozenset()


def headline(
    facts: Facts,
    found: Summary | None = None,
    curves: ErrorCurves | None = None,
    *,
    complete: bool = True,
) -> Headline:
    """The sentence for a case, from what is exact and what has been measured so far.

    Arguments:
        facts: What is known of the case.
        found: Its figures, once they are there.
        curves: Its error curves, once there are some.
        complete: Whether the curves get no further runs.
    """
    level, text, note = "", "", f"Errors are root mean squares.{_bound(facts)}"
    if found is not None:
        level = found.verdict
        if level == NO_TRUST:
            text = "Do not trust AMCI here. "
        elif found.level.value < NOTHING_TO_GAIN:
            text = "f barely changes the posterior here (small mismatch). "
        if not math.isnan(found.training):
            note += f" Training took {duration(found.training)}."
    reason = found.reason if found is not None else ""
    marks = {"AMCI": "amci"}
    if curves is not None:
        at = position(curves, facts.draws)
        if not (complete or stands(curves, at)):
            curves = None
        elif level == RELIABLE and not curves["amci"].mean[at] < USELESS**2:
            level = MORE_DRAWS
    errors = Compared() if curves is None else compare(curves, at)
    unknown = "an undetermined amount" if complete else "an amount not yet determined"
    if facts.log_mu == -math.inf or (curves is not None and np.isnan(curves.truth_error)):
        text = "μ is 0 here, so the relative error is undefined: choose MSE below."
    elif curves is not None and (errors.amci >= 0 or errors.control >= 0 or errors.best >= 0):
        text += f"With {curves.draws[at]:,} draws AMCI "
        if errors.amci < EXACT:
            text += "is exact (Theorem 1)"
        else:
            text += f"errs by {_error(errors.amci, unknown, about='amci' in errors.rough)}"
            if not math.isnan(errors.control):
                control = _error(errors.control, about="amci-cv" in errors.rough)
                text += f" (with control variates {control})"
        if errors.rival:
            label = NAMES.get(errors.rival, ESTIMATORS[errors.rival].label)
            best = _error(errors.best, unknown, about=errors.rival in errors.rough)
            text, marks = f"{text}, {label} by {best}", {**marks, label: errors.rival}
        text += "."
    elif curves is not None and complete:
        few = "a few of them make most of it. More runs or draws may help."
        text += f"Too few runs to estimate the errors: {few}"
    else:
        text += f"{_known(facts)}Measuring the errors …"
    return Headline(text, level, reason, note, marks)


def position(curves: ErrorCurves, total: int) -> int:
    """Which of the curves' numbers of draws is that of a run."""
    return int(np.searchsorted(curves.draws, min(total, int(curves.draws[-1]))))


def stands(curves: ErrorCurves, at: int) -> bool:
    """Whether the headline gives errors: from half the runs wanted, or 250, on.

    Arguments:
        curves: Error curves that grow.
        at: Which of their numbers of draws.
    """
    wanted = runs_by_draws(curves.runs_wanted, curves.draws)[at]
    return bool(curves["amci"].runs[at] >= min(wanted / 2, ENOUGH))


def compare(curves: ErrorCurves, at: int) -> Compared:
    """Errors of AMCI, with control variates too, and of the best self-normalized sampler.

    A sampler whose median is below the least error that the runs show may have the least itself.
    Who gives one answer in nearly all runs, as SNIS with a q1 that is never below the threshold,
    does not estimate: its error says how far that answer is from the truth.

    Arguments:
        curves: Error curves.
        at: Which of their numbers of draws.
    """
    found = {
        name: math.sqrt(curve.mean[at])
        if curve.known or is_determined(curve.mean[at], curve.effective[at], ROUGH)
        else math.nan
        for name, curve in curves.by_name.items()
    }
    quartiles = {n: [float(q[at]) for q in c.quartiles] for n, c in curves.by_name.items()}
    # If E2 is known, self-normalizing is pointless.
    plain = [name for name in found if name in PLAIN]
    rivals = [
        name
        for name in plain or found
        if name in (*PLAIN, *NAMES)
        and (quartiles[name][0] < quartiles[name][2] or quartiles[name][1] < EXACT**2)
    ]
    size = {n: found[n] if found[n] >= 0 else math.sqrt(quartiles[n][1]) for n in rivals}
    rival = min((n for n in size if size[n] < math.inf), key=lambda name: size[name], default="")
    # Errors of curves that grow have two digits once they are known as well as in the end.
    least = least_effective(runs_by_draws(curves.runs_wanted, curves.draws)[at])
    return Compared(
        amci=found["amci"],
        control=found["amci-cv"],
        rival=rival,
        best=found.get(rival, math.nan),
        rough=frozenset(
            name
            for name, curve in curves.by_name.items()
            if not is_determined(curve.mean[at], curve.effective[at], least)
        ),
    )


def how_typical(share: float) -> str:
    """How many observations are like this one, in a sentence; empty without an observation."""
    if math.isnan(share):
        return ""
    return f"{percent(share)} of all observations lie at least as far from the middle."


def _known(facts: Facts) -> str:
    if math.isnan(facts.mu) or facts.mu == 0:
        return ""
    text = f"μ is {number(facts.mu, 3)} here"
    if facts.draws * facts.reached >= 1:
        text += f": f is not zero at {number(facts.draws * facts.reached, 2)} of {facts.draws:,} "
        text += "posterior draws, on average"
    elif facts.reached > 0:
        sets = number(1 / -math.expm1(facts.draws * math.log1p(-facts.reached)), 2)
        text += f": of {sets} sets of {facts.draws:,} posterior draws one has a draw where f is "
        text += "not zero"
    return f"{text}. "


def _bound(facts: Facts) -> str:
    if math.isnan(facts.bound) or facts.draws < BOUND_FROM:
        return ""
    least = _error(facts.bound)
    return f" Asymptotic bound for SNIS with independent draws from one proposal: {least}."


def _error(error: float, unknown: str = "", *, about: bool = False) -> str:
    if math.isnan(error):
        return unknown
    if error < EXACT:
        return "floating-point rounding only"
    digits, hedge = (1, "about ") if about else (2, "")
    if error >= 10:
        return f"{hedge}a factor of {number(error, digits)}"
    return f"{hedge}{number(100 * error, digits)} %"
