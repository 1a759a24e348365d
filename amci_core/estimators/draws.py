r"""What an estimator sees: points from every proposal, as numbers. No flow, no problem.

Proposals are numbered as in `PROPOSALS`, terms as in `TERMS`; tuples over them have length three,
with None in the place of a proposal that a problem does not have.
"""

from __future__ import annotations

__all__ = ["PROPOSALS", "TERMS", "Array", "Draws", "Points"]

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PROPOSALS = ("q1_plus", "q1_minus", "q2")
TERMS = ("E1_plus", "E1_minus", "E2")


@dataclass(frozen=True)
class Points:
    """n points of one proposal, for a batch (*) of pairs (y, theta) or of runs.

    Arguments:
        f_plus: f_plus(x; theta) at every point, (*, n).
        f_minus: f_minus(x; theta), (*, n); None where f >= 0.
        log_joint: log p(x, y) in nats, (*, n).
        log_q: For every proposal j, log q_j(x) in nats at these points, (*, n); None where there
            is no such proposal.
    """

    f_plus: Array
    f_minus: Array | None
    log_joint: Array
    log_q: tuple[Array | None, Array | None, Array | None]

    @property
    def n(self) -> int:
        """Number of points of every pair (y, theta)."""
        return self.log_joint.shape[-1]

    def first(self, n: int) -> Points:
        """The first n of the points."""
        if n == self.n:
            return self
        a, b, c = (None if q is None else q[..., :n] for q in self.log_q)
        return Points(
            f_plus=self.f_plus[..., :n],
            f_minus=None if self.f_minus is None else self.f_minus[..., :n],
            log_joint=self.log_joint[..., :n],
            log_q=(a, b, c),
        )

    def log_q_of(self, j: int) -> Array:
        """log q_j at these points, in nats, (*, n).

        Raises:
            ValueError: there is no proposal j.
        """
        log_q = self.log_q[j]
        if log_q is None:
            raise ValueError(f"j: the density of {PROPOSALS[j]} is not known at these points")
        return log_q


@dataclass(frozen=True)
class Draws:
    """Independent points from every proposal of a problem.

    Arguments:
        points: For every proposal its points; None where there is none.
        log_E2: log E2 in nats, (*), where it is known and needs no draws.
    """

    points: tuple[Points | None, Points | None, Points | None]
    log_E2: Array | None = None

    @property
    def present(self) -> tuple[int, ...]:
        """The indices of the proposals that have draws."""
        return tuple(j for j, points in enumerate(self.points) if points is not None)

    @property
    def signed(self) -> bool:
        """Whether f takes both signs: the points come with an f_minus."""
        return any(points is not None and points.f_minus is not None for points in self.points)

    def of(self, j: int) -> Points:
        """The points of proposal j.

        Raises:
            ValueError: there are none.
        """
        points = self.points[j]
        if points is None:
            raise ValueError(f"j: there are no draws from {PROPOSALS[j]}")
        return points

    def log_weight(self, j: int) -> Array:
        """log w = log p(x, y) - log q_j(x) at the points of proposal j, (*, n), in nats."""
        points = self.of(j)
        return points.log_joint - points.log_q_of(j)
