r"""Many tasks of one kind, done here, by processes or by Dask: the same numbers anywhere.

A task is a function of what all tasks share and of one item. It seeds itself by its item, so that
results do not depend on where, or in what order, tasks were done.
"""

from __future__ import annotations

__all__ = ["Done", "Pool", "Where", "run_tasks"]

import hashlib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cloudpickle
import torch

from amci_core.executor import executor
from amci_core.models.loading import FILE_MODULE

# Tasks at the workers for each that is being done, and at least: none has to wait for the next,
# and Dask's messages, of which one goes every few milliseconds, carry many.
AHEAD, AHEAD_DASK, LEAST_DASK = 2, 3, 16
# What a worker keeps of what tasks share: problems with their proposals.
KEPT = 8
# The longest message of a failed task.
LONGEST = 500

Function = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Where:
    """Where tasks are done: in this process where neither is given.

    Arguments:
        workers: Number of processes.
        dask: Address of a Dask scheduler.
    """

    workers: int | None = None
    dask: str | None = None

    @property
    def here(self) -> bool:
        """Whether tasks are done in this process, one after another."""
        return self.workers is None and self.dask is None


@dataclass(frozen=True)
class Done:
    """A task that ended.

    Arguments:
        item: What it was for.
        value: Its result; None where it failed.
        failure: What went wrong, in a line; None where nothing did.
        seconds: Time that it took, without the way to a worker and back.
    """

    item: Any
    value: Any
    failure: str | None
    seconds: float


class Pool:
    """Does tasks in processes or on Dask's workers, and survives workers that die.

    Where a process dies all that was sent is done again, one task at a time: a task whose process
    dies then is what failed. Dask does the tasks of a lost worker on another by itself.

    Arguments:
        where: Processes or Dask's workers.

    Raises:
        ValueError: see `amci_core.executor.executor`.
    """

    def __init__(self, where: Where) -> None:
        self._where = where
        self._executor, self.at_a_time = executor(workers=where.workers, dask=where.dask)
        self._client: Any = getattr(self._executor, "_client", None)
        most = AHEAD if self._client is None else AHEAD_DASK
        self._ahead = max(most * self.at_a_time, 0 if self._client is None else LEAST_DASK)

    def run(self, function: Function, shared: Any, items: Iterable[Any]) -> Iterator[Done]:
        """Does `function(shared, item)` for every item; results in the order in which they end."""
        sent = _Sent(_packed((function, shared)))
        # Dask's workers get what tasks share once, the tasks a reference to it.
        given = sent if self._client is None else self._client.scatter(sent, broadcast=True)
        waiting, suspects = deque(items), deque[Any]()
        running: dict[Future[Any], Any] = {}
        tried: set[str] = set()
        while waiting or suspects or running:
            limit = 1 if suspects else self._ahead
            broken: list[Any] = []
            unsent = False
            while len(running) < limit and (suspects or waiting) and not broken:
                item = (suspects or waiting).popleft()
                try:
                    future = self._executor.submit(_task, given, item)
                    running[future] = item
                except BrokenProcessPool:
                    broken.append(item)
                    unsent = True
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                item = running.pop(future)
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    broken.append(item)
                elif error is None:
                    yield future.result()
                elif self._client is not None and repr(item) not in tried:
                    # All workers that held it may be gone: from now on tasks carry it themselves.
                    given = sent
                    tried.add(repr(item))
                    waiting.append(item)
                else:
                    yield Done(item, None, _lost(error), 0.0)
            if not broken:
                continue
            broken += running.values()
            running.clear()
            self._restart()
            if limit == 1 and not unsent:
                yield Done(broken[0], None, "its process died: killed, or out of memory", 0.0)
            else:
                suspects.extend(broken)

    def close(self, *, kill: bool = False) -> None:
        """Ends the processes, or leaves the scheduler; `kill` does not wait for what runs."""
        _end(self._executor, kill=kill)

    def _restart(self) -> None:
        _end(self._executor, kill=True)
        self._executor, _ = executor(workers=self._where.workers, dask=self._where.dask)


def run_tasks(
    function: Function, shared: Any, items: Sequence[Any], where: Where | None = None
) -> Iterator[Done]:
    """Does `function(shared, item)` for every item, where it is said; results as they end.

    Arguments:
        function: A function of a module.
        shared: What all tasks share; it is sent to a worker as bytes.
        items: One for each task; small.
        where: By default in this process.

    Raises:
        ValueError: see `amci_core.executor.executor`.

    Example:
        >>> [done.value for done in run_tasks(divmod, 7, [2, 3])]
        [(3, 1), (2, 1)]
    """
    if where is None or where.here:
        for item in items:
            yield _timed(function, shared, item)
        return
    pool, whole = Pool(where), False
    try:
        yield from pool.run(function, shared, items)
        whole = True
    finally:
        pool.close(kill=not whole)


def _task(sent: _Sent, item: Any) -> Done:
    """What a worker does."""
    _one_thread()
    function, shared = _unpacked(sent)
    return _timed(function, shared, item)


def _one_thread() -> None:
    """One thread each: sums of several threads can differ in the last digit."""
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


def _timed(function: Function, shared: Any, item: Any) -> Done:
    began = time.perf_counter()
    value, failure = None, None
    try:
        value = function(shared, item)
    except Exception as error:  # the other tasks go on
        failure = _said(error)
    return Done(item, value, failure, time.perf_counter() - began)


class _Sent:
    """Bytes that are the same where their hash is."""

    def __init__(self, content: bytes) -> None:
        self.content, self.key = content, hashlib.sha256(content).hexdigest()

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sent) and other.key == self.key


@lru_cache(KEPT)
def _unpacked(sent: _Sent) -> Any:
    return cloudpickle.loads(sent.content)


def _packed(shared: Any) -> bytes:
    """As bytes, with the classes of problems from files: workers need not have these files."""
    own = [module for name, module in sys.modules.items() if name.startswith(FILE_MODULE)]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        packed: bytes = cloudpickle.dumps(shared)
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)
    return packed


def _said(error: BaseException) -> str:
    message = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if message else ''}{message}"[:LONGEST]


def _lost(error: BaseException) -> str:
    if type(error).__name__ == "KilledWorker":
        return "the workers that did it died: killed, or out of memory"
    return _said(error)


def _end(pool: Executor, *, kill: bool) -> None:
    if not isinstance(pool, ProcessPoolExecutor):
        pool.shutdown(wait=False)
        client: Any = getattr(pool, "_client", None)
        client.close()
        return
    processes = list((getattr(pool, "_processes", None) or {}).values()) if kill else []
    pool.shutdown(wait=not kill, cancel_futures=True)
    for process in processes:
        with suppress(OSError, ValueError):
            process.terminate()
