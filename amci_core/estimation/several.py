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
from amci_core.estimators.draws import DEFENSIVE, DEFENSIVE_SHARE, Array, Draws, defensive_draws
from amci_core.estimators.uncertainty import Uncertainty, bessel, effective_number
from amci_core.flows import Proposals
from amci_core.flows.proposals import check_proposals, draw_all
from amci_core.models import Problem, check_problem
from amci_core.models.defensive import DefensiveDensity

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
    def _errors(self) -> Array:
        """What each draw adds to the error of each mean, (*, K, n), in units of f; NaN for a mean
        without a standard error."""
        units = [
            np.where(np.isnan(e.standard_error), np.nan, np.exp(e.errors.log_unit))
            for e in self.estimates
        ]
        errors = [e.errors.z for e in self.estimates]
        return np.stack(units, -1)[..., None] * np.stack(errors, -2)

    @property
    def _counts(self) -> tuple[int, ...]:
        return tuple(self.estimates[0].prepared.draws.counts.values())

    @property
    def covariance(self) -> Array:
        """Covariance of the estimates, (*, K, K)."""
        z = self._errors
        return np.asarray((z * bessel(self._counts)) @ z.swapaxes(-1, -2))

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
        self._check(i, j)
        z, value = self._errors, self.value
        return self._contrast(i, j, value[..., i] - value[..., j], z[..., i, :] - z[..., j, :])

    def ratio(self, i: int, j: int) -> Contrast:
        """Mean i over mean j, counted from 0."""
        self._check(i, j)
        z, below = self._errors, self.value[..., j]
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.value[..., i] / below
            of_ratio = (z[..., i, :] - value[..., None] * z[..., j, :]) / below[..., None]
        known = abs(below) > FAR_FROM_ZERO * self.standard_error[..., j]
        return self._contrast(i, j, value, np.where(known[..., None], of_ratio, np.nan))

    def _check(self, *numbers: Any) -> None:
        for k in numbers:
            check_count("mean", k, low=0, high=len(self.estimates) - 1)

    def _contrast(self, i: int, j: int, value: Array, z: Array) -> Contrast:
        variance = np.vecdot(z * bessel(self._counts), z)
        first, second = (self.estimates[k].verdict for k in (i, j))
        worse = second.codes > first.codes
        return Contrast(
            value=np.asarray(value),
            uncertainty=Uncertainty(
                log_unit=np.zeros_like(value),
                value=np.asarray(value),
                standard_error=np.sqrt(variance),
                effective=effective_number(np.square(z)),
            ),
            verdict=Verdict(
                *(
                    np.where(worse, getattr(second, field.name), getattr(first, field.name))
                    for field in fields(Verdict)
                )
            ),
        )

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
    broad = math.ceil(defensive_draws(draws, defensive) / len(problems))
    left = draws - broad * len(problems)
    if left < 2 * len(densities):
        least = 2 * len(densities) + broad * len(problems)
        raise ValueError(f"draws: expected at least {least}, two per proposal, got {draws}")
    counts = dict.fromkeys(densities, left // len(densities))
    if broad:
        for k, problem in enumerate(problems):
            densities[k, DEFENSIVE] = DefensiveDensity(problem, y, theta)
            counts[k, DEFENSIVE] = broad
    sources = dict.fromkeys(counts, generators(seed_from(seed, rng))[0])
    x, log_q = draw_all(densities, counts, sources)

    all_draws: list[Draws] = []
    for k, sampler in enumerate(samplers):
        numbers = {
            key: key[1] if key[0] == k or key == (0, 2) else OTHERS + place
            for place, key in enumerate(counts)
        }
        of_components = {
            numbers[key]: {numbers[other]: values for other, values in of_key.items()}
            for key, of_key in log_q.items()
        }
        drawn = sampler.evaluated({numbers[key]: x[key] for key in counts}, of_components)
        all_draws.append(drawn)
        if not np.allclose(drawn.log_joint, all_draws[0].log_joint, 1e-9, 1e-9):
            raise ValueError(
                f"problems: {problems[k].name} has another p(x, y) than {problems[0].name}. Make "
                "them with amci_core.several"
            )
    return Several(
        tuple(
            Estimate(
                resolve("amci-cv").apply(drawn),
                positive=problem.nonnegative,
                requirements=requirements_of(of_problem, y, theta),
            )
            for drawn, problem, of_problem in zip(all_draws, problems, proposals, strict=True)
        )
    )
