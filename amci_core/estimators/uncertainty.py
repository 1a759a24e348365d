r"""The error of an estimate: standard error and intervals, from the moments of its draws.

A draw x_i of component j adds z_i to the error of mu. For a table v it is z_j(x_i) / n_j less its
mean over the component's draws, with

    z_j = w_j (v[j, E1_plus] f_plus - v[j, E1_minus] f_minus - v[j, E2] mu) / E2;

for the regression see `amci_core.estimators.control_variates`. By these draws alone

    V = sum_j n_j / (n_j - 1) sum_i z_i^2,

and by the draws of all components, reweighted to each (`amci_core.estimators.mis`), which show
what the draws of a table's proposals have not met,

    V = sum_j Var_j[z_j] / n_j,    Var_j[z_j] = sum_i omega_i (z_j - mean)^2 / (1 - sum omega^2).

All of it is in a unit of about |mu|: squares of a mu below 1e-154 are zero in units of f. An
interval is Student's t on the standard error, with as many degrees of freedom as the effective
number of squared errors, N = (sum e)^2 / sum e^2 with e what each draw adds to V.

Sobol points come in scrambled sets, R_j of each component. Sums S of z over the sets are
independent, and the draws of a set are not:

    V = sum_j V_j,   V_j = R_j / (R_j - 1) sum_r (S_jr - mean_r S_jr)^2,

with (sum V_j)^2 / sum_j V_j^2 / (R_j - 1) degrees of freedom (Welch and Satterthwaite), N at most.
"""

from __future__ import annotations

__all__ = [
    "Errors",
    "Uncertainty",
    "bessel",
    "centred",
    "effective_number",
    "table_errors",
]

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from amci_core._arguments import check_number
from amci_core.estimators.base import Combined, Prepared
from amci_core.estimators.draws import Array, Draws
from amci_core.estimators.mis import Moments, Pooled, spread
from amci_core.estimators.tables import Table, needed
from amci_core.printing import Printed

# Estimates go through logarithms of some hundred nats, each known to that many rounding errors.
ROUNDING = 1e-11
# From fewer effective draws an estimate has no standard error.
LEAST_CARRIED = 1.1
# So many effective draws must agree but for rounding before there is no error.
LEAST_AGREED = 28.0
# Regions that the draws of a component meet with a smaller probability do not enter a variance.
HARDLY_EVER = 0.05


@dataclass(frozen=True)
class Errors:
    """What every draw adds to the error of an estimate, for a batch (*), by these draws alone.

    Arguments:
        log_unit: Logarithm of the unit of f in nats, (*).
        value: The estimate in that unit, (*).
        z: What each draw adds to the error of mu in that unit, (*, n), zero on average over the
            draws of each component.
        counts: Numbers of draws of every component, in the order of the draws.
        strata: Number of scrambled sets of Sobol points of every component, or of its draws if
            they are independent, in the same order.
        rounding: Rounding error of the estimate in that unit, (*).
        carried_by: Effective number of the draws that carry the estimate, (*): of what each adds
            to its terms in absolute value, or to E2 if that is less; NaN if no draw does.
        silent: Whether f is the same at all draws with weight that estimate E1, (*). The estimate
            is that f: zero if no draw met it, or one for a probability if all did. No draw adds to
            the error, however large a part of the mass they missed. With exact proposals no draw
            adds to the error of AMCI either, but its value is mu, and not the f of the draws.
        by_all: The uncertainty by the draws of all components, for a table.
    """

    log_unit: Array
    value: Array
    z: Array
    counts: tuple[int, ...]
    strata: tuple[int, ...]
    rounding: Array
    carried_by: Array
    silent: NDArray[np.bool_]
    by_all: Uncertainty | None = None

    @cached_property
    def standard_error(self) -> Array:
        """Of mu, in the unit, (*); NaN where a component has a single draw."""
        return np.asarray(np.sqrt(self.variance_of(self.z)))

    def variance_of(self, z: Array) -> Array:
        """The variance, (*), of the sum of z (*, n), centred within each component's draws."""
        sums = np.concatenate(self._sums(z), axis=-1)
        return np.asarray(np.vecdot(sums * bessel(self.strata), sums))

    def _sums(self, z: Array) -> list[Array]:
        """For every component the sums of z (*, n) over its strata, (*, strata)."""
        parts = np.split(z, np.cumsum(self.counts)[:-1], axis=-1)
        return [
            part.reshape(*part.shape[:-1], strata, -1).sum(axis=-1)
            for part, strata in zip(parts, self.strata, strict=True)
        ]

    @property
    def freedom(self) -> Array:
        """Degrees of freedom of the standard error, (*)."""
        if self.strata == self.counts:
            return self.determined_by
        total, over_freedom = np.zeros((2, *self.value.shape))
        with np.errstate(invalid="ignore", divide="ignore"):
            for S, count in zip(self._sums(self.z), self.counts, strict=True):
                sets = S.shape[-1]
                V = np.vecdot(S * bessel((sets,)), S)
                of_V = effective_number(np.square(S)) if sets == count else sets - 1
                total = total + V
                over_freedom = over_freedom + np.nan_to_num(np.square(V) / of_V)
            return np.asarray(np.fmin(np.square(total) / over_freedom, self.determined_by))

    @cached_property
    def determined_by(self) -> Array:
        """The effective number of squared errors, (sum z^2)^2 / sum z^4, (*).

        Infinite if many draws carry the estimate and agree but for rounding. If few do, their
        residuals vanish with any error: a single weight that outweighs all others gives
        mu = f at its draw.
        """
        N = effective_number(np.square(self.z))
        agreed = np.where(self.carried_by >= LEAST_AGREED, np.inf, self.carried_by)
        N = np.where(np.isnan(self.standard_error), 1.0, N)
        return np.where(self.standard_error <= self.rounding, agreed, N)

    @property
    def uncertainty(self) -> Uncertainty:
        """By the draws of all components for a table, else by these draws alone."""
        if self.by_all is not None:
            return self.by_all
        error = np.maximum(self.standard_error, self.rounding)
        error = np.where(self.unknown, np.nan, error)
        return Uncertainty(self.log_unit, self.value, error, self.freedom)

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Whether nothing says how wrong the estimate is, (*): one draw is all of it, or f is the
        same at all."""
        return np.asarray(self.silent | (self.carried_by < LEAST_CARRIED))


def errors_of(
    draws: Draws,
    log_unit: Array,
    value: Array,
    h: Array,
    size: Array,
    silent: NDArray[np.bool_] | bool = False,
) -> Errors:
    """The errors of an estimate from what each draw adds to its terms.

    Arguments:
        draws: The draws, by the components within which they are centred.
        log_unit: Logarithm of the unit of f in nats, (*).
        value: The estimate in that unit, (*).
        h: What each adds to E1_plus, E1_minus and E2, over E2, (3, *, n).
        size: What each carries of these terms, in absolute value, (3, *, n).
        silent: Whether no draw adds to the error though proposals are not exact, (*).
    """
    counts = tuple(draws.counts.values())
    mu = value[..., None]
    size_of_mu = size[0] + size[1] + np.abs(mu) * size[2]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        logs = np.abs([np.log(np.abs(draws.f)), draws.log_joint])
        mu_in_f = mu * np.exp(log_unit)[..., None]
        same = np.abs(draws.f - mu_in_f) <= ROUNDING * np.abs(mu_in_f)
    same |= draws.log_joint == -np.inf
    # Of log f and log p, each known to its rounding error, and of some operations.
    nats = 8 + np.where(np.isfinite(logs), logs, 0.0).sum(axis=0)
    return Errors(
        log_unit=log_unit,
        value=value,
        z=centred(h[0] - h[1], counts) - mu * centred(h[2], counts),
        counts=counts,
        strata=draws.strata,
        rounding=np.asarray(np.finfo(float).eps * np.vecdot(size_of_mu, nats)),
        carried_by=np.fmin(effective_number(size_of_mu), effective_number(size[2])),
        silent=np.asarray(silent | same.all(axis=-1)),
    )


def table_errors(prepared: Prepared, combined: Combined, seen: Pooled) -> Errors:
    """The errors of a table's estimate.

    Arguments:
        prepared: The table and its draws.
        combined: Its estimates; the last one is that of all draws.
        seen: The draws, pooled.
    """
    draws, table = prepared.draws, prepared.last_table
    sign_E2, log_E2 = combined.sign[..., -1, 2, None], combined.log_terms[..., -1, 2]
    log_unit = np.logaddexp(seen.log_mean[..., 0], seen.log_mean[..., 1]) - log_E2
    log_unit = np.where(np.isfinite(log_unit), log_unit, 0.0)
    log_units = log_unit + log_E2, log_unit + log_E2, log_E2
    h = np.zeros((3, *draws.log_joint.shape))
    h_by_proposal = {}
    with np.errstate(invalid="ignore", over="ignore"):
        value = combined.ratio[..., -1] * np.exp(combined.log_unit[..., -1] - log_unit)
        for j in needed(table):
            v = table[..., j, :] * sign_E2
            h_j = np.zeros_like(h)
            for t in np.flatnonzero(v.reshape(-1, 3).any(axis=0)).tolist():
                h_j[t] = v[..., t, None] * seen.over(log_units[t], t, j)
            own = draws.stretch(j)
            h[..., own], h_by_proposal[j] = h_j[..., own] / draws.count(j), h_j
        summands = np.stack([h[0], -h[1], -value[..., None] * h[2]])
        silent = np.abs(summands.sum(axis=0)).sum(-1) <= ROUNDING * np.abs(summands).sum((0, -1))
    strata = prepared.components or draws
    errors = errors_of(strata, log_unit, value, h, np.abs(h), silent)
    if prepared.components is not None:
        return errors
    by_all = _by_all_draws(table, errors, seen, h_by_proposal)
    return replace(errors, by_all=by_all)


def _by_all_draws(
    table: Table, errors: Errors, seen: Pooled, h_by_proposal: Mapping[int, Array]
) -> Uncertainty:
    """The uncertainty of a table's estimate, sum_j Var_j[z_j] / n_j.

    Arguments:
        table: The table, (3, 3) or (*, 3, 3).
        errors: Of the estimate, by the draws of the proposals alone.
        seen: The draws, pooled.
        h_by_proposal: For every j what a draw of q_j at each point, times n_j, would add to the
            terms over E2, (3, *, n): z_j is the sum of its parts.
    """
    draws, value = seen.draws, errors.value
    squares, missed = np.zeros(draws.log_joint.shape), np.zeros(draws.batch, dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for j, (plus, minus, one) in h_by_proposal.items():
            omega, n = seen.weights(j), draws.count(j)
            both = np.stack([plus - minus, one], axis=-2)
            both -= (omega[..., None, :] * both).sum(axis=-1, keepdims=True)
            z = both[..., 0, :] - value[..., None] * both[..., 1, :]
            per_square = n * spread(omega)
            squares += _squares(z, omega, n, per_square)
            for t in range(3):
                # E2 does not enter the error of mu = 0.
                missed |= seen.misses(t, j) & (table[..., j, t] != 0) & ((value != 0) | (t != 2))
        error = np.maximum(np.sqrt(squares.sum(axis=-1)), errors.rounding)
    alone, effective = errors.uncertainty, effective_number(squares)
    if draws.sets:
        # Weighted as independent ones, all draws say what a proposal misses, but no more.
        error, effective = alone.standard_error, alone.effective
    error = np.where(errors.unknown, np.nan, np.where(missed, np.inf, error))
    return replace(alone, standard_error=error, effective=effective)


def _squares(z: Array, omega: Array, n: int, per_square: Array) -> Array:
    """What each of all draws adds to the variance Var_j[z] / n_j of component j, (*, n).

    Its largest z have such a small probability that n_j draws hardly ever meet them. What they
    bring is then missed, and so a bias; as a variance, one draw in a thousand runs would rule it.

    Arguments:
        z: What a draw of the component adds to the error of mu, times n_j, centred, (*, n).
        omega: The weights of all draws as draws of it, (*, n).
        n: n_j.
        per_square: n_j (1 - sum omega^2), (*).
    """
    order = np.argsort(-np.abs(z), axis=-1)
    met = n * np.cumsum(np.take_along_axis(omega, order, -1), axis=-1)
    unmet = np.zeros(z.shape, dtype=bool)
    np.put_along_axis(unmet, order, met < HARDLY_EVER, -1)
    bias = np.where(unmet, omega * np.abs(z), 0.0)
    bias_squared = bias * bias.sum(axis=-1, keepdims=True)
    return np.where(unmet, bias_squared, omega * np.square(z) / per_square[..., None])


def centred(values: Array, counts: tuple[int, ...]) -> Array:
    """Values (*, n) less the mean of each component's draws."""
    parts = np.split(values, np.cumsum(counts)[:-1], axis=-1)
    return np.concatenate([part - part.mean(axis=-1, keepdims=True) for part in parts], axis=-1)


def bessel(counts: tuple[int, ...]) -> Array:
    """n_j / (n_j - 1) at every draw of a component with n_j draws, (n,); NaN for one."""
    factor = [n / (n - 1) if n > 1 else np.nan for n in counts]
    return np.repeat(factor, counts)


def effective_number(parts: Array) -> Array:
    """(sum e)^2 / sum e^2 of parts (*, n) of a sum, (*); NaN where all are zero."""
    largest = parts.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        e = parts / largest
        return np.asarray(np.square(e.sum(axis=-1)) / np.square(e).sum(axis=-1))


@dataclass(frozen=True, repr=False)
class Uncertainty(Printed):
    """The error of an estimate mu = (E1_plus - E1_minus) / E2 for a batch (*).

    Arguments:
        log_unit: Logarithm of the unit of f, in nats, in which mu, its errors and its intervals
            are given here, (*).
        value: The estimate, (*).
        standard_error: Of it, (*); NaN where the draws say nothing of it, infinite where they show
            that a proposal misses part of a term that it is used for.
        effective: Effective number of squared errors, (*); not finite for no error.
        positive: Whether mu is known to be positive, (*).
        high: An upper bound of mu, near which the error is in proportion to the distance from it,
            (*); mu >= 0 then. Infinite without one.
    """

    log_unit: Array
    value: Array
    standard_error: Array
    effective: Array
    positive: NDArray[np.bool_] | bool = False
    high: Array | float = np.inf

    def interval(self, level: float) -> tuple[Array, Array]:
        """Lower and upper ends (*) of a central interval for mu, in units of exp(log_unit).

        The interval is laid about the log-odds mu / (high - mu) where mu is known to lie between
        zero and `high`, and the estimate does. Without a `high` that is about log mu.

        Arguments:
            level: Probability that the interval covers it.

        Raises:
            ValueError: the level does not lie strictly between 0 and 1.
        """
        expected = "a number between 0 and 1"
        level = check_number("level", level, expected, allowed=lambda v: 0 < v < 1)
        # Without an error there is nothing to divide by.
        freedom = np.maximum(np.nan_to_num(self.effective, nan=np.inf), 1.0)
        reach = np.asarray(student.ppf((1 + level) / 2, freedom)) * self.standard_error
        bounded = np.isfinite(self.high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            p = self.value / self.high
            factor = np.exp(reach / (self.value * (1 - p)))
            between = (self.positive | bounded) & (self.value > 0) & (p < 1)
            lower = np.where(between, self.value / (p + (1 - p) * factor), self.value - reach)
            upper = np.where(between, self.value / (p + (1 - p) / factor), self.value + reach)
        lowest = np.where(bounded, 0.0, -np.inf)
        return lower.clip(lowest, self.high), upper.clip(lowest, self.high)


def relative_variance(table: Table, moments: Moments) -> Array:
    """Delta-method variance of the estimate that a table gives, over its squared size, (*).

    The size is (E1_plus + E1_minus) / E2, which is |mu| where f has one sign. With the relative
    covariances S_j of one draw, the variance is sum_j u_j' S_j u_j / n_j, u_j = v[j] * c, and
    c = (E1_plus, -E1_minus, E1_minus - E1_plus) / (E1_plus + E1_minus).

    Arguments:
        table: The estimator's table, (3, 3), or one for each case, (*, 3, 3).
        moments: Pooled moments, with the counts to predict for.
    """
    log_E1 = moments.log_mean[..., :2]
    log_size = np.logaddexp(log_E1[..., 0], log_E1[..., 1])[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        plus, minus = np.moveaxis(
            np.exp(log_E1 - np.where(log_size > -np.inf, log_size, 0)), -1, 0
        )
        u = table * np.stack([plus, -minus, minus - plus], axis=-1)[..., None, :]
        pairs = u[..., :, None] * u[..., None, :]
        per_draw = np.where(pairs != 0, pairs * moments.covariance, 0.0).sum(axis=(-2, -1))
        # Where the terms cancel in every draw, rounding can leave a negative sum.
        variances = np.maximum(per_draw, 0.0) / moments.counts
        return np.asarray(np.where(per_draw == 0, 0.0, variances).sum(axis=-1))


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
