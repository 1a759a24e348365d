r"""What a proposal is: a conditional density q(x; y, theta), and the set of them for a problem.

A flow's parameters depend on (y, theta) alone, or on the coordinates before as well. What depends
on (y, theta) alone is computed once, when a proposal is called; the density that this gives has
points grouped by case, (cases, draws, D), so that parameters broadcast instead of being copied.

Of normflows, the masked network `MADE` and the Gaussian base are used. Its flows are not. They
draw from the global generator and sum log densities in float32; every layer starts anew from the
context at every point, where ours prepares it once per (y, theta); and the supports here need
digits far out in a tail and a density of zero outside. Its coupling splines with context
(`CoupledRationalQuadraticSpline`, 6 layers, 16 bins, 64 hidden units) were tried as q1 of the tail
problem in five dimensions, on the logarithm of the excess over theta: see the figures below.
"""

from __future__ import annotations

__all__ = [
    "ConditionalDensity",
    "Density",
    "MixtureDensity",
    "Proposal",
    "Proposals",
    "Trainable",
    "TrainableDensity",
    "draw_all",
]

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

Key = TypeVar("Key", bound=Hashable)


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
        """n points x (*, n, D) and their log density log q(x) in nats (*, n)."""

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


@dataclass(frozen=True)
class Proposals:
    """One proposal for each term of a problem; None where a term needs none.

    Where q1 is a mixture with a copy of q2, the copy is replaced by q2 itself.

    Arguments:
        problem: Name of the problem that they were made for.
        variant: Where they come from: `spline`, `paper`, `oracle`, or a name of the user's.
        q1_plus: For E1_plus, towards f_plus p(x, y).
        q1_minus: For E1_minus, towards f_minus p(x, y); None where f >= 0.
        q2: For E2, towards p(x, y); None where the normaliser is known.
        card: What is known of them: configuration, training, evaluation.

    Example:
        >>> import amci_core as amci
        >>> exact = amci.load_proposals("tail-1d", variant="oracle")
        >>> mine = Proposals("tail-1d", "mine", exact.q1_plus, None, exact.q2)
        >>> mine.present
        (0, 2)
    """

    problem: str
    variant: str
    q1_plus: Proposal
    q1_minus: Proposal | None
    q2: Proposal | None
    card: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.q2, Trainable):
            for q1 in (self.q1_plus, self.q1_minus):
                if isinstance(q1, Trainable):
                    q1.tie(self.q2)

    @property
    def as_tuple(self) -> tuple[Proposal | None, Proposal | None, Proposal | None]:
        """In the order of `amci_core.estimators.PROPOSALS`."""
        return (self.q1_plus, self.q1_minus, self.q2)

    @property
    def present(self) -> tuple[int, ...]:
        """Indices of the proposals that there are."""
        return tuple(j for j, proposal in enumerate(self.as_tuple) if proposal is not None)

    def at(self, y: Tensor, theta: Tensor | None) -> dict[int, ConditionalDensity]:
        """The densities at y (*, D_y) and theta (*, D_theta), by index; networks run once.

        Raises:
            ValueError: a parameter of a proposal is not finite.
        """
        q2 = None if self.q2 is None else self.q2(y, theta)
        densities: dict[int, ConditionalDensity] = {}
        for j, proposal in enumerate(self.as_tuple):
            if proposal is self.q2:
                if q2 is not None:
                    densities[j] = q2
            elif (
                isinstance(q2, TrainableDensity)
                and isinstance(proposal, Trainable)
                and proposal.component is self.q2
            ):
                densities[j] = proposal.at(y, theta, q2)
            elif proposal is not None:
                densities[j] = proposal(y, theta)
        return densities


def draw_all(
    densities: Mapping[Key, Density],
    counts: Mapping[Key, int],
    generators: Mapping[Key, torch.Generator | None],
    *,
    uniform: Tensor | None = None,
) -> tuple[dict[Key, Tensor], dict[Key, dict[Key, Tensor]]]:
    """Points of several densities, and the log density of all points under each of them.

    A density that is a component of another is evaluated once at a point.

    Arguments:
        densities: The densities, all at the same y and theta, by any name.
        counts: How many points each gives; those left out give none.
        generators: Sources of random numbers, by the same names as `counts`.
        uniform: Points of (0, 1]^D, (cases * n, D), which trainable densities transport in the
            place of noise of their own.

    Returns:
        x[j], the points of j, (*, n_j, D); and log_q[k][j], their log density under k in nats.
    """
    x: dict[Key, Tensor] = {}
    # By the identity of a density: a component has no name of its own.
    found: dict[tuple[int | None, Key], Tensor] = {}
    for j, n in counts.items():
        q = densities[j]
        if isinstance(q, TrainableDensity):
            z = q.noise(n, generators[j]) if uniform is None else q.from_uniform(uniform)
            if isinstance(q, MixtureDensity):
                x[j], found[id(q), j], found[id(q.component), j] = q.transport_both(z)
            else:
                x[j], found[id(q), j] = q.transport(z)
        else:
            x[j], found[id(q), j] = q.draw(n, generators[j])
    # Mixtures last, when the log densities of their components are known.
    for q in sorted(densities.values(), key=lambda q: isinstance(q, MixtureDensity)):
        missing = [j for j in x if (id(q), j) not in found]
        if not missing:
            continue
        points = torch.cat([x[j] for j in missing], -2)
        component = id(q.component) if isinstance(q, MixtureDensity) else None
        of_component = [found[component, j] for j in missing if (component, j) in found]
        if isinstance(q, MixtureDensity) and len(of_component) == len(missing):
            log_q = q.log_prob_given(points, torch.cat(of_component, -1))
        else:
            log_q = q.log_prob(points)
        parts = torch.split(log_q, [x[j].shape[-2] for j in missing], -1)
        found.update(zip([(id(q), j) for j in missing], parts, strict=True))
    return x, {k: {j: found[id(q), j] for j in x} for k, q in densities.items()}
