r"""What every draw brings to the terms of an estimate, reweighted to each component."""

from __future__ import annotations

__all__ = ["Contributions", "Part", "contributions"]

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import Array
from amci_core.estimators.mis import Pooled
from amci_core.estimators.tabled import Prepared


@dataclass(frozen=True)
class Part:
    """Draws reweighted to one component, which gave n_j of them.

    Arguments:
        share: q_j / q_m, summing to one over the points, (*, n).
        n: n_j.
        terms: For the terms that it has a share in, by number: v[j, t] t w_j at every point,
            (*, n), in units of exp(log_scale).
        missed: Whether it misses a part of these terms, (*).
    """

    share: Array
    n: float
    terms: Mapping[int, Array]
    missed: Mapping[int, NDArray[np.bool_]]


class Contributions(NamedTuple):
    """The parts of all components, and the stretches of points that were drawn alike."""

    parts: tuple[Part, ...]
    groups: tuple[slice, ...]


def contributions(prepared: Prepared, seen: Pooled) -> Contributions:
    """What draws bring to the terms of an estimate with all of them.

    Arguments:
        prepared: The table and its draws.
        seen: These draws, pooled.
    """
    draws, table = prepared.draws, prepared.last_table
    if prepared.paired:
        return _of_pairs(prepared, seen)
    groups = tuple(draws.stretch(j) for j, n in draws.counts.items() if n)
    if prepared.strata is None:
        used = [j for j in seen.proposals if (table[..., j, :] != 0).any()]
        parts = [_part(seen, j, seen.r(j), float(draws.count(j)), table[..., j, :]) for j in used]
    else:
        # Each of K components gives n / K of the n points of q_m.
        K, n = len(prepared.strata), draws.count(2)
        parts = [
            _part(seen, 2, np.exp(log_q - seen.log_mixture), n / K, table[2] / K)
            for log_q in prepared.strata
        ]
    return Contributions(tuple(parts), groups)


def _part(seen: Pooled, j: int, r: Array, n: float, v: Array) -> Part:
    used = [t for t in range(3) if (v[..., t] != 0).any()]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        w = seen.weight(j)
        terms = {t: v[..., t, None] * seen.draws.factor(t) * w for t in used}
        missed = {t: seen.missed(j, t) & (v[..., t] != 0) for t in used}
        return Part(r / r.sum(axis=-1, keepdims=True), n, terms, missed)


def _of_pairs(prepared: Prepared, seen: Pooled) -> Contributions:
    """Draws with common random numbers: the i-th points of all proposals are one draw."""
    draws, table = prepared.draws, prepared.last_table
    n = draws.count(draws.present[0])
    terms: dict[int, Array] = {}
    for j in draws.present:
        part = draws.stretch(j)
        for t in np.flatnonzero(table[j]).tolist():
            brought = table[j, t] * draws.factor(t, part) * seen.weight(j)[..., part]
            terms[t] = terms[t] + brought if t in terms else brought
    nothing = np.zeros(draws.batch, dtype=bool)
    share = np.full((*draws.batch, n), 1 / n)
    only = Part(share, float(n), terms, dict.fromkeys(terms, nothing))
    return Contributions((only,), (slice(0, n),))
