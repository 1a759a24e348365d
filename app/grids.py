r"""Densities on the points of a grid."""

from __future__ import annotations

__all__ = ["PlaneDensities", "grid_points", "integral", "mesh", "trapezoid_weights"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from amci_core.estimators.draws import Array


@dataclass(frozen=True)
class PlaneDensities:
    """Densities over a plane at one (y, theta), each of mass one.

    Arguments:
        x: Points along the first axis, increasing, (n,).
        y: Points along the second axis, increasing, (m,).
        labels: Names of the axes.
        target: g, proportional to f p(x | y); (m, n).
        posterior: p(x | y), (m, n).
        q1: The learnt proposal for E1, (m, n).
        q2: The learnt proposal for E2, (m, n); None where none is needed.
    """

    x: Array
    y: Array
    labels: tuple[str, str]
    target: Array
    posterior: Array
    q1: Array
    q2: Array | None

    @property
    def divergence(self) -> float:
        """KL(g || q1) in nats, by the trapezoid rule."""
        tiny = np.finfo(np.float64).tiny
        log_ratio = np.log(np.maximum(self.target, tiny)) - np.log(np.maximum(self.q1, tiny))
        # Both densities have mass one: with them the integrand is nowhere negative.
        return integral(self.x, self.y, self.target * log_ratio - self.target + self.q1)


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


def integral(first: Array, second: Array, values: Array) -> float:
    """The integral of values (m, n) over a grid, by the trapezoid rule."""
    return float(trapezoid_weights(second) @ values @ trapezoid_weights(first))
