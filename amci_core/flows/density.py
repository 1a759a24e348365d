r"""What a proposal is: a conditional density q(x; y, theta).

A flow's parameters depend on (y, theta) alone, or on the coordinates before as well. What depends
on (y, theta) alone is computed once, when a proposal is called; the density that this gives has
points grouped by case, (cases, draws, D), so that parameters broadcast instead of being copied.

Of normflows, the masked network `MADE` and the names of its Gaussian base are used. Its coupling
splines with context (four layers, 64 hidden units, 16 bins, five dimensions) drew a seventh of the
points a second that our splines of these sizes drew, and evaluated a quarter of the densities:
every layer reads the context anew at every point, where ours prepares it once per (y, theta). Its
`rational_quadratic_spline` takes twice the time of `Knots`, and its flows draw from the global
generator.
"""

from __future__ import annotations

__all__ = [
    "ConditionalDensity",
    "Density",
    "MixtureDensity",
    "Proposal",
    "Trainable",
    "TrainableDensity",
    "log_sum",
]

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn


class Density(Protocol):
    """Whatever can be drawn from and evaluated."""

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Points and their log density."""

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density of points."""


class ConditionalDensity(ABC):
    """A proposal at given y, theta of batch shape (*): what estimators draw from.

    Arguments:
        batch_shape: The broadcast batch shape of y and theta.
    """

    def __init__(self, batch_shape: torch.Size) -> None:
        self.batch_shape = batch_shape

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


class TrainableDensity(ConditionalDensity):
    """A density that transports base points to points, so that these can be stratified.

    Base points are uniform on (0, 1]^D, unless a subclass says otherwise.

    Arguments:
        batch_shape: The broadcast batch shape of y and theta.
        dim: Number of dimensions D of x.
        like: A tensor of the type and on the device of the points.
    """

    def __init__(self, batch_shape: torch.Size, *, dim: int, like: Tensor) -> None:
        super().__init__(batch_shape)
        self.cases = math.prod(batch_shape)
        self.dim, self.like = dim, like

    @abstractmethod
    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Base points (cases * n, D) as points x (*, n, D), with log q(x) (*, n)."""

    def from_uniform(self, u: Tensor) -> Tensor:
        """Base points out of uniform ones on (0, 1]^D, (cases * n, D)."""
        return u

    def noise(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Base points for n draws of every case, (cases * n, D)."""
        # On (0, 1]: zero is the end of a tail.
        return self.from_uniform(1.0 - self._random(self.cases * n, generator=generator))

    def stratified_noise(self, n: int, generator: torch.Generator) -> Tensor:
        """Base points as `noise`, one in each of n equal strata of every coordinate."""
        order, within = self._random(2, self.cases, n, generator=generator)
        strata = (order.argsort(dim=1) + 1 - within) / n
        return self.from_uniform(strata.reshape(-1, self.dim))

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        return self.transport(self.noise(n, generator))

    def _random(self, *shape: int, generator: torch.Generator | None) -> Tensor:
        like = self.like
        return torch.rand(
            *shape, self.dim, dtype=like.dtype, device=like.device, generator=generator
        )


class MixtureDensity(TrainableDensity):
    """A mixture with a density that may be a proposal of its own, and is then evaluated once.

    Attributes:
        component: That density.
    """

    component: TrainableDensity

    @abstractmethod
    def transport_both(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `transport`, with the component's log density at the points as well, (*, n)."""

    @abstractmethod
    def log_prob_given(self, x: Tensor, log_component: Tensor) -> Tensor:
        """As `log_prob`, where the component's log density is known, (*, n)."""

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x, log_q, _ = self.transport_both(z)
        return x, log_q

    def log_prob(self, x: Tensor) -> Tensor:
        return self.log_prob_given(x, self.component.log_prob(x))


class Trainable(nn.Module, Proposal):
    """A proposal with weights; refined ones give a `TrainableDensity`.

    A new family is one file in this folder, with a subclass that defines `density` and
    `initialize`, and one line in `FAMILIES`.
    """

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        """The density at y (*, D_y) and theta (*, D_theta).

        Raises:
            ValueError: a parameter is NaN; names it.
        """
        return self.at(y, theta)

    @abstractmethod
    def at(
        self, y: Tensor, theta: Tensor | None, component: TrainableDensity | None = None
    ) -> ConditionalDensity:
        """As when called; `component` is the density of `self.component`, where that is known."""

    @abstractmethod
    def initialize(self, generator: torch.Generator) -> None:
        """Draws the weights that training starts from."""

    @property
    def component(self) -> Trainable | None:
        """A proposal that this one is a mixture with."""
        return None

    def tie(self, other: Trainable) -> None:
        """Takes `other` itself as its component, where that is equal to it."""

    def adopt(self, trained: Mapping[str, Trainable]) -> bool:
        """Takes over what it has of proposals trained before it, by name.

        Returns:
            Whether it has anything of them; most have not.

        Raises:
            ValueError: one that it needs is not there.
        """
        return False

    def refuse_nan(self, *computed: Tensor) -> None:
        """Looks for NaN in what was computed from the parameters, and names the parameter.

        Training sees NaN in its loss instead.
        """
        if torch.is_grad_enabled():
            return
        if math.isnan(sum(tensor.sum().item() for tensor in computed)):
            bad = [name for name, value in self.named_parameters() if value.isnan().any()]
            raise ValueError(
                f"proposal: the parameters {', '.join(bad)} of a {type(self).__name__} are NaN"
                if bad
                else f"proposal: the networks of a {type(self).__name__} give NaN here"
            )


def log_sum(first: Tensor, second: Tensor) -> Tensor:
    """log(exp(first) + exp(second)), whose gradient is zero where both are -inf.

    That of `torch.logaddexp` is NaN there.
    """
    least = torch.finfo(first.dtype).min
    found = torch.logaddexp(first.clamp(min=least), second.clamp(min=least))
    return found.masked_fill(found == least, -math.inf)
