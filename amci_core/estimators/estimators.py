r"""The estimators, by name: `ESTIMATORS`.

An estimator is a table, or a rule that gives one from the draws. A new one is a file with a
subclass of `Estimator` (or an instance of `Tabled`), and a line in `ESTIMATORS`.
"""

from __future__ import annotations

__all__ = ["ESTIMATORS", "Automatic", "Mixture", "resolve"]

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from amci_core.estimators import tables
from amci_core.estimators.combine import Counts
from amci_core.estimators.draws import PROPOSALS, REFERENCE, Array, Draws
from amci_core.estimators.tabled import (
    Adaptive,
    CommonNumbers,
    Estimator,
    Prepared,
    Sharing,
    Tabled,
)

SHARED = "reuse-optimal: the weights of E2 on the draws for E1 have tails that can be judged"


class Automatic(Adaptive):
    """The optimal table where q1's draws can serve E2, else AMCI.

    A share of E2 from q1 rests on the weights w = p(x, y) / q1 at q1's draws. Where q1 misses part
    of the posterior, as it does wherever it fits f p(x, y) well and f is zero somewhere, these
    have no variance that draws could show; their Pareto k-hat tells where that is so.
    """

    def _prepared(self, draws: Draws, counts: Counts) -> Prepared:
        shared = super()._prepared(draws, counts)
        if shared.table.ndim == 2:
            nothing = np.zeros(draws.batch, dtype=bool)
            return replace(shared, sharing=Sharing(nothing, ("one proposal",)))
        sharing = self._sharing(draws)
        plain = tables.amci() * np.isin(np.arange(3), draws.present)[:, None]
        if not draws.signed:
            plain[1, 1] = 0
        allowed = sharing.shared[..., None, None, None]
        return replace(shared, table=np.where(allowed, shared.table, plain), sharing=sharing)

    @staticmethod
    def _sharing(draws: Draws) -> Sharing:
        # Diagnostics import estimators, so that they cannot be imported above.
        from amci_core.diagnostics.pareto import pareto_k, pareto_threshold

        allowed = np.ones(draws.batch, dtype=bool)
        why = np.full(draws.batch, SHARED, dtype=object)
        for j in reversed([j for j in draws.present if j != 2]):
            log_w = draws.log_weight(j)
            top = log_w.max(axis=-1, keepdims=True)
            k = pareto_k(np.exp(log_w - np.where(np.isfinite(top), top, 0.0)))
            limit = float(pareto_threshold(draws.count(j)))
            elsewhere = np.ones(draws.n, dtype=bool)
            elsewhere[draws.stretch(j)] = False
            lost = (draws.log_q[j] == -np.inf) & (draws.log_joint > -np.inf)
            misses = (lost & elsewhere).any(axis=-1)
            allowed &= (k < limit) & ~misses
            for place in np.ndindex(draws.batch):
                name = PROPOSALS[j]
                if misses[place]:
                    reason = f"{name} misses part of the posterior, so that it cannot serve E2"
                elif np.isnan(k[place]):
                    reason = f"{draws.count(j)} draws are too few to tell whether {name} serves E2"
                elif not k[place] < limit:
                    reason = f"w on {name} has k-hat {k[place]:.2f}, not below {limit:.2f}"
                else:
                    continue
                why[place] = f"amci: {reason}"
        return Sharing(allowed, tuple(why.ravel()))


@dataclass(frozen=True)
class Mixture(Estimator):
    """SNIS with the equal mixture q_m of all proposals.

    Every point of q_m is one of the proposals' points of the same number, chosen by chance as in
    the paper, or in turn.

    Arguments:
        stratified: Whether every proposal contributes its fixed share of the draws. The first one
            is chosen by chance: otherwise an odd number of draws would favour it.
    """

    stratified: bool

    def used(self, present: Sequence[int]) -> tuple[int, ...]:
        return tuple(present)

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        if min(totals) < 1:
            raise ValueError(f"budgets: expected at least 1 draw, got {min(totals)}")
        counts = np.zeros(3, dtype=np.int64)
        counts[list(present)] = max(totals)
        return counts

    def choices(self, shape: tuple[int, ...], k: int, rng: np.random.Generator) -> Counts:
        """Which of k proposals every point comes from, (*, n)."""
        if not self.stratified:
            return rng.integers(k, size=shape, dtype=np.int64)
        first = rng.integers(k, size=(*shape[:-1], 1), dtype=np.int64)
        return np.asarray((first + np.arange(shape[-1])) % k)

    def prepare(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        n, present = max(totals), draws.present
        choices = self.choices((*draws.batch, n), len(present), rng)
        starts = np.array([draws.stretch(j).start for j in present])
        index = starts[choices] + np.arange(n)
        counts = {2: n}
        if draws.count(REFERENCE):
            part = draws.stretch(REFERENCE)
            rest = np.broadcast_to(
                np.arange(part.start, part.stop), (*draws.batch, draws.count(REFERENCE))
            )
            index = np.concatenate([index, rest], -1)
            counts[REFERENCE] = draws.count(REFERENCE)

        def pick(values: Array) -> Array:
            return np.take_along_axis(values, index, axis=-1)

        strata = np.stack([pick(draws.log_q[j]) for j in present])
        log_q = {2: np.logaddexp.reduce(strata) - np.log(len(present))}
        if REFERENCE in counts:
            log_q[REFERENCE] = pick(draws.log_q[REFERENCE])
        mixed = replace(
            draws, f=pick(draws.f), log_joint=pick(draws.log_joint), log_q=log_q, counts=counts
        )
        rows = np.zeros((len(totals), 3), dtype=np.int64)
        rows[:, 2] = totals
        names = (*PROPOSALS[:2], "q_m")
        kept = strata if self.stratified else None
        return Prepared(tables.snis_q2(), mixed, rows, kept, names=names)


class Reuse(Tabled):
    """Sample reuse between q1_plus and q2, once alpha and beta are given."""

    def __init__(self) -> None:
        super().__init__(tables.amci())

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
    "reuse-paper": Adaptive(tables.amci(), tables.paper_optimum, controlled=False),
    "reuse-optimal": Adaptive(tables.amci(), tables.optimum, controlled=True),
    "amci-crn": CommonNumbers(tables.amci()),
    "reuse": Reuse(),
    "auto": Automatic(tables.amci(), tables.optimum, controlled=True),
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
