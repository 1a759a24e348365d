r"""Computes what all sessions ask for: once for equal requests, fairly between browsers.

A request is computed in parts, cut and seeded by the request alone. Worker processes, or those of
a Dask scheduler elsewhere, compute the parts and keep them, and merge the first of them, in their
order, to results that grow on the page. Threads would not do: small operations of PyTorch hold the
interpreter's lock, and keep a server from answering.
"""

from __future__ import annotations

__all__ = ["SECONDS", "Result", "Unreachable", "runner"]

import asyncio
import logging
import math
import os
import pickle
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from functools import cache
from itertools import count, takewhile
from typing import Any
from weakref import WeakValueDictionary

import torch

from amci_core._arguments import check_count
from amci_core.parallel import local_cluster

log = logging.getLogger(__name__)
# The page reports what happens to workers in its own words.
logging.getLogger("distributed").setLevel(logging.CRITICAL)

# What the environment says of workers: their number, or the address of a Dask scheduler; and of
# the seconds of computing that one request may take.
WORKERS, DASK, SECONDS = "AMCI_WORKERS", "AMCI_DASK", "AMCI_SECONDS"
DEFAULT_SECONDS = 60.0
# Finished results that are kept.
FINISHED_KEPT = 32
# Between two results of a request that grow.
SECONDS_BETWEEN_RESULTS = 0.3
SECONDS_TO_CONNECT = 5
# What a worker of this machine imports before its first task.
PRELOAD = """
import amci_core.amortization, amci_core.diagnostics, amci_core.evaluation
import amci_explorer.compute.requests
"""


class Unreachable(ConnectionError):
    """The scheduler does not answer."""


def default_workers() -> int:
    """One less than the cores this process may use, at least one."""
    known = getattr(os, "sched_getaffinity", None)
    return max(1, (len(known(0)) if known else os.cpu_count() or 2) - 1)


class Cluster:
    """Creates a set of workers, which start with `start` or the first task.

    Arguments:
        workers: Number of processes; by default `default_workers`.
        dask: Address of a Dask scheduler, such as `tcp://192.168.0.5:8786`, whose workers compute
            instead. They need this package in the same version.

    Attributes:
        size: How many tasks are done at a time; 1 until the workers are known.
        seconds: After so many a task hangs, and its worker is replaced.
    """

    def __init__(self, workers: int | None = None, dask: str | None = None) -> None:
        if workers is not None and dask is not None:
            raise ValueError(f"workers: expected None with dask={dask!r}, got {workers!r}")
        self._workers = default_workers() if workers is None else workers
        check_count("workers", self._workers, low=1, high=1000)
        self._dask = dask
        self.size = 1 if dask else self._workers
        self.seconds = DEFAULT_SECONDS
        self._local: Any = None
        self._connecting: asyncio.Task[Any] | None = None

    async def start(self) -> Any:
        """The client of the workers, or of the scheduler; all who wait share it.

        Raises:
            Unreachable: the scheduler does not answer, or has no workers.
        """
        task = self._connecting
        if task is None or (
            task.done() and (task.exception() or task.result().status != "running")
        ):
            # In a context of its own: else it would keep the page that asked first.
            loop = asyncio.get_running_loop()
            task = self._connecting = loop.create_task(self._connect(), context=Context())
        return await asyncio.shield(task)

    async def submit(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        parts: Sequence[Any] = (),
        stays: bool = False,
    ) -> Any:
        """What a worker returns for a function of a module, or raises.

        Arguments:
            function: The function.
            arguments: Its arguments.
            parts: Futures, whose results are the last argument, a list; empty: there is none.
            stays: Whether the result stays with the worker; a future of it is returned.

        Raises:
            Unreachable: the connection to the scheduler is lost.
            RuntimeError: workers died over it, one after the other, or it hung.
        """
        import distributed
        from distributed.client import ClosedClientError, FutureCancelledError
        from distributed.comm import CommClosedError

        client = await self.start()
        what = arguments[0] if arguments else function
        try:
            # As bytes: the scheduler, in the server's process, need not read them.
            packed = pickle.dumps((function, arguments))
            future = client.submit(_run, packed, *([list(parts)] if parts else []), pure=False)
            # Not cancelled itself: a client cancelled while it gathers never gathers again.
            answer = asyncio.ensure_future(_done(future) if stays else future.result())
            answer.add_done_callback(lambda _: answer.cancelled() or answer.exception())
            where: list[str] = []
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.seconds / 2):
                        return await asyncio.shield(answer)
                # A task waits for workers that are still starting; then it does not hang.
                before, busy = where, await client.processing()
                where = [address for address, keys in busy.items() if future.key in keys]
                if where and where == before:
                    break
            log.error("%s hung; its worker is replaced", what)
            await future.cancel(force=True)
            # The worker ends without an answer.
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await client.run(os._exit, 1, workers=where, on_error="ignore")
            raise RuntimeError(f"{what} took more than {self.seconds:g} s")
        except asyncio.CancelledError:
            future.release()
            raise
        except distributed.scheduler.KilledWorker:
            raise RuntimeError(
                f"{what} crashed its workers and was stopped: reduce draws or runs"
            ) from None
        except (ClosedClientError, FutureCancelledError, CommClosedError):
            self._connecting = None
            asyncio.get_running_loop().create_task(client.close(), context=Context())
            raise Unreachable("The Dask scheduler does not answer.") from None

    async def close(self) -> None:
        """Stops the workers of this machine, or leaves the scheduler."""
        if self._connecting is not None:
            await (await self._connecting).close()
            self._connecting = None
        if self._local is not None:
            await self._local.close()

    async def _connect(self) -> Any:
        import distributed

        options: dict[str, Any] = {"asynchronous": True, "set_as_default": False}
        if self._dask is None:
            if self._local is None:
                self._local = await local_cluster(
                    self._workers, asynchronous=True, preload=PRELOAD
                )
            return await distributed.Client(self._local, **options)
        try:
            client = distributed.Client(self._dask, timeout=SECONDS_TO_CONNECT, **options)
            threads = sum((await (await client).nthreads()).values())
        except (OSError, TypeError, ValueError) as error:
            # Where it is stands in the log alone: pages say the rest to everybody.
            log.error("dask: expected the address of a scheduler, got %r: %s", self._dask, error)
            raise Unreachable("The Dask scheduler does not answer.") from None
        if not threads:
            await client.close()
            raise Unreachable("The Dask scheduler has no workers.")
        self.size = threads
        return client


async def _done(future: Any) -> Any:
    """A future once it is done, whose result stays where it is."""
    error = await future.exception()
    if error is not None or future.cancelled():
        return await future.result()  # raises it
    return future


def _run(packed: bytes, *parts: list[Any]) -> Any:
    torch.set_num_threads(1)
    function, arguments = pickle.loads(packed)
    return function(*arguments, *parts)


@dataclass(frozen=True)
class Result:
    """A result so far.

    Arguments:
        asked: The request that it answers.
        value: The answer so far.
        seconds: Since the computation began, in any session.
        complete: Whether it is final.
        stopped: Why it is final before it is whole, in words; empty for a whole one.
    """

    asked: Any
    value: Any
    seconds: float
    complete: bool = False
    stopped: str = ""

    @property
    def link(self) -> dict[str, str]:
        """What it answers, as an address holds it, with the runs that it has if it was stopped."""
        runs = getattr(self.value, "runs", None) if self.stopped else None
        return self.asked.link | ({} if runs is None else {"runs": str(runs)})


class Runner:
    """Creates a runner for all sessions of this process; used in one event loop.

    A request is hashable; equal ones are computed once. A worker calls its `part(number)`, which
    returns the number of parts and the part of that number, and its `result(parts)` of the first
    parts.

    Arguments:
        cluster: The workers.
        limit: Seconds of computing after which a request gets no further parts.
    """

    def __init__(self, cluster: Cluster, *, limit: float = DEFAULT_SECONDS) -> None:
        self.cluster, self.limit = cluster, limit
        self._finished: OrderedDict[Any, Result] = OrderedDict()
        self._shared: dict[Any, _SharedTask] = {}
        # First come, first served; and of each browser no more than one part for a worker.
        self._free: asyncio.Semaphore | None = None
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def finished(self, request: Any) -> Result | None:
        """The complete result of a request, if it is kept."""
        if request in self._finished:
            self._finished.move_to_end(request)
        return self._finished.get(request)

    async def results(self, request: Any, browser: str) -> AsyncGenerator[Result, None]:
        """Better and better results of a request; the last one is complete.

        A computation is cancelled once no session iterates over its results.

        Raises:
            Unreachable: there is no connection to the workers. It can be asked again.
            Exception: what the computation raises.
        """
        result = self.finished(request)
        if result is not None:
            yield result
            return
        if request not in self._shared:
            self._shared[request] = _SharedTask(self, request)
        shared = self._shared[request]
        shared.browsers.append(browser)
        try:
            seen = None
            while seen is None or not seen.complete:
                while shared.newest is seen and shared.error is None:
                    await shared.news.wait()
                if shared.error is not None:
                    raise shared.error
                seen = shared.newest
                yield seen
                shared.more.set()
        finally:
            shared.leave(browser)

    async def call(
        self, browser: str, function: Callable[..., Any], *given: Any, **options: Any
    ) -> Any:
        """What `Cluster.submit` returns, once it is that browser's turn."""
        await self.cluster.start()
        if self._free is None:
            self._free = asyncio.Semaphore(self.cluster.size)
        turns = self._turns.setdefault(browser, asyncio.Semaphore(self.cluster.size))
        async with turns, self._free:
            return await self.cluster.submit(function, *given, **options)

    def end(self, shared: _SharedTask) -> None:
        """A computation is over; a complete result is kept."""
        if self._shared.get(shared.request) is shared:
            del self._shared[shared.request]
        if shared.newest is not None and shared.newest.complete:
            self._finished[shared.request] = shared.newest
            if len(self._finished) > FINISHED_KEPT:
                self._finished.popitem(last=False)


class _SharedTask:
    """A computation, shared by all who request it.

    Attributes:
        browsers: Those who wait, once for each of their sessions.
        newest: The newest result, or None.
        error: What ended it, or None.
        news: Set, and replaced, whenever one of them has changed.
        more: Set once a session waits for more than the first result. Until then nothing more is
            computed: one whose handle moves leaves after that, and a part cannot be cancelled.
    """

    def __init__(self, of: Runner, request: Any) -> None:
        self._runner, self.request = of, request
        self.browsers: list[str] = []
        self.newest: Any = None
        self.error: Exception | None = None
        self.news, self.more = asyncio.Event(), asyncio.Event()
        # Futures of parts, which stay with the workers.
        self._parts: dict[int, Any] = {}
        self._count = 1
        # When the first result came, less its seconds of computing; and when the next one is due.
        self._began, self._seconds, self._due = 0.0, 0.0, 0.0
        # In a context of its own: else it would keep the page that asked first.
        self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())

    def leave(self, browser: str) -> None:
        """One session waits no longer."""
        self.browsers.remove(browser)
        if not self.browsers:
            self._task.cancel()
            self._runner.end(self)

    def _tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def _call(self, *given: Any, **options: Any) -> Any:
        if not self.browsers:  # the last one has just left
            raise asyncio.CancelledError
        return self._runner.call(self.browsers[0], *given, **options)

    async def _run(self) -> None:
        try:
            await self._part(0)
            await self._merge()
            numbers = iter(range(1, self._count))
            if self._count > 1:
                await self.more.wait()

            async def one_by_one() -> None:
                for number in numbers:
                    await self._part(number)
                    if time.monotonic() > self._due:
                        await self._merge()
                    if self._seconds > self._runner.limit:
                        break

            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._runner.cluster.size, self._count - 1)):
                    group.create_task(one_by_one())
            if not self.newest.complete:
                await self._merge(last=True)
        except Exception as error:
            first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            if not isinstance(first, Unreachable | ValueError):
                log.error("a computation failed: %s", self.request, exc_info=first)
            self.error = first
        self._parts.clear()
        self._runner.end(self)
        self._tell()

    async def _part(self, number: int) -> None:
        self._parts[number] = await self._call(timed_part, self.request, number, stays=True)

    async def _merge(self, *, last: bool = False) -> None:
        """Has the result made of the first parts, in their order."""
        self._due = math.inf
        first = [self._parts[number] for number in takewhile(self._parts.__contains__, count())]
        self._seconds, self._count, value = await self._call(merged, self.request, parts=first)
        now, whole = time.monotonic(), len(first) == self._count
        self._due, self._began = now + SECONDS_BETWEEN_RESULTS, self._began or now - self._seconds
        limit = f"the limit here is {self._runner.limit:,.0f} s of computing"
        stopped = limit if last and not whole else ""
        self.newest = Result(self.request, value, now - self._began, last or whole, stopped)
        self._tell()


def timed_part(request: Any, number: int) -> tuple[float, int, Any]:
    """The seconds of computing of a part, the number of parts, and the part; in a worker."""
    started = time.process_time()
    count, part = request.part(number)
    return time.process_time() - started, count, part


def merged(request: Any, parts: list[tuple[float, int, Any]]) -> tuple[float, int, Any]:
    """The seconds of the first parts, the number of parts, and the result; in a worker."""
    seconds, counts, done = zip(*parts, strict=True)
    return sum(seconds), counts[0], request.result(list(done))


@cache
def runner() -> Runner:
    """The runner of this process, with workers as its environment says.

    Raises:
        ValueError: the environment says something else.
    """
    workers, dask = os.environ.get(WORKERS, ""), os.environ.get(DASK)
    seconds = os.environ.get(SECONDS, "") or f"{DEFAULT_SECONDS:g}"
    for name, text in ((WORKERS, workers or "1"), (SECONDS, seconds)):
        if not text.replace(".", "", name == SECONDS).isdecimal():
            raise ValueError(f"{name}: expected a number, got {text!r}")
    cluster = Cluster(int(workers) if workers else None, dask or None)
    cluster.seconds = max(float(seconds), DEFAULT_SECONDS)
    return Runner(cluster, limit=float(seconds))
