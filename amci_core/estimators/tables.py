r"""Estimators as tables: which share of each term comes from which proposal's draws.

A table v has the rows q1_plus, q1_minus, q2 and the columns E1_plus, E1_minus, E2. With E_t(j) the
mean of t(x) w_j over the draws of proposal j,

    E_t = sum_j v[j, t] E_t(j),      mu = (E1_plus - E1_minus) / E2,

and a column sums to one; that of E1_minus may be zero where f >= 0.
"""

from __future__ import annotations

__all__ = ["amci", "needed", "paper_optimum", "reuse", "snis_q1", "snis_q2", "validate"]

import math
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amci_core.estimators.draws import PROPOSALS, TERMS, Array
from amci_core.estimators.moments import Moments

Table = NDArray[np.float64]


def amci() -> Table:
    """Each term from its own proposal: the paper's eq. (estimator-full)."""
    return np.eye(3)


def snis_q2() -> Table:
    """Every term from q2: self-normalised importance sampling, eq. (SNIS)."""
    return _single(2)


def snis_q1() -> Table:
    """Every term from q1_plus: self-normalised importance sampling with the wrong proposal."""
    return _single(0)


def reuse(*, alpha: float, beta: float) -> Table:
    """Sample reuse between q1_plus and q2, for f >= 0: the paper's eq. (estimator-combination).

    (alpha, beta) = (1, 0) is AMCI, (0, 0) is SNIS q2 and (1, 1) is SNIS q1.

    Arguments:
        alpha: Share of E1 that comes from q1's draws. Any finite number is unbiased.
        beta: Share of E2 that comes from q1's draws.

    Raises:
        ValueError: alpha or beta is not a finite number.
    """
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"{name}: expected a finite number, got {value!r}")
    return np.array([[alpha, 0, beta], [0, 0, 0], [1 - alpha, 0, 1 - beta]], dtype=np.float64)


def paper_optimum(moments: Moments) -> tuple[Array, Array]:
    """The paper's alpha*, beta*, which take E1 and E2 for uncorrelated, for f >= 0; each (*).

    With n draws from q1 and m from q2, alpha* = n / (m Var_{q1}[f w] / Var_{q2}[f w] + n), and
    beta* the same with w in place of f w. From pooled moments: a proposal's own sample variances
    collapse in the tail.

    References:
        Appendix "Derivation of the optimal parameter values" of the paper.
    """
    n, m = moments.counts[0], moments.counts[2]
    covariance = moments.covariance
    alpha, beta = (
        _share(covariance[..., 0, t, t] / n, covariance[..., 2, t, t] / m) for t in (0, 2)
    )
    return alpha, beta


def _share(first: Array, second: Array) -> Array:
    """The weight of the first of two independent estimates in their best mean."""
    with np.errstate(invalid="ignore"):
        share = second / (first + second)
    exact = (first == 0) & (second == 0)
    return np.where(np.isinf(second), 1.0, np.where(exact, 0.5, share))


def validate(table: ArrayLike) -> Table:
    """Returns the table, or says what is wrong with it.

    Raises:
        ValueError: its shape is not (3, 3), an entry is not a finite number, or a column does not
            sum to one (that of E1_minus may be zero, for f >= 0).
    """
    expected = (
        f"table: expected finite coefficients of shape (3, 3), rows {', '.join(PROPOSALS)}, "
        f"columns {', '.join(TERMS)}"
    )
    try:
        entries = np.asarray(table)
    except ValueError:
        raise ValueError(f"{expected}, got rows of unequal length: {table!r}") from None
    if entries.shape != (3, 3):
        raise ValueError(f"{expected}, got shape {entries.shape}")
    if entries.dtype.kind not in "iuf" or not np.isfinite(entries).all():
        raise ValueError(f"{expected}, got {entries.tolist()}")
    checked = entries.astype(np.float64)
    to_one = np.isclose(checked.sum(axis=0), 1)
    to_one[1] |= not checked[:, 1].any()
    if not to_one.all():
        raise ValueError(
            "table: expected columns that sum to one (that of E1_minus may be zero, for f >= 0), "
            f"got sums {checked.sum(axis=0).tolist()}"
        )
    return checked


def needed(table: Table) -> tuple[int, ...]:
    """The proposals whose draws the table uses."""
    return tuple(int(j) for j in np.flatnonzero(table.any(axis=1)))


def _single(j: int) -> Table:
    table = np.zeros((3, 3))
    table[j] = 1
    return table
