r"""Problems that no proposal of the package was made for, each with a truth by another route.

They are written as a user would write them: densities, samplers and a broad reference, without an
optimal proposal.
"""

from __future__ import annotations

__all__ = ["OWN_PROBLEMS", "Basket", "Corner", "Modes", "Rate", "Ring", "Wave"]

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import quad_vec
from scipy.special import ive, ndtr
from scipy.stats import gamma, multivariate_normal
from torch import Tensor
from torch.distributions import Normal
from torch.distributions.constraints import Constraint, greater_than

from amci_core.models import Problem, Variable

Array = NDArray[np.float64]
LINE = (-math.inf, math.inf)


class NormalProblem(Problem):
    """x ~ N(0, I), y | x ~ N(x, noise^2 I), and theta uniform: the posterior is known.

    Arguments:
        name: What it is called by.
        dim: Number of coordinates of x and of y.
        noise: Standard deviation of the observation.
        theta: Number of coordinates of theta, and their range.
    """

    nonnegative = True
    # Standard deviation of the reference.
    broad = 2.0

    def __init__(
        self, name: str, dim: int, *, noise: float, theta: tuple[int, float, float]
    ) -> None:
        self.name, self.noise = name, noise
        self.x = Variable("x", dim, *LINE, "a point")
        self.y = Variable("y", dim, -12.0, 12.0, "the point with noise")
        self.theta = Variable("theta", *theta, "parameters of f")

    @property
    def spread(self) -> float:
        """The posterior's standard deviation."""
        return self.noise / math.hypot(1, self.noise)

    def mean(self, y: Tensor) -> Array:
        """The posterior's mean, (*, D)."""
        return np.asarray(y.numpy() / (1 + self.noise**2))

    def log_prior(self, x: Tensor) -> Tensor:
        return Normal(0.0, 1.0).log_prob(x).sum(-1)

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        return Normal(x, self.noise).log_prob(y).sum(-1)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.randn(n, self.x.dim, generator=generator, device=generator.device)

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return x + self.noise * _normal(x, generator)

    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor:
        assert self.theta is not None
        u = torch.rand(n, self.theta.dim, generator=generator, device=generator.device)
        return self.theta.low + (self.theta.high - self.theta.low) * u

    def support_plus(self, theta: Tensor | None) -> Constraint:
        return self.support

    def sample_defensive(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        x = self.broad * _normal(y.new_empty(*y.shape[:-1], n, self.x.dim), generator)
        return x, self.log_defensive(x, y, theta)

    def log_defensive(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        return Normal(0.0, self.broad).log_prob(x).sum(-1)


class Ring(NormalProblem):
    """f is a soft ring about the origin: exp(-(|x| - theta)^2 / (2 0.1^2)), theta in [0.5, 3].

    |x| has Rice's distribution under the posterior: the truth is an integral over the radius.
    """

    WIDTH = 0.1

    def __init__(self) -> None:
        super().__init__("own-ring", 2, noise=1.0, theta=(1, 0.5, 3.0))

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (-((x.norm(dim=-1) - theta[..., 0]) / self.WIDTH).square() / 2).exp()

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        assert theta is not None
        s2, nu = self.spread**2, np.linalg.norm(self.mean(y), axis=-1)
        centre = theta[..., 0].numpy()

        def integrand(z: float) -> Array:
            r = np.maximum(centre + z * self.WIDTH, 0.0)
            rice = r / s2 * np.exp(-((r - nu) ** 2) / (2 * s2)) * ive(0, r * nu / s2)
            return rice * self.WIDTH * math.exp(-z * z / 2)

        log_mu = np.log(quad_vec(integrand, -12.0, 12.0, epsrel=1e-10)[0])
        return log_mu, np.ones_like(log_mu)


class Corner(NormalProblem):
    """f is one where both coordinates exceed theirs of theta, in [-1, 2.5]^2."""

    def __init__(self) -> None:
        super().__init__("own-corner", 2, noise=1.0, theta=(2, -1.0, 2.5))

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x > theta).all(-1).to(x.dtype)

    def sample_defensive(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        assert theta is not None
        excess = y.new_empty(*y.shape[:-1], n, 2).exponential_(generator=generator)
        x = theta[..., None, :] + excess
        return x, self.log_defensive(x, y, theta)

    def log_defensive(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        excess = x - theta[..., None, :]
        return (-excess).masked_fill(excess <= 0, -math.inf).sum(-1)

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        assert theta is not None
        reach = (self.mean(y) - theta.numpy()) / self.spread
        log_mu = np.log(multivariate_normal(np.zeros(2), np.eye(2)).cdf(reach))
        return log_mu, np.ones_like(log_mu)


class Wave(NormalProblem):
    """f = sin(theta x) takes both signs many times: mu = sin(theta m) exp(-theta^2 s^2 / 2).

    Arguments:
        sign: 1 for f, -1 for the problem with -f in its place.
    """

    nonnegative = False
    broad = 1.5

    def __init__(self, sign: int = 1) -> None:
        super().__init__("own-wave", 1, noise=1.0, theta=(1, 0.5, 4.0))
        self.sign = sign

    def with_negated_f(self) -> Wave:
        return Wave(-self.sign)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return self.sign * (theta * x).sin()[..., 0]

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        assert theta is not None
        a = theta[..., 0].numpy()
        wave = np.sin(a * self.mean(y)[..., 0])
        return np.log(np.abs(wave)) - (a * self.spread) ** 2 / 2, self.sign * np.sign(wave)


class Basket(NormalProblem):
    """f = max(sum x - theta, 0) in three dimensions, theta in [-2, 5]: Bachelier's formula."""

    def __init__(self) -> None:
        super().__init__("own-basket", 3, noise=0.8, theta=(1, -2.0, 5.0))

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x.sum(-1) - theta[..., 0]).clamp(min=0)

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        assert theta is not None
        s = self.spread * math.sqrt(3)
        excess = self.mean(y).sum(-1) - theta[..., 0].numpy()
        d = excess / s
        log_mu = np.log(excess * ndtr(d) + s * np.exp(-d * d / 2) / math.sqrt(2 * math.pi))
        return log_mu, np.ones_like(log_mu)


class Modes(NormalProblem):
    """f has a narrow bump at theta and another at -theta: a proposal may drop one of them."""

    WIDTH = 0.15

    def __init__(self) -> None:
        super().__init__("own-modes", 1, noise=2.0, theta=(1, 0.5, 3.0))

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        bumps = [(-((x - s * theta) / self.WIDTH).square() / 2).exp() for s in (-1, 1)]
        return (bumps[0] + bumps[1])[..., 0]

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        assert theta is not None
        s2 = self.WIDTH**2 + self.spread**2
        gaps = self.mean(y) + theta.numpy() * np.array([-1.0, 1.0])
        log_mu = np.log(self.WIDTH / math.sqrt(s2) * np.exp(-(gaps**2) / (2 * s2)).sum(-1))
        return log_mu, np.ones_like(log_mu)


class Rate(Problem):
    """A rate x ~ Gamma(2, 1) seen through a Poisson count y: how likely is it above theta?"""

    nonnegative = True

    def __init__(self) -> None:
        self.name = "own-rate"
        self.x = Variable("x", 1, 0.0, math.inf, "a rate")
        self.y = Variable("y", 1, 0.0, 40.0, "a count")
        self.theta = Variable("theta", 1, 0.5, 8.0, "the bound")

    def log_prior(self, x: Tensor) -> Tensor:
        return (x.log() - x)[..., 0]

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        return (y * x.log() - x - torch.lgamma(y + 1))[..., 0]

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x > theta)[..., 0].to(x.dtype)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        u = torch.rand(n, 2, generator=generator, device=generator.device)
        return (-torch.log1p(-u)).sum(-1, keepdim=True).clamp(min=1e-6)

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return torch.poisson(x, generator=generator)

    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor:
        return 0.5 + 7.5 * torch.rand(n, 1, generator=generator, device=generator.device)

    def support_plus(self, theta: Tensor | None) -> Constraint:
        assert theta is not None
        return greater_than(theta)

    def sample_defensive(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        assert theta is not None
        x = theta[..., None, :] + y.new_empty(*y.shape[:-1], n, 1).exponential_(
            generator=generator
        )
        return x, self.log_defensive(x, y, theta)

    def log_defensive(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        excess = (x - theta[..., None, :])[..., 0]
        return (-excess).masked_fill(excess <= 0, -math.inf)

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        assert theta is not None
        log_mu = np.asarray(gamma.logsf(2 * theta[..., 0].numpy(), 2 + y[..., 0].numpy()))
        return log_mu, np.ones_like(log_mu)


OWN_PROBLEMS: Mapping[str, type[Problem]] = {
    "own-ring": Ring,
    "own-corner": Corner,
    "own-wave": Wave,
    "own-basket": Basket,
    "own-modes": Modes,
    "own-rate": Rate,
}


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, dtype=like.dtype, generator=generator, device=generator.device)
