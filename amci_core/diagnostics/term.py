r"""How well the draws that an estimate uses serve each of its terms."""

from __future__ import annotations

__all__ = ["TermDiagnostics", "diagnose"]

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from amci_core.diagnostics.pareto import ParetoFit, pareto_fit
from amci_core.estimators.combine import Prepared
from amci_core.estimators.draws import TERMS, Array
from amci_core.estimators.mis import Pooled

# A draw that brings more than this share of a term outweighs the others.
OUTWEIGHS = 0.1
# The least of it, in units of the mean contribution: of fewer than ten, every draw brings a tenth.
LEAST_OUTWEIGHS = 2
# Where own weights make this share of the draws effective, their tail does not matter.
NEARLY_ALL = 0.98
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
        missed_share: Share of the term's mass where one of these draws would bring a tenth of the
            term or more, so that they hardly ever go there, (*), as seen by the draws of all
            components. NaN where there are no others.
        draws: Number of draws.
        weights: h over its sum, (*, n); zero where all are.
    """

    proposal: str
    effective_draws: Array
    pooled_draws: Array
    missed_share: Array
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
    def largest_share(self) -> Array:
        """Share of the largest h in their sum, (*); NaN where all are zero."""
        return np.where(self.nonzero_draws > 0, self.weights.max(axis=-1), np.nan)

    @property
    def fewest_draws(self) -> Array:
        """Effective sample size by these draws or by those of all components: the smaller, (*).

        A proposal's own draws are over-optimistic where they have not met its largest weights yet.
        """
        return np.fmin(self.effective_draws, self.pooled_draws)

    @cached_property
    def pareto_fit(self) -> ParetoFit:
        """k-hat of the h that are not zero, its error and its threshold, (*) each."""
        return pareto_fit(self.weights)

    @property
    def pareto_k(self) -> Array:
        """k-hat of the h that are not zero, (*); see `amci_core.diagnostics.pareto.pareto_k`."""
        return self.pareto_fit.k

    @property
    def pareto_threshold(self) -> Array:
        """The largest k-hat that can be believed with so many draws, (*): S counts h > 0."""
        return self.pareto_fit.threshold


def diagnose(
    prepared: Prepared, seen: Pooled, term_errors: Array | None = None
) -> dict[str, TermDiagnostics]:
    """Diagnostics of every term on the draws that the table takes it from, in its shares.

    For AMCI these are f_plus w on q1_plus, f_minus w on q1_minus and w on q2; a shared table takes
    a term from several proposals. A good figure for w on q2 says nothing about E1: a proposal can
    cover the posterior and never reach f.

    Arguments:
        prepared: The table and its draws.
        seen: These draws, pooled with those of all components.
        term_errors: Of the estimate, (*, 3), see `Uncertainty`; without them there are no pooled
            draws.
    """
    table = np.abs(np.broadcast_to(prepared.last_table, (*prepared.draws.batch, 3, 3)))
    errors = np.full(table.shape[:-1], np.nan) if term_errors is None else term_errors
    found = {}
    for t, name in enumerate(TERMS):
        used = [j for j in range(3) if (table[..., j, t] > LEAST_SHARE).any()]
        if used and (t != 1 or prepared.draws.signed):
            shares = {j: table[..., j, t] for j in used}
            found[name] = _diagnosed(prepared, seen, shares, t, errors[..., t])
    return found


def _diagnosed(
    prepared: Prepared, seen: Pooled, shares: dict[int, Array], t: int, error: Array
) -> TermDiagnostics:
    draws = prepared.draws
    log_h = {j: draws.log_weight(j) + draws.log_factor(t, draws.stretch(j)) for j in shares}
    largest = np.max([each.max(axis=-1) for each in log_h.values()], axis=0)
    largest = np.where(np.isfinite(largest), largest, 0.0)[..., None]
    count, h = np.zeros(()), []
    for j, share in shares.items():
        count = count + (share > LEAST_SHARE) * draws.count(j)
        h.append((share / draws.count(j))[..., None] * np.exp(log_h[j] - largest))
    total = np.sum([part.sum(axis=-1) for part in h], axis=0)
    found = total > 0
    scale = np.where(found, total, 1.0)
    # Their spread within each proposal's draws makes the error, not that between proposals.
    within = sum(part.var(axis=-1) * part.shape[-1] for part in h) / np.square(scale)
    with np.errstate(invalid="ignore"):
        return TermDiagnostics(
            proposal=" and ".join(prepared.names[j] for j in shares),
            effective_draws=np.where(found, count / (1 + count * within), 0.0),
            pooled_draws=np.asarray(count / (1 + count * np.square(error))),
            missed_share=_missed_share(seen, shares, t),
            draws=sum(draws.count(j) for j in shares),
            weights=(h[0] if len(h) == 1 else np.concatenate(h, -1)) / scale[..., None],
        )


def _outweighs(n: int) -> float:
    """How many times the mean a contribution is that outweighs others, of n draws."""
    return max(OUTWEIGHS * n, LEAST_OUTWEIGHS)


def _missed_share(seen: Pooled, shares: dict[int, Array], t: int) -> Array:
    """Where t w_j outweighs the mean of n_j draws, as all draws see it; in the table's shares."""
    draws = seen.draws
    if len(draws.counts) == 1:
        return np.full(draws.batch, np.nan)
    log_mass = seen.log_terms[t] - seen.log_mixture
    log_total = logsumexp(log_mass, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mass = np.exp(log_mass - log_total[..., None])
        missed = np.zeros(draws.batch)
        for j, share in shares.items():
            limit = log_total + np.log(_outweighs(draws.count(j)) / draws.n)
            outweighs = seen.log_terms[t] - draws.log_q[j] > limit[..., None]
            missed += share * np.vecdot(mass, outweighs)
        whole = np.sum(list(shares.values()), axis=0)
        return np.where(log_total > -np.inf, missed / whole, np.nan)
