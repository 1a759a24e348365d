r"""Draws one by one, with the estimates that grow from them: computed once, then played."""

from __future__ import annotations

__all__ = ["MOST", "Lane", "Playback", "playback"]

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from amci_core.estimation.sampling import Sampler, generators
from amci_core.estimators.draws import PROPOSALS, TERMS, Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from app.numbers.known import truth

# Draws from each proposal.
MOST = 500


@dataclass(frozen=True)
class Lane:
    """The draws of one proposal, and the term that they make.

    Arguments:
        proposal: Its name.
        term: The term's name.
        x: Where the draws lie along the coordinate that is looked at, (n,).
        weight: What each brings to its term over the mean of these, (n,): 1 for a perfect draw.
        mean: Mean of the first 1 to n contributions, (n,), in units of the last `scale`.
        error: Its standard error, (n,), likewise; NaN for a single draw.
        log_scale: Logarithm of the unit of `mean`, in nats.
    """

    proposal: str
    term: str
    x: Array
    weight: Array
    mean: Array
    error: Array
    log_scale: float


@dataclass(frozen=True)
class Playback:
    """Draws of every proposal in their order.

    Arguments:
        lanes: Of q1 first, of q2 last.
        estimate: mu from the first 1 to n draws of each, (n,); NaN while a term is zero.
        error: Its standard error, (n,), by the delta method with the draws so far: what they have
            not reached it misses.
        truth: mu, NaN where it is not known.
    """

    lanes: tuple[Lane, ...]
    estimate: Array
    error: Array
    truth: float


@torch.inference_mode()
def playback(
    problem: Problem,
    proposals: Proposals,
    y: Any,
    theta: Any,
    *,
    draws: int = MOST,
    coordinate: int = 0,
    seed: int = 0,
) -> Playback:
    """Draws from every proposal, with what each brings and the estimates along the way.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: The observation, as `Problem.check` takes it.
        theta: Likewise.
        draws: Draws from each proposal.
        coordinate: Which coordinate of x is looked at, from 0 on.
        seed: Whole number >= 0.

    Raises:
        ValueError: see `amci_core.estimate`.
    """
    checked = problem.check(y, theta)
    sampler = Sampler(problem, proposals, *checked)
    counts = np.array([draws if j in proposals.present else 0 for j in range(3)])
    drawn = sampler.draw(counts, generators(seed)[0])
    lanes = []
    for j in proposals.present:
        part = drawn.stretch(j)
        log_h = drawn.log_weight(j) + drawn.log_factor(j, part)
        lanes.append(_lane(j, sampler.points[j].numpy()[:, coordinate], log_h))
    known = 0.0 if drawn.log_E2 is None else float(drawn.log_E2)
    estimate, error = _ratio(lanes, known)
    return Playback(tuple(lanes), estimate, error, truth(problem, y, theta))


def _lane(j: int, x: Array, log_h: Array) -> Lane:
    """What draws bring, in units of their largest logarithm."""
    top = log_h.max()
    log_scale = float(top) if np.isfinite(top) else 0.0
    h = np.exp(log_h - log_scale)
    n = np.arange(1, len(h) + 1)
    mean = np.cumsum(h) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.maximum(np.cumsum(np.square(h)) / n - np.square(mean), 0.0)
        error = np.sqrt(spread / (n - 1))
        weight = h / mean[-1] if mean[-1] > 0 else np.zeros_like(h)
    return Lane(PROPOSALS[j], TERMS[j], x, weight, mean, np.where(n > 1, error, np.nan), log_scale)


def _ratio(lanes: list[Lane], log_E2: float) -> tuple[Array, Array]:
    """mu and its standard error along the draws, by the delta method.

    Arguments:
        lanes: Of every proposal.
        log_E2: Logarithm of E2 where it is known and has no draws.
    """
    by_term = {lane.term: lane for lane in lanes}
    below = by_term.get("E2")
    log_unit = log_E2 if below is None else below.log_scale
    n = len(lanes[0].mean)
    top, error = np.zeros(n), np.zeros(n)
    for term, sign in (("E1_plus", 1.0), ("E1_minus", -1.0)):
        if term in by_term:
            lane = by_term[term]
            unit = np.exp(lane.log_scale - log_unit)
            top = top + sign * unit * lane.mean
            # Squares of a mu below 1e-154 would be zero.
            error = np.hypot(error, unit * lane.error)
    if below is None:
        return top, error
    with np.errstate(divide="ignore", invalid="ignore"):
        mu = np.where(below.mean > 0, top / below.mean, np.nan)
        return mu, np.hypot(error, mu * below.error) / below.mean
