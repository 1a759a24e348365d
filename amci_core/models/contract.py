r"""What the methods of a problem have to return: shapes, types, and nothing raised."""

from __future__ import annotations

__all__ = ["CASES", "POINTS", "Violation", "attempt", "violations"]

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from amci_core.models.definition import Definition

# Cases, and points in each, that a problem is tried with.
CASES, POINTS = 4, 16
# The longest message of an exception that is repeated.
LONGEST = 240


@dataclass(frozen=True)
class Violation:
    """What a method gave in the place of what was expected.

    Arguments:
        method: Its name.
        text: One sentence without the method's name.
        cause: The exception that it raised, or None.
    """

    method: str
    text: str
    cause: Exception | None = None

    def __str__(self) -> str:
        return f"{self.method}: {self.text}"


def attempt(method: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """What a method returns, or the violation that its exception is."""
    try:
        return call(*arguments)
    except Exception as error:
        message = " ".join(str(error).split())
        # The package's own errors begin with the method's name, and say what to change.
        if message.startswith(f"{method}: "):
            return Violation(method, message.removeprefix(f"{method}: "), error)
        shapes = [str(tuple(each.shape)) for each in arguments if isinstance(each, Tensor)]
        given = f" for tensors of shape {' and '.join(shapes)}" if shapes else ""
        said = f": {message[:LONGEST]}" if message else ""
        return Violation(method, f"raised {type(error).__name__}{given}{said}", error)


def violations(
    problem: Definition, batch: tuple[int, ...] = (CASES,), points: int = POINTS
) -> Iterator[Violation]:
    """What does not fit, in the order in which the methods are tried.

    Later methods need what the samplers return: where these do not fit, it ends with them.

    Arguments:
        problem: What is tried, at a few draws of its prior.
        batch: The batch shape of y and theta, (*).
        points: Points x of each of them.
    """
    generator = torch.Generator().manual_seed(0)
    cases, shape = math.prod(batch), (*batch, points)
    count, x_dim = cases * points, problem.x.dim
    y_dim = problem.y.dim if problem.y else 0

    def sampled(method: str, dim: int, n: int, *arguments: Any) -> Any:
        value = attempt(method, getattr(problem, method), *arguments, generator)
        return _misfit(method, value, (n, dim)) or value

    x: Any = sampled("sample_prior", x_dim, count, count)
    y: Any = x if isinstance(x, Violation) else sampled("sample_likelihood", y_dim, count, x)
    theta: Any = attempt("sample_theta", problem.sample_theta, cases, generator)
    if problem.theta is not None:
        theta = _misfit("sample_theta", theta, (cases, problem.theta.dim)) or theta
    elif theta is not None and not isinstance(theta, Violation):
        said = "expected None, since there is no theta, got a value"
        theta = Violation("sample_theta", said)
    wrong = [each for each in (x, y, theta) if isinstance(each, Violation)]
    yield from dict.fromkeys(wrong)
    if wrong:
        return

    x = x.double().reshape(*shape, x_dim)
    y = y[:cases].double().reshape(*batch, y_dim)
    theta = None if theta is None else theta.double().reshape(*batch, -1)
    wide: Any = None if theta is None else theta[..., None, :]
    value = attempt("f", problem.f, x, wide)
    reference = attempt("sample_reference", problem.sample_reference, y, theta, points, generator)
    pair = isinstance(reference, tuple) and len(reference) == 2
    drawn, log_q = reference if pair else (reference, reference)
    tried: list[tuple[str, Any, tuple[int, ...]]] = [
        ("log_prior", attempt("log_prior", problem.log_prior, x), shape),
        (
            "log_likelihood",
            attempt("log_likelihood", problem.log_likelihood, x, y[..., None, :]),
            shape,
        ),
        ("f", value, shape),
        ("sample_reference", drawn, (*shape, x_dim)),
        ("sample_reference", log_q, shape),
    ]
    for method, given, expected in tried:
        wrong_one = _misfit(method, given, expected, torch.float64)
        if wrong_one is not None:
            wrong.append(wrong_one)
            yield wrong_one
    failed = {each.method for each in wrong}
    if "sample_reference" not in failed:
        given = attempt("log_reference", problem.log_reference, drawn, y, theta)
        found = _misfit("log_reference", given, shape, torch.float64)
        if found is not None:
            yield found
    if problem.nonnegative and "f" not in failed and (value < 0).any():
        yield Violation(
            "f",
            f"expected values >= 0, since nonnegative is True, got {float(value.min()):g}; "
            "mend f or declare nonnegative = False",
        )


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
