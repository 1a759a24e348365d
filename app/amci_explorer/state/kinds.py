r"""Kinds of fields: how a value is read from a text or a file, and what is allowed."""

from __future__ import annotations

__all__ = [
    "READ",
    "OutOfBounds",
    "brief",
    "flag",
    "nearest",
    "number",
    "one_of",
    "point",
    "real",
    "whole",
    "written",
]

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from amci_core.models import Problem
from amci_explorer.problems.presets import opening
from amci_explorer.problems.settings import Point

# Of a value that nobody can want, a message shows so many characters, and a link reads so many.
SHOWN, READ = 24, 2000
# Numbers are kept to so many digits: a link with them is short, and leads to the very same case.
DIGITS = 6


class OutOfBounds(ValueError):
    """A number beyond what is allowed.

    Arguments:
        message: What is allowed, and what came.
        nearest: The nearest value that is.
    """

    def __init__(self, message: str, nearest: Any) -> None:
        super().__init__(message)
        self.nearest = nearest


def brief(given: Any) -> str:
    """What was given, short enough for a message."""
    text = repr(given)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def nearest(read: Callable[[Problem, Any], Any], problem: Problem, given: Any) -> Any:
    """A value, or where it is out of bounds the nearest that is not."""
    try:
        return read(problem, given)
    except OutOfBounds as error:
        return error.nearest


def whole(low: int, high: int) -> dict[str, Any]:
    """A whole number."""

    def read(_: Problem, given: Any) -> int:
        refused = f"expected a whole number from {low:,} to {high:,}, got {brief(given)}"
        try:
            value = int(str(given).strip().replace(",", ""))
        except ValueError:
            raise ValueError(refused) from None
        if not low <= value <= high:
            raise OutOfBounds(refused, min(max(value, low), high))
        return value

    return {"read": read, "bounds": (low, high)}


def real(low: float, high: float) -> dict[str, Any]:
    """A real number."""

    def read(_: Problem, given: Any) -> float:
        return number(given, low, high)

    return {"read": read, "bounds": (low, high), "write": written}


def flag(options: Mapping[bool, str]) -> dict[str, Any]:
    """One of two, by their labels."""
    words = {"true": True, "false": False}

    def read(_: Problem, given: Any) -> bool:
        if str(given).lower() not in words:
            raise ValueError(f"expected true or false, got {brief(given)}")
        return words[str(given).lower()]

    return {
        "read": read,
        "write": lambda value: str(value).lower(),
        "options": lambda _: options,
    }


def one_of(options: Callable[[Problem], Mapping[str, str]]) -> dict[str, Any]:
    """One of a few names, for a problem."""

    def read(problem: Problem, given: Any) -> str:
        allowed = options(problem)
        if str(given) not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, got {brief(given)}")
        return str(given)

    return {"read": read, "options": options}


def point(name: str) -> dict[str, Any]:
    """The coordinates of y or theta, empty where a problem has none."""

    def read(problem: Problem, given: Any) -> Point:
        variable = getattr(problem, name)
        if variable is None:
            if given in (None, (), [], ""):
                return ()
            raise ValueError(f"this problem has no {name}, got {brief(given)}")
        parts = given.split(",") if isinstance(given, str) else given
        parts = parts if isinstance(parts, Sequence) else [parts]
        if len(parts) != variable.dim:
            raise ValueError(f"expected {_numbers(variable.dim)}, got {len(parts)}")
        values, refused = [], None
        for part in parts:
            try:
                values.append(number(part, *variable.typical_range))
            except OutOfBounds as error:
                values.append(error.nearest)
                refused = error
        taken = tuple(variable.nearest(torch.tensor(values, dtype=torch.float64)).tolist())
        if refused is not None:
            raise OutOfBounds(str(refused), taken)
        if variable.whole and taken != tuple(values):
            raise OutOfBounds(f"expected whole numbers, got {brief(given)}", taken)
        return taken

    return {
        "read": read,
        "default": lambda problem: opening(problem)[name == "theta"],
        "write": lambda value: ",".join(map(written, value)),
    }


def number(given: Any, low: float, high: float) -> float:
    """A number to the digits that are kept, or a bound that rounds to the same.

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
    kept, least, most = (float(written(each)) for each in (value, low, high))
    if not least <= kept <= most:
        raise OutOfBounds(refused, min(max(value, low), high))
    return min(max(kept, low), high)


def written(value: float) -> str:
    """A number to the digits that are kept, as text."""
    # Adding zero takes the sign from minus zero.
    return f"{value + 0.0:.{DIGITS}g}"


def _numbers(count: int) -> str:
    return "a number" if count == 1 else f"{count} numbers"
