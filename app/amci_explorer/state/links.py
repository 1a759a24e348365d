r"""Choices as links and files hold them: read once, with what is allowed, and written."""

from __future__ import annotations

__all__ = [
    "Coordinates",
    "Expression",
    "OutOfBounds",
    "brief",
    "decoded",
    "nearest",
    "number",
    "read",
    "write",
]

import math
from collections.abc import Mapping, Sequence
from typing import Any

import param
import torch

from amci_core.models import Problem, Variable
from amci_explorer.problems import registry
from amci_explorer.problems.settings import Point

# Characters of a refused value that a message shows, and that a link may have.
SHOWN, LONGEST = 24, 2000
# Significant digits of a number: a link with them is short, and leads to the very same case.
DIGITS = 6


class OutOfBounds(ValueError):
    """A number is beyond what is allowed; `nearest` is the closest value that is not."""

    def __init__(self, message: str, nearest: Any) -> None:
        super().__init__(message)
        self.nearest = nearest


class Coordinates(param.Parameter):
    """The coordinates of y or theta, a tuple; empty if the problem has none."""


class Expression(param.String):
    """An expression for f, tried at draws from the prior; empty for the problem's own f."""


def read(parameter: Any, given: Any, problem: Problem, options: Mapping[Any, str]) -> Any:
    """The value of a choice from the text of an address, or from a plain value.

    Arguments:
        parameter: The choice's declaration.
        given: The text or the value.
        problem: The problem that it is for.
        options: The values that it can have; empty if these cannot be listed.

    Raises:
        OutOfBounds: a number is beyond its bounds.
        ValueError: any other value is not allowed.
    """
    if len(str(given)) > LONGEST:
        raise ValueError(f"too long: {brief(given)}")
    if options:
        return _one_of(given, options)
    kind = type(parameter)
    if issubclass(kind, Coordinates):
        return _coordinates(given, getattr(problem, parameter.name), parameter.name)
    if issubclass(kind, Expression):
        original = registry.split(problem.name)[0]
        return registry.split(registry.problem(original, str(given or "")).name)[1]
    if issubclass(kind, param.Integer):
        return _whole(given, *parameter.bounds)
    if issubclass(kind, param.Number):
        return number(given, *parameter.bounds)
    return str(given or "")


def write(value: Any) -> str:
    """A choice's value as the text that a link holds; `read` takes it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            # Adding zero takes the sign from minus zero.
            return f"{value + 0.0:.{DIGITS}g}"
        case list() | tuple():
            return ",".join(map(write, value))
    return str(value)


def number(given: Any, low: float, high: float) -> float:
    """A number to `DIGITS` digits; a bound that rounds to the same stays as it is.

    Raises:
        OutOfBounds: it is beyond the bounds.
        ValueError: it is no number.
    """
    refused = f"expected a number from {low:g} to {high:g}, got {brief(given)}"
    try:
        value = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if math.isnan(value):
        raise ValueError(refused)
    rounded, least, most = (float(write(each)) for each in map(float, (value, low, high)))
    if not least <= rounded <= most:
        raise OutOfBounds(refused, min(max(value, low), high))
    return min(max(rounded, low), high)


def nearest(variable: Variable | None, given: Any) -> Point:
    """The coordinates of a variable, or the nearest that are within its bounds."""
    try:
        return _coordinates(given, variable)
    except OutOfBounds as error:
        point: Point = error.nearest
        return point


def brief(given: Any) -> str:
    """A refused value, short enough for a message."""
    text = repr(given)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def decoded(arguments: Mapping[str, Sequence[bytes]]) -> dict[str, str]:
    """The parameters of a page's address as text, from any bytes.

    Arguments:
        arguments: For each name its values; the first one holds.
    """
    return {
        name: values[0].decode(errors="replace") for name, values in arguments.items() if values
    }


def _one_of(given: Any, options: Mapping[Any, str]) -> Any:
    allowed = {write(value): value for value in options}
    text = given if isinstance(given, str) else write(given)
    if text not in allowed:
        # As many as a message has room for.
        few = [*list(allowed)[:10], *(["…"] if len(allowed) > 10 else [])]
        raise ValueError(f"expected one of {', '.join(few)}, got {brief(given)}")
    return allowed[text]


def _whole(given: Any, low: int, high: int) -> int:
    refused = f"expected a whole number from {low:,} to {high:,}, got {brief(given)}"
    try:
        value = int(str(given).strip().replace(",", ""))
    except ValueError:
        raise ValueError(refused) from None
    if not low <= value <= high:
        raise OutOfBounds(refused, min(max(value, low), high))
    return value


def _coordinates(given: Any, variable: Variable | None, name: str = "") -> Point:
    if given is None or given == "":
        given = ()
    parts = given.split(",") if isinstance(given, str) else given
    parts = parts if isinstance(parts, Sequence) else [parts]
    if variable is None:
        if len(parts):
            raise ValueError(f"this problem has no {name}, got {brief(given)}")
        return ()
    if len(parts) != variable.dim:
        expected = "a number" if variable.dim == 1 else f"{variable.dim} numbers"
        raise ValueError(f"expected {expected}, got {len(parts)}")
    values, refused = [], ""
    for part, ends in zip(parts, variable.typical.T.tolist(), strict=True):
        try:
            values.append(number(part, *ends))
        except OutOfBounds as error:
            values.append(error.nearest)
            refused = str(error)
    taken = tuple(variable.nearest(torch.tensor(values, dtype=torch.float64)).tolist())
    if not refused and variable.whole and taken != tuple(values):
        refused = f"expected whole numbers, got {brief(given)}"
    if refused:
        raise OutOfBounds(refused, taken)
    return taken
