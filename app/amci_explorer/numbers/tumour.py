r"""How the tumour may develop, beside its size and response."""

from __future__ import annotations

__all__ = ["Course", "TumourDensities", "tumour_densities"]

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.models.tumour import trajectory
from amci_explorer.numbers import Look
from amci_explorer.numbers.plane import PlaneDensities, plane_densities

# Days on which courses are drawn, closer where tumours change fast.
DAYS = np.concatenate([np.linspace(0, 10, 21), np.linspace(12, 100, 23)])
SECOND_DAY = 5.0
# Draws from the posterior, and those of them that are drawn as lines.
DRAWS, COURSES = 192, 24


@dataclass(frozen=True)
class Course:
    """How the tumour may develop, given the measurements.

    Arguments:
        days: Days since admission, (T,).
        sizes: Sizes of a few draws from the posterior, (k, T).
        median: Median of the size on each day, (T,).
        low: Its quantile of 5 %, (T,).
        high: Its quantile of 95 %, (T,).
        measured: The days and sizes of the two measurements.
        last: Median of the size on the last day.
        probability: mu, the probability that the treatment succeeds.
    """

    days: Array
    sizes: Array
    median: Array
    low: Array
    high: Array
    measured: tuple[tuple[float, float], tuple[float, float]]
    last: float
    probability: float


@dataclass(frozen=True, kw_only=True)
class TumourDensities(PlaneDensities):
    """Densities over a tumour's size and response.

    Arguments:
        course: Its size over the days.
    """

    course: Course


def tumour_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Look
) -> TumourDensities:
    """As `plane_densities`, with the tumour's course."""
    plane = plane_densities(problem, proposals, y, theta, settings)
    # Draws that move with the posterior: even ranks of c0, and of epsilon given c0 those of the
    # golden ratio, in an order that leaves the first ones even as well.
    ranks = (np.arange(DRAWS).reshape(-1, COURSES).T.ravel() + 0.5) / DRAWS
    others = (np.arange(DRAWS) * (math.sqrt(5) - 1) / 2 + 0.5) % 1
    posterior = np.nan_to_num(plane.posterior, nan=1.0)
    c0 = _at_ranks(plane.x, np.trapezoid(posterior, plane.y, axis=0), ranks)
    columns = np.array([np.interp(c0, plane.x, row) for row in posterior]).T
    epsilon = [
        _at_ranks(plane.y, column, rank) for column, rank in zip(columns, others, strict=True)
    ]
    sizes = np.exp(_log_sizes()(np.stack([np.log(c0), np.arcsin(np.sqrt(epsilon))], -1)))
    low, median, high = np.quantile(sizes, [0.05, 0.5, 0.95], axis=0)
    return TumourDensities(
        **vars(plane),
        course=Course(
            days=DAYS,
            sizes=sizes[:COURSES],
            median=median,
            low=low,
            high=high,
            measured=((0.0, float(y[0])), (SECOND_DAY, float(y[1]))),
            last=float(median[-1]),
            probability=float(problem.truth(y, theta)),
        ),
    )


@cache
def _log_sizes() -> RegularGridInterpolator:
    """Logarithms of the sizes on each day by log c0 and arcsin sqrt epsilon.

    To solve the equations for every case would take 30 ms.
    """
    log_c0, angles = np.linspace(0, 8.5, 90), np.linspace(0, math.pi / 2, 60)
    sizes = trajectory(np.exp(log_c0)[:, None], np.sin(angles) ** 2, DAYS)
    # Beyond its ends it goes on in straight lines.
    return RegularGridInterpolator((log_c0, angles), np.log(sizes), "linear", False, None)


def _at_ranks(points: Array, density: Any, ranks: Any) -> Any:
    """Where a density at points reaches those ranks."""
    mass = np.gradient(points) * density
    # A point lies in the middle of its cell.
    return np.interp(ranks, (np.cumsum(mass) - mass / 2) / mass.sum(), points)
