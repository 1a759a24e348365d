r"""Estimators as tables: which share of each term comes from which proposal's draws.

A table v has the rows q1_plus, q1_minus, q2 and the columns E1_plus, E1_minus, E2. With E_t(j) the
mean of t(x) w_j over the draws of proposal j,

    E_t = sum_j v[j, t] E_t(j),      mu = (E1_plus - E1_minus) / E2,

and a column sums to one; that of E1_minus may be zero where f >= 0.
"""

from __future__ import annotations

__all__ = ["amci", "optimum", "paper_optimum", "reuse", "snis_q1", "snis_q2"]

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amci_core._arguments import check_number
from amci_core.estimators.draws import PROPOSALS, TERMS, Array
from amci_core.estimators.mis import Moments

Table = NDArray[np.float64]

# Below this share of the largest, an eigenvalue is rounding.
FLAT = 1e-10
# With larger coefficients nothing but rounding is left of a column's sum.
LARGEST = 1e8


def amci() -> Table:
    """Each term from its own proposal: the paper's eq. (estimator-full).

    Returns:
        The table (3, 3): the identity.
    """
    return np.eye(3)


def snis_q2() -> Table:
    """Every term from q2: self-normalized importance sampling, eq. (SNIS).

    Returns:
        The table (3, 3).
    """
    return np.outer([0.0, 0.0, 1.0], np.ones(3))


def snis_q1() -> Table:
    """Every term from q1_plus: self-normalized importance sampling with the wrong proposal.

    Returns:
        The table (3, 3).
    """
    return np.outer([1.0, 0.0, 0.0], np.ones(3))


def reuse(alpha: float, beta: float) -> Table:
    """Sample reuse between q1_plus and q2, for f >= 0: the paper's eq. (estimator-combination).

    (alpha, beta) = (1, 0) is AMCI, (0, 0) is SNIS q2 and (1, 1) is SNIS q1.

    Arguments:
        alpha: Share of E1 that comes from q1's draws. Any number up to 1e8 is unbiased.
        beta: Share of E2 that comes from q1's draws.

    Returns:
        The table (3, 3).

    Raises:
        ValueError: alpha or beta is beyond 1e8, or no number.

    Example:
        >>> reuse(0.9, 0.1)[0].tolist()
        [0.9, 0.0, 0.1]
    """
    within = f"a number up to {LARGEST:g}", lambda share: abs(share) <= LARGEST
    return _reuse(check_number("alpha", alpha, *within), check_number("beta", beta, *within))


def paper_optimum(moments: Moments) -> Table:
    """The paper's alpha*, beta*, which take E1 and E2 for uncorrelated, as tables (*, 3, 3).

    With n draws from q1 and m from q2, alpha* = n / (m Var_{q1}[f w] / Var_{q2}[f w] + n), and
    beta* the same with w in place of f w; for f >= 0. From pooled moments: a proposal's own sample
    variances collapse in the tail.

    Returns:
        Tables (*, 3, 3).

    References:
        Appendix "Derivation of the optimal parameter values" of the paper.

    Example:
        >>> same = np.zeros((3, 3, 3)) + np.diag([1.0, 0.0, 1.0])  # under q1 as under q2
        >>> paper_optimum(Moments(np.zeros(3), same, np.array([10, 0, 30])))[:, 0]
        array([0.25, 0.  , 0.75])
    """
    n, m = moments.counts[..., 0], moments.counts[..., 2]
    covariance = moments.covariance
    alpha, beta = (
        _weight(covariance[..., 0, t, t] / n, covariance[..., 2, t, t] / m) for t in (0, 2)
    )
    return _reuse(alpha, beta)


def optimum(moments: Moments) -> Table:
    """The sample reuse of least variance between q1_plus and q2, for f >= 0, as tables (*, 3, 3).

    To first order the variance is u' P u + (e - u)' Q (e - u) in units of mu squared, with
    u = (alpha, beta), e = (1, 1), and P, Q the covariances of (f w, -w) under q1 and q2 over their
    numbers of draws; AMCI is (1, 0). No share is taken from a proposal that misses part of a term
    (its variance is infinite) or cannot be judged, and where the form is flat u stays as near to
    AMCI as it can.

    Arguments:
        moments: From all draws, best without outliers, see `amci_core.estimators.mis.moments`.

    Returns:
        Tables (*, 3, 3).

    References:
        `docs/concepts.md`, "Estimators are tables": u* = (P + Q)^-1 Q e.

    Example:
        >>> single = np.diag([1.0, 0.0, 4.0]), np.full((3, 3), np.nan), np.diag([4.0, 0.0, 1.0])
        >>> log_mean, counts = np.array([0.0, -np.inf, 0.0]), np.array([10.0, 0.0, 10.0])
        >>> optimum(Moments(log_mean, np.array(single), counts))[:, 0].round(2).tolist()
        [0.8, 0.0, 0.2]
    """
    signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    P, Q = (signs * moments.covariance[..., j, ::2, ::2] / moments.counts[j] for j in (0, 2))
    known_P, known_Q = (np.isfinite(np.diagonal(M, axis1=-2, axis2=-1)) for M in (P, Q))
    P, Q = (np.where(_outer(known), M, 0.0) for M, known in ((P, known_P), (Q, known_Q)))
    free = known_P & known_Q
    gradient = np.where(free, P[..., 0] - Q[..., 1], 0.0)
    hessian = np.where(_outer(free), P + Q, 0.0)
    # Terms can differ by many orders: compare directions in units of their own variance.
    diagonal = np.diagonal(hessian, axis1=-2, axis2=-1)
    unit = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    inverse = np.linalg.pinv(hessian / _outer(unit), rtol=FLAT, hermitian=True)
    step = np.matvec(inverse, gradient / unit) / unit
    return _reuse(1 - step[..., 0], -step[..., 1])


def _outer(u: Array) -> Array:
    return np.asarray(u[..., :, None] * u[..., None, :])


def _reuse(alpha: ArrayLike, beta: ArrayLike) -> Table:
    """The tables (*, 3, 3) of alpha and beta (*)."""
    alpha, beta = np.asarray(alpha), np.asarray(beta)
    table = np.zeros((*alpha.shape, 3, 3))
    table[..., 0, 0], table[..., 2, 0] = alpha, 1 - alpha
    table[..., 0, 2], table[..., 2, 2] = beta, 1 - beta
    return table


def _weight(first: Array, second: Array) -> Array:
    """The weight of the first of two independent estimates in their best mean."""
    # A variance that came out as no number was infinite.
    first, second = (np.where(np.isnan(v), np.inf, v) for v in (first, second))
    with np.errstate(invalid="ignore"):
        weight = second / (first + second)
    exact = (first == 0) & (second == 0)
    return np.where(np.isinf(second), 1.0, np.where(exact, 0.5, weight))


def validate(table: ArrayLike) -> Table:
    """Returns a table as an array, if it is one.

    Returns:
        The table (3, 3), in float64.

    Raises:
        ValueError: its shape is not (3, 3), an entry is no number or beyond 1e8, or a column does
            not sum to one (that of E1_minus may be zero, for f >= 0).

    Example:
        >>> validate([[1, 0, 0], [0, 0, 0], [0, 0, 1]]).shape
        (3, 3)
    """
    entries = np.asarray(table, dtype=np.float64)
    if entries.shape != (3, 3) or not (np.abs(entries) <= LARGEST).all():
        raise ValueError(
            f"table: expected coefficients up to {LARGEST:g} of shape (3, 3), rows "
            f"{', '.join(PROPOSALS)}, columns {', '.join(TERMS)}, got {entries.tolist()}"
        )
    sums = entries.sum(axis=0)
    if not (np.isclose(sums, 1) | [False, not entries[:, 1].any(), False]).all():
        raise ValueError(
            "table: expected columns that sum to one (that of E1_minus may be zero, for f >= 0), "
            f"got sums {sums.tolist()}"
        )
    return entries


def needed(table: Table) -> tuple[int, ...]:
    """The proposals whose draws the table, or any of several tables (*, 3, 3), uses.

    Returns:
        Their indices: 0 for q1_plus, 1 for q1_minus, 2 for q2.
    """
    any_of_them = (table != 0).reshape(-1, 3, 3).any(axis=0)
    return tuple(int(j) for j in np.flatnonzero(any_of_them.any(axis=1)))
