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
    "pooled_moments",
    "reweighted_covariance",
    "terms_of",
    "unjudged",
    "variance",
]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import Array, Draws, Points

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
        counts: Number of draws of each proposal, (3,).
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
    present = draws.present
    parts = [draws.of(j) for j in present]
    counts = np.zeros(3)
    counts[list(present)] = [p.n for p in parts]
    log_joint = np.concatenate([p.log_joint for p in parts], -1)
    log_q = {j: np.concatenate([p.log_q_of(j) for p in parts], -1) for j in present}
    log_mixture = np.logaddexp.reduce(
        [log_q[j] + np.log(counts[j] / counts.sum()) for j in present]
    )
    terms = terms_of(parts)

    log_scale = (log_joint - log_mixture).max(axis=-1)
    weight = np.exp(log_joint - log_mixture - log_scale[..., None])
    mean = (terms * weight[..., None, :]).mean(axis=-1)
    if draws.log_E2 is not None:
        mean[..., 2] = np.exp(draws.log_E2 - log_scale)

    batch = log_joint.shape[:-1]
    covariance = np.full((*batch, 3, 3, 3), np.nan)
    for j in present:
        log_w = log_joint - log_q[j] - log_scale[..., None]
        # Weights of a proposal that all but misses the mass overflow; its covariance is then NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            covariance[..., j, :, :] = _covariance(terms, log_w, np.exp(log_q[j] - log_mixture))
    return Moments(log_scale, mean, covariance, counts)


def variance(table: Array, moments: Moments, value: Array) -> Array:
    """Delta-method variance of the estimate that a table gives, in units of f squared, (*).

    Var = sum_j u_j' S_j u_j / n_j / E2^2 with u_j = v[j] * (1, -1, -mu).

    Arguments:
        table: The estimator's table.
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


def unjudged(table: Array, draws: Draws, value: Array) -> NDArray[np.bool_]:
    """Whether the draws say nothing of an estimate's error, (*).

    A draw from proposal j enters the error as w (v[j] . (f_plus, -f_minus, -mu)). Where E1 and E2
    are carried by the same draws and f is the same at all of them, this is zero at each, however
    wrong mu is: zero variance is then no sign of an exact estimate.

    Arguments:
        table: The estimator's table.
        draws: Points of every proposal that the table needs.
        value: mu, (*).
    """
    silent = np.ones(value.shape, dtype=bool)
    for j in np.flatnonzero(table.any(axis=1)):
        points = draws.of(int(j))
        plus, minus, one = table[j]
        parts = [plus * points.f_plus, -one * value[..., None]]
        if points.f_minus is not None:
            parts.append(-minus * points.f_minus)
        zero = abs(sum(parts)) <= ROUNDING * sum(abs(part) for part in parts)
        silent &= (zero | (draws.log_weight(int(j)) == -np.inf)).all(axis=-1)
    return silent


def terms_of(parts: Sequence[Points]) -> Array:
    """(f_plus, f_minus, 1) at the points of all parts together, (*, 3, n)."""
    f_plus = np.concatenate([p.f_plus for p in parts], -1)
    terms = np.zeros((*f_plus.shape[:-1], 3, f_plus.shape[-1]))
    terms[..., 0, :] = f_plus
    minus = [p.f_minus for p in parts if p.f_minus is not None]
    if minus:
        terms[..., 1, :] = np.concatenate(minus, -1)
    terms[..., 2, :] = 1
    return terms


def reweighted_covariance(values: Array, r: Array) -> Array:
    """Covariance (*, 3, 3) of values (*, 3, n) under weights r (*, n), one draw's; NaN for one."""
    share = r / r.sum(axis=-1, keepdims=True)
    centred = values - (values * share[..., None, :]).sum(axis=-1, keepdims=True)
    # Unbiased weights: one effective draw says nothing about a variance.
    correction = 1 - np.square(share).sum(axis=-1)
    correction = np.where(correction > 1e-9, correction, np.nan)
    covariance = np.einsum("...n,...tn,...sn->...ts", share, centred, centred)
    return covariance / correction[..., None, None]


def _covariance(terms: Array, log_w: Array, r: Array) -> Array:
    """Covariance of terms * exp(log_w) under weights r; infinite where r = 0 misses a term."""
    reached = r > 0
    w = np.where(reached, np.exp(np.where(reached, log_w, -np.inf)), 0.0)
    covariance = reweighted_covariance(terms * w[..., None, :], r)
    missed = np.logical_or.reduce((terms > 0) & ~reached[..., None, :], axis=-1)
    return np.where(missed[..., None] & np.eye(3, dtype=bool), np.inf, covariance)
