r"""The error of an estimate: standard error, bias and intervals, from the moments of its draws.

Let a draw x of component j bring z_j(x) / n_j to the error of mu, with

    z_j = w_j (v[j] . (f_plus, -f_minus, -mu)) / E2.

The variance is V = sum_j Var_j[z_j] / n_j, each Var_j from the draws of all components (see
`amci_core.estimators.mis`). An interval reaches q standard errors to both sides, with q from the
Edgeworth expansion of T = (estimate - mu) / standard error to the order 1 / n. It belongs to this
standard error: T depends on the third and fourth cumulants of the error, on the noise of the
estimated V, and on how far the two go together.

References:
    Hall, The bootstrap and Edgeworth expansion, 1992, sections 2.4 to 2.6.
    Fieller, Some problems in interval estimation, J. Royal Statistical Society B, 1954.
"""

from __future__ import annotations

__all__ = [
    "Uncertainty",
    "central_interval",
    "normal_quantile",
    "ratio_covariance",
    "uncertainty",
]

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from amci_core.estimators.contributions import Contributions, Part, contributions
from amci_core.estimators.draws import Array
from amci_core.estimators.mis import LEAST_SPREAD, Pooled
from amci_core.estimators.tabled import Prepared

# Estimates go through logarithms of some hundred nats, each known to that many rounding errors.
ROUNDING = 1e-11
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
        value: The estimate, (*), in units of f.
        standard_error: Of it, (*), in units of f; NaN where the draws say nothing of it, infinite
            where they show that a proposal misses part of a term that it is used for.
        covariance: Covariance of the estimates of (E1_plus - E1_minus, E2), over E2 squared,
            (*, 2, 2).
        term_errors: Standard deviation of each term's estimate over the term, (*, 3).
        contributions: What the draws bring to the terms.
        E2: The estimate of E2 in units of exp(log_scale), (*).
    """

    value: Array
    standard_error: Array
    covariance: Array
    term_errors: Array
    contributions: Contributions
    E2: Array

    @property
    def bias(self) -> Array:
        """Bias of the ratio to first order in 1 / n, (*): mu Var[E2] - Cov[E1, E2]."""
        return np.asarray(self.value * self.covariance[..., 1, 1] - self.covariance[..., 0, 1])

    @cached_property
    def cumulants(self) -> Cumulants:
        """Those of the expansion; zero where there is no error, or no finite one."""
        parts, groups = self.contributions
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            z = [_centred(_error(part, self.value, self.E2), part.share) for part in parts]
            # Fourth powers of what is in units of mu may leave the range of a float.
            unit = np.max([np.abs(each).max(axis=-1) for each in z], axis=0)[..., None]
            z = [each / unit for each in z]
            V = sum(
                (part.share * np.square(each)).sum(axis=-1) / part.n
                for part, each in zip(parts, z, strict=True)
            )
            root = np.sqrt(V)[..., None]
            third = fourth = with_noise = both = np.zeros(self.value.shape)
            # What each draw adds to the estimated variance, over the variance.
            e = sum(
                part.share * np.square(each / root) / part.n
                for part, each in zip(parts, z, strict=True)
            )
            pull = sum(part.share * each for part, each in zip(parts, z, strict=True)) / root
            for part, each in zip(parts, z, strict=True):
                share, n, a = part.share, part.n, each / root
                weighted, square = share * a, np.square(a)
                third = third + (weighted * square).sum(axis=-1) / n**2
                second = (weighted * a).sum(axis=-1)
                quartic = (weighted * a * square).sum(axis=-1)
                fourth = fourth + (quartic - 3 * np.square(second)) / n**3
                noise_j = e - (share * e).sum(axis=-1, keepdims=True)
                with_noise = with_noise + (weighted * noise_j).sum(axis=-1)
                both = both + (share * square * noise_j).sum(axis=-1) / n
                # The variance is taken about a mean that goes with the error.
                both = both - 2 * np.square((pull * weighted).sum(axis=-1)) / n
            noise = sum(np.square(_centred(e[..., g])).sum(axis=-1) for g in groups)
        found = np.stack([third, fourth, with_noise, both, np.asarray(noise)])
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

    def interval(self, level: float, *, positive: bool, shift: float) -> tuple[Array, Array]:
        """Lower and upper ends (*) of a central interval for mu + shift, in units of f.

        Arguments:
            level: Probability that the interval covers it.
            positive: Whether mu is known to be positive.
            shift: The constant that was taken from f and is added back.

        Raises:
            ValueError: the level does not lie strictly between 0 and 1.
        """
        return central_interval(
            self.value,
            self.standard_error,
            self.covariance,
            reach=self.quantile(level),
            reach_of_log=self.quantile(level, logarithmic=True) if positive else None,
            shift=shift,
        )


def uncertainty(prepared: Prepared, seen: Pooled, value: Array, E2: Array) -> Uncertainty:
    """The error of the estimate that a table gives with all of its draws.

    Arguments:
        prepared: The table and its draws.
        seen: These draws, pooled.
        value: mu, (*), in units of f.
        E2: The estimate of E2 in units of exp(log_scale) of the pooled draws, (*).
    """
    found = contributions(prepared, seen)
    covariance = np.zeros((*value.shape, 3, 3))
    variance, infinite = np.zeros(value.shape), np.zeros(value.shape, dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for part in found.parts:
            spread = 1 - np.square(part.share).sum(axis=-1)
            # One effective draw says nothing about a variance.
            n = part.n * np.where(spread > LEAST_SPREAD, spread, np.nan)
            centred = {t: _centred(term, part.share) for t, term in part.terms.items()}
            for t, s in combinations_with_replacement(part.terms, 2):
                both = (part.share * centred[t] * centred[s]).sum(axis=-1) / n
                covariance[..., t, s] += both
                covariance[..., s, t] += both * (t != s)
            z = _error(replace(part, terms=centred), value, E2)
            variance += (part.share * np.square(z)).sum(axis=-1) / n
            for t, missed in part.missed.items():
                covariance[..., t, t] = np.where(missed, np.inf, covariance[..., t, t])
                # E2 does not enter the error of mu = 0.
                infinite |= missed & ((value != 0) | (t != 2))
        mean = np.stack([seen.mean(t) for t in range(3)], -1)
        term_errors = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1)) / mean
        error = np.where(infinite, np.inf, np.sqrt(variance))
    error = np.where(_silent(prepared, value), np.nan, error)
    return Uncertainty(value, error, ratio_covariance(covariance, E2), term_errors, found, E2)


def _error(part: Part, value: Array, E2: Array) -> Array:
    """(E1_plus - E1_minus - mu E2) / E2 of every draw, (*, n)."""
    c = (1 / E2, -1 / E2, -value / E2)
    return np.asarray(sum(c[t][..., None] * term for t, term in part.terms.items()))


def _centred(values: Array, share: Array | None = None) -> Array:
    """Values (*, n) less their mean, by shares (*, n) or equally."""
    weighted = values if share is None else share * values
    total = weighted.sum(axis=-1, keepdims=True)
    return np.asarray(values - (total / values.shape[-1] if share is None else total))


def _silent(prepared: Prepared, value: Array) -> NDArray[np.bool_]:
    """Whether the draws say nothing of an estimate's error, (*).

    Where E1 and E2 come from the same draws and f is the same at all of them, no draw adds to the
    error, however wrong mu is: zero variance is then no sign of an exact estimate.
    """
    draws, table = prepared.draws, prepared.last_table
    silent = np.ones(value.shape, dtype=bool)
    for j in range(3):
        v = table[..., j, :]
        if not (v != 0).any():
            continue
        part = draws.stretch(j)
        parts = [v[..., 0, None] * draws.factor(0, part), -v[..., 2, None] * value[..., None]]
        if draws.signed:
            parts.append(-v[..., 1, None] * draws.factor(1, part))
        size = sum((np.abs(each) for each in parts), start=np.zeros(()))
        zero = np.abs(sum(parts, start=np.zeros(()))) <= ROUNDING * size
        silent &= (zero | (draws.log_joint[..., part] == -np.inf)).all(axis=-1)
    return silent


def normal_quantile(level: float) -> float:
    """How many standard errors a normal's central interval of that level reaches to both sides.

    Raises:
        ValueError: the level does not lie strictly between 0 and 1.
    """
    if not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    return float(-ndtri((1 - float(level)) / 2))


def ratio_covariance(term_covariance: Array, E2: Array) -> Array:
    """Covariance (*, 2, 2) of (E1_plus - E1_minus, E2), over E2 squared.

    Arguments:
        term_covariance: Covariance of the estimates of the three terms, (*, 3, 3).
        E2: The estimate of E2, (*), in the same units.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = term_covariance / np.square(E2)[..., None, None]
        return np.asarray(TO_RATIO @ scaled @ TO_RATIO.T)


def central_interval(
    value: Array,
    standard_error: Array,
    covariance: Array,
    *,
    reach: float | Array,
    reach_of_log: float | Array | None,
    shift: float,
) -> tuple[Array, Array]:
    """Lower and upper ends (*) of a central interval for mu + shift: NaN where the error is.

    Arguments:
        value: The estimate of mu, (*), in units of f.
        standard_error: Of it, (*), in units of f.
        covariance: As `ratio_covariance` gives it, (*, 2, 2).
        reach: How many standard errors Fieller's interval reaches to both sides, (*). Both ends
            are infinite where E2 cannot be told from zero.
        reach_of_log: The same for one about log mu, where mu is known to be positive and the
            estimate is; None where it is not known.
        shift: The constant that was taken from f and is added back, in units of f.
    """
    lower, upper = _fieller(value, covariance, reach)
    if reach_of_log is not None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            factor = np.exp(reach_of_log * standard_error / value)
            lower = np.where(value > 0, value / factor, lower)
            upper = np.where(value > 0, value * factor, upper)
    unknown = np.isnan(standard_error)
    return np.where(unknown, np.nan, lower + shift), np.where(unknown, np.nan, upper + shift)


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
