r"""Draws one by one, with the estimates that grow from them: computed once, then played."""

from __future__ import annotations

__all__ = ["MOST", "Playback", "playback"]

import math
from dataclasses import dataclass

import numpy as np

from amci_core.estimators.draws import PROPOSALS, TERMS, Array, Draws
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.known import Mu

# Draws from each proposal, and numbers of draws at which the standard error is computed.
MOST, STOPS = 500, 60


@dataclass(frozen=True)
class Lane:
    """The draws of one proposal.

    Arguments:
        proposal: Its name.
        x: Where the draws lie along the coordinate that is looked at, (n,).
        weight: What each brings to its term over the mean of these, (n,): 1 for a perfect draw.
    """

    proposal: str
    x: Array
    weight: Array


@dataclass(frozen=True)
class Playback:
    """Draws of every proposal in their order.

    Arguments:
        lanes: Of q1 first, of q2 last.
        estimate: mu from the first 1 to n draws of each, (n,); NaN while a term is zero.
        snis: mu by SNIS from as many draws in total, all of q2, (n,); NaN without a q2, and where
            there are not as many.
        error: The standard error of `estimate`, (n,), that of `amci_core.estimate` with these
            draws, at some numbers of draws and unchanged up to the next; NaN if the draws cannot
            tell.
        mu: What it is compared with.
    """

    lanes: tuple[Lane, ...]
    estimate: Array
    snis: Array
    error: Array
    mu: Mu


def playback(seen: CaseDraws, coordinate: int = 0) -> Playback:
    """The first 500 draws, with what each brings and the estimates along the way.

    Arguments:
        seen: The draws.
        coordinate: Which coordinate of x is looked at, from 0 on.
    """
    stops = np.unique([min(seen.first, MOST), *np.rint(np.geomspace(2, MOST, STOPS)).astype(int)])
    errors = [math.nan, *(float(seen.estimate("amci", n).standard_error) for n in stops.tolist())]
    counts = np.arange(1, MOST + 1)
    lanes, logs = [], {"E2": seen.draws.log_E2}
    for j in seen.draws.present:
        log_h = seen.draws.log_weight(j) + seen.draws.log_factor(j, seen.draws.stretch(j))
        log_mean = np.logaddexp.accumulate(log_h[:MOST]) - np.log(counts)
        with np.errstate(invalid="ignore"):
            weight = np.nan_to_num(np.exp(log_h[:MOST] - log_mean[-1]))
        lanes.append(Lane(PROPOSALS[j], seen.points[PROPOSALS[j]][:MOST, coordinate], weight))
        logs[TERMS[j]] = log_mean
    log_E2 = np.asarray(logs["E2"])
    with np.errstate(invalid="ignore"):
        estimate = np.exp(logs["E1_plus"] - log_E2)
        if "E1_minus" in logs:
            estimate = estimate - np.exp(logs["E1_minus"] - log_E2)
    return Playback(
        tuple(lanes),
        np.where(np.isfinite(log_E2), estimate, np.nan),
        _snis(seen.draws, len(lanes)),
        np.array(errors)[np.searchsorted(stops, counts, side="right")],
        seen.mu,
    )


def _snis(draws: Draws, proposals: int) -> Array:
    """mu by SNIS from q2's draws, as many as the proposals have together."""
    if 2 not in draws.present:
        return np.full(MOST, np.nan)
    part, log_w = draws.stretch(2), draws.log_weight(2)
    f = np.exp(draws.log_factor(0, part))
    if draws.signed:
        f = f - np.exp(draws.log_factor(1, part))
    w = np.exp(log_w - log_w.max())
    mean, at = (f * w).cumsum() / w.cumsum(), proposals * np.arange(1, MOST + 1)
    return np.where(at <= len(mean), mean[np.minimum(at, len(mean)) - 1], np.nan)
