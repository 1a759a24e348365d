r"""The clock of trainings."""

from __future__ import annotations

__all__ = ["now"]

import time
from collections.abc import Callable

# All of a training is timed by this function, at every step. A process that others on the machine
# come before replaces it by `time.process_time`; a KeyboardInterrupt of a replacement ends the
# training.
now: Callable[[], float] = time.perf_counter

FEWEST_POINTS, MOST_POINTS = 16, 4096
# Seconds after which no more points are tried.
ENOUGH = 0.1


def seconds_per_point(call: Callable[[int], object]) -> float:
    """Seconds that a function takes for each of n points; `call(n)` evaluates it at these.

    It is measured at a larger and larger n, until that takes long.
    """
    n = FEWEST_POINTS
    call(n)  # the first call may import and allocate
    while True:
        started = now()
        call(n)
        taken = now() - started
        if n >= MOST_POINTS or taken > ENOUGH:
            return max(taken, 1e-9) / n
        n *= 4
