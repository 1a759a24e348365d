r"""The contract of a problem: what its methods return, tried at a few draws at the first use."""

from __future__ import annotations

__all__ = ["BOTH_SIGNS", "functions_at", "misfits", "named", "raised"]

import math
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from amci_core.models.base import Problem

# How an f that takes both signs is mended.
BOTH_SIGNS = "Fix f, or declare nonnegative = False (with_target(..., nonnegative=False))"
# What to write in the place of what raises an error with these words.
INSTEAD = {
    "Boolean value of Tensor": "x holds many points: write torch.where(x > 0, a, b) for if, & for "
    "and, | for or, torch.maximum for max",
    "truth value of an array": "x holds many points: write np.where(x > 0, a, b) for if, & for "
    "and, | for or, np.maximum for max",
    "converted to Python scalars": "x holds many points: write torch.exp for math.exp, no float()",
    "__torch_function__": "Write torch's functions, such as torch.sin for np.sin",
    "object is not callable": "Pass a function, such as lambda x: ...",
    "dtype": "x, y and theta are float64: make your tensors float64 too",
}
# Files that are no user's: Python, installed packages, this one, and what no file holds.
PACKAGE = str(Path(__file__).parents[1])
FOREIGN = ("<", PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))


def misfits(problem: Problem, batch: tuple[int, ...] = (4,), points: int = 16) -> list[ValueError]:
    """Errors of methods that raise, or return another shape, type or sign than they have to.

    Every method is called at a few draws. Samplers come first: if one is wrong, the methods that
    need its draws are left for the next time.

    Arguments:
        problem: The problem.
        batch: The batch shape of y and theta, (*).
        points: Points x of each case.

    Returns:
        The errors, whose texts begin with the method's name; empty if there are none.
    """
    generator = torch.Generator().manual_seed(0)
    shape = (*batch, points)
    try:
        x, y, theta = _draws(problem, batch, points, generator)
    except ValueError as error:
        return [error]
    errors = []
    for method, arguments in functions_at(x, y, theta).items():
        try:
            value = _called(problem, method, *arguments)
            _check_tensor(method, value, shape)
            if method == "f":
                _check_range(problem, value)
        except ValueError as error:
            errors.append(error)
    if errors:  # the defensive density may be the prior
        return errors
    try:
        draws = _called(problem, "sample_defensive", y, theta, points, generator)
        x, log_q = draws if isinstance(draws, tuple) and len(draws) == 2 else (draws, draws)
        _check_tensor("sample_defensive", x, (*shape, problem.x.dim))
        _check_tensor("sample_defensive", log_q, shape)
        _check_tensor("log_defensive", _called(problem, "log_defensive", x, y, theta), shape)
    except ValueError as error:
        errors.append(error)
    return errors


def functions_at(
    x: Tensor, y: Tensor, theta: Tensor | None
) -> dict[str, tuple[Tensor | None, ...]]:
    """The arguments of log_prior, log_likelihood and f at points x (*, n, D) of cases (*)."""
    wide = None if theta is None else theta[..., None, :]
    return {"log_prior": (x,), "log_likelihood": (x, y[..., None, :]), "f": (x, wide)}


def _draws(
    problem: Problem, batch: tuple[int, ...], points: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor | None]:
    """x (*, n, D), y (*, D_y) and theta (*, D_theta) in float64."""
    cases = math.prod(batch)
    n = cases * points
    x = _called(problem, "sample_prior", n, generator)
    _check_tensor("sample_prior", x, (n, problem.x.dim), exact=False)
    y, theta = x[:, :0], None
    if problem.y is not None:
        y = _called(problem, "sample_likelihood", x, generator)
        _check_tensor("sample_likelihood", y, (n, problem.y.dim), exact=False)
    if problem.theta is not None:
        theta = _called(problem, "sample_theta", cases, generator)
        _check_tensor("sample_theta", theta, (cases, problem.theta.dim), exact=False)
        theta = theta.double().reshape(*batch, problem.theta.dim)
    x = x.double().reshape(*batch, points, problem.x.dim)
    return x, y[:cases].double().reshape(*batch, y.shape[-1]), theta


def _called(problem: Problem, method: str, *arguments: Any) -> Any:
    with named(method):
        return getattr(problem, method)(*arguments)


def _check_tensor(method: str, value: Any, shape: tuple[int, ...], *, exact: bool = True) -> None:
    """Refuses what is no tensor of the shape, in float64 or, unless exact, any floating point."""
    came = type(value).__name__
    if isinstance(value, Tensor):
        right = value.dtype == torch.float64 if exact else value.is_floating_point()
        if right and value.shape == shape:
            return
        came = f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    hint = ". Write torch's functions, to train through" * isinstance(value, np.ndarray)
    kind = "float64" if exact else "floating point"
    raise ValueError(f"{method}: expected a {kind} tensor of shape {shape}, got {came}{hint}")


def _check_range(problem: Problem, f: Tensor) -> None:
    if problem.nonnegative and (f < 0).any():
        raise ValueError(
            f"f: expected values >= 0, since nonnegative is True, got {float(f.min()):g}. "
            f"{BOTH_SIGNS}"
        )
    low, high = problem.f_range
    beyond = f[f.isfinite() & ((f < low) | (f > high))]
    if len(beyond):
        raise ValueError(
            f"f: expected values within f_range, [{low:g}, {high:g}], got {float(beyond[0]):g}"
        )


class FunctionError(ValueError):
    """What a user's function raised, or gave wrongly, with the argument's name."""


@contextmanager
def named(argument: str, hint: str = "") -> Iterator[None]:
    """What a user's function raises, as a ValueError with the argument's name."""
    try:
        yield
    except FunctionError:
        raise
    except Exception as error:
        text = str(error)
        # The package's own errors have it already.
        if not text.startswith(f"{argument}: "):
            text = f"{argument}: {raised(error)}{hint}"
        raise FunctionError(text) from error


def raised(error: BaseException) -> str:
    """An exception in a short sentence, with the last line of a user's file that led to it, and
    what to write instead."""
    # torch appends all values of a tensor.
    text = " ".join(str(error).partition(":\ntensor(")[0].split())
    frames = traceback.extract_tb(error.__traceback__)
    text = text or f"in {frames[-1].name}"
    lines = [
        f" in {Path(frame.filename).name}, line {frame.lineno}"
        for frame in frames
        if not frame.filename.startswith(FOREIGN)
    ]
    hint = next((f". {hint}" for words, hint in INSTEAD.items() if words in text), "")
    return f"raised {type(error).__name__}{''.join(lines[-1:])}: {text[:240].rstrip('.')}{hint}"
