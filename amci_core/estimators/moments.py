r"""Means and covariances of the terms under every proposal, estimated from all draws at once.

A proposal's own draws are the wrong witnesses: where no q2 draw reaches the tail, its sample
variance of f w is zero. So each covariance S_j = Cov_{q_j}[(f_plus w, f_minus w, w)] is estimated
from the draws of every proposal, with the balance heuristic's density q_m = sum_j (n_j / n) q_j:

    E_{q_j}[g] = sum_i g(x_i) r_i / sum_i r_i,      r_i = q_j(x_i) / q_m(x_i)   over all draws,

which is exact, like the estimator itself, when the proposals are optimal.
"""

from __future__ import annotations

__all__ = [
    "Moments",
    "error_parts",
    "paired_covariance",
    "pooled_moments",
    "reweighted_covariance",
    "running_moments",
    "term_covariance",
    "unjudged",
    "variance",
]

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amci_core.estimators.draws import Array, Draws
from amci_core.estimators.pooling import pool

# Estimates go through logarithms of some hundred nats, each known to that many rounding errors.
ROUNDING = 1e-11


@dataclass(frozen=True)
class Moments:
    """Moments of the terms for a batch (*) of pairs (y, theta).

    Arguments:
        log_scale: Every mean is in units of exp(log_scale), every covariance in units of its
            square, (*).
        mean: Pooled estimates of E1_plus, E1_minus, E2, (*, 3).
        covariance: Cov_{q_j}[(f_plus w, f_minus w, w)] of one draw, (*, 3, 3, 3) with j first; NaN
            for a proposal that is not there or cannot be judged; the variance of a term whose mass
            q_j misses is infinite.
        counts: Number of draws of each proposal, (3,); of running moments (B, 3).
    """

    log_scale: Array
    mean: Array
    covariance: Array
    counts: Array


def pooled_moments(draws: Draws) -> Moments:
    """The moments from all draws; cost linear in their number.

    Raises:
        ValueError: the draws lack a proposal's density at another proposal's points.
    """
    counts = [0 if points is None else points.n for points in draws.points]
    found = running_moments(draws, [counts])
    return Moments(
        found.log_scale[..., 0], found.mean[..., 0, :], found.covariance[..., 0, :, :, :],
        found.counts[0],
    )  # fmt: skip


def running_moments(draws: Draws, counts: ArrayLike, *, apart: bool = False) -> Moments:
    """The moments from the first draws of every proposal, for B numbers of draws in one pass.

    Arguments:
        draws: Points of every proposal, with every density at each.
        counts: How many of each proposal's draws to use, (B, 3), each column increasing; their
            proportions should hardly change, since one mixture density serves all of them.
        apart: Whether to leave out a draw that makes up more than half of a second moment of
            f w. Such a draw says that the moment is not known, whatever its value: a table that
            follows it rests on the very draw whose error it should weigh. For choosing a table,
            not for judging one.

    Returns:
        Moments of batch shape (*, B).

    Raises:
        ValueError: the draws lack a proposal's density at another proposal's points.
    """
    wanted = np.asarray(counts, dtype=np.int64)
    pooled = pool(draws, wanted, apart=apart)
    covariance = np.full((*pooled.mean.shape[:-1], 3, 3, 3), np.nan)
    for j, second in pooled.covariance.items():
        covariance[..., j, :, :] = second
    mean = pooled.mean
    if draws.log_E2 is not None:
        mean[..., 2] = np.exp(draws.log_E2 - pooled.log_scale)[..., None]
    scale = np.broadcast_to(pooled.log_scale[..., None], mean.shape[:-1])
    return Moments(scale, mean, covariance, wanted.astype(np.float64))


def term_covariance(table: Array, moments: Moments) -> Array:
    """Covariance of the estimates of (E1_plus, E1_minus, E2) that a table gives, (*, 3, 3).

    Cov[E_t, E_s] = sum_j v[j, t] v[j, s] S_j[t, s] / n_j, in units of exp(2 log_scale).

    Arguments:
        table: The estimator's table, (3, 3), or one for each pair, (*, 3, 3).
        moments: Pooled moments of the draws.
    """
    pairs = table[..., :, None] * table[..., None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = np.where(pairs != 0, pairs * moments.covariance, 0.0)
        per_draw = np.where(parts == 0, 0.0, parts / moments.counts[..., None, None])
    return per_draw.sum(axis=-3)


def variance(table: Array, moments: Moments, value: Array) -> Array:
    """Delta-method variance of the estimate that a table gives, in units of f squared, (*).

    Var = sum_j u_j' S_j u_j / n_j / E2^2 with u_j = v[j] * (1, -1, -mu).

    Arguments:
        table: The estimator's table, (3, 3), or one for each pair, (*, 3, 3).
        moments: Pooled moments of the draws.
        value: mu, (*).
    """
    signs = np.stack([np.ones_like(value), -np.ones_like(value), -value], -1)
    u = table * signs[..., None, :]
    pairs = u[..., :, None] * u[..., None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = np.where(pairs != 0, pairs * moments.covariance, 0.0).sum(axis=(-2, -1))
        # Where the terms cancel in every draw, rounding can leave a negative sum.
        per_draw = np.where(parts == 0, 0.0, np.maximum(parts, 0.0) / moments.counts)
        return per_draw.sum(axis=-1) / moments.mean[..., 2] ** 2


def paired_covariance(draws: Draws, moments: Moments) -> Array:
    """Covariance of AMCI's (E1_plus, E1_minus, E2), (*, 3, 3), where draws come in pairs.

    The i-th points of all proposals come from the same random numbers, so that the spread of
    (f_plus w, f_minus w, w) over i, each on its own proposal, holds the covariances between terms.

    Arguments:
        draws: Equally many points of every proposal.
        moments: Their pooled moments, whose units are used.
    """
    n = draws.of(draws.present[0]).n
    values = np.zeros((*moments.log_scale.shape, 3, n))
    for j in draws.present:
        points = draws.of(j)
        factors = (points.f_plus, points.f_minus, 1.0)[j]
        if factors is not None:
            w = np.exp(draws.log_weight(j) - moments.log_scale[..., None])
            values[..., j, :] = factors * w
    centred = values - values.mean(axis=-1, keepdims=True)
    if n == 1:
        return np.full((*moments.log_scale.shape, 3, 3), np.nan)
    return centred @ centred.swapaxes(-1, -2) / (n * (n - 1))


def unjudged(table: Array, draws: Draws, value: Array) -> NDArray[np.bool_]:
    """Whether the draws say nothing of an estimate's error, (*).

    A draw from proposal j enters the error as w (v[j] . (f_plus, -f_minus, -mu)). Where E1 and E2
    are carried by the same draws and f is the same at all of them, this is zero at each, however
    wrong mu is: zero variance is then no sign of an exact estimate.

    Arguments:
        table: The estimator's table, (3, 3), or one for each pair, (*, 3, 3).
        draws: Points of every proposal that the table needs.
        value: mu, (*).
    """
    silent = np.ones(value.shape, dtype=bool)
    for j, parts in error_parts(table, draws, value):
        size = sum((abs(part) for part in parts), start=np.zeros(()))
        zero = abs(sum(parts, start=np.zeros(()))) <= ROUNDING * size
        silent &= (zero | (draws.log_weight(j) == -np.inf)).all(axis=-1)
    return silent


def error_parts(table: Array, draws: Draws, value: Array) -> Iterator[tuple[int, list[Array]]]:
    """For every proposal j in use, the terms of v[j] . (f_plus, -f_minus, -mu), each (*, n).

    Their sum times w is what a draw brings to the error of mu.

    Arguments:
        table: The estimator's table, (3, 3), or one for each pair, (*, 3, 3).
        draws: Points of every proposal that the table needs.
        value: mu, (*).
    """
    for j in np.flatnonzero((table != 0).reshape(-1, 3, 3).any(axis=(0, 2))):
        points = draws.of(int(j))
        plus, minus, one = np.moveaxis(table[..., j, :, None], -2, 0)
        parts = [plus * points.f_plus, -one * value[..., None]]
        if points.f_minus is not None:
            parts.append(-minus * points.f_minus)
        yield int(j), parts


def reweighted_covariance(values: Array, r: Array) -> Array:
    """Covariance (*, 3, 3) of values (*, 3, n) under weights r (*, n), one draw's; NaN for one."""
    share = r / r.sum(axis=-1, keepdims=True)
    centred = values - (values * share[..., None, :]).sum(axis=-1, keepdims=True)
    # Unbiased weights: one effective draw says nothing about a variance.
    correction = 1 - np.square(share).sum(axis=-1)
    correction = np.where(correction > 1e-9, correction, np.nan)
    covariance = np.einsum("...n,...tn,...sn->...ts", share, centred, centred)
    return covariance / correction[..., None, None]
