r"""Any integral is an expectation: Genz's product peak on the unit square, under a uniform x."""

from __future__ import annotations

__all__ = ["ProductPeak"]

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.models.base import Array, OptimalProposals, Variable, gauss_legendre
from amci_core.models.densities import DefensiveProblem

DIM = 2
# Sharpness runs from 10^0, a mild hill, to 10^2, a needle.
DECADES = 2.0
NODES = 400


class ProductPeak(DefensiveProblem):
    r"""A peak of height one on the unit square: the paper's remark on general integrals.

    x is uniform on [0, 1]^2 and nothing is observed, so that E2 = 1 is known and no q2 is needed:
    mu(theta) is the integral of

        f(x; theta) = prod_d 1 / (1 + a^2 (x_d - u_d)^2),    theta = (u_1, u_2, s),  a = 100^s,

    with the centres u and the sharpness s uniform on [0, 1]. In closed form
    mu = prod_d (arctan(a (1 - u_d)) + arctan(a u_d)) / a.

    References:
        Genz, Testing multidimensional integration routines, 1984: family 2, scaled to height one.
    """

    nonnegative = True
    f_range = (0.0, 1.0)
    name = "peak"
    title = "Product peak"
    description = (
        "How large is the integral of a peak, from a mild hill to a needle? Nothing is "
        "observed and E₂ = 1 is known: a proposal for f is all that is needed."
    )
    formula = r"\mu(\theta)=\int_{[0,1]^2}\prod_d\frac{1}{1+a^2(x_d-u_d)^2}\,dx,\quad a=100^s"
    x = Variable("x", DIM, 0.0, 1.0, "a point of the unit square")
    y = None
    theta: Variable = Variable(
        "theta", DIM + 1, 0.0, 1.0, "both centres of the peak, and its sharpness s"
    )

    def log_prior(self, x: Tensor) -> Tensor:
        inside = ((x >= 0) & (x <= 1)).all(-1)
        return torch.zeros_like(x[..., 0]).masked_fill(~inside, -math.inf)

    # theta is a tensor: `check` has refused a missing one.
    def f(self, x: Tensor, theta: Any) -> Tensor:
        centre, sharpness = _split(theta)
        return (1 / (1 + (sharpness * (x - centre)).square())).prod(-1)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return self.x.uniform(n, generator)

    def prior_from_uniform(self, u: Tensor) -> Tensor:
        return u

    def sample_training(
        self, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        theta = self.theta.uniform(n, generator)
        x, log_q = self.sample_defensive(theta[:, :0], theta, 1, generator)
        x = x[:, 0]
        return x, theta, self.f(x, theta).log() - log_q[:, 0]

    def defensive(self, y: Tensor, theta: Tensor | None) -> _TruncatedCauchy:
        # A peak of the same kind and half the sharpness, which covers the whole square.
        return _TruncatedCauchy(theta, broadening=2)

    def optimal_proposals(self) -> OptimalProposals:
        return {"q1_plus": lambda y, theta: _TruncatedCauchy(theta)}

    def _angles(self, theta: Any) -> tuple[Array, Array, Array]:
        """Sharpness (*, 1), and arctan(a (x - u)) at both ends of the square, (*, 2) each."""
        centre, sharpness = (part.cpu().numpy() for part in _split(theta))
        return sharpness, np.arctan(-sharpness * centre), np.arctan(sharpness * (1 - centre))

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        sharpness, low, high = self._angles(theta)
        return (np.log(high - low) - np.log(sharpness)).sum(-1), np.ones(y.shape[:-1])

    def _log_mean_absolute_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        # E|f - mu| = 2 E(f - mu)_+. At a given x_1 with height h, f > mu where
        # |x_2 - u_2| < sqrt(h / mu - 1) / a: the inner integral is in closed form, the outer one
        # is a quadrature in the angle of x_1.
        sharpness, low, high = self._angles(theta)
        mu = np.exp(self._log_truth(y, theta)[0])[..., None]
        widest = np.arctan(np.sqrt(np.maximum(1 / mu - 1, 0)))
        nodes, weights = gauss_legendre(NODES)
        start = np.maximum(low[..., :1], -widest)
        stop = np.minimum(high[..., :1], widest)
        angle = (start + stop) / 2 + (stop - start) / 2 * nodes
        height = np.cos(angle) ** 2
        half = np.arctan(np.sqrt(np.maximum(height / mu - 1, 0)))
        left, right = np.maximum(low[..., 1:], -half), np.minimum(high[..., 1:], half)
        above = height * (right - left) - mu * (np.tan(right) - np.tan(left))
        measure = (stop - start) / 2 * weights / height
        with np.errstate(divide="ignore"):
            log_sum = np.log(2 * (above * measure).sum(-1))
        return np.asarray(log_sum - 2 * np.log(sharpness[..., 0]))

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        # E_g[log f] - log mu; in the angle, g is uniform and log f is 2 log cos.
        _, low, high = self._angles(theta)
        nodes, weights = gauss_legendre(NODES)
        angle = ((low + high)[..., None] + (high - low)[..., None] * nodes) / 2
        mean = (2 * np.log(np.cos(angle)) * weights / 2).sum((-1, -2))
        return np.asarray(np.maximum(mean - self._log_truth(y, theta)[0], 0.0))

    def _path(self, y: Tensor, theta: Any, t: float) -> tuple[Tensor, Tensor | None]:
        return y, torch.cat([theta[:DIM], torch.full_like(theta[DIM:], t)])


class _TruncatedCauchy:
    """f, normalized: a Cauchy distribution a coordinate, truncated to [0, 1].

    Arguments:
        theta: Centres and sharpness (*, 3).
        broadening: What its sharpness is divided by.
    """

    def __init__(self, theta: Any, *, broadening: float = 1.0) -> None:
        self.batch_shape = theta.shape[:-1]
        self._centre, sharpness = _split(theta[..., None, :])
        self._sharpness = sharpness / broadening
        self._low = torch.atan(-self._sharpness * self._centre)
        self._width = torch.atan(self._sharpness * (1 - self._centre)) - self._low

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        u = self._low.new_empty(*self.batch_shape, n, DIM).uniform_(generator=generator)
        x = self.from_uniform(u)
        return x, self.log_prob(x)

    def from_uniform(self, u: Tensor) -> Tensor:
        """Points of uniform ones, (*, n, 2)."""
        angle = self._low + u * self._width
        return (self._centre + angle.tan() / self._sharpness).clamp(0, 1)

    def log_prob(self, x: Tensor) -> Tensor:
        squared = (self._sharpness * (x - self._centre)).square()
        log_density = (self._sharpness / self._width).log() - squared.log1p()
        inside = ((x >= 0) & (x <= 1)).all(-1)
        return log_density.sum(-1).where(inside, -math.inf)


def _split(theta: Tensor) -> tuple[Tensor, Tensor]:
    """Centres (*, 2) and the sharpness a (*, 1)."""
    return theta[..., :DIM], 10 ** (DECADES * theta[..., DIM:])
