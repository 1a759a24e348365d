r"""How well the draws that an estimate uses serve each of its terms."""

from __future__ import annotations

__all__ = ["TermDiagnostics", "diagnose"]

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from amci_core.diagnostics.pareto import pareto_k, pareto_threshold
from amci_core.estimators.base import Prepared
from amci_core.estimators.draws import TERMS, Array, log_sum_exp
from amci_core.estimators.mis import Pooled, moments
from amci_core.printing import Printed

# A draw that brings more than this share of a term outweighs the others; of few draws, one that
# brings twice the mean.
OUTWEIGHS, LEAST_OUTWEIGHS = 0.1, 2
# Below this coefficient a table takes nothing of a term from a proposal.
LEAST_COEFFICIENT = 1e-12


@dataclass(frozen=True, repr=False)
class TermDiagnostics(Printed):
    """How well draws serve a term, for a batch (*) of cases (y, theta).

    A draw brings h = |v[j, t]| t w_j / n_j: its share in the term's estimate.

    Arguments:
        proposal: Name of the proposal that the draws come from; several are joined by " and ".
        ess: Effective sample size n / (1 + n v) with v the relative variance of sum h by the
            spread of h within each proposal's draws, in draws, (*). For one proposal it is
            (sum h)^2 / sum h^2.
        pooled_ess: Effective sample size by the term's variance as the draws of all components
            see it, in draws, (*): less optimistic if weights are heavy-tailed. NaN if they cannot
            tell.
        uncovered_mass: Share of the term's mass that these draws hardly ever reach, (*): where
            one of them would bring a tenth of the term or more, by the draws of all components.
            NaN if there are no others.
        draws: Number of draws.
        weights: h over its sum, (*, n); zero if all are.
    """

    proposal: str
    ess: Array
    pooled_ess: Array
    uncovered_mass: Array
    draws: int
    weights: Array = field(repr=False, compare=False)

    @cached_property
    def nonzero_draws(self) -> Array:
        """Number of draws that bring something: h > 0, (*)."""
        return np.asarray((self.weights > 0).sum(axis=-1, dtype=np.float64))

    @property
    def nonzero_share(self) -> Array:
        """Share of draws at which the integrand t is not zero, (*)."""
        return np.asarray(self.nonzero_draws / self.draws)

    @cached_property
    def largest_weight(self) -> Array:
        """The largest normalized weight, max h / sum h, (*); NaN if all are zero."""
        return np.where(self.nonzero_draws > 0, self.weights.max(axis=-1), np.nan)

    @property
    def smallest_ess(self) -> Array:
        """The smaller of `ess` and `pooled_ess`, (*).

        A proposal's own draws are over-optimistic until they have met its largest weights.
        """
        return np.fmin(self.ess, self.pooled_ess)

    @cached_property
    def pareto_k(self) -> Array:
        """k-hat of the h that are not zero, (*); see `amci_core.diagnostics.pareto_k`."""
        return pareto_k(self.weights)

    @property
    def pareto_threshold(self) -> Array:
        """The largest k-hat that can be believed with so many draws, (*): S counts h > 0."""
        return pareto_threshold(self.nonzero_draws)


def diagnose(prepared: Prepared, seen: Pooled) -> dict[str, TermDiagnostics]:
    """Diagnostics of every term on the draws that the table takes it from, in its shares.

    For AMCI these are f_plus w on q1_plus, f_minus w on q1_minus and w on q2; a shared table takes
    a term from several proposals. A good figure for w on q2 says nothing about E1: a proposal can
    cover the posterior and never reach f.

    Arguments:
        prepared: The table and its draws.
        seen: These draws, pooled with those of all components.

    Returns:
        By term its ESS, relative ESS, largest normalized weight and Pareto k-hat, (*).
    """
    draws = prepared.draws
    table = np.abs(np.broadcast_to(prepared.last_table, (*draws.batch, 3, 3)))
    covariance, diagnostics = moments(seen).covariance, {}
    for t in draws.terms:
        used = [j for j in range(3) if (table[..., j, t] > LEAST_COEFFICIENT).any()]
        v = {j: table[..., j, t] for j in used}
        if v:
            with np.errstate(invalid="ignore"):
                variances = [
                    np.where(v_j > 0, v_j**2 * covariance[..., j, t, t] / draws.count(j), 0.0)
                    for j, v_j in v.items()
                ]
            diagnostics[TERMS[t]] = _of_term(prepared, seen, t, v, np.sum(variances, axis=0))
    return diagnostics


def _of_term(
    prepared: Prepared, seen: Pooled, t: int, v: dict[int, Array], variance: Array
) -> TermDiagnostics:
    """Diagnostics of term t.

    Arguments:
        prepared: The table and its draws.
        seen: These draws, pooled.
        t: The term.
        v: |v[j, t]| of the proposals in use, (*) each.
        variance: Of the term's estimate over its square, by the draws of all components, (*).
    """
    draws = prepared.draws
    log_h = {j: draws.log_weight(j) + draws.log_factor(t, draws.stretch(j)) for j in v}
    largest = np.max([log_h_j.max(axis=-1) for log_h_j in log_h.values()], axis=0)
    largest = np.where(np.isfinite(largest), largest, 0.0)[..., None]
    h = [(v[j] / draws.count(j))[..., None] * np.exp(log_h[j] - largest) for j in v]
    n = sum((v[j] > LEAST_COEFFICIENT) * draws.count(j) for j in v)
    total = np.sum([h_j.sum(axis=-1) for h_j in h], axis=0)
    scale = np.where(total > 0, total, 1.0)
    # The spread within each proposal's draws makes the error, not that between proposals.
    within = sum(h_j.var(axis=-1) * h_j.shape[-1] for h_j in h) / np.square(scale)
    with np.errstate(invalid="ignore"):
        return TermDiagnostics(
            proposal=" and ".join(prepared.names[j] for j in v),
            ess=np.where(total > 0, n / (1 + n * within), 0.0),
            pooled_ess=np.asarray(n / (1 + n * variance)),
            uncovered_mass=_uncovered_mass(seen, v, t),
            draws=sum(draws.count(j) for j in v),
            weights=np.concatenate(h, -1) / scale[..., None],
        )


def _uncovered_mass(seen: Pooled, v: dict[int, Array], t: int) -> Array:
    """Mass where t w_j outweighs the mean of n_j draws, by all draws; in the table's shares."""
    draws = seen.draws
    if len(draws.counts) == 1:
        return np.full(draws.batch, np.nan)
    log_mass = seen.log_terms[t] - seen.log_mixture
    log_total = log_sum_exp(log_mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        mass = np.exp(log_mass - log_total[..., None])
        uncovered = np.zeros(draws.batch)
        for j, v_j in v.items():
            times = max(OUTWEIGHS * draws.count(j), LEAST_OUTWEIGHS)
            limit = log_total + np.log(times / draws.n)
            outweighs = seen.log_terms[t] - draws.log_q[j] > limit[..., None]
            uncovered += v_j * np.vecdot(mass, outweighs)
        return np.where(log_total > -np.inf, uncovered / sum(v.values()), np.nan)
