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
        preceding = (first[..., None] - self.size) / self.spread
        raw = softplus(self.beta(y, theta, preceding) + ONE) + SMALLEST
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
        first = _positive(torch._standard_gamma(shape, generator=generator) / self._gamma.rate)
        beta = self._proposal.second(self._y, self._theta, first)
        success, failure = (
            _positive(torch._standard_gamma(c, generator=generator))
            for c in (beta.concentration1, beta.concentration0)
        )
        return self._points(first, success / (success + failure))

    def draw_from_uniform(
        self, u: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        u_1, u_2 = u.reshape(len(self._y), -1, 2).unbind(-1)
        shape = self._gamma.concentration.expand_as(u_1)
        first = _positive(_quantile(gammaincinv, u_1, shape) / self._gamma.rate)
        beta = self._proposal.second(self._y, self._theta, first)
        second = _quantile(betaincinv, u_2, beta.concentration1, beta.concentration0)
        return self._points(first, second)

    def _points(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Points (*, n, 2) of coordinates (cases, n), with their log density."""
        eps = torch.finfo(second.dtype).eps
        x = self.by_batch(torch.stack([first, second.clamp(eps, 1 - eps)], -1))
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        first, second = self.by_case(x).unbind(-1)
        inside = (first > 0) & (second > 0) & (second < 1)
        first, second = first.where(inside, self._proposal.size), second.where(inside, 0.5)
        beta = self._proposal.second(self._y, self._theta, first)
        log_q = self._gamma.log_prob(first) + beta.log_prob(second)
        return self.by_batch(log_q.where(inside, -torch.inf))


def _positive(values: Tensor) -> Tensor:
    """Values that rounding may have taken to zero."""
    return values.clamp(min=torch.finfo(values.dtype).tiny)


def _quantile(inverse: Any, u: Tensor, *parameters: Tensor) -> Tensor:
    """The quantiles at u (*) of a distribution with these parameters, by an inverse of SciPy."""
    numbers = (parameter.double().cpu().numpy() for parameter in parameters)
    return torch.as_tensor(inverse(*numbers, u.cpu().numpy())).to(u)
