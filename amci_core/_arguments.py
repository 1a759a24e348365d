r"""Checks of plain arguments, and random numbers from a seed."""

from __future__ import annotations

__all__ = [
    "check_count",
    "check_name",
    "check_number",
    "check_numbers",
    "check_seed",
    "part_seed",
    "seed_from",
    "seed_sequence",
]

import difflib
import math
import secrets
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What random numbers are for; each purpose has streams of its own.
PURPOSES = ("runs", "pilot", "shift", "defensive", "terms", "map", "truth", "evaluation")
# Spawn keys below are for the runs' own children, such as the cases of an evaluation.
FIRST_KEY = 2**31


def check_count(name: str, value: Any, *, low: int, high: int) -> int:
    """Returns a whole number within [low, high].

    Raises:
        ValueError: it is not one.
    """
    if not isinstance(value, int | np.integer) or not low <= value <= high:
        raise ValueError(
            f"{name}: expected a whole number from {low} to {high:,}, got {value!r:.60}"
        )
    return int(value)


def check_name(argument: str, value: Any, known: Iterable[str], of: str = "") -> str:
    """Returns a name among those known, to which `of` adds for what.

    Raises:
        ValueError: no such name is known; the message has the nearest one.

    Example:
        >>> check_name("problem", "tail1d", ["tail-1d", "peak"])
        Traceback (most recent call last):
        ValueError: problem: expected one of tail-1d, peak, got 'tail1d'. Did you mean tail-1d?
    """
    names = list(known)
    if not isinstance(value, str) or value not in names:
        near = difflib.get_close_matches(str(value), names, n=1)
        hint = f". Did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"{argument}: expected one of {', '.join(names)}{of}, got {value!r:.60}{hint}"
        )
    return value


def check_numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Returns numbers as an array.

    Raises:
        ValueError: they are none, such as dates.
    """
    kind = np.asarray(values).dtype
    try:
        if kind.kind in "mM":
            raise TypeError(f"got {kind}")
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: expected numbers: {error}") from None


def check_number(
    name: str,
    value: Any,
    expected: str = "a finite number",
    allowed: Callable[[float], bool] = math.isfinite,
) -> float:
    """Returns a real number for which `allowed` is true.

    Raises:
        ValueError: it is not one.
    """
    try:
        number = float(value) if isinstance(value, Real) else None
    except OverflowError:  # a whole number beyond all floats
        number = None
    if number is None or not allowed(number):
        raise ValueError(f"{name}: expected {expected}, got {value!r:.60}")
    return number


def check_seed(value: Any) -> int:
    """Returns a seed, a whole number from 0 to 2^63 - 1.

    Raises:
        ValueError: it is not one.
    """
    return check_count("seed", value, low=0, high=2**63 - 1)


def seed_from(seed: Any, rng: Any = None) -> int:
    """The seed of a public function's random numbers, from its arguments `seed` and `rng`.

    Arguments:
        seed: Whole number from 0 to 2^63 - 1; None for a random one.
        rng: A `numpy.random.Generator`, of which a seed is drawn in the place of `seed`.

    Raises:
        ValueError: seed or rng is not one.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> seed_from(3), seed_from(0, rng) == seed_from(0, rng)
        (3, False)
    """
    if rng is None:
        return secrets.randbits(63) if seed is None else check_seed(seed)
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected a numpy.random.Generator or None, got {rng!r:.60}")
    return int(rng.integers(2**63))


def seed_sequence(seed: Any, purpose: str = "runs") -> np.random.SeedSequence:
    """The root of the random numbers for a purpose, which no other purpose shares.

    Arguments:
        seed: Whole number from 0 to 2^63 - 1.
        purpose: One of `PURPOSES`.

    Raises:
        ValueError: seed is not one.
    """
    number = PURPOSES.index(purpose)
    key = (FIRST_KEY + number,) if number else ()
    return np.random.SeedSequence(check_seed(seed), spawn_key=key)


def part_seed(seed: Any, number: int, purpose: str = "runs") -> np.random.SeedSequence:
    """The seed of a computation's part of that number, see `seed_sequence`."""
    root = seed_sequence(seed, purpose)
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, number))
