r"""What an estimator is: how it spends a total of draws, and what it makes of them.

An `Estimator` turns draws into a `Prepared` table, and that into `Combined` terms, in log space
until the last step. Estimates along the number of draws come from one pass: the sums of every
stretch between two numbers of draws are formed with their own largest term, and accumulated by
log-sum-exp.
"""

from __future__ import annotations

__all__ = ["Combined", "Counts", "Estimator", "Prepared", "running_log_means"]

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import DEFENSIVE, PROPOSALS, Array, Draws, split_evenly, whole_sets
from amci_core.estimators.tables import Table, needed

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Combined:
    """The terms of an estimate and their ratio, for a batch (*) and B numbers of draws.

    Arguments:
        sign: Signs of the terms, (*, B, 3); reused samples can make one negative.
        log_terms: log|E1_plus|, log|E1_minus|, log|E2| in nats, (*, B, 3); -inf where zero.
    """

    sign: Array
    log_terms: Array

    @cached_property
    def log_unit(self) -> Array:
        """log of the larger of |E1_plus| and |E1_minus| over |E2| in nats, (*, B)."""
        with np.errstate(invalid="ignore"):
            largest = (self.log_terms[..., :2] - self.log_terms[..., 2:]).max(axis=-1)
        return np.where(np.isfinite(largest), largest, 0.0)

    @cached_property
    def ratio(self) -> Array:
        """mu = (E1_plus - E1_minus) / E2 in units of exp(log_unit), (*, B); NaN for E2 = 0."""
        with np.errstate(invalid="ignore"):
            log_parts = self.log_terms[..., :2] - self.log_terms[..., 2:]
            parts = np.exp(np.minimum(log_parts - self.log_unit[..., None], 0.0))
        plus, minus = np.moveaxis(self.sign[..., :2] * parts, -1, 0)
        sign_E2 = self.sign[..., 2]
        return np.where(sign_E2 == 0, np.nan, (plus - minus) * sign_E2)

    @property
    def value(self) -> Array:
        """mu, (*, B), in units of f; 0 where it underflows."""
        with np.errstate(over="ignore"):
            return self.ratio * np.exp(self.log_unit)


@dataclass(frozen=True)
class Prepared:
    """Draws and the table that makes estimates of them.

    Arguments:
        table: Coefficients v[j, t], (3, 3), or a table for every case and total, (*, B, 3, 3).
        draws: The draws that it applies to.
        counts: How many of them for each total, (B, 5) or (B, 3); None for one estimate from all.
        components: For a mixture with a fixed number of draws from each component, these draws by
            their components, in the same order.
        names: What the components in the proposals' places are called.

    Raises:
        ValueError: f takes both signs, and the coefficients of E1_minus do not sum to one.
    """

    table: Table
    draws: Draws
    counts: Counts | None = None
    components: Draws | None = None
    names: tuple[str, ...] = PROPOSALS

    def __post_init__(self) -> None:
        if not self.draws.signed:
            return
        of_E1_minus = self.table[..., 1].sum(-1)
        if (abs(of_E1_minus - 1) > 1e-5).any():
            there = ", ".join(PROPOSALS[j] for j in self.draws.present if j < len(PROPOSALS))
            raise ValueError(
                "estimator: f - shift takes both signs, so the coefficients of E1_minus for "
                f"{there} must sum to 1, got {of_E1_minus.min():g}. Use amci-cv, or a shift of at "
                "most min f"
            )

    @property
    def rows(self) -> Counts:
        """How many draws of each proposal every estimate is made of, (B, 5) or (B, 3)."""
        return self.draws.totals if self.counts is None else self.counts

    @property
    def last_table(self) -> Table:
        """The table for all of the draws, (3, 3) or (*, 3, 3)."""
        return self.table if self.table.ndim == 2 else self.table[..., -1, :, :]

    def combine(self) -> Combined:
        """The estimates, one for each total."""
        return combine(self.table, self.draws, self.rows)


def combine(table: Table, draws: Draws, counts: Counts) -> Combined:
    """Applies a table to the first draws of every proposal.

    Arguments:
        table: The estimator's coefficients, (3, 3), or for every case and number of draws,
            (*, B, 3, 3).
        draws: Points of every proposal that the table needs.
        counts: How many of each proposal's draws to use, (B, 3), each column increasing.
    """
    rows = needed(table)
    logs = np.stack([running_log_means(draws, j, counts[:, j]) for j in rows], -2)
    v = table[..., rows, :]
    logs = np.where(v != 0, logs, -np.inf)
    largest = logs.max(axis=-2)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    relative = (v * np.exp(logs - largest[..., None, :])).sum(axis=-2)
    with np.errstate(divide="ignore"):
        sign, log_terms = np.sign(relative), np.log(np.abs(relative)) + largest
    if draws.log_E2 is not None and not v[..., 2].any():
        sign[..., 2], log_terms[..., 2] = 1.0, draws.log_E2[..., None]
    return Combined(sign, log_terms)


def running_log_means(draws: Draws, j: int, counts: Counts) -> Array:
    """log of the means of (f_plus w, f_minus w, w) over the first n draws of q_j, for n in counts.

    Returns:
        Logs of the means, (*, B, 3), in nats; -inf where a mean is zero.
    """
    first, ends = draws.stretch(j).start, np.unique(counts)
    starts = np.append(0, ends[:-1])
    log_w = draws.log_weight(j)[..., : ends[-1]]
    sums = np.full((*draws.batch, len(ends), 3), -np.inf)
    for t in draws.terms:
        log_t = log_w + draws.log_factor(t, slice(first, first + ends[-1]))
        largest = np.maximum.reduceat(log_t, starts, axis=-1)
        largest = np.where(np.isfinite(largest), largest, 0.0)
        terms = np.exp(log_t - np.repeat(largest, ends - starts, axis=-1))
        with np.errstate(divide="ignore"):
            sums[..., t] = np.log(np.add.reduceat(terms, starts, axis=-1)) + largest
    sums = np.logaddexp.accumulate(sums, axis=-2)[..., np.searchsorted(ends, counts), :]
    return sums - np.log(counts)[:, None]


class Estimator(ABC):
    """How to spend a total of draws, and how to turn the draws into estimates.

    A subclass defines `apply`; the rest has defaults. Where q1_plus does not cover the posterior,
    E2 has to come from q2. With Sobol points it is a frozen dataclass with a field `points`.

    Attributes:
        fixed: Whether the numbers of draws from each proposal are fixed, and not chance.
        own_densities: Whether it needs the density of each proposal at its own draws alone.
        defensive: Share of a total that the defensive density draws for it.
        points: How its proposals draw: `independent`, or `sobol`, scrambled Sobol points.
        takes_sobol: Whether the latter is possible.

    Example:
        >>> from amci_core.estimators import tables
        >>> class Tenth(Estimator):  # AMCI for f >= 0, a tenth of E1 from draws of q2
        ...     def apply(self, draws, counts=None):
        ...         return Prepared(tables.reuse(0.9, 0.0), draws, counts)
        >>> Tenth().counts([10, 100], present=(0, 2))
        array([[ 5,  0,  5,  0,  0],
               [50,  0, 50,  0,  0]])
    """

    fixed: bool = True
    own_densities: bool = False
    defensive: float = 0.0
    points: str = "independent"
    takes_sobol: bool = False

    @abstractmethod
    def apply(self, draws: Draws, counts: Counts | None = None) -> Prepared:
        """Estimates out of the first draws of each component, for rows of counts (B, 5).

        Without counts, one estimate out of all draws, however they are split.

        Raises:
            ValueError: f takes both signs, and the estimator has no E1_minus.
        """

    def used(self, present: Sequence[int]) -> tuple[int, ...]:
        """The proposals, among those present, that it draws from."""
        return tuple(j for j in present if j < len(PROPOSALS))

    def least(self, present: Sequence[int]) -> int:
        """The smallest total with which it makes an estimate: one draw of each proposal."""
        return len(self.used(present))

    def counts(
        self, totals: Sequence[int], present: Sequence[int], defensive: float | None = None
    ) -> Counts:
        """Draws of each component for every total, (B, 5).

        Arguments:
            totals: Total numbers of draws.
            present: The proposals there are.
            defensive: Share of the defensive density; by default the estimator's own.

        Raises:
            ValueError: a total is less than one draw of each proposal.
        """
        used, share = self.used(present), self.defensive if defensive is None else defensive
        counts = np.array([split_evenly(total, used, share) for total in totals])
        return whole_sets(counts) if self.points == "sobol" else counts

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        """How many draws of each component `running` needs for these totals, (5,)."""
        return np.asarray(self.counts(totals, present).max(axis=0))

    def running(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        """Estimates for every total, increasing, out of the draws in reserve."""
        present = [j for j in draws.counts if j != DEFENSIVE]
        return self.apply(draws, self.counts(totals, present))
