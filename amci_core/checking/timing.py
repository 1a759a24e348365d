r"""What a vectorised function takes for a point."""

from __future__ import annotations

__all__ = ["seconds_per_point"]

from collections.abc import Callable

FEWEST, MOST = 16, 8192


def seconds_per_point(
    call: Callable[[int], object], clock: Callable[[], float], within: float
) -> float:
    """Seconds that a function takes for each of n points, measured at a larger and larger n.

    Arguments:
        call: Evaluates it at n points.
        clock: What counts the seconds.
        within: Seconds after which no larger n is tried.
    """
    n, began = FEWEST, clock()
    while True:
        started = clock()
        call(n)
        ended = clock()
        if n == MOST or ended - began > within:
            return (ended - started) / n
        n = min(4 * n, MOST)
