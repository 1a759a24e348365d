r"""Densities over x on the line, by a quadrature that finds where they are."""

from __future__ import annotations

__all__ = ["Line", "LineDensities", "line_densities"]

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import ConditionalDensity, Proposals
from amci_core.models import DefensiveDensity, Problem
from amci_core.models.base import Density
from amci_explorer.numbers import Densities, Look
from amci_explorer.numbers.grids import (
    EDGE,
    LEAST,
    REGION_MASS,
    densest,
    ends_of_f,
    exponential,
    integral,
    outward,
)
from amci_explorer.numbers.weighted import NAMES, WANTED, log_densities, present_at

SHOWN_MASS = 0.9995
# Draws of each density that say where to look, and points in the picture beside those needed.
DRAWS, EVEN = 64, 151
# An interval is divided in four while straight lines over it are wrong by this share of a
# density's mass, and no longer than for so many rounds and points.
STRAIGHT, ROUNDS, MOST = 3e-5, 24, 1500
QUARTERS = np.array([0.25, 0.5, 0.75])
# A density of which a larger share is not resolved is not shown.
LARGEST_DOUBT = 0.01
# Distances from the prior's median and from an end of f, in units of the prior's spread.
FAR = np.sinh(np.linspace(-10, 10, 61))
NEAR = 4.0 ** np.arange(-10, 6)
OPTIMAL = {"target": "q1_plus", "target_minus": "q1_minus", "posterior": "q2"}


@dataclass(frozen=True, kw_only=True)
class Line(Densities):
    """Densities over one coordinate at n points, (n,) each.

    Arguments:
        x: Points, increasing, closer where densities change; (n,).
        region: An interval that carries 99 % of g.
        extent: What the picture shows of x.
        threshold: Where f begins or ends, if that is known.
    """

    x: Array
    region: tuple[float, float]
    extent: tuple[float, float]
    threshold: float | None

    @property
    def axes(self) -> dict[str, Array]:
        return {"x": self.x}

    def sentences(self) -> list[str]:
        at = [] if self.threshold is None else [f"The threshold is at {self.threshold:.3g}."]
        low, high = self.region
        known = np.isfinite(self.target).any()
        return [*at, *([f"99 % of g lies from {low:.3g} to {high:.3g}."] if known else [])]


@dataclass(frozen=True, kw_only=True)
class LineDensities(Line):
    """Densities over x on the line.

    Arguments:
        log_ratio: log q1 - log g in nats, NaN where g is zero; (n,).
        log_ratio_minus: Where f takes both signs, likewise for q1_minus; (n,).
    """

    log_ratio: Array
    log_ratio_minus: Array | None = None

    @property
    def columns(self) -> dict[str, Array]:
        minus = {} if self.log_ratio_minus is None else {"log_ratio_minus": self.log_ratio_minus}
        return super().columns | {"log_ratio": self.log_ratio} | minus

    @property
    def divergence(self) -> float:
        # Where g is zero there is no ratio; where g is not known the divergence is not, either.
        log_g_over_q = -np.nan_to_num(self.log_ratio)
        # Both densities have mass one: with them the integrand is nowhere negative.
        found = integral(self.target * log_g_over_q - self.target + self.q1, self.x)
        return max(float(found), 0.0)

    def sentences(self) -> list[str]:
        return ["Densities over x.", *super().sentences()]


def line_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Look
) -> LineDensities:
    """What proposals on the line look like beside what they should be.

    f p(x, y), p(x, y) and the proposals are computed on points that grow closer until straight
    lines between them will do; what is known in closed form takes their place.

    Arguments:
        problem: A problem whose x is one number.
        proposals: Proposals for it.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
        settings: How wide the picture is.
    """
    present = present_at(proposals, y, theta)
    bounds = ends_of_f(problem, theta)
    x, log_all, doubts = _resolved(
        lambda x: _log_all(problem, present, y, theta, x),
        _first_points(problem, present, y, theta, bounds),
    )
    log_wanted = log_all[: len(log_all) - len(present)]
    low, high = extent = settings.extent or _extent(x, log_wanted, problem)
    edges = [bound + side * EDGE for bound in bounds for side in (-1, 0, 1)]
    shown = np.unique([*x, *np.linspace(low, high, EVEN), *edges])
    # At an end of the range itself, which x leaves out, a density may be infinite.
    shown = shown[(shown >= max(low, x[0])) & (shown <= min(high, x[-1]))]
    top = np.maximum(log_wanted.max(-1, keepdims=True), LEAST)
    with np.errstate(divide="ignore"):  # f can be zero everywhere
        log_mass = np.log(integral(np.exp(log_wanted - top), x)) + log_wanted.max(-1)
    points = torch.from_numpy(shown)[:, None]
    optimal = problem.optimal_proposals() or {}
    log_p = log_densities(problem, points, y, theta)
    for (name, row), mass, doubt in zip(log_p.items(), log_mass, doubts, strict=False):
        best = optimal.get(OPTIMAL[name])
        if best is not None:
            log_p[name] = best(y, theta).log_prob(points).numpy()
        else:
            log_p[name] = row - mass if doubt <= LARGEST_DOUBT else np.full_like(row, np.nan)
    unknown = [NAMES[name] for name, row in log_p.items() if np.isnan(row).all()]
    log_q = {name: q.log_prob(points).numpy() for name, q in present.items()}
    found: dict[str, Any] = {n: exponential(row) for n, row in (log_p | log_q).items()}
    for name, ratio in (("q1", "log_ratio"), ("q1_minus", "log_ratio_minus")):
        if name in log_q:
            found[ratio] = _log_ratio(log_p[WANTED[name]], log_q[name])
    return LineDensities(
        x=shown,
        **found,
        region=densest(shown, np.nan_to_num(found["target"]), REGION_MASS),
        extent=extent,
        threshold=bounds[0] if len(bounds) == 1 else None,
        variant=proposals.variant,
        doubt=f"Not judged: {' and '.join(unknown)}, which could not be located."
        if unknown
        else "",
    )


def _log_ratio(log_g: Array, log_q: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(log_g) & np.isfinite(log_q), log_q - log_g, np.nan)


def _log_all(
    problem: Problem,
    present: dict[str, ConditionalDensity],
    y: Tensor,
    theta: Tensor | None,
    x: Array,
) -> Array:
    """What `log_densities` and then the proposals give at points x (n,), in one array (k, n)."""
    points = torch.from_numpy(x)[:, None]
    wanted = log_densities(problem, points, y, theta).values()
    return np.stack([*wanted, *(q.log_prob(points).numpy() for q in present.values())])


@lru_cache(64)
def _prior_points(problem: Problem) -> tuple[Array, float]:
    """Points that cover the prior, near and far, and its spread."""
    draws = problem.sample_prior(4096, torch.Generator().manual_seed(0)).double().numpy()[:, 0]
    quantiles = np.quantile(draws, np.linspace(0, 1, 33))
    low, centre, high = quantiles[[8, 16, 24]]
    spread = max(high - low, 1e-12)
    return np.concatenate([quantiles, centre + spread * FAR]), float(spread)


def _first_points(
    problem: Problem,
    present: dict[str, ConditionalDensity],
    y: Tensor,
    theta: Tensor | None,
    bounds: list[float],
) -> Array:
    prior, spread = _prior_points(problem)
    ends = [*bounds, *(end for end in (problem.x.low, problem.x.high) if np.isfinite(end))]
    around = [end + side * np.array([EDGE, *(spread * NEAR)]) for end in ends for side in (-1, 1)]
    densities: list[Density] = [*present.values(), DefensiveDensity(problem, y, theta)]
    drawn = [q.draw(DRAWS, torch.Generator().manual_seed(0))[0].numpy()[:, 0] for q in densities]
    x = np.concatenate([prior, *around, *drawn])
    inside = (x > problem.x.low) & (x < problem.x.high) & np.isfinite(x)
    return np.unique(x[inside])


def _resolved(log_values: Callable[[Array], Array], x: Array) -> tuple[Array, Array, Array]:
    """Points on which densities are straight, their logarithms there, and shares in doubt.

    Arguments:
        log_values: Gives k logarithms at n points, (k, n).
        x: The points to begin with.
    """
    v = log_values(x)
    at, doubt = np.arange(len(x) - 1), np.ones(len(v))
    for _ in range(ROUNDS):
        width = x[at + 1] - x[at]
        inner = x[at, None] + width[:, None] * QUARTERS
        v_inner = log_values(inner.ravel()).reshape(len(v), *inner.shape)
        # Where a density is highest may be seen only now.
        top = np.maximum(v.max(-1), v_inner.max((1, 2)))
        top = np.maximum(top, LEAST)[:, None, None]
        low, high = (np.exp(side[..., None] - top) for side in (v[:, at], v[:, at + 1]))
        bent = np.abs(np.exp(v_inner - top) - low - (high - low) * QUARTERS).mean(-1) * width
        mass = np.maximum(integral(np.exp(v - top[..., 0]), x), bent.max(-1))
        bent /= np.maximum(mass, 1e-300)[:, None]
        doubt = bent.sum(-1)
        rough = (bent > STRAIGHT).any(0) & (inner[:, 0] > x[at]) & (inner[:, 2] < x[at + 1])
        if not rough.any() or len(x) > MOST:
            break
        x = np.concatenate([x, inner[rough].ravel()])
        v = np.concatenate([v, v_inner[:, rough].reshape(len(v), -1)], -1)
        order = x.argsort()
        divided = at[rough] + 3 * np.arange(rough.sum())
        at = (divided[:, None] + np.arange(4)).ravel()
        x, v = x[order], v[:, order]
    return x, v, np.where(v.max(-1) > -np.inf, doubt, 1.0)


def _extent(x: Array, log_density: Array, problem: Problem) -> tuple[float, float]:
    """Ends of an axis that shows nearly all of each density."""
    rows = [row for row in log_density if row.max() > -np.inf]
    ends = [densest(x, exponential(row - row.max()), SHOWN_MASS) for row in rows]
    if not ends:
        return float(x[0]), float(x[-1])
    return outward(min(end[0] for end in ends), max(end[1] for end in ends), problem.x)
