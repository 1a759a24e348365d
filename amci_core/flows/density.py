r"""What a proposal is: a conditional density q(x; y, theta).

A flow's parameters depend on (y, theta) alone, or on the coordinates before as well. What depends
on (y, theta) alone is computed once, when a proposal is called; the density that this gives has
points grouped by case, (cases, draws, D), so that parameters broadcast instead of being copied.

Of normflows the masked network `MADE` is used, and any of its models can be trained (see
`amci_core.flows.of_normflows`). Coupling splines of normflows with context (four layers, 64 hidden
units, 16 bins, five dimensions) drew a seventh of the points a second that our splines of these
sizes drew, and evaluated a quarter of the densities: every layer reads the context anew at every
point, where ours prepares it once per (y, theta).
"""

from __future__ import annotations

__all__ = ["ConditionalDensity", "Proposal", "Trainable", "TransformedDensity"]

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class ConditionalDensity(ABC):
    """A proposal at given y, theta of batch shape (*): what estimators draw from.

    Arguments:
        batch_shape: The broadcast batch shape of y and theta.

    Attributes:
        takes_uniform: Whether it can `draw_from_uniform`, and so from Sobol points.
    """

    takes_uniform: bool = False

    def __init__(self, batch_shape: torch.Size) -> None:
        self.batch_shape = batch_shape

    def __repr__(self) -> str:
        return f"{type(self).__name__} of batch shape {tuple(self.batch_shape)}"

    def draw_from_uniform(
        self, u: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Uniform points of (0, 1]^D, (cases * n, D), as points x (*, n, D), with log q(x) (*, n).

        Arguments:
            u: The uniform points.
            generator: Draws what they cannot make, such as a component of a mixture.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot transform uniform points")

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """n points x (*, n, D) and their log density log q(x) in nats (*, n).

        Without a generator they come from torch's default one.
        """

    @abstractmethod
    def log_prob(self, x: Tensor) -> Tensor:
        """log q(x) in nats at points x (*, n, D); result: (*, n), -inf outside the support."""


class Proposal(ABC):
    """A conditional density q(x; y, theta): called with y and theta, gives a `ConditionalDensity`.

    Example:
        >>> import amci_core as amci
        >>> tail = amci.problem("tail-1d")
        >>> q1 = amci.load_proposals("tail-1d").q1_plus
        >>> x, log_q = q1(*tail.check(1.0, 3.0)).draw(4)
        >>> x.shape, bool((x > 3).all())
        (torch.Size([4, 1]), True)
    """

    @abstractmethod
    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        """The density at y (*, D_y) and theta (*, D_theta)."""


class TransformedDensity(ConditionalDensity):
    """The density of transformed base samples, which can be stratified or shared.

    Base samples are uniform on (0, 1]^D, unless a subclass says otherwise.

    Arguments:
        batch_shape: The broadcast batch shape of y and theta.
        dim: Number of dimensions D of x.
        like: A tensor of the type and on the device of the points.
    """

    takes_uniform = True

    def __init__(self, batch_shape: torch.Size, *, dim: int, like: Tensor) -> None:
        super().__init__(batch_shape)
        self.cases = math.prod(batch_shape)
        self.dim, self.like = dim, like

    @abstractmethod
    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Base samples (cases * n, D) as points x (*, n, D), with log q(x) (*, n)."""

    def from_uniform(self, u: Tensor) -> Tensor:
        """Base samples of uniform ones on (0, 1]^D, (cases * n, D)."""
        return u

    def draw_from_uniform(
        self, u: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        return self.forward(self.from_uniform(u))

    def base_samples(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Base samples for n draws of every case, (cases * n, D)."""
        # On (0, 1]: zero is the end of a tail.
        return self.from_uniform(1.0 - self._uniform(self.cases * n, generator=generator))

    def stratified_base_samples(self, n: int, generator: torch.Generator) -> Tensor:
        """As `base_samples`, one in each of n equal strata of every coordinate."""
        order, within = self._uniform(2, self.cases, n, generator=generator)
        strata = (order.argsort(dim=1) + 1 - within) / n
        return self.from_uniform(strata.reshape(-1, self.dim))

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        return self.forward(self.base_samples(n, generator))

    def _uniform(self, *shape: int, generator: torch.Generator | None) -> Tensor:
        like = self.like
        return torch.rand(
            *shape, self.dim, dtype=like.dtype, device=like.device, generator=generator
        )


class Trainable(nn.Module, Proposal):
    """A proposal with weights; refined ones give a `TransformedDensity`.

    A new family is one file in this folder, with a subclass that defines `at` and `initialize`,
    and one line in `FAMILIES`.
    """

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        return self.at(y, theta)

    @abstractmethod
    def at(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        """The density at y (*, D_y) and theta (*, D_theta)."""

    @abstractmethod
    def initialize(self, generator: torch.Generator) -> None:
        """Draws the weights that training starts from."""
