r"""The clock of a training: it stands still while the training is paused.

Training looks at the clock before and after every step. There it waits while it is paused, and
there it ends when it is stopped. All trainings of a process have one clock.
"""

from __future__ import annotations

__all__ = ["CLOCK", "Budget", "Clock", "Stopped", "now", "seconds_per_point"]

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopped(KeyboardInterrupt):
    """A training was stopped, as with Ctrl-C."""


class Clock:
    """Creates a running clock. Any thread may pause and stop it.

    Arguments:
        seconds: What counts; by default the time on the wall.

    Attributes:
        seconds: As above. Where a training has a process of its own, which others on the machine
            come before, `time.process_time` gives it the time that it was promised.
    """

    def __init__(self, seconds: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = seconds
        self._changed = threading.Condition()
        self._paused = self._stopped = False
        self._lost = 0.0

    def now(self) -> float:
        """Seconds from some moment on, without those that were paused; waits while it is paused.

        Raises:
            Stopped: it was stopped.
        """
        if self._paused or self._stopped:
            with self._changed:
                began = self.seconds()
                self._changed.wait_for(lambda: self._stopped or not self._paused)
                self._lost += self.seconds() - began
                if self._stopped:
                    raise Stopped
        return self.seconds() - self._lost

    def pause(self) -> None:
        """Has whoever looks at it wait."""
        with self._changed:
            self._paused = True

    def go_on(self) -> None:
        """Has it run again."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def stop(self) -> None:
        """Ends whoever looks at it, also where it is paused."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


CLOCK = Clock()
now = CLOCK.now


class Budget:
    """The time of a training: at most a quarter for looking, a tenth for the check at its end.

    Looking is everything that no step of training is: the check of the problem, first calls,
    particles, the choice of a form, timing. What looking leaves of its quarter goes to training.

    Arguments:
        seconds: Time for everything; inf where steps are counted.
        began: When it began, as `now` counts.

    Attributes:
        looked: Seconds spent on looking so far.
    """

    LOOKING, CHECKING = 0.25, 0.1
    # Where imports alone take a quarter of the time.
    LEAST = 0.05

    def __init__(self, seconds: float, began: float) -> None:
        self.seconds, self.began, self.looked = seconds, began, 0.0

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Counts what happens within as looking."""
        started = now()
        try:
            yield
        finally:
            self.looked += now() - started

    def to_look(self, terms: int) -> float:
        """Seconds of looking for the first of so many terms to come."""
        left = self.LOOKING * self.seconds - self.looked
        return max(left, self.LEAST * self.seconds) / terms

    def until(self, terms: int) -> float:
        """When the first of so many terms to come ends, as `now` counts."""
        end = self.began + (1 - self.CHECKING) * self.seconds
        return now() + max(end - now(), 0.0) / terms

    def left(self) -> float:
        """Seconds until the end."""
        return self.began + self.seconds - now()


def seconds_per_point(call: Callable[[int], object], within: float) -> float:
    """Seconds that a function takes for each of n points, measured at a larger and larger n.

    Arguments:
        call: Evaluates it at n points.
        within: Seconds after which no larger n is tried.
    """
    n, began = 16, now()
    while True:
        started = now()
        call(n)
        ended = now()
        if n == 8192 or ended - began > within:
            return (ended - started) / n
        n = min(4 * n, 8192)
