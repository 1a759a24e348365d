r"""Densities of one coordinate of a Gaussian tail, and of a pair: exact but for the proposals."""

from __future__ import annotations

__all__ = ["tail_densities"]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.interpolate import CubicSpline, RectBivariateSpline
from scipy.special import xlogy
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import ConditionalDensity, Proposals
from amci_core.flows.density import TransformedDensity
from amci_core.models import Problem
from amci_core.models.gaussian import log_orthant
from amci_core.models.tail import GaussianTail
from amci_explorer.numbers import Look
from amci_explorer.numbers.draws import Chosen, MarginalDensities, Shown, marginals, smoothed
from amci_explorer.numbers.grids import EDGE, integral, mesh

# Draws of a proposal, always from the same noise, so that nothing flickers.
DRAWS = 512
# For one coordinate and for a pair: bins along an axis, the width in bins of what smooths them,
# and points along an axis that are not in the bins of q1.
BINS = {1: (80, 2.5, 97), 2: (32, 1.75, 33)}
# How much finer bins are at an edge, as a logarithm.
GRADING = 2.0
# For one coordinate and for a pair of them: nodes along an axis between which logarithms of
# conditional probabilities are interpolated, and points of the quasi-Monte Carlo at each. With
# these, marginals of g are right to 1e-3 of their maximum.
NODES = {1: (10, 128), 2: (6, 128)}
# Half the width of what is shown of a Gaussian, in standard deviations.
REACH = 4.5
# Likewise how far above theta a bad q1 is followed.
FARTHEST = 8.0


def tail_densities(
    problem: GaussianTail,
    proposals: Proposals,
    y: Tensor,
    theta: Tensor,
    settings: Look,
) -> MarginalDensities:
    """What proposals in many dimensions look like, one coordinate or a pair of them at a time.

    The marginal of g at x_i is the Gaussian density there times the probability that the other
    coordinates lie above their thresholds given x_i: exact, up to quasi-Monte Carlo. Proposals
    are seen through draws.

    Arguments:
        problem: A Gaussian tail in more than two dimensions.
        proposals: Proposals for it, with a q2.
        y: Checked, (D,).
        theta: Checked, (D,).
        settings: The coordinate and the pair to look at.
    """
    tail = _Tail(problem, y, theta)
    densities = proposals.at(y, theta)
    q1, q2 = (_draws(problem, densities[j], y) for j in (0, 2))
    reached = np.quantile(q1.x, [0.001, 0.999], axis=0)

    def show(chosen: Chosen) -> Shown:
        bins, width, number = BINS[len(chosen)]
        axes = [tail.axis(i, reached[:, i], bins, number) for i in chosen]
        points = [axis.x for axis in axes]
        target, posterior = tail.wanted(list(chosen), points)
        found = {
            "target": target,
            "posterior": posterior,
            "q1": q1.seen(chosen, [axis.edges for axis in axes], points, width, like=target),
            "q2": q2.seen(chosen, [axis.whole for axis in axes], points, width, like=posterior),
        }
        ends = [(float(math.floor(x[0])), float(math.ceil(x[-1]))) for x in points]
        return points, ends, found

    return marginals(
        settings,
        show,
        threshold=float(theta[settings.coordinate]),
        variant=proposals.variant,
        from_draws=q1.divergence,
    )


@dataclass(frozen=True)
class _Axis:
    """Points of one coordinate, and edges of bins for draws of q1 and of q2."""

    x: Array
    edges: Array
    whole: Array


class _Tail:
    """The posterior at one (y, theta), and g, which is zero below theta."""

    def __init__(self, problem: GaussianTail, y: Tensor, theta: Tensor) -> None:
        self.mean = problem.posterior_mean(y).numpy()
        self.covariance = problem.posterior_covariance
        self.theta = theta.numpy()

    def axis(self, i: int, reached: Array, bins: int, number: int) -> _Axis:
        """Points along a coordinate that resolve the posterior, g, and q1 as far as it reaches."""
        mean, scale = self.mean[i], math.sqrt(self.covariance[i, i])
        theta = self.theta[i]
        low, high = mean - REACH * scale, mean + REACH * scale
        start = max(theta, min(low, reached[0]))
        # Beyond theta, g falls at least as fast as with the rate (theta - mean) / scale^2.
        excess = max(theta - mean, 0.0)
        reach = max(mean, theta) + 12 * scale**2 / (excess + math.hypot(excess, 3 * scale))
        end = max(reach, min(reached[1], max(mean, theta) + FARTHEST * scale))
        steps = np.linspace(0, 1, bins + 1)
        edges = start + (end - start) * np.expm1(GRADING * steps) / math.expm1(GRADING)
        whole = np.linspace(min(low, start), max(high, end), number)
        outside = whole[(whole < start) | (whole > end)]
        x = np.concatenate([outside, [start - EDGE], edges])
        x[np.argmin(np.abs(x - start))] = start + EDGE
        return _Axis(x=np.unique(x), edges=edges, whole=whole)

    def wanted(self, chosen: list[int], points: Sequence[Array]) -> tuple[Array, Array]:
        """g and the posterior on a grid, of mass one: (n,), or (m, n) with the first fastest."""
        precision: Any = np.linalg.inv(self.covariance[np.ix_(chosen, chosen)])
        z = mesh(points) - self.mean[chosen]
        constant = np.linalg.slogdet(precision / (2 * math.pi))[1] / 2
        log_posterior = constant - np.vecdot(z @ precision, z) / 2
        above = [x[x > self.theta[i]] for i, x in zip(chosen, points, strict=True)]
        corner = tuple(slice(-len(x), None) for x in reversed(above))
        log_g = log_posterior[corner] + self._log_above(chosen, precision, above)
        target = np.zeros_like(log_posterior)
        target[corner] = np.exp(log_g - log_g.max())
        return target / integral(target[corner], *above), np.exp(log_posterior)

    def _log_above(self, chosen: list[int], precision: Array, points: Sequence[Array]) -> Array:
        """log Pr(the other coordinates exceed theta | the chosen ones) on a grid."""
        others = [i for i in range(len(self.mean)) if i not in chosen]
        across = self.covariance[np.ix_(others, chosen)]
        slope = across @ precision
        covariance = self.covariance[np.ix_(others, others)] - slope @ across.T
        number, precise = NODES[len(chosen)]
        nodes = [np.linspace(x[0], x[-1], number) for x in points]
        mean = self.mean[others] + (mesh(nodes) - self.mean[chosen]) @ slope.T
        log_above, _ = log_orthant(mean, covariance, self.theta[others], points=precise)
        if len(chosen) == 1:
            return np.asarray(CubicSpline(nodes[0], log_above)(points[0]))
        return np.asarray(RectBivariateSpline(nodes[1], nodes[0], log_above)(*points[::-1]))


@dataclass(frozen=True)
class _Draws:
    """Draws of a proposal, (n, D), and the logarithms of their weights for what is wanted."""

    x: Array
    log_weight: Array

    @cached_property
    def weight(self) -> Array:
        """Weights, of mean one."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        return weight / weight.mean()

    @property
    def divergence(self) -> float:
        """KL in nats of what the weights are for from the proposal."""
        return float(xlogy(self.weight, self.weight).mean())

    def seen(
        self,
        chosen: Chosen,
        edges: Sequence[Array],
        points: Sequence[Array],
        width: float,
        *,
        like: Array,
    ) -> Array:
        """Density of the chosen coordinates on a grid.

        What is seen through draws is only how far it is from a density that is known: the
        smoothed histogram of draws less that of beta times the weighted draws, plus beta times
        the known density. The variance is least about where beta is the share of effective draws.
        """
        beta = 1 / np.square(self.weight).mean()
        weights = (1 - beta * self.weight) / len(self.weight)
        apart = smoothed(self.x[:, chosen], weights, edges, points, width)
        return np.maximum(apart + beta * like, 0)


def _draws(problem: Problem, density: ConditionalDensity, y: Tensor) -> _Draws:
    generator = torch.Generator().manual_seed(0)
    if isinstance(density, TransformedDensity):
        x, log_q = density.forward(density.stratified_base_samples(DRAWS, generator))
    else:
        x, log_q = density.draw(DRAWS, generator)
    return _Draws(x.numpy(), (problem.log_joint(x, y) - log_q).numpy())
