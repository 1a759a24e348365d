r"""Points on which densities are computed, and integrals over them."""

from __future__ import annotations

__all__ = [
    "EDGE",
    "LEAST",
    "REGION_MASS",
    "densest",
    "ends_of_f",
    "exponential",
    "grid_points",
    "integral",
    "mesh",
    "outward",
    "trapezoid_weights",
]

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.integrate import cumulative_trapezoid
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.models import Problem, Variable
from amci_explorer.numbers import SMALLEST_DENSITY

# Instead of the logarithm of zero, which could not be subtracted.
LEAST = -1e300
# Just inside the end of f's support, where g may jump, and not so near that rounding shows.
EDGE = 1e-7
# The share of g that lies in the region which is shaded.
REGION_MASS = 0.99
# Room beside what an axis has to show, as a share of its width.
ROOM = 0.08


def exponential(log_density: Array) -> Array:
    """Densities from their logarithms, none of them quite zero."""
    return np.maximum(np.exp(log_density), SMALLEST_DENSITY)


def grid_points(first: Array, second: Array) -> Tensor:
    """The points of a grid, (m n, 2), the first coordinate fastest."""
    return torch.from_numpy(mesh((first, second)).reshape(-1, 2))


def mesh(points: Sequence[Array]) -> Array:
    """The points of a grid, (n, 1) or (m, n, 2)."""
    return np.stack(np.meshgrid(*points), -1)


def trapezoid_weights(x: Array) -> Array:
    """Weights of the trapezoid rule."""
    widths = np.diff(x, prepend=x[0], append=x[-1])
    return (widths[1:] + widths[:-1]) / 2


def integral(values: Array, *axes: Array) -> Array:
    """Integrals over a grid by the trapezoid rule: the last axis of the values comes first."""
    for x in axes:
        values = values @ trapezoid_weights(x)
    return values


def densest(x: Array, density: Array, mass: float) -> tuple[float, float]:
    """Ends of the shortest interval that carries that share of a density, (n,) at points x."""
    below = cumulative_trapezoid(density, x, initial=0)
    if not below[-1] > 0:
        return float(x[0]), float(x[-1])
    below /= below[-1]
    lows = np.linspace(0, 1 - mass, 201)
    low, high = np.interp(lows, below, x), np.interp(lows + mass, below, x)
    # Where the density is zero `below` is flat, and the interpolation gives its left end.
    low = np.maximum(low, x[np.flatnonzero(density > SMALLEST_DENSITY)[0]])
    shortest = int(np.argmin(high - low))
    return float(low[shortest]), float(high[shortest])


def outward(low: float, high: float, range_of: Variable) -> tuple[float, float]:
    """Rounder ends beyond these, so that an axis rests while a density moves a little.

    Arguments:
        low: What the axis has to show.
        high: Likewise.
        range_of: The variable, whose range the axis does not leave.
    """
    low, high = low - ROOM * (high - low), high + ROOM * (high - low)
    width = max(high - low, 1e-9 * max(abs(low), abs(high)), 1e-300)
    step = 2.0 ** (math.ceil(math.log2(width)) - 2)
    low, high = step * math.floor(low / step), step * math.ceil(high / step)
    return max(low, range_of.low), min(high, range_of.high)


def ends_of_f(problem: Problem, theta: Tensor | None, i: int = 0) -> list[float]:
    """Ends of the set where f_plus lies, along a coordinate, that are not the prior's."""
    found = []
    for name in ("lower_bound", "upper_bound"):
        end, whole = (
            np.broadcast_to(np.asarray(getattr(support, name, np.nan), float), problem.x.dim)[i]
            for support in (problem.support_plus(theta), problem.support)
        )
        if np.isfinite(end) and end != whole:
            found.append(float(end))
    return found
