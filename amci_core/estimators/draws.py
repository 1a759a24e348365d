r"""What an estimator sees: points of all components in one row, as numbers. No flow, no problem.

Components are numbered as in `COMPONENTS`: the three proposals; the defensive density, which has
no row in a table and shows what the proposals miss; and, for an f in [0, M], the proposal for
M - f. Terms are numbered as in `TERMS`.
"""

from __future__ import annotations

__all__ = [
    "COMPLEMENT",
    "COMPLEMENT_SHARE",
    "COMPONENTS",
    "DEFENSIVE",
    "DEFENSIVE_SHARE",
    "POINTS",
    "PROPOSALS",
    "TERMS",
    "Array",
    "Draws",
    "defensive_draws",
    "log",
    "log_sum_exp",
    "sets_of",
    "whole_sets",
]

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PROPOSALS = ("q1_plus", "q1_minus", "q2")
COMPONENTS = (*PROPOSALS, "defensive", "q1_complement")
DEFENSIVE, COMPLEMENT = COMPONENTS.index("defensive"), COMPONENTS.index("q1_complement")
TERMS = ("E1_plus", "E1_minus", "E2")
# The share of the proposals' draws that q1_complement takes beside the proposals of a table.
COMPLEMENT_SHARE = 1 / 8
# Share of all draws that come from the defensive density, and the least number of them.
DEFENSIVE_SHARE, LEAST_DEFENSIVE = 1 / 8, 4
# How points are drawn, and the least number of scrambled sets of each component.
POINTS = ("independent", "sobol")
LEAST_SETS = 16


@dataclass(frozen=True)
class Draws:
    """n points x for a batch (*) of cases (y, theta) or of runs, component after component.

    Arguments:
        f: f(x; theta) at every point, (*, n), in units of f.
        log_joint: log p(x, y) in nats, (*, n).
        log_q: For every component, by its number, log q(x) in nats at every point, (*, n); or at
            its own points alone, (*, n_j), which is enough for a table of coefficients.
        counts: Number of points of every component that has some, by its number, in the order in
            which they stand.
        signed: Whether f can be negative, so that there is an E1_minus.
        log_E2: log E2 in nats, (*), where it is known and needs no draws.
        sets: Number of scrambled sets of Sobol points, of equal size and one after another, that
            the points of a component are made of, by its number; points of the others are
            independent.
        f_max: M, in units of f, where f lies in [0, M].
    """

    f: Array
    log_joint: Array
    log_q: Mapping[int, Array]
    counts: Mapping[int, int]
    signed: bool
    log_E2: Array | None = None
    sets: Mapping[int, int] = field(default_factory=dict)
    f_max: float | None = None

    def __repr__(self) -> str:
        counts = ", ".join(f"{n:,} of {COMPONENTS[j]}" for j, n in self.counts.items())
        return f"Draws of batch shape {self.f.shape[:-1]}: {counts}"

    @property
    def n(self) -> int:
        """Number of points, all components together."""
        return int(self.log_joint.shape[-1])

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch shape (*)."""
        return self.log_joint.shape[:-1]

    @property
    def terms(self) -> tuple[int, ...]:
        """The numbers of the terms that are not zero: E1_minus is if f >= 0."""
        return (0, 1, 2) if self.signed else (0, 2)

    @property
    def present(self) -> tuple[int, ...]:
        """The numbers of the proposals of a table that have points."""
        return tuple(j for j in self.counts if j < len(PROPOSALS))

    def count(self, j: int) -> int:
        """Number of points of component j; zero where there are none."""
        return self.counts.get(j, 0)

    @property
    def totals(self) -> NDArray[np.int64]:
        """Numbers of points of all components, as the single row of counts, (1, 5)."""
        return np.array([[self.count(j) for j in range(len(COMPONENTS))]])

    @property
    def strata(self) -> tuple[int, ...]:
        """How many independent parts the draws of every component have: its sets, or draws."""
        return tuple(self.sets.get(j, n) for j, n in self.counts.items())

    def stretch(self, j: int) -> slice:
        """The place of component j's points in the row."""
        earlier = list(self.counts)[: list(self.counts).index(j)]
        start = sum(self.counts[k] for k in earlier)
        return slice(start, start + self.counts[j])

    def log_weight(self, j: int) -> Array:
        """log w = log p(x, y) - log q_j(x) at the points of component j, (*, n_j), in nats."""
        part, log_q = self.stretch(j), self.log_q[j]
        own = log_q if log_q.shape[-1] == self.count(j) else log_q[..., part]
        return self.log_joint[..., part] - own

    def log_factor(self, t: int, part: slice = slice(None)) -> Array:
        """log of the factor of p(x, y) in term t, f_plus, f_minus or 1, (*, n); -inf for zero."""
        f = self.f[..., part]
        if t == 2:
            return np.zeros_like(f)
        return np.where((f > 0) if t == 0 else (f < 0), self._log_size[..., part], -np.inf)

    @cached_property
    def _log_size(self) -> Array:
        return log(np.abs(self.f))

    def complement(self) -> Draws:
        """The same draws for M - f in place of f, whose q1_plus is the q1_complement of f."""
        swapped = {0: COMPLEMENT, COMPLEMENT: 0}
        log_q = {swapped.get(j, j): q for j, q in self.log_q.items()}
        counts = {swapped.get(j, j): n for j, n in self.counts.items()}
        sets = {swapped.get(j, j): n for j, n in self.sets.items()}
        f = np.maximum(np.asarray(self.f_max) - self.f, 0.0)
        return replace(self, f=f, log_q=log_q, counts=counts, sets=sets)

    def mapped(self, change: Callable[[Array], Array], counts: Mapping[int, int]) -> Draws:
        """Every row of numbers changed in the same way, with what it then has of each component.

        Arguments:
            change: What is done with numbers (*, n).
            counts: Number of points of every component after it.
        """
        log_q = {j: change(q) for j, q in self.log_q.items()}
        return replace(
            self, f=change(self.f), log_joint=change(self.log_joint), log_q=log_q, counts=counts
        )

    def first(self, counts: Mapping[int, int] | Sequence[int]) -> Draws:
        """The first points of every component; those without a count lose all of theirs."""
        wanted = dict(counts) if isinstance(counts, Mapping) else dict(enumerate(counts))
        left = {j: int(wanted[j]) for j in self.counts if wanted.get(j, 0)}
        if left == self.counts:
            return self
        index = np.concatenate([self.stretch(j).start + np.arange(n) for j, n in left.items()])
        return replace(self.mapped(lambda values: values[..., index], left), sets={})

    def merged(self) -> Draws:
        """The points of all runs, the last axis of the batch (*, R), as those of one: (*)."""

        def merge(values: Array) -> Array:
            rows = [values[..., self.stretch(j)] for j in self.counts]
            return np.concatenate([row.reshape(*row.shape[:-2], -1) for row in rows], -1)

        known = None if self.log_E2 is None else self.log_E2[..., 0]
        counts = {j: n * self.batch[-1] for j, n in self.counts.items()}
        return replace(self.mapped(merge, counts), log_E2=known)


def log(values: Array) -> Array:
    """log of numbers; -inf for zero and NaN for NaN, without a warning."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(values))


def log_sum_exp(values: Array) -> Array:
    """log of the sum of exp(values) along the last axis, (*); -inf where there is nothing."""
    largest = values.max(axis=-1)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(over="ignore"):
        return log(np.exp(values - largest[..., None]).sum(axis=-1)) + largest


def sets_of(n: int) -> tuple[int, int]:
    """How many sets of Sobol points, and points of each, are made of n draws at most.

    Sets are as large a power of two as leaves 16 of them or more. Fewer have smaller errors, but
    their scatter understates what all of them miss.
    """
    size = 2 ** max(math.floor(math.log2(n / LEAST_SETS)), 0) if n else 1
    return n // size, size


def whole_sets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draws of each component (*, 5) in whole sets; the defensive density takes the rest."""
    whole = np.asarray(np.vectorize(lambda n: math.prod(sets_of(n)))(counts))
    whole[..., DEFENSIVE] = counts[..., DEFENSIVE]
    rest = (counts - whole).sum(axis=-1)
    whole[..., DEFENSIVE] += np.where(counts[..., DEFENSIVE] > 0, rest, 0)
    return whole


def defensive_draws(total: int, share: float) -> int:
    """How many draws of a total the defensive density makes: at least four, or none for 0."""
    return max(round(share * total), LEAST_DEFENSIVE) if share else 0


def split_evenly(total: int, used: Sequence[int], share: float) -> NDArray[np.int64]:
    """Draws of each component, (5,), out of a total; q1_complement gets an eighth, at least one.

    Arguments:
        total: The total number of draws.
        used: The proposals that share it.
        share: Share of the defensive density: at least four draws, if two of each proposal are
            left.

    Raises:
        ValueError: there is less than one draw of each proposal.
    """
    counts, k = np.zeros(len(COMPONENTS), dtype=np.int64), len(used)
    counts[DEFENSIVE] = min(defensive_draws(total, share), max(total - 2 * k, 0))
    left = total - int(counts[DEFENSIVE])
    if left < k:
        raise ValueError(f"draws: expected at least {k}, one per proposal, got {total}")
    if COMPLEMENT in used:
        used, k = [j for j in used if j != COMPLEMENT], k - 1
        counts[COMPLEMENT] = min(max(round(COMPLEMENT_SHARE * left), 1), left - k)
        left -= int(counts[COMPLEMENT])
    for rank, j in enumerate(used):
        counts[j] = left // k + (rank < left % k)
    return counts
