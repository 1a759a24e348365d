r"""Adaptive quadrature of a term in one or two dimensions."""

from __future__ import annotations

__all__ = ["Quadrature"]

import math
from dataclasses import dataclass
from itertools import count, product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from amci_core.term_methods.base import (
    DefensiveMixture,
    Density,
    Integrand,
    StudentDensity,
    TermEstimate,
    log_mean,
)

PILOT = 4096
# Nodes of a box in each dimension, points of the pilot that one box may hold at first, and points
# that are evaluated at a time.
NODES = 10
CROWD = 32
CHUNK = 65_536
# Keys of boxes in the plane are whole numbers of 64 bits.
LEAST_EDGE = 2.0**-30
# The boxes that make up this share of the error are halved at a time.
HALVED = 0.9
# Steps from one comparison with the pilot to the next.
CHECKED = 4
# Pilot points that many nats below the largest weight do not matter.
NEGLIGIBLE = 30.0
# How far the pilot may lie above the quadrature, in its standard errors: in a box, and in all.
SIGNIFICANT = 3.0
DISAGREEMENT = 5.0
LITTLE = 2.0
# Log densities of hundreds of nats are right to so much of themselves.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Quadrature:
    """Integrates a term in one or two dimensions by Gauss rules on boxes that are halved.

    The support is mapped to the unit cube as in nested sampling. The boxes are halved first where
    draws find mass, then where the error is largest: the difference between the rule on a box and
    on its halves. A pilot of importance sampling is the second rule. Where it finds significantly
    more in a box, the difference is the box's error; where it does in all, its estimate counts.

    Arguments:
        relative_error: Where it stops.
        evaluations: Where it stops at the latest, about.

    Raises:
        ValueError: at the call, in more than two dimensions.

    References:
        Genz, Malik, Remarks on algorithm 006: an adaptive algorithm for numerical integration over
        an N-dimensional rectangular region, Journal of Computational and Applied Mathematics 6,
        1980.
    """

    relative_error: float = 1e-6
    evaluations: int = 1_000_000

    @torch.inference_mode()
    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate:
        dim, before = integrand.dim, integrand.evaluations
        if dim > 2:
            raise ValueError(f"quadrature: expected at most two dimensions, got {dim}")
        generator = torch.Generator().manual_seed(seed)
        # A Cauchy density: modes twenty standard deviations away still lie well within the cube.
        x, _ = start.draw(PILOT, generator)
        density = StudentDensity.fitted(integrand.support, x, degrees=1.0)
        mixture = DefensiveMixture(start, density)
        many = 4 * PILOT if dim == 1 else max(self.evaluations // 10, PILOT)
        x, log_q = mixture.draw(many, generator)
        log_w = integrand.log_weight(x, log_q)
        hit = log_w > log_w.max() - NEGLIGIBLE
        pilot = _Pilot(density.cube(x[hit]), log_w[hit] - math.log(len(log_w)))
        rule = _Rule(integrand, density)
        boxes = rule.halved(_grid(pilot.u[:: len(pilot.u) // PILOT + 1], dim))
        for step in count():
            if step % CHECKED == 0 or boxes.reach(self.relative_error):
                boxes = boxes._replace(log_error=pilot.log_error(boxes))
            spent = integrand.evaluations - before
            if boxes.reach(self.relative_error) or spent >= self.evaluations:
                break
            # Those that make up most of the error, and no more than fit.
            order = boxes.log_error.argsort(descending=True)
            share = boxes.log_error[order].softmax(0).cumsum(0)
            many = min(int((share < HALVED).sum()) + 1, max(CHUNK // (2 * NODES) ** dim, 1))
            boxes = boxes.rows(order[many:]).plus(rule.halved(boxes.rows(order[:many])))
        log_value = float(boxes.log_value.logsumexp(0))
        log_error = float(pilot.log_error(boxes).logsumexp(0))
        other = ROUNDING * max(1.0, abs(log_value))
        log_pilot, pilot_error = log_mean(log_w)
        # A rule that has not converged has little to set against the pilot.
        doubt = DISAGREEMENT if boxes.reach(self.relative_error) else LITTLE
        if log_pilot - log_value > doubt * pilot_error:
            log_value, other = log_pilot, pilot_error
        error = math.exp(log_error - log_value) + other if log_value > -math.inf else math.nan
        return TermEstimate(log_value, error, integrand.evaluations - before)


class _Boxes(NamedTuple):
    """m boxes of the unit cube: corners (m, D), edges (m), log integral and log error, (m)."""

    low: Tensor
    edge: Tensor
    log_value: Tensor
    log_error: Tensor

    def reach(self, relative_error: float) -> bool:
        log_allowed = self.log_value.logsumexp(0) + math.log(relative_error)
        return bool(self.log_error.logsumexp(0) <= log_allowed)

    def rows(self, index: Tensor) -> _Boxes:
        return _Boxes(*(part[index] for part in self))

    def plus(self, other: _Boxes) -> _Boxes:
        return _Boxes(*(torch.cat(parts) for parts in zip(self, other, strict=True)))


class _Pilot(NamedTuple):
    """n points u (n, D) of a long run of importance sampling, and their shares of its estimate."""

    u: Tensor
    log_share: Tensor

    def log_error(self, boxes: _Boxes) -> Tensor:
        """The boxes' log errors, larger where the points find significantly more mass, (m)."""
        box = self._boxes_of_points(boxes)
        known = box >= 0
        largest = torch.cat([boxes.log_value, self.log_share]).max()
        share = (self.log_share[known] - largest).exp()
        mass, variance = torch.zeros_like(boxes.edge), torch.zeros_like(boxes.edge)
        mass.index_add_(0, box[known], share)
        variance.index_add_(0, box[known], share.square())
        excess = mass - (boxes.log_value - largest).exp()
        unseen = (excess > SIGNIFICANT * variance.sqrt()) & (boxes.edge > LEAST_EDGE)
        return boxes.log_error.where(
            ~unseen, torch.maximum(boxes.log_error, excess.log() + largest)
        )

    def _boxes_of_points(self, boxes: _Boxes) -> Tensor:
        """The index of the box that each point lies in, (n); -1 where there is none."""
        found = torch.full((len(self.u),), -1)
        for edge in boxes.edge.unique():
            level = (boxes.edge == edge).nonzero().squeeze(-1)
            row = torch.tensor([round(1 / float(edge)), 1][-self.u.shape[-1] :])
            keys, order = ((boxes.low[level] / edge).round().long() * row).sum(-1).sort()
            points = ((self.u / edge).floor().long() * row).sum(-1)
            place = torch.searchsorted(keys, points).clamp(max=len(keys) - 1)
            found = torch.where(keys[place] == points, level[order[place]], found)
        return found


def _grid(guides: Tensor, dim: int) -> _Boxes:
    """Boxes that hold few of the points u (p, D) each, with errors unknown."""
    low, edge = torch.zeros(1, dim, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    while True:
        inside = (guides >= low[:, None]) & (guides < (low + edge[:, None])[:, None])
        crowded = (inside.all(-1).sum(-1) > CROWD) & (edge > LEAST_EDGE) | (edge > 0.25)
        if not crowded.any():
            unknown = torch.full_like(edge, torch.inf)
            return _Boxes(low, edge, -unknown, unknown)
        halves = _halves(low[crowded], edge[crowded])
        low, edge = (
            torch.cat([part[~crowded], half])
            for part, half in zip((low, edge), halves, strict=True)
        )


def _halves(low: Tensor, edge: Tensor) -> tuple[Tensor, Tensor]:
    """The 2^D halves of m boxes, one box's after another: corners (m 2^D, D), edges (m 2^D)."""
    dim = low.shape[-1]
    corners = torch.tensor(list(product((0.0, 0.5), repeat=dim)), dtype=low.dtype)
    halves = low[:, None] + edge[:, None, None] * corners
    return halves.reshape(-1, dim), (edge / 2).repeat_interleave(2**dim)


class _Rule:
    """The product Gauss rule for the integrand over a density, on boxes of the unit cube."""

    def __init__(self, integrand: Integrand, density: StudentDensity) -> None:
        self._integrand, self._density = integrand, density
        nodes, weights = (
            torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(NODES)
        )
        self._nodes = torch.cartesian_prod(*[(nodes + 1) / 2] * integrand.dim).view(
            -1, integrand.dim
        )
        self._log_weights = (
            torch.cartesian_prod(*[weights / 2] * integrand.dim).view(-1, integrand.dim).log()
        ).sum(-1)

    def halved(self, boxes: _Boxes) -> _Boxes:
        """The boxes' halves, with the difference that they make as error."""
        low, edge = _halves(boxes.low, boxes.edge)
        per_chunk = max(CHUNK // len(self._nodes), 1)
        parts = zip(low.split(per_chunk), edge.split(per_chunk), strict=True)
        log_value = torch.cat([self._log_integral(*part) for part in parts])
        many = len(low) // len(boxes.edge)
        halves = log_value.view(-1, many)
        total = halves.logsumexp(-1)
        log_error = _log_difference(boxes.log_value, total)
        return _Boxes(low, edge, log_value, (log_error - math.log(many)).repeat_interleave(many))

    def _log_integral(self, low: Tensor, edge: Tensor) -> Tensor:
        u = low[:, None] + edge[:, None, None] * self._nodes
        x, log_q = self._density.points(u.reshape(-1, u.shape[-1]))
        log_ratio = self._integrand.log_weight(x, log_q).view(len(low), -1)
        log_volume = u.shape[-1] * edge.log()
        return (log_ratio + self._log_weights).logsumexp(-1) + log_volume


def _log_difference(a: Tensor, b: Tensor) -> Tensor:
    """log|exp(a) - exp(b)|."""
    high, low = torch.maximum(a, b), torch.minimum(a, b)
    return high.where(low == -torch.inf, high + torch.log1p(-(low - high).exp()))
