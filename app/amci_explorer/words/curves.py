r"""What error curves say, in words."""

from __future__ import annotations

__all__ = ["about_curves", "about_reference", "outside"]

import numpy as np

from amci_core.evaluation import ErrorCurves
from amci_core.evaluation.runs import Truth
from amci_explorer.colours import ESTIMATORS
from amci_explorer.plots.errors import CEILING, FLOOR
from amci_explorer.text import number


def about_curves(found: ErrorCurves) -> str:
    """The text alternative of the curves."""
    ends = {name: float(c.remse[-1]) for name, c in found.by_name.items()}
    told = ", ".join(f"{ESTIMATORS[name].label} {number(end, 2)}" for name, end in ends.items())
    runs = f"{max(c.runs[-1] for c in found.by_name.values()):,} runs"
    return f"Mean relative squared error of {runs} at {found.draws[-1]:,} total draws: {told}."


def about_reference(truth: Truth) -> str:
    """What errors are measured against, if mu is a reference value with a standard error."""
    if not truth.given or not truth.error > 0:
        return ""
    value = number(float(truth.sign * truth.unit), 4)
    return (
        f"μ is not known: errors are measured against a reference value, {value} with standard "
        f"error {number(float(truth.standard_error), 2)}."
    )


def outside(found: ErrorCurves) -> str:
    """What the picture cannot show: curves off the scale, failed runs, what is not determined."""
    notes = [about_reference(next(iter(found.by_name.values())).truth)]
    if np.isnan(found.truth_error):
        notes.append("μ is 0 here, so the relative error is undefined: choose MSE.")
    for name, curve in found.by_name.items():
        label, mean = ESTIMATORS[name].label, curve.mean
        if curve.failed.any():
            at = int(np.argmax(curve.failed / np.maximum(curve.runs, 1)))
            failed = f"{curve.failed[at]:,} of {curve.runs[at]:,} runs"
            notes.append(f"{label} failed in {failed} at {found.draws[at]:,} total draws.")
        if (mean > CEILING).all():
            middle = number(float(mean[len(mean) // 2]), 2)
            notes.append(f"{label} is off the scale: its mean relative squared error is {middle}.")
        elif name != "bound" and (mean < FLOOR).all():
            notes.append(f"{label} is exact up to rounding.")
    if any(curve.reference_limited.any() for curve in found.by_name.values()):
        notes.append("μ is not known well enough for the smallest errors.")
    return " ".join(filter(None, notes))
