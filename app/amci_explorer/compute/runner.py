r"""Computes what all sessions ask for: once for equal requests, fairly between browsers.

A request is computed in parts, cut and seeded by the request alone. Worker processes, or those of
a Dask scheduler elsewhere, compute the parts and keep them, and merge the first of them, in their
order, to results that grow on the page. A part's key is its request's: the scheduler computes it
once for all who ask, and drops it when the last of them has gone. Threads would not do: small
operations of PyTorch hold the interpreter's lock, and keep a server from answering.
"""

from __future__ import annotations

__all__ = ["SECONDS", "Result", "Unreachable", "runner"]

import asyncio
import hashlib
import logging
import os
import pickle
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
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
# Another server may use the same scheduler, with other files for problems of the same names.
OURS = secrets.token_hex(4)


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
        self, key: str, function: Callable[..., Any], *arguments: Any, stays: bool = False
    ) -> Any:
        """What a worker returns for a function of a module, or raises.

        Arguments:
            key: Equal keys stand for equal results, and are computed once.
            function: The function.
            arguments: Its arguments, futures among them.
            stays: Whether the result stays with the worker; a future of it is returned.

        Raises:
            Unreachable: the connection to the scheduler is lost.
            RuntimeError: workers died over it, one after the other, or it hung.
        """
        import distributed
        from distributed.client import ClosedClientError, FutureCancelledError
        from distributed.comm import CommClosedError

        client = await self.start()
        try:
            # What is merged goes before further parts.
            future = client.submit(function, *arguments, key=key, priority=0 if stays else 1)
            # Not cancelled itself: a client cancelled while it gathers never gathers again.
            answer = asyncio.ensure_future(_done(future) if stays else future.result())
            answer.add_done_callback(lambda _: answer.cancelled() or answer.exception())
            where: list[str] = []
            # A task that waits for workers to start does not hang.
            while not where:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.seconds):
                        return await asyncio.shield(answer)
                busy = await client.processing()
                where = [address for address, keys in busy.items() if key in keys]
            log.error("%s hung; its worker is replaced", key)
            await future.cancel(force=True)
            # The worker ends without an answer.
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await client.run(os._exit, 1, workers=where, on_error="ignore")
            raise RuntimeError(f"it took more than {self.seconds:g} s")
        except distributed.scheduler.KilledWorker:
            text = "it crashed its workers and was stopped: reduce draws or runs"
            raise RuntimeError(text) from None
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


@dataclass(frozen=True)
class Result:
    """A result so far.

    Arguments:
        asked: The request that it answers.
        value: The answer so far.
        seconds: Since the computation began.
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

    A request is hashable, and its `repr` names it. A worker calls its `part(number)`, which
    returns the number of parts and the part of that number, and its `result(parts)` of the first
    parts.

    Arguments:
        cluster: The workers.
        limit: Seconds of computing after which a request gets no further parts.
    """

    def __init__(self, cluster: Cluster, *, limit: float = DEFAULT_SECONDS) -> None:
        self.cluster, self.limit = cluster, limit
        self._finished: OrderedDict[Any, Result] = OrderedDict()
        # First come, first served; and of each browser no more than one part for a worker.
        self._free: asyncio.Semaphore | None = None
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        # The keys of parts that have a worker.
        self._computing: set[str] = set()

    def finished(self, request: Any) -> Result | None:
        """The complete result of a request, if it is kept."""
        if request in self._finished:
            self._finished.move_to_end(request)
        return self._finished.get(request)

    async def results(self, request: Any, browser: str) -> AsyncGenerator[Result, None]:
        """Better and better results of a request; the last one is complete.

        Raises:
            Unreachable: there is no connection to the workers. It can be asked again.
            Exception: what the computation raises.
        """
        found = self.finished(request)
        if found is not None:
            yield found
            return
        try:
            async with aclosing(_Computation(self, request, browser).results()) as growing:
                async for result in growing:
                    if result.complete:
                        self._finished[request] = result
                        if len(self._finished) > FINISHED_KEPT:
                            self._finished.popitem(last=False)
                    yield result
        except Exception as error:
            if not isinstance(error, Unreachable | ValueError):
                log.error("a computation failed: %s", request, exc_info=error)
            raise

    async def part(self, key: str, browser: str, packed: bytes, number: int) -> Any:
        """A future of a part of a packed request, once it was that browser's turn and is done."""
        await self.cluster.start()
        size = self.cluster.size
        self._free = self._free or asyncio.Semaphore(size)
        async with self._turns.setdefault(browser, asyncio.Semaphore(size)), self._free:
            if key not in self._computing:
                self._computing.add(key)
                try:
                    return await self.cluster.submit(key, timed_part, packed, number, stays=True)
                finally:
                    self._computing.discard(key)
        # Another session has it computed, which takes no worker from anybody.
        return await self.cluster.submit(key, timed_part, packed, number, stays=True)


class _Computation:
    """Creates a request's computation for one session."""

    def __init__(self, of: Runner, request: Any, browser: str) -> None:
        self._runner, self._request, self._browser = of, request, browser
        self._packed = pickle.dumps(request)
        self._key = f"{OURS}-{hashlib.sha1(repr(request).encode()).hexdigest()}"
        # Futures of parts, which stay with the workers; and of the first of them the number of
        # all parts and the seconds of computing.
        self._parts: dict[int, Any] = {}
        self._count, self._seconds, self._began = 1, 0.0, 0.0

    async def results(self) -> AsyncGenerator[Result, None]:
        """See `Runner.results`."""
        await self._compute([0])
        # While a page takes it nothing more is computed: one whose handle moves leaves after it.
        yield await self._merge()
        numbers, shown = iter(range(1, self._count)), 1
        size = min(self._runner.cluster.size, self._count - 1)
        lanes = [asyncio.create_task(self._compute(numbers)) for _ in range(size)]
        pending = {*lanes}
        try:
            while pending:
                done, pending = await asyncio.wait(
                    pending, timeout=SECONDS_BETWEEN_RESULTS, return_when=asyncio.FIRST_EXCEPTION
                )
                for lane in done:
                    lane.result()
                if len(self._first()) > shown or not pending:
                    shown = len(self._first())
                    yield await self._merge(last=not pending)
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)

    async def _compute(self, numbers: Iterable[int]) -> None:
        """Has one part after the other computed, until the limit."""
        for number in numbers:
            key = f"{self._key}-{number}"
            self._parts[number] = await self._runner.part(key, self._browser, self._packed, number)
            if self._seconds > self._runner.limit:
                break

    def _first(self) -> list[Any]:
        return [self._parts[number] for number in takewhile(self._parts.__contains__, count())]

    async def _merge(self, *, last: bool = False) -> Result:
        """The result of the first parts, in their order."""
        first = self._first()
        key = f"{self._key}-to-{len(first)}"
        self._seconds, self._count, value = await self._runner.cluster.submit(
            key, merged, self._packed, first
        )
        now, whole = time.monotonic(), len(first) == self._count
        self._began = self._began or now - self._seconds
        limit = f"the limit here is {self._runner.limit:,.0f} s of computing"
        stopped = limit if last and not whole else ""
        return Result(self._request, value, now - self._began, last or whole, stopped)


def timed_part(packed: bytes, number: int) -> tuple[float, int, Any]:
    """The seconds of computing of a part, the number of parts, and the part; in a worker."""
    torch.set_num_threads(1)
    request, started = pickle.loads(packed), time.process_time()
    whole, part = request.part(number)
    return time.process_time() - started, whole, part


def merged(packed: bytes, parts: list[tuple[float, int, Any]]) -> tuple[float, int, Any]:
    """The seconds of the first parts, the number of parts, and the result; in a worker."""
    seconds, counts, done = zip(*parts, strict=True)
    return sum(seconds), counts[0], pickle.loads(packed).result(list(done))


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
