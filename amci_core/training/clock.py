r"""The clock of trainings, and how a training divides its time."""

from __future__ import annotations

__all__ = ["now"]

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# All of a training is timed by this function, at every step. A process that others on the machine
# come before replaces it by `time.process_time`; a KeyboardInterrupt of a replacement ends the
# training.
now: Callable[[], float] = time.perf_counter

FEWEST_POINTS, MOST_POINTS = 16, 4096
# Seconds after which no more points are tried.
ENOUGH = 0.1


class Budget:
    """The time of a training: at most a quarter for initialization, a tenth for the last check.

    Initialization is everything that no step of training is: the check of the problem, first
    calls, particles, the choice of a form. Training has what initialization leaves.

    Arguments:
        seconds: Time for everything; inf where steps are counted.
        spent: Seconds that were spent before.
    """

    INITIALIZING, CHECKING = 0.25, 0.1
    # Where imports alone take a quarter of the time.
    LEAST = 0.05

    def __init__(self, seconds: float, spent: float = 0.0) -> None:
        self.seconds, self.began, self.initialized = seconds, now() - spent, 0.0

    @contextmanager
    def initializing(self) -> Iterator[None]:
        """Counts what happens within as initialization."""
        started = now()
        try:
            yield
        finally:
            self.initialized += now() - started

    def to_initialize(self, terms: int) -> float:
        """Seconds of initialization for the first of so many terms to come."""
        left = self.INITIALIZING * self.seconds - self.initialized
        return max(left, self.LEAST * self.seconds) / terms

    def until(self, terms: int) -> float:
        """When the first of so many terms to come ends, as `now` counts."""
        end = self.began + (1 - self.CHECKING) * self.seconds
        return now() + max(end - now(), 0.0) / terms

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return now() - self.began


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
            return taken / n
        n *= 4
