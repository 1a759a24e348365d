r"""What a term is, the densities that its estimate starts from, and importance sampling of it."""

from __future__ import annotations

__all__ = [
    "Coordinates",
    "Importance",
    "Integrand",
    "StudentDensity",
    "TermEstimate",
    "TermMethod",
    "cholesky",
    "log_mean",
    "where_finite",
]

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from scipy.special import stdtr, stdtrit
from torch import Tensor
from torch.distributions import StudentT, biject_to
from torch.distributions.constraints import Constraint

from amci_core.checks import check_count
from amci_core.flows.density import Density

MOST_DRAWS = 20_000_000
LEAST_VARIANCE = 1e-12
# The cube is open: its faces lie at infinity.
LEAST_SHARE = 1e-300


class TermEstimate(NamedTuple):
    """An estimate of a term, on the log scale, where terms of any size keep their digits.

    Arguments:
        log_value: Logarithm of the estimate, in nats; -inf where it is zero.
        standard_error: Of log_value, in nats: to first order the relative standard error of the
            term. NaN where the draws say nothing of it.
        draws: How often the integrand was evaluated, pilot runs included.
    """

    log_value: float
    standard_error: float
    draws: int

    @property
    def value(self) -> float:
        """The term itself; zero where it underflows."""
        return math.exp(self.log_value)

    def check(self, name: str) -> TermEstimate:
        """Returns itself, or says why it is no estimate of the term of that name.

        Raises:
            ValueError: the logarithm is NaN or +inf, the error is negative or infinite, or the
                draws are no whole number.
        """
        log_value, error, draws = float(self.log_value), float(self.standard_error), self.draws
        if not log_value < math.inf or error < 0 or math.isinf(error):
            raise ValueError(
                f"{name}: expected a log value below infinity and a standard error >= 0 (or NaN), "
                f"got {log_value:g} and {error:g}"
            )
        if not 0 <= draws == int(draws):
            raise ValueError(f"{name}: expected a whole number of draws, got {draws!r}")
        return TermEstimate(log_value, error, int(draws))


class TermMethod(Protocol):
    """Turns an integrand and a density to start from into an estimate, reproducible by a seed."""

    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate: ...


@dataclass
class Integrand:
    """What a term integrates, for a single y and theta: f_plus p(x, y), f_minus p(x, y), p(x, y).

    Arguments:
        dim: D, the dimension of x.
        log_value: Its logarithm in nats, (n, D) -> (n); -inf where it is zero.
        support: The set outside which it is zero.
        evaluations: How many points it has been evaluated at.
    """

    dim: int
    log_value: Callable[[Tensor], Tensor]
    support: Constraint
    evaluations: int = field(default=0, init=False)

    @torch.inference_mode()
    def __call__(self, x: Tensor) -> Tensor:
        """The logarithm of the integrand at x (n, D), (n); -inf where x is not finite.

        Raises:
            ValueError: it is NaN or +inf somewhere.
        """
        self.evaluations += len(x)
        value = where_finite(self.log_value, x)
        bad = value.isnan() | (value == torch.inf)
        if bad.any():
            raise ValueError(
                "integrand: expected a logarithm below infinity, "
                f"got {value[bad][0].item():g} at x = {x[bad][0].tolist()}"
            )
        return value

    def log_weight(self, x: Tensor, log_q: Tensor) -> Tensor:
        """The logarithm of integrand / q at x (n, D), (n); -inf where the integrand is zero."""
        value = self(x)
        return value.where(value == -torch.inf, value - log_q)


class Coordinates:
    """Maps coordinates z in R^D to points x of a support, by PyTorch's own bijection.

    Arguments:
        support: The set of x.

    Raises:
        ValueError: no bijection is registered for a set of this kind.
    """

    def __init__(self, support: Constraint) -> None:
        try:
            self._transform = biject_to(support)
        except NotImplementedError:
            raise ValueError(
                f"support: expected one that torch.distributions.biject_to knows, got {support}"
            ) from None

    def points(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """x (n, D) for z (n, D), and log|det dx / dz|, (n)."""
        x = self._transform(z)
        log_det = self._transform.log_abs_det_jacobian(z, x)
        return x, log_det.sum(-1) if log_det.ndim == z.ndim else log_det

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """z (n, D) for x (n, D), zero outside the support, and whether x lies within, (n)."""
        z = self._transform.inv(x)
        inside = z.isfinite().all(-1)
        return z.where(inside[:, None], 0.0), inside


@dataclass(frozen=True)
class StudentDensity:
    """A heavy-tailed density on a support: z = centre + factor t in coordinates without bounds.

    The components of t are independent and follow Student's t. The density covers the support and
    nothing else, so an indicator leaves no plateau of zeros in the unit cube.

    Arguments:
        coordinates: From z to points of the support.
        centre: (D,)
        factor: Lower triangular, (D, D).
        degrees: Degrees of freedom of t.
    """

    coordinates: Coordinates
    centre: Tensor
    factor: Tensor
    degrees: float

    @staticmethod
    def fitted(
        support: Constraint, x: Tensor, log_w: Tensor | None = None, *, degrees: float = 4.0
    ) -> StudentDensity:
        """The density around points x (n, D) with log weights (n): their mean and covariance.

        Raises:
            ValueError: fewer than 2 D + 2 points lie within the support.
        """
        coordinates = Coordinates(support)
        z, inside = coordinates.inverse(x)
        z, dim = z[inside], x.shape[-1]
        if len(z) < 2 * dim + 2:
            raise ValueError(
                f"start: expected a density that draws within the support, got {len(z)} of "
                f"{len(x)} points there"
            )
        w = torch.zeros_like(z[:, 0]) if log_w is None else log_w[inside]
        w = w.softmax(0)[:, None]
        centre = (w * z).sum(0)
        covariance = (w * (z - centre)).T @ (z - centre)
        return StudentDensity(coordinates, centre, cholesky(covariance), degrees)

    def points(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """x (n, D) for u (n, D) in the unit cube, and the log density there, (n), in nats."""
        t = torch.from_numpy(stdtrit(self.degrees, u.clamp(min=LEAST_SHARE).numpy()))
        x, log_det = self.coordinates.points(self.centre + t @ self.factor.T)
        return x, self._log_density(t) - log_det

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """n points x (n, D) and their log density (n), in nats."""
        shape = (n, len(self.centre))
        return self.points(torch.rand(shape, dtype=torch.float64, generator=generator))

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density in nats at points x (n, D), (n); -inf outside the support."""
        z, inside = self.coordinates.inverse(x)
        log_q: Tensor = self._log_density(self._standard(z)) - self.coordinates.points(z)[1]
        return log_q.where(inside, -torch.inf)

    def cube(self, x: Tensor) -> Tensor:
        """The points u (n, D) of the unit cube for x (n, D)."""
        t = self._standard(self.coordinates.inverse(x)[0])
        return torch.from_numpy(stdtr(self.degrees, t.numpy()))

    def _standard(self, z: Tensor) -> Tensor:
        t: Tensor = torch.linalg.solve_triangular(self.factor, (z - self.centre).T, upper=False).T
        return t

    def _log_density(self, t: Tensor) -> Tensor:
        log_t: Tensor = StudentT(torch.tensor(self.degrees, dtype=t.dtype)).log_prob(t).sum(-1)
        return log_t - self.factor.diagonal().log().sum()


def cholesky(covariance: Tensor) -> Tensor:
    """The Cholesky factor (D, D), also of a covariance on one point."""
    least = LEAST_VARIANCE * torch.eye(len(covariance), dtype=covariance.dtype)
    factor: Tensor = torch.linalg.cholesky(covariance + least)
    return factor


@dataclass(frozen=True)
class Importance:
    """Estimates a term by the mean of its weights integrand / q on draws from the density q.

    Warning:
        The standard error comes from the weights' own spread: it cannot see mass that no draw
        reaches.

    Arguments:
        size: Number of draws.

    Raises:
        ValueError: the size is no whole number within [2, 20,000,000].
    """

    size: int = 1000

    def __post_init__(self) -> None:
        check_count("size", self.size, low=2, high=MOST_DRAWS)

    @torch.inference_mode()
    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate:
        x, log_q = start.draw(self.size, torch.Generator().manual_seed(seed))
        return TermEstimate(*log_mean(integrand.log_weight(x, log_q)), self.size)


def log_mean(log_w: Tensor) -> tuple[float, float]:
    """The log of the mean of independent weights, in nats, and its standard error.

    The weights are (n), -inf where one is zero. The error is NaN for a single one, and where all
    are zero.
    """
    largest = log_w.max()
    if largest == -torch.inf:
        return -math.inf, math.nan
    relative = (log_w - largest).exp()
    mean = relative.mean()
    error = relative.std(correction=min(len(log_w) - 1, 1)) / mean / math.sqrt(len(log_w))
    return float(largest + mean.log()), float(error) if len(log_w) > 1 else math.nan


def where_finite(log_density: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The log density at x (n, D), (n); -inf where x has overflowed."""
    finite = x.isfinite().all(-1)
    if finite.all():
        return log_density(x)
    value = x.new_full(x.shape[:-1], -torch.inf)
    value[finite] = log_density(x[finite])
    return value
