r"""AMCI with control variates: all draws serve every term, and their residuals say how well.

With a_j = n_j / n, q_m = sum_j a_j q_j over all components, the defensive one among them, and
Q_j = q_j / q_m, the mean of Q_j over all draws is one in expectation: Q_j - 1 are control variates
for

    y_t = t(x) p(x, y) / q_m(x),    whose mean over all draws estimates the term E_t.

The regression starts from AMCI's own estimate E0_t, the mean of t w over the draws of the
proposal made for t:

    r_t = y_t - E0_t Q_own(t),    b_t = ridge regression of r_t on Q - 1,
    E_t = E0_t + mean(r_t) - mean(Q - 1) b_t,    mu = (E1_plus - E1_minus) / E2.

With optimal proposals r_t = 0: there is no error, for every ridge (Theorem 1 of the paper). To
first order the variance is at most that of any table with the same numbers of draws, AMCI, SNIS
and sample reuse included, since (sum_j u_j)^2 / (sum_j a_j q_j) <= sum_j u_j^2 / (a_j q_j).

With draws of q1_complement, for an f in [0, M], a term can start from both sides,

    r_2 = y_2 - (E0_1 Q_1 + E0_1c Q_1c) / M,    E0_1c the mean of (M - f) w over its draws,

so that errors of E1 and E2 go together where mu is near M. Where E2 is known, E1 can start from
M E2 - E0_1c, with r_1 = y_1 - M p / q_m + E0_1c Q_1c; q1_plus and q1_complement cover p(x, y)
together. At every case the start with the smaller residuals is taken.

References:
    Owen, Zhou, Safe and effective importance sampling, J. American Statistical Association, 2000.
    He, Owen, Optimal mixture weights in multiple importance sampling, arXiv 1411.3954, 2014.
    Kondapaneni et al., Optimal multiple importance sampling, ACM Transactions on Graphics, 2019.
    The ratio of terms with proposals of their own, and the start from AMCI, are this project's.
    Owen, Estimating equations and self-normalized importance sampling, arXiv 2510.00389, 2025, for
    the two sides; q1_complement in the regression is this project's.
"""

from __future__ import annotations

__all__ = ["Regressed", "Regression", "regress"]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from amci_core.estimators.combine import Combined, Prepared, ratio_of
from amci_core.estimators.draws import COMPLEMENT, Array, Draws, log_sum_exp
from amci_core.estimators.mis import Pooled, pooled
from amci_core.estimators.uncertainty import Errors, errors_of

# Of the ridge, over the number of draws.
RIDGE = 0.01


@dataclass(frozen=True)
class Regressed(Prepared):
    """Draws for AMCI with control variates; the table says what each term starts from."""

    def combine(self) -> Combined:
        found = [regress(self.draws.first(row)).combined for row in self.counts]
        sign, log_terms = (
            np.concatenate([getattr(c, name) for c in found], -2) for name in ("sign", "log_terms")
        )
        return ratio_of(sign, log_terms)


class Fit(NamedTuple):
    """The regression of one term, in a unit of its own.

    Arguments:
        log_unit: Logarithm of the unit in nats, (*); -inf where no draw met the term.
        y: y_t at every draw, (*, n).
        r: y_t - E0_t Q_own(t) at every draw, (*, n).
        b: Coefficients of Q - 1, (*, J).
    """

    log_unit: Array
    y: Array
    r: Array
    b: Array


@dataclass(frozen=True)
class Regression:
    """AMCI with control variates at a batch (*).

    Arguments:
        combined: The estimate, (*, 1).
        draws: The draws.
        ratios: Q_j at every draw for every component that has draws, by its number, (*, n).
        fits: The regression of each term that is estimated, by its number.
    """

    combined: Combined
    draws: Draws
    ratios: Mapping[int, Array]
    fits: Mapping[int, Fit]

    @cached_property
    def determined_by(self) -> Array:
        """The effective number of squared residuals, (*); infinite where there is no error, NaN
        where no draw met a term."""
        met = [self.fits[t].log_unit > -np.inf for t in (0, 1) if t in self.fits]
        known = np.any(met, axis=0) & ~np.isnan(self.errors.value)
        return np.where(known, self.errors.determined_by, np.nan)

    @cached_property
    def errors(self) -> Errors:
        """What each draw adds to the estimate's error: its residual r_t - b_t' Q, over n E2."""
        combined, draws = self.combined, self.draws
        sign_E2, log_E2 = combined.sign[..., 0, 2], combined.log_terms[..., 0, 2]
        log_mu = combined.log_unit[..., 0]
        Q = np.stack(list(self.ratios.values()), axis=-2)
        residuals, sizes = np.zeros((2, 3, *draws.log_joint.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            for t, (log_unit, y, r, b) in self.fits.items():
                # In the unit of the estimate and over its E2.
                log_scale = log_unit - log_E2 - (log_mu if t < 2 else 0.0)
                scale = (sign_E2 * np.exp(log_scale) / draws.n)[..., None]
                residuals[t], sizes[t] = scale * (r - np.vecmat(b, Q)), np.abs(scale * y)
        return errors_of(
            draws,
            log_mu,
            combined.ratio[..., 0],
            residuals[0] - residuals[1],
            residuals[2],
            sizes[0] + sizes[1],
            sizes[2],
        )


def regress(draws: Draws, *, ridge: float = RIDGE) -> Regression:
    """Estimates every term from all draws; cost linear in them.

    Arguments:
        draws: Draws of all components, with the density of each at every point. A term whose own
            proposal has no draws starts from zero.
        ridge: Penalty of a squared coefficient, over the number of draws.

    Raises:
        ValueError: the draws lack a component's density at the points of another.
    """
    seen, n = pooled(draws), draws.n
    ratios = {
        j: np.exp(draws.log_q[j] - seen.log_mixture) for j, count in draws.counts.items() if count
    }
    Q = np.stack(list(ratios.values()), axis=-2)
    mean_Q = Q.mean(axis=-1)
    variates = Q - mean_Q[..., None]
    gram = variates @ variates.swapaxes(-1, -2) + ridge * n * np.eye(len(ratios))
    means = {
        j: _Part(_log_mean(draws, j), 1.0, ratios[j]) for j in draws.present if j != COMPLEMENT
    }
    if draws.f_max is not None and 0 in means and draws.count(COMPLEMENT):
        # Of M - f.
        size = _log_mean(draws.complement(), 0)
        means[COMPLEMENT] = _Part(size, 1.0, ratios[COMPLEMENT])
    log_terms = np.full((*draws.batch, 3), -np.inf)
    sign, fits = np.zeros_like(log_terms), {}
    for t in range(3):
        if t == 1 and not draws.signed:
            continue
        if t == 2 and draws.log_E2 is not None:
            log_terms[..., 2], sign[..., 2] = draws.log_E2, 1.0
            continue
        log_y = seen.log_terms[t] - seen.log_mixture
        parts = _start(seen, means, t)
        largest = np.max([log_y.max(axis=-1), *(part.log_size for part in parts)], axis=0)
        log_unit = np.where(largest > -np.inf, largest, 0.0)
        start, y = np.zeros_like(log_unit), np.exp(log_y - log_unit[..., None])
        r = y
        for part in parts:
            size = part.sign * np.exp(part.log_size - log_unit)
            start, r = start + size, r - size[..., None] * part.ratio
        b = np.linalg.solve(gram, variates @ r[..., None])[..., 0]
        E = start + r.mean(axis=-1) - np.vecdot(mean_Q - 1, b)
        fits[t], sign[..., t] = Fit(largest, y, r, b), np.sign(E)
        with np.errstate(divide="ignore"):
            log_terms[..., t] = np.log(np.abs(E)) + log_unit
    return Regression(ratio_of(sign[..., None, :], log_terms[..., None, :]), draws, ratios, fits)


class _Part(NamedTuple):
    """A part of what a term starts from: sign exp(log_size), (*), and its Q, (*, n)."""

    log_size: Array
    sign: float
    ratio: Array


def _start(seen: Pooled, means: Mapping[int, _Part], t: int) -> list[_Part]:
    """What term t starts from: its own proposal, or both sides of f where that is better."""
    draws, own = seen.draws, [means[t]] if t in means else []
    if draws.f_max is None or COMPLEMENT not in means or t == 1:
        return own
    first, other, log_M = means[0], means[COMPLEMENT], np.log(draws.f_max)
    if t == 0:
        if draws.log_E2 is None:
            return own
        log_E2 = np.broadcast_to(draws.log_E2, draws.batch)
        P = np.exp(draws.log_joint - log_E2[..., None] - seen.log_mixture)
        both = [_Part(log_M + log_E2, 1.0, P), other._replace(sign=-1.0)]
        squares = [
            np.square(_residual(seen, t, parts, log_M + log_E2)).sum(axis=-1)
            for parts in (own, both)
        ]
    else:
        both = [part._replace(log_size=part.log_size - log_M) for part in (first, other)]
        if not own:
            return both
        # What counts is the error of the ratio.
        r_1 = _residual(seen, 0, [first], first.log_size)
        sizes = [np.logaddexp.reduce([p.log_size for p in parts]) for parts in (own, both)]
        with np.errstate(over="ignore"):
            squares = [
                np.square(_residual(seen, t, parts, size) - r_1).sum(axis=-1)
                for parts, size in zip((own, both), sizes, strict=True)
            ]
    better = squares[0] < squares[1]
    taken = [(part, better) for part in own] + [(part, ~better) for part in both]
    return [p._replace(log_size=np.where(where, p.log_size, -np.inf)) for p, where in taken]


def _residual(seen: Pooled, t: int, parts: list[_Part], log_unit: Array) -> Array:
    """r_t in a unit, (*, n); zero where the unit is."""
    with np.errstate(invalid="ignore", over="ignore"):
        r = np.exp(seen.log_terms[t] - seen.log_mixture - log_unit[..., None])
        for part in parts:
            r = r - part.sign * np.exp(part.log_size - log_unit)[..., None] * part.ratio
        return np.nan_to_num(r)


def _log_mean(draws: Draws, t: int) -> Array:
    """log of the mean of t w over the draws of the proposal made for t, (*)."""
    log_t = draws.log_weight(t) + draws.log_factor(t, draws.stretch(t))
    return log_sum_exp(log_t) - math.log(draws.count(t))
