r"""How the error of an estimate, over its own standard error, departs from a normal's."""

from __future__ import annotations

__all__ = ["Studentized", "normal_quantile", "studentized"]

from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.special import ndtri

from amci_core.estimators.draws import Array, Draws
from amci_core.estimators.moments import error_parts


@dataclass(frozen=True)
class Studentized:
    r"""Cumulants of the error of an estimate mu, for a batch (*).

    A draw x from proposal j enters the error as h = w (v[j] . (f_plus, -f_minus, -mu)), with
    variance s_j^2, third cumulant c_j and fourth cumulant k_j. With V = sum_j s_j^2 / n_j:

    Arguments:
        skewness: sum_j c_j / n_j^2 / V^(3/2), (*).
        kurtosis: sum_j k_j / n_j^3 / V^2, (*).
        spread: sum_j s_j^4 / n_j^3 / V^2, (*): one over Welch's degrees of freedom.
    """

    skewness: Array
    kurtosis: Array
    spread: Array

    def quantile(self, level: float) -> Array:
        """How many standard errors an interval of that level reaches to both sides, (*).

        By the Edgeworth expansion of the studentized error, z and terms of order 1 / n: an error
        that is skew is large when its standard error is small, and z covers too little.

        References:
            Hall, The bootstrap and Edgeworth expansion, 1992, section 2.6 (two-sided coverage).

        Raises:
            ValueError: the level does not lie strictly between 0 and 1.
        """
        z = normal_quantile(level)
        return (
            z
            + np.square(self.skewness) * (z**5 + 2 * z**3 - 3 * z) / 18
            - self.kurtosis * (z**3 - 3 * z) / 12
            + self.spread * (z**3 + z) / 4
        )


def normal_quantile(level: float) -> float:
    """How many standard errors a normal's central interval of that level reaches to both sides.

    Raises:
        ValueError: the level does not lie strictly between 0 and 1.
    """
    if not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    return float(-ndtri((1 - float(level)) / 2))


def studentized(table: Array, draws: Draws, value: Array, *, paired: bool = False) -> Studentized:
    """The cumulants of the error of the estimate that a table gives, from its own draws.

    Arguments:
        table: The estimator's table, (3, 3), or one for each pair, (*, 3, 3).
        draws: Points of every proposal that the table needs.
        value: mu, (*).
        paired: Whether the i-th points of all proposals go together.
    """
    total, third, fourth, squared = (np.zeros(value.shape) for _ in range(4))
    for h in _entering(table, draws, value, paired=paired):
        n = h.shape[-1]
        centred = h - h.mean(axis=-1, keepdims=True)
        squares = np.square(centred)
        second = squares.mean(axis=-1)
        total += second / n
        third += (squares * centred).mean(axis=-1) / n**2
        fourth += (np.square(squares).mean(axis=-1) - 3 * np.square(second)) / n**3
        squared += np.square(second) / n**3
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (third / total**1.5, fourth / total**2, squared / total**2)
    skewness, kurtosis, spread = (np.where(total > 0, each, 0.0) for each in found)
    return Studentized(skewness, kurtosis, spread)


def _entering(table: Array, draws: Draws, value: Array, *, paired: bool) -> list[Array]:
    """What the draws of every proposal bring to the error, each (*, n), largest about one."""
    factors = {j: sum(parts, start=np.zeros(())) for j, parts in error_parts(table, draws, value)}
    log_w = {j: draws.log_weight(j) for j in factors}
    top = np.max([each.max(axis=-1) for each in log_w.values()], axis=0)
    top = np.where(np.isfinite(top), top, 0.0)[..., None]
    found = [factor * np.exp(log_w[j] - top) for j, factor in factors.items()]
    if paired:
        found = [np.sum(found, axis=0)]
    # Fourth powers of what is in units of mu may leave the range of a float.
    unit = np.max([np.abs(h).max(axis=-1) for h in found], axis=0)
    unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)[..., None]
    return [h / unit for h in found]
