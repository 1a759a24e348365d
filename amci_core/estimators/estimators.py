r"""The estimators by name.

A new one is a table of coefficients, or a file with a subclass of `Estimator`
(`amci_core.estimators.base`), and a line in `ESTIMATORS`.
"""

from __future__ import annotations

__all__ = ["ESTIMATORS", "Tabled", "balanced", "resolve"]

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from amci_core._arguments import check_name
from amci_core.estimators import tables
from amci_core.estimators.base import Counts, Estimator, Prepared
from amci_core.estimators.control_variates import Regressed
from amci_core.estimators.draws import (
    COMPLEMENT,
    COMPONENTS,
    DEFENSIVE,
    DEFENSIVE_SHARE,
    POINTS,
    PROPOSALS,
    Array,
    Draws,
)
from amci_core.estimators.mis import moments


@dataclass(frozen=True)
class Tabled(Estimator):
    """An estimator that is a table: it splits a total equally over the proposals it uses.

    Arguments:
        table: Coefficients v[j, t], see `amci_core.estimators.tables`.
        points: How its proposals draw.
    """

    table: tables.Table
    points: str = "independent"
    own_densities = True
    takes_sobol = True

    def used(self, present: Sequence[int]) -> tuple[int, ...]:
        return tables.needed(self._table(present))

    def _table(self, present: Sequence[int]) -> tables.Table:
        """The table with the proposals that are there.

        Without q1_minus, E1_minus is left out; `apply` refuses that if f is signed. Without q2, E2
        is: there is no q2 if it is known.

        Raises:
            ValueError: it uses another one.
        """
        table = self.table.copy()
        if 2 not in present and table[2, 2] == 1 and not table[:2, 2].any():
            table[2, 2] = 0
        absent = [j for j in range(3) if j not in present]
        missing = ", ".join(PROPOSALS[j] for j in absent if table[j, ::2].any())
        if missing:
            raise ValueError(
                f"estimator: it needs {missing}, which these proposals do not have. Choose another"
            )
        table[absent] = 0
        return table

    def apply(self, draws: Draws, counts: Counts | None = None) -> Prepared:
        return Prepared(self._table(draws.present), draws, counts)


@dataclass(frozen=True)
class PaperReuse(Tabled):
    """Sample reuse for f >= 0 with the paper's alpha*, beta*, from moments of its own draws."""

    table: tables.Table = field(default_factory=lambda: tables.reuse(1.0, 0.0))
    own_densities = False
    takes_sobol = False

    def apply(self, draws: Draws, counts: Counts | None = None) -> Prepared:
        amci = super().apply(draws, counts)
        if len(draws.present) < 2:  # E2 is known
            return amci
        optima = []
        for row in amci.rows:
            optimum = tables.paper_optimum(moments(draws.first(row[:DEFENSIVE]), robust=True))
            # AMCI's own table where a few draws do not determine the optimum.
            known = np.isfinite(optimum).all(axis=(-2, -1), keepdims=True)
            optima.append(np.where(known, optimum, amci.table))
        return replace(amci, table=np.stack(optima, -3))


@dataclass(frozen=True)
class ControlVariates(Estimator):
    """AMCI with control variates, see `amci_core.estimators.control_variates`."""

    defensive: float = DEFENSIVE_SHARE
    points: str = "independent"
    takes_sobol = True

    def used(self, present: Sequence[int]) -> tuple[int, ...]:
        return tuple(present)

    def apply(self, draws: Draws, counts: Counts | None = None) -> Prepared:
        start = np.diag([float(j in draws.present) for j in range(3)])
        start[2, 2] *= draws.log_E2 is None
        return Regressed(start, draws, counts)


@dataclass(frozen=True)
class Mixture(Estimator):
    """SNIS with the equal mixture q_m of all proposals.

    Every point of q_m is one of the proposals' points of the same number, chosen by chance as in
    the paper, or in turn. Points chosen by chance are independent draws from q_m, and their error
    is subject to `snis_bound`. In turn, the numbers of draws from each proposal are fixed. If
    q1 and q2 hardly overlap the ratio is then one of two separate estimates, as in AMCI, and the
    error can lie far below that bound.

    Arguments:
        fixed: Whether every proposal contributes its fixed share of the draws. The first one is
            chosen by chance: otherwise an odd number of draws would favour it.

    References:
        Owen and Zhou, Safe and effective importance sampling, 2000: the deterministic mixture.
    """

    fixed: bool

    def least(self, present: Sequence[int]) -> int:
        return 1

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        return np.isin(range(len(COMPONENTS)), self.used(present)) * max(totals)

    def running(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        n, present, k = max(totals), draws.present, len(draws.present)
        # Which proposal every point comes from, (*, n).
        choices = rng.integers(k, size=(*draws.batch, 1 if self.fixed else n))
        if self.fixed:
            choices = (choices + np.arange(n)) % k
        index = np.array([draws.stretch(j).start for j in present])[choices] + np.arange(n)
        counts = {2: n}
        if draws.count(DEFENSIVE):
            part, counts[DEFENSIVE] = draws.stretch(DEFENSIVE), draws.count(DEFENSIVE)
            rest = np.arange(part.start, part.stop)
            rest = np.broadcast_to(rest, (*draws.batch, len(rest)))
            index = np.concatenate([index, rest], -1)
        mixed = draws.mapped(lambda values: np.take_along_axis(values, index, axis=-1), counts)
        log_mixture = np.logaddexp.reduce([mixed.log_q[j] for j in present]) - np.log(k)
        return _mixed(mixed, log_mixture, totals)

    def apply(self, draws: Draws, counts: Counts | None = None) -> Prepared:
        # q1_complement is none of the mixture's proposals.
        counts_of_mixture = {j: n for j, n in draws.counts.items() if j != COMPLEMENT}
        return balanced(draws.first(counts_of_mixture), draws.present)


def balanced(draws: Draws, mixed: Sequence[int]) -> Prepared:
    """SNIS with the draws of these components, the first ones, as draws of their mixture."""
    n = {j: draws.count(j) for j in mixed}
    total = sum(n.values())
    log_mixture = np.logaddexp.reduce([draws.log_q[j] + np.log(n[j] / total) for j in n])
    rest = {DEFENSIVE: draws.n - total} if draws.n > total else {}
    one = replace(draws, counts={2: total, **rest})
    return replace(_mixed(one, log_mixture, [total]), components=draws)


def _mixed(draws: Draws, log_mixture: Array, totals: Sequence[int]) -> Prepared:
    log_q = {2: log_mixture}
    if draws.count(DEFENSIVE):
        log_q[DEFENSIVE] = draws.log_q[DEFENSIVE]
    counts = np.outer(totals, np.arange(len(COMPONENTS)) == 2)
    names = (*PROPOSALS[:2], "q_m")
    return Prepared(tables.snis_q2(), replace(draws, log_q=log_q), counts, names=names)


ESTIMATORS: dict[str, Estimator] = {
    "amci-cv": ControlVariates(),
    "amci": Tabled(tables.amci()),
    "snis-q2": Tabled(tables.snis_q2()),
    "snis-qm": Mixture(fixed=False),
    "snis-qm-stratified": Mixture(fixed=True),
    "snis-q1": Tabled(tables.snis_q1()),
    "reuse-paper": PaperReuse(),
}


def resolve(chosen: str | ArrayLike | Estimator, *, points: str | None = None) -> Estimator:
    """The estimator of that name, or the one that a table of coefficients defines.

    Arguments:
        chosen: A name of `ESTIMATORS`; `reuse:ALPHA:BETA`; a table of coefficients, (3, 3); or an
            estimator.
        points: `independent` or `sobol`; None for the estimator's own.

    Raises:
        ValueError: no estimator has that name, the table is not one, or Sobol points do not go
            with it.

    Example:
        >>> resolve("reuse:0.9:0.1").table[0].tolist()
        [0.9, 0.0, 0.1]
    """
    estimator = chosen if isinstance(chosen, Estimator) else _resolved(chosen)
    if points is None:
        return estimator
    if check_name("points", points, POINTS) == "sobol" and not estimator.takes_sobol:
        raise ValueError(
            "points: sobol needs amci-cv or a fixed table such as amci, got estimator "
            f"{chosen!r}. Use points='independent'"
        )
    return estimator if points == estimator.points else replace(estimator, points=points)  # type: ignore


def _resolved(chosen: str | ArrayLike) -> Estimator:
    if isinstance(chosen, type):
        raise ValueError(f"estimator: got the class {chosen.__name__}. Call it")
    if not isinstance(chosen, str):
        return Tabled(tables.validate(chosen))
    name, *shares = chosen.split(":")
    if name != "reuse":
        return ESTIMATORS[
            check_name("estimator", chosen, ESTIMATORS, ", reuse:ALPHA:BETA, or a table")
        ]
    try:
        alpha, beta = map(float, shares)
    except ValueError:
        raise ValueError(f"estimator: expected reuse:ALPHA:BETA, got {chosen!r}") from None
    return Tabled(tables.reuse(alpha, beta))
