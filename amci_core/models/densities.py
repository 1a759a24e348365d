r"""Densities in closed form, problems whose defensive density is one of them, and the mixture.

`DefensiveDensity` is the defensive density of a problem, a broad mixture that covers every term.
"""

from __future__ import annotations

__all__ = ["DefensiveDensity", "standard_normal_log_prob", "strictly_beyond"]

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Protocol

import torch
from scipy.special import gammaincinv, log_ndtr, ndtri_exp
from torch import Tensor

from amci_core.models.base import Density, Problem


class FromUniform(Density, Protocol):
    """A density whose points can be functions of uniform ones."""

    def from_uniform(self, u: Tensor) -> Tensor | None:
        """Points of uniform ones, (*, n, D); None if it cannot."""


class DefensiveProblem(Problem):
    """A problem whose defensive density is that of `defensive`, or the prior."""

    @abstractmethod
    def defensive(self, y: Tensor, theta: Tensor | None) -> FromUniform | None:
        """The density at y (*, D_y) and theta (*, D_theta); None for the prior."""

    def sample_defensive(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        q = self.defensive(y, theta)
        if q is None:
            return super().sample_defensive(y, theta, n, generator)
        return q.draw(n, generator)

    def defensive_from_uniform(self, y: Tensor, theta: Tensor | None, u: Tensor) -> Tensor | None:
        q = self.defensive(y, theta)
        return self.prior_from_uniform(u) if q is None else q.from_uniform(u)

    def log_defensive(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        q = self.defensive(y, theta)
        return self.log_prior(x) if q is None else q.log_prob(x)


def strictly_beyond(x: Tensor, bound: Tensor, sign: int = 1) -> Tensor:
    """x, moved past the bound where rounding put it there: above it, or below it for sign -1.

    A point on the bound of an open support has density zero, so one of them in millions makes a
    loss infinite or a weight NaN.
    """
    first = bound.nextafter(torch.full_like(bound, sign * torch.inf))
    return torch.maximum(x, first) if sign > 0 else torch.minimum(x, first)


def standard_normal_log_prob(z: Tensor) -> Tensor:
    """Log density of N(0, I) at z (*, D) in nats; result: (*)."""
    dim, squares = z.shape[-1], z.square()
    # A product with ones takes a third of the time of a sum over the last axis.
    total = squares[..., 0] if dim == 1 else squares @ squares.new_ones(dim)
    return -0.5 * total - 0.5 * dim * math.log(2 * math.pi)


class Normal:
    """A normal in D dimensions: mean (*, D) and the Cholesky factor of its covariance (D, D)."""

    def __init__(self, mean: Tensor, cholesky: Tensor) -> None:
        self.batch_shape = mean.shape[:-1]
        self._mean, self._cholesky = mean[..., None, :], cholesky
        self._log_scale = cholesky.diag().log().sum()

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        shape = (*self.batch_shape, n, self._mean.shape[-1])
        z = torch.randn(shape, dtype=self._mean.dtype, generator=generator)
        x = self._mean + z @ self._cholesky.T
        return x, standard_normal_log_prob(z) - self._log_scale

    def log_prob(self, x: Tensor) -> Tensor:
        z = torch.linalg.solve_triangular(self._cholesky, (x - self._mean).mT, upper=False).mT
        return standard_normal_log_prob(z) - self._log_scale


class NormalAbove:
    """A one-dimensional normal, truncated to x > lower where a lower bound is given.

    Points are drawn through the logarithm of the survival function, which keeps its digits in the
    tail.

    Arguments:
        mean: Shape (*, 1).
        scale: Standard deviation.
        lower: The bound (*, 1), or None.
    """

    def __init__(self, mean: Tensor, scale: float, lower: Tensor | None = None) -> None:
        self.batch_shape = mean.shape[:-1]
        self._mean, self._scale = mean, scale
        self._lower = torch.full_like(mean, -math.inf) if lower is None else lower
        self._log_mass = torch.as_tensor(log_ndtr(((mean - self._lower) / scale).numpy()))

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        uniform = 1 - torch.rand(*self.batch_shape, n, dtype=self._mean.dtype, generator=generator)
        z = torch.as_tensor(-ndtri_exp((uniform.log() + self._log_mass).numpy()))
        x = strictly_beyond(self._mean + self._scale * z, self._lower)[..., None]
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.squeeze(-1)
        log_normal = standard_normal_log_prob(((x - self._mean) / self._scale)[..., None])
        log_density = log_normal - math.log(self._scale) - self._log_mass
        return log_density.where(x > self._lower, -math.inf)


class GammaExcess:
    """x on one side of a bound, with independent gamma excesses.

    Arguments:
        bound: Shape (*, D).
        scale: The excesses' scale, in units of x; broadcasts with the bound.
        sign: 1 for x > bound, -1 for x < bound.
        shape: 1 for exponential excesses, 2 for ones whose density falls to zero at the bound.
    """

    def __init__(self, bound: Tensor, scale: Tensor, sign: int = 1, shape: int = 1) -> None:
        self.batch_shape = bound.shape[:-1]
        self._bound, self._scale = bound[..., None, :], scale[..., None, :]
        self._sign, self._shape = sign, shape

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        shape = (*self.batch_shape, n, self._bound.shape[-1], self._shape)
        exponentials = self._bound.new_empty(shape).exponential_(generator=generator)
        x = self._beyond(exponentials.sum(-1))
        return x, self.log_prob(x)

    def from_uniform(self, u: Tensor) -> Tensor:
        """Points of uniform ones, (*, n, D)."""
        if self._shape == 1:
            return self._beyond(-u.log())
        return self._beyond(torch.as_tensor(gammaincinv(self._shape, u.cpu().numpy())).to(u))

    def _beyond(self, excess: Tensor) -> Tensor:
        x = self._bound + self._sign * excess * self._scale
        return strictly_beyond(x, self._bound, self._sign)

    def log_prob(self, x: Tensor) -> Tensor:
        excess = self._sign * (x - self._bound) / self._scale
        inside = excess > 0
        log_density = -excess - self._scale.log()
        if self._shape > 1:
            log_density = log_density + (self._shape - 1) * excess.where(inside, 1.0).log()
        return log_density.sum(-1).where(inside.all(-1), -math.inf)


TERMS = ("E1_plus", "E1_minus", "E2")


class DefensiveDensity:
    """The equal mixture of one broad density for each term of a problem, at given y and theta.

    For E1_plus it is the problem's own (`sample_defensive`, `log_defensive`), for E1_minus that of
    `problem.with_negated_f()`, for E2 the prior. The mixture is normalized, and positive wherever
    one of the terms is. Draws take the parts in turn, so that the first m of them are stratified
    as well.

    Arguments:
        problem: What is integrated.
        y: Observations (*, D_y), as `Problem.check` returns them.
        theta: Parameters of f (*, D_theta), or None.
        terms: Names of terms; None for all that have to be estimated: no E1_minus where f >= 0,
            no E2 where the evidence is known.

    Attributes:
        batch_shape: (*), the batch shape of y and theta.
        terms: The names of the terms, in the order of the parts.

    Example:
        >>> import torch
        >>> from amci_core import problem
        >>> from amci_core.models import DefensiveDensity
        >>> density = DefensiveDensity(problem("tail-1d"), *problem("tail-1d").check(1.0, 3.0))
        >>> x, log_q = density.draw(6, torch.Generator().manual_seed(0))
        >>> x.shape, log_q.shape, density.terms
        (torch.Size([6, 1]), torch.Size([6]), ('E1_plus', 'E2'))
        >>> (x[0::2] > 3.0).all()  # every second draw is for E1_plus
        tensor(True)
    """

    def __init__(
        self, problem: Problem, y: Tensor, theta: Tensor | None, terms: Sequence[str] | None = None
    ) -> None:
        if terms is None:
            absent = ["E1_minus"] * problem.nonnegative
            absent += ["E2"] * (problem.log_evidence(y, theta) is not None)
            terms = [term for term in TERMS if term not in absent]
        self.terms = tuple(terms)
        self.batch_shape = y.shape[:-1]
        # None stands for the prior.
        self._parts = [
            None if term == "E2" else problem.with_negated_f() if term == "E1_minus" else problem
            for term in self.terms
        ]
        self._problem, self._y, self._theta = problem, y, theta

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """n points x (*, n, D), of y's dtype, and their log density in nats (*, n).

        Draw i is from part i modulo the number of parts. Without a generator they come from
        torch's default one.
        """
        generator = generator or torch.default_generator
        each = -(-n // len(self._parts))
        parts = [self._draw(part, each, generator).to(self._y.dtype) for part in self._parts]
        x = torch.stack(parts, -2).flatten(-3, -2)[..., :n, :]
        return x, self.log_prob(x)

    def _draw(self, part: Problem | None, n: int, generator: torch.Generator) -> Tensor:
        if part is not None:
            return part.sample_defensive(self._y, self._theta, n, generator)[0]
        x = self._problem.sample_prior(math.prod(self.batch_shape) * n, generator)
        return x.reshape(*self.batch_shape, n, -1)

    @property
    def takes_uniform(self) -> bool:
        """Whether each part is a function of uniform points."""
        u = self._y.new_full((*self.batch_shape, 1, self._problem.x.dim), 0.5)
        return all(self._from_uniform(part, u) is not None for part in self._parts)

    def draw_from_uniform(
        self, u: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Uniform points of (0, 1]^D, (cases * n, D), as points x (*, n, D), with log q (*, n).

        The first coordinate chooses the part, and is then stretched to (0, 1] again.
        """
        u = u.reshape(*self.batch_shape, -1, u.shape[-1])
        first = u[..., :1] * len(self._parts)
        part = first.ceil() - 1
        stretched = (first - part).clamp(max=1 - torch.finfo(u.dtype).eps)
        u = torch.cat([stretched, u[..., 1:]], -1)
        x = torch.stack([self._from_uniform(each, u) for each in self._parts])  # type: ignore
        x = x.gather(0, part.long().expand(u.shape)[None])[0].to(self._y.dtype)
        return x, self.log_prob(x)

    def _from_uniform(self, part: Problem | None, u: Tensor) -> Tensor | None:
        if part is None:
            return self._problem.prior_from_uniform(u)
        return part.defensive_from_uniform(self._y, self._theta, u)

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density in nats at points x (*, n, D), (*, n); -inf outside all terms."""
        parts = [
            self._problem.log_prior(x)
            if part is None
            else part.log_defensive(x, self._y, self._theta)
            for part in self._parts
        ]
        log_q = reduce(torch.logaddexp, parts) - math.log(len(parts))
        return log_q.expand(*self.batch_shape, -1)
