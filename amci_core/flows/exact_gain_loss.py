r"""Exact optimal proposals of the gain-loss problem: a normal times the distance to the price."""

from __future__ import annotations

__all__ = ["WeightedPosterior"]

import math

import numpy as np
import torch
from scipy.special import log_ndtr
from torch import Tensor

from amci_core.flows.density import ConditionalDensity, Proposal
from amci_core.models.base import strictly_above
from amci_core.models.gain_loss import GainLoss, log_mean_excess

HALVINGS = 60
# No excess of a standard normal over its edge is drawn beyond this.
LARGEST_EXCESS = 40.0


class WeightedPosterior(Proposal):
    """q1 of the gain-loss problem: f_plus p(x | y), normalised by Bachelier's formula.

    Arguments:
        problem: The problem, for q1_plus; negated, for q1_minus.
    """

    def __init__(self, problem: GainLoss) -> None:
        self.problem = problem

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        assert theta is not None
        return _Excess(self.problem, self.problem.posterior_mean(y), theta)


class _Excess(ConditionalDensity):
    """Density (z - a)_+ phi(z) / C of z = sign (x - m) / s, with a the price on that scale."""

    def __init__(self, problem: GainLoss, mean: Tensor, theta: Tensor) -> None:
        super().__init__(mean.shape[:-1])
        self._sign, self._scale = problem.sign, problem.scale
        self._mean, self._theta = mean, theta
        self._edge = (self._sign * (theta - mean) / self._scale).squeeze(-1)
        self._log_mass = torch.as_tensor(log_mean_excess(self._edge.numpy()))

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        uniform = 1 - torch.rand(*self.batch_shape, n, dtype=self._edge.dtype, generator=generator)
        wanted = (uniform.log() + self._log_mass[..., None]).numpy()
        edge = self._edge[..., None].numpy()
        # The survival function of the excess t is phi(z) - a (1 - Phi(z)) at z = a + t, over C.
        low, high = np.zeros_like(wanted), np.full_like(wanted, LARGEST_EXCESS)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            above = _log_survival(edge + middle, edge) > wanted
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        excess = torch.as_tensor((low + high) / 2) * self._scale
        bound = self._sign * self._theta
        x = self._sign * strictly_above(bound + excess, bound)
        return x[..., None], self.log_prob(x[..., None])

    def log_prob(self, x: Tensor) -> Tensor:
        distance = self._sign * (x - self._theta[..., None, :]).squeeze(-1)
        z = (x - self._mean[..., None, :]).squeeze(-1) / self._scale
        inside = distance > 0
        log_excess = distance.where(inside, 1.0).log() - math.log(self._scale)
        log_phi = -0.5 * z.square() - 0.5 * math.log(2 * math.pi)
        log_density = log_excess + log_phi - self._log_mass[..., None] - math.log(self._scale)
        return log_density.where(inside, -math.inf)


def _log_survival(z: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """log(phi(z) - a (1 - Phi(z))) for z >= a, in nats: E[(z - a)_+] beyond z."""
    # E[(Z - a); Z > z] = E[(Z - z)_+] + (z - a) P(Z > z), two positive parts.
    with np.errstate(divide="ignore"):
        return np.logaddexp(log_mean_excess(z), np.log(z - edge) + log_ndtr(-z))
