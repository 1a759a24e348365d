r"""What follows from the user's choices: numbers for pictures, no widgets."""

from __future__ import annotations

__all__ = [
    "BUDGETS",
    "COLUMNS",
    "REUSE_GRID",
    "SMALLEST_DENSITY",
    "X_RANGE",
    "Densities",
    "Store",
]

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

import amci_core as amci
from amci_core.estimators.draws import Array
from amci_core.evaluation import ErrorCurves, ReuseErrors
from amci_core.flows import Proposal, Proposals
from amci_core.pretrained import Snapshot
from app.state import Choice
from app.summary import Summary, summarize

BUDGETS = tuple(np.unique(2 * np.rint(np.geomspace(1, 5000, 28)).astype(int)).tolist())
REUSE_GRID = np.linspace(-0.5, 1.5, 41).round(10)

SMALLEST_DENSITY = 1e-30
# Just above the threshold, where g jumps, and not so near that rounding shows.
EDGE = 1e-7
REGION_MASS = 0.99
COLUMNS = ("x", "target", "posterior", "q1", "q2", "log_ratio")


@dataclass(frozen=True)
class Densities:
    """Densities over x at one (y, theta), all normalised, on n points.

    Arguments:
        x: Points, increasing, closer above the threshold; (n,).
        target: g, proportional to f p(x | y); (n,).
        posterior: p(x | y), (n,).
        q1: The learnt proposal for E1, (n,).
        q2: The learnt proposal for E2, (n,).
        log_ratio: log q1 - log g in nats, NaN where g is zero; (n,).
        region: The shortest interval that carries 99 % of g.
        threshold: theta.
    """

    x: Array
    target: Array
    posterior: Array
    q1: Array
    q2: Array
    log_ratio: Array
    region: tuple[float, float]
    threshold: float

    @property
    def divergence(self) -> float:
        """KL(g || q1) in nats, by the trapezoid rule."""
        g = np.where(np.isfinite(self.log_ratio), self.target, 0)
        return float(-np.trapezoid(g * np.nan_to_num(self.log_ratio), self.x))


class Store:
    """Derived data for one problem with one-dimensional x, and its exact proposals as reference.

    Arguments:
        problem: Name of the problem.
    """

    def __init__(self, problem: str) -> None:
        self.problem = amci.problem(problem)
        self._exact = amci.load_proposals(problem, variant="oracle")

    @cached_property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The training film, read when it is first asked for."""
        return amci.load_snapshots(self.problem.name)

    def proposals(self, choice: Choice) -> Proposals:
        """The proposals chosen, or those of a frame of the film."""
        if choice.snapshot is not None and self.snapshots:
            return self.snapshots[min(choice.snapshot, len(self.snapshots) - 1)].proposals
        return amci.load_proposals(self.problem.name, variant=choice.variant)

    def densities(self, choice: Choice) -> Densities:
        """What the proposals look like beside what they should be."""
        proposals = self.proposals(choice)
        assert self._exact.q2 is not None
        assert proposals.q2 is not None
        x = _points(choice.theta)
        log_g = self._log_density(self._exact.q1_plus, choice, x)
        log_q1 = self._log_density(proposals.q1_plus, choice, x)
        inside = np.isfinite(log_g)
        log_ratio = np.full_like(x, np.nan)
        log_ratio[inside] = log_q1[inside] - log_g[inside]
        target = _density(log_g)
        return Densities(
            x=x,
            target=target,
            posterior=_density(self._log_density(self._exact.q2, choice, x)),
            q1=_density(log_q1),
            q2=_density(self._log_density(proposals.q2, choice, x)),
            log_ratio=np.where(np.isfinite(log_ratio), log_ratio, np.nan),
            region=_region(x, target),
            threshold=choice.theta,
        )

    def summary(self, choice: Choice) -> Iterator[Summary]:
        """The figures of the strip, once."""
        yield summarize(
            self.problem,
            self.proposals(choice),
            y=choice.y,
            theta=choice.theta,
            draws=choice.draws,
            seed=choice.seed,
        )

    def error_curves(self, choice: Choice) -> Iterator[ErrorCurves]:
        """Errors against total draws, over more and more runs."""
        return amci.stream_error_curves(
            self.problem,
            self.proposals(choice),
            choice.y,
            choice.theta,
            budgets=BUDGETS,
            runs=choice.runs,
            seed=choice.seed,
        )

    def reuse(self, choice: Choice) -> Iterator[ReuseErrors]:
        """Errors over (alpha, beta) at N = M draws, over more and more runs."""
        return amci.stream_reuse_errors(
            self.problem,
            self.proposals(choice),
            choice.y,
            choice.theta,
            alphas=REUSE_GRID.tolist(),
            betas=REUSE_GRID.tolist(),
            draws=choice.draws,
            runs=choice.runs,
            seed=choice.seed,
        )

    @torch.inference_mode()
    def _log_density(self, proposal: Proposal, choice: Choice, x: Array) -> Array:
        y, theta = self.problem.check(choice.y, choice.theta)
        return proposal(y, theta).log_prob(torch.as_tensor(x)[:, None]).numpy()


# Wide enough for every posterior and every g that the sliders reach.
X_RANGE = (-5.0, 7.5)
_UNIFORM = np.linspace(*X_RANGE, 251)
_ABOVE = np.geomspace(1e-3, X_RANGE[1], 100)


def _points(theta: float) -> Array:
    # g can be as narrow as 0.07 and starts with a jump: dense points where it is, and one on
    # either side of the threshold.
    above = theta + _ABOVE
    edge = [theta, theta + EDGE]
    return np.unique(np.concatenate([_UNIFORM, edge, above[above < X_RANGE[1]]]))


def _density(log_density: Array) -> Array:
    # A floor instead of zero, which a logarithmic axis cannot show.
    return np.maximum(np.exp(log_density), SMALLEST_DENSITY)


def _region(x: Array, target: Array) -> tuple[float, float]:
    mass = np.concatenate([[0], np.cumsum(np.diff(x) * (target[1:] + target[:-1]) / 2)])
    mass /= mass[-1]
    lows = np.linspace(0, 1 - REGION_MASS, 201)
    low, high = np.interp(lows, mass, x), np.interp(lows + REGION_MASS, mass, x)
    # Where g is zero `mass` is flat, and the interpolation gives its left end.
    low = np.maximum(low, x[np.flatnonzero(target > SMALLEST_DENSITY)[0]])
    shortest = int(np.argmin(high - low))
    return float(low[shortest]), float(high[shortest])
