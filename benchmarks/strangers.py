r"""Ten problems written as strangers would write them, each with truths by another route.

The problems are `amci.model`s of torch's distributions: data in the order of measurement, nothing
sorted or summarized, and no word on where f lies. For each there is the joint density p(x, y) in
NumPy and SciPy, written without torch and without amci_core, and a truth made of it: quadrature
whose error is the change when all nodes are doubled, after integrating out what has a formula.
`python benchmarks/strangers.py --truths` makes `strangers.json`: ten cases for each problem, with
y from p(y) and theta spread evenly over its range.

References:
    Kermack, McKendrick, A contribution to the mathematical theory of epidemics, 1927.
    Breitung, The geometry of limit state function graphs and subset simulation: counterexamples,
    2019, for the metaballs, here with four more coordinates.
"""

from __future__ import annotations

__all__ = ["STRANGERS", "Stranger", "truths"]

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize, minimize_scalar
from scipy.special import erfcx, log_ndtr, logsumexp, ndtr, roots_legendre
from torch import Tensor
from torch.distributions import (
    Categorical,
    Distribution,
    Gamma,
    HalfNormal,
    Independent,
    LogNormal,
    MixtureSameFamily,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    StudentT,
    Uniform,
    Weibull,
    constraints,
)

import amci_core as amci
from amci_core.models import Problem

Array = NDArray[np.float64]
LogDensity = Callable[..., Array]
Box = Sequence[tuple[float, float]]

FILE = Path(__file__).with_suffix(".json")
CASES, SEED = 10, 123


@dataclass(frozen=True)
class Stranger:
    """A problem and what its truth is made of.

    Arguments:
        problem: Makes the problem.
        log_joint: Called with y (D_y,) and the coordinates of x, each (*), gives log p(x, y) in
            nats, (*); the log prior if the problem has no y.
        truth: Called with y (D_y,) and theta, gives mu and its relative error.
        outlying: What is added to the y of every second case.
    """

    problem: Callable[[], Problem]
    log_joint: Callable[..., Array]
    truth: Callable[[Any, float], tuple[float, float]]
    outlying: tuple[float, ...] | None = None


# Quadrature.


def log_integral(
    log_density: LogDensity, box: Box, n: int | tuple[int, ...]
) -> tuple[float, float]:
    """log int exp(log_density), with n nodes on each axis and with 2 n.

    The box shrinks to where the integrand lies within 32 nats of its largest value.
    """
    coarse = {2: 101, 3: 31, 4: 17}[len(box)]
    for _ in range(8):
        axes = [np.linspace(low, high, coarse) for low, high in box]
        value = _finite(log_density(*np.ix_(*axes)), [coarse] * len(box))
        inside, ends = value > value.max() - 32, []
        for k, axis in enumerate(axes):
            at = np.flatnonzero(inside.any(tuple(j for j in range(len(box)) if j != k)))
            ends.append((axis[max(at[0] - 1, 0)], axis[min(at[-1] + 1, coarse - 1)]))
        before, box = np.prod(np.ptp(box, -1)), ends
        if np.prod(np.ptp(box, -1)) > 0.8 * before:
            break
    numbers = np.broadcast_to(n, len(box))
    return _gauss(log_density, box, numbers), _gauss(log_density, box, 2 * numbers)


def _gauss(log_density: LogDensity, box: Box, numbers: Any) -> float:
    """log int exp(log_density) by a product of Gauss and Legendre's rules, slice by slice."""
    axes, log_weights = [], []
    for (low, high), n in zip(box, numbers, strict=True):
        nodes, weights = roots_legendre(int(n))
        axes.append((low + high) / 2 + (high - low) / 2 * nodes)
        log_weights.append(np.log((high - low) / 2 * weights))
    log_w: Array = np.zeros(())
    for part in log_weights[1:]:
        log_w = log_w[..., None] + part
    rest = np.ix_(*axes[1:])
    slices = [
        logsumexp(_finite(log_density(x, *rest), log_w.shape) + log_w) + own
        for x, own in zip(axes[0], log_weights[0], strict=True)
    ]
    return float(logsumexp(slices))


def _finite(value: Array, shape: Sequence[int]) -> Array:
    return np.nan_to_num(np.broadcast_to(value, shape), nan=-np.inf, neginf=-np.inf)


def mean(
    log_p: LogDensity,
    log_f: LogDensity,
    box: Box,
    n: int | tuple[int, ...],
    box_of_f: Box | None = None,
) -> tuple[float, float]:
    """E[f | y] by quadrature and its relative error, for p(x, y) = exp(log_p) and f = exp(log_f).

    Arguments:
        log_p: The log density of the coordinates up to a constant.
        log_f: The log of f, smooth within `box_of_f`.
        box: Contains all of p.
        n: Nodes on an axis or on each of them, which are doubled.
        box_of_f: Where f is positive; the box by default.
    """
    E1 = log_integral(lambda *x: log_p(*x) + log_f(*x), box_of_f or box, n)
    E2 = log_integral(log_p, box, n)
    before, after = E1[0] - E2[0], E1[1] - E2[1]
    return math.exp(after), abs(math.expm1(before - after))


def standardized(
    log_density: Callable[[Sequence[Array]], Array], start: Sequence[float]
) -> tuple[Callable[[Sequence[Array]], list[Array]], float]:
    """Coordinates z about the mode, in units of the curvature there, the first one a multiple.

    Returns:
        The map from z to the coordinates of the density, and the z of which the first is zero.
    """
    options = {"maxiter": 4000, "xatol": 1e-5, "fatol": 1e-8}
    best = minimize(
        lambda u: -np.nan_to_num(log_density(u), nan=-1e300),
        start,
        method="Nelder-Mead",
        options=options,
    )
    steps = 1e-3 * np.eye(len(start))
    curvature = [
        [
            sum(s * t * log_density(best.x + s * a + t * b) for s in (1, -1) for t in (1, -1))
            for b in steps
        ]
        for a in steps
    ]
    factor = np.linalg.cholesky(np.linalg.inv(-np.array(curvature) / (4 * 1e-6)))

    def coordinates(z: Sequence[Array]) -> list[Array]:
        return [
            middle + sum(a * v for a, v in zip(row, z[: k + 1], strict=False))
            for k, (middle, row) in enumerate(zip(best.x, factor, strict=True))
        ]

    return coordinates, -best.x[0] / factor[0, 0]


def zero(*x: Array) -> Array:
    """The log of an f that is one."""
    return np.zeros(())


# 1. Hierarchical: four machines, four parts of each, unknown spread between and within.

MACHINES, PARTS = 4, 4


def hierarchical() -> Problem:
    """x = (mean, spread between, spread within, four standardized effects)."""

    def likelihood(x: Tensor) -> Distribution:
        effects = x[..., :1] + x[..., 1:2] * x[..., 3:]
        each = effects.repeat_interleave(PARTS, -1)
        return Independent(Normal(each, x[..., 2:3].expand_as(each)), 1)

    standard = Normal(torch.zeros(MACHINES), torch.ones(MACHINES))
    return amci.model(
        name="hierarchical",
        description="Does the first machine exceed the mean of all machines by theta?",
        prior=[Normal(0.0, 3.0), HalfNormal(1.5), HalfNormal(1.0), Independent(standard, 1)],
        likelihood=likelihood,
        f=lambda x, theta: x[..., 1] * x[..., 3] > theta,
        theta=Uniform(0.0, 3.0),
    )


def hierarchical_joint(y: Array, mu: Array, tau: Array, sigma: Array, *z: Array) -> Array:
    """log p(x, y)."""
    log_p = stats.norm.logpdf(mu, 0, 3) + stats.halfnorm.logpdf(tau, scale=1.5)
    log_p = log_p + stats.halfnorm.logpdf(sigma, scale=1.0)
    for effect, parts in zip(z, y.reshape(MACHINES, PARTS), strict=True):
        log_p = log_p + stats.norm.logpdf(effect)
        for part in parts:
            log_p = log_p + stats.norm.logpdf(part, mu + tau * effect, sigma)
    return np.asarray(log_p)


def hierarchical_truth(y: Array, theta: float) -> tuple[float, float]:
    """Given both spreads all is normal: what is left is an integral over their logs."""
    parts = y.reshape(MACHINES, PARTS)
    means, within = parts.mean(-1), ((parts - parts.mean(-1, keepdims=True)) ** 2).sum()

    def given(u: Array, v: Array) -> tuple[Array, ...]:
        tau2, sigma2 = np.exp(2 * u), np.exp(2 * v)
        total = tau2 + sigma2 / PARTS
        precision = MACHINES / total + 1 / 9
        return tau2, sigma2, total, precision, means.sum() / total / precision

    def log_p(u: Array, v: Array) -> Array:
        tau2, sigma2, total, precision, centre = given(u, v)
        log_y = -0.5 * MACHINES * np.log(total) - 0.5 * (means**2).sum() / total
        log_y = log_y - 0.5 * np.log(precision) + 0.5 * precision * centre**2
        log_y = log_y - MACHINES * (PARTS - 1) * v - 0.5 * within / sigma2
        return np.asarray(log_y + u - tau2 / (2 * 1.5**2) + v - sigma2 / 2)

    def log_f(u: Array, v: Array) -> Array:
        tau2, sigma2, total, precision, centre = given(u, v)
        pull = tau2 / total
        middle = pull * (means[0] - centre)
        variance = pull * sigma2 / PARTS + pull**2 / precision
        return np.asarray(log_ndtr((middle - theta) / np.sqrt(variance)))

    return mean(log_p, log_f, [(-25.0, 3.0), (-12.0, 3.0)], 200)


# 2. Censored survival: eight Weibull lifetimes, followed for four years.

LIVES, END = 8, 4.0


class CensoredWeibull(Distribution):
    """A lifetime up to the end of the study: END itself says that it lasted longer."""

    arg_constraints: ClassVar = {"scale": constraints.positive, "shape": constraints.positive}
    support = constraints.interval(0.0, END)

    def __init__(self, scale: Tensor, shape: Tensor) -> None:
        self.scale, self.shape = torch.broadcast_tensors(scale, shape)
        super().__init__(self.scale.shape, validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return Weibull(self.scale, self.shape).sample(torch.Size(sample_shape)).clamp(max=END)

    def log_prob(self, value: Tensor) -> Tensor:
        # A time of zero has no density if the shape is below one.
        log_ratio = value.clamp(min=1e-30).log() - self.scale.log()
        hazard = (self.shape * log_ratio).exp()
        log_density = self.shape.log() - self.scale.log() + (self.shape - 1) * log_ratio
        return (log_density * (value < END)) - hazard


def survival() -> Problem:
    """x = (shape, scale in years)."""

    def likelihood(x: Tensor) -> Distribution:
        scale = x[..., 1:].expand(*x.shape[:-1], LIVES)
        return Independent(CensoredWeibull(scale, x[..., :1]), 1)

    return amci.model(
        name="survival",
        description="What share survives theta years?",
        prior=[LogNormal(0.3, 0.4), LogNormal(1.0, 0.5)],
        likelihood=likelihood,
        f=lambda x, theta: (-((theta / x[..., 1]) ** x[..., 0])).exp(),
        theta=Uniform(1.0, 10.0),
    )


def survival_joint(y: Array, shape: Array, scale: Array) -> Array:
    """log p(x, y), in density for those who died and in probability for those who lived."""
    log_p = stats.lognorm.logpdf(shape, 0.4, scale=math.exp(0.3))
    log_p = log_p + stats.lognorm.logpdf(scale, 0.5, scale=math.exp(1.0))
    for time in y:
        law = stats.weibull_min(shape, scale=scale)
        log_p = log_p + (law.logpdf(time) if time < END else law.logsf(END))
    return np.asarray(log_p)


def survival_truth(y: Array, theta: float) -> tuple[float, float]:
    """Over the logs of shape and scale."""
    return mean(
        lambda u, v: survival_joint(y, np.exp(u), np.exp(v)) + u + v,
        lambda u, v: -np.exp(np.exp(u) * (math.log(theta) - v)),
        [(-4.0, 4.0), (-5.0, 7.0)],
        100,
    )


# 3. Negative binomial: six overdispersed counts.

COUNTS = 6


def counts() -> Problem:
    """x = (mean count, size)."""

    def likelihood(x: Tensor) -> Distribution:
        size, logit = x[..., 1:], (x[..., :1] / x[..., 1:]).log()
        shape = (*x.shape[:-1], COUNTS)
        return Independent(NegativeBinomial(size.expand(shape), logits=logit.expand(shape)), 1)

    return amci.model(
        name="counts",
        description="Does the mean count exceed theta?",
        prior=[Gamma(2.0, 0.2), Gamma(2.0, 0.5)],
        likelihood=likelihood,
        f=lambda x, theta: x[..., 0] > theta,
        theta=Uniform(5.0, 25.0),
    )


def counts_joint(y: Array, middle: Array, size: Array) -> Array:
    """log p(x, y)."""
    log_p = stats.gamma.logpdf(middle, 2, scale=5) + stats.gamma.logpdf(size, 2, scale=2)
    for count in y:
        log_p = log_p + stats.nbinom.logpmf(count, size, size / (size + middle))
    return np.asarray(log_p)


def counts_truth(y: Array, theta: float) -> tuple[float, float]:
    """Over the logs of both, from log theta on."""
    rest, high = (-14.0, 5.0), 7.0
    return mean(
        lambda u, v: counts_joint(y, np.exp(u), np.exp(v)) + u + v,
        zero,
        [(-14.0, high), rest],
        100,
        box_of_f=[(math.log(theta), high), rest],
    )


# 4. An ODE: six noisy observations of an epidemic's first twelve days.

DAYS, STEPS, NOISE = 2.0, 8, 0.03
OBSERVATIONS = 6


def epidemic() -> Problem:
    """x = (infections a day, recoveries a day, share infected at first): S' = -x1 S I."""

    def likelihood(x: Tensor) -> Distribution:
        beta, gamma, infected = x.unbind(-1)
        state = torch.stack([1 - infected, infected], -1)

        def slope(state: Tensor) -> Tensor:
            new = beta * state[..., 0] * state[..., 1]
            return torch.stack([-new, new - gamma * state[..., 1]], -1)

        observed, h = [], DAYS / STEPS
        for _ in range(OBSERVATIONS):
            for _ in range(STEPS):
                k1 = slope(state)
                k2 = slope(state + h / 2 * k1)
                k3 = slope(state + h / 2 * k2)
                k4 = slope(state + h * k3)
                state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            observed.append(state[..., 1])
        return Independent(Normal(torch.stack(observed, -1), NOISE), 1)

    def exceeds(x: Tensor, theta: Tensor) -> Tensor:
        beta, gamma, infected = x.unbind(-1)
        number = beta / gamma
        peak = 1 - (1 + (number * (1 - infected)).log()) / number
        return torch.where(number * (1 - infected) > 1, peak, infected) > theta

    return amci.model(
        name="epidemic",
        description="Will more than the share theta be infected at once?",
        prior=[
            LogNormal(math.log(0.8), 0.4),
            LogNormal(math.log(0.25), 0.3),
            LogNormal(math.log(0.01), 0.5),
        ],
        likelihood=likelihood,
        f=exceeds,
        theta=Uniform(0.15, 0.55),
    )


def epidemic_joint(y: Array, beta: Array, gamma: Array, infected: Array) -> Array:
    """log p(x, y), by Runge and Kutta's method for log S and log I in steps of half the length."""
    log_p = stats.lognorm.logpdf(beta, 0.4, scale=0.8)
    log_p = log_p + stats.lognorm.logpdf(gamma, 0.3, scale=0.25)
    log_p = log_p + stats.lognorm.logpdf(infected, 0.5, scale=0.01)
    log_s, log_i, h = np.log1p(-infected), np.log(infected), DAYS / STEPS / 2

    def slope(log_s: Array, log_i: Array) -> tuple[Array, Array]:
        return -beta * np.exp(log_i), beta * np.exp(log_s) - gamma

    for number in y:
        for _ in range(2 * STEPS):
            s1, i1 = slope(log_s, log_i)
            s2, i2 = slope(log_s + h / 2 * s1, log_i + h / 2 * i1)
            s3, i3 = slope(log_s + h / 2 * s2, log_i + h / 2 * i2)
            s4, i4 = slope(log_s + h * s3, log_i + h * i3)
            log_s = log_s + h / 6 * (s1 + 2 * s2 + 2 * s3 + s4)
            log_i = log_i + h / 6 * (i1 + 2 * i2 + 2 * i3 + i4)
        log_p = log_p + stats.norm.logpdf(number, np.exp(log_i), NOISE)
    return np.asarray(log_p)


def epidemic_truth(y: Array, theta: float) -> tuple[float, float]:
    """Over log R0 less that with a peak of theta, and logs of first infected and recoveries."""

    def least(log_i: Array) -> Array:
        low, high = -np.log1p(-np.exp(log_i)), np.full_like(log_i, 8.0)
        for _ in range(60):
            middle = (low + high) / 2
            peak = 1 - (1 + middle + np.log1p(-np.exp(log_i))) * np.exp(-middle)
            low, high = np.where(peak < theta, middle, low), np.where(peak < theta, high, middle)
        return np.asarray(low)

    def log_density(u: Sequence[Array]) -> Array:
        above, log_i, log_gamma = u[0], np.minimum(u[1], -0.01), u[2]
        log_beta = least(log_i) + above + log_gamma
        log_p = epidemic_joint(y, np.exp(log_beta), np.exp(log_gamma), np.exp(log_i))
        return np.asarray(log_p + log_beta + log_gamma + log_i)

    coordinates, border = standardized(log_density, [0.0, math.log(0.01), math.log(0.25)])
    line = (-15.0, 15.0)
    return mean(
        lambda *z: log_density(coordinates(z)),
        zero,
        [line] * 3,
        48,
        box_of_f=[(border, max(border, 0) + 15.0), line, line],
    )


# 5. Mixture: ten numbers from two groups of unknown means and shares.

NUMBERS = 10


def mixture() -> Problem:
    """x = (first mean, second mean, share of the first)."""

    def likelihood(x: Tensor) -> Distribution:
        shape = (*x.shape[:-1], NUMBERS, 2)
        shares = torch.stack([x[..., 2], 1 - x[..., 2]], -1)[..., None, :].expand(shape)
        groups = Normal(x[..., None, :2].expand(shape), 1.0)
        return Independent(MixtureSameFamily(Categorical(shares), groups), 1)

    def exceeds(x: Tensor, theta: Tensor) -> Tensor:
        first, second = (torch.special.ndtr(x[..., k] - theta) for k in (0, 1))
        return x[..., 2] * first + (1 - x[..., 2]) * second

    return amci.model(
        name="mixture",
        description="How likely does the next number exceed theta?",
        prior=[Normal(0.0, 3.0), Normal(0.0, 3.0), Uniform(0.0, 1.0)],
        likelihood=likelihood,
        f=exceeds,
        theta=Uniform(0.0, 8.0),
    )


def mixture_joint(y: Array, first: Array, second: Array, share: Array) -> Array:
    """log p(x, y)."""
    log_p = stats.norm.logpdf(first, 0, 3) + stats.norm.logpdf(second, 0, 3) + 0 * share
    for number in y:
        density = share * stats.norm.pdf(number - first)
        density = density + (1 - share) * stats.norm.pdf(number - second)
        with np.errstate(divide="ignore"):
            log_p = log_p + np.log(density)
    return np.asarray(log_p)


def mixture_truth(y: Array, theta: float) -> tuple[float, float]:
    """Over all three, as they are."""

    def log_f(first: Array, second: Array, share: Array) -> Array:
        return np.asarray(np.log(share * ndtr(first - theta) + (1 - share) * ndtr(second - theta)))

    line = (-20.0, 20.0)
    return mean(lambda *x: mixture_joint(y, *x), log_f, [line, line, (0.0, 1.0)], 160)


# 6. Student's t as a prior, with an observation that lies far out.


def outlying() -> Problem:
    """x = two effects; both and their sum are observed."""

    def likelihood(x: Tensor) -> Distribution:
        return Independent(Normal(torch.cat([x, x.sum(-1, keepdim=True)], -1), 1.0), 1)

    return amci.model(
        name="outlying",
        description="Does the sum of both effects exceed theta?",
        prior=[StudentT(3.0), StudentT(3.0)],
        likelihood=likelihood,
        f=lambda x, theta: x.sum(-1) > theta,
        theta=Uniform(0.0, 4.0),
    )


def outlying_joint(y: Array, first: Array, second: Array) -> Array:
    """log p(x, y)."""
    log_p = stats.t.logpdf(first, 3) + stats.t.logpdf(second, 3)
    for number, middle in zip(y, (first, second, first + second), strict=True):
        log_p = log_p + stats.norm.logpdf(number, middle)
    return np.asarray(log_p)


def outlying_truth(y: Array, theta: float) -> tuple[float, float]:
    """Over sum and difference, the sum from theta on."""
    line = (-60.0, 60.0)
    return mean(
        lambda s, d: outlying_joint(y, (s + d) / 2, (s - d) / 2),
        zero,
        [line, line],
        150,
        box_of_f=[(theta, 60.0), line],
    )


# 7. A basket of five correlated assets, without y.

VOLATILITIES = np.array([0.15, 0.2, 0.25, 0.3, 0.35])
CORRELATION = 0.6 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5)))


def basket() -> Problem:
    """x = standardized log returns of a year; all begin at 100."""
    volatilities = torch.tensor(VOLATILITIES)

    def shortfall(x: Tensor, theta: Tensor) -> Tensor:
        prices = 100 * (volatilities * x - volatilities.square() / 2).exp()
        return (theta - prices.mean(-1)).clamp(min=0.0)

    return amci.model(
        name="basket",
        description="The mean shortfall of five assets' mean price below theta.",
        prior=MultivariateNormal(torch.zeros(5).double(), torch.tensor(CORRELATION)),
        f=shortfall,
        theta=Uniform(30.0, 52.0),
    )


def basket_joint(y: None, *x: Array) -> Array:
    """The log prior."""
    return np.asarray(stats.multivariate_normal(cov=CORRELATION).logpdf(np.stack(x, -1)))


def basket_truth(y: None, theta: float) -> tuple[float, float]:
    """Given four principal components the shortfall's mean over the first is Black and Scholes's.

    With the mean price sum_i a_i exp(b_i z) and theta at z*, it is
    phi(z*) sum_i a_i exp(b_i z*) (M(z*) - M(z* - b_i)), where M = Phi / phi.
    """
    values, vectors = np.linalg.eigh(CORRELATION)
    loadings = VOLATILITIES[:, None] * vectors[:, ::-1] * np.sqrt(values[::-1])
    loadings[:, 0] = np.abs(loadings[:, 0])
    log_start = math.log(100 / 5) - VOLATILITIES**2 / 2

    def log_f(*rest: Array) -> Array:
        log_a = [
            start + sum(slope * z for slope, z in zip(slopes, rest, strict=True))
            for start, slopes in zip(log_start, loadings[:, 1:], strict=True)
        ]
        z = -np.ones(np.broadcast_shapes(*(np.shape(v) for v in rest)))
        for _ in range(7):
            terms = [np.exp(a + b * z) for a, b in zip(log_a, loadings[:, 0], strict=True)]
            total = sum(terms)
            slope = sum(b * t for b, t in zip(loadings[:, 0], terms, strict=True)) / total
            z = z - (np.log(total) - math.log(theta)) / slope
        terms = [
            np.exp(a + b * z) * (_mills(z) - _mills(z - b))
            for a, b in zip(log_a, loadings[:, 0], strict=True)
        ]
        with np.errstate(divide="ignore"):
            return np.asarray(stats.norm.logpdf(z) + np.log(sum(terms)))

    def log_p(*rest: Array) -> Array:
        return np.asarray(-0.5 * sum(z**2 + math.log(2 * math.pi) for z in rest))

    return mean(log_p, log_f, [(-12.0, 12.0)] * 4, 24)


def _mills(z: Array) -> Array:
    """Phi(z) / phi(z)."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(-z / math.sqrt(2)))


# 8. A limit state of ten standard normals: a sum and the squares of differences.

CURVATURE = 0.05


def limit_state() -> Problem:
    """x = loads on ten members, standard normal."""

    def fails(x: Tensor, theta: Tensor) -> Tensor:
        bent = CURVATURE * x.diff(dim=-1).square().sum(-1)
        return x.sum(-1) / math.sqrt(10) + bent > theta

    return amci.model(
        name="limit-state",
        description="Does the structure fail at a resistance of theta?",
        prior=Independent(Normal(torch.zeros(10), torch.ones(10)), 1),
        f=fails,
        theta=Uniform(3.0, 8.0),
    )


def normal_joint(y: None, *x: Array) -> Array:
    """The log prior of standard normals."""
    return np.asarray(sum(stats.norm.logpdf(value) for value in x))


def limit_state_truth(y: None, theta: float) -> tuple[float, float]:
    """The inverse Laplace transform along the vertical line through its saddle point.

    The sum is normal and independent of the differences, whose squares' sum is a weighted sum of
    nine chi squares: E exp(t g) = exp(t^2 / 2) prod_j (1 - 2 t c lambda_j)^(-1/2).
    """
    differences = np.diff(np.eye(10), axis=0)
    scales = CURVATURE * np.linalg.eigvalsh(differences.T @ differences)

    def exponent(t: Any) -> Any:
        return t**2 / 2 - 0.5 * np.log(1 - 2 * np.multiply.outer(t, scales)).sum(-1) - t * theta

    ends = (1e-6, (0.5 - 1e-9) / scales.max())
    saddle = minimize_scalar(lambda t: exponent(t) - math.log(t), ends, ends, method="bounded").x

    def integral(n: int) -> float:
        u = np.linspace(0, 40.0, n + 1)
        terms = (np.exp(exponent(saddle + 1j * u) - exponent(saddle)) / (saddle + 1j * u)).real
        return float((terms.sum() - terms[0] / 2) * 40.0 / n / math.pi)

    before, after = integral(1000), integral(2000)
    return math.exp(exponent(saddle)) * after, abs(before / after - 1)


# 9. Sums of two exponentials, seen eight times.

TIMES = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
ERROR = 0.05


def exponentials() -> Problem:
    """x = (first amplitude, its rate, second amplitude, its rate)."""

    def at(x: Tensor, times: Tensor) -> Tensor:
        first = x[..., 0:1] * (-x[..., 1:2] * times).exp()
        return first + x[..., 2:3] * (-x[..., 3:4] * times).exp()

    times = torch.tensor(TIMES)
    return amci.model(
        name="exponentials",
        description="What is left at time theta?",
        prior=[
            LogNormal(0.0, 0.5),
            LogNormal(math.log(0.3), 0.5),
            LogNormal(0.0, 0.5),
            LogNormal(math.log(2.0), 0.5),
        ],
        likelihood=lambda x: Independent(Normal(at(x, times), ERROR), 1),
        f=lambda x, theta: at(x, theta[..., None])[..., 0],
        theta=Uniform(0.0, 15.0),
    )


def exponentials_joint(y: Array, a1: Array, b1: Array, a2: Array, b2: Array) -> Array:
    """log p(x, y)."""
    log_p = stats.lognorm.logpdf(a1, 0.5) + stats.lognorm.logpdf(b1, 0.5, scale=0.3)
    log_p = log_p + stats.lognorm.logpdf(a2, 0.5) + stats.lognorm.logpdf(b2, 0.5, scale=2.0)
    square = sum(
        (level - (a1 * np.exp(-b1 * time) + a2 * np.exp(-b2 * time))) ** 2
        for time, level in zip(TIMES, y, strict=True)
    )
    constant = len(TIMES) * (math.log(ERROR) + 0.5 * math.log(2 * math.pi))
    return np.asarray(log_p - 0.5 * square / ERROR**2 - constant)


def exponentials_truth(y: Array, theta: float) -> tuple[float, float]:
    """Over the logs of all four, standardized by the mode and the curvature there."""

    def log_density(u: Sequence[Array]) -> Array:
        return np.asarray(exponentials_joint(y, *(np.exp(v) for v in u)) + sum(u))

    coordinates, _ = standardized(log_density, [0.0, -1.2, 0.0, 0.7])

    def log_f(*z: Array) -> Array:
        a1, b1, a2, b2 = coordinates(z)
        return np.asarray(np.logaddexp(a1 - np.exp(b1) * theta, a2 - np.exp(b2) * theta))

    return mean(lambda *z: log_density(coordinates(z)), log_f, [(-12.0, 12.0)] * 4, 32)


# 10. Metaballs in six dimensions, without y.


def metaballs() -> Problem:
    """x = six standard normals; f is one outside the level set of two balls' field."""

    def field(x: Tensor) -> Tensor:
        rest = x[..., 2:].square().sum(-1)
        first = (x[..., 0] + 2).square() * 4 / 9 + (x[..., 1].square() + rest) / 25
        second = (x[..., 0] - 2.5).square() / 4 + ((x[..., 1] - 0.5).square() + rest) / 25
        return 30 / (first.square() + 1) + 20 / (second.square() + 1)

    return amci.model(
        name="metaballs",
        description="Is the field of two balls at most theta?",
        prior=Independent(Normal(torch.zeros(6), torch.ones(6)), 1),
        f=lambda x, theta: field(x) <= theta,
        theta=Uniform(4.0, 9.0),
    )


def metaballs_truth(y: None, theta: float) -> tuple[float, float]:
    """Over the second and the first; the others' sum of squares has to exceed a root."""

    def root(second: Array, first: Array) -> Array:
        one, two = 4 * (first + 2) ** 2 / 9, (first - 2.5) ** 2 / 4
        low: Array = np.zeros(np.broadcast_shapes(np.shape(first), np.shape(second)))
        high = low + 2000.0
        for _ in range(55):
            s = (low + high) / 2
            field = 30 / ((one + (second**2 + s) / 25) ** 2 + 1)
            field = field + 20 / ((two + ((second - 0.5) ** 2 + s) / 25) ** 2 + 1)
            low, high = np.where(field > theta, s, low), np.where(field > theta, high, s)
        return (low + high) / 2

    def log_p(second: Array, first: Array) -> Array:
        return np.asarray(stats.norm.logpdf(first) + stats.norm.logpdf(second))

    return mean(
        log_p, lambda u, v: stats.chi2.logsf(root(u, v), 4), [(-12.0, 12.0)] * 2, (50, 1000)
    )


STRANGERS: Mapping[str, Stranger] = {
    "hierarchical": Stranger(hierarchical, hierarchical_joint, hierarchical_truth),
    "survival": Stranger(survival, survival_joint, survival_truth),
    "counts": Stranger(counts, counts_joint, counts_truth),
    "epidemic": Stranger(epidemic, epidemic_joint, epidemic_truth),
    "mixture": Stranger(mixture, mixture_joint, mixture_truth),
    "outlying": Stranger(outlying, outlying_joint, outlying_truth, outlying=(5.0, 0.0, 0.0)),
    "basket": Stranger(basket, basket_joint, basket_truth),
    "limit-state": Stranger(limit_state, normal_joint, limit_state_truth),
    "exponentials": Stranger(exponentials, exponentials_joint, exponentials_truth),
    "metaballs": Stranger(metaballs, normal_joint, metaballs_truth),
}


def cases_of(name: str) -> tuple[Array | None, Array]:
    """y of p(y), (10, D_y), some of them displaced, and theta spread evenly, (10, 1)."""
    problem = STRANGERS[name].problem()
    y, _ = problem.cases(CASES, seed=SEED)
    if y is not None and STRANGERS[name].outlying:
        y[1::2] += np.array(STRANGERS[name].outlying)
    assert problem.theta is not None
    low, high = problem.theta.ends[:, 0]
    levels = low + (high - low) * (np.arange(CASES) + 0.5) / CASES
    return y, levels[:, None]


def truths(name: str) -> tuple[Array | None, Array, Array, Array]:
    """Ten cases of a problem from `strangers.json`.

    Returns:
        y (10, D_y) or None, theta (10, 1), mu (10,), and its relative errors (10,).
    """
    entry = json.loads(FILE.read_text())[name]
    y, theta, mu, error = (entry[key] for key in ("y", "theta", "mu", "relative_error"))
    return y and np.array(y), np.array(theta), np.array(mu), np.array(error)


def main(arguments: Sequence[str] | None = None) -> None:
    """Makes the truths of some problems or all, and keeps the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", help="names; all by default")
    parser.add_argument("--truths", action="store_true", help="make strangers.json")
    asked = parser.parse_args(arguments)
    for name in asked.problems or STRANGERS:
        if asked.truths:
            y, theta = cases_of(name)
            pairs = [
                STRANGERS[name].truth(None if y is None else y[k], float(theta[k, 0]))
                for k in range(CASES)
            ]
            kept = json.loads(FILE.read_text()) if FILE.exists() else {}
            kept[name] = {
                "y": None if y is None else y.tolist(),
                "theta": theta.tolist(),
                "mu": [mu for mu, _ in pairs],
                "relative_error": [float(f"{error:.1e}") for _, error in pairs],
            }
            lines = [f"{json.dumps(key)}: {json.dumps(kept[key])}" for key in kept]
            FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        _, _, mu, error = truths(name)
        listed = ", ".join(f"{value:.3g}" for value in mu)
        print(f"{name}: mu {listed}; relative errors up to {error.max():.1e}", flush=True)


if __name__ == "__main__":
    main()
