r"""Computes what all sessions ask for: once for equal requests, fairly between browsers.

A request is computed in parts, cut and seeded by the request alone. Workers compute the parts, and
merge the first of them, in their order, to results that grow on the page.
"""

from __future__ import annotations

__all__ = ["DASK", "SECONDS", "WORKERS", "Result", "Runner", "Work", "runner"]

import asyncio
import logging
import os
import pickle
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import AsyncExitStack
from contextvars import Context
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol
from weakref import WeakValueDictionary

from amci_explorer.compute.cluster import Cluster, Unreachable, WorkerDied
from amci_explorer.words.settings import too_much

log = logging.getLogger(__name__)

# What the environment says of workers: their number, or the address of a Dask scheduler; and of
# the seconds of computing that one request may take.
WORKERS, DASK, SECONDS = "AMCI_WORKERS", "AMCI_DASK", "AMCI_SECONDS"
DEFAULT_SECONDS = 60.0
# All that a browser waits for may take this many times as long as one request.
TOGETHER = 2.0
# Finished results that are kept.
FINISHED_KEPT = 32
# Parts with the workers beyond those being computed, so that no worker waits for the server.
AHEAD = 1
# A page gets results at most this often, and a result is merged after so many times as long as
# the last merge took.
SECONDS_BETWEEN_RESULTS, REST = 0.1, 4.0


class Work(Hashable, Protocol):
    """What can be computed: plain values, sent to a worker; equal ones are computed once.

    `part` and `result` are called in a worker.
    """

    def less(self, share: float) -> str:
        """What to ask for instead, so that it costs that share or less."""

    def part(self, number: int) -> tuple[int, Any]:
        """The number of parts, and the part of that number."""

    def result(self, parts: list[Any]) -> Any:
        """The result of the first parts, in their order."""


@dataclass(frozen=True)
class Result:
    """A result so far.

    Arguments:
        value: The merged parts.
        seconds: Since the computation began.
        complete: Whether all parts are in it.
    """

    value: Any
    seconds: float
    complete: bool


class Runner:
    """Creates a runner for all sessions of this process; used in one event loop.

    Arguments:
        cluster: The workers, see `amci_explorer.compute.cluster.Cluster`.
        budget: Seconds of computing that one request may take.
    """

    def __init__(self, cluster: Cluster, *, budget: float = DEFAULT_SECONDS) -> None:
        self.cluster, self.budget = cluster, budget
        self._finished: OrderedDict[Work, Result] = OrderedDict()
        self._shared: dict[Work, _SharedTask] = {}
        # First come, first served; and of each browser no more than one part for a worker.
        self._places = 0
        self._free = asyncio.Semaphore(0)
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._in_hand: Counter[str] = Counter()
        self._suspects = asyncio.Semaphore(1)

    async def start(self) -> None:
        """Starts the workers, unless that is done.

        Raises:
            Unreachable: there is no connection to them.
        """
        await self.cluster.start()
        if not self._places:
            self._places = self.cluster.size + AHEAD
            self._free = asyncio.Semaphore(self._places)

    async def results(self, request: Work, browser: str) -> AsyncGenerator[Result, None]:
        """Better and better results of a request; the last one is complete.

        Whoever stops iterating waits no longer; a computation that nobody waits for is cancelled.

        Raises:
            ValueError: the request takes too long; the message says what to change.
            Unreachable: there is no connection to the workers. It can be asked again.
            Exception: whatever the computation raises.
        """
        if request in self._finished:
            self._finished.move_to_end(request)
            yield self._finished[request]
            return
        shared = self._shared.get(request) or _SharedTask(self, request)
        shared.browsers.append(browser)
        try:
            seen = None
            while True:
                if shared.error is not None:
                    raise shared.error
                if shared.newest is not seen:
                    seen = shared.newest
                    yield seen
                    if seen.complete:
                        return
                    await asyncio.sleep(SECONDS_BETWEEN_RESULTS)
                else:
                    self._check_cost(shared, browser)
                    await shared.wait()
        finally:
            shared.leave(browser)

    def forget(self, request: Work) -> None:
        """Keeps no finished result of a request."""
        self._finished.pop(request, None)

    def _check_cost(self, shared: _SharedTask, browser: str) -> None:
        others = sum(
            each.cost
            for each in self._shared.values()
            if browser in each.browsers and each is not shared
        )
        allowed = min(self.budget, TOGETHER * self.budget - others)
        if shared.cost > allowed:
            raise ValueError(too_much(shared.request.less, shared.cost, allowed, self.budget))

    async def submit(self, shared: _SharedTask, function: Callable[..., Any], *given: Any) -> Any:
        """What a worker returns; waits until it is the turn of a browser that waits for it."""
        browser = min(shared.browsers, key=self._in_hand.__getitem__, default="")
        turns = self._turns.setdefault(browser, asyncio.Semaphore(self.cluster.size))
        self._in_hand[browser] += 1
        try:
            async with turns, self._free:
                return await self.cluster.submit(function, *given)
        except WorkerDied:
            log.warning("a worker died; another one takes its place")
        finally:
            self._in_hand[browser] -= 1
            self._in_hand = +self._in_hand  # without those that have none
        return await self._submit_alone(shared, function, *given)

    async def _submit_alone(self, shared: Any, function: Callable[..., Any], *given: Any) -> Any:
        """A second try, with nothing else beside it: then it is known what kills a worker."""
        async with self._suspects, AsyncExitStack() as held:
            for _ in range(self._places):
                await held.enter_async_context(self._free)
            try:
                return await self.cluster.submit(function, *given)
            except WorkerDied:
                raise RuntimeError(f"two workers died over {shared.request}") from None

    def _keep(self, request: Work, found: Result) -> None:
        self._finished[request] = found
        if len(self._finished) > FINISHED_KEPT:
            self._finished.popitem(last=False)


class _SharedTask:
    """A computation, begun for the first who asks, of whom all have the same results.

    Attributes:
        browsers: Those who wait, once for each of their sessions.
        newest: The newest result, or None.
        error: What ended it, or None.
    """

    def __init__(self, of: Runner, request: Work) -> None:
        self._runner, self.request = of, request
        self.browsers: list[str] = []
        self.newest: Any = None
        self.error: Exception | None = None
        self._parts: dict[int, bytes] = {}
        self._seconds: list[float] = []
        self._count, self._merged = 1, 0
        self._merging, self._due = False, 0.0
        self._began = time.monotonic()
        self._listening, self._news = 0, asyncio.Event()
        of._shared[request] = self
        # In a context of its own: else it would keep the page that asked first.
        self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())

    @property
    def cost(self) -> float:
        """Seconds of computing in all, as the parts so far foretell; 0 until they do."""
        # The first part of a worker is longer than others: it also begins the computation.
        if self._count == 1 or len(self._seconds) <= self._runner.cluster.size:
            return 0.0
        return max(min(self._seconds) * self._count, sum(self._seconds))

    async def wait(self) -> None:
        """Waits for news."""
        self._listening += 1
        try:
            await self._news.wait()
        finally:
            self._listening -= 1

    def leave(self, browser: str) -> None:
        """Somebody waits no longer."""
        self.browsers.remove(browser)
        if not self.browsers:
            self._task.cancel()
            self._end()

    def _end(self) -> None:
        if self._runner._shared.get(self.request) is self:
            del self._runner._shared[self.request]
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _run(self) -> None:
        try:
            await self._runner.start()
            await self._part(0)
            numbers = iter(range(1, self._count))

            async def one_by_one() -> None:
                for number in numbers:
                    await self._part(number)

            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._runner.cluster.size, self._count - 1)):
                    group.create_task(one_by_one())
            if self._merged < self._count:
                await self._merge()
            self._runner._keep(self.request, self.newest)
        except Exception as error:
            first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            if not isinstance(first, Unreachable | ValueError):
                log.error("a computation failed: %s", self.request, exc_info=first)
            self.error = first
        self._end()

    async def _part(self, number: int) -> None:
        """Has a part computed, and the result renewed if a page waits for one."""
        seconds, self._count, part = await self._runner.submit(
            self, timed_part, self.request, number
        )
        if not self._parts:  # workers may have begun meanwhile, and others been served
            self._began = time.monotonic() - seconds
        self._parts[number] = part
        self._seconds.append(seconds)
        self._tell()
        if self._listening and not self._merging and time.monotonic() >= self._due:
            await self._merge()

    async def _merge(self) -> None:
        """Has the result made of the first parts, in their order."""
        parts: list[bytes] = []
        while len(parts) in self._parts:
            parts.append(self._parts[len(parts)])
        if len(parts) == self._merged:
            return
        self._merging, started = True, time.monotonic()
        value = await self._runner.submit(self, merged, self.request, parts)
        self._merging, self._merged = False, len(parts)
        ended = time.monotonic()
        self._due = ended + REST * (ended - started)
        self.newest = Result(value, ended - self._began, len(parts) == self._count)
        self._tell()


def timed_part(request: Work, number: int) -> tuple[float, int, bytes]:
    """The seconds of computing of a part, the number of parts, and the part; in a worker."""
    started = time.process_time()
    count, part = request.part(number)
    return time.process_time() - started, count, pickle.dumps(part)


def merged(request: Work, parts: list[bytes]) -> Any:
    """The result of the first parts; in a worker."""
    return request.result([pickle.loads(part) for part in parts])


@cache
def runner() -> Runner:
    """The runner of this process, with workers as its environment says.

    Raises:
        ValueError: the environment says something else.
    """
    workers, dask = os.environ.get(WORKERS, ""), os.environ.get(DASK)
    seconds = os.environ.get(SECONDS, "") or f"{DEFAULT_SECONDS:g}"
    if workers and not workers.isdecimal():
        raise ValueError(f"{WORKERS}: expected a number of processes, got {workers!r}")
    if not seconds.replace(".", "", 1).isdecimal():
        raise ValueError(f"{SECONDS}: expected a number of seconds, got {seconds!r}")
    cluster = Cluster(int(workers) if workers else None, dask or None)
    return Runner(cluster, budget=float(seconds))
