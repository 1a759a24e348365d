r"""Whether draws follow a density: the test of a classifier that should be calibrated.

Take points from two sources, each with its label, s = 1 for a sampler said to have density p and
s = 0 for draws of a density g that is known. A label given its point has probability

    Pr(s = 1 | x) = p(x) / (p(x) + g(x)),

so that, for every bounded feature h, the sum of (s - Pr(s = 1 | x)) h(x) has mean zero and a known
variance, and Bernstein's inequality bounds how likely a large sum is. It holds for any g, however
bad: where g has nothing in common with p the test has no power, and says so, but raises no alarm.
"""

from __future__ import annotations

__all__ = ["Calibration", "Copula", "against_copula", "calibration"]

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# No more tests than this go into one check, and one check in so many may raise a false alarm.
TESTS, ONE_IN = 60, 10_000
# The variance of the sum of labels below which a test has no power.
LEAST_VARIANCE = 20.0
# Steps of a margin's distribution function, and coordinates that are features of their own.
STEPS, FEATURES = 32, 12


class Calibration(NamedTuple):
    """What a test says.

    Arguments:
        alarm: Whether the draws do not follow the density.
        judged: Whether it could have told, as far as the overlap of both sources goes.
    """

    alarm: bool
    judged: bool


def _alarm(features: int) -> float:
    """Nats of Bernstein's bound from which on a test with this many features raises an alarm."""
    return math.log(2 * features * TESTS * ONE_IN)


def calibration(log_odds: Tensor, label: Tensor, features: Tensor) -> Calibration:
    r"""Whether labels have the odds that they should have.

    Arguments:
        log_odds: log of Pr(s = 1 | x) / Pr(s = 0 | x), (n,).
        label: s, (n,), independent of one another.
        features: Functions h of x within [-1, 1], (n, F); the constant one is added.

    References:
        Bernstein's inequality: Pr(|S| >= t) <= 2 exp(-t^2 / 2 / (V + t / 3)).

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> x = torch.randn(4000, generator=generator).double()
        >>> x[2000:] += 1.0
        >>> label = (torch.arange(4000) >= 2000).double()
        >>> calibration(x - 0.5, label, x[:, None].tanh())
        Calibration(alarm=False, judged=True)
        >>> calibration(x, label, x[:, None].tanh()).alarm
        True
    """
    log_odds = log_odds.nan_to_num(0.0, torch.inf, -torch.inf)
    h = torch.cat([torch.ones_like(label)[:, None], features.nan_to_num(0.0).clamp(-1, 1)], -1)
    share = torch.sigmoid(log_odds)
    variance = ((share * (1 - share))[:, None] * h.square()).sum(0)
    total = ((label - share)[:, None] * h).sum(0).abs()
    nats = total.square() / (2 * (variance + total / 3)).clamp(min=1e-300)
    return Calibration(bool(nats.max() > _alarm(h.shape[1])), bool(variance[0] > LEAST_VARIANCE))


class Copula:
    """A density like that of some draws: their margins as histograms, with normal dependence.

    Arguments:
        x: Draws (n, D), in float64.
    """

    def __init__(self, x: Tensor) -> None:
        levels = torch.linspace(0, 1, STEPS + 1, dtype=x.dtype)
        knots = torch.quantile(x, levels, dim=0)
        # Ties would make steps of width zero.
        least = 1e-9 * (knots[-1] - knots[0]).maximum(1e-3 * knots[-1].abs()).clamp(min=1e-30)
        self.knots = (knots + least * torch.arange(STEPS + 1)[:, None]).T.contiguous()
        z = self.scores(x)[0]
        shrunk = min(1.0, 2 * x.shape[1] / len(x))
        spread = z.T @ z / len(x)
        root = spread.diagonal().clamp(min=1e-12).sqrt()
        spread = spread / root / root[:, None]
        self.correlation = (1 - shrunk) * spread + shrunk * torch.eye(x.shape[1], dtype=x.dtype)
        self.factor = torch.linalg.cholesky(self.correlation)

    def scores(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Normal scores (n, D) and the log density of the margins at x in nats, (n,)."""
        points = x.T.contiguous()
        right = torch.searchsorted(self.knots, points).clamp(1, STEPS)
        low, high = self.knots.gather(1, right - 1), self.knots.gather(1, right)
        u = (right - 1 + (points - low) / (high - low)) / STEPS
        inside = (points >= self.knots[:, :1]) & (points <= self.knots[:, -1:])
        log_density = -(STEPS * (high - low)).log().masked_fill(~inside, torch.inf)
        return torch.special.ndtri(u.clamp(1e-9, 1 - 1e-9)).T, log_density.sum(0)

    def log_prob(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The log density at x (n, D) in nats, (n,), and the normal scores (n, D)."""
        z, margins = self.scores(x)
        white = torch.linalg.solve_triangular(self.factor, z.T, upper=False)
        ratio = (z.square().sum(-1) - white.square().sum(0)) / 2
        return margins + ratio - self.factor.diagonal().log().sum(), z

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """n points (n, D)."""
        white = torch.randn(n, len(self.factor), dtype=self.factor.dtype, generator=generator)
        u = torch.special.ndtr(white @ self.factor.T).T * STEPS
        left = u.floor().long().clamp(0, STEPS - 1)
        low, high = self.knots.gather(1, left), self.knots.gather(1, left + 1)
        x: Tensor = low + (u - left) * (high - low)
        return x.T.contiguous()


def against_copula(
    x: Tensor, log_density: Callable[[Tensor], Tensor], generator: torch.Generator
) -> tuple[Calibration, float]:
    """Whether draws follow a density, and what the density integrates to.

    Arguments:
        x: Draws (n, D), independent; a copula is fitted to every second one.
        log_density: Their log density at points (m, D), in nats.
        generator: Where the copula's draws come from.

    Returns:
        The test, and an estimate of the integral of the density: NaN where it has no power.
    """
    x = x.double()
    copula, tested = Copula(x[::2]), x[1::2]
    other = copula.draw(len(tested), generator)
    points = torch.cat([tested, other])
    log_g, z = copula.log_prob(points)
    log_p = log_density(points)
    log_odds = log_p - log_g
    label = torch.cat([torch.ones(len(tested)), torch.zeros(len(other))]).double()
    few = z[:, :FEATURES]
    norm = (z.square().sum(-1, keepdim=True) - z.shape[1]) / (2 * z.shape[1]) ** 0.5

    def tested_as(log_odds: Tensor) -> Calibration:
        odds = log_odds.clamp(-3, 3)[:, None] / 3
        features = torch.cat([few.tanh(), few.abs() - 1, norm / 3, odds], -1)
        return calibration(log_odds, label, features)

    found = tested_as(log_odds)
    # The odds as they are: the constant that makes labels and odds agree is the integral.
    constant = _intercept(log_odds, label)
    return found, math.exp(constant) if abs(constant) < 700 else math.nan


def _intercept(log_odds: Tensor, label: Tensor) -> float:
    """The constant c, in nats, with which log_odds - c agree with the labels on the whole."""
    low, high = -800.0, 800.0
    for _ in range(60):
        middle = (low + high) / 2
        if torch.sigmoid(log_odds.nan_to_num(0.0) - middle).mean() > label.mean():
            low = middle
        else:
            high = middle
    return (low + high) / 2
