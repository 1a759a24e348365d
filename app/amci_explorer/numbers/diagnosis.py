r"""What the draws at one point say: the verdict, each term's weights, the way to mu."""

from __future__ import annotations

__all__ = ["Answer", "Diagnosis", "TermWeights", "diagnosis"]

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

import amci_core as amci
from amci_core.diagnostics import TermDiagnostics, pareto_tail
from amci_core.diagnostics.verdict import LEVELS
from amci_core.estimation import Estimate
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.known import Mu, exact

BINS = 40
# Draws of less than this share of the mean weight, as a power of ten, are not drawn.
LOWEST = -6.0
TAIL_POINTS = 60
# Numbers of draws at which the estimate is followed.
STOPS = 36


@dataclass(frozen=True)
class TermWeights:
    """The weights t w of one term on the draws that carry it, n of them.

    Arguments:
        name: The term, such as E1_plus.
        proposal: The proposal that they come from, such as q1_plus.
        x: The draws, (n, D).
        log_weights: log10 of t w over its mean, (n,); NaN where t w is zero.
        edges: Edges of the bins of the histogram of these, B + 1.
        heights: Draws in each bin, B.
        tail: Where the fitted tail is followed, in log10 of t w over its mean.
        tail_heights: Draws that it expects in a bin there.
        k: Pareto k-hat; NaN where it cannot be judged, -inf where there is no tail.
        error: Its standard error.
        threshold: The largest k-hat that ArviZ calls good with so many draws.
        effective: Effective sample size, in draws: the smaller of what these draws and the draws
            of all components show.
        nonzero: Draws at which t w is not zero.
        largest: Share of the largest.
    """

    name: str
    proposal: str
    x: Array
    log_weights: Array
    edges: Array
    heights: Array
    tail: Array
    tail_heights: Array
    k: float
    error: float
    threshold: float
    effective: float
    nonzero: int
    largest: float


@dataclass(frozen=True)
class Along:
    """AMCI's estimate along the draws, at B numbers of draws from each proposal.

    Arguments:
        draws: These numbers, (B,).
        value: The estimate, (B,), in units of f.
        low: Lower end of its 95 % interval, (B,).
        high: Upper end, (B,).
        control: The estimate with control variates, (B,), in units of f.
    """

    draws: Array
    value: Array
    low: Array
    high: Array
    control: Array


@dataclass(frozen=True)
class Answer:
    """What AMCI with control variates says.

    Arguments:
        draws: With which draws, in words.
        value: Its estimate, in units of f.
        error: Standard error of that.
        level: The verdict on it, one of `LEVELS`.
    """

    draws: str
    value: float
    error: float
    level: str

    @classmethod
    def of(cls, draws: str, found: Estimate) -> Answer:
        level = str(found.verdict.level)
        return cls(draws, float(found.value), float(found.standard_error), level)


@dataclass(frozen=True)
class Diagnosis:
    """What the draws at one (y, theta) say.

    Arguments:
        draws: Draws from each proposal.
        mu: What the estimate is compared with.
        estimate: AMCI's estimate from all of these draws.
        terms: One for each term that the estimate needs draws for.
        level: The verdict on AMCI with all of these draws, one of `LEVELS`.
        text: It with its first reason.
        reasons: What speaks against the estimate.
        answers: Of AMCI with control variates with the same draws; unless that is reliable, with
            others too.
        along: The estimate along the draws.
    """

    draws: int
    mu: Mu
    estimate: float
    terms: tuple[TermWeights, ...]
    level: str
    text: str
    reasons: tuple[str, ...]
    answers: tuple[Answer, ...]
    along: Along


def diagnosis(
    problem: Problem,
    proposals: Proposals,
    *,
    y: Tensor,
    theta: Tensor | None,
    draws: int,
    seed: int,
    mu: Mu | None = None,
) -> Diagnosis:
    """Weights and verdict, and the estimate along more and more of the draws.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: A single one, checked, (D_y,).
        theta: A single one, checked, (D_theta,), or None.
        draws: Draws from each proposal that are asked for; at least 1,000 are looked at.
        seed: Whole number >= 0.
        mu: What the estimate is compared with; by default what the problem knows.
    """
    seen = CaseDraws(problem, proposals, y, theta, draws=draws, seed=seed)
    n = seen.n
    found = seen.estimate("amci", n)
    answers = [Answer.of("the same draws", seen.estimate("amci-cv", n))]
    if answers[0].level != LEVELS[0]:
        ways: dict[str, dict[str, Any]] = {
            "four times as many draws": {"draws": 4 * seen.draws.n},
            "half of the draws from the defensive density": {
                "draws": seen.draws.n,
                "defensive": 0.5,
            },
        }
        answers += [
            Answer.of(words, amci.estimate(problem, proposals, y, theta, **how, seed=seed))
            for words, how in ways.items()
        ]
    rows = []
    for stop in np.unique(np.rint(np.geomspace(4, n, STOPS)).astype(int)).tolist():
        at, control = (seen.estimate(name, stop) for name in ("amci", "amci-cv"))
        low, high = at.interval()
        rows.append([stop, float(at.value), float(low), float(high), float(control.value)])
    return Diagnosis(
        draws=n,
        mu=mu or exact(problem, y, theta),
        estimate=float(found.value),
        terms=tuple(
            _weights(name, term, seen.points[term.proposal])
            for name, term in found.diagnostics.items()
        ),
        level=str(found.verdict.level),
        text=found.verdict.text,
        reasons=found.verdict.reasons,
        answers=tuple(answers),
        along=Along(*np.array(rows).T),
    )


def _weights(name: str, term: TermDiagnostics, x: Array) -> TermWeights:
    positive = term.weights > 0
    mean = term.weights.mean() if positive.any() else 1.0
    with np.errstate(divide="ignore"):
        natural = np.log(term.weights / mean)
    log_weights = np.where(positive, natural / math.log(10), np.nan)
    shown = log_weights[positive]
    low, high = (shown.min(), shown.max()) if len(shown) else (0.0, 0.0)
    low = max(low, min(LOWEST, high - 1))
    if high - low < 1e-9:
        low, high = low - 0.01, high + 0.01
    heights, edges = np.histogram(shown, BINS, range=(low, high))
    fitted, width = pareto_tail(natural), edges[1] - edges[0]
    # Draws that the fitted tail expects in a bin, from its cutoff to past the last draw.
    places = heights_there = np.empty(0)
    if fitted.scale != 0:
        start, end = fitted.log_cutoff / math.log(10), edges[-1] + 8 * width
        if fitted.k < 0:
            # Such a tail ends, at a weight of u (1 - sigma / k).
            end = min(end, start + math.log10(1 - fitted.scale / fitted.k))
        places = np.linspace(start, end, TAIL_POINTS)
        density = fitted.log_density(places * math.log(10)) * math.log(10)
        places, heights_there = places[density > 0], (fitted.size * width * density)[density > 0]
    return TermWeights(
        name=name,
        proposal=term.proposal,
        x=x,
        log_weights=log_weights,
        edges=edges,
        heights=heights.astype(np.float64),
        tail=places,
        tail_heights=heights_there,
        k=float(term.pareto_k),
        error=fitted.error,
        threshold=float(term.pareto_threshold),
        effective=float(term.smallest_ess),
        nonzero=int(term.nonzero_draws),
        largest=float(term.largest_weight),
    )
