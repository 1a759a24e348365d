r"""A plane of cases (y, theta): its two axes, and the cases on it."""

from __future__ import annotations

__all__ = ["Axis", "axis_names", "default_plane", "kept_case", "moved_cases", "plane_axes"]

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.models import Problem, Variable


@dataclass(frozen=True)
class Axis:
    """One axis of a plane of cases.

    Arguments:
        variable: Which variable it moves, y or theta.
        coordinate: Which of its coordinates; None for all of them at once.
        values: Where the cases are, increasing, (n,).
    """

    variable: str
    coordinate: int | None
    values: Array

    @property
    def name(self) -> str:
        """As `amortization_map` takes it: y, or theta[1]."""
        return self.variable if self.coordinate is None else f"{self.variable}[{self.coordinate}]"


def default_plane(problem: Problem) -> tuple[str, str]:
    """The plane that is looked at first: (y, theta), or two coordinates of what there is."""
    if problem.y is not None and problem.theta is not None:
        return "y", "theta"
    only = "y" if problem.y is not None else "theta"
    return f"{only}[0]", f"{only}[1]"


def kept_case(problem: Problem, y: Any, theta: Any) -> tuple[Any, Any]:
    """y and theta as given; else those of a typical case."""
    typical = problem.typical_case()
    return typical[0] if y is None else y, typical[1] if theta is None else theta


def moved_cases(
    y: Tensor, theta: Tensor | None, values: list[tuple[Axis, Array]]
) -> tuple[Tensor, Tensor | None]:
    """y (cases, D_y) and theta (cases, D_theta), moved along both axes."""
    cases = len(values[0][1])
    at = {"y": y.repeat(cases, 1)}
    if theta is not None:
        at["theta"] = theta.repeat(cases, 1)
    for axis, value in values:
        moved = torch.as_tensor(value)
        if axis.coordinate is None:
            at[axis.variable][:] = moved[:, None]
        else:
            at[axis.variable][:, axis.coordinate] = moved
    return at["y"], at.get("theta")


def plane_axes(problem: Problem, along: Sequence[str], size: tuple[int, int]) -> tuple[Axis, Axis]:
    """The axes across and upwards, by their names.

    Raises:
        ValueError: they are not two axes of the problem, or a range has no end.
    """
    two = isinstance(along, Sequence) and not isinstance(along, str) and len(along) == 2
    if not two or along[0] == along[1]:
        raise ValueError(f"along: expected two axes, such as ('y', 'theta'), got {along!r}")
    across, upwards = (_axis(problem, name, n) for name, n in zip(along, size, strict=True))
    if across.variable == upwards.variable and None in (across.coordinate, upwards.coordinate):
        raise ValueError(f"along: {along[0]} and {along[1]} move the same coordinate")
    return across, upwards


def _axis(problem: Problem, name: str, size: int) -> Axis:
    match = re.fullmatch(r"(y|theta)(?:\[(\d+)\])?", str(name))
    variable: Variable | None = getattr(problem, match[1]) if match else None
    if match is None or variable is None or name not in axis_names(problem):
        raise ValueError(f"along: expected one of {', '.join(axis_names(problem))}, got {name!r}")
    coordinate = None if match[2] is None else int(match[2])
    ends = variable.typical_range
    if not np.isfinite(ends).all():
        raise ValueError(
            f"along: the range of {match[1]} has no end, [{variable.low:g}, {variable.high:g}]; "
            "declare the part of it that is shown"
        )
    if variable.all_whole:
        # Evenly spaced whole numbers, at most as many.
        step = max(1, math.ceil((ends[1] - ends[0]) / (size - 1)))
        return Axis(match[1], coordinate, np.arange(ends[0], ends[1] + 1, step))
    return Axis(match[1], coordinate, np.linspace(*ends, size))


def axis_names(problem: Problem) -> list[str]:
    """The axes that a plane can have, as `amortization_map` takes them."""
    found = []
    for name in ("y", "theta"):
        variable = getattr(problem, name)
        if variable is not None:
            found += [name, *(f"{name}[{i}]" for i in range(variable.dim))]
    return found
