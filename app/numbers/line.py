r"""Densities over x on the line, by a quadrature that finds where they are."""

from __future__ import annotations

__all__ = ["CURVES", "Line", "LineDensities", "line_densities"]

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import ConditionalDensity, Proposals
from amci_core.models import Problem, Reference
from amci_core.models.base import Density
from app.numbers import Settings
from app.numbers.grids import LEAST, densest, exponential, outward, trapezoid_weights
from app.numbers.weighted import NAMES, PROPOSALS, WANTED, log_densities

CURVES = ("target", "posterior", "q1", "q2", "target_minus", "q1_minus")
REGION_MASS, SHOWN_MASS = 0.99, 0.9995
# Just inside the end of f's support, where g may jump, and not so near that rounding shows.
EDGE = 1e-7
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


@dataclass(frozen=True, kw_only=True)
class Line:
    """Densities over one coordinate at one (y, theta), all normalised, on n points.

    What is not known, or cannot be judged, is NaN.

    Arguments:
        x: Points, increasing, closer where densities change; (n,).
        target: g, proportional to f_plus p(x | y); (n,).
        posterior: p(x | y), (n,).
        q1: The proposal for E1_plus, (n,).
        q2: The proposal for E2, (n,); None where none is needed.
        target_minus: Where f takes both signs, as `target` for f_minus; (n,).
        q1_minus: Likewise, the proposal for E1_minus, (n,).
        region: An interval that carries 99 % of g.
        extent: What the picture shows of x.
        threshold: Where f begins or ends, if that is known.
        variant: Which proposals.
        doubt: What is not judged and why, in words.
    """

    x: Array
    target: Array
    posterior: Array
    q1: Array
    q2: Array | None
    target_minus: Array | None = None
    q1_minus: Array | None = None
    region: tuple[float, float]
    extent: tuple[float, float]
    threshold: float | None
    variant: str
    doubt: str = ""

    @property
    def columns(self) -> dict[str, Array]:
        """What there is, by name, each (n,)."""
        there = {name: getattr(self, name) for name in ("x", *CURVES)}
        return {name: column for name, column in there.items() if column is not None}

    def describe(self, about: str) -> str:
        """A text alternative that begins with what the picture is about."""
        at = "" if self.threshold is None else f" The threshold is at {self.threshold:.3g}."
        low, high = self.region
        lies = f" 99 % of g lies from {low:.3g} to {high:.3g}."
        known = np.isfinite(self.target).any()
        return about + at + (lies if known else "") + (f" {self.doubt}" if self.doubt else "")


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
        """KL(g || q1) in nats, by the trapezoid rule."""
        if not np.isfinite(self.target).all():
            return float("nan")
        g = np.where(np.isfinite(self.log_ratio), self.target, 0)
        return max(float(-np.trapezoid(g * np.nan_to_num(self.log_ratio), self.x)), 0.0)

    def about(self) -> str:
        found = self.divergence
        known = f" The divergence of q1 from g is {found:.2g} nats." if found == found else ""
        return self.describe("Densities over x.") + known


def line_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Settings
) -> LineDensities:
    """What proposals on the line look like beside what they should be.

    f p(x, y) and p(x, y) are computed on points that grow closer until straight lines between
    them will do; what is known in closed form takes their place.

    Arguments:
        problem: A problem whose x is one number.
        proposals: Proposals for it.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
        settings: How wide the picture is.
    """
    present = proposals.at(y, theta)
    bounds = _bounds(problem, theta)
    x, log_wanted, doubts = _resolved(
        lambda x: _log_wanted(problem, y, theta, x),
        _first_points(problem, present, y, theta, bounds),
    )
    extent = settings.extent or _extent(x, log_wanted)
    low, high = extent
    edges = [bound + side * EDGE for bound in bounds for side in (-1, 0, 1)]
    shown = np.unique([*x[(x >= low) & (x <= high)], *np.linspace(low, high, EVEN), *edges])
    log_mass = np.log(_mass(x, log_wanted)) + log_wanted.max(-1)
    points = torch.from_numpy(shown)[:, None]
    optimal = problem.optimal_proposals() or {}
    log_p = log_densities(problem, points, y, theta)
    for (name, row), mass, doubt in zip(log_p.items(), log_mass, doubts, strict=True):
        best = optimal.get(OPTIMAL[name])
        if best is not None:
            log_p[name] = best(y, theta).log_prob(points).numpy()
        else:
            log_p[name] = row - mass if doubt <= LARGEST_DOUBT else np.full_like(row, np.nan)
    unknown = [NAMES[name] for name, row in log_p.items() if np.isnan(row).all()]
    log_q = {PROPOSALS[j]: q.log_prob(points).numpy() for j, q in present.items()}
    found: dict[str, Any] = {n: exponential(row) for n, row in (log_p | log_q).items()}
    for name, ratio in (("q1", "log_ratio"), ("q1_minus", "log_ratio_minus")):
        if name in log_q:
            found[ratio] = _log_ratio(log_p[WANTED[name]], log_q[name])
    return LineDensities(
        x=shown,
        **({"q2": None} | found),
        region=densest(shown, np.nan_to_num(found["target"]), REGION_MASS),
        extent=extent,
        threshold=bounds[0] if len(bounds) == 1 else None,
        variant=proposals.variant,
        doubt=f"Not judged: {' and '.join(unknown)}, found nowhere." if unknown else "",
    )


OPTIMAL = {"target": "q1_plus", "target_minus": "q1_minus", "posterior": "q2"}


def _log_ratio(log_g: Array, log_q: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(log_g) & np.isfinite(log_q), log_q - log_g, np.nan)


def _log_wanted(problem: Problem, y: Tensor, theta: Tensor | None, x: Array) -> Array:
    """What `log_densities` gives at points x (n,), in one array (k, n)."""
    return np.stack([*log_densities(problem, torch.from_numpy(x)[:, None], y, theta).values()])


def _bounds(problem: Problem, theta: Tensor | None) -> list[float]:
    """Ends of the set where f_plus lies that are not ends of the prior's."""
    support, whole = problem.support_plus(theta), problem.support
    ends = [getattr(support, name, None) for name in ("lower_bound", "upper_bound")]
    others = [getattr(whole, name, None) for name in ("lower_bound", "upper_bound")]
    found = [None if end is None else float(end) for end in ends]
    known = {float(end) for end in others if end is not None}
    return [end for end in found if end is not None and end not in known and np.isfinite(end)]


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
    present: dict[int, ConditionalDensity],
    y: Tensor,
    theta: Tensor | None,
    bounds: list[float],
) -> Array:
    prior, spread = _prior_points(problem)
    ends = [*bounds, *(end for end in (problem.x.low, problem.x.high) if np.isfinite(end))]
    around = [end + side * np.array([EDGE, *(spread * NEAR)]) for end in ends for side in (-1, 1)]
    drawn = []
    densities: list[Density] = [*present.values(), Reference(problem, y, theta)]
    for density in densities:
        drawn.append(density.draw(DRAWS, torch.Generator().manual_seed(0))[0].numpy()[:, 0])
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
        mass = np.maximum(np.exp(v - top[..., 0]) @ trapezoid_weights(x), bent.max(-1))
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


def _mass(x: Array, log_density: Array) -> Array:
    """Integrals (k,) of densities (k, n), each in units of its largest value."""
    top = np.maximum(log_density.max(-1, keepdims=True), LEAST)
    return np.asarray(np.exp(log_density - top) @ trapezoid_weights(x))


def _extent(x: Array, log_density: Array) -> tuple[float, float]:
    """Ends of an axis that shows nearly all of each density."""
    rows = [row for row in log_density if row.max() > -np.inf]
    ends = [densest(x, exponential(row - row.max()), SHOWN_MASS) for row in rows]
    if not ends:
        return float(x[0]), float(x[-1])
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    room = 0.08 * (high - low)
    return outward(low - room, high + room)
