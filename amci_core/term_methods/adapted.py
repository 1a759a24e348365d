r"""Quadrature, and long runs of importance sampling, from a density that is adapted to a term."""

from __future__ import annotations

__all__ = ["Defensive", "Quadrature"]

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.integrate import cubature
from torch import Tensor

from amci_core.diagnostics import pareto_k
from amci_core.estimators.draws import Array
from amci_core.flows.density import Density
from amci_core.term_methods.annealed import largest_step
from amci_core.term_methods.base import Integrand, StudentDensity, TermEstimate, log_mean

# Draws of an adaptation, how many there are, and the effective share of weights that is fitted to.
PILOT = 4096
ADAPTATIONS = 3
FITTED = 0.02
DEFENCE = 0.2
CHUNK = 65_536
# A long run is trusted with a smaller k-hat, more effective draws and no weight above this share.
LARGEST_K = 0.7
LEAST_EFFECTIVE = 100.0
LARGEST_SHARE = 0.05
# Points of a region in each dimension: SciPy evaluates a rule of 21 nodes, and again with one of
# 10 for its error.
NODES = 31
# In one dimension: draws of the pilot in each piece, and steps of the integrand that are pieces.
A_PIECE, STEPS = 128, 16
# How far the pilot may lie above the quadrature, in its standard errors: where that has converged,
# and where it has little to set against the pilot.
DISAGREEMENT, LITTLE = 5.0, 2.0
# Log densities of hundreds of nats are right to so much of themselves.
ROUNDING = 1e-13


class DefensiveMixture(NamedTuple):
    """The density to start from, with a fifth of the draws, and an adapted one."""

    start: Density
    adapted: StudentDensity

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        defence = max(int(DEFENCE * n), 1)
        parts = ((self.start, defence), (self.adapted, n - defence))
        x = torch.cat([density.draw(many, generator)[0] for density, many in parts])
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        return torch.logaddexp(
            self.start.log_prob(x) + math.log(DEFENCE),
            self.adapted.log_prob(x) + math.log1p(-DEFENCE),
        )


def _adapted(
    integrand: Integrand, start: Density, draws: int, generator: torch.Generator, *, degrees: float
) -> Density:
    """A defensive mixture with a density fitted to the term; the start where that finds nothing.

    The start bounds the weights by five times its own.
    """
    density = start
    for _ in range(ADAPTATIONS):
        x, log_q = density.draw(draws, generator)
        log_w = integrand.log_weight(x, log_q)
        if not (log_w > -torch.inf).any():
            break
        tempered = largest_step(log_w, 1.0, FITTED) * log_w
        fitted = StudentDensity.fitted(integrand.support, x, tempered, degrees=degrees)
        density = DefensiveMixture(start, fitted)
    return density


@dataclass(frozen=True)
class Quadrature:
    """Integrates a term in one or two dimensions by SciPy's adaptive cubature.

    The quantile map of a Cauchy density fitted to the term takes the unit cube to the support; in
    one dimension the unit interval is split at draws of a pilot of importance sampling. The pilot
    is the second rule: where it finds significantly more than the cubature does, its estimate
    counts.

    Arguments:
        relative_error: Where it stops.
        evaluations: Where it stops at the latest, about.

    Raises:
        ValueError: at the call, in more than two dimensions.
    """

    relative_error: float = 1e-6
    evaluations: int = 1_000_000

    @torch.inference_mode()
    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate:
        dim, before = integrand.dim, integrand.evaluations
        if dim > 2:
            raise ValueError(f"quadrature: expected at most two dimensions, got {dim}")
        generator = torch.Generator().manual_seed(seed)
        many = min(PILOT, self.evaluations // 10)
        # Modes twenty standard deviations away still lie well within a Cauchy density's cube.
        mixture = _adapted(integrand, start, many, generator, degrees=1.0)
        many = 4 * PILOT if dim == 1 else max(self.evaluations // 10, PILOT)
        x, log_q = mixture.draw(many, generator)
        log_w = integrand.log_weight(x, log_q)
        log_pilot, pilot_error = log_mean(log_w)
        if not isinstance(mixture, DefensiveMixture) or log_pilot == -math.inf:
            return TermEstimate(log_pilot, math.nan, integrand.evaluations - before)
        density, unit = mixture.adapted, float(log_w.max())
        spare = self.evaluations - (integrand.evaluations - before)
        left, width = torch.zeros(1, dim), torch.ones(1, 1)
        if dim == 1:
            at = (log_w + log_q - density.log_prob(x) - unit).exp().nan_to_num(0.0)
            left, width = _pieces(density.cube(x)[:, 0], at)

        def ratio(u: Array) -> Array:
            inside = left + width * torch.from_numpy(u)[:, None]
            x, log_q = density.points(inside.flatten(0, 1))
            value = (integrand.log_weight(x, log_q) - unit).exp().view(len(u), -1)
            return np.asarray(value * width[:, 0])

        found = cubature(
            ratio,
            np.zeros(dim),
            np.ones(dim),
            rtol=self.relative_error if dim > 1 else 0.0,
            atol=0.0 if dim > 1 else self.relative_error * math.exp(log_pilot - unit) / len(left),
            max_subdivisions=max(spare // (len(left) * (2 * NODES) ** dim), 1),
            points=[np.full(dim, 0.5)],
        )
        value, error = float(found.estimate.sum()), float(found.error.sum())
        log_value = unit + math.log(value) if 0 < value < math.inf else -math.inf
        doubt = DISAGREEMENT if found.status == "converged" else LITTLE
        if log_pilot - log_value > doubt * pilot_error:
            log_value, other = log_pilot, pilot_error
        else:
            other = ROUNDING * max(1.0, abs(log_value))
        error = error / math.exp(log_value - unit) + other
        error = error if error < math.inf else math.nan
        return TermEstimate(log_value, error, integrand.evaluations - before)


def _pieces(u: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Left ends and widths (P, 1) of pieces of the unit interval: about as many draws u (n,) in
    each, and the gaps between neighbouring ones over which the value (n,) changes most."""
    order = u.argsort()
    u, value = u[order], value[order]
    step = (value.diff() * u.diff()).abs().topk(STEPS).indices
    ends = [torch.tensor([0.0, 1.0]).to(u), u[::A_PIECE], u[step], u[step + 1]]
    edges = torch.cat(ends).unique()
    return edges[:-1, None], edges.diff()[:, None]


@dataclass(frozen=True)
class Defensive:
    """Estimates a term by a long run of importance sampling from a defensive mixture.

    The standard error is NaN where k-hat, the effective number of draws or the largest weight say
    that it is not to be trusted.

    Arguments:
        relative_error: Where it stops.
        evaluations: Where it stops at the latest, about.

    References:
        Hesterberg, Weighted average importance sampling and defensive mixture distributions,
        Technometrics 37, 1995.
    """

    relative_error: float = 1e-3
    evaluations: int = 1_000_000

    @torch.inference_mode()
    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate:
        generator = torch.Generator().manual_seed(seed)
        before = integrand.evaluations
        pilot = min(PILOT, self.evaluations // 10)
        density = _adapted(integrand, start, pilot, generator, degrees=4.0)
        log_w = torch.empty(0, dtype=torch.float64)
        error = math.inf
        while (
            error > self.relative_error
            and (left := self.evaluations - (integrand.evaluations - before)) > 1
        ):
            x, log_q = density.draw(min(left, max(CHUNK, len(log_w))), generator)
            log_w = torch.cat([log_w, integrand.log_weight(x, log_q)])
            log_value, error = log_mean(log_w)
        if not _trusted(log_w):
            error = math.nan
        return TermEstimate(log_value, error, integrand.evaluations - before)


def _trusted(log_w: Tensor) -> bool:
    """Whether no tail of the weights (n) speaks against their mean and its error."""
    w = log_w.softmax(0)
    if not w.isfinite().all():
        return False
    effective = 1 / float(w.square().sum())
    k = float(pareto_k(w.numpy()))
    return k < LARGEST_K and effective >= LEAST_EFFECTIVE and float(w.max()) <= LARGEST_SHARE
