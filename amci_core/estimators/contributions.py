r"""What every draw brings to the terms of an estimate, reweighted to each component."""

from __future__ import annotations

__all__ = ["Contributions", "contributions"]

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import Array
from amci_core.estimators.mis import Pooled
from amci_core.estimators.tabled import Prepared


class Contributions(NamedTuple):
    """What draws bring to the terms of an estimate, under each of J components.

    Arguments:
        terms: v[j, t] t w_j at every point, (J, *, 3, n), in units of exp(log_scale).
        share: q_j / q_m, summing to one over the points, (J, *, n).
        counts: Draws of each component, (J, 1, ..), to broadcast against (J, *).
        used: Whether the component has a share in a term, (J, *, 3).
        missed: Whether it misses a part of a term that it has a share in, (J, *, 3).
        groups: Stretches of points that were drawn alike.
    """

    terms: Array
    share: Array
    counts: Array
    used: NDArray[np.bool_]
    missed: NDArray[np.bool_]
    groups: tuple[slice, ...]


def contributions(prepared: Prepared, seen: Pooled) -> Contributions:
    """What draws bring to the terms of an estimate with all of them.

    Arguments:
        prepared: The table and its draws.
        seen: These draws, pooled.
    """
    draws, table = prepared.draws, prepared.last_table
    batch, ndim = draws.batch, len(draws.batch)
    if prepared.paired:
        return _of_pairs(prepared, seen)
    if prepared.strata is None:
        rows = [k for k, j in enumerate(seen.proposals) if (table[..., j, :] != 0).any()]
        numbers = [seen.proposals[k] for k in rows]
        v = np.stack([np.broadcast_to(table[..., j, :], (*batch, 3)) for j in numbers])
        r, w, missed = seen.r[rows], seen.weights[rows], seen.missed[rows].any(axis=-1)
        counts = [float(draws.count(j)) for j in numbers]
    else:
        # Each of K components gives n / K of the n points of q_m.
        K, n = len(prepared.strata), draws.count(2)
        v = np.broadcast_to(table[2] / K, (K, *batch, 3))
        r = np.exp(prepared.strata - seen.log_mixture)
        w = np.broadcast_to(seen.weights[0], r.shape)
        missed = np.broadcast_to(seen.missed[0].any(axis=-1), v.shape)
        counts = [n / K] * K
    used = v != 0
    groups = tuple(draws.stretch(j) for j in draws.counts)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # A share of zero leaves nothing of a weight that overflows.
        terms = np.where(used[..., None], v[..., None] * seen.factors * w[..., None, :], 0.0)
        share = r / r.sum(axis=-1, keepdims=True)
    n_j = np.array(counts, dtype=np.float64).reshape(-1, *[1] * ndim)
    return Contributions(terms, share, n_j, used, missed & used, groups)


def _of_pairs(prepared: Prepared, seen: Pooled) -> Contributions:
    """Draws with common random numbers: the i-th points of all proposals are one draw."""
    draws, table = prepared.draws, prepared.last_table
    parts = {j: draws.stretch(j) for j in draws.present}
    n = draws.count(draws.present[0])
    terms = np.zeros((1, *draws.batch, 3, n))
    for j, part in parts.items():
        w = seen.weights[seen.proposals.index(j)][..., None, part]
        terms[0] += table[j][:, None] * seen.factors[..., part] * w
    shape = (1, *draws.batch)
    used = np.broadcast_to(table.any(axis=0), (*shape, 3))
    nothing = np.zeros((*shape, 3), dtype=bool)
    share, counts = np.full((*shape, n), 1 / n), np.full([1] * len(shape), float(n))
    return Contributions(terms, share, counts, used, nothing, (slice(0, n),))
