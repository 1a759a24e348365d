r"""What a problem defines: a prior, a likelihood, a target function, what is known about them."""

from __future__ import annotations

__all__ = ["Array", "Definition", "Density", "OptimalProposals", "Variable"]

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions.constraints import Constraint, greater_than, interval, less_than, real
from torch.distributions.transforms import Transform

from amci_core.models.methods import DENSITIES, SAMPLERS, off_the_ends, seeded

Array = NDArray[np.float64]


class Density(Protocol):
    """A normalized density of x at given y, theta of batch shape (*)."""

    batch_shape: torch.Size

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """n points x (*, n, D) and their log density in nats (*, n)."""

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density in nats at points x (*, n, D): (*, n), -inf outside the support."""


OptimalProposals = Mapping[str, Callable[[Tensor, Tensor | None], Density]]


@dataclass(frozen=True)
class Variable:
    """One of the variables x, y, theta of a problem: its name, unit, dimension and range.

    Arguments:
        name: The variable's name in formulas, such as `theta`.
        dim: Its number of coordinates D.
        low: Smallest value a coordinate may take (`-inf` where there is none).
        high: Largest value a coordinate may take.
        meaning: What it stands for, in one line.
        unit: Its unit, empty where it has none.
        typical_range: Where most values of a coordinate lie, within low to high: networks are
            scaled to it, training spreads cases over it, maps and controls cover it.
        whole: Whether coordinates take whole numbers only, as counts do; a tuple of D where they
            differ. For y None stands for what its first draws show.
    """

    name: str
    dim: int
    low: float
    high: float
    meaning: str
    unit: str = ""
    typical_range: tuple[float, float] = (-math.inf, math.inf)
    whole: bool | tuple[bool, ...] | None = None

    def __post_init__(self) -> None:
        if self.dim < 0:
            raise ValueError(f"{self.name}: expected dim >= 0, got {self.dim}")
        if not self.low < self.high:
            raise ValueError(
                f"{self.name}: expected low below high, got [{self.low:g}, {self.high:g}]"
            )
        if isinstance(self.whole, tuple) and len(self.whole) != self.dim:
            raise ValueError(
                f"{self.name}: expected whole for {self.dim} coordinates, got {len(self.whole)}"
            )
        low, high = max(self.low, self.typical_range[0]), min(self.high, self.typical_range[1])
        if self.all_whole:
            low, high = float(np.ceil(low)), float(np.floor(high))
        object.__setattr__(self, "typical_range", (low, high))

    @property
    def all_whole(self) -> bool:
        """Whether every coordinate takes whole numbers only."""
        return all(self.whole) if isinstance(self.whole, tuple) else self.whole is True

    def nearest(self, value: Tensor) -> Tensor:
        """The nearest values that the variable takes, (*, D): within its range, some whole."""
        inside = value.clamp(self.low, self.high)
        if not self.whole:
            return inside
        whole = value.round().clamp(float(np.ceil(self.low)), float(np.floor(self.high)))
        return whole.where(torch.tensor(self.whole, device=value.device), inside)

    def off_the_ends(self, value: Tensor) -> Tensor:
        """Values at the ends of the range moved to the next number within it, (*, D).

        From 0 to the next of float32, since distributions of torch may compute in that type
        whatever they are given. Whole numbers stay.
        """
        if self.whole:
            return value
        for end, other in ((self.low, self.high), (self.high, self.low)):
            if math.isfinite(end):
                kind = np.float32 if end == 0 or value.dtype == torch.float32 else np.float64
                beside = float(np.nextafter(kind(end), kind(other)))
                value = torch.where(value == end, beside, value)
        return value

    def uniform(self, n: int, generator: torch.Generator) -> Tensor:
        """n points, uniform over the range, (n, D) in float32 on the generator's device."""
        u = torch.rand(
            n, self.dim, dtype=torch.float32, generator=generator, device=generator.device
        )
        return self.low + (self.high - self.low) * u

    def check(self, value: Any) -> Tensor:
        """Returns `value` as a float64 tensor of shape (*, D), or says what is wrong with it.

        Raises:
            ValueError: `value` is no number, is not finite, lies outside the range, or its last
                axis is not D.
        """
        kind = f"an array of shape (..., {self.dim})"
        kind = f"a number or {kind}" if self.dim == 1 else kind
        expected = f"{self.name}: expected {kind} within [{self.low:g}, {self.high:g}], got"
        try:
            tensor = _as_float64(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{expected} {value!r}") from error
        if tensor.ndim == 0 and self.dim == 1:
            tensor = tensor[None]
        if tensor.ndim == 0 or tensor.shape[-1] != self.dim or tensor.numel() == 0:
            if tensor.ndim > 1 or tensor.numel() == 0:
                raise ValueError(f"{expected} shape {tuple(tensor.shape)}")
            hint = "; for several cases give shape (cases, 1), such as [[1.0], [2.0]]"
            wanted = f"{self.dim} numbers" if self.dim > 1 else "1 number"
            raise ValueError(
                f"{self.name}: expected {wanted}, got {tensor.numel()}{hint * (self.dim == 1)}"
            )
        bad = ~torch.isfinite(tensor) | (tensor < self.low) | (tensor > self.high)
        if bad.any():
            raise ValueError(f"{expected} {tensor[bad][0].item():g}")
        between = tensor != self.nearest(tensor)
        if between.any():
            raise ValueError(
                f"{self.name}: expected whole numbers, got {tensor[between][0].item()}"
            )
        return tensor


def _as_float64(value: Any) -> Tensor:
    # Conversions would turn None into NaN and True into 1, and drop the imaginary part of a
    # complex number.
    if isinstance(value, Tensor):
        kind = value.is_complex() or value.dtype == torch.bool
        if kind or value.is_meta or value.layout != torch.strided:
            raise TypeError
        return value.detach().double()
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or np.ma.is_masked(value):
        raise TypeError
    if isinstance(value, list | tuple):
        # In a list with other numbers numpy takes True for 1.
        if {bool, np.bool_} & set(map(type, np.asarray(value, object).flat)):
            raise TypeError
    # A copy: torch takes no reversed and warns of read-only arrays.
    return torch.as_tensor(np.array(array, np.float64, order="C"))


class Definition(ABC):
    """What a subclass of `Problem` declares and defines; the first three methods at least."""

    name: str
    title: str = ""
    description: str = ""
    formula: str = ""
    x: Variable
    y: Variable | None = None
    theta: Variable | None = None
    nonnegative: bool
    f_range: tuple[float, float] = (-math.inf, math.inf)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        wraps = dict.fromkeys(SAMPLERS, seeded) | dict.fromkeys(DENSITIES, off_the_ends)
        for name, wrap in wraps.items():
            method = vars(cls).get(name)
            if isinstance(method, FunctionType) and method is not vars(Definition)[name]:
                setattr(cls, name, wrap(method))

    @abstractmethod
    def log_prior(self, x: Tensor) -> Tensor:
        """log p(x) in nats; x: (*, D), result: (*)."""

    @abstractmethod
    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        """The target function f(x; theta); x and theta broadcast: (*, D), result: (*)."""

    @abstractmethod
    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        """n draws from p(x), shape (n, D), on the generator's device.

        Draws of torch's global generator, such as those of `torch.distributions`, follow from
        `generator` as well, in this and every other sampler: see `amci_core.models.methods`.
        """

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(y | x) in nats; x and y broadcast: (*, D), result: (*). Zero without y."""
        if self.y is not None:
            raise ValueError(f"log_likelihood: define it, {self.name} has y")
        return torch.zeros_like(x[..., 0])

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """One draw from p(y | x) for every x: (*, D)."""
        if self.y is not None:
            raise ValueError(f"sample_likelihood: define it, {self.name} has y")
        return x[..., :0]

    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor | None:
        """n draws from the pseudo prior p(theta), (n, D), or None; by default uniform."""
        if self.theta is None:
            return None
        if not math.isfinite(self.theta.high - self.theta.low):
            raise ValueError("sample_theta: define it, the range of theta has no end")
        return self.theta.uniform(n, generator)

    @property
    def support(self) -> Constraint:
        """The set outside which the prior is zero: from the range of x, unless a subclass says."""
        low, high = self.x.low, self.x.high
        if math.isfinite(low):
            return interval(low, high) if math.isfinite(high) else greater_than(low)
        return less_than(high) if math.isfinite(high) else real

    def support_plus(self, theta: Tensor | None) -> Constraint:
        """The set outside which f_plus(.; theta) is zero; the prior's unless a smaller one is
        known."""
        return self.support

    @property
    def coordinate_transforms(self) -> Mapping[str, Transform]:
        """Maps of the line onto the range of a coordinate of x, by the name flows know them by."""
        return {}

    def sample_training(
        self, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """n draws x (n, D), theta (n, D_theta) from q'(theta, x), and their
        log[p(theta) p(x) f_plus / q'] in nats, (n).

        The source of the paper's eq. (train-prop), for its objective alone. By default q' is
        p(theta) p(x); to be defined where its draws would miss f.
        """
        x, theta = self.sample_prior(n, generator), self.sample_theta(n, generator)
        return x, theta, self.f(x, theta).clamp(min=0).log()

    def sample_defensive(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """n points that surely reach f_plus p(x, y): x (*, n, D) and their log density (*, n).

        By default from the prior; to be defined, with `log_defensive`, where that would miss f.
        """
        shape = (*y.shape[:-1], n, self.x.dim)
        x = self.sample_prior(math.prod(shape[:-1]), generator).to(y.dtype).reshape(shape)
        return x, self.log_defensive(x, y, theta)

    def log_defensive(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        """Log density of the points of `sample_defensive` at x (*, n, D), in nats: (*, n)."""
        return self.log_prior(x)

    @property
    def has_defensive(self) -> bool:
        """Whether it has a defensive density of its own: whether it defines `sample_defensive`."""
        return type(self).sample_defensive is not Definition.sample_defensive

    def shifted(self, theta: Tensor | None, shift: float) -> Tensor | None:
        """The theta at which proposals for f - shift are needed; by default theta itself."""
        return theta

    def optimal_proposals(self) -> OptimalProposals | None:
        """The optimal proposals that are known in closed form, by name; None where none is.

        `q1_plus` is proportional to f_plus p(x, y), `q1_minus` to f_minus p(x, y), `q2` to
        p(x, y). Each gives its density at y (*, D_y) and theta (*, D_theta). With all of them
        every term has zero variance (Theorem 1 of the paper).
        """
        return None

    def log_evidence(self, y: Tensor, theta: Tensor | None) -> Array | None:
        """log E2 = log p(y) in nats, (*), where it is known exactly: zero without y; else None."""
        return np.zeros(y.shape[:-1]) if self.y is None else None

    @property
    def knows_truth(self) -> bool:
        """Whether mu(y, theta) is known: whether the problem defines `_log_truth`."""
        return type(self)._log_truth is not Definition._log_truth

    @property
    def knows_bound(self) -> bool:
        """Whether the constant of `snis_bound` is known, see `_log_mean_absolute_deviation`."""
        own = type(self)._log_mean_absolute_deviation
        return own is not Definition._log_mean_absolute_deviation

    # What may be known of the truth; each is optional.

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        """log|mu(y, theta)| in nats and the sign of mu, exact; (*) each."""
        raise ValueError(
            f"truth: {self.name} does not know it; define _log_truth, or give reference values "
            "where there is an argument truth"
        )

    def _truth_error(self, y: Tensor, theta: Tensor | None) -> Array:
        """Relative standard error of what `_log_truth` returns, (*); zero where it is exact."""
        return np.zeros(y.shape[:-1])

    def _log_evidence(self, y: Tensor) -> Array | None:
        """log E2 in nats, (*), where it is known but still worth estimating, as in examples."""
        return None

    def _log_parts(self, y: Tensor, theta: Tensor | None) -> tuple[Array, ...]:
        """log(E1_plus / E2) and, where f takes both signs, log(E1_minus / E2), in nats, (*)."""
        if not self.nonnegative:
            raise ValueError(
                f"log_terms: {self.name} does not know E1_plus and E1_minus; define _log_parts"
            )
        return (self._log_truth(y, theta)[0],)

    def _log_mean_absolute_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        """log E|f(x; theta) - mu| under p(x | y) in nats, for `snis_bound`; result: (*)."""
        raise ValueError(
            f"mean_absolute_deviation: {self.name} does not know it; define "
            "_log_mean_absolute_deviation, or ask for no bound"
        )

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        """KL(g || p(x | y)) in nats with g proportional to |f| p(x | y); result: (*)."""
        raise ValueError(f"mismatch: {self.name} does not know it; define _mismatch")

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        """The point of the mismatch control's path at t in [0, 1]: y (D_y) and theta (D_theta).

        The mismatch grows along the path. It may start from the point given.
        """
        raise ValueError(f"mismatch: {self.name} has no path along which it grows; define _path")
