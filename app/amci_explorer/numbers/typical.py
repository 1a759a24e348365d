r"""How typical an observation is: where it lies among draws from p(y)."""

from __future__ import annotations

__all__ = ["DRAWS", "typical"]

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.stats import norm, rankdata

from amci_core.estimators.draws import Array
from amci_core.models import Problem

# Draws from p(y).
DRAWS = 50_000


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
    if not len(y):
        return math.nan
    columns, precision, distances = _scored(problem)
    point = np.asarray(y, dtype=float)
    if (point < columns[:, 0]).any() or (point > columns[:, -1]).any():
        return 0.0
    ranks = [np.searchsorted(known, value) for known, value in zip(columns, point, strict=True)]
    scores = norm.ppf((np.array(ranks) + 0.5) / (DRAWS + 1))
    return 1 - float(np.searchsorted(distances, scores @ precision @ scores)) / DRAWS


@lru_cache(64)
def _scored(problem: Problem) -> tuple[Array, Array, Array]:
    """Coordinates of y in order, (D_y, n), the precision of their scores, distances in order."""
    y = np.asarray(problem.cases(DRAWS, seed=0)[0])
    scores = norm.ppf((rankdata(y, axis=0) - 0.5) / len(y))
    # A coordinate that does not vary says nothing.
    precision = np.linalg.pinv(np.atleast_2d(np.cov(scores, rowvar=False)))
    return np.sort(y, 0).T, precision, np.sort(np.vecdot(scores @ precision, scores))
