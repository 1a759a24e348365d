r"""What the methods of a problem have to return: shapes, types, and nothing raised."""

from __future__ import annotations

__all__ = [
    "CASES",
    "POINTS",
    "Raised",
    "Violation",
    "attempt",
    "not_a_number",
    "place",
    "violations",
    "whole_coordinates",
]

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from amci_core.models.definition import Definition, Variable

# Cases, and points in each, that a problem is tried with.
CASES, POINTS = 4, 16
# Draws of y that say whether it is whole: counts may all be zero in the few that are tried first.
DRAWS = CASES * POINTS, 4096
# The longest message of an exception that is repeated.
LONGEST = 240
# Exceptions that numbers do not cause.
WITHOUT_NUMBERS = (AttributeError, ImportError, NameError, TypeError)


@dataclass(frozen=True)
class Violation:
    """What a method gave in the place of what was expected.

    Arguments:
        method: Its name.
        text: One sentence without the method's name.
        cause: The exception that it raised, or None.
        sure: Whether it is a mistake: no exception that numbers in the place of draws may cause.
    """

    method: str
    text: str
    cause: Exception | None = None
    sure: bool = True

    def __str__(self) -> str:
        return f"{self.method}: {self.text}"


class Raised(Exception):
    """A violation on its way through the methods that call the method."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


def place(point: Tensor) -> str:
    """A point (D,) in a message: its first coordinates."""
    said = ", ".join(f"{each:.4g}" for each in point[:5].tolist())
    return f"({said}{', ...' if len(point) > 5 else ''})"


def attempt(method: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """What a method returns, or the violation that its exception is."""
    try:
        return call(*arguments)
    except Raised as raised:
        return raised.violation
    except Exception as error:
        # torch adds all values of a tensor.
        message = " ".join(str(error).partition(":\ntensor(")[0].split())
        # The package's own errors begin with the method's name, and say what to change.
        if message.startswith(f"{method}: "):
            return Violation(method, message.removeprefix(f"{method}: "), error)
        shapes = [str(tuple(each.shape)) for each in arguments if isinstance(each, Tensor)]
        given = f" for tensors of shape {' and '.join(shapes)}" if shapes else ""
        said = f": {message[:LONGEST]}" if message else ""
        return Violation(method, f"raised {type(error).__name__}{given}{said}", error)


def violations(
    problem: Definition, batch: tuple[int, ...] = (CASES,), points: int = POINTS
) -> list[Violation]:
    """What does not fit, one for each method, in the order in which the methods are tried.

    A method that needs draws of a sampler that does not fit is tried with numbers of its range:
    what it returns then has to fit; that it raises at those numbers, or is NaN, is not sure.

    Arguments:
        problem: What is tried, at a few draws of its prior.
        batch: The batch shape of y and theta, (*).
        points: Points x of each of them.
    """
    generator = torch.Generator().manual_seed(0)
    cases, shape = math.prod(batch), (*batch, points)
    count, x_dim = cases * points, problem.x.dim
    y_dim = problem.y.dim if problem.y else 0
    wrong: dict[str, Violation] = {}

    def note(found: Violation, sure: bool) -> None:
        if not sure:
            text = f"{found.text}, at numbers in the place of draws"
            found = replace(found, text=text, sure=False)
        wrong.setdefault(found.method, found)

    def fitting(method: str, value: Any, *expected: Any, sure: bool = True) -> Any:
        """The value; or None where it does not fit, which is noted."""
        found = _misfit(method, value, *expected)
        if found is not None:
            cause = found.cause
            own = isinstance(cause, WITHOUT_NUMBERS) or str(cause).startswith(f"{method}: ")
            note(found, sure or cause is None or own)
        return value if found is None else None

    def drawn(method: str, variable: Variable, value: Any, n: int, sure: bool = True) -> Any:
        value = fitting(method, value, (n, variable.dim), sure=sure)
        return _within(variable, n, generator) if value is None else value

    x = attempt("sample_prior", problem.sample_prior, count, generator)
    x = drawn("sample_prior", problem.x, x, count)
    y = attempt("sample_likelihood", problem.sample_likelihood, x, generator)
    if problem.y is None:
        y = x[:, :0]
    else:
        y = drawn("sample_likelihood", problem.y, y, count, "sample_prior" not in wrong)
    theta = attempt("sample_theta", problem.sample_theta, cases, generator)
    if problem.theta is not None:
        theta = drawn("sample_theta", problem.theta, theta, cases)
    elif theta is not None:
        said = "expected None, since there is no theta, got a value"
        wrong["sample_theta"] = Violation("sample_theta", said)
        theta = None

    sure = not wrong
    x = x.double().reshape(*shape, x_dim)
    y = y[:cases].double().reshape(*batch, y_dim)
    theta = None if theta is None else theta.double().reshape(*batch, -1)
    wide: Any = None if theta is None else theta[..., None, :]
    density = (shape, torch.float64)
    calls: dict[str, tuple[Any, ...]] = {
        "log_prior": (x,),
        "log_likelihood": (x, y[..., None, :]),
        "f": (x, wide),
    }
    value = None
    for method, arguments in calls.items():
        value = attempt(method, getattr(problem, method), *arguments)
        value = fitting(method, value, *density, sure=sure)
    if value is not None:
        nan, negative = value.isnan(), problem.nonnegative and bool((value < 0).any())
        if nan.any():
            at, n = place(x[nan][0]), int(nan.sum())
            said = f"is NaN at x = {at}, as at {n} of {nan.numel()} points; return finite numbers"
            # Where p(x, y) is zero f may be no number.
            note(Violation("f", said), negative)
        elif negative:
            said = (
                f"expected values >= 0, since nonnegative is True, got {float(value.min()):g}; "
                "mend f or declare nonnegative = False"
            )
            note(Violation("f", said), True)
        low, high = problem.f_range
        finite = value[value.isfinite()]
        if not negative and bool(((finite < low) | (finite > high)).any()):
            said = (
                f"expected values within f_range, [{low:g}, {high:g}], got "
                f"{float(finite.min()):g} to {float(finite.max()):g}; mend f or f_range"
            )
            note(Violation("f", said), True)
    # By default the reference is the prior.
    if wrong and not problem.has_defensive:
        return list(wrong.values())
    method = "sample_defensive"
    pair = attempt(method, problem.sample_defensive, y, theta, points, generator)
    two = isinstance(pair, tuple) and len(pair) == 2
    reference, log_q = pair if two else (pair, pair)
    reference = fitting(method, reference, (*shape, x_dim), torch.float64, sure=sure)
    log_q = fitting(method, log_q, *density, sure=sure)
    if reference is not None and log_q is not None:
        method = "log_defensive"
        value = attempt(method, problem.log_defensive, reference, y, theta)
        fitting(method, value, *density, sure=sure)
    return list(wrong.values())


def not_a_number(problem: Definition, x: Tensor, y: Tensor, theta: Tensor | None) -> str:
    """The method that raises, or is NaN or infinite, at one of the points x; empty if none is.

    Arguments:
        problem: The problem.
        x: Points (cases, n, D).
        y: (cases, D_y).
        theta: (cases, D_theta), or None.
    """
    if not y.isfinite().all():
        return f"sample_likelihood draws {y[~y.isfinite()][0].item():g}"
    calls: dict[str, tuple[Any, ...]] = {
        "log_prior": (x,),
        "log_likelihood": (x, y[:, None]),
        "f": (x, None if theta is None else theta[:, None]),
    }
    log_joint = x.new_zeros(x.shape[:-1])
    for method, arguments in calls.items():
        value = attempt(method, getattr(problem, method), *arguments)
        if isinstance(value, Violation):
            return str(value)
        bad = value.isnan() | (value == torch.inf)
        if method == "f":
            # Where p(x, y) is zero f may be no number.
            bad = (bad | (value == -torch.inf)) & (log_joint > -torch.inf)
        else:
            log_joint = log_joint + value
        if bad.any():
            case, i = bad.nonzero()[0].tolist()
            at = {"x": x[case, i], "y": y[case], "theta": None if theta is None else theta[case]}
            said = ", ".join(
                f"{name} = {[float(f'{v:.6g}') for v in point.tolist()]}"
                for name, point in at.items()
                if point is not None and len(point)
            )
            return f"{method} is {value[case, i].item():g} at {said}"
    return ""


def whole_coordinates(problem: Definition) -> tuple[bool, ...]:
    """Which coordinates of y take whole numbers only: in all of a few thousand draws."""
    generator = torch.Generator().manual_seed(0)
    for n in DRAWS:
        y = problem.sample_likelihood(problem.sample_prior(n, generator), generator)
        # Beyond these numbers a type has no halves.
        fine = y.abs() < 0.5 / torch.finfo(y.dtype).eps
        whole = (y == y.round()).all(0) & fine.any(0)
        if not whole.any():
            break
    return tuple(whole.tolist())


def _within(variable: Variable, n: int, generator: torch.Generator) -> Tensor:
    """n points (n, D) within a variable's range."""
    low, high = variable.typical_range
    if math.isfinite(high - low):
        return low + (high - low) * torch.rand(n, variable.dim, generator=generator)
    z = torch.randn(n, variable.dim, generator=generator)
    if math.isfinite(low):
        return low + z.exp()
    return high - z.exp() if math.isfinite(high) else z


def _misfit(
    method: str, value: Any, shape: tuple[int, ...], dtype: torch.dtype | None = None
) -> Violation | None:
    """What is wrong with a tensor that has to be of this shape and type.

    Any floating point type does where none is named.
    """
    if isinstance(value, Violation):
        return value
    kind, came = "floating point" if dtype is None else "float64", type(value).__name__
    hint = "return a torch tensor"
    if isinstance(value, Tensor):
        fits = value.is_floating_point() if dtype is None else value.dtype == dtype
        if fits and value.shape == shape:
            return None
        came = f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
        hint = _shape_hint(tuple(value.shape), shape)
        if not fits:
            hint = f"{hint}; " if value.shape != shape else ""
            hint += "convert it with .to(x.dtype)" if dtype else "convert it with .double()"
            if value.dtype == torch.float32:
                # torch's distributions compute in the type of their parameters.
                hint += ", or give the parameters of a distribution as x.new_tensor(2.0)"
    return Violation(method, f"expected a {kind} tensor of shape {shape}, got {came}; {hint}")


def _shape_hint(came: tuple[int, ...], expected: tuple[int, ...]) -> str:
    if came == (*expected, 1):
        return "drop the last axis with .squeeze(-1)"
    if came[:-1] == expected:
        return "reduce the last axis, as .sum(-1) does"
    if (*came, 1) == expected:
        return "keep the last axis, of length 1"
    if len(came) > len(expected):
        return "x and theta broadcast to too much: take coordinates as theta[..., 0]"
    return "keep the axes before the last one"
