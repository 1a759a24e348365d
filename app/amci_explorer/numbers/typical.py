r"""How typical an observation is: where it lies among draws from p(y)."""

from __future__ import annotations

__all__ = ["DRAWS", "LEAST", "drawn", "typical"]

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.stats import norm

from amci_core.estimators.draws import Array
from amci_core.models import Problem

# Draws from p(y) p(theta), and the least of them that say how rare something is.
DRAWS, LEAST = 50_000, 20
# Problems whose draws are kept.
KEPT = 64


class _Sample:
    """Draws of one variable, ready to be compared with."""

    def __init__(self, drawn: Array) -> None:
        self.points = np.sort(drawn, axis=0)
        self._levels = (np.arange(len(drawn)) + 0.5) / len(drawn)
        scores = self._scores(drawn)
        covariance = np.atleast_2d(np.cov(scores, rowvar=False))
        # A coordinate that does not vary says nothing.
        self._precision = np.linalg.pinv(covariance)
        self._distances = np.sort(self._squares(scores))

    def share(self, point: Array) -> float:
        """Share of the draws that lie as far out as a point (D,)."""
        square = self._squares(self._scores(point[None]))[0]
        if (point < self.points[0]).any() or (point > self.points[-1]).any():
            return 0.0
        nearer = np.searchsorted(self._distances, square, side="left")
        return 1 - float(nearer) / len(self._distances)

    def _scores(self, points: Array) -> Array:
        columns = zip(points.T, self.points.T, strict=True)
        levels = [np.interp(values, known, self._levels) for values, known in columns]
        return np.asarray(norm.ppf(np.stack(levels, -1)))

    def _squares(self, scores: Array) -> Array:
        return np.asarray(np.einsum("ni,ij,nj->n", scores, self._precision, scores))


def typical(problem: Problem, y: Sequence[float]) -> float:
    """Share of the draws from p(y) that lie as far out as y, of `DRAWS`; NaN without a y.

    A draw lies as far out if its normal scores have the same Mahalanobis distance from the
    middle, or a larger one. Normal scores make that free of each coordinate's scale.

    Arguments:
        problem: The problem.
        y: The observation, (D_y,); empty where nothing is observed.

    Example:
        >>> import amci_core as amci
        >>> 0.4 < typical(amci.problem("tail-1d"), [1.0]) < 0.6
        True
    """
    sample = _sample(problem) if len(y) else None
    return math.nan if sample is None else sample.share(np.asarray(y, dtype=float))


def drawn(problem: Problem, count: int) -> tuple[Array | None, Array | None]:
    """Draws from p(y) p(theta) to show: y (n, D_y) and theta (n, D_theta), None if there is none.

    Arguments:
        problem: The problem.
        count: How many, at most `DRAWS`.
    """
    y, theta = _drawn(problem)
    return (None if y is None else y[:count]), (None if theta is None else theta[:count])


@lru_cache(KEPT)
def _drawn(problem: Problem) -> tuple[Array | None, Array | None]:
    return problem.cases(DRAWS, seed=0)


@lru_cache(KEPT)
def _sample(problem: Problem) -> _Sample | None:
    y, _ = _drawn(problem)
    return None if y is None else _Sample(y)
