r"""Whether an estimate can be believed, term by term."""

from __future__ import annotations

__all__ = ["TermDiagnostics", "diagnose"]

from dataclasses import dataclass

import numpy as np

from amci_core.estimators import TERMS, Draws
from amci_core.estimators.draws import Array
from amci_core.estimators.tables import Table


@dataclass(frozen=True)
class TermDiagnostics:
    """How well a proposal's draws carry a term, for a batch (*) of pairs (y, theta).

    Arguments:
        effective_draws: Effective sample size (sum t w)^2 / sum (t w)^2, in draws, (*).
        largest_share: Share of the largest t w in their sum, (*).
        nonzero_share: Share of draws at which the integrand t is not zero, (*).
        draws: Number of draws.
    """

    effective_draws: Array
    largest_share: Array
    nonzero_share: Array
    draws: int


def diagnose(table: Table, draws: Draws) -> dict[str, TermDiagnostics]:
    """Diagnostics of every term on the draws that carry most of it under the table.

    For AMCI these are f_plus w on q1_plus, f_minus w on q1_minus and w on q2. A good figure for w
    on q2 says nothing about E1: a proposal can cover the posterior and never reach f.
    """
    found = {}
    for t, name in enumerate(TERMS):
        if table[:, t].any():
            j = int(np.abs(table[:, t]).argmax())
            points = draws.of(j)
            factors = (points.f_plus, points.f_minus, np.ones_like(points.log_joint))[t]
            if factors is not None:
                found[name] = _diagnose_term(factors, draws.log_weight(j))
    return found


def _diagnose_term(factors: Array, log_w: Array) -> TermDiagnostics:
    largest = log_w.max(axis=-1, keepdims=True)
    weights = factors * np.exp(log_w - np.where(np.isfinite(largest), largest, 0.0))
    total = weights.sum(axis=-1)
    found = total > 0
    shares = weights / np.where(found, total, 1.0)[..., None]
    squares = np.where(found, np.square(shares).sum(axis=-1), 1.0)
    return TermDiagnostics(
        effective_draws=np.where(found, 1 / squares, 0.0),
        largest_share=np.where(found, shares.max(axis=-1), np.nan),
        nonzero_share=(factors != 0).mean(axis=-1),
        draws=log_w.shape[-1],
    )
