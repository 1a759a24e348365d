r"""What each proposal is trained towards: f_plus p(x, y), f_minus p(x, y) or p(x, y)."""

from __future__ import annotations

__all__ = ["TARGETS", "JointTarget", "MinusTarget", "PlusTarget", "Target"]

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from amci_core.models import Problem, Variable
from amci_core.training.sources import Source, importance


class Sample(NamedTuple):
    """Weighted training draws: y (n, D_y), theta (n, D_theta) or None, x (n, D), log r (n)."""

    y: Tensor
    theta: Tensor | None
    x: Tensor
    log_r: Tensor


class Target(ABC):
    """An unnormalised density t(x) p(x, y), its training draws and a reference that surely reaches
    it.

    Arguments:
        problem: The problem whose term it is.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def cases(
        self, n: int, *, uniform: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """Pairs y, theta: n from p(y) p(theta), `uniform` more spread over the ranges shown."""
        y, theta = self.problem.sample_cases(n, generator)
        y = torch.cat([y, self._spread(self.problem.y, uniform, generator)])
        if theta is None or self.problem.theta is None:
            return y, None
        return y, torch.cat([theta, self._spread(self.problem.theta, uniform, generator)])

    @staticmethod
    def _spread(variable: Variable | None, n: int, generator: torch.Generator) -> Tensor:
        if variable is None:
            return torch.empty(n, 0, device=generator.device)
        low, high = variable.shown or (variable.low, variable.high)
        shape = (n, variable.dim)
        uniform = torch.rand(
            shape, dtype=torch.float32, generator=generator, device=generator.device
        )
        return low + (high - low) * uniform

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator, source: Source = importance) -> Sample:
        """n weighted draws of (theta, x) from the source, and y: the paper's data sets."""

    @abstractmethod
    def log_density(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        """log t(x) p(x, y) in nats at x (*, n, D); result: (*, n)."""

    @abstractmethod
    def reference(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> Tensor:
        """n points of a broad density that reaches the whole target: (*, n, D)."""

    @abstractmethod
    def log_reference(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        """Log density (nats) of those points at x (*, n, D); result: (*, n)."""


class PlusTarget(Target):
    """f_plus(x; theta) p(x, y), for q1_plus."""

    def sample(self, n: int, generator: torch.Generator, source: Source = importance) -> Sample:
        x, theta, log_r = source(self.problem, n, generator)
        return Sample(self.problem.sample_likelihood(x, generator), theta, x, log_r)

    def log_density(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        f_plus, _ = self.problem.f_parts(x, theta)
        return self.problem.log_joint(x, y) + f_plus.log()

    def reference(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> Tensor:
        return self.problem.sample_reference(y, theta, n, generator)[0]

    def log_reference(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        return self.problem.log_reference(x, y, theta)


class MinusTarget(PlusTarget):
    """f_minus(x; theta) p(x, y), for q1_minus: the f_plus of -f."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.negated())


class JointTarget(Target):
    """p(x, y), for q2; its reference is the prior."""

    def sample(self, n: int, generator: torch.Generator, source: Source = importance) -> Sample:
        # p(x, y) is drawn from directly, whatever the source.
        x = self.problem.sample_prior(n, generator)
        y = self.problem.sample_likelihood(x, generator)
        return Sample(y, self.problem.sample_theta(n, generator), x, torch.zeros_like(x[:, 0]))

    def log_density(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        return self.problem.log_joint(x, y)

    def reference(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> Tensor:
        cases = math.prod(y.shape[:-1])
        return self.problem.sample_prior(cases * n, generator).reshape(*y.shape[:-1], n, -1)

    def log_reference(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        return self.problem.log_prior(x)


TARGETS: dict[str, type[Target]] = {
    "q1_plus": PlusTarget,
    "q1_minus": MinusTarget,
    "q2": JointTarget,
}
