r"""A computation under way, for all visitors who wait for it: its parts so far, and its results.

A class opens the same page at once: what all of it asks for is computed once.
"""

from __future__ import annotations

__all__ = ["SharedTask", "Waiting"]

import logging
import time
from collections.abc import Callable
from functools import partial
from statistics import median_low
from typing import Any, Protocol

from amci_explorer.compute.engine import Engine, Task, Visitor, Work
from amci_explorer.compute.session import TURNS
from amci_explorer.words.settings import too_much

log = logging.getLogger(__name__)

# A result is pushed to a page at most this often: painting costs more than a task.
SECONDS_BETWEEN_PUSHES = 0.1
# Results are made again after so many times as long as the last one took.
REST = 4.0


class Waiting(Protocol):
    """One visitor's wait for a computation."""

    @property
    def visitor(self) -> Visitor:
        """Whose it is."""

    @property
    def pushing(self) -> bool:
        """Whether the page has not yet been told of the result before."""

    def allowed(self) -> float:
        """The seconds that the computation may cost, for this visitor."""

    def show(self, result: Any, seconds: float) -> None:
        """Has the page told of a result that will get better, and took so long."""

    def complete(self, result: Any, seconds: float) -> None:
        """Has it told of one that will not, and of the end."""

    def end(self, message: str) -> None:
        """Has it told that there will be none, and why."""


class SharedTask:
    """Creates a computation of which nothing is done yet. All is called under the engine's lock.

    Arguments:
        engine: What computes.
        work: It, with what it depends on.
        what: What it computes, in a word.

    Attributes:
        cost: What it takes in all, in seconds, as far as is known.
    """

    def __init__(self, engine: Engine, work: Work, what: str) -> None:
        self._engine, self._work, self._what = engine, work, what
        self.cost = engine.seconds(work)
        self._waiting: list[Waiting] = []
        # Until the first part is there, nobody knows how many there are.
        self._count, self._next = 1, 0
        self._parts: list[Any] = []
        self._early: dict[int, Any] = {}
        self._seconds: list[float] = []
        self._merging, self._merged = False, 0
        # A result, and how long it took.
        self._newest: tuple[Any, float] = None, 0.0
        self._began = time.monotonic()
        self._due = 0.0

    def join(self, one: Waiting) -> None:
        """Somebody waits for it from now on: sees at once what there is."""
        self._engine.under_way[self._work] = self
        self._waiting.append(one)
        if self._merged:
            one.show(*self._newest)
        self._engine.look(one.visitor)

    def leave(self, one: Waiting) -> None:
        """Somebody waits no longer; without anybody it is called off."""
        if one not in self._waiting:
            return
        self._waiting.remove(one)
        if self._waiting:
            self._look()
        elif self._engine.under_way.get(self._work) is self:
            del self._engine.under_way[self._work]

    def next_task(self, visitor: Visitor) -> Task | None:
        """A result if one is due, else a part; None while there is nothing to submit."""
        complete = len(self._parts) == self._count
        told = not all(one.pushing for one in self._waiting)
        due = told and time.monotonic() >= self._due
        if len(self._parts) > self._merged and not self._merging and (complete or due):
            self._merging = True
            # A copy: more parts may come while a worker is sent these.
            parts = list(self._parts)
            take = partial(self._show_result, len(parts))
            return self._task(visitor, self._work.result, parts, take=take)
        if self._next < self._count:
            number = self._next
            self._next += 1
            take = partial(self._keep, number)
            return self._task(visitor, timed_part, self._work, number, take=take)
        return None

    def _task(
        self, visitor: Visitor, function: Callable[..., Any], *arguments: Any, take: Any
    ) -> Task:
        def taken(outcome: Any, error: Exception | None) -> None:
            # What was under way when it ended comes too late.
            if not self._waiting:
                return
            if error is None:
                take(outcome, time.monotonic() - task.made)
                self._look()
            else:
                log.error("a job failed: %s", self._what, exc_info=error)
                for one in list(self._waiting):
                    one.end(str(error) or type(error).__name__)

        task = Task(
            visitor,
            self._what,
            function,
            *arguments,
            take=taken,
            called_off=lambda: not self._waiting,
        )
        return task

    def _look(self) -> None:
        """Has whoever waits ask for tasks: one who did may have gone."""
        for one in self._waiting:
            self._engine.look(one.visitor)

    def _keep(self, number: int, timed: tuple[float, tuple[int, Any]], _: float) -> None:
        """Keeps a part, how many there are, and what they cost; ends where that is too much."""
        seconds, (self._count, self._early[number]) = timed
        self._seconds.append(seconds)
        self.cost = max(self.cost, sum(self._seconds))
        while len(self._parts) in self._early:
            self._parts.append(self._early.pop(len(self._parts)))
        done, engine = len(self._parts), self._engine
        over = [] if done in (0, self._count) else self._over()
        if done == self._count or over:
            # A process takes seconds to begin: the median part knows nothing of that.
            usual = median_low(self._seconds) * self._count
            engine.learn(self._work, usual)
            for one, allowed in over:
                whole = max(usual, sum(self._seconds))
                one.end(too_much(self._work.less, whole, allowed, engine.budget))

    def _over(self) -> list[tuple[Waiting, float]]:
        """For whom it costs too much, and what it may."""
        allowed = [(one, one.allowed()) for one in self._waiting]
        return [(one, most) for one, most in allowed if sum(self._seconds) > most]

    def _show_result(self, parts: int, result: Any, seconds: float) -> None:
        """Tells the pages of a result that is made of so many parts."""
        now = time.monotonic()
        self._merging, self._merged, self._newest = False, parts, (result, now - self._began)
        self._due = now + max(SECONDS_BETWEEN_PUSHES, REST * seconds, TURNS.behind)
        complete = parts == self._count
        if complete:
            self._engine.keep(self._work, self._newest)
        for one in list(self._waiting):
            if complete:
                one.complete(*self._newest)
            elif not one.pushing:
                one.show(*self._newest)


def timed_part(work: Work, number: int) -> tuple[float, tuple[int, Any]]:
    """A part, after the seconds that its process has computed for it."""
    started = time.process_time()
    found = work.part(number)
    return time.process_time() - started, found
