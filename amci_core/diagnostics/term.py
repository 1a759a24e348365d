r"""How well the draws that an estimate uses serve each of its terms."""

from __future__ import annotations

__all__ = ["TermDiagnostics", "diagnose"]

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from amci_core.diagnostics.pareto import ParetoFit, pareto_fit
from amci_core.estimators.draws import TERMS, Array, Draws
from amci_core.estimators.mis import Pooled
from amci_core.estimators.tabled import Prepared
from amci_core.estimators.uncertainty import Uncertainty

# A draw that brings more than this share of a term outweighs the others.
OUTWEIGHS = 0.1
# Below this coefficient a table takes nothing of a term from a proposal.
LEAST_SHARE = 1e-12


@dataclass(frozen=True)
class TermDiagnostics:
    """How well draws serve a term, for a batch (*) of pairs (y, theta).

    What a draw brings is h = |v[j, t]| t w_j / n_j: its share in the term's estimate.

    Arguments:
        proposal: Name of the proposal that the draws come from; several are joined by " and ".
        effective_draws: Effective sample size n / (1 + n v) with v the relative variance of sum h
            by the spread of h within each proposal's draws, in draws, (*). For one proposal it is
            (sum h)^2 / sum h^2.
        pooled_draws: The effective sample size by the term's variance as the draws of all
            components see it, in draws, (*): less optimistic where weights are heavy-tailed. NaN
            where they cannot tell.
        largest_share: Share of the largest h in their sum, (*).
        nonzero_share: Share of draws at which the integrand t is not zero, (*).
        missed_share: Share of the term's mass where one of these draws would bring a tenth of the
            term or more, so that they hardly ever go there, (*), as seen by the draws of all
            components. NaN where there are no others.
        draws: Number of draws.
        weights: h, scaled, (*, n).
    """

    proposal: str
    effective_draws: Array
    pooled_draws: Array
    largest_share: Array
    nonzero_share: Array
    missed_share: Array
    draws: int
    weights: Array = field(repr=False, compare=False)

    @cached_property
    def nonzero_draws(self) -> Array:
        """Number of draws that bring something: h > 0, (*)."""
        return np.asarray((self.weights > 0).sum(axis=-1).astype(np.float64))

    @cached_property
    def seen_share(self) -> Array:
        """Share of the term that its own draws see where one of them brings a tenth or more, (*).

        Where this is far below `missed_share`, these draws have not been there.
        """
        total = self.weights.sum(axis=-1)
        heavy = self.weights > OUTWEIGHS * total[..., None]
        seen = np.where(heavy, self.weights, 0.0).sum(axis=-1)
        return np.asarray(seen / np.where(total > 0, total, 1.0))

    @cached_property
    def pareto_fit(self) -> ParetoFit:
        """k-hat of the h that are not zero, its error and its threshold, (*) each."""
        return pareto_fit(self.weights)

    def pareto_fit_of(self, cases: NDArray[np.bool_]) -> ParetoFit:
        """The same for some cases, NaN for the others: many fits take long."""
        if cases.all():
            return self.pareto_fit
        found = pareto_fit(self.weights[cases])
        whole = [np.full(cases.shape, np.nan) for _ in found]
        for values, known in zip(whole, found, strict=True):
            values[cases] = known
        return ParetoFit(*whole)

    @property
    def pareto_k(self) -> Array:
        """k-hat of the h that are not zero, (*); see `amci_core.diagnostics.pareto.pareto_k`."""
        return self.pareto_fit.k

    @property
    def pareto_error(self) -> Array:
        """Standard error of k-hat, (*)."""
        return self.pareto_fit.error

    @property
    def pareto_threshold(self) -> Array:
        """The largest k-hat that can be believed with so many draws, (*): S counts h > 0."""
        return self.pareto_fit.threshold


def diagnose(
    prepared: Prepared, seen: Pooled, error: Uncertainty | None = None
) -> dict[str, TermDiagnostics]:
    """Diagnostics of every term on the draws that the table takes it from, in its shares.

    For AMCI these are f_plus w on q1_plus, f_minus w on q1_minus and w on q2; a shared table takes
    a term from several proposals. A good figure for w on q2 says nothing about E1: a proposal can
    cover the posterior and never reach f.

    Arguments:
        prepared: The table and its draws.
        seen: These draws, pooled with those of all components.
        error: The error of the estimate; without it there are no pooled draws.
    """
    table = np.broadcast_to(prepared.last_table, (*prepared.draws.batch, 3, 3))
    found = {}
    for t, name in enumerate(TERMS):
        share = np.abs(table[..., t])
        used = [j for j in range(3) if (share[..., j] > LEAST_SHARE).any()]
        if used and not (t == 1 and not prepared.draws.signed):
            spread = None if error is None else error.term_errors[..., t]
            found[name] = _diagnose_term(prepared, seen, share[..., used], used, t, spread)
    return found


def _diagnose_term(
    prepared: Prepared, seen: Pooled, share: Array, used: list[int], t: int, spread: Array | None
) -> TermDiagnostics:
    draws = prepared.draws
    h, count = _brought(draws, share, used, t)
    total = sum(np.abs(part).sum(axis=-1) for part in h)
    found = total > 0
    weights = np.concatenate(h, -1) / np.where(found, total, 1.0)[..., None]
    # Their spread within each proposal's draws makes the error, not that between proposals.
    within = sum(np.square(part - part.mean(axis=-1, keepdims=True)).sum(axis=-1) for part in h)
    relative = within / np.square(np.where(found, total, 1.0))
    pooled = np.full(total.shape, np.nan)
    if spread is not None:
        with np.errstate(invalid="ignore"):
            pooled = count / (1 + count * np.square(spread))
    return TermDiagnostics(
        proposal=" and ".join(prepared.names[j] for j in used),
        effective_draws=np.where(found, count / (1 + count * relative), 0.0),
        pooled_draws=pooled,
        largest_share=np.where(found, weights.max(axis=-1), np.nan),
        nonzero_share=np.concatenate([part != 0 for part in h], -1).mean(axis=-1),
        missed_share=_missed_share(seen, share, used, t),
        draws=sum(draws.count(j) for j in used),
        weights=weights,
    )


def _brought(draws: Draws, share: Array, used: list[int], t: int) -> tuple[list[Array], Array]:
    """h of the draws of each proposal in use, scaled, (*, n_j); and their number, (*)."""
    log_w = [draws.log_weight(j) for j in used]
    largest = np.max([each.max(axis=-1) for each in log_w], axis=0)
    largest = np.where(np.isfinite(largest), largest, 0.0)[..., None]
    h = [
        share[..., k, None]
        / draws.count(j)
        * draws.factor(t, draws.stretch(j))
        * np.exp(log - largest)
        for k, (j, log) in enumerate(zip(used, log_w, strict=True))
    ]
    count = sum((share[..., k] > LEAST_SHARE) * draws.count(j) for k, j in enumerate(used))
    return h, np.asarray(count)


def _missed_share(seen: Pooled, share: Array, used: list[int], t: int) -> Array:
    """Where t w_j outweighs the mean of n_j draws, as all draws see it; in the table's shares."""
    draws = seen.draws
    if set(draws.counts) <= set(used) and len(used) == 1:
        return np.full(draws.batch, np.nan)
    mass = draws.factor(t) * seen.density_ratio
    total = mass.sum(axis=-1)
    missed = np.zeros(draws.batch)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_t = np.log(draws.factor(t)) + draws.log_joint - seen.log_scale[..., None]
        for k, j in enumerate(used):
            limit = np.log(OUTWEIGHS * draws.count(j) * total / draws.n)[..., None]
            outweighs = log_t - draws.log_q[j] > limit
            missed += share[..., k] * (mass * outweighs).sum(axis=-1) / total
        return np.where(total > 0, missed / share.sum(axis=-1), np.nan)
