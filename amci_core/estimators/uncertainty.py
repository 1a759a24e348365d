r"""The error of an estimate: standard error, bias and intervals, from the moments of its draws.

Let a draw x of component j bring z_j(x) / n_j to the error of mu, with

    z_j = w_j (v[j] . (f_plus, -f_minus, -mu)) / E2

for a table v. The variance is V = sum_j Var_j[z_j] / n_j, each Var_j from the draws of all
components (see `amci_core.estimators.mis`), all of it in a unit of about |mu|: squares of a mu
below 1e-154 are zero in units of f. An interval is Student's t on the standard error, with as many
degrees of freedom as the effective number of squared errors, (sum e)^2 / sum e^2 with e what each
draw adds to V.

Sobol points come in scrambled sets, R_j of each component. Sums S of z_j / n_j over the sets are
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
    "of_table",
    "relative_variance",
    "rounding",
    "silent",
    "snis_bound",
    "split_draws",
    "table_errors",
    "term_errors",
]

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from amci_core._arguments import check_number
from amci_core.estimators.combine import Combined, Prepared
from amci_core.estimators.draws import Array, Draws
from amci_core.estimators.mis import Moments, Part, Pooled
from amci_core.estimators.tables import Table, needed

# Estimates go through logarithms of some hundred nats, each known to that many rounding errors.
ROUNDING = 1e-11
# A draw of f that is so many nats above mu differs from it.
LARGEST = 700.0
# Weights so many nats below the largest are below its rounding error.
LIGHT = 36.0
# So many effective draws must agree but for rounding before there is no error.
LEAST_AGREED = 28.0
# Regions that the draws of a component meet with a smaller probability do not enter a variance.
HARDLY_EVER = 0.05
# No proposal gets less than this share of the draws: a moment can be too small.
LEAST_SHARE = 0.01
TO_RATIO = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])


@dataclass(frozen=True)
class Errors:
    """What every draw adds to the error of an estimate, for a batch (*), by these draws alone.

    Arguments:
        log_unit: Logarithm of the unit of f in nats, (*).
        value: The estimate in that unit, (*).
        of_E1: What a draw adds to (E1_plus - E1_minus) / E2 in that unit, (*, n), zero on average
            over the draws of each component.
        of_E2: What a draw adds to the relative error of E2, (*, n), also zero on average.
        counts: Numbers of draws of every component, in the order of the draws.
        rounding: Rounding error of the estimate in that unit, (*).
        carried_by: Effective number of the draws that carry the estimate, (*): of what each adds
            to its terms in absolute value, or to E2 if that is less; NaN if no draw does.
        sets: Number of scrambled sets of Sobol points of every component, or of its draws if they
            are independent, in the same order.
    """

    log_unit: Array
    value: Array
    of_E1: Array
    of_E2: Array
    counts: tuple[int, ...]
    rounding: Array
    carried_by: Array
    sets: tuple[int, ...]

    @property
    def of_mu(self) -> Array:
        """What each draw adds to the error of mu, in the unit, (*, n)."""
        return np.asarray(self.of_E1 - self.value[..., None] * self.of_E2)

    @property
    def covariance(self) -> Array:
        """Covariance of the estimates of (E1_plus - E1_minus, E2), over E2 squared, (*, 2, 2)."""
        both = self.sums(np.stack([self.of_E1, self.of_E2], -2))
        return np.asarray((both * bessel(self.sets)) @ both.swapaxes(-1, -2))

    @property
    def variance(self) -> Array:
        """Of mu, in the unit squared, (*); NaN where a component has a single draw."""
        return self.variance_of(self.of_mu)

    def sums(self, values: Array) -> Array:
        """The sums of values (*, n) over the sets of every component, (*, sets)."""
        if self.sets == self.counts:
            return values
        parts = np.split(values, np.cumsum(self.counts)[:-1], axis=-1)
        summed = [
            part.reshape(*part.shape[:-1], sets, -1).sum(axis=-1)
            for part, sets in zip(parts, self.sets, strict=True)
        ]
        return np.concatenate(summed, axis=-1)

    def variance_of(self, z: Array) -> Array:
        """The variance, (*), of the sum of z (*, n), centred within each component's draws."""
        sums = self.sums(z)
        return np.asarray(np.vecdot(sums * bessel(self.sets), sums))

    @property
    def freedom(self) -> Array:
        """Degrees of freedom of the standard error, (*)."""
        if self.sets == self.counts:
            return self.determined_by
        parts = np.split(self.sums(self.of_mu), np.cumsum(self.sets)[:-1], axis=-1)
        total, over_freedom = np.zeros_like(self.value), np.zeros_like(self.value)
        for S, sets, count in zip(parts, self.sets, self.counts, strict=True):
            V = np.vecdot(S * bessel((sets,)), S)
            own = effective_number(np.square(S)) if sets == count else sets - 1
            total += V
            over_freedom += np.nan_to_num(np.square(V) / own)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.fmin(np.square(total) / over_freedom, self.determined_by)

    @cached_property
    def determined_by(self) -> Array:
        """The effective number of squared errors, (sum z^2)^2 / sum z^4, (*).

        Infinite if many draws carry the estimate and agree but for rounding. If few do, their
        residuals vanish with any error: a single weight that outweighs all others gives
        mu = f at its draw.
        """
        error = np.sqrt(self.variance)
        n = np.where(np.isnan(error), 1.0, effective_number(np.square(self.of_mu)))
        agreed = np.where(self.carried_by >= LEAST_AGREED, np.inf, self.carried_by)
        return np.where(error <= self.rounding, agreed, n)

    @property
    def uncertainty(self) -> Uncertainty:
        """By these draws alone."""
        error = np.maximum(np.sqrt(self.variance), self.rounding)
        return Uncertainty(self.log_unit, self.value, error, self.covariance, self.freedom)

    @property
    def largest_share(self) -> Array:
        """The share of the largest squared error in their sum, (*); 0 if there is none."""
        squares = np.square(self.of_mu)
        total = squares.sum(axis=-1)
        none = (self.determined_by == np.inf) | (total == 0)
        return np.asarray(squares.max(axis=-1) / np.where(none, np.inf, total))


def rounding(draws: Draws, size: Array) -> Array:
    """Rounding error of a sum, (*), of draws that add at most size (*, n): of log f and log p."""
    with np.errstate(divide="ignore"):
        logs = np.abs([np.log(np.abs(draws.f)), draws.log_joint])
    nats = np.where(np.isfinite(logs), logs, 0.0).sum(axis=0)
    return np.asarray(np.finfo(float).eps * np.vecdot(size, 8 + nats))


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


@dataclass(frozen=True)
class Uncertainty:
    """The error of an estimate mu = (E1_plus - E1_minus) / E2 for a batch (*).

    Arguments:
        log_unit: Logarithm of the unit of f, in nats, in which mu, its errors and its intervals
            are given here, (*).
        value: The estimate, (*).
        standard_error: Of it, (*); NaN where the draws say nothing of it, infinite where they show
            that a proposal misses part of a term that it is used for.
        covariance: Covariance of the estimates of (E1_plus - E1_minus, E2), over E2 squared,
            (*, 2, 2).
        effective: Effective number of squared errors, (*); not finite for no error.
    """

    log_unit: Array
    value: Array
    standard_error: Array
    covariance: Array
    effective: Array

    @property
    def bias(self) -> Array:
        """Bias of the ratio to first order in 1 / n, (*): mu Var[E2] - Cov[E1, E2]."""
        return np.asarray(self.value * self.covariance[..., 1, 1] - self.covariance[..., 0, 1])

    def interval(
        self, level: float, *, positive: bool, high: Array | None = None
    ) -> tuple[Array, Array]:
        """Lower and upper ends (*) of a central interval for mu, in units of exp(log_unit).

        Arguments:
            level: Probability that the interval covers it.
            positive: Whether mu is known to be positive: the interval is then laid about log mu,
                where the estimate is positive too.
            high: An upper bound of mu, (*), in units of exp(log_unit), near which the error is in
                proportion to the distance from it: the interval is then laid about the log-odds
                mu / (high - mu) where the estimate lies between zero and the bound, and never
                leaves these.

        Raises:
            ValueError: the level does not lie strictly between 0 and 1.
        """
        expected = "a number between 0 and 1"
        level = check_number("level", level, expected, allowed=lambda v: 0 < v < 1)
        # Without an error there is nothing to divide by.
        freedom = np.maximum(np.nan_to_num(self.effective, nan=np.inf), 1.0)
        reach = np.asarray(student.ppf((1 + level) / 2, freedom)) * self.standard_error
        lower, upper = self.value - reach, self.value + reach
        if positive:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                factor = np.exp(reach / self.value)
                lower = np.where(self.value > 0, self.value / factor, lower)
                upper = np.where(self.value > 0, self.value * factor, upper)
        if high is not None:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                rest = high - self.value
                factor = np.exp(reach * high / (self.value * rest))
                odds = self.value / rest
                inside = (odds > 0) & np.isfinite(odds)
                lower = np.where(inside, high * odds / (odds + factor), lower).clip(0, high)
                upper = np.where(inside, high / (1 + 1 / (odds * factor)), upper).clip(0, high)
        return lower, upper


def table_errors(prepared: Prepared, combined: Combined) -> Errors:
    """What every draw adds to the error of a table's estimate.

    Arguments:
        prepared: The table and its draws.
        combined: Its estimates; the last one is that of all draws.
    """
    draws, table = prepared.draws, prepared.last_table
    log_unit, value = combined.log_unit[..., -1], combined.ratio[..., -1]
    sign_E2, log_E2 = combined.sign[..., -1, 2, None], combined.log_terms[..., -1, 2, None]
    of_E1, of_E2, size = (np.zeros(draws.log_joint.shape) for _ in range(3))
    with np.errstate(over="ignore", invalid="ignore"):
        for j in needed(table):
            part, v = draws.stretch(j), table[..., j, :, None] / draws.count(j)
            w = draws.log_weight(j) - log_E2
            for t, sign in ((0, 1.0), (1, -1.0)):
                log_t = draws.log_factor(t, part) + w - log_unit[..., None]
                of_term = v[..., t, :] * sign_E2 * np.exp(log_t)
                of_E1[..., part] += sign * of_term
                size[..., part] += np.abs(of_term)
            if table[..., j, 2].any():
                of_E2[..., part] = v[..., 2, :] * sign_E2 * np.exp(w)
        weight = np.abs(of_E2)
        size += np.abs(value[..., None]) * weight
    strata = prepared.components or draws
    counts = tuple(n for n in strata.counts.values() if n)
    of_E1, of_E2 = centred(of_E1, counts), centred(of_E2, counts)
    return Errors(
        log_unit=log_unit,
        value=value,
        of_E1=of_E1,
        of_E2=of_E2,
        counts=counts,
        rounding=rounding(draws, size),
        carried_by=np.fmin(effective_number(size), effective_number(weight)),
        sets=strata.strata,
    )


def of_table(prepared: Prepared, seen: Pooled, combined: Combined, rounding: Array) -> Uncertainty:
    """The uncertainty of a table's estimate, by the draws of all components.

    Arguments:
        prepared: The table and its draws.
        seen: These draws, pooled.
        combined: Its estimates; the last one is that of all draws.
        rounding: Rounding error of the last one, (*), in the unit of its ratio.
    """
    parts = prepared.parts(seen)
    sign_E2, log_E2 = combined.sign[..., -1, 2], combined.log_terms[..., -1, 2]
    log_unit = np.logaddexp(seen.log_mean[..., 0], seen.log_mean[..., 1]) - log_E2
    log_unit = np.where(np.isfinite(log_unit), log_unit, 0.0)
    covariance = np.zeros((*log_unit.shape, 3, 3))
    squares = np.zeros((*log_unit.shape, parts[0].share.shape[-1]))
    infinite = np.zeros(log_unit.shape, dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scale = np.exp(combined.log_unit[..., -1] - log_unit)
        value = combined.ratio[..., -1] * scale
        # The terms as all draws see them, over the estimate's E2 and in the unit of mu.
        sizes = seen.log_mean - log_E2[..., None]
        sizes[..., :2] -= log_unit[..., None]
        sizes = sign_E2[..., None] * np.exp(sizes)
        per_term = sizes * np.stack([np.ones_like(value), -np.ones_like(value), -value], -1)
        for part in parts:
            terms = [per_term[..., t, None] * term for t, term in part.terms.items()]
            z = np.asarray(sum(terms[1:], start=terms[0]))
            squares += _squares(part, z)
            covariance += part.covariance() / part.n
            for t, missed in part.missed.items():
                # E2 does not enter the error of mu = 0.
                infinite |= missed & ((value != 0) | (t != 2))
        error = np.maximum(np.sqrt(squares.sum(axis=-1)), rounding * scale)
        error = np.where(infinite, np.inf, error)
        of_ratio = sizes[..., :, None] * covariance * sizes[..., None, :]
        of_ratio = TO_RATIO @ of_ratio @ TO_RATIO.T
    return Uncertainty(
        log_unit=log_unit,
        value=value,
        standard_error=error,
        covariance=np.asarray(of_ratio),
        effective=effective_number(squares),
    )


def _squares(part: Part, z: Array) -> Array:
    """What each draw adds to the variance of an estimate by a component's n_j draws, (*, n).

    Its largest z have such a small probability that n_j draws hardly ever meet them. What they
    bring is then missed, and so a bias; as a variance, one draw in a thousand runs would rule it.
    """
    found = part.share * np.square(z) / (part.n * part.spread)[..., None]
    order = np.argsort(-np.abs(z), axis=-1)
    met = part.n * np.cumsum(np.take_along_axis(part.share, order, -1), axis=-1)
    unmet = np.zeros(z.shape, dtype=bool)
    np.put_along_axis(unmet, order, met < HARDLY_EVER, -1)
    missed = np.where(unmet, part.share * np.abs(z), 0.0)
    return np.where(unmet, missed * missed.sum(axis=-1, keepdims=True), found)


def term_errors(prepared: Prepared, seen: Pooled) -> Array:
    """Standard deviation of each term's estimate over the term, by all components, (*, 3)."""
    with np.errstate(invalid="ignore", over="ignore"):
        parts = prepared.parts(seen)
        variances = [np.diagonal(p.covariance() / p.n, axis1=-2, axis2=-1) for p in parts]
        return np.asarray(np.sqrt(np.sum(variances, axis=0)))


def silent(prepared: Prepared, combined: Combined) -> NDArray[np.bool_]:
    """Whether f is the same at all draws with weight that estimate E1, (*).

    They say nothing of its error. The estimate is that f: zero if no draw met it, or one for a
    probability if all did. No draw adds to the error, however large a part of the mass they
    missed. With exact proposals no draw adds to the error of AMCI either, but its value is mu, and
    not the f of the draws.
    """
    draws, table = prepared.draws, prepared.last_table
    log_unit, value = combined.log_unit[..., -1], combined.ratio[..., -1]
    found = np.ones(draws.batch, dtype=bool)
    for j in needed(table):
        part, v = draws.stretch(j), table[..., j, :, None]
        f_plus, f_minus = (
            np.exp(np.minimum(draws.log_factor(t, part) - log_unit[..., None], LARGEST))
            for t in (0, 1)
        )
        parts = (v[..., 0, :] * f_plus, -v[..., 1, :] * f_minus, -v[..., 2, :] * value[..., None])
        size = abs(parts[0]) + abs(parts[1]) + abs(parts[2])
        zero = np.abs(parts[0] + parts[1] + parts[2]) <= ROUNDING * size
        log_w = draws.log_weight(j)
        heavy = log_w > log_w.max(axis=-1, keepdims=True) - LIGHT
        found &= (zero | ~heavy).all(axis=-1)
    # The regression takes each term from all draws: where f is the same at all, it is f.
    mu = combined.value[..., -1, None]
    same = (np.abs(draws.f - mu) <= ROUNDING * np.abs(mu)) | (draws.log_joint == -np.inf)
    return np.asarray(found | (same.all(axis=-1) & (mu[..., 0] != 0)))


def relative_variance(table: Table, moments: Moments) -> Array:
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


def _of_one_draw(table: Table, moments: Moments) -> Array:
    """u_j' S_j u_j: what one draw of each proposal adds to the relative variance, (*, 3)."""
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


def split_draws(table: Table, moments: Moments, draws: int) -> NDArray[np.int64]:
    """Draws N : K : M of q1_plus, q1_minus and q2, (3,), that make a table's variance least.

    They are as the standard deviations s_j that one draw of each proposal adds to mu: for AMCI
    N : K : M = s_plus : s_minus : |mu| s_2, for SNIS all draws go to its proposal. A proposal that
    the table uses gets at least one.

    Arguments:
        table: The estimator's table, (3, 3).
        moments: Pooled moments of one case.
        draws: Total number of draws, at least one of each proposal in use.

    References:
        `docs/concepts.md`, "Error", without sharing.

    Example:
        >>> single = np.zeros((3, 3, 3)) + np.diag([1.0, 0.0, 9.0])
        >>> moments = Moments(np.array([0.0, -np.inf, 0.0]), single, np.full(3, 10.0))
        >>> split_draws(np.eye(3), moments, 100)  # q2's weights spread three times as far as q1's
        array([24,  1, 75])
    """
    used = np.array(needed(table))
    spent = np.nan_to_num(np.sqrt(_of_one_draw(table, moments)), posinf=0.0)[used]
    spent = spent if spent.sum() > 0 else np.ones(len(used))
    shares = np.maximum(spent / spent.sum(), LEAST_SHARE)
    counts = np.zeros(3, dtype=np.int64)
    counts[used] = np.maximum(np.floor(shares / shares.sum() * draws + 1e-9), 1)
    # The largest count takes the rest; where one draw is more than a share buys, it gives way.
    counts[int(counts.argmax())] += max(draws - counts.sum(), 0)
    while counts.sum() > draws:
        counts[int(counts.argmax())] -= 1
    return counts


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
