r"""The page's headline: what AMCI is worth at this case, in one sentence, from its numbers."""

from __future__ import annotations

__all__ = [
    "EXACT",
    "RELIABLE",
    "TYPICALLY",
    "Compared",
    "Error",
    "Headline",
    "awaited",
    "compare",
    "headline",
    "how_typical",
    "position",
]

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from amci_core.diagnostics.verdict import LEVELS
from amci_core.evaluation import Curve, ErrorCurves
from amci_explorer.numbers.summary import Summary
from amci_explorer.numbers.typical import DRAWS, LEAST
from amci_explorer.plots.colours import ESTIMATORS, PLAIN
from amci_explorer.text import number

RELIABLE, MORE_DRAWS, NO_TRUST = LEVELS
# Errors of the same size, as far as a reader cares.
ALIKE = 1.5
# Below this relative error an estimate is exact to rounding.
EXACT = 1e-11
# An error above this makes an estimate useless, whatever its draws say of it.
USELESS = 0.5
# Below this mismatch, in nats, f is nearly the same everywhere.
NOTHING_TO_GAIN = 0.1
# How an error is known; and the effective number of errors from which on a mean that the runs do
# not determine is told: it is then right to a third or so.
ABOUT, TYPICALLY, ROUGH = "about", "typically", 8
# How the sentence names an estimator, where its label in pictures would not say enough.
NAMES = {
    "snis-q1": "SNIS from q₁",
    "snis-q2": "SNIS from q₂",
    "snis-qm": "SNIS from the mixture qₘ",
    "snis-qm-stratified": "SNIS from the same draws",
}
MARKS = {"AMCI": "amci"}
# Draws from which on the bound, which is asymptotic, is told.
BOUND_FROM = 10


@dataclass(frozen=True)
class Headline:
    """What stands in large type, and below it.

    Arguments:
        text: A sentence or two.
        level: One of `LEVELS`, whose colour it has; empty where nothing is judged.
        reason: Why that level, in a sentence.
        bound: The bound on self-normalized samplers, in a sentence; or nothing.
        marks: Words of the text that have the colour of a curve, and that curve's estimator.
    """

    text: str
    level: str = ""
    reason: str = ""
    bound: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Compared:
    """Relative errors at one number of draws, all of one kind.

    Arguments:
        amci: AMCI's.
        control: AMCI's with control variates.
        rival: The best of the estimators that it is compared with; empty where there is none.
        rivals: Their errors.
        bound: The bound on self-normalized samplers, a root mean square; NaN without one.
    """

    amci: Error
    control: Error | None
    rival: str
    rivals: Mapping[str, Error]
    bound: float


@dataclass(frozen=True)
class Error:
    """A relative error of an estimator over the runs.

    Arguments:
        size: The root mean square, or the root of the median.
        noise: Standard error of the square of that.
        how: How it is known: empty for a mean that the runs determine, `ABOUT` for one that they
            do not, `TYPICALLY` for a median.
    """

    size: float
    noise: float
    how: str = ""

    @classmethod
    def mean(cls, curve: Curve, at: int) -> Error | None:
        """The root mean square, if there are runs enough for one."""
        root, noise = math.sqrt(curve.mean[at]), float(curve.mean_error[at])
        if curve.determined[at]:
            return cls(root, noise)
        return cls(root, noise, ABOUT) if curve.effective[at] >= ROUGH else None

    @classmethod
    def median(cls, curve: Curve, at: int, runs: int) -> Error:
        low, median, high = (float(quartile[at]) for quartile in curve.quartiles)
        # As for a normal distribution; for squares of one it is a tenth less.
        noise = math.sqrt(math.pi / 2 / runs) * (high - low) / 1.35
        return cls(math.sqrt(median), noise, TYPICALLY)

    def differs(self, other: Error) -> bool:
        """Whether two errors differ by more than the noise of the runs."""
        return abs(self.size**2 - other.size**2) > 2 * math.hypot(self.noise, other.noise)

    def __str__(self) -> str:
        return f"{ABOUT} {_percent(self.size)}" if self.how == ABOUT else _percent(self.size)


def awaited(log_truth: float, about_truth: str) -> Headline:
    """What is known before a single draw: mu.

    Arguments:
        log_truth: log|mu|, NaN where it is not known.
        about_truth: What mu is, in words.
    """
    if math.isnan(log_truth):
        return Headline("Measuring the errors …")
    said = about_truth[:1].upper() + about_truth[1:]
    value = number(math.exp(log_truth), 3)
    if any(character.isdigit() for character in said):
        return Headline(f"{said}. Measuring the errors …")
    return Headline(f"{said or 'μ'} is {value} here. Measuring the errors …")


def headline(found: Summary, curves: ErrorCurves) -> Headline:
    """The sentence for a case whose figures and complete error curves are there."""
    at = position(curves, found.total)
    if found.verdict == NO_TRUST:
        text = f"Do not trust AMCI here. {_measured(curves, at)}"
        return Headline(text, NO_TRUST, found.reason, marks=MARKS)
    if np.isnan(curves.truth_error):
        text = "μ is 0 here, so the relative error is undefined: choose MSE below."
        return Headline(text, found.verdict, found.reason)
    errors = compare(curves, at)
    useless = errors.amci.size > USELESS and found.verdict == RELIABLE
    level, reason = MORE_DRAWS if useless else found.verdict, found.reason
    if not math.isfinite(errors.amci.size):
        return Headline("These runs do not determine the errors.", MORE_DRAWS, reason)
    small = "There is little mismatch here. " if found.level.value < NOTHING_TO_GAIN else ""
    text, marks = f"With {curves.budgets[at]:,} draws AMCI {_errs(errors)}", dict(MARKS)
    if errors.rival:
        label = NAMES.get(errors.rival, ESTIMATORS[errors.rival].label)
        text += f", {label} by {errors.rivals[errors.rival]}"
        marks[label] = errors.rival
        if errors.rivals[errors.rival].size > ALIKE * errors.amci.size:
            small = ""
    return Headline(f"{small}{text}.", level, reason, about_bound(errors), marks)


def position(curves: ErrorCurves, total: int) -> int:
    """Which of the curves' numbers of draws is that of a run."""
    return int(np.searchsorted(curves.budgets, min(total, int(curves.budgets[-1]))))


def compare(curves: ErrorCurves, at: int) -> Compared:
    """Errors of one kind: AMCI's, those of self-normalized samplers, AMCI's with control variates.

    Root mean squares where there are runs enough for AMCI's and that of whoever may have the
    least, else medians. Who gives one answer in nearly all runs, as SNIS with a q1 that is never
    below the threshold, does not estimate: its error says how far that answer is from the truth.

    Arguments:
        curves: Complete error curves.
        at: Which of their numbers of draws.
    """
    # Where E2 is known nobody self-normalizes.
    plain = [each for each in curves.by_name if each in PLAIN]
    names = plain or [each for each in curves.by_name if each.startswith("snis-")]
    found = {name: curves[name] for name in names if _estimates(curves[name], at)}
    medians = {name: Error.median(curve, at, curves.runs) for name, curve in found.items()}
    means = {name: Error.mean(curve, at) for name, curve in found.items()}
    errors = {name: each for name, each in means.items() if each is not None}
    amci, control = (Error.mean(curves[name], at) for name in ("amci", "amci-cv"))
    least = min((error.size for error in errors.values()), default=math.inf)
    if amci is None or any(medians[n].size < least for n in found.keys() - errors.keys()):
        amci, control = (Error.median(curves[n], at, curves.runs) for n in ("amci", "amci-cv"))
        errors = medians
    rivals = {name: each for name, each in errors.items() if math.isfinite(each.size)}
    known = "bound" in curves.by_name and curves.budgets[at] >= BOUND_FROM and not plain
    bound = math.sqrt(float(curves["bound"].mean[at])) if known else math.nan
    best = min(rivals, key=lambda each: rivals[each].size, default="")
    return Compared(amci, control, best, rivals, bound)


def _estimates(curve: Curve, at: int) -> bool:
    """Whether its answer differs from run to run, or is right."""
    low, median, high = (float(quartile[at]) for quartile in curve.quartiles)
    varies = high > low or not math.isclose(float(curve.mean[at]), median, rel_tol=1e-6)
    return varies or math.sqrt(median) < EXACT


def about_bound(errors: Compared) -> str:
    """The bound on SNIS in a sentence; empty where it is not known, and for a few draws.

    Nor is it given where E2 is known, since there nobody self-normalizes.
    """
    if not math.isfinite(errors.bound):
        return ""
    least = _percent(errors.bound)
    return f"Asymptotic bound for SNIS with independent draws from one proposal: {least}."


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
    errors = compare(curves, at)
    if not math.isfinite(errors.amci.size):
        return "Its draws miss part of the integral."
    return f"In {curves.runs:,} runs with {curves.budgets[at]:,} draws it {_errs(errors)}."


def _errs(errors: Compared) -> str:
    """AMCI's error, and that with control variates where it is another one."""
    amci, control = errors.amci, errors.control
    if amci.size < EXACT:
        return "is exact (Theorem 1)"
    other = f" (with control variates {control})" if control and amci.differs(control) else ""
    return f"{'typically ' if amci.how == TYPICALLY else ''}errs by {amci}{other}"


def _percent(error: float) -> str:
    if error < EXACT:
        return "nothing but rounding"
    if error >= 10:
        return f"a factor of {number(error, 2)}"
    return f"{number(100 * error, 2)} %"
