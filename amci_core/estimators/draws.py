r"""What an estimator sees: points of all components in one row, as numbers. No flow, no problem.

Components are numbered as in `COMPONENTS`: the three proposals, then a broad reference that has no
row in a table and shows what the proposals miss. Terms are numbered as in `TERMS`.
"""

from __future__ import annotations

__all__ = ["COMPONENTS", "PROPOSALS", "REFERENCE", "TERMS", "Array", "Draws"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PROPOSALS = ("q1_plus", "q1_minus", "q2")
COMPONENTS = (*PROPOSALS, "reference")
REFERENCE = COMPONENTS.index("reference")
TERMS = ("E1_plus", "E1_minus", "E2")


@dataclass(frozen=True)
class Draws:
    """n points x for a batch (*) of pairs (y, theta) or of runs, component after component.

    Arguments:
        f: f(x; theta) at every point, (*, n), in units of f.
        log_joint: log p(x, y) in nats, (*, n).
        log_q: For every component, by its number, log q(x) in nats at every point, (*, n).
        counts: Number of points of every component, by its number; they stand in this order.
        signed: Whether f can be negative, so that there is an E1_minus.
        log_E2: log E2 in nats, (*), where it is known and needs no draws.
    """

    f: Array
    log_joint: Array
    log_q: Mapping[int, Array]
    counts: Mapping[int, int]
    signed: bool
    log_E2: Array | None = None

    @property
    def n(self) -> int:
        """Number of points, all components together."""
        return int(self.log_joint.shape[-1])

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch shape (*)."""
        return self.log_joint.shape[:-1]

    @property
    def present(self) -> tuple[int, ...]:
        """The numbers of the proposals that have points."""
        return tuple(j for j, n in self.counts.items() if n and j != REFERENCE)

    def count(self, j: int) -> int:
        """Number of points of component j; zero where there are none."""
        return self.counts.get(j, 0)

    def stretch(self, j: int) -> slice:
        """Where the points of component j stand in the row.

        Raises:
            ValueError: there are none.
        """
        if not self.count(j):
            raise ValueError(f"j: there are no draws from {COMPONENTS[j]}")
        before = list(self.counts).index(j)
        start = sum(list(self.counts.values())[:before])
        return slice(start, start + self.counts[j])

    def log_weight(self, j: int) -> Array:
        """log w = log p(x, y) - log q_j(x) at the points of component j, (*, n_j), in nats."""
        part = self.stretch(j)
        return self.log_joint[..., part] - self.log_q[j][..., part]

    def factor(self, t: int, part: slice = slice(None)) -> Array | float:
        """The factor of p(x, y) in term t: f_plus, f_minus or 1; (*, n) but for the last."""
        if t == 2:
            return 1.0
        f = self.f[..., part]
        if not self.signed:
            return f if t == 0 else 0.0
        return np.maximum(f if t == 0 else -f, 0.0)

    def factors(self) -> Array:
        """(f_plus, f_minus, 1) at every point, (*, 3, n)."""
        found = np.empty((*self.batch, 3, self.n))
        for t in range(3):
            found[..., t, :] = self.factor(t)
        return found

    def first(self, counts: Mapping[int, int] | Sequence[int]) -> Draws:
        """The first points of every component; those without a count lose all of theirs."""
        wanted = dict(counts) if isinstance(counts, Mapping) else dict(enumerate(counts))
        kept = {j: int(wanted.get(j, 0)) for j in self.counts}
        if kept == dict(self.counts):
            return self
        starts = {j: self.stretch(j).start for j, n in kept.items() if n}
        parts = [np.arange(start, start + kept[j]) for j, start in starts.items()]
        return self._picked(np.concatenate(parts), {j: n for j, n in kept.items() if n})

    def without_reference(self) -> Draws:
        """The points of the proposals alone."""
        return self.first({j: self.counts[j] for j in self.present})

    def merged(self) -> Draws:
        """The points of all runs, the last axis of the batch (*, R), as those of one: (*)."""
        runs = self.batch[-1]

        def merge(values: Array) -> Array:
            parts = [values[..., self.stretch(j)] for j, n in self.counts.items() if n]
            return np.concatenate([p.reshape(*p.shape[:-2], -1) for p in parts], -1)

        return Draws(
            f=merge(self.f),
            log_joint=merge(self.log_joint),
            log_q={j: merge(q) for j, q in self.log_q.items()},
            counts={j: n * runs for j, n in self.counts.items()},
            signed=self.signed,
            log_E2=None if self.log_E2 is None else self.log_E2[..., 0],
        )

    def joined(self, other: Draws) -> Draws:
        """The points of both, of the same cases, component by component."""
        counts = {j: self.count(j) + other.count(j) for j in range(len(COMPONENTS))}
        order = np.concatenate(
            [
                offset + np.arange(draws.stretch(j).start, draws.stretch(j).stop)
                for j in counts
                for draws, offset in ((self, 0), (other, self.n))
                if draws.count(j)
            ]
        )
        both = replace(
            self,
            f=np.concatenate([self.f, other.f], -1),
            log_joint=np.concatenate([self.log_joint, other.log_joint], -1),
            log_q={j: np.concatenate([q, other.log_q[j]], -1) for j, q in self.log_q.items()},
        )
        return both._picked(order, {j: n for j, n in counts.items() if n})

    def _picked(self, index: NDArray[np.int64], counts: Mapping[int, int]) -> Draws:
        return replace(
            self,
            f=self.f[..., index],
            log_joint=self.log_joint[..., index],
            log_q={j: q[..., index] for j, q in self.log_q.items()},
            counts=counts,
        )
