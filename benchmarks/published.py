r"""Problems that others published, each with a truth by a formula or by quadrature.

They are written as a user would write them, with the public interface alone: a prior, f, samplers
and, where there is one, a likelihood. None says where its f lies.

References:
    Genz, Testing multidimensional integration routines, 1984, for the families oscillatory, corner
    peak and discontinuous; their difficulties (sums of c) are those of Barthelmann, Novak, Ritter,
    High dimensional polynomial interpolation on sparse grids, 2000, section 5.
    Melchers, Beck, Structural Reliability Analysis and Prediction, 2018, chapter 1, for R - S.
    Katafygiotis, Zuev, Geometric insight into the challenges of solving high-dimensional
    reliability problems, 2008, for the hypersphere and the linear limit state.
    Rubin, Estimation in parallel randomized experiments, 1981, and Gelman et al., Bayesian Data
    Analysis, 2013, sections 3.7 and 5.5 and exercise 3.11, for the bioassay and eight schools.
"""

from __future__ import annotations

__all__ = ["PUBLISHED", "Published"]

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import quad_vec
from scipy.special import expit, log_ndtr
from scipy.stats import binom, chi2, norm
from torch import Tensor

from amci_core.models import Problem, Variable

Array = NDArray[np.float64]
LINE = (-math.inf, math.inf)


class Published(Problem):
    """What all of them share: no observation, unless one is declared, and f >= 0."""

    y = None
    nonnegative = True

    def mean(self, y: Array, theta: Array) -> Array:
        """mu(y, theta) for y (*, D_y) and theta (*, D_theta): (*)."""
        raise NotImplementedError

    def prior_from_uniform(self, u: Tensor) -> Tensor:
        """The prior's points out of uniform ones, (n, D): for the methods that are compared."""
        raise NotImplementedError

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        assert theta is not None
        mu = self.mean(y.numpy(), theta.numpy())
        with np.errstate(divide="ignore"):
            return np.log(np.abs(mu)), np.sign(mu)


class Cube(Published):
    """x uniform on the unit cube.

    Arguments:
        name: What it is called by.
        dim: Number of coordinates.
        difficulty: The sum of c, of which every coordinate has an equal part.
        theta: Number of coordinates of theta, and their range.
    """

    def __init__(
        self, name: str, dim: int, difficulty: float, theta: tuple[int, float, float]
    ) -> None:
        self.name, self.c = f"{name}-{dim}d", difficulty / dim
        self.x = Variable("x", dim, 0.0, 1.0, "a point of the cube")
        self.theta = Variable("theta", *theta, "where f lies")

    def log_prior(self, x: Tensor) -> Tensor:
        outside = ((x < 0) | (x > 1)).any(-1)
        return torch.zeros_like(x[..., 0]).masked_fill(outside, -math.inf)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.rand(n, self.x.dim, generator=generator)

    def prior_from_uniform(self, u: Tensor) -> Tensor:
        return u


class Oscillatory(Cube):
    """f = cos(2 pi theta + sum c x), of both signs; theta keeps mu away from zero."""

    nonnegative = False

    def __init__(self, dim: int) -> None:
        super().__init__("oscillatory", dim, 9.0, (1, 0.1, 0.45))

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (2 * math.pi * theta[..., 0] + self.c * x.sum(-1)).cos()

    def mean(self, y: Array, theta: Array) -> Array:
        phase = 2 * math.pi * theta[..., 0] + self.x.dim * self.c / 2
        return np.asarray(np.cos(phase) * (math.sin(self.c / 2) / (self.c / 2)) ** self.x.dim)


class CornerPeak(Cube):
    """f = (1 + theta sum c x)^-(D + 1), theta in [0.5, 4] times the published difficulty."""

    def __init__(self, dim: int) -> None:
        super().__init__("corner-peak", dim, 1.85, (1, 0.5, 4.0))

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (1 + theta[..., 0] * self.c * x.sum(-1)) ** -(self.x.dim + 1.0)

    def mean(self, y: Array, theta: Array) -> Array:
        # (1 + s)^-(D + 1) = int t^D exp(-t (1 + s)) dt / D!, and the cube's integral is a product.
        dim, c = self.x.dim, self.c * theta[..., 0]

        def integrand(t: float) -> Array:
            rest = dim * np.log(-np.expm1(-t * c) / (t * c))
            return np.asarray(np.exp(dim * math.log(t) - t - math.lgamma(dim + 1) + rest))

        return np.asarray(quad_vec(integrand, 1e-12, dim + 80.0, epsrel=1e-11)[0])


class Discontinuous(Cube):
    """f = exp(sum c x) where x1 < theta1 and x2 < theta2, else zero."""

    def __init__(self, dim: int) -> None:
        super().__init__("discontinuous", dim, 4.3, (2, 0.1, 0.9))

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        inside = (x[..., :2] < theta).all(-1)
        return (self.c * x.sum(-1)).exp() * inside

    def mean(self, y: Array, theta: Array) -> Array:
        rest = (math.expm1(self.c) / self.c) ** (self.x.dim - 2)
        return np.asarray((np.expm1(self.c * theta) / self.c).prod(-1) * rest)


class Normals(Published):
    """x standard normal.

    Arguments:
        name: What it is called by.
        dim: Number of coordinates.
        low: The least theta.
        high: The largest.
    """

    def __init__(self, name: str, dim: int, low: float, high: float) -> None:
        self.name = name
        self.x = Variable("x", dim, *LINE, "standard normal")
        self.theta = Variable("theta", 1, low, high, "how far out the event lies")

    def log_prior(self, x: Tensor) -> Tensor:
        return -0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.randn(n, self.x.dim, generator=generator)

    def prior_from_uniform(self, u: Tensor) -> Tensor:
        return torch.special.ndtri(u)


class Ring(Normals):
    """f is one where theta <= |x| <= theta + 1/2: 2.954e-4 at theta = 4."""

    def __init__(self) -> None:
        super().__init__("ring", 2, 1.0, 4.5)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        radius = x.norm(dim=-1)
        return ((radius >= theta[..., 0]) & (radius <= theta[..., 0] + 0.5)).to(x.dtype)

    def mean(self, y: Array, theta: Array) -> Array:
        inner, outer = theta[..., 0] ** 2 / 2, (theta[..., 0] + 0.5) ** 2 / 2
        return np.asarray(-np.exp(-inner) * np.expm1(inner - outer))


class Orthant(Normals):
    """f is one where all six coordinates exceed theta: 2.1516e-9 at theta = 1.8."""

    def __init__(self) -> None:
        super().__init__("orthant", 6, 0.0, 1.8)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x > theta).all(-1).to(x.dtype)

    def mean(self, y: Array, theta: Array) -> Array:
        return np.asarray(np.exp(self.x.dim * log_ndtr(-theta[..., 0])))


class Hypersphere(Normals):
    """f is one where |x| > theta: of probability 0.1 to 1e-6."""

    def __init__(self, dim: int) -> None:
        low, high = (round(math.sqrt(chi2.isf(p, dim)), 3) for p in (0.1, 1e-6))
        super().__init__(f"hypersphere-{dim}d", dim, low, high)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x.norm(dim=-1) > theta[..., 0]).to(x.dtype)

    def mean(self, y: Array, theta: Array) -> Array:
        return np.asarray(chi2.sf(theta[..., 0] ** 2, self.x.dim))


class LinearLimit(Normals):
    """f is one where sum x > theta sqrt(D): of probability 0.1 to 1e-6."""

    def __init__(self, dim: int) -> None:
        low, high = (round(float(norm.isf(p)), 3) for p in (0.1, 1e-6))
        super().__init__(f"linear-{dim}d", dim, low, high)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x.sum(-1) > theta[..., 0] * math.sqrt(self.x.dim)).to(x.dtype)

    def mean(self, y: Array, theta: Array) -> Array:
        return np.asarray(norm.sf(theta[..., 0]))


class ResistanceAndLoad(Published):
    """A resistance R ~ N(200, 20^2) and a load S ~ N(100, 30^2): f is one where R < theta S."""

    name = "resistance-load"
    x = Variable("x", 2, *LINE, "resistance and load", "kN")
    theta = Variable("theta", 1, 0.8, 1.5, "factor of the load")
    MEANS, DEVIATIONS = (200.0, 100.0), (20.0, 30.0)

    def log_prior(self, x: Tensor) -> Tensor:
        mean, deviation = x.new_tensor(self.MEANS), x.new_tensor(self.DEVIATIONS)
        return torch.distributions.Normal(mean, deviation).log_prob(x).sum(-1)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        mean, deviation = torch.tensor(self.MEANS), torch.tensor(self.DEVIATIONS)
        return mean + deviation * torch.randn(n, 2, generator=generator)

    def prior_from_uniform(self, u: Tensor) -> Tensor:
        return u.new_tensor(self.MEANS) + u.new_tensor(self.DEVIATIONS) * torch.special.ndtri(u)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x[..., 0] < theta[..., 0] * x[..., 1]).to(x.dtype)

    def mean(self, y: Array, theta: Array) -> Array:
        (r, s), (dr, ds) = self.MEANS, self.DEVIATIONS
        factor = theta[..., 0]
        return np.asarray(norm.sf((r - factor * s) / np.hypot(dr, factor * ds)))


class Bioassay(Published):
    """Deaths of five animals at each of four doses: how deadly is the dose theta?

    x = (alpha, beta), logit of the probability = alpha + beta dose; a normal prior with means 0
    and 10, standard deviations 2 and 10, correlation 1/2.
    """

    name = "bioassay"
    DOSES, ANIMALS = (-0.86, -0.30, -0.05, 0.73), 5
    x = Variable("x", 2, *LINE, "intercept and slope")
    y = Variable("y", 4, 0.0, 5.0, "deaths at each dose")
    theta = Variable("theta", 1, -1.0, 1.0, "a dose")
    FACTOR = ((2.0, 0.0), (5.0, math.sqrt(75.0)))

    def _standard(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = x[..., 0] / 2
        return first, (x[..., 1] - 10 - 5 * first) / math.sqrt(75.0)

    def log_prior(self, x: Tensor) -> Tensor:
        first, second = self._standard(x)
        square = first.square() + second.square()
        return -0.5 * square - math.log(2 * math.pi * 2 * math.sqrt(75.0))

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        z = torch.randn(n, 2, generator=generator)
        return self._carried(z)

    def prior_from_uniform(self, u: Tensor) -> Tensor:
        return self._carried(torch.special.ndtri(u))

    def _carried(self, z: Tensor) -> Tensor:
        return z @ z.new_tensor(self.FACTOR).T + z.new_tensor([0.0, 10.0])

    def _logits(self, x: Tensor) -> Tensor:
        return x[..., :1] + x[..., 1:] * x.new_tensor(self.DOSES)

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        return (
            torch.distributions.Binomial(self.ANIMALS, logits=self._logits(x), validate_args=False)
            .log_prob(y)
            .sum(-1)
        )

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        p = self._logits(x).sigmoid()
        tries = torch.rand(*p.shape, self.ANIMALS, generator=generator)
        return (tries < p[..., None]).sum(-1).to(x.dtype)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x[..., 0] + x[..., 1] * theta[..., 0]).sigmoid()

    def mean(self, y: Array, theta: Array) -> Array:
        nodes = np.linspace(-8.0, 8.0, 801)
        a = 2 * nodes[:, None]
        b = 10 + 5 * nodes[:, None] + math.sqrt(75.0) * nodes
        log_w = -0.5 * (nodes[:, None] ** 2 + nodes**2)
        p = expit(a[..., None] + b[..., None] * np.array(self.DOSES))
        values = []
        for count, dose in zip(
            y.reshape(-1, 4), np.broadcast_to(theta, (*y.shape[:-1], 1)).reshape(-1), strict=True
        ):
            log_p = binom.logpmf(count, self.ANIMALS, p).sum(-1) + log_w
            weight = np.exp(log_p - log_p.max())
            values.append((weight * expit(a + b * dose)).sum() / weight.sum())
        return np.array(values).reshape(y.shape[:-1])


class EightSchools(Published):
    """Effects of coaching in eight schools: how likely is the first one's to exceed theta?

    x = (mu, log tau, eta_1..8), effect_j = mu + tau eta_j: mu ~ N(0, 5^2), tau half-Cauchy of
    scale 5, eta standard normal; y_j ~ N(effect_j, sigma_j^2). At the published y its figures are
    those of posteriordb's eight_schools_noncentered: mean of effect_1 6.15, of mu 4.41.
    """

    name = "eight-schools"
    DEVIATIONS = (15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0)
    OBSERVED = (28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0)
    x = Variable("x", 10, *LINE, "mean, log of the spread, and standardized effects")
    y = Variable("y", 8, -400.0, 400.0, "observed effects", "points", typical_range=(-40.0, 40.0))
    theta = Variable("theta", 1, 0.0, 20.0, "a bound", "points")

    def log_prior(self, x: Tensor) -> Tensor:
        mu, log_tau, eta = x[..., 0], x[..., 1], x[..., 2:]
        # 2 / (5 pi (1 + tau^2 / 25)) dtau, on the log scale
        log_tau_prior = (
            log_tau
            + math.log(2 / (5 * math.pi))
            - torch.nn.functional.softplus(2 * (log_tau - math.log(5.0)))
        )
        normal = -0.5 * ((mu / 5).square() + eta.square().sum(-1))
        return normal - 4.5 * math.log(2 * math.pi) - math.log(5.0) + log_tau_prior

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        z = torch.randn(n, 9, generator=generator)
        return self._carried(torch.rand(n, 1, generator=generator), z)

    def prior_from_uniform(self, u: Tensor) -> Tensor:
        return self._carried(u[..., :1], torch.special.ndtri(u[..., 1:]))

    @staticmethod
    def _carried(u: Tensor, z: Tensor) -> Tensor:
        log_tau = (5 * (math.pi / 2 * u.clamp(1e-6, 1 - 1e-6)).tan()).log()
        return torch.cat([5 * z[..., :1], log_tau, z[..., 1:]], -1)

    def _effects(self, x: Tensor) -> Tensor:
        return x[..., :1] + x[..., 1:2].exp() * x[..., 2:]

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        deviations = x.new_tensor(self.DEVIATIONS)
        return torch.distributions.Normal(self._effects(x), deviations).log_prob(y).sum(-1)

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        effects = self._effects(x)
        noise = torch.randn(effects.shape, generator=generator)
        return effects + torch.tensor(self.DEVIATIONS) * noise

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x[..., 0] + x[..., 1].exp() * x[..., 2] > theta[..., 0]).to(x.dtype)

    def mean(self, y: Array, theta: Array) -> Array:
        # Given tau all is normal; what is left is an integral over log tau.
        log_tau = np.linspace(math.log(5.0) - 14.0, math.log(5.0) + 8.0, 4001)
        tau2 = np.exp(2 * log_tau)
        variance = np.array(self.DEVIATIONS) ** 2
        total = variance + tau2[:, None]
        precision = (1 / total).sum(-1) + 1 / 25
        log_prior = log_tau - np.logaddexp(0, 2 * (log_tau - math.log(5.0)))
        values = []
        for effects, bound in zip(
            y.reshape(-1, 8), np.broadcast_to(theta, (*y.shape[:-1], 1)).reshape(-1), strict=True
        ):
            centre = (effects / total).sum(-1) / precision
            log_p = -0.5 * np.log(total).sum(-1) - 0.5 * np.log(precision) + log_prior
            log_p += -0.5 * (effects**2 / total).sum(-1) + 0.5 * precision * centre**2
            weight = np.exp(log_p - log_p.max())
            # effect_1 given tau: shrunken towards mu, which is normal itself.
            pull = tau2 / total[:, 0]
            mean = pull * effects[0] + (1 - pull) * centre
            spread = np.sqrt(variance[0] * pull + (1 - pull) ** 2 / precision)
            values.append((weight * norm.sf((bound - mean) / spread)).sum() / weight.sum())
        return np.array(values).reshape(y.shape[:-1])


PUBLISHED: Mapping[str, Callable[[], Published]] = {
    **{f"oscillatory-{d}d": partial(Oscillatory, d) for d in (2, 5, 10)},
    **{f"corner-peak-{d}d": partial(CornerPeak, d) for d in (2, 5, 10)},
    **{f"discontinuous-{d}d": partial(Discontinuous, d) for d in (2, 5, 10)},
    "ring": Ring,
    "resistance-load": ResistanceAndLoad,
    "bioassay": Bioassay,
    "orthant": Orthant,
    "eight-schools": EightSchools,
    **{f"hypersphere-{d}d": partial(Hypersphere, d) for d in (20, 100)},
    **{f"linear-{d}d": partial(LinearLimit, d) for d in (20, 100)},
}
