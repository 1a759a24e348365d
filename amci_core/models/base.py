r"""What a problem is: a prior, a likelihood, a target function and what is known about them."""

from __future__ import annotations

__all__ = ["Density", "OptimalProposals", "Problem", "Variable"]

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor
from torch.distributions.constraints import Constraint, greater_than, interval, less_than, real

from amci_core.checks import check_count, check_seed


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
        shown: The usual range of a coordinate, where most cases lie: networks are scaled to it,
            training spreads cases over it, maps and controls cover it. None for low to high.
    """

    name: str
    dim: int
    low: float
    high: float
    meaning: str
    unit: str = ""
    shown: tuple[float, float] | None = None

    @property
    def usual_range(self) -> tuple[float, float]:
        """`shown`, or the whole range where nothing is said."""
        return self.shown or (self.low, self.high)

    def check(self, value: Any) -> Tensor:
        """Returns `value` as a float64 tensor of shape (*, D), or says what is wrong with it.

        Raises:
            ValueError: `value` is no number, is not finite, lies outside the range, or its last
                axis is not D.
        """
        try:
            tensor = _as_float64(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.name}: expected {self._allowed()}, got {value!r}") from error
        if tensor.ndim == 0 and self.dim == 1:
            tensor = tensor[None]
        if tensor.ndim == 0 or tensor.shape[-1] != self.dim or tensor.numel() == 0:
            # A row of numbers, where each would be a case of its own.
            row = self.dim == 1 and tensor.ndim == 1 and tensor.numel() > 1
            hint = "; for several cases give shape (cases, 1), such as [[1.0], [2.0]]"
            raise ValueError(
                f"{self.name}: expected {self._allowed()}, got shape {tuple(tensor.shape)}"
                f"{hint if row else ''}"
            )
        bad = ~torch.isfinite(tensor) | (tensor < self.low) | (tensor > self.high)
        if bad.any():
            raise ValueError(
                f"{self.name}: expected {self._allowed()}, got {tensor[bad][0].item():g}"
            )
        return tensor

    def _allowed(self) -> str:
        shape = f"an array of shape (..., {self.dim})"
        kind = f"a number or {shape}" if self.dim == 1 else shape
        return f"{kind} within [{self.low:g}, {self.high:g}]"


def _as_float64(value: Any) -> Tensor:
    # Conversions would turn None into NaN, and drop the imaginary part of a complex number.
    if isinstance(value, Tensor):
        if value.is_complex():
            raise TypeError
        return value.detach().double()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError
    # A copy: torch takes no reversed and warns of read-only arrays.
    return torch.as_tensor(np.array(array, np.float64, order="C"))


class Density(Protocol):
    """A normalised density of x at given y, theta of batch shape (*)."""

    batch_shape: torch.Size

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """n points x (*, n, D) and their log density in nats (*, n)."""

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density in nats at points x (*, n, D): (*, n), -inf outside the support."""


OptimalProposals = Mapping[str, Callable[[Tensor, Tensor | None], Density]]


class Problem(ABC):
    r"""A family of expectations mu(y, theta) = E[f(x; theta)] under p(x | y).

    A new problem is a subclass that declares the attributes below and defines the abstract
    methods. Subclasses hold nothing but their mathematics: this class checks every argument once,
    and calls the methods that begin with an underscore with float64 tensors of shapes (*, D).
    Densities and f are written with torch, since training needs their values on any device; points
    x carry one axis more than y and theta, (*, n, D) against (*, 1, D).

    Parts can be absent. Without theta it is None everywhere. Without observations `y` is None, and
    the tensors y have zero columns. Where E2 is known, `log_normalizer` says so, and no q2 is
    needed. Where f takes both signs, `negated` gives the problem with -f in the place of f.

    What is known of the truth is optional. Estimates and training need none of it. Errors are
    against `_log_truth`, or against reference values that are given as `truth`; the SNIS bound
    needs `_expected_deviation`. The mismatch control of the dashboard needs `_mismatch` and
    `_path`. What a problem does not define raises a ValueError where it is asked for.

    Attributes:
        name: What it is called by.
        title: Its heading in lists and on the dashboard.
        description: What it asks, in a few sentences.
        formula: Its densities and f, in TeX.
        x: What is integrated over.
        y: What is observed, or None.
        theta: The parameters of f, or None.
        nonnegative: Whether f >= 0 everywhere.

    See also:
        `amci_core.models.tail` for a complete example, `LineProblem` for x on the line.
    """

    name: str
    title: str = ""
    description: str = ""
    formula: str = ""
    x: Variable
    y: Variable | None
    theta: Variable | None
    nonnegative: bool

    @abstractmethod
    def log_prior(self, x: Tensor) -> Tensor:
        """log p(x) in nats; x: (*, D), result: (*)."""

    @abstractmethod
    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(y | x) in nats; x and y broadcast: (*, D), result: (*)."""

    @abstractmethod
    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        """The target function f(x; theta); x and theta broadcast: (*, D), result: (*)."""

    @abstractmethod
    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        """n draws from p(x), shape (n, D), on the generator's device."""

    @abstractmethod
    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """One draw from p(y | x) for every x: (*, D)."""

    @abstractmethod
    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor | None:
        """n draws from the pseudo prior p(theta), (n, D); None where there is no theta."""

    @property
    def support(self) -> Constraint:
        """The set outside which the prior is zero: from the range of x, unless a subclass says."""
        low, high = self.x.low, self.x.high
        if math.isfinite(low):
            return interval(low, high) if math.isfinite(high) else greater_than(low)
        return less_than(high) if math.isfinite(high) else real

    @abstractmethod
    def support_plus(self, theta: Tensor | None) -> Constraint:
        """The set outside which f_plus(.; theta) is zero, as a torch constraint: `self.support`
        where there is nothing more to say."""

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

    @abstractmethod
    def sample_reference(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """n points that surely reach f_plus p(x, y): x (*, n, D) and their log density (*, n)."""

    @abstractmethod
    def log_reference(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        """Log density of the points of `sample_reference` at x (*, n, D), in nats: (*, n)."""

    @property
    def knows_truth(self) -> bool:
        """Whether mu(y, theta) is known: whether the problem defines `_log_truth`."""
        return type(self)._log_truth is not Problem._log_truth

    @property
    def knows_bound(self) -> bool:
        """Whether the constant of the SNIS bound is known, see `_expected_deviation`."""
        return type(self)._expected_deviation is not Problem._expected_deviation

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        """log|mu(y, theta)| in nats, exact; result: (*). Optional."""
        raise ValueError(
            f"truth: {self.name} does not know it; define _log_truth, or give reference values "
            "where there is an argument truth"
        )

    def _truth_sign(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        """The sign of mu(y, theta), (*); to be defined where f takes both signs."""
        return np.ones(y.shape[:-1])

    def log_normalizer(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64] | None:
        """log E2 = log p(y) in nats, (*), where it is known exactly; None where it is not."""
        return None

    def _log_evidence(self, y: Tensor) -> NDArray[np.float64] | None:
        """log E2 in nats, (*), where it is known but still worth estimating, as in examples."""
        return None

    def _log_parts(self, y: Tensor, theta: Tensor | None) -> tuple[NDArray[np.float64], ...]:
        """log(E1_plus / E2) and, where f takes both signs, log(E1_minus / E2), in nats, (*); to
        be defined there."""
        return (self._log_truth(y, theta),)

    def shifted(self, theta: Tensor | None, shift: float) -> Tensor | None:
        """The theta at which proposals for f - shift are asked; theta itself, unless a subclass
        knows better."""
        return theta

    def negated(self) -> Problem:
        """The problem with -f in the place of f: its f_plus is the f_minus of this one.

        Raises:
            ValueError: f takes one sign only.
        """
        raise ValueError(f"negated: f >= 0 for {self.name}, so that there is no f_minus")

    def optimal_proposals(self) -> OptimalProposals | None:
        """The optimal proposals that are known in closed form, by name; None where none is.

        `q1_plus` is proportional to f_plus p(x, y), `q1_minus` to f_minus p(x, y), `q2` to
        p(x, y).
        Each gives its density at y (*, D_y) and theta (*, D_theta). With all of them every term
        has zero variance (Theorem 1 of the paper).
        """
        return None

    def _expected_deviation(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        """E|f(x; theta) - mu| under p(x | y), the constant of the SNIS bound; result: (*).
        Optional."""
        raise ValueError(
            f"expected_deviation: {self.name} does not know it; define _expected_deviation, or "
            "ask for no bound"
        )

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        """KL(g || p(x | y)) in nats with g proportional to |f| p(x | y); result: (*). Optional."""
        raise ValueError(f"mismatch: {self.name} does not know it; define _mismatch")

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        """The point of the mismatch control's path at t in [0, 1]: y (D_y) and theta (D_theta).

        The mismatch grows along the path. It may start from the point given. Optional.
        """
        raise ValueError(f"mismatch: {self.name} has no path along which it grows; define _path")

    def _at_mismatch(
        self, y: Tensor, theta: Tensor | None, level: float
    ) -> tuple[Tensor, Tensor | None]:
        """The point of the path where the mismatch has this level, or the nearer end."""

        def excess(t: float) -> float:
            return float(self._mismatch(*self._path(y, theta, t))) - level

        if excess(0.0) >= 0:
            return self._path(y, theta, 0.0)
        if excess(1.0) <= 0:
            return self._path(y, theta, 1.0)
        return self._path(y, theta, float(brentq(excess, 0.0, 1.0, xtol=1e-12)))

    def check(self, y: Any = None, theta: Any = None) -> tuple[Tensor, Tensor | None]:
        """Returns y and theta as float64 tensors, broadcast to (*, D_y) and (*, D_theta).

        Raises:
            ValueError: a value is missing, not finite or out of range, or shapes do not broadcast.
        """
        if self.y is not None:
            y = self.y.check(y)
        elif y is None or (isinstance(y, Tensor) and y.shape[-1:] == (0,)):
            y = torch.zeros(0, dtype=torch.float64) if y is None else y.double()
        else:
            raise ValueError(f"y: {self.name} has none, got {y!r}")
        if self.theta is None:
            if theta is not None:
                raise ValueError(f"theta: {self.name} has none, got {theta!r}")
            return y, None
        if theta is None:
            raise ValueError(f"theta: expected {self.theta._allowed()}, got None")
        theta = self.theta.check(theta)
        try:
            batch = torch.broadcast_shapes(y.shape[:-1], theta.shape[:-1])
        except RuntimeError:
            raise ValueError(
                f"y and theta: their batch shapes {tuple(y.shape[:-1])} and "
                f"{tuple(theta.shape[:-1])} do not broadcast"
            ) from None
        return y.expand(*batch, -1), theta.expand(*batch, -1)

    def truth(self, y: Any = None, theta: Any = None) -> NDArray[np.float64]:
        """mu(y, theta), exact, in the batch shape; 0 where it underflows (see `log_truth`).

        Raises:
            ValueError: see `check`; or the problem does not know it.
        """
        return self.truth_sign(y, theta) * np.exp(self.log_truth(y, theta))

    def truth_sign(self, y: Any = None, theta: Any = None) -> NDArray[np.float64]:
        """The sign of mu(y, theta), in the batch shape.

        Raises:
            ValueError: see `check`.
        """
        return self._truth_sign(*self.check(y, theta))

    def log_truth(self, y: Any = None, theta: Any = None) -> NDArray[np.float64]:
        """log|mu(y, theta)| in nats, exact, in the batch shape; -inf where mu is zero.

        Raises:
            ValueError: see `check`; or the problem does not know it.
        """
        return self._log_truth(*self.check(y, theta))

    def log_terms(self, y: Any = None, theta: Any = None) -> dict[str, NDArray[np.float64]]:
        """E1_plus, E1_minus (where f takes both signs) and E2, exact, each log E_t in nats, (*).

        Raises:
            ValueError: see `check`; or E2 is not known exactly.
        """
        y, theta = self.check(y, theta)
        log_E2 = self.log_normalizer(y, theta)
        if log_E2 is None:
            log_E2 = self._log_evidence(y)
        if log_E2 is None:
            raise ValueError(f"log_terms: E2 is not known exactly for {self.name}")
        parts = [part + log_E2 for part in self._log_parts(y, theta)]
        return dict(zip(("E1_plus", "E1_minus"), parts, strict=False)) | {"E2": log_E2}

    def expected_deviation(self, y: Any = None, theta: Any = None) -> NDArray[np.float64]:
        """E|f - mu| under the posterior, in units of f: the SNIS bound is its square over T.

        Raises:
            ValueError: see `check`; or the problem does not know it.
        """
        return self._expected_deviation(*self.check(y, theta))

    def mismatch(self, y: Any = None, theta: Any = None) -> NDArray[np.float64]:
        """KL(g || p(x | y)) in nats, with g proportional to |f| p(x | y), in the batch shape.

        Raises:
            ValueError: see `check`; or the problem does not know it.
        """
        return self._mismatch(*self.check(y, theta))

    def at_mismatch(
        self, level: float, y: Any = None, theta: Any = None
    ) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """The point on the problem's path from one y, theta where the mismatch has this level.

        The path moves theta, or y where there is no theta; `mismatch_range` says what it reaches.

        Arguments:
            level: Mismatch in nats; beyond the path's ends, the nearer end is given.
            y: Where the path starts, as for `truth`.
            theta: Likewise.

        Returns:
            y (D_y,) and theta (D_theta,), each None where the problem has none.

        Raises:
            ValueError: y, theta is not a single pair in range, the level is no number >= 0, or
                the problem does not know its mismatch or has no path.
        """
        if not isinstance(level, Real) or not level >= 0:
            raise ValueError(f"level: expected a number of nats >= 0, got {level!r}")
        y_there, theta_there = self._at_mismatch(*self._single(y, theta), float(level))
        return (
            None if self.y is None else y_there.numpy(),
            None if theta_there is None else theta_there.numpy(),
        )

    def mismatch_range(self, y: Any = None, theta: Any = None) -> tuple[float, float]:
        """The mismatch in nats at both ends of the path from one y, theta.

        Raises:
            ValueError: see `at_mismatch`.
        """
        pair = self._single(y, theta)
        low, high = (float(self._mismatch(*self._path(*pair, end))) for end in (0.0, 1.0))
        return low, high

    def _single(self, y: Any, theta: Any) -> tuple[Tensor, Tensor | None]:
        y, theta = self.check(y, theta)
        if y.ndim > 1:
            raise ValueError(f"y: expected a single one, got batch {tuple(y.shape[:-1])}")
        return y, theta

    def log_joint(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(x, y) in nats; x: (*, n, D), y: (*, D), result: (*, n)."""
        return self.log_prior(x) + self.log_likelihood(x, y[..., None, :])

    def f_parts(
        self, x: Tensor, theta: Tensor | None, shift: float = 0.0
    ) -> tuple[Tensor, Tensor | None]:
        """f_plus and f_minus of f - shift at x (*, n, D); f_minus is None where f >= shift = 0."""
        value = self.f(x, None if theta is None else theta[..., None, :]) - shift
        if self.nonnegative and shift <= 0:
            return value, None
        return value.clamp(min=0), (-value).clamp(min=0)

    def cases(
        self, n: int, *, seed: int
    ) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """n pairs y (n, D_y), theta (n, D_theta) from p(y) p(theta); None for what there is not.

        Raises:
            ValueError: n is not a positive whole number, or the seed is negative.
        """
        check_count("n", n, low=1, high=10**7)
        y, theta = self.sample_cases(n, torch.Generator().manual_seed(check_seed(seed)))
        return (
            None if self.y is None else y.double().numpy(),
            None if theta is None else theta.double().numpy(),
        )

    def typical_case(self) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """A case in the middle of the usual ranges: y (D_y,) and theta (D_theta,).

        Where a range has no end it is the median of p(y) p(theta); None for what there is not.
        """
        y, theta = self.cases(1001, seed=0)
        return _typical(self.y, y), _typical(self.theta, theta)

    def sample_cases(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """n pairs from p(y) p(theta), kept within the ranges that the problem declares."""
        x = self.sample_prior(n, generator)
        if self.y is None:
            return x[:, :0], self.sample_theta(n, generator)
        y = self.sample_likelihood(x, generator).clamp(self.y.low, self.y.high)
        return y, self.sample_theta(n, generator)


def _typical(
    variable: Variable | None, drawn: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    if variable is None or drawn is None:
        return None
    middle = np.full(variable.dim, sum(variable.usual_range) / 2)
    return middle if np.isfinite(middle).all() else np.median(drawn, axis=0)


def strictly_above(x: Tensor, bound: Tensor) -> Tensor:
    """x, moved up to the next floating point number above the bound where rounding put it there.

    A point on the bound of an open support has density zero, so one of them in millions makes a
    loss infinite or a weight NaN.
    """
    return torch.maximum(x, torch.nextafter(bound, torch.full_like(bound, torch.inf)))


def standard_normal_log_prob(z: Tensor) -> Tensor:
    """Log density of N(0, I) at z (*, D) in nats; result: (*)."""
    return -0.5 * z.square().sum(-1) - 0.5 * z.shape[-1] * math.log(2 * math.pi)
