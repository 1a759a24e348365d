r"""How the tumour may develop, beside its size and response."""

from __future__ import annotations

__all__ = ["Course", "TumourDensities", "tumour_densities"]

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import PchipInterpolator, RegularGridInterpolator
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.models.cancer import trajectory
from amci_explorer.numbers import Look
from amci_explorer.numbers.plane import PlaneDensities, plane_densities

# Days on which courses are drawn, closer where tumours change fast.
DAYS = np.concatenate([np.linspace(0, 10, 21), np.linspace(12, 100, 23)])
SECOND_DAY = 5.0
# Quantiles of c0, and of epsilon given each of them; courses that are drawn as lines.
RANKS, COURSES = 48, 24
# Points on which a density is summed up to its quantiles.
FINE = 257


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
    """

    days: Array
    sizes: Array
    median: Array
    low: Array
    high: Array
    measured: tuple[tuple[float, float], tuple[float, float]]


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
    # Even ranks of c0, and of epsilon given each: those shift by the golden ratio.
    posterior = np.nan_to_num(plane.posterior, nan=1.0)
    ranks = (np.arange(RANKS) + 0.5) / RANKS
    of_c0 = np.atleast_2d(np.trapezoid(posterior, plane.y, axis=0))
    c0 = _quantiles(plane.x, of_c0, ranks[None])[0]
    given = np.maximum(PchipInterpolator(plane.x, posterior, axis=1)(c0), 0).T
    shifts = np.arange(RANKS) * (math.sqrt(5) - 1) / 2 % 1
    epsilon = _quantiles(plane.y, given, (np.arange(RANKS) + shifts[:, None]) / RANKS)
    start = np.broadcast_to(np.log(c0)[:, None], epsilon.shape)
    points = np.stack([start, np.arcsin(np.sqrt(epsilon))], -1)
    sizes = np.exp(_log_sizes()(points.reshape(-1, 2)))
    low, median, high = np.quantile(sizes, [0.05, 0.5, 0.95], axis=0)
    # One of every second c0, each at another rank of epsilon.
    few = np.arange(0, RANKS, RANKS // COURSES) * RANKS + np.arange(COURSES) * 29 % RANKS
    return TumourDensities(
        **vars(plane),
        course=Course(
            days=DAYS,
            sizes=sizes[few],
            median=median,
            low=low,
            high=high,
            measured=((0.0, float(y[0])), (SECOND_DAY, float(y[1]))),
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


def _quantiles(points: Array, densities: Array, ranks: Array) -> Array:
    """Where densities, (k, n) at points (n,), reach ranks, (k, m)."""
    fine = np.linspace(points[0], points[-1], FINE)
    smooth = np.maximum(PchipInterpolator(points, densities, axis=1)(fine), 0)
    below = cumulative_trapezoid(smooth, fine, axis=1, initial=0)
    rows = zip(ranks, below / below[:, -1:], strict=True)
    return np.array([np.interp(rank, row, fine) for rank, row in rows])
