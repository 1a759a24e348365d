r"""The clock of a training: it stands still while the training is paused.

Training looks at the clock before and after every step. There it waits while it is paused, and
there it ends when it is stopped. All trainings of a process have one clock.
"""

from __future__ import annotations

__all__ = ["CLOCK", "Clock", "Stopped", "now"]

import threading
import time
from collections.abc import Callable


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
