r"""The error of an estimate: standard error, bias and intervals, from the moments of its draws.

Let a draw x of component j bring z_j(x) / n_j to the error of mu, with

    z_j = w_j (v[j] . (f_plus, -f_minus, -mu)) / E2.

The variance is V = sum_j Var_j[z_j] / n_j, each Var_j from the draws of all components (see
`amci_core.estimators.mis`), all of it in a unit of about |mu|: squares of a mu below 1e-154 are
zero in units of f. An interval reaches q standard errors to both sides, with q from the
Edgeworth expansion of T = (estimate - mu) / standard error to the order 1 / n. It belongs to this
standard error: T depends on the third and fourth cumulants of the error, on the noise of the
estimated V, and on how far the two go together.

References:
    Hall, The bootstrap and Edgeworth expansion, 1992, sections 2.4 to 2.6.
    Fieller, Some problems in interval estimation, J. Royal Statistical Society B, 1954.
"""

from __future__ import annotations

__all__ = ["Uncertainty", "central_interval", "normal_quantile", "uncertainty"]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from amci_core.checks import check_number
from amci_core.estimators.combine import Combined, Prepared
from amci_core.estimators.draws import Array
from amci_core.estimators.mis import Part, Pooled
from amci_core.estimators.tables import needed

# Estimates go through logarithms of some hundred nats, each known to that many rounding errors.
ROUNDING = 1e-11
# A draw of f that is so many nats above mu differs from it.
LARGEST = 700.0
# Sums are rounded: a standard error is no smaller share of the value than this.
LEAST_ERROR = 8 * np.finfo(float).eps
# An interval never reaches further than this multiple of a normal one.
WIDEST = 4.0
TO_RATIO = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])


class Cumulants(NamedTuple):
    """Of the error over its standard deviation, and of e, the relative noise of its variance.

    Arguments:
        third: Third cumulant of the error, (*).
        fourth: Its fourth cumulant, (*).
        with_noise: Cov[error, e], (*).
        both: Third cumulant of (error, error, e), (*).
        noise: Var[e], (*): for a sample variance of n normal draws 2 / n.
    """

    third: Array
    fourth: Array
    with_noise: Array
    both: Array
    noise: Array


@dataclass(frozen=True)
class Uncertainty:
    """The error of an estimate mu = (E1_plus - E1_minus) / E2 for a batch (*).

    Arguments:
        log_unit: Logarithm of the unit of f, in nats, in which mu, its errors and its intervals
            are given here, (*): (E1_plus + E1_minus) / E2, by the draws of all components.
        value: The estimate, (*).
        standard_error: Of it, (*); NaN where the draws say nothing of it, infinite where they show
            that a proposal misses part of a term that it is used for.
        covariance: Covariance of the estimates of (E1_plus - E1_minus, E2), over E2 squared,
            (*, 2, 2).
        term_errors: Standard deviation of each term's estimate over the term, (*, 3).
        parts: The draws reweighted to each component, in shares q_j / q_m of the points, (*, n).
        errors: z_j of every point under each of them, less its mean, (*, n).
        groups: The stretches of points that were drawn alike.
    """

    log_unit: Array
    value: Array
    standard_error: Array
    covariance: Array
    term_errors: Array
    parts: Sequence[Part]
    errors: Sequence[Array]
    groups: Sequence[slice]

    @property
    def bias(self) -> Array:
        """Bias of the ratio to first order in 1 / n, (*): mu Var[E2] - Cov[E1, E2]."""
        return np.asarray(self.value * self.covariance[..., 1, 1] - self.covariance[..., 0, 1])

    @cached_property
    def cumulants(self) -> Cumulants:
        """Those of the expansion; zero where there is no error, or no finite one."""
        share, z = np.stack([part.share for part in self.parts]), np.stack(self.errors)
        n = np.array([part.n for part in self.parts]).reshape(-1, *[1] * self.value.ndim)

        def mean(values: Array) -> Array:
            return np.asarray(np.vecdot(share, values))

        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            # Fourth powers of few large draws may leave the range of a float.
            a = z / np.abs(z).max(axis=(0, -1))[..., None]
            V = (mean(np.square(a)) / n).sum(axis=0)
            a = a / np.sqrt(V)[..., None]
            square = np.square(a)
            # What each draw adds to the estimated variance, over the variance.
            e = (share * square / n[..., None]).sum(axis=0)
            noise_j = e - mean(e)[..., None]
            # The variance is taken about a mean that goes with the error.
            weighted = share * a
            pull = np.vecdot(weighted.sum(axis=0), weighted)
            found = np.stack(
                [
                    (mean(a * square) / n**2).sum(axis=0),
                    ((mean(np.square(square)) - 3 * np.square(mean(square))) / n**3).sum(axis=0),
                    mean(a * noise_j).sum(axis=0),
                    ((mean(square * noise_j) - 2 * np.square(pull)) / n).sum(axis=0),
                    sum(e[..., g].var(axis=-1) * e[..., g].shape[-1] for g in self.groups),
                ]
            )
        known = np.isfinite(found).all(axis=0) & (V > 0)
        return Cumulants(*np.where(known, found, 0.0))

    def quantile(self, level: float, *, logarithmic: bool = False) -> Array:
        """How many standard errors an interval of that level reaches to both sides, (*).

        Arguments:
            level: Probability that the interval covers mu.
            logarithmic: Whether it is laid about log mu; else it is Fieller's, whose standard
                error is taken at the true mu.

        Raises:
            ValueError: the level does not lie strictly between 0 and 1.
        """
        z = normal_quantile(level)
        third, fourth, with_noise, both, noise = self.cumulants
        curve = np.zeros_like(third)
        if logarithmic:
            slope, curve = self._bend(with_noise)
            noise = np.maximum(noise + 2 * slope * with_noise + np.square(slope), 0.0)
            both = both + slope * third + 2 * curve
            with_noise = with_noise + slope
        # Cumulants of the error over its standard error; its variance is 1 + k2.
        k1, k3 = -with_noise / 2, third - 3 * with_noise
        k2 = noise - both - curve + 7 / 4 * np.square(with_noise)
        k4 = fourth - 6 * both - 6 * third * with_noise + 3 * noise + 18 * np.square(with_noise)
        found = (
            z
            + (k2 + np.square(k1)) / 2 * z
            + (k4 + 4 * k1 * k3) / 24 * (z**3 - 3 * z)
            + np.square(k3) / 72 * (z**5 - 10 * z**3 + 15 * z)
        )
        # Where few draws count, terms of order 1 / n are not small.
        return np.asarray(np.clip(found, z, WIDEST * z))

    def _bend(self, with_noise: Array) -> tuple[Array, Array]:
        """What the logarithm adds to e: a multiple of the error, and one of its square.

        The standard error is then taken at the estimate, not at mu, and log(1 + x) bends.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            s = self.standard_error / np.abs(self.value)
            v_12, v_22 = self.covariance[..., 0, 1], self.covariance[..., 1, 1]
            with_E2 = (v_12 - self.value * v_22) / self.standard_error
        known = np.isfinite(s) & np.isfinite(with_E2) & (s > 0)
        s, with_E2, v_22 = (np.where(known, each, 0.0) for each in (s, with_E2, v_22))
        slope = -2 * with_E2 - s
        return slope, v_22 + 13 / 12 * np.square(s) + s * (with_E2 - with_noise / 2)

    def interval(self, level: float, *, positive: bool) -> tuple[Array, Array]:
        """Lower and upper ends (*) of a central interval for mu, in units of exp(log_unit).

        Arguments:
            level: Probability that the interval covers it.
            positive: Whether mu is known to be positive.

        Raises:
            ValueError: the level does not lie strictly between 0 and 1.
        """
        return central_interval(
            self.value,
            self.standard_error,
            self.covariance,
            reach=self.quantile(level),
            reach_of_log=self.quantile(level, logarithmic=True) if positive else None,
        )


def uncertainty(prepared: Prepared, seen: Pooled, combined: Combined) -> Uncertainty:
    """The error of the estimate that a table gives with all of its draws.

    Arguments:
        prepared: The table and its draws.
        seen: These draws, pooled.
        combined: Its estimates; the last one is that of all draws.
    """
    parts = prepared.parts(seen)
    sign_E2, log_E2 = combined.sign[..., -1, 2], combined.log_terms[..., -1, 2]
    log_unit = np.logaddexp(seen.log_mean[..., 0], seen.log_mean[..., 1]) - log_E2
    log_unit = np.where(np.isfinite(log_unit), log_unit, 0.0)
    covariance, variance = np.zeros((*log_unit.shape, 3, 3)), np.zeros(log_unit.shape)
    infinite = np.zeros(log_unit.shape, dtype=bool)
    errors = []
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        value = combined.ratio[..., -1] * np.exp(combined.log_unit[..., -1] - log_unit)
        # The terms as all draws see them, over the estimate's E2 and in the unit of mu.
        sizes = seen.log_mean - log_E2[..., None]
        sizes[..., :2] -= log_unit[..., None]
        sizes = sign_E2[..., None] * np.exp(sizes)
        per_term = sizes * np.stack([np.ones_like(value), -np.ones_like(value), -value], -1)
        for part in parts:
            terms = [per_term[..., t, None] * term for t, term in part.terms.items()]
            z = np.asarray(sum(terms[1:], start=terms[0]))
            errors.append(z)
            variance += np.vecdot(part.share * z, z) / (part.n * part.spread)
            covariance += part.covariance() / part.n
            for t, missed in part.missed.items():
                # E2 does not enter the error of mu = 0.
                infinite |= missed & ((value != 0) | (t != 2))
        term_errors = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
        error = np.maximum(np.sqrt(variance), LEAST_ERROR * np.abs(value))
        error = np.where(infinite, np.inf, error)
        of_ratio = sizes[..., :, None] * covariance * sizes[..., None, :]
        of_ratio = TO_RATIO @ of_ratio @ TO_RATIO.T
        silent = _silent(prepared, value, log_unit)
    return Uncertainty(
        log_unit=log_unit,
        value=value,
        standard_error=np.where(silent, np.nan, error),
        covariance=np.asarray(of_ratio),
        term_errors=term_errors,
        parts=parts,
        errors=errors,
        groups=prepared.groups,
    )


def _silent(prepared: Prepared, value: Array, log_unit: Array) -> NDArray[np.bool_]:
    """Whether the draws say nothing of an estimate's error, (*).

    Where E1 and E2 come from the same draws and f is the same at all of them, no draw adds to the
    error, however wrong mu is: zero variance is then no sign of an exact estimate.
    """
    draws, table = prepared.draws, prepared.last_table
    silent = np.ones(value.shape, dtype=bool)
    for j in needed(table):
        part, v = draws.stretch(j), table[..., j, :, None]
        f_plus, f_minus = (
            np.exp(np.minimum(draws.log_factor(t, part) - log_unit[..., None], LARGEST))
            for t in (0, 1)
        )
        parts = (v[..., 0, :] * f_plus, -v[..., 1, :] * f_minus, -v[..., 2, :] * value[..., None])
        size = abs(parts[0]) + abs(parts[1]) + abs(parts[2])
        zero = np.abs(parts[0] + parts[1] + parts[2]) <= ROUNDING * size
        silent &= (zero | (draws.log_joint[..., part] == -np.inf)).all(axis=-1)
    return silent


def normal_quantile(level: float) -> float:
    """How many standard errors a normal's central interval of that level reaches to both sides.

    Raises:
        ValueError: the level does not lie strictly between 0 and 1.
    """
    level = check_number("level", level, "a number between 0 and 1", allowed=lambda v: 0 < v < 1)
    return float(-ndtri((1 - level) / 2))


def central_interval(
    value: Array,
    standard_error: Array,
    covariance: Array,
    *,
    reach: float | Array,
    reach_of_log: float | Array | None,
) -> tuple[Array, Array]:
    """Lower and upper ends (*) of a central interval for mu: NaN where the error is.

    Arguments:
        value: The estimate of mu, (*), in units of f.
        standard_error: Of it, (*), in units of f.
        covariance: Of the estimates of (E1_plus - E1_minus, E2), over E2 squared, (*, 2, 2).
        reach: How many standard errors Fieller's interval reaches to both sides, (*). Both ends
            are infinite where E2 cannot be told from zero.
        reach_of_log: The same for one about log mu, where mu is known to be positive and the
            estimate is; None where it is not known.
    """
    lower, upper = _fieller(value, covariance, reach)
    if reach_of_log is not None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            factor = np.exp(reach_of_log * standard_error / value)
            lower = np.where(value > 0, value / factor, lower)
            upper = np.where(value > 0, value * factor, upper)
    unknown = np.isnan(standard_error)
    return np.where(unknown, np.nan, lower), np.where(unknown, np.nan, upper)


def _fieller(mu: Array, covariance: Array, z: float | Array) -> tuple[Array, Array]:
    """Ends (*) of the set of m with (1, -m) . estimates within z standard deviations of 0."""
    v_11, v_12, v_22 = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        square = v_11 - 2 * mu * v_12 + np.square(mu) * v_22
        determinant = np.maximum(v_11 * v_22 - np.square(v_12), 0.0)
        room = 1 - z**2 * v_22
        centre = mu + z**2 * (mu * v_22 - v_12) / room
        half = z * np.sqrt(np.maximum(square - z**2 * determinant, 0.0)) / room
    bounded = (room > 0) | np.isnan(room)
    return np.where(bounded, centre - half, -np.inf), np.where(bounded, centre + half, np.inf)
