r""" "Find an answer": the ways to a reliable estimate of a case, until one has it."""

from __future__ import annotations

__all__ = ["WAYS", "CaseAnswer", "find_answer"]

import math
from dataclasses import dataclass
from typing import Any

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.models import Problem

# In this order: those with proposals, and the share of draws from the defensive density in each.
DEFENSIVE_SHARES = {
    "more draws": 1 / 8,
    "half of the draws from the defensive density": 1 / 2,
}
REFERENCE = "a reference value, which needs no proposals"
WAYS = (*DEFENSIVE_SHARES, REFERENCE)
# Half a 95 % interval of a reference value: its standard error comes from twelve shifts.
STANDARD_ERRORS = 2.2


@dataclass(frozen=True)
class CaseAnswer:
    """The first reliable estimate of a case, or why there is none.

    Arguments:
        way: One of `WAYS`.
        value: The estimate, in units of f.
        interval: Its 95 % interval.
        draws: Draws and evaluations of p(x, y), all ways together.
        refused: Why the last way gives no reliable estimate either; empty if it does.
    """

    way: str
    value: float
    interval: tuple[float, float]
    draws: int
    refused: str = ""


def find_answer(
    problem: Problem,
    proposals: Proposals,
    y: Any,
    theta: Any,
    *,
    relative_error: float,
    draws: int,
    seed: int,
) -> CaseAnswer:
    """Tries `WAYS` until one estimates the case reliably to that relative error.

    Arguments:
        problem: The problem.
        proposals: Its proposals.
        y: The observation, (D_y,), or None.
        theta: The parameter of f, (D_theta,), or None.
        relative_error: Half-width of the 95 % interval over the estimate.
        draws: Most draws of each way.
        seed: Whole number >= 0.
    """
    limits: dict[str, Any] = {"draws": draws, "seed": seed}
    goal, spent = relative_error, 0
    for way, share in DEFENSIVE_SHARES.items():
        found = amci.estimate_to(
            problem, proposals, y, theta, relative_error=goal, defensive=share, **limits
        )
        spent += int(found.draws)
        if found.verdict.level == "reliable":
            low, high = map(float, found.interval())
            return CaseAnswer(way, float(found.value), (low, high), spent)
    try:
        last = amci.reference_value(problem, y, theta, relative_error=goal / 4, **limits)
    except ValueError as failure:
        refused = f"the reference value fails: {failure}"
        return CaseAnswer(REFERENCE, math.nan, (math.nan, math.nan), spent, refused)
    value, half = float(last.value), STANDARD_ERRORS * float(last.standard_error)
    refused = "" if half <= goal * abs(value) else "the reference value is not precise enough"
    interval = value - half, value + half
    return CaseAnswer(REFERENCE, value, interval, spent + int(last.draws), refused)
