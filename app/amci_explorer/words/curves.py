r"""What error curves say, in words."""

from __future__ import annotations

__all__ = [
    *("CEILING", "EXACT", "FLOOR", "NAMES"),
    *("about_curves", "about_reference", "first", "is_constant", "outside"),
    *("plain_name", "position", "value"),
]

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import Array
from amci_core.evaluation import ErrorCurves, runs_by_draws
from amci_core.evaluation.runs import Truth, is_determined, least_effective
from amci_explorer.text import number

# Relative squared errors below are drawn there, those above leave the picture: 1e-18 is what
# rounding leaves of an exact estimate, and then some.
FLOOR, CEILING = 1e-18, 1e3
# Below this relative error an estimate is exact to rounding.
EXACT = 1e-11
# The effective number of errors from which on an undetermined mean is shown, as "about" and one
# digit: rare runs make it, and it is right within a factor of two or so.
ROUGH = 8
# The lines that are always there: draws that match the posterior, the bound, what stands between,
# AMCI. Each is the first of these that has a curve.
FIRST = (
    ("snis-q2", "prior"),
    ("bound",),
    ("snis-qm-stratified", "reference"),
    ("amci-cv", "amci"),
)
# What each is, where its line ends.
NAMES = {
    "snis-q2": "posterior draws\n(SNIS q₂)",
    "prior": "draws from\nthe prior",
    "bound": "the best any one\nproposal can do",
    "snis-qm-stratified": "both, pooled\nas a mixture",
    "reference": "draws from\nthe reference",
    "amci-cv": "AMCI, with\ncontrol variates",
    "amci": "AMCI",
    "snis-qm": "both, pooled\nat random",
    "snis-q1": "q₁ alone\n(SNIS q₁)",
}


def first(found: ErrorCurves) -> tuple[str, ...]:
    """The estimators whose lines are always shown, from posterior draws to AMCI."""
    present = [[name for name in names if name in found.by_name] for names in FIRST]
    return tuple(names[0] for names in present if names)


def plain_name(name: str, proposals: int = 2) -> str:
    """What an estimator is, in one or two lines; `proposals` are how many share its draws."""
    return NAMES[name].replace("both", "both" if proposals == 2 else "all")


def position(found: ErrorCurves, total: int) -> int:
    """Which of the curves' numbers of draws is that of an estimate."""
    return int(np.searchsorted(found.draws, min(total, int(found.draws[-1]))))


def is_constant(errors: Array) -> NDArray[np.bool_]:
    """Whether all runs (R, *) erred by the same: a rare one may then carry all of the error."""
    return np.asarray((np.abs(errors).max(axis=0) > EXACT) & (np.ptp(errors, axis=0) == 0))


def value(
    found: ErrorCurves, name: str, at: int, measure: str = "percent", *, complete: bool = True
) -> str:
    """An estimator's error at one number of draws, with the digits that the runs determine.

    Arguments:
        found: Error curves.
        name: The estimator.
        at: Which of their numbers of draws.
        measure: "percent", "ReMSE" or "MSE".
        complete: Whether the curves get no further runs.
    """
    curve = found[name]
    errors = curve.errors[..., at]
    errors = errors[np.isfinite(errors)]
    if not errors.size:
        return "too few draws"
    if not curve.known and is_constant(errors):
        return "all estimates 0" if errors[0] == -1 else "all runs alike"
    wanted = runs_by_draws(found.runs_wanted, found.draws)[at]
    least = least_effective(max(wanted, curve.runs[at]))
    sure, rough = (
        curve.known or bool(is_determined(curve.mean[at], curve.effective[at], enough))
        for enough in (least, ROUGH)
    )
    if not rough:
        return "too few runs to say" if complete else "…"
    squared = curve.mse[at] if measure == "MSE" else curve.remse[at]
    if curve.mean[at] < EXACT**2:
        return "exact"
    digits = 2 if sure else 1
    text = number(squared, digits) if measure != "percent" else _percent(squared**0.5, digits)
    return text if sure else f"about {text}"


def about_curves(found: ErrorCurves, total: int, proposals: int = 2) -> str:
    """The text alternative of the curves: errors at a number of draws."""
    at = position(found, total)
    told = ", ".join(
        f"{_line(name, proposals)} {value(found, name, at)}" for name in found.by_name
    )
    runs = max(curve.runs[at] for curve in found.by_name.values())
    return f"Relative error over {runs:,} runs with {found.draws[at]:,} draws: {told}."


def about_reference(truth: Truth) -> str:
    """What errors are measured against, if mu is a reference value with a standard error."""
    if not truth.given or not truth.error > 0:
        return ""
    return (
        f"μ is not known: errors are measured against a reference value, "
        f"{number(float(truth.value), 4)} with standard error "
        f"{number(float(truth.standard_error), 2)}."
    )


def outside(found: ErrorCurves, shown: tuple[str, ...]) -> str:
    """What the picture cannot show of some lines: those off the scale, failed runs."""
    notes = [about_reference(next(iter(found.by_name.values())).truth)]
    if np.isnan(found.truth_error):
        notes.append("μ is 0 here, so the relative error is undefined: choose MSE.")
    for name in shown:
        curve, label = found[name], _line(name)
        if curve.failed.any():
            at = int(np.argmax(curve.failed / np.maximum(curve.runs, 1)))
            failed = f"{curve.failed[at]:,} of {curve.runs[at]:,} runs"
            notes.append(f"{label} failed in {failed} at {found.draws[at]:,} draws.")
        if (curve.mean > CEILING).all():
            factor = float(f"{curve.mean[len(curve.mean) // 2] ** 0.5:.1g}")
            notes.append(f"{label} is wrong by a factor of {factor:,.0f}.")
    if any(found[name].reference_limited.any() for name in shown):
        notes.append("μ is not known well enough for the smallest errors.")
    return " ".join(filter(None, notes))


def _line(name: str, proposals: int = 2) -> str:
    return plain_name(name, proposals).replace("\n", " ")


def _percent(error: float, digits: int) -> str:
    rounded = float(f"{100 * error:.{digits}g}")
    if rounded >= 10:
        return f"{rounded:,.0f} %"
    if rounded >= 1e-4:
        return f"{np.format_float_positional(rounded, trim='-')} %"
    return f"{number(rounded, digits)} %"
