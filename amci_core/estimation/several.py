r"""Several means under one posterior, from the same draws, with their covariance.

K problems differ in f alone. Their proposals, one q2 and a q1 for each f, are the components of
one sample, and each mean is estimated from all of it, by AMCI with control variates. A draw adds
z_k to the error of mean k, so that

    Cov(mu_j, mu_k) = sum over draws of n_c / (n_c - 1) z_j z_k,

with n_c the number of draws of its component. Differences and ratios follow by the delta method.
"""

from __future__ import annotations

__all__ = ["Contrast", "Several", "estimate_several"]

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch

from amci_core._arguments import check_count, check_number, seed_from
from amci_core.diagnostics import Verdict
from amci_core.estimation.estimate import requirements_of
from amci_core.estimation.result import Estimate, EstimateBase
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators
from amci_core.estimators import resolve
from amci_core.estimators.draws import DEFENSIVE, DEFENSIVE_SHARE, Array, defensive_draws
from amci_core.estimators.uncertainty import Uncertainty, bessel, effective_number
from amci_core.flows import Proposals
from amci_core.flows.proposals import check_proposals, draw_all
from amci_core.models import Problem, check_problem
from amci_core.models.densities import DefensiveDensity

# Components of other problems are numbered from here, beyond those of a problem's own.
OTHERS = 100
# A ratio's error is one of the delta method if its denominator is so many standard errors from 0.
FAR_FROM_ZERO = 5.0


@dataclass(frozen=True, repr=False)
class Contrast(EstimateBase):
    """A function of several means: a difference or a ratio.

    Arguments:
        value: Its estimate, (*).
        uncertainty: By the delta method, (*); unknown if that of one of the means is, and for a
            ratio whose denominator lies within five of its own standard errors of zero.
        verdict: The less favourable one of both means, (*).
    """

    value: Array
    uncertainty: Uncertainty
    verdict: Verdict


@dataclass(frozen=True)
class Several:
    """Estimates of K means for a batch (*) of cases, from the same draws.

    Arguments:
        estimates: That of each mean, with its interval and verdict.
    """

    estimates: tuple[Estimate, ...]

    @property
    def value(self) -> Array:
        """The means, (*, K), in units of their f."""
        return np.stack([e.value for e in self.estimates], -1)

    @cached_property
    def _z(self) -> Array:
        """What each draw adds to the error of each mean, (*, K, n), in units of f; NaN for a mean
        without a standard error."""
        units = [
            np.where(np.isnan(e.standard_error), np.nan, np.exp(e.errors.log_unit))
            for e in self.estimates
        ]
        return np.stack(units, -1)[..., None] * np.stack([e.errors.z for e in self.estimates], -2)

    @property
    def _bessel(self) -> Array:
        return bessel(self.estimates[0].errors.counts)

    @property
    def covariance(self) -> Array:
        """Covariance of the estimates, (*, K, K)."""
        return np.asarray((self._z * self._bessel) @ self._z.swapaxes(-1, -2))

    @property
    def standard_error(self) -> Array:
        """Of each mean, (*, K)."""
        return np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """A central interval of that level for each mean, lower and upper ends, each (*, K)."""
        lower, upper = zip(*(e.interval(level) for e in self.estimates), strict=True)
        return np.stack(lower, -1), np.stack(upper, -1)

    def difference(self, i: int, j: int) -> Contrast:
        """Mean i less mean j, counted from 0."""
        (first, z_first), (second, z_second) = self._mean(i), self._mean(j)
        return self._contrast(i, j, first - second, z_first - z_second)

    def ratio(self, i: int, j: int) -> Contrast:
        """Mean i over mean j, counted from 0."""
        (above, z_above), (below, z_below) = self._mean(i), self._mean(j)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = above / below
            z = (z_above - ratio[..., None] * z_below) / below[..., None]
        known = abs(below) > FAR_FROM_ZERO * self.standard_error[..., j]
        return self._contrast(i, j, ratio, np.where(known[..., None], z, np.nan))

    def _mean(self, k: int) -> tuple[Array, Array]:
        check_count("mean", k, low=0, high=len(self.estimates) - 1)
        return self.value[..., k], self._z[..., k, :]

    def _contrast(self, i: int, j: int, value: Array, z: Array) -> Contrast:
        value = np.asarray(value)
        error, effective = np.sqrt(np.vecdot(z * self._bessel, z)), effective_number(np.square(z))
        uncertainty = Uncertainty(np.zeros_like(value), value, error, effective)
        first, second = self.estimates[i].verdict, self.estimates[j].verdict
        worse = second.codes > first.codes
        verdict = Verdict(
            *(
                np.where(worse, getattr(second, field.name), getattr(first, field.name))
                for field in fields(Verdict)
            )
        )
        return Contrast(value, uncertainty, verdict)

    def __str__(self) -> str:
        return "\n".join(f"{k}: {e}" for k, e in enumerate(self.estimates))

    __repr__ = __str__


@torch.inference_mode()
def estimate_several(
    problems: Sequence[Problem],
    proposals: Sequence[Proposals],
    y: Any = None,
    theta: Any = None,
    *,
    draws: int = 512,
    defensive: float = DEFENSIVE_SHARE,
    seed: int | None = 0,
    rng: np.random.Generator | None = None,
) -> Several:
    """Estimates E[f_k(x; theta)] under one p(x | y) for several f_k, from the same draws.

    Arguments:
        problems: K problems that differ in f alone, as `amci_core.several` makes them.
        proposals: Proposals for each; the q2 of the first ones is that of all.
        y: The observation, as for `estimate`.
        theta: The parameters of all f.
        draws: Total number of draws, shared evenly by q2 and all q1.
        defensive: Share of all draws from the problems' defensive densities.
        seed: Whole number >= 0; the same seed gives the same draws. None for a random one.
        rng: Generator of a seed, in the place of `seed`.

    Returns:
        `Several`: `value` (*, K) and `covariance` (*, K, K) of the errors, with
        `difference(i, j)` and `ratio(i, j)`.

    Raises:
        ValueError: an argument is out of range or of a wrong shape, there are not as many
            proposals as problems, or the problems differ in p(x, y).

    Example:
        >>> import amci_core as amci
        >>> from torch.distributions import Normal
        >>> powers = amci.several(
        ...     prior=Normal(0.0, 1.0), likelihood=lambda x: Normal(x, 1.0), f=["x", "x**2"]
        ... )
        >>> proposals = [amci.load_proposals(p, variant="defensive") for p in powers]
        >>> found = amci.estimate_several(powers, proposals, y=3.0, draws=4000)
        >>> variance = found.value[1] - found.value[0] ** 2
        >>> bool(abs(variance - 0.5) < 0.1), found.covariance.shape
        (True, (2, 2))
    """
    problems, proposals = list(map(check_problem, problems)), list(proposals)
    if not problems or len(problems) != len(proposals):
        raise ValueError(
            f"proposals: expected one for each of {len(problems)} problems (at least 1), got "
            f"{len(proposals)}"
        )
    for problem, of_problem in zip(problems, proposals, strict=True):
        check_proposals(problem, of_problem)
    check_number("defensive", defensive, "a number from 0 to below 1", lambda s: 0 <= s < 1)
    check_count("draws", draws, low=1, high=MAX_POINTS)
    y, theta = problems[0].check(y, theta)
    samplers = [Sampler(p, q, y, theta) for p, q in zip(problems, proposals, strict=True)]
    # By the numbers of a problem and of its proposal.
    densities: dict[Any, Any] = {
        (k, j): density
        for k, sampler in enumerate(samplers)
        for j, density in sampler.densities.items()
        if j != 2 or k == 0
    }
    of_defensive = math.ceil(defensive_draws(draws, defensive) / len(problems))
    least, left = 2 * len(densities), draws - of_defensive * len(problems)
    if left < least:
        least += of_defensive * len(problems)
        raise ValueError(f"draws: expected at least {least}, two per proposal, got {draws}")
    counts = dict.fromkeys(densities, left // len(densities))
    if of_defensive:
        for k, problem in enumerate(problems):
            densities[k, DEFENSIVE] = DefensiveDensity(problem, y, theta)
            counts[k, DEFENSIVE] = of_defensive
    sources = dict.fromkeys(counts, generators(seed_from(seed, rng))[0])
    x, log_q = draw_all(densities, counts, sources)

    estimates: list[Estimate] = []
    for k, (sampler, of_problem) in enumerate(zip(samplers, proposals, strict=True)):
        number = {
            key: key[1] if key[0] == k or key == (0, 2) else OTHERS + place
            for place, key in enumerate(counts)
        }
        log_q_of = {
            number[j]: {number[i]: values for i, values in log_q[j].items()} for j in log_q
        }
        drawn = sampler.evaluated({number[i]: points for i, points in x.items()}, log_q_of)
        log_joint = estimates[0].prepared.draws.log_joint if estimates else drawn.log_joint
        if not np.allclose(drawn.log_joint, log_joint, 1e-9, 1e-9):
            raise ValueError(
                f"problems: {problems[k].name} has another p(x, y) than {problems[0].name}. Make "
                "them with amci_core.several"
            )
        requirements = requirements_of(of_problem, y, theta)
        prepared = resolve("amci-cv").apply(drawn)
        estimates.append(Estimate(prepared, problems[k].nonnegative, requirements=requirements))
    return Several(tuple(estimates))
