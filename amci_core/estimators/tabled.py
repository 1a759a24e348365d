r"""What an estimator is; those that are a table, or choose one by the moments of their draws."""

from __future__ import annotations

__all__ = ["Adaptive", "CommonNumbers", "Estimator", "Prepared", "Sharing", "Tabled"]

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators import tables
from amci_core.estimators.combine import Combined, Counts, combine, control, running_log_means
from amci_core.estimators.draws import PROPOSALS, Array, Draws
from amci_core.estimators.mis import Moments, moments


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

    table: tables.Table
    draws: Draws
    counts: Counts
    strata: Array | None = None
    pivot: Array | None = None
    paired: bool = False
    sharing: Sharing | None = None
    names: tuple[str, ...] = PROPOSALS

    @property
    def last_table(self) -> tables.Table:
        """The table for all of the draws, (3, 3) or (*, 3, 3)."""
        return self.table if self.table.ndim == 2 else self.table[..., -1, :, :]

    def combine(self) -> Combined:
        """The estimates, one for each budget."""
        found = combine(self.table, self.draws, self.counts)
        if self.pivot is None:
            return found
        if self.draws.log_E2 is not None:
            log_E2 = np.broadcast_to(self.draws.log_E2[..., None], found.value.shape)
        else:
            log_E2 = running_log_means(self.draws, 2, self.counts[:, 2])[..., 2]
        return control(found, log_E2, self.pivot)


class Estimator(ABC):
    """How to spend a budget of draws, and how to turn the draws into estimates.

    `common` says whether its draws come from common random numbers, so that it cannot share the
    draws of other estimators.
    """

    common: ClassVar[bool] = False

    def given(self, *, alpha: float | None = None, beta: float | None = None) -> Estimator:
        """The estimator with these arguments.

        Raises:
            ValueError: it has none, or not these.
        """
        if alpha is not None or beta is not None:
            raise ValueError("alpha, beta: they go with estimator reuse alone")
        return self

    @abstractmethod
    def used(self, present: Sequence[int]) -> tuple[int, ...]:
        """The proposals, among those present, that it draws from."""

    def least(self, present: Sequence[int]) -> int:
        """The smallest budget with which it makes an estimate."""
        return 1

    @abstractmethod
    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        """How many draws of each proposal must be at hand for these budgets, (3,)."""

    def prepare_all(self, draws: Draws) -> Prepared:
        """One estimate out of all the draws, however they are split.

        Raises:
            ValueError: the estimator splits a budget equally and in no other way.
        """
        raise ValueError("draws: this estimator takes the same number from every proposal")

    @abstractmethod
    def prepare(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        """Estimates for every total budget, increasing, out of the draws in reserve.

        Raises:
            ValueError: f takes both signs, and the estimator has no E1_minus.
        """


@dataclass(frozen=True)
class Tabled(Estimator):
    """An estimator that is a table: it splits a budget equally over the proposals it uses.

    Arguments:
        table: Coefficients v[j, t], see `amci_core.estimators.tables`.
    """

    table: tables.Table

    def _table(self, present: Sequence[int]) -> tables.Table:
        # Without q1_minus, E1_minus is left out; `prepare` refuses that where f is signed. Without
        # q2, E2 is: there is no q2 where it is known.
        table = self.table.copy()
        absent = [j for j in range(3) if j not in present]
        if 2 in absent and np.array_equal(table[:, 2], [0, 0, 1]):
            table[:, 2] = 0
        if table[absent][:, [0, 2]].any():
            missing = ", ".join(PROPOSALS[j] for j in absent if table[j, [0, 2]].any())
            raise ValueError(f"estimator: it uses a proposal that is not there: {missing}")
        table[absent] = 0
        return table

    def used(self, present: Sequence[int]) -> tuple[int, ...]:
        return tables.needed(self._table(present))

    def least(self, present: Sequence[int]) -> int:
        return len(self.used(present))

    def _counts(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        used = self.used(present)
        if min(totals) < len(used):
            raise ValueError(
                f"budgets: expected at least {len(used)} draws, one of each proposal, "
                f"got {min(totals)}"
            )
        counts = np.zeros((len(totals), 3), dtype=np.int64)
        for rank, j in enumerate(used):
            counts[:, j] = [n // len(used) + (rank < n % len(used)) for n in totals]
        return counts

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        return np.asarray(self._counts(totals, present).max(axis=0))

    def prepare(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        return self._prepared(draws, self._counts(totals, draws.present))

    def prepare_all(self, draws: Draws) -> Prepared:
        return self._prepared(draws, np.array([[draws.count(j) for j in range(3)]]))

    def _prepared(self, draws: Draws, counts: Counts) -> Prepared:
        table = self._table(draws.present)
        if draws.signed and not np.isclose(table[:, 1].sum(), 1):
            there = ", ".join(PROPOSALS[j] for j in draws.present)
            raise ValueError(
                "estimator: f takes both signs, and E1_minus needs shares that sum to one, from "
                f"the proposals that are there ({there}); they sum to {table[:, 1].sum():g}"
            )
        return Prepared(table, draws, counts)


class CommonNumbers(Tabled):
    """AMCI whose proposals all transport the same random numbers.

    Errors of E1 and E2 that go the same way cancel in their ratio. With a table that shares
    samples they would hurt: both live off the same correlation.
    """

    common: ClassVar[bool] = True

    def _counts(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        counts = super()._counts(totals, present)
        used = list(self.used(present))
        counts[:, used] = counts[:, used].min(axis=1, keepdims=True)
        return counts

    def _prepared(self, draws: Draws, counts: Counts) -> Prepared:
        return replace(super()._prepared(draws, counts), paired=True)


@dataclass(frozen=True)
class Adaptive(Tabled):
    """An estimator that chooses its table by the moments of its own draws.

    Arguments:
        table: How a budget is split, and what is used where there is nothing to share.
        choose: The table of moments (*), (*, 3, 3).
        controlled: Whether the control-variate form of the table is used.
    """

    choose: Callable[[Moments], tables.Table]
    controlled: bool

    def _prepared(self, draws: Draws, counts: Counts) -> Prepared:
        plain = super()._prepared(draws, counts)
        if len(draws.present) < 2:
            return plain
        found = [self._chosen(plain, draws.first(row)) for row in counts]
        table = np.stack([table for table, _ in found], -3)
        pivot = np.stack([mu for _, mu in found], -1)
        return replace(plain, table=table, pivot=pivot if self.controlled else None)

    def _chosen(self, plain: Prepared, draws: Draws) -> tuple[tables.Table, Array]:
        """The table for some draws, (*, 3, 3), and mu as all of them see it, (*)."""
        seen = moments(draws, robust=True)
        chosen = np.array(self.choose(seen))
        absent = [j for j in range(3) if j not in draws.present]
        chosen[..., absent, :] = 0
        if 2 in absent:
            chosen[..., 2] = 0
        if not draws.signed:
            chosen[..., 1] = 0
        # What cannot be judged from a few draws is left as it is without sharing.
        judged = np.isfinite(chosen).all(axis=(-2, -1), keepdims=True)
        return np.where(judged, chosen, plain.table), seen.mu
