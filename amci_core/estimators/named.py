r"""The estimators that have names: how each splits a budget, and what it makes of draws."""

from __future__ import annotations

__all__ = [
    "ESTIMATORS",
    "Adaptive",
    "CommonNumbers",
    "Estimator",
    "Mixture",
    "Prepared",
    "StratifiedMixture",
    "Tabled",
    "estimator",
]

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from amci_core.estimators import tables
from amci_core.estimators.combine import (
    Combined,
    Counts,
    combine,
    control,
    running_log_means,
)
from amci_core.estimators.draws import PROPOSALS, Array, Draws
from amci_core.estimators.mixture import (
    MixtureDraws,
    mixture_draws,
    random_components,
    stratified_components,
    stratified_moments,
)
from amci_core.estimators.moments import (
    Moments,
    paired_covariance,
    pooled_moments,
    running_moments,
    term_covariance,
    unjudged,
    variance,
)
from amci_core.estimators.studentized import Studentized, studentized


class Prepared(NamedTuple):
    """What makes an estimate.

    Arguments:
        table: Coefficients v[j, t], (3, 3), or a table for every pair and budget, (*, B, 3, 3).
        draws: The draws that it applies to.
        counts: How many of them for each budget, (B, 3).
        strata: Where the draws are stratified, log q_j at them for each component; see
            `stratified_moments`.
        pivot: Where the control-variate form is asked for, its rough mu for every budget, (*, B).
        paired: Whether the i-th points of all proposals come from the same random numbers.
    """

    table: tables.Table
    draws: Draws
    counts: Counts
    strata: tuple[Array, ...] | None = None
    pivot: Array | None = None
    paired: bool = False

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
            points, log_w = self.draws.of(2), self.draws.log_weight(2)
            log_E2 = running_log_means(points, log_w, self.counts[:, 2])[..., 2]
        return control(found, log_E2, self.pivot)

    def moments(self) -> Moments:
        """Moments of the terms from all of the draws."""
        if self.strata is None:
            return pooled_moments(self.draws)
        return stratified_moments(MixtureDraws(self.draws, self.strata))

    def term_covariance(self, moments: Moments) -> Array:
        """Covariance of the estimates of the three terms, (*, 3, 3), in units of the moments."""
        if self.paired:
            return paired_covariance(self.draws, moments)
        return term_covariance(self.last_table, moments)

    def standard_error(self, value: Array, moments: Moments) -> Array:
        """Standard error of the estimate mu from all of the draws, (*), in units of f.

        NaN where the draws say nothing of it, see `unjudged`. Mass that no draw has reached is not
        seen in it.

        Arguments:
            value: mu, (*), in units of f.
            moments: What `moments` gives.
        """
        if self.paired:
            c = np.stack([np.ones_like(value), -np.ones_like(value), -value], -1)
            form = np.einsum("...t,...ts,...s->...", c, self.term_covariance(moments), c)
            spread = np.sqrt(np.maximum(form, 0.0)) / moments.mean[..., 2]
        else:
            spread = np.sqrt(variance(self.last_table, moments, value))
        return np.where(unjudged(self.last_table, self.draws, value), np.nan, spread)

    def studentized(self, value: Array) -> Studentized:
        """How the error of mu (*) over that standard error departs from a normal's."""
        return studentized(self.last_table, self.draws, value, paired=self.paired)


class Estimator(ABC):
    """How to spend a budget of draws, and how to turn the draws into estimates.

    `common` says whether its draws come from common random numbers, so that it cannot share the
    draws of other estimators.
    """

    common: ClassVar[bool] = False

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
        """What to combine for one estimate out of all the draws, however they are split.

        Raises:
            ValueError: the estimator splits a budget equally and in no other way.
        """
        raise ValueError("draws: this estimator takes the same number from every proposal")

    @abstractmethod
    def prepare(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        """What to combine for every total budget, increasing, out of the draws in reserve.

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
        counts = np.zeros((len(totals), 3), dtype=np.int64)
        for b, total in enumerate(totals):
            if total < len(used):
                raise ValueError(
                    f"budgets: expected at least {len(used)} draws, one of each proposal, "
                    f"got {total}"
                )
            for rank, j in enumerate(used):
                counts[b, j] = total // len(used) + (rank < total % len(used))
        return counts

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        return self._counts(totals, present).max(axis=0)

    def prepare(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        return self._prepared(draws, self._counts(totals, draws.present))

    def prepare_all(self, draws: Draws) -> Prepared:
        sizes = [0 if points is None else points.n for points in draws.points]
        return self._prepared(draws, np.array([sizes]))

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

    Errors of E1 and E2 that go the same way cancel in their ratio. Together with a table that
    shares samples they would hurt: both live off the same correlation.
    """

    common: ClassVar[bool] = True

    def _counts(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        counts = super()._counts(totals, present)
        used = list(self.used(present))
        counts[:, used] = counts[:, used].min(axis=1, keepdims=True)
        return counts

    def _prepared(self, draws: Draws, counts: Counts) -> Prepared:
        return super()._prepared(draws, counts)._replace(paired=True)


@dataclass(frozen=True)
class Adaptive(Tabled):
    """An estimator that chooses its table from pooled moments of its own draws.

    Arguments:
        table: How a budget is split, and what is used where there is nothing to share.
        choose: The table of moments (*, B), (*, B, 3, 3).
        controlled: Whether the control-variate form of the table is used.
    """

    choose: Callable[[Moments], tables.Table]
    controlled: bool

    def _prepared(self, draws: Draws, counts: Counts) -> Prepared:
        plain = super()._prepared(draws, counts)
        present = draws.present
        if len(present) < 2:
            return plain
        moments = running_moments(draws, counts, apart=True)
        chosen = self.choose(moments)
        absent = [j for j in range(3) if j not in present]
        chosen[..., absent, :] = 0
        if 2 in absent:
            chosen[..., 2] = 0
        if not draws.signed:
            chosen[..., 1] = 0
        # What cannot be judged from a few draws is left as it is without sharing.
        judged = np.isfinite(chosen).all(axis=(-2, -1), keepdims=True)
        chosen = np.where(judged, chosen, plain.table)
        if not self.controlled:
            return plain._replace(table=chosen)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = moments.mean
            pivot = (mean[..., 0] - mean[..., 1]) / mean[..., 2]
        return plain._replace(table=chosen, pivot=pivot)


class Mixture(Estimator):
    """SNIS with the equal mixture of all proposals, each draw's component chosen by chance."""

    def used(self, present: Sequence[int]) -> tuple[int, ...]:
        return tuple(present)

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        if min(totals) < 1:
            raise ValueError(f"budgets: expected at least 1 draw, got {min(totals)}")
        counts = np.zeros(3, dtype=np.int64)
        counts[list(present)] = max(totals)
        return counts

    def _components(
        self, shape: tuple[int, ...], proposals: int, rng: np.random.Generator
    ) -> np.ndarray:
        return random_components(shape, proposals=proposals, rng=rng)

    def _strata(self, mixed: MixtureDraws) -> tuple[Array, ...] | None:
        return None

    def prepare(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        batch = draws.of(draws.present[0]).log_joint.shape[:-1]
        shape = (*batch, max(totals))
        mixed = mixture_draws(draws, self._components(shape, len(draws.present), rng))
        counts = np.zeros((len(totals), 3), dtype=np.int64)
        counts[:, 2] = totals
        return Prepared(tables.snis_q2(), mixed.draws, counts, self._strata(mixed))


class StratifiedMixture(Mixture):
    """SNIS with the mixture, every proposal contributing its fixed share of the draws."""

    def _components(
        self, shape: tuple[int, ...], proposals: int, rng: np.random.Generator
    ) -> np.ndarray:
        return stratified_components(shape, proposals=proposals, rng=rng)

    def _strata(self, mixed: MixtureDraws) -> tuple[Array, ...]:
        return mixed.log_components


ESTIMATORS: dict[str, Estimator] = {
    "amci": Tabled(tables.amci()),
    "snis-q2": Tabled(tables.snis_q2()),
    "snis-qm": Mixture(),
    "snis-qm-stratified": StratifiedMixture(),
    "snis-q1": Tabled(tables.snis_q1()),
    "reuse-paper": Adaptive(tables.amci(), tables.paper_optimum, controlled=False),
    "reuse-optimal": Adaptive(tables.amci(), tables.optimum, controlled=True),
    "amci-crn": CommonNumbers(tables.amci()),
}


def estimator(chosen: str | tables.Table | Estimator) -> Estimator:
    """The estimator of that name, or the one that a table of coefficients defines.

    Raises:
        ValueError: no estimator has that name, or the table is not one.
    """
    if isinstance(chosen, Estimator):
        return chosen
    if isinstance(chosen, str):
        if chosen not in ESTIMATORS:
            raise ValueError(
                f"estimator: expected a table or one of {', '.join(ESTIMATORS)}, got {chosen!r}"
            )
        return ESTIMATORS[chosen]
    return Tabled(tables.validate(chosen))
