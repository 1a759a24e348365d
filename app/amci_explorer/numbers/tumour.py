r"""How the tumour may develop, and its size and response: solved once for all measurements."""

from __future__ import annotations

__all__ = ["C0_RANGE", "Course", "TumourDensities", "tumour_densities"]

import math
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator, make_interp_spline
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.models.cancer import NOISE, TumourTreatment
from amci_core.models.tumour import trajectory
from amci_explorer.numbers import Look
from amci_explorer.numbers.grids import grid_points, trapezoid_weights
from amci_explorer.numbers.known import log_truth
from amci_explorer.numbers.plane import PlaneDensities, learnt
from amci_explorer.numbers.weighted import present_at

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
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Look
) -> TumourDensities:
    """As `plane_densities`, on a grid that all measurements share, with the tumour's course."""
    grid = tumour_grid()
    log_posterior = grid.log_posterior(y)
    log_mu = log_truth(problem, y, theta)
    wanted: dict[str, Any] = {
        "target": np.exp(log_posterior + grid.log_f - log_mu),
        "posterior": np.exp(log_posterior),
    }
    return TumourDensities(
        x=grid.c0,
        y=grid.epsilon,
        labels=settings.labels,
        **wanted,
        **learnt(present_at(proposals, y, theta), (grid.c0, grid.epsilon), wanted),
        extent=(C0_RANGE, (0.0, 1.0)),
        variant=proposals.variant,
        course=grid.course(wanted["posterior"] * grid.area, y, math.exp(log_mu)),
    )


@cache
def tumour_grid() -> TumourGrid:
    """The grid on which everything about the tumour is shown, made when it is first needed."""
    return TumourGrid()


class TumourGrid:
    """Points (c0, epsilon) with c0 fastest, and all that does not depend on y, (m, n)."""

    def __init__(self) -> None:
        problem = TumourTreatment()
        self.c0 = np.linspace(*C0_RANGE, POINTS)
        # Closer where epsilon is small: then a tumour's growth tells it well.
        self.epsilon = np.sin((np.arange(POINTS) + 0.5) * math.pi / 2 / POINTS) ** 2
        self.points = grid_points(self.c0, self.epsilon)
        self.area = np.outer(trapezoid_weights(self.epsilon), trapezoid_weights(self.c0))
        log_c5, _ = problem.log_sizes(self.points)
        # The likelihood's logarithm is linear in four functions of y: log y, and y.
        c = torch.stack([self.points[:, 0], log_c5.exp()])
        shape, rate = (c / NOISE).square(), c / NOISE**2
        at_one = problem.log_joint(self.points, torch.ones(2, dtype=torch.float64))
        self.log_constant = self._table(at_one + rate.sum(0))
        self.factors = torch.cat([shape - 1, -rate]).numpy()
        self.log_f = self._table(problem.f(self.points, None).log())

    def _table(self, values: Tensor) -> Array:
        return values.numpy().reshape(len(self.epsilon), len(self.c0))

    def log_posterior(self, y: Tensor) -> Array:
        """log p(x | y), (m, n)."""
        log_likelihood = torch.cat([y.log(), y]).numpy() @ self.factors
        log_joint = self.log_constant + log_likelihood.reshape(self.area.shape)
        top = log_joint.max()
        return log_joint - top - np.log((np.exp(log_joint - top) * self.area).sum())

    @cached_property
    def sizes(self) -> Array:
        """Sizes at all points on each day, (m n, T)."""
        return trajectory(self.points[:, 0].numpy(), self.points[:, 1].numpy(), DAYS)

    @cached_property
    def log_sizes(self) -> RegularGridInterpolator:
        """Logarithms of the sizes on each day between the points, to 0.003.

        To solve the equations at every move of a slider takes the server a third longer for it.
        """
        table = np.log(self.sizes).reshape(*self.area.shape, -1)
        return RegularGridInterpolator(_bent(self.epsilon, self.c0), table)

    @cached_property
    def ordered(self) -> tuple[Array, NDArray[np.int32]]:
        """Sizes at all points on each day, (T, m n), increasing, and their order."""
        sizes = np.ascontiguousarray(self.sizes.T)
        order = sizes.argsort(axis=-1)
        return np.take_along_axis(sizes, order, -1), order.astype(np.int32)

    def course(self, mass: Array, y: Tensor, probability: float) -> Course:
        """How the tumour may develop, given its measurements and the posterior's masses (m, n)."""
        sizes, order = self.ordered
        shares = mass.ravel()[order]
        below = shares.cumsum(-1) - shares / 2
        rows = zip(sizes, below, strict=True)
        low, median, high = np.transpose([np.interp(QUANTILES, row, size) for size, row in rows])
        c0, epsilon = self.placed(mass)
        return Course(
            days=DAYS,
            sizes=np.exp(self.log_sizes(np.stack(_bent(epsilon, c0), -1))),
            median=median,
            low=low,
            high=high,
            measured=((0.0, float(y[0])), (SECOND_DAY, float(y[1]))),
            last=float(median[-1]),
            probability=probability,
        )

    def placed(self, mass: Array) -> tuple[Array, Array]:
        """A few draws from the posterior that move with it: c0 and epsilon, (k,) each."""
        ranks = (np.arange(COURSES) + 0.5) / COURSES
        # Ranks of the second coordinate from the golden ratio: even, and unlike the first's.
        others = (np.arange(COURSES) * (math.sqrt(5) - 1) / 2 + 0.5) % 1
        c0 = _inverse(self.c0, mass.sum(0), ranks)
        columns = make_interp_spline(self.c0, mass, k=1, axis=1)(c0).T
        epsilon = map(partial(_inverse, self.epsilon), columns, others)
        return c0, np.array(list(epsilon))


def _bent(epsilon: Array, c0: Array) -> tuple[Array, Array]:
    """Coordinates in which the logarithms of the sizes are nearly straight."""
    return np.arcsin(np.sqrt(epsilon)), np.log(c0)


def _inverse(points: Array, mass: Array, ranks: Any) -> Any:
    """Where masses at points reach those ranks."""
    below = mass.cumsum() - mass / 2
    return np.interp(ranks, below / mass.sum(), points)
