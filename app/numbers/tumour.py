r"""How the tumour may develop, and its size and response: solved once for all measurements."""

from __future__ import annotations

__all__ = ["C0_RANGE", "Course", "TumourDensities", "tumour_densities"]

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.models.cancer import NOISE, TumourTreatment
from amci_core.models.tumour import trajectory
from app.numbers import Settings
from app.numbers.grids import grid_points, trapezoid_weights
from app.numbers.known import log_truth
from app.numbers.plane import PlaneDensities, learnt
from app.numbers.weighted import present_at

# Every posterior and every g that the sliders of the measurements reach lies in here.
C0_RANGE = (40.0, 1700.0)
POINTS = 72

# Days on which courses are drawn, closer where tumours change fast.
DAYS = np.concatenate([np.linspace(0, 10, 21), np.linspace(12, 100, 23)])
SECOND_DAY = 5.0
COURSES = 24
QUANTILES = (0.05, 0.5, 0.95)


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
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Settings
) -> TumourDensities:
    """As `plane_densities`, on a grid that all measurements share, with the tumour's course."""
    grid = cancer_grid()
    shape = (len(grid.epsilon), len(grid.c0))
    log_posterior = grid.log_posterior(y).reshape(shape)
    log_mu = log_truth(problem, y, theta)
    posterior = np.exp(log_posterior)
    target = np.exp(log_posterior + grid.log_f.reshape(shape) - log_mu)
    present = present_at(proposals, y, theta)
    return TumourDensities(
        x=grid.c0,
        y=grid.epsilon,
        labels=settings.labels,
        target=target,
        posterior=posterior,
        **learnt(present, (grid.c0, grid.epsilon), {"target": target, "posterior": posterior}),
        extent=(C0_RANGE, (0.0, 1.0)),
        variant=proposals.variant,
        course=_course(grid, posterior, y, math.exp(log_mu)),
    )


def _course(grid: CancerGrid, posterior: Array, y: Tensor, probability: float) -> Course:
    """How the tumour may develop, given its measurements and the posterior on the grid."""
    mass = posterior.ravel() * grid.area
    low, median, high = _quantiles(mass)
    c0, epsilon = _placed(grid, mass)
    return Course(
        days=DAYS,
        sizes=np.exp(_log_courses()(np.stack(_bent(epsilon, c0), -1))),
        median=median,
        low=low,
        high=high,
        measured=((0.0, float(y[0])), (SECOND_DAY, float(y[1]))),
        last=float(median[-1]),
        probability=probability,
    )


@dataclass(frozen=True)
class CancerGrid:
    """Points (c0, epsilon), (m n, 2) with c0 fastest, and all that does not depend on y."""

    c0: Array
    epsilon: Array
    points: Tensor
    area: Array
    log_constant: Array
    factors: Array
    log_f: Array

    def log_posterior(self, y: Tensor) -> Array:
        """log p(x | y), (m n,)."""
        value = y.numpy()
        log_joint = self.log_constant + np.concatenate([np.log(value), value]) @ self.factors
        top = log_joint.max()
        return log_joint - top - np.log(np.exp(log_joint - top) @ self.area)


@cache
def cancer_grid() -> CancerGrid:
    """The grid on which everything about the tumour is shown, made when it is first needed."""
    problem = TumourTreatment()
    c0 = np.linspace(*C0_RANGE, POINTS)
    # Closer where epsilon is small: then a tumour's growth tells it well.
    epsilon = np.sin((np.arange(POINTS) + 0.5) * math.pi / 2 / POINTS) ** 2
    points = grid_points(c0, epsilon)
    log_c5, _ = problem.log_sizes(points)
    # The likelihood's logarithm is linear in these four functions of y.
    ones = torch.ones(2, dtype=torch.float64)
    c = torch.stack([points[:, 0], log_c5.exp()])
    shape, rate = (c / NOISE).square(), c / NOISE**2
    at_one = problem.log_prior(points) + problem.log_likelihood(points, ones)
    return CancerGrid(
        c0=c0,
        epsilon=epsilon,
        points=points,
        area=np.outer(trapezoid_weights(epsilon), trapezoid_weights(c0)).ravel(),
        log_constant=(at_one + rate.sum(0)).numpy(),
        factors=torch.cat([shape - 1, -rate]).numpy(),
        log_f=problem.f(points, None).log().numpy(),
    )


@cache
def _courses() -> Array:
    """Sizes at all points of the grid on each day, (m n, T)."""
    grid = cancer_grid()
    return trajectory(grid.points[:, 0].numpy(), grid.points[:, 1].numpy(), DAYS)


@cache
def _log_courses() -> RegularGridInterpolator:
    """Logarithms of the sizes on each day between the points of the grid, to 0.003.

    To solve the equations at every move of a slider takes the server a third longer for it.
    """
    grid = cancer_grid()
    table = np.log(_courses()).reshape(len(grid.epsilon), len(grid.c0), -1)
    return RegularGridInterpolator(_bent(grid.epsilon, grid.c0), table)


def _bent(epsilon: Array, c0: Array) -> tuple[Array, Array]:
    """Coordinates in which the logarithms of the sizes are nearly straight."""
    return np.arcsin(np.sqrt(epsilon)), np.log(c0)


@cache
def _ordered_courses() -> tuple[Array, NDArray[np.int32]]:
    """Sizes at all points of the grid on each day, (T, m n), increasing, and their order."""
    sizes = np.ascontiguousarray(_courses().T)
    order = sizes.argsort(axis=-1)
    return np.take_along_axis(sizes, order, -1), order.astype(np.int32)


def _quantiles(mass: Array) -> Array:
    """Quantiles of the size on each day, for points of that mass: (3, T)."""
    sizes, order = _ordered_courses()
    mass = mass[order]
    below = mass.cumsum(-1) - mass / 2
    rows = zip(sizes, below, strict=True)
    return np.stack([np.interp(QUANTILES, share, size) for size, share in rows], -1)


def _placed(grid: CancerGrid, mass: Array) -> tuple[Array, Array]:
    """A few draws from the posterior that move with it: c0 and epsilon, (k,) each."""
    table = mass.reshape(len(grid.epsilon), len(grid.c0))
    ranks = (np.arange(COURSES) + 0.5) / COURSES
    # Ranks of the second coordinate from the golden ratio: even, and unlike those of the first.
    others = (np.arange(COURSES) * (math.sqrt(5) - 1) / 2 + 0.5) % 1
    c0 = _inverse(grid.c0, table.sum(0), ranks)
    places = np.interp(c0, grid.c0, np.arange(len(grid.c0)))
    left = np.minimum(places.astype(int), len(grid.c0) - 2)
    share = places - left
    columns = table[:, left] * (1 - share) + table[:, left + 1] * share
    epsilon = [
        _inverse(grid.epsilon, column, np.array([rank]))[0]
        for column, rank in zip(columns.T, others, strict=True)
    ]
    return c0, np.array(epsilon)


def _inverse(points: Array, mass: Array, ranks: Array) -> Array:
    below = mass.cumsum() - mass / 2
    return np.interp(ranks, below / mass.sum(), points)
