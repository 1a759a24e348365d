r"""How well each term is carried by the draws that it is estimated from."""

from __future__ import annotations

__all__ = ["TermDiagnostics", "diagnose"]

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from amci_core.diagnostics.pareto import ParetoFit, pareto_fit
from amci_core.estimators.draws import PROPOSALS, TERMS, Array, Draws
from amci_core.estimators.tables import Table

# A draw that brings more than this share of a term outweighs the others.
OUTWEIGHS = 0.1


@dataclass(frozen=True)
class TermDiagnostics:
    """How well a proposal's draws carry a term, for a batch (*) of pairs (y, theta).

    Arguments:
        proposal: Name of the proposal whose draws these are.
        effective_draws: Effective sample size (sum t w)^2 / sum (t w)^2, in draws, (*).
        largest_share: Share of the largest t w in their sum, (*).
        nonzero_share: Share of draws at which the integrand t is not zero, (*).
        missed_share: Share of the term's mass where one of these draws would bring a tenth of the
            term or more, so that they hardly ever go there, (*): as seen by all proposals' draws
            together. NaN where there are no other draws.
        draws: Number of draws.
        weights: t w, scaled, (*, n).
    """

    proposal: str
    effective_draws: Array
    largest_share: Array
    nonzero_share: Array
    missed_share: Array
    draws: int
    weights: Array = field(repr=False, compare=False)

    @cached_property
    def nonzero_draws(self) -> Array:
        """Number of draws that bring something: t w > 0, (*)."""
        return (self.weights > 0).sum(axis=-1).astype(np.float64)

    @cached_property
    def seen_share(self) -> Array:
        """Share of the term that its own draws see where one of them brings a tenth or more, (*).

        Where this is far below `missed_share`, these draws have not been there.
        """
        total = self.weights.sum(axis=-1)
        heavy = self.weights > OUTWEIGHS * total[..., None]
        return np.where(heavy, self.weights, 0.0).sum(axis=-1) / np.where(total > 0, total, 1.0)

    @cached_property
    def pareto_fit(self) -> ParetoFit:
        """k-hat of the t w that are not zero, its error and its threshold, (*) each."""
        return pareto_fit(self.weights)

    @property
    def pareto_k(self) -> Array:
        """k-hat of the t w that are not zero, (*); see `amci_core.diagnostics.pareto.pareto_k`."""
        return self.pareto_fit.k

    @property
    def pareto_error(self) -> Array:
        """Standard error of k-hat, (*)."""
        return self.pareto_fit.error

    @property
    def pareto_threshold(self) -> Array:
        """The largest k-hat that so many draws can vouch for, (*): S counts those of t w > 0."""
        return self.pareto_fit.threshold


def diagnose(table: Table, draws: Draws) -> dict[str, TermDiagnostics]:
    """Diagnostics of every term on the draws that carry most of it under the table.

    For AMCI these are f_plus w on q1_plus, f_minus w on q1_minus and w on q2. A good figure for w
    on q2 says nothing about E1: a proposal can cover the posterior and never reach f.
    """
    found = {}
    for t, name in enumerate(TERMS):
        if table[:, t].any():
            j = int(np.abs(table[:, t]).argmax())
            factors = _factors(draws, j, t)
            if factors is not None:
                found[name] = _diagnose_term(draws, j, t, factors)
    return found


def _factors(draws: Draws, j: int, t: int) -> Array | None:
    """The integrand t at the points of proposal j, (*, n); None for f_minus where f >= 0."""
    points = draws.of(j)
    return (points.f_plus, points.f_minus, np.ones_like(points.log_joint))[t]


def _diagnose_term(draws: Draws, j: int, t: int, factors: Array) -> TermDiagnostics:
    log_w = draws.log_weight(j)
    largest = log_w.max(axis=-1, keepdims=True)
    weights = factors * np.exp(log_w - np.where(np.isfinite(largest), largest, 0.0))
    total = weights.sum(axis=-1)
    found = total > 0
    shares = weights / np.where(found, total, 1.0)[..., None]
    squares = np.where(found, np.square(shares).sum(axis=-1), 1.0)
    return TermDiagnostics(
        proposal=PROPOSALS[j],
        effective_draws=np.where(found, 1 / squares, 0.0),
        largest_share=np.where(found, shares.max(axis=-1), np.nan),
        nonzero_share=(factors != 0).mean(axis=-1),
        missed_share=_missed_share(draws, j, t),
        draws=log_w.shape[-1],
        weights=weights,
    )


def _missed_share(draws: Draws, j: int, t: int) -> Array:
    """Where t w_j outweighs the mean of n_j draws, as all draws see it under the mixture q_m."""
    parts = [draws.of(k) for k in draws.present]
    if len(parts) < 2:
        return np.full(parts[0].log_joint.shape[:-1], np.nan)
    counts = np.array([p.n for p in parts])
    log_q_j = np.concatenate([p.log_q_of(j) for p in parts], -1)
    log_mixture = np.concatenate(
        [
            np.logaddexp.reduce(
                [
                    p.log_q_of(k) + np.log(n / counts.sum())
                    for k, n in zip(draws.present, counts, strict=True)
                ]
            )
            for p in parts
        ],
        -1,
    )
    factors = np.concatenate([_factors(draws, k, t) for k in draws.present], -1)
    log_joint = np.concatenate([p.log_joint for p in parts], -1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_t = np.log(factors) + log_joint
        log_scale = (log_t - log_mixture).max(axis=-1, keepdims=True)
        mass = np.exp(log_t - log_mixture - np.where(np.isfinite(log_scale), log_scale, 0.0))
        total = mass.sum(axis=-1)
        limit = np.log(OUTWEIGHS * draws.of(j).n * total / counts.sum())[..., None] + log_scale
        outweighs = log_t - log_q_j > limit
        return np.where(total > 0, (mass * outweighs).sum(axis=-1) / total, np.nan)
