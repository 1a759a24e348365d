r"""What training cost, and what AMCI and its untrained rivals take for one query (y, theta).

A rival with relative variance V per draw needs V / error^2 draws for a relative error. With T
seconds of training, AMCI at s_A seconds a query and a rival at s_R have cost the same after

    Q = T / (s_R - s_A)

queries, one at a time; if s_R <= s_A the rival is cheaper for ever. Rivals need no training: SNIS
with draws from the prior, importance sampling from the problem's defensive density of each term,
independent draws from a posterior in closed form, and for one or two coordinates of x a Gauss
rule over the uniform points that these densities transport. Times are the processor's.
"""

from __future__ import annotations

__all__ = ["QUADRATURE", "Cost", "Rival", "break_even", "cost", "training_seconds"]

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from time import thread_time
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor

import amci_core as amci
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.flows.mixture import DefensiveComponent
from amci_core.models import Problem
from amci_core.models.quadrature import gauss_legendre
from amci_explorer.numbers.known import Mu
from amci_explorer.numbers.weighted import FEWEST, log_densities, weighted

PRIOR, DEFENSIVE, POSTERIOR, QUADRATURE = "prior", "defensive", "posterior", "quadrature"
# Processor seconds from which a call is timed once.
LONG = 0.05
# Draws from each density that say what a rival's draw is worth.
DRAWS = 1024
# Numbers of draws between which a rival's time is a straight line.
FEW, MANY = 64, 4096
# Times are the least of so many.
REPEATS = 3
# Nodes along each coordinate, by the number of coordinates; beyond 64 in panels of 64.
NODES = {1: (8, 16, 32, 64, 128, 256, 512, 1024, 2048), 2: (8, 16, 32, 64)}
PANEL = 64


@dataclass(frozen=True)
class Rival:
    """A sampler that needs no training, for one query.

    Arguments:
        relative_variance: Of one draw; NaN if the draws cannot tell.
        overhead: Seconds without any draw.
        each: Seconds for each draw.
    """

    relative_variance: float
    overhead: float
    each: float

    def seconds(self, error: float) -> float:
        """Seconds until the relative error is as small; NaN if the draws cannot tell."""
        return self.overhead + self.each * max(self.relative_variance / error**2, 1.0)


@dataclass(frozen=True)
class Cost:
    """Times of AMCI and its rivals at a case.

    Arguments:
        training: Seconds of training of AMCI's proposals.
        amci: Seconds of one query with AMCI's number of draws.
        samplers: The rivals that draw, by name.
        rule: Relative error and seconds of a Gauss rule with more and more nodes.
    """

    training: float
    amci: float
    samplers: dict[str, Rival]
    rule: tuple[tuple[float, float], ...] = ()

    def rivals(self, error: float) -> dict[str, float]:
        """Seconds of each rival for a query with that relative error, the cheapest first.

        Rivals that cannot be judged or do not get there are left out.
        """
        found = {name: each.seconds(error) for name, each in self.samplers.items()}
        # A coarse rule may be right by chance.
        for wrong, seconds in reversed(self.rule):
            if wrong > error:
                break
            found[QUADRATURE] = seconds
        known = {name: seconds for name, seconds in found.items() if math.isfinite(seconds)}
        return dict(sorted(known.items(), key=lambda item: item[1]))


def break_even(training: float, own: float, rival: float) -> float:
    """Queries after which training and AMCI have taken as long as a rival alone.

    Arguments:
        training: Seconds of training.
        own: Seconds of a query with AMCI.
        rival: Seconds of a query with the rival, for the same error.

    Returns:
        training / (rival - own); infinite if the rival is never the slower one.

    Example:
        >>> round(break_even(180.0, 0.002, 0.020))
        10000
    """
    return training / (rival - own) if rival > own else math.inf


def training_seconds(proposals: Proposals) -> float | None:
    """Seconds of training of the proposals that AMCI draws from; None if none are recorded."""
    recorded = proposals.card.get("configuration", {}).get("seconds", {})
    used = [name for name in ("q1_plus", "q1_minus", "q2") if getattr(proposals, name) is not None]
    return sum(recorded[name] for name in used) if {*used} <= {*recorded} else None


def cost(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, *, draws: int, mu: Mu
) -> Cost | None:
    """Times of AMCI and its rivals; None if no training is recorded, or mu is zero or not known.

    Arguments:
        problem: The problem.
        proposals: The proposals.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
        draws: AMCI's total draws for a query.
        mu: What errors are counted from.
    """
    training = training_seconds(proposals)
    if training is None or not abs(mu.value) > 0:
        return None
    own = _seconds(partial(_answer, problem, proposals, y, theta, draws, "amci"))
    variances = _relative_variances(problem, proposals, y, theta, mu.value)
    samplers = {name: Rival(variances[name], *line) for name, line in _lines(problem).items()}
    return Cost(training, own, samplers, _rule(problem, y, theta, mu.value))


def _untrained(problem: Problem) -> dict[str, tuple[Proposals, str]]:
    """What draws without training, with its estimator."""
    made = Proposals.from_defensive(problem)
    prior = DefensiveComponent(problem, "E2")
    exact: Any = (problem.optimal_proposals() or {}).get("q2")
    found: dict[str, tuple[Proposals, str]] = {}
    if made.q2 is None:
        minus = None if problem.nonnegative else prior
        found[PRIOR] = Proposals(problem.name, PRIOR, prior, minus, None), "amci"
    else:
        found[PRIOR] = Proposals(problem.name, PRIOR, prior, None, prior), "snis-q2"
        if exact is not None:
            found[POSTERIOR] = Proposals(problem.name, POSTERIOR, exact, None, exact), "snis-q2"
    if problem.has_defensive:
        found[DEFENSIVE] = made, "amci"
    return found


@lru_cache(128)
def _lines(problem: Problem) -> dict[str, tuple[float, float]]:
    """Seconds of each rival that draws: without any draw, and for each."""
    y, theta = problem.check(*problem.typical_case())
    found = {}
    for name, (made, estimator) in _untrained(problem).items():
        few, many = (
            _seconds(partial(_answer, problem, made, y, theta, n, estimator)) for n in (FEW, MANY)
        )
        each = max(many - few, 0.0) / (MANY - FEW)
        found[name] = max(few - FEW * each, 0.0), each
    return found


def _answer(
    problem: Problem,
    proposals: Proposals,
    y: Tensor,
    theta: Tensor | None,
    draws: int,
    estimator: str,
) -> object:
    return amci.estimate(
        problem, proposals, y, theta, draws=draws, estimator=estimator, diagnose=False
    ).value


def _seconds(call: Callable[[], object]) -> float:
    """The processor's time of a call, the least of a few; of a long one, of one."""
    best = math.inf
    for _ in range(REPEATS):
        started = thread_time()
        call()
        spent = thread_time() - started
        best = min(best, spent)
        if spent > LONG:
            break
    return best


@torch.inference_mode()
def _relative_variances(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, mu: float
) -> dict[str, float]:
    """Variance over mu^2 of each rival for one draw, to first order; NaN if not judged.

    With r the density of a rival, SNIS has int p(x | y)^2 / r (f / mu - 1)^2 dx, and the mean of a
    term t has int t^2 p(x | y)^2 / r dx - (int t p(x | y) dx)^2. These are means over weighted
    draws of all proposals and the defensive density, so that a rival that misses f is judged too.
    """
    drawn = weighted(problem, proposals, y, theta, draws=DRAWS)
    x, w, log_w = (
        torch.from_numpy(drawn.x),
        drawn.weights("posterior"),
        drawn.log_weights["posterior"],
    )
    log_posterior = log_densities(problem, x, y, theta)["posterior"]
    log_posterior = log_posterior - (logsumexp(log_w) - math.log(len(w)))
    f = problem.f(x, theta).numpy() / abs(mu)

    def over(log_r: Array, square: Array) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            parts = np.where(
                (w > 0) & (square > 0), w * np.exp(log_posterior - log_r) * square, 0.0
            )
            effective = parts.sum() ** 2 / np.square(parts).sum()
        return float(parts.sum()) if effective >= FEWEST else math.nan

    log_prior = problem.log_prior(x).numpy()
    apart = np.square(f * math.copysign(1, mu) - 1)
    sides = [(f.clip(min=0), problem.log_defensive(x, y, theta).numpy())]
    if not problem.nonnegative:
        negated = problem.with_negated_f().log_defensive(x, y, theta).numpy()
        sides.append(((-f).clip(min=0), negated))

    def of_terms(log_r: list[Array], log_r2: Array | None) -> float:
        parts = [
            over(r, np.square(side)) - (w @ side) ** 2
            for r, (side, _) in zip(log_r, sides, strict=True)
        ]
        if log_r2 is not None:
            parts.append(over(log_r2, np.ones_like(f)) - 1)
        # Each term has an equal share of the draws.
        return float(len(parts) * sum(parts))

    if problem.log_evidence(y, theta) is None:
        of_prior, log_r2 = over(log_prior, apart), log_prior
    else:
        of_prior, log_r2 = of_terms([log_prior] * len(sides), None), None
    return {
        PRIOR: of_prior,
        POSTERIOR: over(log_posterior, apart),
        DEFENSIVE: of_terms([r for _, r in sides], log_r2),
    }


@torch.inference_mode()
def _rule(
    problem: Problem, y: Tensor, theta: Tensor | None, mu: float
) -> tuple[tuple[float, float], ...]:
    """Relative error and seconds of Gauss rules, from coarse to fine; none in three dimensions."""
    densities = Proposals.from_defensive(problem).at(y, theta)
    if problem.x.dim not in NODES or not all(q.transports for q in densities.values()):
        return ()
    log_E2 = problem.log_evidence(y, theta)

    def value(points: Tensor, weights: Tensor) -> float:
        terms = {}
        for j, q in densities.items():
            x, log_q = q.transport(points)
            w = (problem.log_joint(x, y) - log_q).exp()
            if j < 2:
                w = w * problem.f_parts(x, theta)[j]  # type: ignore[operator]
            terms[j] = float(weights @ w.nan_to_num())
        E2 = terms.pop(2) if log_E2 is None else math.exp(float(log_E2))
        return (terms[0] - terms.get(1, 0.0)) / E2

    def product(line: Tensor) -> Tensor:
        return torch.cartesian_prod(*[line] * problem.x.dim).view(-1, problem.x.dim)

    found = []
    for count in NODES[problem.x.dim]:
        nodes, weights = map(torch.from_numpy, gauss_legendre(min(count, PANEL)))
        panels = count // len(nodes)
        start = torch.arange(panels, dtype=nodes.dtype)[:, None]
        points = product(((nodes + 1) / 2 + start).flatten() / panels)
        rule = product((weights / 2 / panels).repeat(panels)).prod(-1)
        wrong = abs(value(points, rule) / mu - 1)
        found.append((wrong, _seconds(partial(value, points, rule))))
    return tuple(found)
