r"""What a budget of draws buys: how it is best split, and the error that is then expected."""

from __future__ import annotations

__all__ = ["predicted_variance", "snis_bound", "split_budget", "variance"]

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from amci_core.checks import check_number
from amci_core.estimators import tables
from amci_core.estimators.draws import Array
from amci_core.estimators.mis import Moments

SCHEMES = ("amci", "reuse-optimal")
# No proposal gets less than this share of what its budget could buy: a moment can be too small.
LEAST_SHARE = 0.01


def split_budget(
    moments: Moments,
    total: float,
    costs: Sequence[float] = (1.0, 1.0, 1.0),
    *,
    estimator: str = "amci",
) -> NDArray[np.int64]:
    """Draws N : K : M of q1_plus, q1_minus and q2 that make the variance least, (3,).

    Without sharing, each term's standard deviation for one draw says it, over the root of what a
    draw costs: N : K : M = s_plus : s_minus : |mu| s_2. With the optimal table the variance V* is
    minimised over the split.

    Arguments:
        moments: Pooled moments of one pair (y, theta), from a pilot.
        total: What may be spent, in units of the costs: draws, where each costs 1.
        costs: What one draw of each proposal costs, (3,).
        estimator: `amci` or `reuse-optimal`.

    Returns:
        Number of draws of each proposal that has moments, at least one; zero for the others.

    Raises:
        ValueError: the moments are of several pairs, the estimator is none of the two, a cost is
            not positive, or the total does not buy one draw of each.

    References:
        `docs/concepts.md`, "Error", without sharing; "Every estimator is a table" for V*.

    Example:
        >>> from amci_core.estimators import Moments
        >>> single = np.zeros((3, 3, 3)) + np.diag([1.0, 0.0, 9.0])
        >>> moments = Moments(np.array(0.0), np.array([1.0, 0.0, 1.0]), single, np.full(3, 10.0))
        >>> split_budget(moments, 100)  # q2's weights spread three times as far as q1's
        array([24,  1, 74])
    """
    if estimator not in SCHEMES:
        raise ValueError(f"estimator: expected one of {', '.join(SCHEMES)}, got {estimator!r}")
    if moments.log_scale.ndim:
        raise ValueError(f"moments: expected one pair's, got batch {moments.log_scale.shape}")
    price = np.asarray(costs)
    numbers = price.dtype.kind in "iuf" and price.shape == (3,)
    if not numbers or not (np.isfinite(price) & (price > 0)).all():
        raise ValueError(f"costs: expected three positive numbers, got {costs!r}")
    present = np.array([j for j in range(3) if j not in absent(moments)])
    least = price[present].sum()
    expected = f"at least {least:g}, one draw of each proposal"
    total = check_number("total", total, expected, lambda value: least <= value < math.inf)
    shares = _closed_form(moments, price, present)
    if estimator == "reuse-optimal" and len(present) > 1:
        shares = _least_variance(moments, price, present, shares)
    counts = np.zeros(3, dtype=np.int64)
    counts[present] = np.maximum(np.floor(shares * total / price[present] + 1e-9), 1)
    # Where one draw is more than a share buys, the largest count gives way.
    while (counts * price).sum() > total * (1 + 1e-12) and counts.max() > 1:
        counts[int(counts.argmax())] -= 1
    return counts


def predicted_variance(
    moments: Moments, counts: Sequence[float] | Array, *, table: Callable[[Moments], tables.Table]
) -> Array:
    """Delta-method variance of the estimate with these counts, in units of f squared, (*).

    Arguments:
        moments: Pooled moments, (*).
        counts: Draws of each proposal, (3,).
        table: The table for given moments, such as `tables.optimum`.
    """
    wanted = replace(moments, counts=np.asarray(counts, dtype=np.float64))
    chosen = np.array(table(wanted))
    chosen[..., absent(moments), :] = 0
    return variance(chosen, wanted, moments.mu)


def variance(table: tables.Table, moments: Moments, value: Array) -> Array:
    """Delta-method variance of the estimate that a table gives, in units of f squared, (*).

    Var = sum_j u_j' S_j u_j / n_j / E2^2 with u_j = v[j] * (1, -1, -mu).

    Arguments:
        table: The estimator's table, (3, 3), or one for each pair, (*, 3, 3).
        moments: Pooled moments, with the counts to predict for.
        value: mu, (*).
    """
    u = table * tables.gradient(value)[..., None, :]
    pairs = u[..., :, None] * u[..., None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = np.where(pairs != 0, pairs * moments.covariance, 0.0).sum(axis=(-2, -1))
        # Where the terms cancel in every draw, rounding can leave a negative sum.
        per_draw = np.where(parts == 0, 0.0, np.maximum(parts, 0.0) / moments.counts)
        return np.asarray(per_draw.sum(axis=-1) / moments.mean[..., 2] ** 2)


def absent(moments: Moments) -> list[int]:
    """The proposals that have no moments."""
    unknown = np.isnan(moments.covariance).reshape(-1, 3, 9).all(axis=(0, 2))
    return [int(j) for j in np.flatnonzero(unknown)]


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


def _closed_form(moments: Moments, price: Array, present: NDArray[np.int64]) -> Array:
    """Shares of the budget, in cost, for AMCI: s_j sqrt(c_j), as s_j / sqrt(c_j) draws."""
    factor = np.array([1.0, 1.0, np.nan_to_num(abs(moments.mu))])
    variances = np.einsum("jjj->j", moments.covariance)
    with np.errstate(invalid="ignore"):
        spent = np.nan_to_num(factor * np.sqrt(variances * price), posinf=0.0)[present]
    return _bounded(spent if spent.sum() > 0 else np.ones(len(present)))


def _least_variance(
    moments: Moments, price: Array, present: NDArray[np.int64], start: Array
) -> Array:
    def log_variance(logits: Array) -> float:
        counts = np.zeros(3)
        counts[present] = _bounded(softmax(logits)) / price[present]
        found = float(predicted_variance(moments, counts, table=tables.optimum))
        return math.log(found) if found > 0 else -1e3

    best = start
    for first in (start, np.full(len(present), 1 / len(present))):
        logits = np.append(np.log(first[:-1] / first[-1]), 0.0)
        found = minimize(log_variance, logits, method="Nelder-Mead", options={"fatol": 1e-6})
        if found.fun < log_variance(np.log(best)):
            best = _bounded(softmax(found.x))
    return best


def _bounded(shares: Array) -> Array:
    """Shares that sum to one, none below the least."""
    kept = np.maximum(shares / shares.sum(), LEAST_SHARE)
    return np.asarray(kept / kept.sum())
