r"""Intervals for the ratio mu = (E1_plus - E1_minus) / E2 of two estimates, and its bias.

Both are told by the estimates' covariance, in units of the estimate of E2, which is then 1: so the
numerator is mu itself.
"""

from __future__ import annotations

__all__ = ["central", "fieller", "logarithmic", "ratio_bias", "ratio_covariance"]

import numpy as np

from amci_core.estimators.draws import Array


def ratio_covariance(term_covariance: Array, E2: Array) -> Array:
    """Covariance (*, 2, 2) of (E1_plus - E1_minus, E2), over E2 squared.

    Arguments:
        term_covariance: Covariance of the estimates of the three terms, (*, 3, 3).
        E2: The estimate of E2, (*), in the same units.
    """
    to_ratio = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
    with np.errstate(divide="ignore", invalid="ignore"):
        return to_ratio @ (term_covariance / np.square(E2)[..., None, None]) @ to_ratio.T


def fieller(mu: Array, covariance: Array, *, z: float | Array) -> tuple[Array, Array]:
    """Lower and upper ends (*) of the set of m with (1, -m) . estimates within z deviations of 0.

    Arguments:
        mu: The estimate, (*), in units of f.
        covariance: As `ratio_covariance` gives it, (*, 2, 2).
        z: Quantile of the standard normal, or another for each, (*).

    Returns:
        Ends in units of f; both infinite where E2 is not told from zero.

    References:
        Fieller, Some problems in interval estimation, J. Royal Statistical Society B, 1954.
    """
    v_11, v_12, v_22 = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
    square = v_11 - 2 * mu * v_12 + np.square(mu) * v_22
    determinant = np.maximum(v_11 * v_22 - np.square(v_12), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = 1 - z**2 * v_22
        centre = mu + z**2 * (mu * v_22 - v_12) / room
        half = z * np.sqrt(np.maximum(square - z**2 * determinant, 0.0)) / room
    told = room > 0
    told = told | np.isnan(room)
    return np.where(told, centre - half, -np.inf), np.where(told, centre + half, np.inf)


def logarithmic(mu: Array, standard_error: Array, *, z: float | Array) -> tuple[Array, Array]:
    """Lower and upper ends (*) on the logarithmic scale, where mu > 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = np.exp(z * standard_error / mu)
        return mu / factor, mu * factor


def central(
    value: Array,
    standard_error: Array,
    covariance: Array,
    *,
    z: float | Array,
    positive: bool,
    shift: float,
) -> tuple[Array, Array]:
    """Lower and upper ends (*) of a central interval for mu: NaN where the standard error is.

    Arguments:
        value: The estimate of mu, (*), in units of f.
        standard_error: Of it, (*), in units of f.
        covariance: As `ratio_covariance` gives it, (*, 2, 2).
        z: How many standard errors it reaches to both sides, (*).
        positive: Whether mu is known to be positive: then on the log scale where the estimate is.
        shift: The constant that was taken from f and added back to the ratio, in units of f.
    """
    ends = fieller(value - shift, covariance, z=z)
    above = logarithmic(value, standard_error, z=z)
    unknown = np.isnan(standard_error)
    on_log_scale = (value > 0) & positive
    lower, upper = (
        np.where(on_log_scale, factored, end + shift)
        for factored, end in zip(above, ends, strict=True)
    )
    return np.where(unknown, np.nan, lower), np.where(unknown, np.nan, upper)


def ratio_bias(mu: Array, covariance: Array) -> Array:
    """Bias of the ratio to first order in 1 / n, (*), in units of f: mu Var[E2] - Cov[E1, E2]."""
    return mu * covariance[..., 1, 1] - covariance[..., 0, 1]
