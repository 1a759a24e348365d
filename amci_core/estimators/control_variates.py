r"""AMCI with control variates: all draws serve every term, and their residuals say how well.

With a_j = n_j / n, q_m = sum_j a_j q_j over all components, the defensive one among them, and
Q_j = q_j / q_m, the mean of Q_j over all draws is one in expectation: Q_j - 1 are control variates
for

    y_t = t(x) p(x, y) / q_m(x),    whose mean over all draws estimates the term E_t.

The regression starts from AMCI's own estimate E0_t, the mean of t w over the draws of the
proposal q_j(t) made for t. With X = Q - mean(Q), J components and n draws,

    r_t = y_t - E0_t Q_j(t),    b_t = (X X' + ridge n I)^-1 X r_t,
    E_t = E0_t + mean(r_t) - b_t' (mean(Q) - 1),    mu = (E1_plus - E1_minus) / E2.

A draw adds its residual (r_t - b_t' Q) / n, less the component's mean, to the error of E_t.

With optimal proposals r_t = 0: there is no error, for every ridge (Theorem 1 of the paper). To
first order the variance is at most that of any table with the same numbers of draws, AMCI, SNIS
and sample reuse included, since (sum_j u_j)^2 / (sum_j a_j q_j) <= sum_j u_j^2 / (a_j q_j).

With draws of q1_complement, for an f in [0, M], a term can start from both sides,

    r_2 = y_2 - (E0_1 Q_1 + E0_1c Q_1c) / M,    E0_1c the mean of (M - f) w over its draws,

so that errors of E1 and E2 go together where mu is near M. Where E2 is known, E1 can start from
M E2 - E0_1c, with r_1 = y_1 - M p / q_m + E0_1c Q_1c; q1_plus and q1_complement cover p(x, y)
together. At every case the start with the smaller residuals is taken, those of E1 or, for E2,
those of the ratio, r_2 / E2 - r_1 / E1.

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

from amci_core.estimators.base import Combined, Prepared
from amci_core.estimators.draws import COMPLEMENT, Array, Draws, log, log_sum_exp
from amci_core.estimators.mis import Pooled, pooled
from amci_core.estimators.uncertainty import Errors, errors_of

# Of the ridge, over the number of draws.
RIDGE = 0.01


@dataclass(frozen=True)
class Regressed(Prepared):
    """Draws for AMCI with control variates; the table says what each term starts from."""

    def combine(self) -> Combined:
        rows = [regress(self.draws.first(row)).combined for row in self.rows]
        sign = np.concatenate([row.sign for row in rows], axis=-2)
        return Combined(sign, np.concatenate([row.log_terms for row in rows], axis=-2))


class Fit(NamedTuple):
    """The regression of one term, in a unit of its own.

    Arguments:
        log_unit: Logarithm of the unit in nats, (*); -inf where no draw met the term.
        y: y_t at every draw, (*, n).
        r: y_t less its start at every draw, (*, n).
        b: Coefficients of Q - 1, (*, J).
    """

    log_unit: Array
    y: Array
    r: Array
    b: Array


class Start(NamedTuple):
    """A summand sign exp(log_E0) Q of what a term starts from.

    Arguments:
        log_E0: Logarithm of its size in nats, (*).
        Q: Its density over q_m at every draw, (*, n).
        sign: Its sign.
    """

    log_E0: Array
    Q: Array
    sign: float = 1.0


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
        met = np.any([self.fits[t].log_unit > -np.inf for t in (0, 1) if t in self.fits], axis=0)
        return np.where(met & ~np.isnan(self.errors.value), self.errors.determined_by, np.nan)

    @cached_property
    def errors(self) -> Errors:
        """What each draw adds to the estimate's error: (r_t - b_t' Q) / n over E2."""
        log_E2, log_mu = self.combined.log_terms[..., 0, 2], self.combined.log_unit[..., 0]
        Q = np.stack(list(self.ratios.values()), axis=-2)
        h, size = np.zeros((2, 3, *self.draws.log_joint.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            for t, (log_unit, y, r, b) in self.fits.items():
                # In the unit of the estimate and over its E2.
                log_scale = log_unit - log_E2 - (log_mu if t < 2 else 0.0)
                scale = self.combined.sign[..., 0, 2] * np.exp(log_scale) / self.draws.n
                h[t] = scale[..., None] * (r - np.vecmat(b, Q))
                size[t] = np.abs(scale[..., None] * y)
        mu = self.combined.ratio[..., 0]
        return errors_of(self.draws, log_mu, mu, h, size)


def regress(draws: Draws, *, ridge: float = RIDGE) -> Regression:
    """Estimates every term from all draws; cost linear in them.

    Arguments:
        draws: Draws of all components, with the density of each at every point. A term whose own
            proposal has no draws starts from zero.
        ridge: Penalty of a squared coefficient, over the number of draws.

    Raises:
        ValueError: the draws lack a component's density at the points of another.
    """
    seen = pooled(draws)
    ratios = {j: np.exp(draws.log_q[j] - seen.log_mixture) for j in draws.counts}
    Q = np.stack(list(ratios.values()), axis=-2)
    mean_Q = Q.mean(axis=-1)
    X = Q - mean_Q[..., None]
    gram = X @ X.swapaxes(-1, -2) + ridge * draws.n * np.eye(len(ratios))
    starts = {j: Start(_log_E0(draws, j), ratios[j]) for j in draws.present}
    if draws.f_max is not None and draws.count(0) and draws.count(COMPLEMENT):
        starts[COMPLEMENT] = Start(_log_E0(draws.complement(), 0), ratios[COMPLEMENT])

    sign, log_terms, fits = np.zeros((*draws.batch, 3)), np.full((*draws.batch, 3), -np.inf), {}
    for t in draws.terms:
        if t == 2 and draws.log_E2 is not None:
            sign[..., 2], log_terms[..., 2] = 1.0, draws.log_E2
            continue
        start = _start(seen, starts, t)
        log_y = seen.log_terms[t] - seen.log_mixture
        largest = np.max([log_y.max(axis=-1), *(summand.log_E0 for summand in start)], axis=0)
        log_unit = np.where(largest > -np.inf, largest, 0.0)
        y = np.exp(log_y - log_unit[..., None])
        E0, r = np.zeros_like(log_unit), y
        for summand in start:
            size = summand.sign * np.exp(summand.log_E0 - log_unit)
            E0, r = E0 + size, r - size[..., None] * summand.Q
        b = np.linalg.solve(gram, X @ r[..., None])[..., 0]
        E = E0 + r.mean(axis=-1) - np.vecdot(mean_Q - 1, b)
        fits[t], sign[..., t] = Fit(largest, y, r, b), np.sign(E)
        log_terms[..., t] = log(np.abs(E)) + log_unit
    combined = Combined(sign[..., None, :], log_terms[..., None, :])
    return Regression(combined, draws, ratios, fits)


def _start(seen: Pooled, starts: Mapping[int, Start], t: int) -> list[Start]:
    """The summands of what term t starts from: E0_t, or both sides of f where that is better.

    Arguments:
        seen: The draws, pooled.
        starts: E0 and Q of each proposal that has draws, by its number.
        t: The term.
    """
    one_side = [starts[t]] if t in starts else []
    both_sides = _both_sides(seen, starts, t)
    if not one_side or not both_sides:
        return one_side or both_sides
    if t == 0:
        # Both in the unit M E2.
        unit = both_sides[0].log_E0
        residuals = [_residual(seen, 0, start, unit) for start in (one_side, both_sides)]
    else:
        r_1 = _residual(seen, 0, [starts[0]], starts[0].log_E0)
        units = [one_side[0].log_E0, np.logaddexp(*(start.log_E0 for start in both_sides))]
        residuals = [
            _residual(seen, 2, start, unit) - r_1
            for start, unit in zip((one_side, both_sides), units, strict=True)
        ]
    with np.errstate(over="ignore"):
        squares = [np.square(r).sum(axis=-1) for r in residuals]
    better = squares[0] < squares[1]
    taken = [(summand, better) for summand in one_side]
    taken += [(summand, ~better) for summand in both_sides]
    return [s._replace(log_E0=np.where(where, s.log_E0, -np.inf)) for s, where in taken]


def _both_sides(seen: Pooled, starts: Mapping[int, Start], t: int) -> list[Start]:
    """(E0_1 + E0_1c) / M for E2, and M E2 - E0_1c for E1 if E2 is known."""
    draws = seen.draws
    if draws.f_max is None or COMPLEMENT not in starts or t == 1:
        return []
    log_M = np.log(draws.f_max)
    if t == 2:
        return [starts[j]._replace(log_E0=starts[j].log_E0 - log_M) for j in (0, COMPLEMENT)]
    if draws.log_E2 is None:
        return []
    log_E2 = np.broadcast_to(draws.log_E2, draws.batch)
    P = np.exp(draws.log_joint - log_E2[..., None] - seen.log_mixture)
    return [Start(log_M + log_E2, P), starts[COMPLEMENT]._replace(sign=-1.0)]


def _residual(seen: Pooled, t: int, start: list[Start], log_unit: Array) -> Array:
    """r_t in a unit, (*, n); zero where the unit is."""
    with np.errstate(invalid="ignore", over="ignore"):
        r = np.exp(seen.log_terms[t] - seen.log_mixture - log_unit[..., None])
        for summand in start:
            r = r - summand.sign * np.exp(summand.log_E0 - log_unit)[..., None] * summand.Q
        return np.nan_to_num(r)


def _log_E0(draws: Draws, j: int) -> Array:
    """log of the mean of t w over the draws of the proposal j made for t = j, (*)."""
    log_t = draws.log_weight(j) + draws.log_factor(j, draws.stretch(j))
    return log_sum_exp(log_t) - math.log(draws.count(j))
