r"""The paper's proposals for the tumour: a gamma distribution, then a beta given its value."""

from __future__ import annotations

__all__ = ["GammaBeta"]

from typing import Any

import torch
from scipy.special import betaincinv, gammaincinv
from torch import Tensor
from torch.distributions import Beta, Gamma
from torch.nn.functional import softplus

from amci_core.flows.conditioner import Conditioner, flat_cases
from amci_core.flows.density import ConditionalDensity, Trainable
from amci_core.models.base import Problem

# Means and standard deviations are softplus(free + ONE), so that they start at their unit.
ONE = 0.5413
# No standard deviation falls below this share of its unit.
SMALLEST = 1e-3


class GammaBeta(Trainable):
    """q(x_1, x_2) = Gamma(x_1; y) Beta(x_2; y, x_1).

    Mean and standard deviation of the gamma, and both concentrations of the beta, are softplus of
    what two networks predict; the second reads x_1 beside y.

    Arguments:
        problem: A problem whose x is a positive number and a probability.
        size: The unit of x_1, about its mean.
        spread: The unit of its standard deviation.
        network: `hidden` and `activation` of each network, see `Conditioner`.

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, appendix "Cancer
        example", paragraph "Amortization".
    """

    def __init__(self, problem: Problem, *, size: float, spread: float, **network: Any) -> None:
        super().__init__()
        self.problem, self.size, self.spread = problem, size, spread
        self.gamma = Conditioner(problem, out=2, **network)
        self.beta = Conditioner(problem, out=2, preceding=1, **network)

    def initialize(self, generator: torch.Generator) -> None:
        self.gamma.initialize(generator)
        self.beta.initialize(generator)

    def at(self, y: Tensor, theta: Tensor | None) -> GammaBetaDensity:
        return GammaBetaDensity(self, y, theta)

    def first(self, y: Tensor, theta: Tensor | None) -> Gamma:
        """The gamma distribution of x_1 for y (cases, D_y): batch shape (cases, 1)."""
        raw = self.gamma(y, theta)
        mean = self.size * softplus(raw[:, :1] + ONE)
        deviation = self.spread * (SMALLEST + softplus(raw[:, 1:] + ONE))
        shape = (mean / deviation).square()
        return Gamma(shape, shape / mean, validate_args=False)

    def second(self, y: Tensor, theta: Tensor | None, first: Tensor) -> Beta:
        """The beta distribution of x_2 given x_1 (cases, n): batch shape (cases, n)."""
        # The points of a grid share first coordinates; the network reads each of them once.
        alike = len(first) == 1 and not first.requires_grad
        read, place = first.unique(return_inverse=True) if alike else (first, None)
        preceding = (read.reshape(len(first), -1, 1) - self.size) / self.spread
        raw = softplus(self.beta(y, theta, preceding) + ONE) + SMALLEST
        raw = raw if place is None else raw[:, place[0]]
        return Beta(raw[..., 0], raw[..., 1], validate_args=False)


class GammaBetaDensity(ConditionalDensity):
    """The two distributions at given y and theta."""

    takes_uniform = True

    def __init__(self, proposal: GammaBeta, y: Tensor, theta: Tensor | None) -> None:
        super().__init__(y.shape[:-1])
        self._proposal = proposal
        self._y, self._theta = flat_cases(y, theta)
        self._gamma = proposal.first(self._y, self._theta)

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        shape = self._gamma.concentration.expand(-1, n)
        tiny = torch.finfo(shape.dtype).tiny
        first = torch._standard_gamma(shape, generator=generator) / self._gamma.rate
        first = first.clamp(min=tiny)
        beta = self._proposal.second(self._y, self._theta, first)
        success, failure = (
            torch._standard_gamma(c, generator=generator).clamp(min=tiny)
            for c in (beta.concentration1, beta.concentration0)
        )
        eps = torch.finfo(shape.dtype).eps
        second = (success / (success + failure)).clamp(eps, 1 - eps)
        x = torch.stack([first, second], -1).reshape(*self.batch_shape, n, 2)
        return x, self.log_prob(x)

    def draw_from_uniform(
        self, u: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        first, second = u.reshape(len(self._y), -1, 2).unbind(-1)
        shape, rate = self._gamma.concentration, self._gamma.rate
        size = quantile(gammaincinv, first, shape.expand_as(first)) / rate
        size = size.clamp(min=torch.finfo(size.dtype).tiny)
        beta = self._proposal.second(self._y, self._theta, size)
        share = quantile(betaincinv, second, beta.concentration1, beta.concentration0)
        eps = torch.finfo(share.dtype).eps
        x = torch.stack([size, share.clamp(eps, 1 - eps)], -1)
        x = x.reshape(*self.batch_shape, -1, 2)
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:])
        first, second = x.reshape(len(self._y), *x.shape[-2:]).unbind(-1)
        inside = (first > 0) & (second > 0) & (second < 1)
        size, share = first.where(inside, self._proposal.size), second.where(inside, 0.5)
        log_q: Tensor = self._gamma.log_prob(size)
        log_q = log_q + self._proposal.second(self._y, self._theta, size).log_prob(share)
        return log_q.where(inside, -torch.inf).reshape(x.shape[:-1])


def quantile(inverse: Any, u: Tensor, *parameters: Tensor) -> Tensor:
    """The quantiles at u (*) of a distribution with these parameters, by an inverse of SciPy."""
    found = inverse(*(p.double().cpu().numpy() for p in parameters), u.cpu().numpy())
    return torch.as_tensor(found).to(u)
