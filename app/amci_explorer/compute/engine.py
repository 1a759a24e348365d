r"""What computes for all visitors: gives their tasks in turn to other processes.

The server's own thread submits tasks and takes results, and computes nothing.
"""

from __future__ import annotations

__all__ = ["DASK", "SECONDS", "WORKERS", "Engine", "Task", "Visitor", "Work", "engine"]

import logging
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from typing import Any, Protocol

from amci_explorer.compute.executor import executor

log = logging.getLogger(__name__)

# What the environment says of workers: their number, or the address of a Dask scheduler.
WORKERS, DASK = "AMCI_WORKERS", "AMCI_DASK"
# And of the seconds of computing that a visitor may ask for at once.
SECONDS, SECONDS_ALLOWED = "AMCI_SECONDS", 60.0
# Tasks in hand beyond those being done, so that no worker waits for the server.
AHEAD = 1
# Complete results that are kept, for all visitors: a class opens the same page.
RESULTS_KEPT = 32
# What cost less, as a share of the budget, says little of what more would: most was beginning.
TELLING = 1 / 60
# How often a task is given to a worker that dies over it.
TRIES = 2


class Visitor(Protocol):
    """Who has tasks; both are called under the engine's lock, by any thread."""

    def next_task(self) -> Task | None:
        """What a worker can do next; None: nothing for now."""

    def fail(self, message: str) -> None:
        """Ends everything with a message."""


class Work(Hashable, Protocol):
    """What a job computes, as plain values that any process can be sent; equal ones are the same.

    `part` and `result` are called in a worker process.
    """

    @property
    def kind(self) -> Hashable:
        """What it has in common with work that costs as much for its size."""

    @property
    def size(self) -> float:
        """How much of it there is, in a unit of its kind."""

    def less(self, share: float) -> str:
        """What to ask for instead, so that it costs that share or less."""

    def part(self, number: int) -> tuple[int, Any]:
        """How many parts there are, and the part of that number."""

    def result(self, parts: list[Any]) -> Any:
        """What the page shows of the first parts, in order, with every figure computed."""


class Task:
    """A call that a worker is to do.

    Arguments:
        visitor: Whose it is.
        what: What it computes, in a word.
        function: A function of a module, or a method of an object of plain values.
        arguments: Its arguments, plain as well.
        take: Called under the engine's lock with what it gave, and the error if there was one.
        called_off: Whether it is no longer wanted.
    """

    def __init__(
        self,
        visitor: Visitor,
        what: str,
        function: Callable[..., Any],
        *arguments: Any,
        take: Callable[[Any, Exception | None], None],
        called_off: Callable[[], bool],
    ) -> None:
        self.visitor, self.what = visitor, what
        self.function, self.arguments = function, arguments
        self.take, self.called_off = take, called_off
        self.tries = 0
        self.given_to: Executor | None = None
        self.made = time.monotonic()


class Engine:
    """Creates what gives the tasks of all visitors to an executor, a few at a time, in turn.

    Arguments:
        start: Starts an executor, and says how many tasks it does at a time; called when there is
            something to do, and again when the executor has broken.
        budget: Seconds of computing that a visitor may ask for at once.
    """

    def __init__(
        self, start: Callable[[], tuple[Executor, int]], *, budget: float = SECONDS_ALLOWED
    ) -> None:
        self._start = start
        self.budget = budget
        # Of each kind of work the largest that was done: its size, and what it cost in seconds.
        self._largest: dict[Hashable, tuple[float, float]] = {}
        self._executor: Executor | None = None
        self._at_a_time = 1
        self._starting = False
        self.lock = threading.RLock()
        self._turns: deque[Visitor] = deque()
        self._in_hand: set[Task] = set()
        self._again: deque[Task] = deque()
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        # What is being computed, by its work, see `amci_explorer.compute.under_way`.
        self.under_way: dict[Hashable, Any] = {}

    def warm(self) -> None:
        """Starts the workers, so that the first visitor need not wait for them."""
        with self.lock:
            if self._executor is None and not self._starting:
                self._starting = True
                # A new worker takes seconds to import what it needs: the server goes on meanwhile.
                threading.Thread(target=self._begin, name="engine", daemon=True).start()

    def _begin(self) -> None:
        try:
            started, at_a_time = self._start()
            started.submit(int).result()
        except Exception as error:  # whatever it is, those who wait must be told
            ending = isinstance(error, RuntimeError) and "shutdown" in str(error)
            log.log(logging.DEBUG if ending else logging.ERROR, "no worker starts", exc_info=error)
            with self.lock:
                self._starting = False
                while self._turns:
                    self._turns.popleft().fail(f"nothing can be computed: {error}")
            return
        with self.lock:
            self._executor, self._at_a_time, self._starting = started, at_a_time, False
            self._submit()

    def close(self) -> None:
        """Calls everything off and stops the workers."""
        with self.lock:
            self._turns.clear()
            self._again.clear()
            if self._executor is not None:
                self._executor.shutdown(wait=False)
                self._executor = None

    @property
    def busy(self) -> bool:
        """Whether a worker has something to do."""
        return bool(self._in_hand)

    def known(self, work: Hashable) -> Any:
        """What is kept of it, for whichever visitor it was computed; else None."""
        if work in self._kept:
            self._kept.move_to_end(work)
        return self._kept.get(work)

    def keep(self, work: Hashable, result: Any) -> None:
        """Keeps what is complete of it, and of all that the newest."""
        self._kept[work] = result
        if len(self._kept) > RESULTS_KEPT:
            self._kept.popitem(last=False)

    def drop(self, work: Hashable) -> None:
        """Keeps nothing of it: it is nobody else's."""
        self._kept.pop(work, None)

    def seconds(self, work: Work) -> float:
        """What work costs, as far as enough of its kind has been done to tell; else 0."""
        size, seconds = self._largest.get(work.kind, (1.0, 0.0))
        return seconds / size * float(work.size) if seconds > TELLING * self.budget else 0.0

    def learn(self, work: Work, seconds: float) -> None:
        """Takes note of what work costs in all."""
        size = max(float(work.size), 1e-9)
        if size >= self._largest.get(work.kind, (0.0, 0.0))[0]:
            self._largest[work.kind] = size, seconds

    def look(self, visitor: Visitor) -> None:
        """Does what is asked for by a visitor, when it is their turn."""
        with self.lock:
            if visitor not in self._turns:
                self._turns.append(visitor)
            self._submit()

    def _submit(self) -> None:
        """Submits tasks while a worker is free, a visitor's after another's."""
        while (self._turns or self._again) and self._ready():
            # What may have killed a worker is done alone: then it is known what did.
            if self._again:
                if self._in_hand:
                    return
                task: Task | None = self._again.popleft()
            else:
                suspect = any(each.tries > 1 for each in self._in_hand)
                if suspect or len(self._in_hand) >= self._at_a_time + AHEAD:
                    return
                task = self._next()
            if task is None:
                return
            if not task.called_off():
                self._give(task)

    def _ready(self) -> bool:
        """Whether there are workers; if not, they are started."""
        if self._executor is None:
            self.warm()
        return self._executor is not None

    def _next(self) -> Task | None:
        for _ in range(len(self._turns)):
            visitor = self._turns.popleft()
            task = visitor.next_task()
            if task is not None:
                self._turns.append(visitor)
                return task
        return None

    def _give(self, task: Task) -> None:
        task.given_to = self._executor
        try:
            if self._executor is None:
                raise RuntimeError
            future = self._executor.submit(task.function, *task.arguments)
        except RuntimeError:  # it broke between two tasks
            self._executor = None
            self._again.append(task)
            return
        task.tries += 1
        self._in_hand.add(task)
        future.add_done_callback(partial(self._done, task))

    def _done(self, task: Task, future: Future[Any]) -> None:
        """Takes what a task gave; runs in a thread of the executor's."""
        with self.lock:
            self._in_hand.discard(task)
            outcome: Any = None
            error: Exception | None = None
            try:
                outcome = future.result()
            except CancelledError:
                return
            except BrokenProcessPool:
                if self._executor is task.given_to:
                    log.warning("a worker died; another one takes its place")
                    self._executor = None
                if task.tries < TRIES:
                    self._again.append(task)
                    self._submit()
                    return
                error = RuntimeError(f"a process died twice while it computed {task.what}")
            except Exception as raised:  # whatever it is, the visitor must see it
                error = raised
            task.take(outcome, error)
            self.look(task.visitor)


@cache
def engine() -> Engine:
    """The engine of this process, with workers as its environment says.

    Raises:
        ValueError: see `amci_explorer.compute.executor.executor`.
    """
    workers, dask = os.environ.get(WORKERS, ""), os.environ.get(DASK)
    seconds = os.environ.get(SECONDS, "") or f"{SECONDS_ALLOWED:g}"
    if workers and not workers.isdecimal():
        raise ValueError(f"{WORKERS}: expected a number of processes, got {workers!r}")
    if not seconds.replace(".", "", 1).isdecimal():
        raise ValueError(f"{SECONDS}: expected a number of seconds, got {seconds!r}")
    created = Engine(
        partial(executor, workers=int(workers) if workers else None, dask=dask or None),
        budget=float(seconds),
    )
    created.warm()
    return created
