r"""What a budget of draws buys: how it is best split, and the error that is then expected."""

from __future__ import annotations

__all__ = ["predicted_variance", "relative_variance", "snis_bound", "split_draws"]

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from amci_core.estimators import tables
from amci_core.estimators.draws import PROPOSALS, Array
from amci_core.estimators.estimators import ControlVariates, Tabled
from amci_core.estimators.mis import Moments
from amci_core.estimators.registry import resolve

# No proposal gets less than this share of the draws: a moment can be too small.
LEAST_SHARE = 0.01


def split_draws(
    moments: Moments,
    draws: int,
    *,
    estimator: Any = "amci",
) -> dict[str, int]:
    """Draws N : K : M of q1_plus, q1_minus and q2 that make the variance least, by name.

    They are as the standard deviations s_j that one draw of each proposal adds to mu: for AMCI
    N : K : M = s_plus : s_minus : |mu| s_2, for SNIS all draws go to its proposal. A table that is
    chosen from moments is split as the one that it starts from.

    Arguments:
        moments: Pooled moments of one case (y, theta), from a pilot.
        draws: Total number of draws, at least one of each proposal.
        estimator: A name of `ESTIMATORS`, or a table; it takes any numbers of draws.

    Returns:
        Number of draws of each proposal that the estimator uses, at least one, as `estimate`
        takes them; they sum to `draws`.

    Raises:
        ValueError: the estimator takes equal numbers of draws.

    References:
        `docs/concepts.md`, "Error", without sharing; "Estimators are tables" for V*.

    Example:
        >>> from amci_core.estimators import Moments
        >>> single = np.zeros((3, 3, 3)) + np.diag([1.0, 0.0, 9.0])
        >>> moments = Moments(np.array([0.0, -np.inf, 0.0]), single, np.full(3, 10.0))
        >>> split_draws(moments, 100)  # q2's weights spread three times as far as q1's
        {'q1_plus': 24, 'q1_minus': 1, 'q2': 75}
    """
    chosen = resolve(estimator)
    if isinstance(chosen, ControlVariates):  # its draws come from the proposals as AMCI's do
        chosen = Tabled(tables.amci())
    if not isinstance(chosen, Tabled):
        raise ValueError(f"estimator: expected amci-cv, amci or a fixed table, got {estimator!r}")
    table = chosen.table_of([j for j in range(3) if j not in absent(moments)])
    used = np.array(tables.needed(table))
    spent = np.nan_to_num(np.sqrt(_of_one_draw(table, moments)), posinf=0.0)[used]
    spent = spent if spent.sum() > 0 else np.ones(len(used))
    shares = np.maximum(spent / spent.sum(), LEAST_SHARE)
    shares /= shares.sum()
    counts = np.zeros(3, dtype=np.int64)
    counts[used] = np.maximum(np.floor(shares * draws + 1e-9), 1)
    # The largest count takes the rest; where one draw is more than a share buys, it gives way.
    counts[int(counts.argmax())] += max(draws - counts.sum(), 0)
    while counts.sum() > draws:
        counts[int(counts.argmax())] -= 1
    return {PROPOSALS[j]: int(counts[j]) for j in used}


def predicted_variance(
    moments: Moments, counts: Sequence[float] | Array, *, table: Callable[[Moments], tables.Table]
) -> Array:
    """`relative_variance` of the estimate with these counts, (*).

    Arguments:
        moments: Pooled moments, (*).
        counts: Draws of each proposal, (3,).
        table: The table for given moments, such as `tables.optimum`.
    """
    wanted = replace(moments, counts=np.asarray(counts, dtype=np.float64))
    chosen = np.array(table(wanted))
    chosen[..., absent(moments), :] = 0
    return relative_variance(chosen, wanted)


def relative_variance(table: tables.Table, moments: Moments) -> Array:
    """Delta-method variance of the estimate that a table gives, over its squared size, (*).

    The size is (E1_plus + E1_minus) / E2, which is |mu| where f has one sign. With the relative
    covariances S_j of one draw, the variance is sum_j u_j' S_j u_j / n_j, u_j = v[j] * c, and
    c = (E1_plus, -E1_minus, E1_minus - E1_plus) / (E1_plus + E1_minus).

    Arguments:
        table: The estimator's table, (3, 3), or one for each case, (*, 3, 3).
        moments: Pooled moments, with the counts to predict for.
    """
    per_draw = _of_one_draw(table, moments)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(per_draw == 0, 0.0, per_draw / moments.counts).sum(axis=-1))


def _of_one_draw(table: tables.Table, moments: Moments) -> Array:
    """What one draw of each proposal adds to the relative variance, (*, 3)."""
    log_E1 = moments.log_mean[..., :2]
    log_size = np.logaddexp(log_E1[..., 0], log_E1[..., 1])[..., None]
    with np.errstate(invalid="ignore"):
        plus, minus = np.moveaxis(
            np.exp(log_E1 - np.where(log_size > -np.inf, log_size, 0)), -1, 0
        )
        u = table * np.stack([plus, -minus, minus - plus], axis=-1)[..., None, :]
        pairs = u[..., :, None] * u[..., None, :]
        parts = np.where(pairs != 0, pairs * moments.covariance, 0.0).sum(axis=(-2, -1))
        # Where the terms cancel in every draw, rounding can leave a negative sum.
        return np.asarray(np.maximum(parts, 0.0))


def absent(moments: Moments) -> list[int]:
    """The proposals that have no moments."""
    unknown = np.isnan(moments.covariance).reshape(-1, 3, 9).all(axis=(0, 2))
    return [int(j) for j in np.flatnonzero(unknown)]


def snis_bound(mean_absolute_deviation: Array, draws: ArrayLike) -> Array:
    """The least mean squared error of SNIS with T independent draws of one proposal, as T grows.

    It is (E|f - mu|)^2 / T. It is asymptotic: at small T a valid proposal can beat it. Fixed
    numbers of draws from several proposals, as `snis-qm-stratified` takes, are no independent
    draws from one, and can lie far below it at any T.

    Arguments:
        mean_absolute_deviation: E|f - mu| under the posterior, (*), in any unit; in units of
            mu the bound is a relative error, which no small mu can make underflow.
        draws: Total draws T, (B,).

    Returns:
        Mean squared errors, (*, B), in that unit squared.

    References:
        Owen, Monte Carlo theory, methods and examples, 2013, chapter 9; eq. (achievable) of the
        paper.
    """
    deviation = np.asarray(mean_absolute_deviation, dtype=np.float64)
    return np.square(deviation)[..., None] / np.asarray(draws, dtype=np.float64)
