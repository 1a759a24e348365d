r"""Draws one by one, with the estimates that grow from them: computed once, then played."""

from __future__ import annotations

__all__ = ["MOST", "Lane", "Playback", "playback"]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from amci_core.estimators.draws import PROPOSALS, TERMS, Array, Draws
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.known import Mu, exact

# Draws from each proposal.
MOST = 500
# Numbers of draws at which the standard error is computed.
STOPS = 60


@dataclass(frozen=True)
class Lane:
    """The draws of one proposal, and the term that they make.

    Arguments:
        proposal: Its name.
        term: The term's name.
        x: Where the draws lie along the coordinate that is looked at, (n,).
        weight: What each brings to its term over the mean of these, (n,): 1 for a perfect draw.
        mean: Mean of the first 1 to n contributions, (n,), in units of the last `scale`.
        log_scale: Logarithm of the unit of `mean`, in nats.
    """

    proposal: str
    term: str
    x: Array
    weight: Array
    mean: Array
    log_scale: float


@dataclass(frozen=True)
class Playback:
    """Draws of every proposal in their order.

    Arguments:
        lanes: Of q1 first, of q2 last.
        estimate: mu from the first 1 to n draws of each, (n,); NaN while a term is zero.
        error: Its standard error, (n,), that of `amci_core.estimate` with these draws, at some
            numbers of draws and unchanged up to the next; NaN where the draws cannot tell.
        mu: What it is compared with.
    """

    lanes: tuple[Lane, ...]
    estimate: Array
    error: Array
    mu: Mu


def playback(
    problem: Problem,
    proposals: Proposals,
    y: Any,
    theta: Any,
    *,
    draws: int = 64,
    coordinate: int = 0,
    seed: int = 0,
    mu: Mu | None = None,
) -> Playback:
    """The first 500 of `CaseDraws`, with what each brings and the estimates along the way.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: The observation, as `Problem.check` takes it.
        theta: Likewise.
        draws: Draws from each proposal of the page's estimate: the first ones.
        coordinate: Which coordinate of x is looked at, from 0 on.
        seed: Whole number >= 0.
        mu: What the estimate is compared with; by default what the problem knows.

    Raises:
        ValueError: see `amci_core.estimate`.
    """
    seen = CaseDraws(problem, proposals, y, theta, draws=draws, seed=seed)
    stops = np.unique([min(draws, MOST), *np.rint(np.geomspace(2, MOST, STOPS)).astype(int)])
    found = {n: float(seen.estimate("amci", n).standard_error) for n in stops.tolist()}
    lanes = [
        _lane(j, seen.points[PROPOSALS[j]][:MOST, coordinate], seen.draws)
        for j in seen.draws.present
    ]
    known = 0.0 if seen.draws.log_E2 is None else float(seen.draws.log_E2)
    mu = mu or exact(problem, y, theta)
    return Playback(tuple(lanes), _ratio(lanes, known), _from_stop_to_stop(found), mu)


def _from_stop_to_stop(values: Mapping[int, float]) -> Array:
    """For each number of draws the value of the last stop; NaN before the first."""
    stops = np.array([0, *values])
    at = np.searchsorted(stops, np.arange(1, MOST + 1), side="right") - 1
    return np.array([math.nan, *values.values()])[at]


def _lane(j: int, x: Array, draws: Draws) -> Lane:
    """What a proposal's draws at x bring, in units of their largest logarithm."""
    log_h = (draws.log_weight(j) + draws.log_factor(j, draws.stretch(j)))[: len(x)]
    top = log_h.max()
    log_scale = float(top) if np.isfinite(top) else 0.0
    h = np.exp(log_h - log_scale)
    mean = np.cumsum(h) / np.arange(1, len(h) + 1)
    weight = h / mean[-1] if mean[-1] > 0 else np.zeros_like(h)
    return Lane(PROPOSALS[j], TERMS[j], x, weight, mean, log_scale)


def _ratio(lanes: list[Lane], log_E2: float) -> Array:
    """mu along the draws.

    Arguments:
        lanes: Of every proposal.
        log_E2: Logarithm of E2 where it is known and has no draws.
    """
    by_term = {lane.term: lane for lane in lanes}
    below = by_term.get("E2")
    log_unit = log_E2 if below is None else below.log_scale
    top = np.zeros(len(lanes[0].mean))
    for term, sign in (("E1_plus", 1.0), ("E1_minus", -1.0)):
        if term in by_term:
            lane = by_term[term]
            top = top + sign * np.exp(lane.log_scale - log_unit) * lane.mean
    if below is None:
        return top
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below.mean > 0, top / below.mean, np.nan)
