r"""What computes for all visitors: their tasks in turn, in other processes, each to be called off.

The server's own thread submits tasks and takes results, and computes nothing. A job is an iterator
of results in parts (`amci_core.streams.Stream`) that is never run as such: its parts are done in
any order by whichever process is free, and what the page shows is made of the first of them, in
order, by such a process as well.
"""

from __future__ import annotations

__all__ = ["DASK", "WORKERS", "Engine", "Jobs", "engine"]

import asyncio
import logging
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from typing import Any, Protocol

from bokeh.document import Document

from amci_core.executor import executor
from app.session import one_message

log = logging.getLogger(__name__)

# What the environment says of workers: their number, or the address of a Dask scheduler.
WORKERS, DASK = "AMCI_WORKERS", "AMCI_DASK"
# A result is pushed to the page at most this often: painting costs more than a task.
SECONDS_BETWEEN_PUSHES = 0.1
# So long after a look a page that was gone is looked for again.
SECONDS_BETWEEN_LOOKS = 0.2
# Tasks in hand beyond those being done, so that no worker waits for the server.
AHEAD = 1
# Results are made again after so many times as long as the last one took.
REST = 4.0
# Complete results that are kept, for all visitors: a class opens the same page.
RESULTS_KEPT = 32
# How often a task is given to a worker that dies over it.
TRIES = 2


class Loop(Protocol):
    """The part of the server's event loop that jobs need."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> Any:
        """Calls the callback in the server's thread; may be told so by any thread."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Any:
        """Calls the callback in the server's thread, some seconds later."""


class Work(Protocol):
    """What a job computes, as plain values that any process can be sent; equal ones are the same.

    Both methods are called in a worker process.
    """

    def part(self, number: int) -> tuple[int, Any]:
        """How many parts there are, and the part of that number."""

    def result(self, parts: list[Any]) -> Any:
        """What the page shows of the first parts, in order, with every figure computed."""


class Engine:
    """Creates what gives the tasks of all visitors to an executor, a few at a time, in turn.

    Arguments:
        start: Starts an executor, and says how many tasks it does at a time; called when there is
            something to do, and again when the executor has broken.
    """

    def __init__(self, start: Callable[[], tuple[Executor, int]]) -> None:
        self._start = start
        self._executor: Executor | None = None
        self._at_a_time = 1
        self._starting = False
        self.lock = threading.RLock()
        self._turns: deque[Jobs] = deque()
        self._in_hand: set[_Task] = set()
        self._again: deque[_Task] = deque()
        self._kept: OrderedDict[Work, Any] = OrderedDict()

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

    def known(self, work: Work) -> Any:
        """The complete result, if it has been computed for any visitor; else None."""
        if work in self._kept:
            self._kept.move_to_end(work)
        return self._kept.get(work)

    def keep(self, work: Work, result: Any) -> None:
        """Keeps a complete result, and of all of them the newest."""
        self._kept[work] = result
        if len(self._kept) > RESULTS_KEPT:
            self._kept.popitem(last=False)

    def look(self, visitor: Jobs) -> None:
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
                task: _Task | None = self._again.popleft()
            else:
                suspect = any(each.tries > 1 for each in self._in_hand)
                if suspect or len(self._in_hand) >= self._at_a_time + AHEAD:
                    return
                task = self._next()
            if task is None:
                return
            if not task.job.cancelled:
                self._give(task)

    def _ready(self) -> bool:
        """Whether there are workers; if not, they are started."""
        if self._executor is None:
            self.warm()
        return self._executor is not None

    def _next(self) -> _Task | None:
        for _ in range(len(self._turns)):
            visitor = self._turns.popleft()
            task = visitor.next_task()
            if task is not None:
                self._turns.append(visitor)
                return task
        return None

    def _give(self, task: _Task) -> None:
        assert self._executor is not None
        task.given_to = self._executor
        try:
            future = self._executor.submit(task.function, *task.arguments)
        except RuntimeError:  # it broke between two tasks
            self._executor = None
            self._again.append(task)
            return
        task.tries += 1
        self._in_hand.add(task)
        future.add_done_callback(partial(self._done, task))

    def _done(self, task: _Task, future: Future[Any]) -> None:
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
                error = RuntimeError(f"a process died twice while it computed {task.job.what}")
            except Exception as raised:  # whatever it is, the visitor must see it
                error = raised
            task.job.take(task, outcome, error)
            self.look(task.job.visitor)


class _Task:
    """A call that a worker is to do for a job: a part, or with no number a result."""

    def __init__(
        self, job: _Job, number: int | None, function: Callable[..., Any], *arguments: Any
    ) -> None:
        self.job, self.number = job, number
        self.function, self.arguments = function, arguments
        self.tries = 0
        self.given_to: Executor | None = None
        self.started = time.monotonic()


class Jobs:
    """Creates the background jobs of one visitor: of each name at most one, the newest.

    Each result enters the document in one message, and from the event loop's thread alone. Told by
    another thread while the server collects changes, Bokeh can put the news on a list that is just
    being sent, and keep it until something else happens: the last result would never show.

    Arguments:
        document: Where results are pushed to.
        loop: The server's event loop; by default the one that runs in this thread.
        of: What computes; by default this process's `engine`.

    Raises:
        RuntimeError: no loop is given, and none runs in this thread.
    """

    def __init__(
        self, document: Document, loop: Loop | None = None, *, of: Engine | None = None
    ) -> None:
        self._document = document
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self.engine = of or engine()
        self._running: dict[str, _Job] = {}
        self._seen = self._waiting = False

    def start(
        self,
        name: str,
        work: Work,
        *,
        show: Callable[[Any], None],
        finish: Callable[[str | None], None],
    ) -> None:
        """Starts a job, and calls off the one of the same name.

        Arguments:
            name: What the job computes.
            work: It, with what it depends on.
            show: Called in the server's thread with the newest result.
            finish: Called there at the end, with a message if the job failed. Not called for a job
                that was called off.
        """
        with self.engine.lock:
            self.cancel(name)
            self._running[name] = job = _Job(self, name, work, show, finish)
            known = self.engine.known(work)
            if known is None:
                self.engine.look(self)
            else:
                job.complete(known)

    def cancel(self, name: str) -> None:
        """Calls a job off: what is not yet submitted never is, and nothing of it is shown."""
        with self.engine.lock:
            job = self._running.pop(name, None)
            if job is not None:
                job.cancelled = True

    def fail(self, message: str) -> None:
        """Ends every job with a message."""
        for job in self._running.values():
            job.end(message)

    def cancel_all(self) -> None:
        """Calls every job off, when the visitor goes."""
        for name in list(self._running):
            self.cancel(name)

    def next_task(self) -> _Task | None:
        """What a worker can do next for this visitor; jobs take turns. None: nothing for now."""
        if not self._running:
            return None
        if self._page_is_gone():
            if not self._waiting:
                self._waiting = True
                self._soon(self._loop.call_later, SECONDS_BETWEEN_LOOKS, self._look_again)
            return None
        for name, job in list(self._running.items()):
            task = job.next_task()
            if task is not None:
                # The other jobs come first the next time.
                self._running[name] = self._running.pop(name)
                return task
        return None

    def push(self, job: _Job, deliver: Callable[[], None]) -> None:
        """Has the page told of a job; may be told so by any thread."""
        if not job.cancelled:
            self._soon(self._hand_over, job, deliver)

    def _soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Has the server's thread call something."""
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the server has closed its loop
            self.cancel_all()

    def _look_again(self) -> None:
        self._waiting = False
        self.engine.look(self)

    def _page_is_gone(self) -> bool:
        """Whether the page was there and is not: the server keeps its session for a while."""
        session = getattr(self._document.session_context, "session", None)
        here = session is None or session.connection_count > 0
        self._seen = self._seen or here
        return self._seen and not here

    def _hand_over(self, job: _Job, deliver: Callable[[], None]) -> None:
        """Gives the document something to do; runs in the server's thread."""

        def unless_cancelled() -> None:
            job.pushing = False
            if not job.cancelled:
                with one_message(self._document):
                    deliver()

        if job.cancelled:
            return
        try:
            self._document.add_next_tick_callback(unless_cancelled)
        except Exception:
            # Bokeh raises different things while and after it takes a session down.
            log.debug("the visitor has gone", exc_info=True)
            job.cancelled = True


class _Job:
    """What is known of one job: its parts so far, in order, and what of them has been shown."""

    def __init__(
        self,
        visitor: Jobs,
        what: str,
        work: Work,
        show: Callable[[Any], None],
        finish: Callable[[str | None], None],
    ) -> None:
        self.visitor, self.what, self._work = visitor, what, work
        self._show, self._finish = show, finish
        self.cancelled = self.pushing = False
        # Until the first part is there, nobody knows how many there are.
        self._count, self._next = 1, 0
        self._parts: list[Any] = []
        self._early: dict[int, Any] = {}
        self._merging, self._merged = False, 0
        self._due = 0.0

    def next_task(self) -> _Task | None:
        """A result if one is due, else a part; None while there is nothing to submit."""
        complete = len(self._parts) == self._count
        due = not self.pushing and time.monotonic() >= self._due
        if len(self._parts) > self._merged and not self._merging and (complete or due):
            self._merging = True
            # A copy: more parts may come while a worker is sent these.
            return _Task(self, None, self._work.result, list(self._parts))
        if self._next < self._count:
            self._next += 1
            return _Task(self, self._next - 1, self._work.part, self._next - 1)
        return None

    def take(self, task: _Task, outcome: Any, error: Exception | None) -> None:
        """Keeps what a task gave, and tells the page."""
        if self.cancelled:
            return
        if error is not None:
            log.error("a job failed: %s", self.what, exc_info=error)
            self.end(str(error) or type(error).__name__)
        elif task.number is not None:
            self._count, self._early[task.number] = outcome
            while len(self._parts) in self._early:
                self._parts.append(self._early.pop(len(self._parts)))
        else:
            self._merging, self._merged = False, len(task.arguments[0])
            now = time.monotonic()
            self._due = now + max(SECONDS_BETWEEN_PUSHES, REST * (now - task.started))
            if self._merged == self._count:
                self.visitor.engine.keep(self._work, outcome)
                self.complete(outcome)
            else:
                self.pushing = True
                self.visitor.push(self, partial(self._show, outcome))

    def complete(self, result: Any) -> None:
        """Shows what will not get better."""
        self.visitor.push(self, partial(self._show, result))
        self.end(None)

    def end(self, message: str | None) -> None:
        """Tells the page that it is over, and submits nothing more."""
        self._parts, self._early = [], {}
        self._count = self._next = self._merged = 0
        self.visitor.push(self, partial(self._finish, message))


@cache
def engine() -> Engine:
    """The engine of this process, with workers as its environment says.

    Raises:
        ValueError: see `amci_core.executor.executor`.
    """
    workers, dask = os.environ.get(WORKERS, ""), os.environ.get(DASK)
    if workers and not workers.isdecimal():
        raise ValueError(f"{WORKERS}: expected a number of processes, got {workers!r}")
    created = Engine(
        partial(executor, workers=int(workers) if workers else None, dask=dask or None)
    )
    created.warm()
    return created
