r"""From draws and a table to estimates, in log space until the last step.

Estimates along the number of draws come from one pass: the sums of every stretch between two
numbers of draws are formed with their own largest weight, and accumulated by log-sum-exp.
"""

from __future__ import annotations

__all__ = ["Combined", "Counts", "apply", "combine", "control", "running_log_means"]

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import Array, Draws
from amci_core.estimators.tables import Table, needed

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Combined:
    """The terms of an estimate and their ratio, for a batch (*) and B numbers of draws.

    Arguments:
        sign: Signs of the terms, (*, B, 3); reused samples can make one negative.
        log_terms: log|E1_plus|, log|E1_minus|, log|E2| in nats, (*, B, 3); -inf where zero.
        value: mu = (E1_plus - E1_minus) / E2, (*, B); NaN where E2 came out zero.
    """

    sign: Array
    log_terms: Array
    value: Array


def combine(table: Table, draws: Draws, counts: Counts) -> Combined:
    """Applies a table to the first draws of every proposal.

    Arguments:
        table: The estimator's coefficients, (3, 3), or for every pair and number of draws,
            (*, B, 3, 3).
        draws: Points of every proposal that the table needs.
        counts: How many of each proposal's draws to use, (B, 3), each column increasing.

    Raises:
        ValueError: the table uses a proposal without draws.
    """
    rows = needed(table)
    logs = np.stack([running_log_means(draws, j, counts[:, j]) for j in rows], -2)
    shares = table[..., list(rows), :]
    if draws.log_E2 is not None and not shares[..., 2].any():
        shares, logs = _with_known(shares, logs, draws.log_E2)
    return apply(shares, logs)


def apply(table: Array, log_means: Array) -> Combined:
    """Combines the means E_t(j) of some proposals into terms, and these into mu.

    Arguments:
        table: Coefficients v[j, t], (*, J, 3).
        log_means: log E_t(j) in nats, (*, J, 3); the two broadcast, so that many tables can be
            tried on the same draws.
    """
    log_means = np.where(table != 0, log_means, -np.inf)
    largest = log_means.max(axis=-2)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    relative = (table * np.exp(log_means - largest[..., None, :])).sum(axis=-2)
    with np.errstate(divide="ignore"):
        log_terms = np.log(np.abs(relative)) + largest
    sign = np.sign(relative)
    with np.errstate(invalid="ignore", over="ignore"):
        ratios = sign[..., :2] * np.exp(log_terms[..., :2] - log_terms[..., 2:])
        value = (ratios[..., 0] - ratios[..., 1]) * sign[..., 2]
    return Combined(sign, log_terms, np.where(sign[..., 2] == 0, np.nan, value))


def control(combined: Combined, log_E2: Array, mu: Array) -> Combined:
    """The control-variate form of the same estimate: equal to first order, over an E2 above zero.

    A table that takes a negative share of E2 from some draws can make E2 come out near zero. Its
    E2 differs from q2's own, E2(q2), by a difference with mean zero, so that

        mu = (E1_plus - E1_minus - mu' (E2 - E2(q2))) / E2(q2),

    with any rough mu', has the same variance to first order.

    Arguments:
        combined: What the table gives, (*, B).
        log_E2: log E2(q2) in nats, (*, B).
        mu: The rough mu', (*, B), in units of f.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = combined.sign * np.exp(combined.log_terms - log_E2[..., None])
        value = ratios[..., 0] - ratios[..., 1] - np.nan_to_num(mu) * (ratios[..., 2] - 1)
    log_terms, sign = combined.log_terms.copy(), combined.sign.copy()
    log_terms[..., 2], sign[..., 2] = log_E2, np.where(log_E2 > -np.inf, 1.0, 0.0)
    return Combined(sign, log_terms, np.where(log_E2 > -np.inf, value, np.nan))


def _with_known(shares: Array, logs: Array, log_E2: Array) -> tuple[Array, Array]:
    """Appends a row whose only mean is the known E2."""
    row = np.full((*logs.shape[:-2], 1, 3), -np.inf)
    row[..., 0, 2] = log_E2[..., None]
    known = np.broadcast_to([0.0, 0.0, 1.0], (*shares.shape[:-2], 1, 3))
    return np.concatenate([shares, known], axis=-2), np.concatenate([logs, row], axis=-2)


def running_log_means(draws: Draws, j: int, counts: Counts) -> Array:
    """log of the means of (f_plus w, f_minus w, w) over the first n draws of q_j, for n in counts.

    Returns:
        Logs of the means, (*, B, 3), in nats; -inf where a mean is zero.

    Raises:
        ValueError: there are no draws of q_j.
    """
    part, log_w = draws.stretch(j), draws.log_weight(j)
    sums = np.full((*draws.batch, len(counts), 3), -np.inf)
    start = 0
    for b, stop in enumerate(counts.tolist()):
        if stop > start:
            factors = [
                draws.factor(t, slice(part.start + start, part.start + stop)) for t in (0, 1)
            ]
            sums[..., b, :] = _log_sums(factors, log_w[..., start:stop])
        start = stop
    return np.logaddexp.accumulate(sums, axis=-2) - np.log(counts)[:, None]


def _log_sums(factors: list[Array | float], log_w: Array) -> Array:
    largest = log_w.max(axis=-1)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    w = np.exp(log_w - largest[..., None])
    sums = np.zeros((*largest.shape, 3))
    for t, factor in enumerate(factors):
        if isinstance(factor, np.ndarray):
            sums[..., t] = np.einsum("...n,...n->...", w, factor)
    sums[..., 2] = w.sum(axis=-1)
    with np.errstate(divide="ignore"):
        return np.log(sums) + largest[..., None]
