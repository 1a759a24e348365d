r"""Densities over a plane, or of some coordinates of many: numbers for pictures, no widgets."""

from __future__ import annotations

__all__ = [
    "C0_RANGE",
    "Course",
    "MarginalDensities",
    "PlaneDensities",
    "course",
    "marginal_densities",
    "plane_densities",
]

import numpy as np
import torch
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.models.cancer import TumourTreatment
from amci_core.models.peak import ProductPeak, split_theta
from app.courses import C0_RANGE, Course, cancer_grid, course
from app.grids import PlaneDensities, grid_points
from app.marginals import MarginalDensities, marginal_densities

PEAK_POINTS = 65


@torch.inference_mode()
def plane_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None
) -> PlaneDensities:
    """What two-dimensional proposals look like beside what they should be.

    Arguments:
        problem: A problem whose x lies in the plane.
        proposals: Proposals for it.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
    """
    if isinstance(problem, TumourTreatment):
        grid = cancer_grid()
        log_posterior = grid.log_posterior(y)
        log_target = log_posterior + grid.log_f - problem.log_truth(y)
        labels = ("c₀", "ε")
        first, second, points = grid.c0, grid.epsilon, grid.points
    else:
        assert isinstance(problem, ProductPeak)
        assert theta is not None
        first, second = _around_peak(theta)
        points = grid_points(first, second)
        log_target = problem.f(points, theta).log().numpy() - problem.log_truth(y, theta)
        log_posterior, labels = np.zeros_like(log_target), ("x₁", "x₂")

    def density(log_density: Array) -> Array:
        return np.exp(log_density).reshape(len(second), len(first))

    return PlaneDensities(
        x=first,
        y=second,
        labels=labels,
        target=density(log_target),
        posterior=density(log_posterior),
        q1=density(proposals.q1_plus(y, theta).log_prob(points).numpy()),
        q2=None
        if proposals.q2 is None
        else density(proposals.q2(y, theta).log_prob(points).numpy()),
    )


def _around_peak(theta: Tensor) -> tuple[Array, Array]:
    """Points of the unit interval for both axes, as close at the centre as the peak is sharp."""
    centre, sharpness = (part.numpy() for part in split_theta(theta))
    low, high = np.arcsinh(-sharpness * centre), np.arcsinh(sharpness * (1 - centre))
    axes = centre + np.sinh(np.linspace(low, high, PEAK_POINTS)) / sharpness
    first, second = np.clip(axes, 0, 1).T
    return first, second
