r"""Draws of all proposals and of a defensive density, weighted to each density of a case."""

from __future__ import annotations

__all__ = ["FEWEST", "NAMES", "WANTED", "Weighted", "log_densities", "present_at", "weighted"]

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor

from amci_core.estimators.draws import Array
from amci_core.flows import ConditionalDensity, Proposals
from amci_core.flows.proposals import draw_all
from amci_core.models import DefensiveDensity, Problem
from amci_core.models.base import Density
from amci_explorer.numbers.grids import LEAST, outward

# What fewer effective draws show is not judged.
FEWEST = 30.0
NAMES = {"target": "g", "target_minus": "g⁻", "posterior": "the posterior"}
PROPOSALS = ("q1", "q1_minus", "q2")
# What each should look like.
WANTED = {"q1": "target", "q1_minus": "target_minus", "q2": "posterior"}


@dataclass(frozen=True)
class Weighted:
    """n draws x (n, D) from the equal mixture of all proposals and the reference.

    Arguments:
        x: The points, (n, D).
        log_weights: log w of each density in nats, up to a constant for g and the posterior, (n,).
        log_abs_f: log|f| at the points, (n,).
        present: The proposals by name.
    """

    x: Array
    log_weights: Mapping[str, Array]
    log_abs_f: Array
    present: Mapping[str, ConditionalDensity]

    def weights(self, name: str) -> Array:
        """Weights of one density, of sum one; zeros where no draw has any."""
        log_w = self.log_weights[name]
        w = np.exp(log_w - max(log_w.max(), LEAST))
        return np.asarray(w / max(w.sum(), 1e-300))

    def log_mean(self, name: str) -> float:
        """log of the mean weight: of E1_plus, E1_minus or E2 for what is wanted."""
        return float(logsumexp(self.log_weights[name]) - np.log(len(self.x)))

    def effective(self, name: str) -> float:
        """The effective sample size for a density."""
        squares = np.square(self.weights(name)).sum()
        return float(1 / squares) if squares > 0 else 0.0

    @property
    def wanted(self) -> list[str]:
        """What proposals should look like, by name."""
        return [name for name in NAMES if name in self.log_weights]

    def cumulative(self, i: int) -> tuple[Array, list[Array]]:
        """Coordinate i in order, (n,), and the weight up to there of all that is wanted."""
        order = self.x[:, i].argsort()
        rows = [self.weights(name)[order].cumsum() for name in self.wanted]
        return self.x[order, i], [row for row in rows if row[-1] > 0]

    def extent(self, i: int, tail: float, problem: Problem) -> tuple[float, float]:
        """Ends of an axis of coordinate i that leaves out that share on either side."""
        x, rows = self.cumulative(i)
        ends = [np.interp([tail, 1 - tail], row, x) for row in rows] or [x[[0, -1]]]
        return outward(float(np.min(ends)), float(np.max(ends)), problem.x)

    def doubt(self, name: str) -> str:
        """Why a density is not judged; empty where it is."""
        many = self.effective(name)
        if many >= FEWEST:
            return ""
        return f"Not judged: {NAMES.get(name, name)}, effective sample size {many:.0f}."


def present_at(
    proposals: Proposals, y: Tensor, theta: Tensor | None
) -> dict[str, ConditionalDensity]:
    """The proposals that there are, at a case, by name."""
    return {PROPOSALS[j]: q for j, q in proposals.at(y, theta).items()}


def weighted(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, *, draws: int
) -> Weighted:
    """Draws from every proposal and the problem's reference, always from the same noise.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
        draws: Draws from each.
    """
    present = present_at(proposals, y, theta)
    terms = ("E1_plus", "E2") if problem.nonnegative else ("E1_plus", "E1_minus", "E2")
    densities: dict[str, Density] = {
        **present,
        "reference": DefensiveDensity(problem, y, theta, terms),
    }
    sources = {name: torch.Generator().manual_seed(i) for i, name in enumerate(densities)}
    drawn, log_q = draw_all(densities, dict.fromkeys(densities, draws), sources)
    points = torch.cat(list(drawn.values()), -2)
    logs = {name: torch.cat(list(parts.values()), -1).numpy() for name, parts in log_q.items()}
    log_mixture = logsumexp(np.stack(list(logs.values())), axis=0) - np.log(len(logs))
    log_p = log_densities(problem, points, y, theta)
    log_p |= {name: logs[name] for name in present}
    with np.errstate(invalid="ignore", divide="ignore"):
        log_weights = {name: _number(row - log_mixture) for name, row in log_p.items()}
        log_f = _number(problem.f(points, theta).abs().log().numpy())
    return Weighted(points.numpy(), log_weights, log_f, present)


def log_densities(
    problem: Problem, points: Tensor, y: Tensor, theta: Tensor | None
) -> dict[str, Array]:
    """Logarithms of f_plus p(x, y), f_minus p(x, y) where there is one, and p(x, y), (n,) each."""
    log_joint = problem.log_joint(points, y)
    sides = zip(("target", "target_minus"), problem.f_parts(points, theta), strict=True)
    found = {name: log_joint + side.log() for name, side in sides if side is not None}
    return {name: _number(v.numpy()) for name, v in {**found, "posterior": log_joint}.items()}


def _number(values: Array) -> Array:
    """What is no number, or infinite where f or p overflows, is taken for the log of zero."""
    return np.where(values < np.inf, values, -np.inf)
