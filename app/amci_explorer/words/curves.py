r"""What error curves say, in words."""

from __future__ import annotations

__all__ = ["CEILING", "FLOOR", "about_curves", "about_reference", "outside"]

import numpy as np

from amci_core.evaluation import ErrorCurves
from amci_core.evaluation.runs import Truth
from amci_explorer.plots.colours import ESTIMATORS
from amci_explorer.plots.errors import CEILING, FLOOR
from amci_explorer.text import number


def about_curves(found: ErrorCurves) -> str:
    """The text alternative of the complete curves."""
    ends = {name: float(c.remse_median[-1]) for name, c in found.by_name.items()}
    told = ", ".join(
        f"{ESTIMATORS[name].label} {'not known' if np.isnan(end) else number(end, 2)}"
        for name, end in ends.items()
    )
    return f"Median relative squared error at {found.budgets[-1]:,} total draws: {told}."


def about_reference(truth: Truth) -> str:
    """What errors are measured against, if mu is a reference value with a standard error."""
    if not truth.given or not truth.error > 0:
        return ""
    value = number(float(truth.sign * truth.unit), 4)
    return (
        f"μ is not known: errors are measured against a reference value, {value} with standard "
        f"error {number(float(truth.standard_error), 2)}."
    )


def outside(found: ErrorCurves, *, complete: bool, scale: float = 1.0) -> str:
    """What the picture cannot show: curves off the scale, failed runs, what is not determined.

    Arguments:
        found: The curves.
        complete: Whether all runs are there.
        scale: The unit of the picture's errors, in units of squared mu.
    """
    notes = [about_reference(next(iter(found.by_name.values())).truth)]
    if np.isnan(found.truth_error):
        notes.append("μ is 0 here, so the relative error is undefined: choose MSE.")
    if np.isnan(scale):
        notes.append("μ² is too small a number here to draw errors in its unit: choose ReMSE.")
    for name, curve in found.by_name.items():
        label, median = ESTIMATORS[name].label, curve.quartiles[1]
        if curve.failed.any():
            failed = number(float(curve.failed.max()), 6)
            notes.append(f"{label} failed in {failed} of {found.runs:,} runs.")
        exact = name != "bound" and (np.nan_to_num(median) < FLOOR).all()
        if np.isnan(median).all():
            continue
        if np.nanmin(median) > CEILING:
            middle = number(float(median[len(median) // 2]) * scale, 2)
            notes.append(f"{label} is off the scale ({middle}).")
        elif exact:
            notes.append(f"{label} is exact up to rounding.")
    if any(curve.reference_limited.any() for curve in found.by_name.values()):
        notes.append("μ is not known well enough for the smallest errors.")
    return " ".join(filter(None, notes))
