"""Normal densities to start a term from, and terms whose value is known."""

import math
from dataclasses import dataclass

import torch
from torch.distributions import constraints

from amci_core.term_methods import Integrand

LOG_TWO_PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Normal:
    """N(mean, scale^2) in every coordinate."""

    mean: float = 0.0
    scale: float = 1.0
    dim: int = 1

    def draw(self, n, generator=None):
        z = torch.randn(n, self.dim, dtype=torch.float64, generator=generator)
        x = self.mean + self.scale * z
        return x, self.log_prob(x)

    def log_prob(self, x):
        z = (x - self.mean) / self.scale
        return (-0.5 * z.square() - 0.5 * LOG_TWO_PI - math.log(self.scale)).sum(-1)


def normal_term(*, mean=0.0, scale=1.0, dim=1, log_size=0.0):
    """exp(log_size) N(x; mean, scale^2): the term is exp(log_size)."""
    density = Normal(mean, scale, dim)
    return Integrand(dim, lambda x: density.log_prob(x) + log_size, constraints.real)


def normal_above(bound, *, mean=0.0):
    """N(x; mean, 1) above the bound: the term is 1 - Phi(bound - mean)."""
    density = Normal(mean)

    def log_value(x):
        return density.log_prob(x).where((x > bound).all(-1), -torch.inf)

    return Integrand(1, log_value, constraints.greater_than(bound))
