r"""What an estimator is, and the estimators by name: `ESTIMATORS`.

An estimator is a table, or a rule that gives one from the draws. A new one is a file with an
instance of `Tabled` (or a subclass of `Estimator`), and a line in `ESTIMATORS`.
"""

from __future__ import annotations

__all__ = ["ESTIMATORS", "Automatic", "Estimator", "Mixture", "Tabled", "resolve"]

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from amci_core.estimators import tables
from amci_core.estimators.combine import Counts, Prepared
from amci_core.estimators.draws import PROPOSALS, REFERENCE, Array, Draws
from amci_core.estimators.mis import Moments, moments


class Estimator(ABC):
    """How to spend a budget of draws, and how to turn the draws into estimates.

    `common` says whether its draws come from common random numbers, so that it cannot share the
    draws of other estimators.
    """

    common: bool = False

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
        choose: A table (*, 3, 3) by the moments (*) of its own draws; what `table` uses then says
            how a budget is split, and it serves where there is nothing to share.
        controlled: Whether the control-variate form of a chosen table is used.
        common: Whether all proposals transport the same random numbers. Errors of E1 and E2 that
            go the same way cancel in their ratio. With a table that shares samples they would
            hurt: both live off the same correlation.
    """

    table: tables.Table
    choose: Callable[[Moments], tables.Table] | None = None
    controlled: bool = False
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

    def _counts(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        k = len(used := self.used(present))
        if min(totals) < k:
            raise ValueError(
                f"budgets: expected at least {k} draws, one of each proposal, got {min(totals)}"
            )
        counts = np.zeros((len(totals), 3), dtype=np.int64)
        for rank, j in enumerate(used):
            # Common random numbers come in pairs or threes.
            counts[:, j] = [n // k + (rank < n % k and not self.common) for n in totals]
        return counts

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
        chosen, rough = [], []
        for row in counts:
            seen = moments(draws.first(row), robust=True)
            best = np.array(self.choose(seen))
            best[..., [j for j in range(3) if j not in draws.present], :] = 0
            best[..., [1] * (not draws.signed) + [2] * (2 not in draws.present)] = 0
            # What cannot be judged from a few draws is left as it is without sharing.
            judged = np.isfinite(best).all(axis=(-2, -1), keepdims=True)
            chosen.append(np.where(judged, best, table))
            rough.append(seen.log_mean)
        pivot = np.stack(rough, -2) if self.controlled else None
        return Prepared(np.stack(chosen, -3), draws, counts, pivot=pivot)


class Automatic(Tabled):
    """The optimal table where q1's draws can serve E2, else AMCI.

    A share of E2 from q1 rests on the weights w = p(x, y) / q1 at q1's draws. Where q1 misses part
    of the posterior, as it does wherever it fits f p(x, y) well and f is zero somewhere, these
    have no variance that draws could show; their Pareto k-hat tells where that is so. A budget is
    split as for AMCI.
    """

    def _prepared(self, draws: Draws, counts: Counts) -> Prepared:
        from amci_core.diagnostics.term import sharing_of  # which imports estimators

        # A budget's table rests on that budget's draws, and not on those of larger ones.
        rest = {REFERENCE: draws.count(REFERENCE)}
        found = [sharing_of(draws.first(dict(enumerate(row)) | rest)) for row in counts]
        allowed = np.stack([each.shared for each in found], -1)[..., None, None]
        if not allowed.any():
            return replace(super()._prepared(draws, counts), sharing=found[-1])
        shared = Tabled(self.table, tables.optimum, controlled=True)._prepared(draws, counts)
        plain = self.table_of(draws.present)
        plain[1, 1] *= draws.signed
        return replace(shared, table=np.where(allowed, shared.table, plain), sharing=found[-1])


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

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        if min(totals) < 1:
            raise ValueError(f"budgets: expected at least 1 draw, got {min(totals)}")
        return np.isin(range(3), present) * max(totals)

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
        if draws.count(REFERENCE):
            part, counts[REFERENCE] = draws.stretch(REFERENCE), draws.count(REFERENCE)
            rest = np.arange(part.start, part.stop)
            rest = np.broadcast_to(rest, (*draws.batch, counts[REFERENCE]))
            index = np.concatenate([index, rest], -1)

        def pick(values: Array) -> Array:
            return np.take_along_axis(values, index, axis=-1)

        mixed = draws.mapped(pick, counts)
        strata = np.stack([mixed.log_q[j] for j in present])
        log_q = {j: q for j, q in mixed.log_q.items() if j == REFERENCE and j in counts}
        log_q[2] = np.logaddexp.reduce(strata) - np.log(len(present))
        rows = np.zeros((len(totals), 3), dtype=np.int64)
        rows[:, 2] = totals
        return Prepared(
            tables.snis_q2(),
            replace(mixed, log_q=log_q),
            rows,
            strata if self.stratified else None,
            names=(*PROPOSALS[:2], "q_m"),
        )


class Reuse(Tabled):
    """Sample reuse between q1_plus and q2, once alpha and beta are given."""

    def given(self, *, alpha: float | None = None, beta: float | None = None) -> Estimator:
        if alpha is None or beta is None:
            raise ValueError(
                f"estimator: reuse needs alpha and beta, got alpha {alpha!r} and beta {beta!r}"
            )
        return Tabled(tables.reuse(alpha, beta))


ESTIMATORS: dict[str, Estimator] = {
    "amci": Tabled(tables.amci()),
    "snis-q2": Tabled(tables.snis_q2()),
    "snis-qm": Mixture(stratified=False),
    "snis-qm-stratified": Mixture(stratified=True),
    "snis-q1": Tabled(tables.snis_q1()),
    "reuse-paper": Tabled(tables.amci(), tables.paper_optimum),
    "reuse-optimal": Tabled(tables.amci(), tables.optimum, controlled=True),
    "amci-crn": Tabled(tables.amci(), common=True),
    "reuse": Reuse(tables.amci()),
    "auto": Automatic(tables.amci()),
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
