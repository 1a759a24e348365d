r"""What a proposal is: a conditional density q(x; y, theta).

A flow's parameters depend on (y, theta) alone, or on the coordinates before as well. What depends
on (y, theta) alone is computed once, when a proposal is called; the density that this gives has
points grouped by case, (cases, draws, D), so that parameters broadcast instead of being copied.

Of normflows the masked network `MADE` is used, and any of its models can be trained (see
`amci_core.flows.external`). Coupling splines of normflows with context (four layers, 64 hidden
units, 16 bins, five dimensions) drew a seventh of the points a second that our splines of these
sizes drew, and evaluated a quarter of the densities: every layer reads the context anew at every
point, where ours prepares it once per (y, theta).
"""

from __future__ import annotations

__all__ = ["ConditionalDensity", "Proposal", "Trainable", "TransformedDensity"]

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

# Rows that go through the networks at once: on a CPU their intermediate values fit its caches, on
# a GPU they fill it.
PIECE = {"cpu": 2048, "cuda": 2**21}


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

    def by_case(self, x: Tensor) -> Tensor:
        """Points (*, n, D), or the same (n, D) for all cases, grouped by case: (cases, n, D)."""
        x = x.expand(*self.batch_shape, *x.shape[-2:])
        return x.reshape(math.prod(self.batch_shape), *x.shape[-2:])

    def by_batch(self, values: Tensor) -> Tensor:
        """Values (cases, n, ...) in the batch shape: (*, n, ...)."""
        return values.reshape(*self.batch_shape, *values.shape[1:])


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

    Base samples are uniform on (0, 1]^D, unless a subclass says otherwise. Subclasses define the
    transform for points grouped by case: `_forward` of base samples (cases, n, D) gives x and
    log q(x), (cases, n, D) and (cases, n); `_log_prob` of x (cases, n, D) gives log q(x).

    Arguments:
        batch_shape: The broadcast batch shape of y and theta.
        dim: Number of dimensions D of x.
        like: A tensor of the type and on the device of the points.

    Attributes:
        network_rows: Rows that the networks read for a point, in `_forward` and in `_log_prob`;
            many points then go through in pieces. Zero: all points go through at once.
    """

    takes_uniform = True
    network_rows: tuple[int, int] = 0, 0

    def __init__(self, batch_shape: torch.Size, *, dim: int, like: Tensor) -> None:
        super().__init__(batch_shape)
        self.cases = math.prod(batch_shape)
        self.dim, self.like = dim, like

    def _forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def _log_prob(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Base samples (cases * n, D) as points x (*, n, D), with log q(x) (*, n)."""
        z = z.reshape(self.cases, -1, self.dim)
        x, log_q = self._in_pieces(self._forward, z, self.network_rows[0])
        return self.by_batch(x), self.by_batch(log_q)

    def log_prob(self, x: Tensor) -> Tensor:
        def evaluate(points: Tensor) -> tuple[Tensor]:
            return (self._log_prob(points),)

        (log_q,) = self._in_pieces(evaluate, self.by_case(x), self.network_rows[1])
        return self.by_batch(log_q)

    def _in_pieces(
        self, compute: Callable[[Tensor], tuple[Tensor, ...]], points: Tensor, rows: int
    ) -> tuple[Tensor, ...]:
        """What is computed of points (cases, n, D), some of the n at a time."""
        if not rows or torch.is_grad_enabled():
            return compute(points)
        most = PIECE.get(points.device.type, PIECE["cuda"])
        pieces = points.split(max(1, most // (self.cases * rows)), 1)
        return tuple(torch.cat(part, 1) for part in zip(*map(compute, pieces), strict=True))

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

    def start_near(self, x: Tensor, y: Tensor, theta: Tensor | None) -> None:
        """Starts near particles x (cases, n, D) of cases; by default as it is."""
