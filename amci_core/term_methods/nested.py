r"""Nested sampling of a term, by dynesty.

The integrand is an integral over the unit cube once a map carries the cube onto its support. The
map is fitted to draws of the density to start from: in coordinates z without bounds (see
`Coordinates`) their mean and covariance give place and shape, and Student's t with few degrees of
freedom the tails, so that the integrand over the map's density is bounded even where the draws
are too narrow. Whatever the map, the integral is the same; and since the cube covers the support
alone, an indicator leaves no plateau of zeros, which would cost points to get through.

References:
    Skilling, Nested sampling for general Bayesian computation, Bayesian Analysis 1, 2006.
    Speagle, dynesty: a dynamic nested sampling package for estimating Bayesian posteriors and
    evidences, Monthly Notices of the Royal Astronomical Society 493, 2020.
"""

from __future__ import annotations

__all__ = ["Nested"]

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import gammaln, stdtrit

from amci_core.checks import check_count
from amci_core.estimators.draws import Array
from amci_core.term_methods.base import Density, Integrand, TermEstimate
from amci_core.term_methods.coordinates import Coordinates
from amci_core.term_methods.together import Together

MOST_POINTS = 100_000
DEGREES = 4.0
LOG_T_CONSTANT = (
    gammaln((DEGREES + 1) / 2) - gammaln(DEGREES / 2) - 0.5 * math.log(DEGREES * math.pi)
)
LEAST_VARIANCE = 1e-12
# Share of accepted points below which dynesty goes from the cube to ellipsoids: its own 10 % asks
# for five times the points.
LEAST_ACCEPTED = 60.0
# The cube is open: its faces lie at infinity.
LEAST_SHARE = 1e-300


@dataclass(frozen=True)
class Nested:
    """Estimates a term by nested sampling, with dynesty's static sampler.

    The standard error is dynesty's, about sqrt(H / live) where H is the information in nats that
    leads from the map's density to the integrand's shape.

    Arguments:
        live: Number of live points.
        remaining: Share of the term, on the log scale, that may be left in the live points when
            the run stops; their mean is added.
        pilot: Number of draws that the map onto the support is fitted to.
        together: Number of points that are evaluated at a time.

    Raises:
        ValueError: an argument is out of range.
    """

    live: int = 500
    remaining: float = 0.05
    pilot: int = 1000
    together: int = 128

    def __post_init__(self) -> None:
        check_count("live", self.live, low=50, high=MOST_POINTS)
        check_count("pilot", self.pilot, low=50, high=MOST_POINTS)
        check_count("together", self.together, low=1, high=1000)
        if not 0 < self.remaining <= 1:
            raise ValueError(f"remaining: expected a share in (0, 1], got {self.remaining!r}")

    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate:
        from dynesty import NestedSampler  # it takes a second to import

        before = integrand.evaluations
        cube = _Cube.fitted(integrand, start, self.pilot, seed)
        with Together(cube.log_value, self.together) as pool:
            sampler = NestedSampler(
                pool.value,
                _same,
                integrand.dim,
                nlive=self.live,
                rstate=np.random.default_rng(seed),
                pool=pool,
                queue_size=self.together,
                use_pool={"prior_transform": False, "update_bound": False},
                first_update={"min_ncall": self.live, "min_eff": LEAST_ACCEPTED},
            )
            sampler.run_nested(dlogz=self.remaining, print_progress=False)
        found = sampler.results
        return TermEstimate(
            float(found.logz[-1]), float(found.logzerr[-1]), integrand.evaluations - before
        )


def _same(u: Array) -> Array:
    return u


@dataclass(frozen=True)
class _Cube:
    """The integrand on the unit cube: z = centre + factor t(u), x = T(z).

    Arguments:
        centre: (D,)
        factor: Lower triangular, (D, D).
    """

    integrand: Integrand
    coordinates: Coordinates
    centre: Array
    factor: Array

    @staticmethod
    def fitted(integrand: Integrand, start: Density, draws: int, seed: int) -> _Cube:
        """Fits the map to draws of the density within the support.

        Raises:
            ValueError: too few draws lie there.
        """
        coordinates = Coordinates(integrand.support)
        with torch.inference_mode():
            x, _ = start.draw(draws, torch.Generator().manual_seed(seed))
            z = coordinates.inverse(x).numpy()
        z = z[np.isfinite(z).all(-1)]
        if len(z) < 2 * integrand.dim + 2:
            raise ValueError(
                f"start: expected a density that draws within the support, got {len(z)} of "
                f"{draws} points there"
            )
        covariance = np.atleast_2d(np.cov(z.T)) + LEAST_VARIANCE * np.eye(integrand.dim)
        factor = np.linalg.cholesky(covariance).astype(np.float64)
        return _Cube(integrand, coordinates, z.mean(axis=0), factor)

    @torch.inference_mode()
    def log_value(self, u: Array) -> Array:
        """The logarithm of the integrand over the map's density at u (n, D), (n)."""
        t = stdtrit(DEGREES, np.maximum(u, LEAST_SHARE))
        z = torch.from_numpy(self.centre + t @ self.factor.T)
        x, log_det = self.coordinates.points(z)
        log_t = LOG_T_CONSTANT - (DEGREES + 1) / 2 * np.log1p(t**2 / DEGREES)
        log_map = log_t.sum(axis=-1) - np.log(np.diag(self.factor)).sum()
        value: Array = (self.integrand(x) + log_det).numpy() - log_map
        return np.where(np.isnan(value), -np.inf, value)
