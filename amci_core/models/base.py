r"""A problem: what it defines, what is known of its truth, and the variables it depends on."""

from __future__ import annotations

__all__ = ["Complement", "Density", "DerivedProblem", "Problem", "Variable"]

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, wraps
from threading import RLock
from types import FunctionType
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import Transform

from amci_core._arguments import check_count, check_number, check_seed
from amci_core.models.contract import misfits
from amci_core.models.fingerprint import Fingerprint, fingerprint_of

Array = NDArray[np.float64]
# A number for all coordinates, or one for each.
Ends = float | tuple[float, ...]

# n nodes within [-1, 1] and their weights, (n,) each; not to be changed.
gauss_legendre = cache(np.polynomial.legendre.leggauss)

# torch's global generators belong to the process, not to a thread.
GLOBAL = RLock()
# A forked process has none of the threads of its parent's torch, and would wait for them for ever.
if hasattr(os, "register_at_fork"):  # there is none on Windows
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


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
        low: Smallest value that coordinates may take (`-inf` if there is none); a tuple of D where
            they differ.
        high: Largest value that they may take, or D of them.
        meaning: What it stands for, in one line.
        unit: Its unit, empty if it has none.
        typical_range: Where most values of the coordinates lie, within low to high: networks are
            scaled to it, training spreads cases over it, maps and controls cover it. A lower and
            an upper end, each a number or a tuple of D.
        whole: Whether coordinates take whole numbers only, as counts do; a tuple of D where they
            differ. For y, None means that the first draws decide.
    """

    name: str
    dim: int
    low: Ends
    high: Ends
    meaning: str
    unit: str = ""
    typical_range: tuple[Ends, Ends] = (-math.inf, math.inf)
    whole: bool | tuple[bool, ...] | None = None

    def __post_init__(self) -> None:
        check_count(f"{self.name}.dim", self.dim, low=1, high=10**6)
        sizes = {np.size(end) for end in (self.low, self.high, *self.typical_range)}
        if not (sizes <= {1, self.dim} and (self.ends[0] < self.ends[1]).all()):
            raise ValueError(
                f"{self.name}: expected low below high, one number each or one for each of the "
                f"{self.dim} coordinates, got [{self.low}, {self.high}]"
            )
        typical = np.clip(self._of_all(*self.typical_range), *self.ends)
        whole = np.broadcast_to(np.array(self.whole, bool), self.dim)
        typical = np.where(whole, [np.ceil(typical[0]), np.floor(typical[1])], typical)
        low, high = map(_joined, self.ends)
        vars(self).update(low=low, high=high, typical_range=tuple(map(_joined, typical)))

    @cached_property
    def ends(self) -> Array:
        """The smallest and the largest value of each coordinate, (2, D)."""
        return self._of_all(self.low, self.high)

    @cached_property
    def typical(self) -> Array:
        """The lower and the upper end of the typical range of each coordinate, (2, D)."""
        return self._of_all(*self.typical_range)

    def _of_all(self, *ends: Ends) -> Array:
        return np.stack([np.broadcast_to(np.asarray(end, np.float64), self.dim) for end in ends])

    @property
    def allowed(self) -> str:
        """The values that the variable takes, for a message."""
        number = "a number or " * (self.dim == 1)
        return f"{number}an array of shape (..., {self.dim}) within {written(self.ends)}"

    def nearest(self, value: Tensor) -> Tensor:
        """The nearest values that the variable takes, (*, D): within its range, some whole."""
        low, high = value.new_tensor(self.ends)
        inside = value.clamp(low, high)
        if not self.whole:
            return inside
        whole = value.round().clamp(low.ceil(), high.floor())
        return whole.where(torch.tensor(self.whole, device=value.device), inside)

    def off_the_ends(self, value: Tensor) -> Tensor:
        """Values at the ends of the range moved to the next number within it, (*, D).

        From 0 to the next of float32, since distributions of torch may compute in that type
        for any input. Whole numbers stay.
        """
        if self.whole or not np.isfinite(self.ends).any():
            return value
        low, high = value.new_tensor(self.ends)
        for end, other in ((low, high), (high, low)):
            beside = end.nextafter(other)
            single = torch.zeros_like(end).float().nextafter(other.float()).to(end)
            beside = beside.where(end != 0, single)
            value = torch.where((value == end) & value.isfinite(), beside, value)
        return value

    def uniform(self, n: int, generator: torch.Generator, *, typical: bool = False) -> Tensor:
        """n points, uniform over the whole range or the typical one, (n, D) in float32."""
        device = generator.device
        u = torch.rand(n, self.dim, dtype=torch.float32, generator=generator, device=device)
        low, high = self.typical if typical else self.ends
        return u.new_tensor(low) + u.new_tensor(high - low) * u

    def check(self, value: Any) -> Tensor:
        """Returns `value` as a float64 tensor of shape (*, D), or says what is wrong with it.

        Raises:
            ValueError: `value` is no number, is not finite, lies outside the range, or its last
                axis is not D.
        """
        expected = f"{self.name}: expected {self.allowed}, got"
        try:
            # torch takes no reversed arrays, and warns of read-only ones.
            array = value if isinstance(value, Tensor) else np.array(value, np.float64, order="C")
            tensor = torch.as_tensor(array).detach().double()
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{expected} {value!r:.60}") from error
        if tensor.ndim == 0 and self.dim == 1:
            tensor = tensor[None]
        if tensor.shape[-1:] != (self.dim,) or tensor.numel() == 0:
            hint = ". For several cases pass shape (cases, 1), such as [[1.0], [2.0]]"
            hint *= self.dim == tensor.ndim == 1
            raise ValueError(f"{expected} shape {tuple(tensor.shape)}{hint}")
        low, high = tensor.new_tensor(self.ends)
        bad = ~tensor.isfinite() | (tensor < low) | (tensor > high)
        if bad.any():
            raise ValueError(f"{expected} {tensor[bad][0].item():g}")
        bad = tensor != self.nearest(tensor)
        if bad.any():
            raise ValueError(f"{self.name}: expected whole numbers, got {tensor[bad][0].item()}")
        return tensor


def _joined(values: Array) -> Ends:
    """One number where the coordinates' values, (D,), are alike, else a tuple of D."""
    return float(values[0]) if (values == values[0]).all() else tuple(values.tolist())


def between(low: float, high: float) -> Constraint:
    """The numbers from low to high, either end may be infinite."""
    if math.isinf(high):
        return constraints.real if math.isinf(low) else constraints.greater_than(low)
    return constraints.less_than(high) if math.isinf(low) else constraints.interval(low, high)


def half_line(support: Constraint) -> tuple[Tensor, int] | None:
    """The bound of a half-line, and 1 for x > bound or -1 for x < bound; else None.

    Of stacked coordinates the bounds (*, D), infinite but for one that theta gives.

    Example:
        >>> half_line(constraints.greater_than(2.0))
        (tensor(2., dtype=torch.float64), 1)
    """
    for kind, end, sign in (
        (constraints.greater_than, "lower_bound", 1),
        (constraints.less_than, "upper_bound", -1),
    ):
        if isinstance(support, kind):
            bound = getattr(support, end)
            return (bound if isinstance(bound, Tensor) else torch.tensor(bound).double()), sign
    if isinstance(support, constraints.stack):
        for i, part in enumerate(support.cseq):
            side = half_line(part)
            # That of a range is a number.
            if side is not None and side[0].ndim:
                bounds = torch.full_like(side[0], -side[1] * math.inf)
                bounds = bounds[..., None].repeat(*[1] * bounds.ndim, len(support.cseq))
                bounds[..., i] = side[0]
                return bounds, side[1]
    return None


def written(ends: Array) -> str:
    """Ends of ranges, (2, D), in a message: once if they are alike, else for each coordinate.

    Example:
        >>> written(np.array([[0.0, 0.0], [1.0, 2.0]]))
        '[0, 1] x [0, 2]'
    """
    ranges = [f"[{low:g}, {high:g}]" for low, high in ends.T]
    return ranges[0] if len(set(ranges)) == 1 else " x ".join(ranges)


def case_text(y: Tensor, theta: Tensor | None) -> str:
    """A case y (D_y,), theta (D_theta,) in a message."""
    at = {"y": y.tolist(), "theta": None if theta is None else theta.tolist()}
    return ", ".join(f"{name} = {v}" for name, v in at.items() if v) or "the only case"


def _has(problem: Problem, argument: str, text: str) -> ValueError:
    """What is raised where something that is needed is not defined."""
    return ValueError(f"{argument}: {problem.name} has {text}")


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Seeds torch's global generator from a copy of `generator`, and restores it after.

    `torch.distributions` take no generator: `Gamma(2.0, 1.0).sample()` draws from the global one.
    If that was used, `generator` advances by a number, so that the next call draws anew.
    """
    device = generator.device
    stream = torch.default_generator
    if device.type == "cuda":
        stream = torch.cuda.default_generators[device.index or 0]
    seed = int(torch.randint(2**62, (), generator=generator.clone_state(), device=device))
    # `torch.random.fork_rng` and `torch.manual_seed` take a millisecond.
    with GLOBAL:
        outside = stream.get_state()
        try:
            before = stream.manual_seed(seed).get_state()
            yield
            used = not torch.equal(before, stream.get_state())
        finally:
            stream.set_state(outside)
    if used:
        torch.rand((), generator=generator, device=device)


def _seeded(sampler: Callable[..., Any]) -> Callable[..., Any]:
    """A sampler whose draws follow from its last argument, `generator`, alone."""

    @wraps(sampler)
    def draw(*arguments: Any, **named: Any) -> Any:
        with seeded(named.get("generator", arguments[-1])):
            return sampler(*arguments, **named)

    return draw


def _off_the_ends(density: Callable[..., Any]) -> Callable[..., Any]:
    """A function of x that is evaluated beside the ends of the range of x, never at them.

    Rounding may put a draw on an end, where a density such as Beta(1/2, 1/2) is infinite and
    others are NaN, though their integrals are not.
    """

    @wraps(density)
    def evaluated(self: Any, x: Any, *arguments: Any, **named: Any) -> Any:
        return density(self, self.x.off_the_ends(x), *arguments, **named)

    return evaluated


# How methods that subclasses define are wrapped.
WRAPPERS = {
    **dict.fromkeys(("sample_prior", "sample_likelihood", "sample_theta"), _seeded),
    **dict.fromkeys(("sample_defensive", "sample_training"), _seeded),
    **dict.fromkeys(("log_prior", "log_likelihood", "f"), _off_the_ends),
}


class Problem(ABC):
    r"""A family of expectations mu(y, theta) = E[f(x; theta)] under p(x | y).

    A new problem is a subclass that declares the attributes below and defines `log_prior`, `f`
    and `sample_prior`; with y also `log_likelihood` and `sample_likelihood`. Subclasses hold
    only their mathematics: this class checks every argument once, and calls their methods
    with float64 tensors of shapes (*, D). Densities and f are written with torch, since training
    needs their values on any device. Points x have one axis more than y and theta, (*, n, D)
    against (*, 1, D). Shapes and types of what methods return are checked at the first use.

    Parts can be absent. Without theta it is None everywhere. Without observations `y` is None, the
    tensors y have zero columns and E2 is 1. If E2 is known, `log_evidence` returns it, and no q2
    is needed. If f takes both signs, `with_negated_f` gives the problem with -f in place of f.

    Knowledge of the truth is optional: estimates and training need none of it, errors need
    `_log_truth` or reference values, the SNIS bound `_log_mean_absolute_deviation`, the
    dashboard's mismatch control `_mismatch` and `_path`. A ValueError names what is missing.

    Attributes:
        name: What it is called by.
        title: Its heading in lists and on the dashboard.
        description: What it asks, in a few sentences.
        formula: Its densities and f, in TeX.
        x: What is integrated over.
        y: What is observed; None, or left out, if nothing is.
        theta: The parameters of f; None, or left out, if there are none.
        nonnegative: Whether f >= 0 everywhere.
        f_range: Between which values f lies, (0, 1) for a probability; by default unbounded.

    Example:
        >>> from amci_core import problem
        >>> tail = problem("tail-1d")
        >>> round(float(tail.truth(y=1.0, theta=3.0)), 6)
        0.000203

    See also:
        `amci_core.models.tail` for a complete example, `LineProblem` for x on the line.
    """

    name: str
    title: str = ""
    description: str = ""
    formula: str = ""
    x: Variable
    y: Variable | None = None
    theta: Variable | None = None
    nonnegative: bool
    f_range: tuple[float, float] = (-math.inf, math.inf)
    # Maps of the line onto the range of a coordinate of x, by the names that flows know them by.
    coordinate_transforms: Mapping[str, Transform] = {}
    _valid = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, wrapper in WRAPPERS.items():
            method = vars(cls).get(name)
            if isinstance(method, FunctionType) and method is not vars(Problem)[name]:
                setattr(cls, name, wrapper(method))

    # What a subclass defines.

    @abstractmethod
    def log_prior(self, x: Tensor) -> Tensor:
        """log p(x) in nats, -inf where p is zero; x: (*, D), result: (*).

        `torch.distributions` compute in the type of their parameters: `x.new_tensor(2.0)`.
        """

    @abstractmethod
    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        """The target function f(x; theta); x and theta broadcast: (*, D), result: (*)."""

    @abstractmethod
    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        """n draws from p(x), shape (n, D), on the generator's device.

        This and every other sampler may use torch's global generator, as `torch.distributions`
        do: its draws follow from `generator` as well.
        """

    def prior_from_uniform(self, u: Tensor) -> Tensor | None:
        """Points of p(x) as a function of uniform points of (0, 1)^D, (*, D), so that the prior
        can draw from Sobol points; None (default): it cannot.
        """
        return None

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(y | x) in nats; x and y broadcast: (*, D), result: (*). Zero without y."""
        if self.y is not None:
            raise _has(self, "log_likelihood", "y, but no log_likelihood. Define it")
        return torch.zeros_like(x[..., 0])

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """One draw from p(y | x) for every x: (*, D)."""
        if self.y is not None:
            raise _has(self, "sample_likelihood", "y, but no sample_likelihood. Define it")
        return x[..., :0]

    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor | None:
        """n draws from the pseudo prior p(theta), (n, D), or None; by default uniform."""
        if self.theta is None:
            return None
        if not np.isfinite(self.theta.ends).all():
            raise ValueError("sample_theta: theta has an infinite range. Define sample_theta")
        return self.theta.uniform(n, generator)

    @property
    def support(self) -> Constraint:
        """The set outside which the prior is zero: by default the range of x."""
        ranges = [between(low, high) for low, high in self.x.ends.T.tolist()]
        alike = (self.x.ends == self.x.ends[:, :1]).all()
        return ranges[0] if alike else constraints.stack(ranges, dim=-1)

    def support_plus(self, theta: Tensor | None) -> Constraint:
        """The set outside which f_plus(.; theta) is zero; by default the prior's support."""
        return self.support

    def support_minus(self, theta: Tensor | None) -> Constraint:
        """The set outside which f_minus(.; theta) is zero; by default the prior's support."""
        return self.support

    def sample_training(
        self, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """n draws x (n, D), theta (n, D_theta) from q'(theta, x), and their
        log[p(theta) p(x) f_plus / q'] in nats, (n).

        The source of the paper's eq. (train-prop), for its objective alone. By default q' is
        p(theta) p(x). Define it if such draws would miss f.
        """
        x, theta = self.sample_prior(n, generator), self.sample_theta(n, generator)
        return x, theta, self.f(x, theta).clamp(min=0).log()

    def sample_defensive(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """n points from a broad density that covers f_plus p(x, y): x (*, n, D) and their log
        density (*, n).

        By default from the prior. Define it, with `log_defensive`, if the prior would miss f.
        """
        shape = (*y.shape[:-1], n, self.x.dim)
        x = self.sample_prior(math.prod(shape[:-1]), generator).to(y.dtype).reshape(shape)
        return x, self.log_defensive(x, y, theta)

    def log_defensive(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        """Log density of the points of `sample_defensive` at x (*, n, D), in nats: (*, n)."""
        return self.log_prior(x)

    def defensive_from_uniform(self, y: Tensor, theta: Tensor | None, u: Tensor) -> Tensor | None:
        """As `prior_from_uniform` for the points x (*, n, D) of `sample_defensive`."""
        return None if self.has_defensive else self.prior_from_uniform(u)

    @property
    def has_defensive(self) -> bool:
        """Whether it has a defensive density of its own: whether it defines `sample_defensive`."""
        return type(self).sample_defensive is not Problem.sample_defensive

    def shifted(self, theta: Tensor | None, shift: float) -> Tensor | None:
        """The theta at which proposals for f - shift are needed; by default theta itself."""
        return theta

    def optimal_proposals(self) -> OptimalProposals | None:
        """The optimal proposals that are known in closed form, by name; None if none is.

        `q1_plus` is proportional to f_plus p(x, y), `q1_minus` to f_minus p(x, y), `q2` to
        p(x, y), `q1_complement` to (f_max - f) p(x, y). Each gives its density at y (*, D_y) and
        theta (*, D_theta). With the first three every term has zero variance (Theorem 1 of the
        paper).
        """
        return None

    def log_evidence(self, y: Tensor, theta: Tensor | None) -> Array | None:
        """log E2 = log p(y) in nats, (*), if it is known exactly: zero without y; else None."""
        return np.zeros(y.shape[:-1]) if self.y is None else None

    @property
    def f_max(self) -> float | None:
        """M, the upper end of `f_range`, if f lies in [0, M]; None if f has no bound or two signs.

        Example:
            >>> from amci_core import problem
            >>> problem("tail-1d").f_max, problem("gain-loss").f_max
            (1.0, None)
        """
        high = self.f_range[1]
        return high if self.nonnegative and math.isfinite(high) else None

    def __repr__(self) -> str:
        sizes = ", ".join(f"{v.name} of {v.dim}" for v in (self.x, self.y, self.theta) if v)
        signs = "f >= 0" if self.nonnegative else "f of both signs"
        return f"{self.name}: {sizes}; {signs}; mu {'' if self.knows_truth else 'not '}known"

    @property
    def knows_truth(self) -> bool:
        """Whether mu(y, theta) is known: whether the problem defines `_log_truth`."""
        return type(self)._log_truth is not Problem._log_truth

    @property
    def knows_bound(self) -> bool:
        """Whether the constant of `snis_bound` is known, see `_log_mean_absolute_deviation`."""
        defined = type(self)._log_mean_absolute_deviation
        return defined is not Problem._log_mean_absolute_deviation

    @property
    def knows_evidence(self) -> bool:
        """Whether `log_evidence` is known, so that no q2 is needed."""
        return self.log_evidence(*self.check(*self.cases(1, seed=0))) is not None

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What it is known by instead of its name, see `amci_core.models.fingerprint`.

        A problem whose attributes change after its first use keeps the first one: make another.
        """
        _validate(self)
        return fingerprint_of(self)

    def __getstate__(self) -> dict[str, Any]:
        """A copy may be changed before its first use, and has a fingerprint of its own."""
        return {name: value for name, value in vars(self).items() if name != "fingerprint"}

    # What may be known of the truth; each is optional.

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        """log|mu(y, theta)| in nats and the sign of mu, exact; (*) each."""
        hint = "Define _log_truth, or pass reference values as truth"
        raise _has(self, "truth", f"no known mu. {hint}")

    def _truth_error(self, y: Tensor, theta: Tensor | None) -> Array:
        """Relative standard error of what `_log_truth` returns, (*); zero if it is exact."""
        return np.zeros(y.shape[:-1])

    def _log_evidence(self, y: Tensor) -> Array | None:
        """log E2 in nats, (*), if it is known but still worth estimating, as in examples."""
        return None

    def _log_parts(self, y: Tensor, theta: Tensor | None) -> tuple[Array, ...]:
        """log(E1_plus / E2) and, if f takes both signs, log(E1_minus / E2), in nats, (*)."""
        if not self.nonnegative:
            raise _has(self, "log_terms", "no known E1_plus and E1_minus. Define _log_parts")
        return (self._log_truth(y, theta)[0],)

    def _log_mean_absolute_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        """log E|f(x; theta) - mu| under p(x | y) in nats, for `snis_bound`; result: (*)."""
        hint = "Define _log_mean_absolute_deviation, or leave the bound out"
        raise _has(self, "mean_absolute_deviation", f"no known value. {hint}")

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        """KL(g || p(x | y)) in nats with g proportional to |f| p(x | y); result: (*)."""
        raise _has(self, "mismatch", "no known mismatch. Define _mismatch")

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        """The point of the mismatch control's path at t in [0, 1]: y (D_y) and theta (D_theta).

        The mismatch grows along the path. It may start from the point given.
        """
        raise _has(self, "mismatch", "no path of growing mismatch. Define _path")

    # What a user asks for.

    def check(self, y: Any = None, theta: Any = None) -> tuple[Tensor, Tensor | None]:
        """Returns y and theta as float64 tensors, broadcast to (*, D_y) and (*, D_theta).

        Raises:
            ValueError: a value is missing, not finite or out of range, or shapes do not broadcast;
                or a method of the problem returns what does not fit, at its first use.
        """
        _validate(self)
        y, theta = self._checked("y", y), self._checked("theta", theta)
        if self.theta is None:
            return y, None
        try:
            batch = np.broadcast_shapes(y.shape[:-1], theta.shape[:-1])
        except ValueError:
            raise ValueError(
                f"y and theta: their batch shapes {tuple(y.shape[:-1])} and "
                f"{tuple(theta.shape[:-1])} do not broadcast. Pass as many of each, or one"
            ) from None
        return y.expand(*batch, -1), theta.expand(*batch, -1)

    def _checked(self, name: str, value: Any) -> Tensor:
        """y or theta; without columns if the problem has none."""
        variable: Variable | None = getattr(self, name)
        if variable is None:
            empty = torch.zeros(0) if value is None else value
            if isinstance(empty, Tensor) and empty.shape[-1:] == (0,):
                return empty.double()
            raise ValueError(f"{name}: {self.name} has no {name}, got {value!r}. Leave {name} out")
        if value is None:
            raise ValueError(
                f"{name}: {self.name} needs it ({variable.meaning}). Pass {variable.allowed}"
            )
        return variable.check(value)

    def truth(self, y: Any = None, theta: Any = None) -> Array:
        """mu(y, theta), in the batch shape; 0 where it underflows (see `log_truth`).

        It is exact, or as accurate as `truth_error` says.

        Raises:
            ValueError: see `check`; or the problem does not know it.
        """
        log_mu, sign = self.log_truth(y, theta)
        return sign * np.exp(log_mu)

    def log_truth(self, y: Any = None, theta: Any = None) -> tuple[Array, Array]:
        """log|mu(y, theta)| in nats and the sign of mu, each in the batch shape; -inf and 0 where
        mu is zero. Raises as `truth`.

        Example:
            >>> from amci_core import problem
            >>> log_mu, sign = problem("gain-loss").log_truth(y=1.0, theta=3.0)
            >>> float(sign)
            -1.0
        """
        return self._log_truth(*self.check(y, theta))

    def truth_error(self, y: Any = None, theta: Any = None) -> Array:
        """Relative standard error of `truth`, in the batch shape; 0 where that is exact.

        Raises:
            ValueError: see `check`.
        """
        return self._truth_error(*self.check(y, theta))

    def log_terms(self, y: Any = None, theta: Any = None) -> dict[str, Array]:
        """E1_plus, E1_minus (if f takes both signs) and E2, exact, each log E_t in nats, (*).

        Raises:
            ValueError: see `check`; or E2 is not known exactly.
        """
        y, theta = self.check(y, theta)
        log_E2 = self.log_evidence(y, theta)
        if log_E2 is None:
            log_E2 = self._log_evidence(y)
        if log_E2 is None:
            raise _has(self, "log_terms", "no known E2. Define _log_evidence")
        parts = [part + log_E2 for part in self._log_parts(y, theta)]
        return dict(zip(("E1_plus", "E1_minus"), parts, strict=False)) | {"E2": log_E2}

    def mean_absolute_deviation(self, y: Any = None, theta: Any = None) -> Array:
        """E|f - mu| under the posterior, in units of f; 0 where it underflows.

        Its square over T is the SNIS bound, asymptotic, for independent draws from one proposal.
        Raises as `truth`.
        """
        return np.exp(self.log_mean_absolute_deviation(y, theta))

    def log_mean_absolute_deviation(self, y: Any = None, theta: Any = None) -> Array:
        """log E|f - mu| under the posterior in nats, in the batch shape. Raises as `truth`."""
        return np.asarray(self._log_mean_absolute_deviation(*self.check(y, theta)))

    def mismatch(self, y: Any = None, theta: Any = None) -> Array:
        """KL(g || p(x | y)) in nats, with g proportional to |f| p(x | y), in the batch shape.
        Raises as `truth`."""
        return self._mismatch(*self.check(y, theta))

    def at_mismatch(
        self, level: float, y: Any = None, theta: Any = None
    ) -> tuple[Array | None, Array | None]:
        """The point on the problem's path from one y, theta where the mismatch has this level.

        The path moves theta, or y if there is no theta; `mismatch_range` gives both ends.

        Arguments:
            level: Mismatch in nats; beyond the path's ends, the nearer end is returned.
            y: Where the path starts, as for `truth`.
            theta: Where the path starts, as for `truth`.

        Returns:
            y (D_y,) and theta (D_theta,), each None if the problem has none.

        Raises:
            ValueError: y, theta is not a single case in range, the level is no number >= 0, or
                the problem does not know its mismatch, has no path, or f is zero on it.
        """
        level = check_number("level", level, "a number of nats >= 0", allowed=lambda v: v >= 0)
        low, high = self.mismatch_range(y, theta)
        start = self.check(y, theta)
        t = float(level > low)
        if low < level < high:
            t = float(brentq(lambda t: self._mismatch_along(start, t) - level, 0, 1, xtol=1e-12))
        return self._arrays(*self._path(*start, t))

    def mismatch_range(self, y: Any = None, theta: Any = None) -> tuple[float, float]:
        """The mismatch in nats at both ends of the path from one y, theta.
        Raises as `at_mismatch`."""
        start = self.check(y, theta)
        if start[0].ndim > 1:
            batch = tuple(start[0].shape[:-1])
            raise ValueError(f"y: expected a single case, got batch shape {batch}")
        return self._mismatch_along(start, 0.0), self._mismatch_along(start, 1.0)

    def _mismatch_along(self, case: tuple[Tensor, Tensor | None], t: float) -> float:
        y, theta = self._path(*case, t)
        level = float(self._mismatch(y, theta))
        if math.isnan(level):
            raise ValueError(
                f"mismatch: undefined at {case_text(y, theta)}, where f is zero on its path. "
                "Define _path, or narrow typical_range"
            )
        return level

    def log_joint(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(x, y) in nats; x: (*, n, D), y: (*, D), result: (*, n)."""
        return self.log_prior(x) + self.log_likelihood(x, y[..., None, :])

    def f_parts(self, x: Tensor, theta: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """f_plus and f_minus at x (*, n, D), (*, n) each; f_minus is None if f >= 0."""
        value = self.f(x, None if theta is None else theta[..., None, :])
        if self.nonnegative:
            return value, None
        return value.clamp(min=0), (-value).clamp(min=0)

    def cases(self, n: int, *, seed: int) -> tuple[Array | None, Array | None]:
        """n cases y (n, D_y), theta (n, D_theta) from p(y) p(theta); None for what is absent.

        Raises:
            ValueError: n is not a positive whole number, or the seed is negative.
        """
        check_count("n", n, low=1, high=10**7)
        generator = torch.Generator().manual_seed(check_seed(seed))
        return self._arrays(*self.sample_cases(n, generator))

    def _arrays(self, y: Tensor, theta: Tensor | None) -> tuple[Array | None, Array | None]:
        return (
            None if self.y is None else y.double().numpy(),
            None if theta is None else theta.double().numpy(),
        )

    def named_draws(self, x: Array) -> dict[str, Array]:
        """Draws x (n, D) as arrays (n, *shape) by their names; by default x itself."""
        return {self.x.name: np.asarray(x)}

    def typical_case(self) -> tuple[Array | None, Array | None]:
        """A case in the middle of the typical ranges: y (D_y,) and theta (D_theta,).

        If a range has no end it is the median of p(y) p(theta); None for what is absent.
        """

        def middle(variable: Variable | None, drawn: Array | None) -> Array | None:
            if variable is None or drawn is None:
                return None
            with np.errstate(invalid="ignore"):  # the ends may be infinite
                centre = variable.typical.mean(0)
            centre = np.where(np.isfinite(centre), centre, np.median(drawn, axis=0))
            return variable.nearest(torch.as_tensor(centre)).numpy()

        y, theta = self.cases(1001, seed=0)
        return middle(self.y, y), middle(self.theta, theta)

    def sample_cases(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """n cases from p(y) p(theta), kept within the ranges that the problem declares."""
        _validate(self)
        x = self.sample_prior(n, generator)
        if self.y is None:
            return x[:, :0], self.sample_theta(n, generator)
        y = self.y.nearest(self.sample_likelihood(x, generator))
        return y, self.sample_theta(n, generator)

    def with_negated_f(self) -> Problem:
        """The problem with -f: its f_plus is the f_minus of this one.

        By default its defensive density is the prior, and its f_plus may be positive on all of the
        prior's support. Define it where more is known, such as a problem of the same class with
        the other sign.

        Raises:
            ValueError: the problem declares f >= 0.
        """
        if self.nonnegative:
            raise ValueError(
                f"with_negated_f: {self.name} declares nonnegative = True, so f_minus is zero. If "
                "f takes both signs, declare False"
            )
        return _Negated(self)

    def complement(self) -> Problem:
        """The problem with M - f, M being `f_max`: `q1_complement` is its q1.

        By default its defensive density is the prior. Define it where more is known, such as the
        support of M - f.

        Raises:
            ValueError: f has no upper bound, or takes both signs.

        Example:
            >>> from amci_core import problem
            >>> tail = problem("tail-1d")  # f = 1 for x > theta
            >>> tail.complement().support_plus(tail.check(1.0, 3.0)[1])
            LessThan(upper_bound=tensor([3.], dtype=torch.float64))
        """
        return Complement(self)


class DerivedProblem(Problem):
    """A problem that differs from the original in f alone.

    Its defensive density is the prior, and what the original knows of its mu is not known of it.

    Arguments:
        original: The problem.
    """

    # What does not depend on f, and has no definition of its own below.
    SHARED = (
        *("name", "title", "description", "formula", "x", "y", "theta", "coordinate_transforms"),
        *("prior_from_uniform", "sample_theta", "log_likelihood", "sample_likelihood"),
        *("log_evidence", "_log_evidence", "named_draws"),
    )

    def __init__(self, original: Problem) -> None:
        self.original = original
        for name in self.SHARED:
            setattr(self, name, getattr(original, name))

    def log_prior(self, x: Tensor) -> Tensor:
        return self.original.log_prior(x)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return self.original.sample_prior(n, generator)

    @property
    def support(self) -> Constraint:
        return self.original.support


class Complement(DerivedProblem):
    """The problem with M - f, M being its `f_max`.

    Arguments:
        original: The problem.

    Raises:
        ValueError: its f has no upper bound, or takes both signs.
    """

    nonnegative = True

    def __init__(self, original: Problem) -> None:
        if original.f_max is None:
            raise ValueError(
                f"complement: f of {original.name} has no known range [0, M]. Declare nonnegative "
                "= True and f_range"
            )
        super().__init__(original)
        self.bound = original.f_max
        self.f_range = (0.0, self.bound - original.f_range[0])

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        return (self.bound - self.original.f(x, theta)).clamp(min=0)


class _Negated(DerivedProblem):
    """The problem with -f."""

    nonnegative = False

    def __init__(self, original: Problem) -> None:
        super().__init__(original)
        low, high = original.f_range
        self.f_range = -high, -low

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        return -self.original.f(x, theta)

    def with_negated_f(self) -> Problem:
        return self.original

    def support_plus(self, theta: Tensor | None) -> Constraint:
        return self.original.support_minus(theta)

    def support_minus(self, theta: Tensor | None) -> Constraint:
        return self.original.support_plus(theta)


def _validate(problem: Problem) -> None:
    """Refuses a problem, once, whose methods do not return what they have to."""
    if problem._valid:
        return
    errors = misfits(problem)
    if errors:
        raise ValueError("; ".join(map(str, errors))) from (errors[0].__cause__ or errors[0])
    if problem.y is not None and problem.y.whole is None:
        problem.y = replace(problem.y, whole=_whole_coordinates(problem))
    problem._valid = True


def _whole_coordinates(problem: Problem) -> tuple[bool, ...]:
    """Which coordinates of y take whole numbers only: in all of a few thousand draws."""
    generator = torch.Generator().manual_seed(0)
    # Counts may all be zero in the few that are tried first.
    for n in (64, 4096):
        y = problem.sample_likelihood(problem.sample_prior(n, generator), generator)
        # Beyond these numbers a type has no halves.
        fine = y.abs() < 0.5 / torch.finfo(y.dtype).eps
        whole = (y == y.round()).all(0) & fine.any(0)
        if not whole.any():
            break
    return tuple(whole.tolist())
