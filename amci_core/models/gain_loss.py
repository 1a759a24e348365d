r"""A signed target: the profit above a price and the loss below it."""

from __future__ import annotations

__all__ = ["GainLoss"]

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.optimize import elementwise
from scipy.special import erfcx, log_ndtr
from scipy.stats import norm
from torch import Tensor

from amci_core.models.base import Array, OptimalProposals, Variable, gauss_legendre
from amci_core.models.densities import GammaExcess, standard_normal_log_prob, strictly_beyond
from amci_core.models.gaussian import GaussianModel

# Standard deviations that the mismatch's integral covers beyond the mean, and its nodes.
REACH, NODES = 12.0, 192
# No excess of a standard normal over its edge is drawn beyond this.
LARGEST_EXCESS = 40.0
# The range of prices.
LOW, HIGH = -3.0, 3.0


class GainLoss(GaussianModel):
    r"""What a position is worth whose value x is known only through an observation.

    p(x) = N(0, 1), p(y | x) = N(x, 1), f(x; theta) = x - theta, theta uniform on [-3, 3]: a gain
    above the price theta, a loss below it. With the posterior's mean m = y / 2, its standard
    deviation s and a = (theta - m) / s, Bachelier's formula gives

        E1_plus / E2 = s (phi(a) - a (1 - Phi(a))),   E1_minus / E2 = s (phi(a) + a Phi(a)),

    and mu = m - theta. It is the problem in which all three proposals are at work.

    References:
        Bachelier, Theorie de la speculation, 1900.

    Arguments:
        sign: 1 for f, -1 for the problem with -f in its place.
    """

    nonnegative = False

    name = "gain-loss"
    title = "Gain and loss"
    description = (
        "What is a position worth, bought at the price θ, when one noisy look y is all "
        "that is known of its value x? Gains and losses need a proposal each."
    )
    formula = r"\mu(y,\theta)=\mathrm{E}[x-\theta\mid y]=y/2-\theta"
    x = Variable("x", 1, -math.inf, math.inf, "the value")
    y = Variable("y", 1, -8.0, 8.0, "x plus standard normal noise", typical_range=(-6.0, 6.0))
    theta = Variable("theta", 1, LOW, HIGH, "the price")

    def __init__(self, *, sign: int = 1) -> None:
        super().__init__(np.eye(1))
        self.sign = sign
        self.scale = float(self.posterior_cholesky[0, 0])

    def with_negated_f(self) -> GainLoss:
        return GainLoss(sign=-self.sign)

    # theta is a tensor: `check` has refused a missing one.
    def f(self, x: Tensor, theta: Any) -> Tensor:
        return self.sign * torch.sub(x, theta).squeeze(-1)

    def shifted(self, theta: Any, shift: float) -> Tensor | None:
        # f - c is the gain above the price theta + c.
        price: Tensor = theta + shift
        if (price < LOW).any() or (price > HIGH).any():
            raise ValueError(
                f"shift: expected theta + shift within [{LOW:g}, {HIGH:g}], the proposals' range, "
                f"got {shift:g}"
            )
        return price

    def defensive(self, y: Tensor, theta: Any) -> GammaExcess:
        ahead = self.sign * (self.posterior_mean(y) - theta)
        scale = 0.4 + 0.5 * ahead.clamp(min=0)
        # Of shape 2: like f near its zero.
        return GammaExcess(theta, scale, self.sign, shape=2)

    def optimal_proposals(self) -> OptimalProposals:
        return {
            "q1_plus": partial(WeightedPosterior, self),
            "q1_minus": partial(WeightedPosterior, self.with_negated_f()),
            "q2": self.posterior,
        }

    def _mean_and_edge(self, y: Tensor, theta: Any) -> tuple[Array, Array]:
        """m - theta, and a, the price in standard deviations from the mean on the side of -f."""
        distance = (self.posterior_mean(y) - theta).squeeze(-1).cpu().numpy()
        return self.sign * distance, -self.sign * distance / self.scale

    def _log_parts(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        _, edge = self._mean_and_edge(y, theta)
        log_scale = math.log(self.scale)
        return log_mean_excess(edge) + log_scale, log_mean_excess(-edge) + log_scale

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        mu, _ = self._mean_and_edge(y, theta)
        with np.errstate(divide="ignore"):
            return np.log(np.abs(mu)), np.sign(mu)

    def _log_mean_absolute_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        # f - mu = x - m: the mean absolute deviation of a normal.
        return np.full(y.shape[:-1], math.log(self.scale * math.sqrt(2 / math.pi)))

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        # E_g[log|f|] - log E|f|, and s cancels. The density of t = |z - a| is
        # phi(a + t) + phi(a - t), z a standard normal. Nodes crowd at t = 0, where the
        # logarithm is singular.
        edge = self._mean_and_edge(y, theta)[1][..., None]
        nodes, weights = gauss_legendre(NODES)
        root = (nodes + 1) / 2
        longest = np.abs(edge) + REACH
        t = longest * root**2
        density = norm.pdf(edge + t) + norm.pdf(edge - t)
        mass = density * t * (longest * root * weights)
        total = mass.sum(-1)
        return np.asarray(np.maximum((mass * np.log(t)).sum(-1) / total - np.log(total), 0.0))

    def _path(self, y: Tensor, theta: Any, t: float) -> tuple[Tensor, Tensor | None]:
        # The mismatch is largest where the price is the mean, and falls on either side: from the
        # end of the prices on this side of the mean to the mean.
        top = self.posterior_mean(y).clamp(LOW, HIGH)
        # Where the mean is at the end, or beyond, there is one side only.
        below = (theta < top) | (top >= HIGH)
        start = torch.where(below & (top > LOW), LOW, HIGH)
        return y, start + t * (top - start)


def log_mean_excess(edge: Array) -> Array:
    """log E[(z - a)_+] of a standard normal z, in nats: log(phi(a) - a (1 - Phi(a))).

    Through Mills' ratio where a > 0: the difference would lose its digits.
    """
    edge = np.asarray(edge)
    log_phi = norm.logpdf(edge)
    far = np.maximum(edge, 0.0)
    near = np.minimum(edge, 0.0)
    mills = math.sqrt(math.pi / 2) * erfcx(far / math.sqrt(2))
    above = log_phi + np.log1p(-far * mills)
    with np.errstate(divide="ignore"):
        below = np.logaddexp(log_phi, np.log(-near) + log_ndtr(-near))
    return np.asarray(np.where(edge > 0, above, below))


class WeightedPosterior:
    """f_plus p(x | y), normalized by Bachelier's formula: the optimal q1_plus.

    It is the density (z - a)_+ phi(z) / C of z = sign (x - m) / s, with a the price on that scale.
    """

    def __init__(self, problem: GainLoss, y: Tensor, theta: Any) -> None:
        self.batch_shape = y.shape[:-1]
        self._sign, self._scale = problem.sign, problem.scale
        self._mean, self._theta = problem.posterior_mean(y), torch.as_tensor(theta)
        self._edge = (self._sign * (self._theta - self._mean) / self._scale).squeeze(-1)
        self._log_mass = torch.as_tensor(log_mean_excess(self._edge.numpy()))

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        uniform = 1 - torch.rand(*self.batch_shape, n, dtype=self._edge.dtype, generator=generator)
        log_beyond = (uniform.log() + self._log_mass[..., None]).numpy()
        # The part of E[(z - a)_+] beyond z falls in the excess t = z - a.
        excess = elementwise.find_root(
            lambda t, edge, log_beyond: _log_excess_beyond(edge + t, edge) - log_beyond,
            (0.0, LARGEST_EXCESS),
            args=(self._edge[..., None].numpy(), log_beyond),
        )
        distance = self._sign * self._scale * torch.as_tensor(excess.x)
        x = strictly_beyond(self._theta + distance, self._theta, self._sign)[..., None]
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        distance = self._sign * (x - self._theta[..., None, :]).squeeze(-1)
        z = (x - self._mean[..., None, :]) / self._scale
        inside = distance > 0
        log_excess = distance.where(inside, 1.0).log() - 2 * math.log(self._scale)
        log_density = log_excess + standard_normal_log_prob(z) - self._log_mass[..., None]
        return log_density.where(inside, -math.inf)


def _log_excess_beyond(z: Array, edge: Array) -> Array:
    """log E[(Z - a); Z > z] of a standard normal Z for z >= a, in nats."""
    # E[(Z - a); Z > z] = E[(Z - z)_+] + (z - a) P(Z > z), two positive parts.
    with np.errstate(divide="ignore"):
        rest = np.log(z - edge) + log_ndtr(-z)
    return np.asarray(np.logaddexp(log_mean_excess(z), rest))
