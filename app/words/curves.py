r"""What error curves say, in words."""

from __future__ import annotations

__all__ = ["CEILING", "FLOOR", "about_curves", "outside"]

import numpy as np

from amci_core.errors import ErrorCurves
from app.colours import ESTIMATORS
from app.words.numbers import number

# Relative squared errors outside of these are drawn at the edge, and named below the picture:
# 1e-18 is what rounding leaves of an exact estimate, and then some.
FLOOR, CEILING = 1e-18, 1e3


def about_curves(found: ErrorCurves) -> str:
    """The text alternative of the complete curves."""
    ends = ", ".join(
        f"{ESTIMATORS[name].label} {number(float(curve.remse_median[-1]), 2)}"
        for name, curve in found.by_name.items()
    )
    return f"Median relative squared error at {found.budgets[-1]:,} draws in all: {ends}."


def outside(found: ErrorCurves, *, complete: bool) -> str:
    """What the picture cannot show: curves beyond its edges, runs that failed, what is open."""
    notes = []
    if np.isnan(found.truth_error):
        notes.append("μ is 0 here, so that there is no relative error: choose MSE.")
    for name, curve in found.by_name.items():
        label, median = ESTIMATORS[name].label, curve.remse_median
        if curve.failed.any():
            failed = number(float(curve.failed.max()), 6)
            notes.append(f"{label} failed in {failed} of {found.runs:,} runs.")
        if complete and not curve.median_judged[~np.isnan(curve.mse)].all():
            notes.append(f"{label}: the runs do not settle every median.")
        if np.isnan(median).all():
            continue
        if np.nanmin(median) > CEILING:
            middle = number(float(median[len(median) // 2]), 2)
            notes.append(f"{label} lies above the picture, at {middle}.")
        elif np.nanmax(median) < FLOOR and name != "bound":
            notes.append(f"{label} is exact to rounding.")
    if any(curve.truth_matters.any() for curve in found.by_name.values()):
        notes.append("The reference value is not known well enough for the smallest errors.")
    return " ".join(notes)
