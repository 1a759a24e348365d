r"""What a term is, the densities that its estimate starts from, and importance sampling of it."""

from __future__ import annotations

__all__ = [
    "Coordinates",
    "DefensiveMixture",
    "Density",
    "Importance",
    "Integrand",
    "StudentDensity",
    "TermEstimate",
    "TermMethod",
    "log_mean",
    "where_finite",
]

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from scipy.special import gammaln, stdtr, stdtrit
from torch import Tensor
from torch.distributions import biject_to
from torch.distributions.constraints import Constraint

from amci_core.checks import check_count

MOST_DRAWS = 20_000_000
LEAST_VARIANCE = 1e-12
DEFENCE = 0.2
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
        log_value, error = float(self.log_value), float(self.standard_error)
        if math.isnan(log_value) or log_value == math.inf or error < 0 or math.isinf(error):
            raise ValueError(
                f"{name}: expected a log value below infinity and a standard error >= 0 (or NaN), "
                f"got {log_value:g} and {error:g}"
            )
        draws = int(self.draws)
        if draws < 0 or draws != self.draws:
            raise ValueError(f"{name}: expected a whole number of draws, got {self.draws!r}")
        return TermEstimate(log_value, error, draws)


class Density(Protocol):
    """What a method starts from: a proposal, or a reference density, normalised."""

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """n points x (n, D) and their log density (n), in nats."""

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density in nats at points x (n, D), (n); -inf outside the support."""


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

    A half-line x > c is c + exp(z), an interval a scaled sigmoid, the real line itself.

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

    def inverse(self, x: Tensor) -> Tensor:
        """z (n, D) for x (n, D); not finite outside the support."""
        found: Tensor = self._transform.inv(x)
        return found


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
        z = coordinates.inverse(x)
        inside = z.isfinite().all(-1)
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
        least = LEAST_VARIANCE * torch.eye(dim, dtype=z.dtype)
        factor = torch.linalg.cholesky(covariance + least)
        return StudentDensity(coordinates, centre, factor, degrees)

    def points(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """x (n, D) for u (n, D) in the unit cube, and the log density there, (n), in nats."""
        t = torch.from_numpy(stdtrit(self.degrees, u.clamp(min=LEAST_SHARE).numpy()))
        return self._points(self.centre + t @ self.factor.T, t)

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """n points x (n, D) and their log density (n), in nats."""
        shape = (n, len(self.centre))
        return self.points(torch.rand(shape, dtype=torch.float64, generator=generator))

    def cube(self, x: Tensor) -> Tensor:
        """u (n, D) for points x (n, D) within the support: the inverse of `points`."""
        return torch.from_numpy(
            stdtr(self.degrees, self._standard(self.coordinates.inverse(x)).numpy())
        )

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density in nats at points x (n, D), (n); -inf outside the support."""
        z = self.coordinates.inverse(x)
        inside = z.isfinite().all(-1)
        z = z.where(inside[:, None], 0.0)
        return self._points(z, self._standard(z))[1].where(inside, -torch.inf)

    def _standard(self, z: Tensor) -> Tensor:
        found: Tensor = torch.linalg.solve_triangular(
            self.factor, (z - self.centre).T, upper=False
        ).T
        return found

    def _points(self, z: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        x, log_det = self.coordinates.points(z)
        n = self.degrees
        log_constant = gammaln((n + 1) / 2) - gammaln(n / 2) - 0.5 * math.log(n * math.pi)
        log_t = (float(log_constant) - (n + 1) / 2 * torch.log1p(t.square() / n)).sum(-1)
        return x, log_t - self.factor.diagonal().log().sum() - log_det


class DefensiveMixture(NamedTuple):
    """The density to start from, with a fifth of the draws, and an adapted one."""

    start: Density
    adapted: StudentDensity

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        defence = max(int(DEFENCE * n), 1)
        x = torch.cat(
            [
                self.start.draw(defence, generator)[0],
                self.adapted.draw(n - defence, generator)[0],
            ]
        )
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        return torch.logaddexp(
            self.start.log_prob(x) + math.log(DEFENCE),
            self.adapted.log_prob(x) + math.log1p(-DEFENCE),
        )


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

    The error is NaN for fewer than two weights, and where all of them are zero.

    Arguments:
        log_w: Logarithms of the weights, (n); -inf where one is zero.
    """
    largest = log_w.max()
    if len(log_w) == 0 or largest == -torch.inf:
        return -math.inf, math.nan
    relative = (log_w - largest).exp()
    mean = relative.mean()
    if len(log_w) < 2:
        return float(largest), math.nan
    error = relative.std() / mean / math.sqrt(len(log_w))
    return float(largest + mean.log()), float(error)


def where_finite(log_density: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The log density at x (n, D), (n); -inf where x has overflowed."""
    finite = x.isfinite().all(-1)
    if finite.all():
        return log_density(x)
    value = x.new_full(x.shape[:-1], -torch.inf)
    value[finite] = log_density(x[finite])
    return value
