r"""What an estimator is, and the estimators by name: `ESTIMATORS`.

An estimator is a table, or a rule that gives one from the draws. A new one is a file with an
instance of `Tabled` (or a subclass of `Estimator`), and a line in `ESTIMATORS`.
"""

from __future__ import annotations

__all__ = [
    "ESTIMATORS",
    "ControlVariates",
    "Estimator",
    "Mixture",
    "Tabled",
    "balanced",
    "resolve",
]

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from amci_core.estimators import tables
from amci_core.estimators.combine import Combined, Counts, Prepared
from amci_core.estimators.control_variates import regress
from amci_core.estimators.draws import (
    DEFENSIVE,
    DEFENSIVE_SHARE,
    PROPOSALS,
    Array,
    Draws,
    split_evenly,
)
from amci_core.estimators.mis import Moments, moments

# The axis of `Combined` along which budgets stand.
ALONG = (("sign", -2), ("log_terms", -2), ("ratio", -1), ("log_unit", -1))


class Estimator(ABC):
    """How to spend a budget of draws, and how to turn the draws into estimates.

    `common` says whether its draws come from common random numbers, so that it cannot share the
    draws of other estimators.
    """

    common: bool = False
    # Whether the numbers of draws from each proposal are fixed, and not chance.
    fixed: bool = True
    # Whether it needs the density of each proposal at that proposal's draws alone.
    own_densities: bool = False

    def given(self, *, alpha: float | None = None, beta: float | None = None) -> Estimator:
        """The estimator with these arguments.

        Raises:
            ValueError: it has none, or not these.
        """
        if alpha is not None or beta is not None:
            raise ValueError("alpha, beta: they go with estimator reuse alone")
        return self

    def used(self, present: Sequence[int]) -> tuple[int, ...]:
        """The proposals, among those present, that it draws from."""
        return tuple(present)

    def least(self, present: Sequence[int]) -> int:
        """The smallest budget with which it makes an estimate."""
        return 1

    def splits(self, present: Sequence[int]) -> bool:
        """Whether it takes different numbers of draws from several proposals."""
        return False

    def sides(self, present: Sequence[int]) -> dict[str, float]:
        """What it is where all draws come by chance from one side, and the share of that side."""
        return {}

    @abstractmethod
    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        """How many draws of each component must be at hand for these budgets, (4,)."""

    def prepare_all(self, draws: Draws) -> Prepared:
        """One estimate out of all the draws, however they are split.

        Raises:
            ValueError: the estimator chooses the proposal of each draw by chance.
        """
        raise ValueError("draws: this estimator chooses the proposal of each draw by chance")

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
        choose: A table (*, 3, 3) by the moments (*) of its own draws; what `table` uses then says
            how a budget is split, and it serves where there is nothing to share.
        common: Whether all proposals transport the same random numbers. Errors of E1 and E2 that
            go the same way cancel in their ratio. With a table that shares samples they would
            hurt: both live off the same correlation.
    """

    table: tables.Table
    choose: Callable[[Moments], tables.Table] | None = None
    common: bool = False

    def table_of(self, present: Sequence[int]) -> tables.Table:
        """The table with the proposals that are there.

        Raises:
            ValueError: it uses another one.
        """
        # Without q1_minus, E1_minus is left out; `prepare` refuses that where f is signed. Without
        # q2, E2 is: there is no q2 where it is known.
        table = self.table.copy()
        if 2 not in present and table[2, 2] == 1 and not table[:2, 2].any():
            table[2, 2] = 0
        absent = [j for j in range(3) if j not in present]
        missing = ", ".join(PROPOSALS[j] for j in absent if table[j, ::2].any())
        if missing:
            raise ValueError(f"estimator: it uses a proposal that is not there: {missing}")
        table[absent] = 0
        return table

    def used(self, present: Sequence[int]) -> tuple[int, ...]:
        return tables.needed(self.table_of(present))

    def least(self, present: Sequence[int]) -> int:
        return len(self.used(present))

    def splits(self, present: Sequence[int]) -> bool:
        return not self.common and self.least(present) > 1

    @property
    def own_densities(self) -> bool:  # type: ignore[override]
        return self.choose is None

    def _counts(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        # Common random numbers come in pairs or threes.
        used = self.used(present)
        return np.array([split_evenly(n, used, equal=self.common) for n in totals])

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        return np.asarray(self._counts(totals, present).max(axis=0))

    def prepare(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        return self._prepared(draws, self._counts(totals, draws.present))

    def prepare_all(self, draws: Draws) -> Prepared:
        return self._prepared(draws, np.array([[draws.count(j) for j in range(3)]]))

    def _prepared(self, draws: Draws, counts: Counts) -> Prepared:
        table = self.table_of(draws.present)
        if draws.signed and abs(table[:, 1].sum() - 1) > 1e-5:
            there = ", ".join(PROPOSALS[j] for j in draws.present)
            raise ValueError(
                "estimator: f takes both signs, and E1_minus needs shares that sum to one, from "
                f"the proposals that are there ({there}); they sum to {table[:, 1].sum():g}"
            )
        if self.choose is None or len(draws.present) < 2:
            return Prepared(table, draws, counts, paired=self.common)
        chosen = []
        for row in counts:
            best = np.array(self.choose(moments(draws.first(row), robust=True)))
            best[..., [j for j in range(3) if j not in draws.present], :] = 0
            best[..., [1] * (not draws.signed) + [2] * (2 not in draws.present)] = 0
            # What cannot be judged from a few draws is left as it is without sharing.
            judged = np.isfinite(best).all(axis=(-2, -1), keepdims=True)
            chosen.append(np.where(judged, best, table))
        return Prepared(np.stack(chosen, -3), draws, counts)


@dataclass(frozen=True)
class ControlVariates(Estimator):
    """AMCI with control variates, see `amci_core.estimators.control_variates`.

    Arguments:
        defensive: Share of a budget that the defensive density draws, at least four draws where
            that leaves two of each proposal; the proposals share the rest equally.
    """

    defensive: float = DEFENSIVE_SHARE

    def least(self, present: Sequence[int]) -> int:
        return len(present)

    def splits(self, present: Sequence[int]) -> bool:
        return True

    def _counts(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        return np.array([split_evenly(total, present, self.defensive) for total in totals])

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        return np.asarray(self._counts(totals, present).max(axis=0))

    def prepare(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        return self._prepared(draws, self._counts(totals, draws.present))

    def prepare_all(self, draws: Draws) -> Prepared:
        return self._prepared(draws, np.array([[draws.count(j) for j in range(4)]]))

    def _prepared(self, draws: Draws, counts: Counts) -> Prepared:
        own = np.diag([float(j in draws.present) for j in range(3)])
        own[2, 2] *= draws.log_E2 is None
        return Regressed(own, draws, counts)


@dataclass(frozen=True)
class Regressed(Prepared):
    """Draws for AMCI with control variates; the table says what each term starts from."""

    def combine(self) -> Combined:
        found = [regress(self.draws.first(row)).combined for row in self.counts]
        return Combined(
            *(np.concatenate([getattr(c, name) for c in found], axis) for name, axis in ALONG)
        )


@dataclass(frozen=True)
class Mixture(Estimator):
    """SNIS with the equal mixture q_m of all proposals.

    Every point of q_m is one of the proposals' points of the same number, chosen by chance as in
    the paper, or in turn. Points chosen by chance are independent draws from q_m, and their error
    is subject to `snis_bound`. In turn, the numbers of draws from each proposal are fixed. Where
    q1 and q2 hardly overlap the ratio is then one of two separate estimates, as in AMCI, and the
    error can lie far below that bound.

    Arguments:
        stratified: Whether every proposal contributes its fixed share of the draws. The first one
            is chosen by chance: otherwise an odd number of draws would favour it.

    References:
        Owen and Zhou, Safe and effective importance sampling, 2000: the deterministic mixture.
    """

    stratified: bool

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        return self.stratified

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        if min(totals) < 1:
            raise ValueError(f"budgets: expected at least 1 draw, got {min(totals)}")
        return np.isin(range(4), present) * max(totals)

    def sides(self, present: Sequence[int]) -> dict[str, float]:
        if self.stratified or 2 not in present or len(present) < 2:
            return {}
        return {"snis-q1": 1 - 1 / len(present), "snis-q2": 1 / len(present)}

    def choices(self, shape: tuple[int, ...], k: int, rng: np.random.Generator) -> Counts:
        """Which of k proposals every point comes from, (*, n)."""
        if not self.stratified:
            return rng.integers(k, size=shape)
        return (rng.integers(k, size=(*shape[:-1], 1)) + np.arange(shape[-1])) % k

    def prepare(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        n, present = max(totals), draws.present
        choices = self.choices((*draws.batch, n), len(present), rng)
        index = np.array([draws.stretch(j).start for j in present])[choices] + np.arange(n)
        counts = {2: n}
        if draws.count(DEFENSIVE):
            part, counts[DEFENSIVE] = draws.stretch(DEFENSIVE), draws.count(DEFENSIVE)
            rest = np.arange(part.start, part.stop)
            rest = np.broadcast_to(rest, (*draws.batch, counts[DEFENSIVE]))
            index = np.concatenate([index, rest], -1)

        def pick(values: Array) -> Array:
            return np.take_along_axis(values, index, axis=-1)

        mixed = draws.mapped(pick, counts)
        log_mixture = np.logaddexp.reduce([mixed.log_q[j] for j in present]) - np.log(len(present))
        rows = np.zeros((len(totals), 4), dtype=np.int64)
        rows[:, 2] = totals
        return _mixed(mixed, log_mixture, rows)

    def prepare_all(self, draws: Draws) -> Prepared:
        return balanced(draws, draws.present) if self.stratified else super().prepare_all(draws)


def balanced(draws: Draws, mixed: Sequence[int]) -> Prepared:
    """SNIS with the draws of these components, the first ones, as draws of their mixture."""
    n = {j: draws.count(j) for j in mixed}
    total = sum(n.values())
    log_mixture = np.logaddexp.reduce([draws.log_q[j] + np.log(n[j] / total) for j in n])
    rest = {DEFENSIVE: draws.n - total} if draws.n > total else {}
    one = replace(draws, counts={2: total, **rest})
    return replace(_mixed(one, log_mixture, np.array([[0, 0, total, 0]])), components=draws)


def _mixed(draws: Draws, log_mixture: Array, counts: Counts) -> Prepared:
    log_q = {2: log_mixture}
    if draws.count(DEFENSIVE):
        log_q[DEFENSIVE] = draws.log_q[DEFENSIVE]
    draws = replace(draws, log_q=log_q)
    return Prepared(tables.snis_q2(), draws, counts, names=(*PROPOSALS[:2], "q_m"))


class Reuse(Tabled):
    """Sample reuse between q1_plus and q2, once alpha and beta are given."""

    def given(self, *, alpha: float | None = None, beta: float | None = None) -> Estimator:
        if alpha is None or beta is None:
            raise ValueError(
                f"estimator: reuse needs alpha and beta, got alpha {alpha!r} and beta {beta!r}"
            )
        return Tabled(tables.reuse(alpha, beta))


ESTIMATORS: dict[str, Estimator] = {
    "amci-cv": ControlVariates(),
    "amci": Tabled(tables.amci()),
    "snis-q2": Tabled(tables.snis_q2()),
    "snis-qm": Mixture(stratified=False),
    "snis-qm-stratified": Mixture(stratified=True),
    "snis-q1": Tabled(tables.snis_q1()),
    "reuse-paper": Tabled(tables.amci(), tables.paper_optimum),
    "amci-crn": Tabled(tables.amci(), common=True),
    "reuse": Reuse(tables.amci()),
}


def resolve(
    chosen: str | ArrayLike | Estimator, *, alpha: float | None = None, beta: float | None = None
) -> Estimator:
    """The estimator of that name, or the one that a table of coefficients defines.

    Arguments:
        chosen: A name of `ESTIMATORS`, where arguments may follow, as in `reuse:0.9:0.1`; a table
            of coefficients, (3, 3); or an estimator.
        alpha: With `reuse`, the share of E1 that comes from q1's draws.
        beta: With `reuse`, the share of E2 that comes from q1's draws.

    Raises:
        ValueError: no estimator has that name, the table is not one, or alpha and beta do not go
            with it.

    Example:
        >>> resolve("amci").used((0, 2))
        (0, 2)
    """
    texts: list[str] = []
    if isinstance(chosen, str):
        name, *texts = chosen.split(":")
        if name not in ESTIMATORS:
            known = ", ".join(ESTIMATORS)
            raise ValueError(f"estimator: expected a table or one of {known}, got {chosen!r}")
        found = ESTIMATORS[name]
    else:
        found = chosen if isinstance(chosen, Estimator) else Tabled(tables.validate(chosen))
    if texts:
        try:
            alpha, beta = map(float, texts)
        except ValueError:
            raise ValueError(f"estimator: expected {name}:ALPHA:BETA, got {chosen!r}") from None
    return found.given(alpha=alpha, beta=beta)
