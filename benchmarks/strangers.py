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
from scipy.special import log_ndtr, logsumexp, ndtr
from torch import Tensor
from torch.distributions import (
    Categorical,
    Distribution,
    Gamma,
    HalfNormal,
    Independent,
    LogNormal,
    MixtureSameFamily,
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


def log_integral(log_density: LogDensity, box: Box, n: int) -> tuple[float, float]:
    """log int exp(log_density), with n nodes on each axis and with 2 n.

    The box shrinks to where the integrand lies within 40 nats of its largest value.
    """
    coarse = {1: 401, 2: 101, 3: 41, 4: 25}[len(box)]
    for _ in range(8):
        axes = [np.linspace(low, high, coarse) for low, high in box]
        high_there = _finite(log_density(*np.ix_(*axes)), [coarse] * len(box))
        high_there = high_there > high_there.max() - 40
        ends = []
        for k, axis in enumerate(axes):
            others = tuple(j for j in range(len(box)) if j != k)
            inside = np.flatnonzero(high_there.any(others))
            ends.append((axis[max(inside[0] - 1, 0)], axis[min(inside[-1] + 1, coarse - 1)]))
        box = ends
    return _gauss(log_density, box, n), _gauss(log_density, box, 2 * n)


def _gauss(log_density: LogDensity, box: Box, n: int) -> float:
    """log int exp(log_density) by a product of Gauss and Legendre's rules, slice by slice."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    axes = [(low + high) / 2 + (high - low) / 2 * nodes for low, high in box]
    log_weights = [np.log((high - low) / 2 * weights) for low, high in box]
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
    log_p: LogDensity, log_f: LogDensity, box: Box, n: int, box_of_f: Box | None = None
) -> tuple[float, float]:
    """E[f | y] by quadrature and its relative error, for p(x, y) = exp(log_p) and f = exp(log_f).

    Arguments:
        log_p: The log density of the coordinates up to a constant.
        log_f: The log of f, smooth within `box_of_f`.
        box: Contains all of p.
        n: Nodes on an axis, which are doubled.
        box_of_f: Where f is positive; the box by default.
    """
    E1 = log_integral(lambda *x: log_p(*x) + log_f(*x), box_of_f or box, n)
    E2 = log_integral(log_p, box, n)
    before, after = E1[0] - E2[0], E1[1] - E2[1]
    return math.exp(after), abs(math.expm1(before - after))


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


STRANGERS: Mapping[str, Stranger] = {
    "hierarchical": Stranger(hierarchical, hierarchical_joint, hierarchical_truth),
    "survival": Stranger(survival, survival_joint, survival_truth),
    "counts": Stranger(counts, counts_joint, counts_truth),
    "mixture": Stranger(mixture, mixture_joint, mixture_truth),
    "outlying": Stranger(outlying, outlying_joint, outlying_truth, outlying=(5.0, 0.0, 0.0)),
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
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in asked.problems or STRANGERS:
        if asked.truths:
            y, theta = cases_of(name)
            pairs = [
                STRANGERS[name].truth(None if y is None else y[k], float(theta[k, 0]))
                for k in range(CASES)
            ]
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
