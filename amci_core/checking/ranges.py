r"""Draws of a problem's samplers, and the ranges that it declares for them."""

from __future__ import annotations

__all__ = ["Drawn", "check_ranges"]

import math

import torch
from torch import Tensor

from amci_core.checking.findings import Notes
from amci_core.models import Problem, Variable

# The share of draws of y that may lie outside its range, and of those outside what is shown.
OUTSIDE, UNSHOWN = 0.01, 0.5
# Draws that cover less of what is shown than this share are in another unit, it seems.
NARROW = 0.01


class Drawn:
    """C cases and n points of the prior for each, in float64.

    Attributes:
        x: (C, n, D).
        y: (C, D_y), within the range that is declared.
        theta: (C, D_theta), or None.
        raw_x, raw_y, raw_theta: As the samplers gave them, (C n, D) each.
    """

    def __init__(self, problem: Problem, cases: int, points: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.raw_x = problem.sample_prior(cases * points, generator)
        self.x = self.raw_x.double().reshape(cases, points, -1)
        raw_y = problem.sample_likelihood(self.raw_x, generator)
        self.raw_y = raw_y
        y = raw_y[:: len(raw_y) // cases][:cases].double()
        self.y = y if problem.y is None else y.clamp(problem.y.low, problem.y.high)
        theta = problem.sample_theta(cases * points, generator)
        self.raw_theta = theta
        self.theta = None if theta is None else theta[:cases].double()

    @property
    def wide_theta(self) -> Tensor | None:
        """theta as f takes it, (C, 1, D_theta)."""
        return None if self.theta is None else self.theta[:, None]


def check_ranges(problem: Problem, drawn: Drawn, notes: Notes) -> None:
    """Notes draws outside what is declared, ranges without an end, and units that do not fit."""
    for variable, draws, method in (
        (problem.x, drawn.raw_x, "sample_prior"),
        (problem.y, drawn.raw_y, "sample_likelihood"),
        (problem.theta, drawn.raw_theta, "sample_theta"),
    ):
        if variable is None or draws is None:
            continue
        points = draws.double()
        if not points.isfinite().all():
            notes.error(method, "draws numbers that are NaN or infinite; mend it")
            continue
        # Draws in float32 may round to a little beyond the ends.
        slack = 1e-6 * points.abs().clamp(min=1.0)
        beyond = (points < variable.low - slack) | (points > variable.high + slack)
        share = float(beyond.any(-1).double().mean())
        ends = f"[{variable.low:g}, {variable.high:g}]"
        if variable is problem.y:
            if share > OUTSIDE:
                notes.warning(
                    "y", f"{share:.1%} of the draws of {method} lie outside its range {ends}, and "
                    "cases are moved to its ends; widen low and high"
                )  # fmt: skip
        elif share > 0:
            at = float(points[beyond][0])
            notes.error(
                variable.name, f"{method} draws {at:.4g}, outside the range {ends}; widen low and "
                f"high, or mend {method}"
            )  # fmt: skip
        if variable is not problem.x:
            _check_shown(variable, points, method, notes)


def _check_shown(variable: Variable, points: Tensor, method: str, notes: Notes) -> None:
    low, high = variable.usual_range
    if not math.isfinite(high - low):
        a, b = torch.quantile(points.flatten()[:100_000], torch.tensor([0.001, 0.999]).double())
        notes.warning(
            variable.name,
            "its range has no end, and networks, maps and controls need one; give its usual range "
            f"as shown=({float(a):.3g}, {float(b):.3g})",
        )
        return
    inside = ((points >= low) & (points <= high)).all(-1)
    share = float(inside.double().mean())
    if share < UNSHOWN:
        notes.warning(
            variable.name,
            f"only {share:.0%} of the draws of {method} lie within its usual range "
            f"[{low:g}, {high:g}]; widen shown, or mend the unit of either",
        )
        return
    spread = torch.quantile(points[:100_000], torch.tensor([0.005, 0.995]).double(), dim=0)
    width = float((spread[1] - spread[0]).max())
    if width < NARROW * (high - low):
        notes.warning(
            variable.name,
            f"the draws of {method} cover {width:.3g} of its usual range of {high - low:.3g}; "
            "narrow shown, or mend the unit of either",
        )
