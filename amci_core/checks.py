r"""Checks of plain arguments; errors name the argument, what came and what is allowed."""

from __future__ import annotations

__all__ = ["MAX_SEED", "check_count", "check_seed"]

from typing import Any

import numpy as np

MAX_SEED = 2**63 - 1


def check_count(name: str, value: Any, *, low: int, high: int) -> int:
    """Returns a whole number within [low, high], or says what is wrong with it.

    Raises:
        ValueError: it is not one.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise ValueError(f"{name}: expected a whole number from {low} to {high:,}, got {value!r}")
    return int(value)


def check_seed(value: Any) -> int:
    """Returns a seed, or says what is wrong with it.

    Raises:
        ValueError: it is not a whole number from 0 to 2^63 - 1.
    """
    return check_count("seed", value, low=0, high=MAX_SEED)
