r"""What a problem is and what it answers: truth, cases, mismatch, its terms."""

from __future__ import annotations

__all__ = ["Array", "Density", "OptimalProposals", "Problem", "Variable", "check_problem"]

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import Transform

from amci_core._arguments import check_count, check_number, check_seed
from amci_core.models.contract import violations, whole_coordinates
from amci_core.models.definition import Array, Definition, Density, OptimalProposals, Variable

# What does not depend on the sign of f, without abstract methods and properties.
SHARED = (
    *("name", "title", "description", "formula", "x", "y", "theta"),
    *("log_likelihood", "sample_likelihood", "sample_theta", "log_evidence"),
    *("_truth_error", "_log_evidence", "_log_mean_absolute_deviation", "_mismatch", "_path"),
)


class Problem(Definition):
    r"""A family of expectations mu(y, theta) = E[f(x; theta)] under p(x | y).

    A new problem is a subclass that declares the attributes below and defines the methods of
    `Definition`. Subclasses hold nothing but their mathematics: this class checks every argument
    once, and calls their methods with float64 tensors of shapes (*, D). Densities and f are
    written with torch, since training needs their values on any device; points x carry one axis
    more than y and theta, (*, n, D) against (*, 1, D). What samplers, densities and f return is
    checked for shape and type at the problem's first use.

    Parts can be absent. Without theta it is None everywhere. Without observations `y` is None, the
    tensors y have zero columns and E2 is 1. Where E2 is known, `log_evidence` says so, and no q2
    is needed. If f takes both signs, `with_negated_f` gives the problem with -f in place of f.

    What is known of the truth is optional: estimates and training need none of it, errors need
    `_log_truth` or reference values, the SNIS bound `_log_mean_absolute_deviation`, the
    dashboard's mismatch control `_mismatch` and `_path`. A ValueError names what is missing.

    Attributes:
        name: What it is called by.
        title: Its heading in lists and on the dashboard.
        description: What it asks, in a few sentences.
        formula: Its densities and f, in TeX.
        x: What is integrated over.
        y: What is observed; None, or left out, where nothing is.
        theta: The parameters of f, likewise.
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

    _valid = False

    def check(self, y: Any = None, theta: Any = None) -> tuple[Tensor, Tensor | None]:
        """Returns y and theta as float64 tensors, broadcast to (*, D_y) and (*, D_theta).

        Raises:
            ValueError: a value is missing, not finite or out of range, or shapes do not broadcast;
                or a method of the problem returns what does not fit, at its first use.
        """
        _validate(self)
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
        theta = self.theta.check(theta)
        try:
            batch = np.broadcast_shapes(y.shape[:-1], theta.shape[:-1])
        except ValueError:
            raise ValueError(
                f"y and theta: their batch shapes {tuple(y.shape[:-1])} and "
                f"{tuple(theta.shape[:-1])} do not broadcast"
            ) from None
        return y.expand(*batch, -1), theta.expand(*batch, -1)

    def truth(self, y: Any = None, theta: Any = None) -> Array:
        """mu(y, theta), in the batch shape; 0 where it underflows (see `log_truth`).

        It is exact, or as accurate as `truth_error` says.

        Raises:
            ValueError: see `check`; or the problem does not know it.
        """
        log_mu, sign = self._checked_truth(y, theta)
        return sign * np.exp(log_mu)

    def truth_sign(self, y: Any = None, theta: Any = None) -> Array:
        """The sign of mu(y, theta), in the batch shape; 0 where mu is zero. Raises as `truth`."""
        return self._checked_truth(y, theta)[1]

    def log_truth(self, y: Any = None, theta: Any = None) -> Array:
        """log|mu(y, theta)| in nats, in the batch shape; -inf where mu is zero.
        Raises as `truth`."""
        return self._checked_truth(y, theta)[0]

    def truth_error(self, y: Any = None, theta: Any = None) -> Array:
        """Relative standard error of `truth`, in the batch shape; 0 where that is exact.

        Raises:
            ValueError: see `check`.
        """
        return self._truth_error(*self.check(y, theta))

    def _checked_truth(self, y: Any, theta: Any) -> tuple[Array, Array]:
        found = self._log_truth(*self.check(y, theta))
        if not isinstance(found, tuple) or len(found) != 2:
            raise ValueError(
                f"_log_truth: expected a pair, log|mu| and its sign, got {type(found).__name__}"
            )
        return found

    def log_terms(self, y: Any = None, theta: Any = None) -> dict[str, Array]:
        """E1_plus, E1_minus (where f takes both signs) and E2, exact, each log E_t in nats, (*).

        Raises:
            ValueError: see `check`; or E2 is not known exactly.
        """
        y, theta = self.check(y, theta)
        log_E2 = self.log_evidence(y, theta)
        if log_E2 is None:
            log_E2 = self._log_evidence(y)
        if log_E2 is None:
            raise ValueError(f"log_terms: E2 is not known exactly for {self.name}")
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

        The path moves theta, or y where there is no theta; `mismatch_range` says what it reaches.

        Arguments:
            level: Mismatch in nats; beyond the path's ends, the nearer end is given.
            y: Where the path starts, as for `truth`.
            theta: Likewise.

        Returns:
            y (D_y,) and theta (D_theta,), each None where the problem has none.

        Raises:
            ValueError: y, theta is not a single pair in range, the level is no number >= 0, or
                the problem does not know its mismatch, has no path, or none where f is not zero.
        """
        level = check_number("level", level, "a number of nats >= 0", allowed=lambda v: v >= 0)
        pair = self._single(y, theta)

        def excess(t: float) -> float:
            return self._mismatch_along(pair, t) - level

        if excess(0.0) >= 0:
            t = 0.0
        else:
            t = 1.0 if excess(1.0) <= 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-12))
        return self._arrays(*self._path(*pair, t))

    def mismatch_range(self, y: Any = None, theta: Any = None) -> tuple[float, float]:
        """The mismatch in nats at both ends of the path from one y, theta.
        Raises as `at_mismatch`."""
        pair = self._single(y, theta)
        return self._mismatch_along(pair, 0.0), self._mismatch_along(pair, 1.0)

    def _mismatch_along(self, pair: tuple[Tensor, Tensor | None], t: float) -> float:
        y, theta = self._path(*pair, t)
        level = float(self._mismatch(y, theta))
        if math.isnan(level):
            case = {"y": y, "theta": theta}
            at = ", ".join(
                f"{k} = {v.tolist()}" for k, v in case.items() if v is not None and v.numel()
            )
            raise ValueError(
                f"mismatch: there is none at {at}, a point of its path where f is zero; define "
                "_path, or narrow what is shown"
            )
        return level

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

    def cases(self, n: int, *, seed: int) -> tuple[Array | None, Array | None]:
        """n pairs y (n, D_y), theta (n, D_theta) from p(y) p(theta); None for what there is not.

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

    def typical_case(self) -> tuple[Array | None, Array | None]:
        """A case in the middle of the typical ranges: y (D_y,) and theta (D_theta,).

        Where a range has no end it is the median of p(y) p(theta); None for what there is not.
        """

        def middle(variable: Variable | None, drawn: Array | None) -> Array | None:
            if variable is None or drawn is None:
                return None
            centre = np.full(variable.dim, sum(variable.typical_range) / 2)
            centre = centre if np.isfinite(centre).all() else np.median(drawn, axis=0)
            return variable.nearest(torch.as_tensor(centre)).numpy()

        y, theta = self.cases(1001, seed=0)
        return middle(self.y, y), middle(self.theta, theta)

    def sample_cases(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """n pairs from p(y) p(theta), kept within the ranges that the problem declares."""
        _validate(self)
        x = self.sample_prior(n, generator)
        if self.y is None:
            return x[:, :0], self.sample_theta(n, generator)
        y = self.y.nearest(self.sample_likelihood(x, generator))
        return y, self.sample_theta(n, generator)

    def with_negated_f(self) -> Problem:
        """The problem with -f in the place of f: its f_plus is the f_minus of this one.

        By default its defensive density is the prior, and its f_plus may be positive on all of the
        prior's support. Define it where more is known, such as a problem of the same class with
        the other sign.

        Raises:
            ValueError: the problem declares f >= 0.
        """
        return _Negated(self)


class _Negated(Problem):
    """A problem that differs from the original in the sign of f alone.

    Its defensive density is the prior, which reaches f_minus p(x, y), though seldom where that
    lies far out in the prior's tail.

    Arguments:
        original: The problem.

    Raises:
        ValueError: the original declares f >= 0.
    """

    nonnegative = False

    def __init__(self, original: Problem) -> None:
        if original.nonnegative:
            raise ValueError(
                f"with_negated_f: {original.name} declares nonnegative = True, so that f_minus is "
                "zero; where f takes both signs, declare False and define it"
            )
        self.original = original
        for name in SHARED:
            setattr(self, name, getattr(original, name))

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        return -self.original.f(x, theta)

    def with_negated_f(self) -> Problem:
        return self.original

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        log_mu, sign = self.original._log_truth(y, theta)
        return log_mu, -sign

    def _log_parts(self, y: Tensor, theta: Tensor | None) -> tuple[Array, ...]:
        return self.original._log_parts(y, theta)[::-1]

    def optimal_proposals(self) -> OptimalProposals | None:
        swapped = {"q1_plus": "q1_minus", "q1_minus": "q1_plus"}
        known = self.original.optimal_proposals()
        return known and {swapped.get(name, name): q for name, q in known.items()}

    def shifted(self, theta: Tensor | None, shift: float) -> Tensor | None:
        # -f - c = -(f - (-c))
        return self.original.shifted(theta, -shift)

    def log_prior(self, x: Tensor) -> Tensor:
        return self.original.log_prior(x)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return self.original.sample_prior(n, generator)

    @property
    def f_range(self) -> tuple[float, float]:  # type: ignore[override]
        low, high = self.original.f_range
        return -high, -low

    @property
    def support(self) -> Constraint:
        return self.original.support

    @property
    def coordinate_transforms(self) -> Mapping[str, Transform]:
        return self.original.coordinate_transforms

    @property
    def knows_truth(self) -> bool:
        return self.original.knows_truth

    @property
    def knows_bound(self) -> bool:
        return self.original.knows_bound


def check_problem(value: Any) -> Problem:
    """Returns a problem, or says what came in its place.

    Raises:
        ValueError: it is not one, but a name, a class, None or something else.
    """
    if isinstance(value, Problem):
        return value
    hint = "; call the class" if isinstance(value, type) else ""
    hint = "; amci_core.problem gives the one of a name" if isinstance(value, str) else hint
    raise ValueError(f"problem: expected an amci_core.models.Problem, got {value!r:.60}{hint}")


def _validate(problem: Problem) -> None:
    """Refuses a problem, once, whose methods do not return what they have to."""
    if problem._valid:
        return
    found = [each for each in violations(problem) if each.sure]
    if found:
        raise ValueError("; ".join(map(str, found))) from found[0].cause
    if problem.y is not None and problem.y.whole is None:
        problem.y = replace(problem.y, whole=whole_coordinates(problem))
    problem._valid = True
