r"""The asymptotic lower bound on the error of any self-normalised importance sampler."""

from __future__ import annotations

__all__ = ["snis_bound"]

import numpy as np
from numpy.typing import ArrayLike

from amci_core.estimators.draws import Array


def snis_bound(expected_deviation: Array, budgets: ArrayLike) -> Array:
    """The least mean squared error of SNIS with T draws, as T grows: (E|f - mu|)^2 / T.

    It is asymptotic: at small T a valid proposal can beat it.

    Arguments:
        expected_deviation: E|f - mu| under the posterior, (*).
        budgets: Total draws T, (B,).

    Returns:
        Mean squared errors, (*, B), in units of f squared.

    References:
        Owen, Monte Carlo theory, methods and examples, 2013, chapter 9; eq. (achievable) of the
        paper.
    """
    deviation = np.asarray(expected_deviation, dtype=np.float64)
    return np.square(deviation)[..., None] / np.asarray(budgets, dtype=np.float64)
