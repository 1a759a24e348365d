r"""What the draws at one point say: the verdict, each term's weights, the way to mu."""

from __future__ import annotations

__all__ = ["Along", "Answer", "Diagnosis", "TermWeights", "diagnosis"]

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

import amci_core as amci
from amci_core.diagnostics import TermDiagnostics, pareto_tail
from amci_core.diagnostics.pareto import ParetoTail
from amci_core.diagnostics.verdict import LEVELS
from amci_core.estimation import Estimate
from amci_core.estimators import TERMS
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.parallel import Stream
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.known import Mu, exact

BINS = 40
# Draws of less than this share of the mean weight, as a power of ten, are not drawn.
LOWEST = -6.0
# Half the width of the picture where all weights are equal.
NARROWEST = 0.01
TAIL_POINTS = 60
# Numbers of draws at which the estimate is followed.
STOPS, STOPS_A_STEP = 36, 9
LEVEL = 0.95


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
        below: Draws that lie below the first bin and are not zero.
        tail: Where the fitted tail is followed, in log10 of t w over its mean.
        tail_heights: Draws that it expects in a bin there.
        k: Pareto k-hat; NaN where it cannot be judged, -inf where there is no tail.
        error: Its standard error.
        threshold: The largest k-hat that ArviZ calls good with so many draws.
        effective: Effective sample size, in draws: the smaller of what these draws and the draws
            of all components show.
        nonzero: Draws at which t w is not zero.
        largest: Share of the largest.
        missed: Share of the term where its draws hardly ever go, as others see it; NaN where there
            are no others.
    """

    name: str
    proposal: str
    x: Array
    log_weights: Array
    edges: Array
    heights: Array
    below: int
    tail: Array
    tail_heights: Array
    k: float
    error: float
    threshold: float
    effective: float
    nonzero: int
    largest: float
    missed: float


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
        asked: Draws from each proposal that were asked for, of which these are the first.
        asked_text: The verdict on AMCI with these alone.
        steps: How many steps of the way there are, and are wanted.
        along: The estimate along the draws, as far as it has been followed.
    """

    draws: int
    mu: Mu
    estimate: float
    terms: tuple[TermWeights, ...]
    level: str
    text: str
    reasons: tuple[str, ...]
    answers: tuple[Answer, ...]
    asked: int
    asked_text: str
    steps: tuple[int, int]
    along: Along | None = None


def diagnosis(
    problem: Problem,
    proposals: Proposals,
    *,
    y: Tensor,
    theta: Tensor | None,
    draws: int,
    seed: int,
    mu: Mu | None = None,
) -> Stream[Diagnosis]:
    """Weights and verdict; then these with the estimate along more and more of the draws.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: A single one, checked, (D_y,).
        theta: Likewise, (D_theta,), or None.
        draws: Draws from each proposal that are asked for; at least 1,000 are looked at.
        seed: Whole number >= 0.
        mu: What the estimate is compared with; by default what the problem knows.
    """
    seen = CaseDraws(problem, proposals, y, theta, draws=draws, seed=seed)
    n = seen.n

    def weights() -> Diagnosis:
        found = seen.estimate("amci", n)
        verdict = found.verdict
        asked = verdict if draws == n else seen.estimate("amci", draws).verdict
        answers = [Answer.of("the same draws", seen.estimate("amci-cv", n))]
        if answers[0].level != LEVELS[0]:
            ways: dict[str, Any] = {
                "four times as many draws": {"draws": 4 * seen.draws.n},
                "half of the draws from the defensive density": {
                    "draws": seen.draws.n,
                    "defensive": 0.5,
                },
            }
            for words, how in ways.items():
                other = amci.estimate(problem, proposals, y, theta, **how, seed=seed)
                answers.append(Answer.of(words, other))
        return Diagnosis(
            draws=n,
            mu=mu or exact(problem, y, theta),
            estimate=float(found.value),
            terms=tuple(
                _weights(name, found.diagnostics[name], seen.points)
                for name in TERMS
                if name in found.diagnostics
            ),
            level=str(verdict.level),
            text=verdict.text,
            reasons=verdict.reasons,
            answers=tuple(answers),
            asked=draws,
            asked_text=asked.text,
            steps=(0, len(stops)),
        )

    def along(stop: int) -> tuple[float, ...]:
        at, control = (seen.estimate(name, stop) for name in ("amci", "amci-cv"))
        low, high = at.interval(LEVEL)
        return float(stop), float(at.value), float(low), float(high), float(control.value)

    stops = np.unique(np.rint(np.geomspace(4, n, STOPS)).astype(int)).tolist()
    steps = [stops[i : i + STOPS_A_STEP] for i in range(0, len(stops), STOPS_A_STEP)]

    def part(number: int) -> Any:
        return weights() if number == 0 else [along(stop) for stop in steps[number - 1]]

    def merge(parts: Sequence[Any]) -> Diagnosis:
        everything: Diagnosis = parts[0]
        rows = [row for step in parts[1:] for row in step]
        if not rows:
            return everything
        return replace(everything, steps=(len(rows), len(stops)), along=Along(*np.array(rows).T))

    return Stream(1 + len(steps), part, merge)


def _weights(name: str, term: TermDiagnostics, points: dict[str, Array]) -> TermWeights:
    positive = term.weights > 0
    mean = term.weights.mean() if positive.any() else 1.0
    with np.errstate(divide="ignore"):
        natural = np.log(term.weights / mean)
    log_weights = np.where(positive, natural / math.log(10), np.nan)
    edges, heights, below = _histogram(log_weights[positive])
    fitted = pareto_tail(natural)
    tail, tail_heights = _tail(fitted, edges)
    return TermWeights(
        name=name,
        proposal=term.proposal,
        x=points[term.proposal],
        log_weights=log_weights,
        edges=edges,
        heights=heights,
        below=below,
        tail=tail,
        tail_heights=tail_heights,
        k=float(term.pareto_k),
        error=fitted.error,
        threshold=float(term.pareto_threshold),
        effective=float(term.smallest_ess),
        nonzero=int(term.nonzero_draws),
        largest=float(term.largest_weight),
        missed=float(term.uncovered_mass),
    )


def _histogram(values: Array) -> tuple[Array, Array, int]:
    """Edges, numbers of values between them, and the number of values below."""
    low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    low = max(low, min(LOWEST, high - 1))
    if high - low < 1e-9:
        low, high = low - NARROWEST, high + NARROWEST
    heights, edges = np.histogram(values, BINS, range=(low, high))
    return edges, heights.astype(np.float64), int((values < edges[0]).sum())


def _tail(tail: ParetoTail, edges: Array) -> tuple[Array, Array]:
    """Draws that the fitted tail expects in a bin, from its cutoff to past the last draw."""
    if tail.scale == 0:
        return np.empty(0), np.empty(0)
    start, width = tail.log_cutoff / math.log(10), edges[1] - edges[0]
    end = edges[-1] + 8 * width
    if tail.k < 0:
        # Such a tail ends, at a weight of u (1 - sigma / k).
        end = min(end, start + math.log10(1 - tail.scale / tail.k))
    places = np.linspace(start, end, TAIL_POINTS)
    heights = tail.size * tail.log_density(places * math.log(10)) * width * math.log(10)
    seen = heights > 0
    return places[seen], heights[seen]
