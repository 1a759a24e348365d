r"""Checks of plain arguments; errors name the argument, what came and what is allowed."""

from __future__ import annotations

__all__ = [
    "MAX_SEED",
    "PURPOSES",
    "check_count",
    "check_number",
    "check_seed",
    "part_seed",
    "seed_sequence",
]

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

MAX_SEED = 2**63 - 1
# What random numbers are for; each purpose has streams of its own.
PURPOSES = ("runs", "pilot", "shift", "defensive", "terms", "map", "truth", "evaluation")
# Spawn keys below are for the runs' own children, such as the cases of an evaluation.
FIRST_KEY = 2**31


def check_count(name: str, value: Any, *, low: int, high: int) -> int:
    """Returns a whole number within [low, high], or says what is wrong with it.

    Raises:
        ValueError: it is not one.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise ValueError(f"{name}: expected a whole number from {low} to {high:,}, got {value!r}")
    return int(value)


def check_number(
    name: str,
    value: Any,
    expected: str = "a finite number",
    allowed: Callable[[float], bool] = math.isfinite,
) -> float:
    """Returns a real number that is allowed, or says what is expected.

    Raises:
        ValueError: it is no number that a float can hold, or not allowed; NaN must not be.
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    try:
        number = float(value) if real else math.nan
    except OverflowError:
        number = math.nan
    if not allowed(number):
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    return number


def check_seed(value: Any) -> int:
    """Returns a seed, or says what is wrong with it.

    Raises:
        ValueError: it is not a whole number from 0 to 2^63 - 1.
    """
    return check_count("seed", value, low=0, high=MAX_SEED)


def seed_sequence(seed: Any, purpose: str = "runs") -> np.random.SeedSequence:
    """The root of the random numbers for a purpose, which no other purpose shares.

    Arguments:
        seed: Whole number from 0 to 2^63 - 1.
        purpose: One of `PURPOSES`.

    Raises:
        ValueError: it is no seed.
    """
    checked, number = check_seed(seed), PURPOSES.index(purpose)
    return np.random.SeedSequence(checked, spawn_key=(FIRST_KEY + number,) if number else ())


def part_seed(seed: Any, number: int, purpose: str = "runs") -> np.random.SeedSequence:
    """The seed of a computation's part of that number, see `seed_sequence`."""
    root = seed_sequence(seed, purpose)
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, number))
