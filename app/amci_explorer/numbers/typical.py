r"""How typical an observation is: where it lies among draws from p(y)."""

from __future__ import annotations

__all__ = ["DRAWS", "as_extreme"]

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.stats import norm, rankdata

from amci_core.estimators.draws import Array
from amci_core.models import Problem

# Draws from p(y).
DRAWS = 50_000


def as_extreme(problem: Problem, y: Sequence[float]) -> int:
    """How many of `DRAWS` simulated observations are as extreme as y, or more.

    They are as extreme if their normal scores have the same Mahalanobis distance from the
    middle, or a larger one. Normal scores make that free of each coordinate's scale.

    Arguments:
        problem: The problem, which has a y.
        y: The observation, (D_y,).

    Example:
        >>> import amci_core as amci
        >>> 20_000 < as_extreme(amci.problem("tail-1d"), [1.0]) < 30_000
        True
    """
    columns, precision, distances = _scored(problem)
    point = np.asarray(y, dtype=float)
    if (point < columns[:, 0]).any() or (point > columns[:, -1]).any():
        return 0
    ranks = [np.searchsorted(known, value) for known, value in zip(columns, point, strict=True)]
    scores = norm.ppf((np.array(ranks) + 0.5) / (DRAWS + 1))
    return DRAWS - int(np.searchsorted(distances, scores @ precision @ scores))


@lru_cache(64)
def _scored(problem: Problem) -> tuple[Array, Array, Array]:
    """Coordinates of y in order, (D_y, n), the precision of their scores, distances in order."""
    y = np.asarray(problem.cases(DRAWS, seed=0)[0])
    scores = norm.ppf((rankdata(y, axis=0) - 0.5) / len(y))
    # A coordinate that does not vary says nothing.
    precision = np.linalg.pinv(np.atleast_2d(np.cov(scores, rowvar=False)))
    return np.sort(y, 0).T, precision, np.sort(np.vecdot(scores @ precision, scores))
