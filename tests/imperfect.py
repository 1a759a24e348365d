"""Proposals that are deliberately not the best ones, so that estimates have errors to look at."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

import amci_core as amci
from amci_core.flows import FAMILIES, Proposal, Proposals
from amci_core.flows.density import TransformedDensity


class NormalDensity(TransformedDensity):
    def __init__(self, mean: Tensor, scale: float) -> None:
        super().__init__(mean.shape[:-1], dim=1, like=mean)
        self.mean, self.scale = mean, scale

    def base_samples(self, n, generator=None):
        return torch.randn(self.cases * n, 1, dtype=self.mean.dtype, generator=generator)

    def from_uniform(self, u):
        return torch.special.ndtri(u.clamp(max=1 - torch.finfo(u.dtype).eps))

    def forward(self, z):
        x = self.mean[..., None, :] + self.scale * z.reshape(*self.batch_shape, -1, 1)
        return x, self.log_prob(x)

    def log_prob(self, x):
        z = (x - self.mean[..., None, :]).squeeze(-1) / self.scale
        return -0.5 * z.square() - math.log(self.scale * math.sqrt(2 * math.pi))


class Normal(Proposal):
    """A normal whose mean is a function of y and theta."""

    def __init__(self, mean: Callable[[Tensor, Tensor], Tensor], scale: float) -> None:
        self.mean, self.scale = mean, scale

    def __call__(self, y, theta):
        return NormalDensity(self.mean(y, theta), self.scale)


def imperfect(problem: str = "tail-1d") -> Proposals:
    """For one-dimensional tails: wider than the targets, off centre, and q1 also below theta."""
    return Proposals(
        problem=problem,
        variant="imperfect",
        q1_plus=Normal(lambda y, theta: torch.maximum(y / 2, theta) + 0.2, scale=0.8),
        q1_minus=None,
        q2=Normal(lambda y, theta: y / 2 + 0.2 + 0 * theta, scale=0.9),
    )


def gaussian(mean_shift=0.0, log_scale_shift=0.0):
    """q2 = N(y / 2 + mean_shift, exp(2 log_scale_shift) / 2), tail-1d's exact one by default."""
    q2 = FAMILIES["gaussian"](
        amci.problem("tail-1d"), reads_theta=False, hidden=[], activation="relu"
    ).double()
    conditioner, last = q2.conditioner, q2.conditioner.network[-1]
    with torch.no_grad():
        last.weight.copy_(torch.stack([conditioner.half_width / 2, torch.zeros(1)]))
        bias = [conditioner.centre.item() / 2 + mean_shift, 0.5 * math.log(0.5) + log_scale_shift]
        last.bias.copy_(torch.tensor(bias))
    return q2
