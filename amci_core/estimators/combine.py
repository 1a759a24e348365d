r"""From draws and a table to estimates, in log space until the last step.

Estimates along the number of draws come from one pass: the sums of every stretch between two
numbers of draws are formed with their own largest weight, and accumulated by log-sum-exp.
"""

from __future__ import annotations

__all__ = ["Combined", "Counts", "Prepared", "Sharing", "combine", "running_log_means"]

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import PROPOSALS, Array, Draws
from amci_core.estimators.mis import Part, Pooled
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


@dataclass(frozen=True)
class Sharing:
    """What `auto` decided, for a batch (*) of pairs.

    Arguments:
        shared: Whether samples were shared by the optimal table; else it is AMCI, (*).
        why: The reason in words, for each pair in a row.
    """

    shared: NDArray[np.bool_]
    why: tuple[str, ...]


@dataclass(frozen=True)
class Prepared:
    """Draws and the table that makes estimates of them.

    Arguments:
        table: Coefficients v[j, t], (3, 3), or a table for every pair and budget, (*, B, 3, 3).
        draws: The draws that it applies to.
        counts: How many of them for each budget, (B, 3).
        strata: Where the draws are stratified, log q_k at every point for each of K components,
            (K, *, n): each of them gave as many points.
        pivot: Where the control-variate form is used, its rough mu for every budget, (*, B).
        paired: Whether the i-th points of all proposals come from the same random numbers.
        sharing: What `auto` decided.
        names: What the components in the proposals' places are called.
    """

    table: Table
    draws: Draws
    counts: Counts
    strata: Array | None = None
    pivot: Array | None = None
    paired: bool = False
    sharing: Sharing | None = None
    names: tuple[str, ...] = PROPOSALS

    @property
    def last_table(self) -> Table:
        """The table for all of the draws, (3, 3) or (*, 3, 3)."""
        return self.table if self.table.ndim == 2 else self.table[..., -1, :, :]

    def combine(self) -> Combined:
        """The estimates, one for each budget.

        Raises:
            ValueError: the table uses a proposal without draws.
        """
        found = combine(self.table, self.draws, self.counts)
        if self.pivot is None:
            return found
        if self.draws.log_E2 is not None:
            log_E2 = np.broadcast_to(self.draws.log_E2[..., None], found.value.shape)
        else:
            log_E2 = running_log_means(self.draws, 2, self.counts[:, 2])[..., 2]
        return _controlled(found, log_E2, self.pivot)

    @property
    def groups(self) -> list[slice]:
        """The stretches of points that were drawn alike; pairs of points count as one."""
        draws = self.draws
        if self.paired:
            return [slice(draws.count(draws.present[0]))]
        return [draws.stretch(j) for j, n in draws.counts.items() if n]

    def parts(self, seen: Pooled) -> list[Part]:
        """What every component in use brings to the terms.

        Arguments:
            seen: The draws, pooled.
        """
        table = self.last_table
        if self.strata is not None:
            # Each of K components gives n / K of the n points of q_m.
            K = len(self.strata)
            found = [seen.part(2, table[2] / K, stratum=log_q) for log_q in self.strata]
            return [replace(part, n=part.n / K) for part in found]
        if not self.paired:
            return [seen.part(j, table[..., j, :]) for j in needed(table)]
        terms: dict[int, Array] = {}
        for j in self.draws.present:
            part = self.draws.stretch(j)
            for t in np.flatnonzero(table[j]).tolist():
                brought = table[j, t] * self.draws.factor(t, part) * seen.weights[j][..., part]
                terms[t] = terms.get(t, 0.0) + brought - brought.mean(axis=-1, keepdims=True)
        n = self.draws.count(self.draws.present[0])
        return [Part(np.full((*self.draws.batch, n), 1 / n), float(n), terms, {})]


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
    shares = table[..., rows, :]
    if draws.log_E2 is not None and not shares[..., 2].any():
        # One more row, whose only mean is the known E2.
        row = np.full((*logs.shape[:-2], 1, 3), -np.inf)
        row[..., 0, 2] = draws.log_E2[..., None]
        whole = np.broadcast_to([0.0, 0.0, 1.0], (*shares.shape[:-2], 1, 3))
        shares, logs = np.concatenate([shares, whole], -2), np.concatenate([logs, row], -2)
    logs = np.where(shares != 0, logs, -np.inf)
    largest = logs.max(axis=-2)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    relative = (shares * np.exp(logs - largest[..., None, :])).sum(axis=-2)
    sign = np.sign(relative)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_terms = np.log(np.abs(relative)) + largest
        ratios = sign[..., :2] * np.exp(log_terms[..., :2] - log_terms[..., 2:])
        value = (ratios[..., 0] - ratios[..., 1]) * sign[..., 2]
    return Combined(sign, log_terms, np.where(sign[..., 2] == 0, np.nan, value))


def _controlled(combined: Combined, log_E2: Array, mu: Array) -> Combined:
    """The control-variate form of the same estimate: equal to first order, over an E2 above zero.

    A table that takes a negative share of E2 from some draws can make E2 come out near zero. Its
    E2 differs from q2's own, E2(q2), by a difference with mean zero, so that

        mu = (E1_plus - E1_minus - mu' (E2 - E2(q2))) / E2(q2),

    with any rough mu', (*, B), has the same variance to first order.
    """
    found = log_E2 > -np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = combined.sign * np.exp(combined.log_terms - log_E2[..., None])
        value = ratios[..., 0] - ratios[..., 1] - np.nan_to_num(mu) * (ratios[..., 2] - 1)
    log_terms, sign = combined.log_terms.copy(), combined.sign.copy()
    log_terms[..., 2], sign[..., 2] = log_E2, found
    return Combined(sign, log_terms, np.where(found, value, np.nan))


def running_log_means(draws: Draws, j: int, counts: Counts) -> Array:
    """log of the means of (f_plus w, f_minus w, w) over the first n draws of q_j, for n in counts.

    Returns:
        Logs of the means, (*, B, 3), in nats; -inf where a mean is zero.

    Raises:
        ValueError: there are no draws of q_j.
    """
    first, log_w = draws.stretch(j).start, draws.log_weight(j)
    sums = np.full((*draws.batch, len(counts), 3), -np.inf)
    for b, (start, stop) in enumerate(pairwise([0, *counts.tolist()])):
        if stop == start:
            continue
        part = log_w[..., start:stop]
        largest = part.max(axis=-1)
        largest = np.where(np.isfinite(largest), largest, 0.0)
        w = np.exp(part - largest[..., None])
        total = np.zeros((*draws.batch, 3))
        for t in (0, 1) if draws.signed else (0,):
            factor = draws.factor(t, slice(first + start, first + stop))
            total[..., t] = np.einsum("...n,...n->...", w, factor)
        total[..., 2] = w.sum(axis=-1)
        with np.errstate(divide="ignore"):
            sums[..., b, :] = np.log(total) + largest[..., None]
    if len(counts) > 1:
        sums = np.logaddexp.accumulate(sums, axis=-2)
    return sums - np.log(counts)[:, None]
