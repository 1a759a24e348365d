r"""Draws of a problem's samplers, and the ranges that it declares for them."""

from __future__ import annotations

__all__ = ["Drawn", "check_ranges"]

import math
from typing import Any, cast

import torch
from torch import Tensor

from amci_core.checking.findings import Notes
from amci_core.models import Problem, Variable

# The share of draws of y that may lie outside its range, and of those outside what is shown.
OUTSIDE, UNSHOWN = 0.01, 0.5
# Draws that cover less of what is shown than this share are in another unit, it seems.
NARROW = 0.01
# The smallest eigenvalue of a correlation matrix that draws in float32 tell from zero.
DEGENERATE = 1e-12


class Drawn:
    """C cases and n points of the prior for each, in float64.

    Attributes:
        x: (C, n, D).
        y: (C, D_y), finite, within the range that is declared.
        theta: (C, D_theta), or None.
        raw_x, raw_y, raw_theta: As the samplers gave them, (C n, D) each; None for those of a
            sampler that has an error.
    """

    def __init__(self, problem: Problem, cases: int, points: int, notes: Notes) -> None:
        generator = torch.Generator().manual_seed(1)
        self.raw_x = problem.sample_prior(cases * points, generator)
        self.x = self.raw_x.double().reshape(cases, points, -1)
        self.raw_y = self.raw_theta = self.theta = None
        self.y = self.x.new_zeros(cases, 0)
        if problem.y is not None:
            self.raw_y = _drawn(notes, "sample_likelihood", problem, self.raw_x, generator)
            self.y = self.x.new_full((cases, problem.y.dim), math.nan)
        if self.raw_y is not None and problem.y is not None:
            y = self.raw_y.double()
            self.y = problem.y.nearest(y[:: max(len(y) // cases, 1)][:cases])
        if problem.theta is not None:
            n = cases * points
            self.raw_theta = _drawn(notes, "sample_theta", problem, n, generator)
        if self.raw_theta is not None:
            self.theta = self.raw_theta[:cases].double()

    @property
    def wide_theta(self) -> Tensor | None:
        """theta as f takes it, (C, 1, D_theta)."""
        return None if self.theta is None else self.theta[:, None]


def _drawn(notes: Notes, method: str, problem: Problem, *arguments: Any) -> Tensor | None:
    """What a sampler gives; None where it has an error."""
    if notes.failed(method):
        return None
    return cast(Tensor | None, notes.value(method, getattr(problem, method), *arguments))


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
        if variable is problem.x:
            _check_discrete(points, notes)
            _check_degenerate(points, notes)
        else:
            _check_shown(variable, points, method, notes)


def _check_discrete(x: Tensor, notes: Notes) -> None:
    """Notes a coordinate of draws (n, D) that is whole or repeats values: it has no density."""
    for at, column in enumerate(x.T):
        values, largest = column.unique(), float(column.abs().max())
        # Beyond 2^22 float32 has few numbers but whole ones; its steps are below 1e-6 of them.
        whole = largest < 2**22 and bool((column == column.round()).all())
        few = len(values) < len(column) / 2 and float(values.diff().median()) > 1e-6 * largest
        if len(values) > 1 and (whole or few):
            examples = " and ".join(f"{float(v):g}" for v in column[:2])
            notes.error(
                "x",
                f"its coordinate {at} is discrete: {len(column):,} draws of sample_prior take "
                f"{len(values):,} values, such as {examples}, where proposals need a density; let "
                "x be continuous, or sum over that coordinate in log_likelihood",
            )
            return


def _check_degenerate(x: Tensor, notes: Notes) -> None:
    """Notes draws (n, D) that lie in a plane, where they have no density in D dimensions."""
    n, dim = x.shape
    if dim == 1 or n <= dim:
        return
    spread = x.std(0)
    if (spread == 0).any():
        at = int((spread == 0).int().argmax())
        notes.error("x", f"its coordinate {at} is the same in every draw; leave it out")
        return
    if float(torch.linalg.eigvalsh(torch.corrcoef(x.T))[0]) > DEGENERATE:
        return
    total = x.sum(-1)
    if float(total.std()) < DEGENERATE**0.5 * float(spread.sum()):
        notes.error(
            "x",
            f"a simplex: its {dim} coordinates sum to {float(total.mean()):.6g} in every draw, "
            f"and have no density in {dim} dimensions; let x be the first {dim - 1}, and the last "
            f"one {float(total.mean()):.6g} minus their sum",
        )
    else:
        notes.error(
            "x",
            f"its {dim} coordinates determine one another in every draw, and have no density in "
            f"{dim} dimensions; leave out one that follows from the others",
        )


def _check_shown(variable: Variable, points: Tensor, method: str, notes: Notes) -> None:
    low, high = variable.typical_range
    if not math.isfinite(high - low):
        a, b = torch.quantile(points.flatten()[:100_000], torch.tensor([0.001, 0.999]).double())
        notes.warning(
            variable.name,
            "its range has no end, and networks, maps and controls need one; give it a "
            f"typical_range=({float(a):.3g}, {float(b):.3g})",
        )
        return
    inside = ((points >= low) & (points <= high)).all(-1)
    share = float(inside.double().mean())
    if share < UNSHOWN:
        notes.warning(
            variable.name,
            f"only {share:.0%} of the draws of {method} lie within its typical range "
            f"[{low:g}, {high:g}]; widen typical_range, or mend the unit of either",
        )
        return
    spread = torch.quantile(points[:100_000], torch.tensor([0.005, 0.995]).double(), dim=0)
    width = float((spread[1] - spread[0]).max())
    if width < NARROW * (high - low):
        notes.warning(
            variable.name,
            f"the draws of {method} cover {width:.3g} of its typical range of {high - low:.3g}; "
            "narrow typical_range, or mend the unit of either",
        )
