r"""Where computations are done: in worker processes of this machine, or by a Dask scheduler's.

Both are run by `distributed`, in the server's own event loop. Threads would not do: small
operations of PyTorch hold the interpreter's lock, and keep a server from answering.
"""

from __future__ import annotations

__all__ = ["Cluster", "Unreachable", "WorkerDied", "default_workers"]

import asyncio
import logging
import os
import pickle
from collections.abc import Callable
from contextvars import Context
from typing import Any

import torch

from amci_core._arguments import check_count
from amci_core.parallel import local_cluster

# What happens to workers is told in the words of the page.
logging.getLogger("distributed").setLevel(logging.CRITICAL)

SECONDS_TO_CONNECT = 5
MOST_WORKERS = 1000
# What a worker of this machine imports before its first task.
PRELOAD = """
import amci_core.amortization, amci_core.diagnostics, amci_core.evaluation
import amci_explorer.compute.requests
"""


class Unreachable(ConnectionError):
    """The scheduler does not answer."""


class WorkerDied(RuntimeError):
    """A worker process ended while it had the task."""


def default_workers() -> int:
    """One less than the cores this process may use, at least one."""
    known = getattr(os, "sched_getaffinity", None)
    return max(1, (len(known(0)) if known else os.cpu_count() or 2) - 1)


class Cluster:
    """Creates a set of workers, which start with the first task.

    Arguments:
        workers: Number of processes; by default `default_workers`.
        dask: Address of a Dask scheduler, such as `tcp://192.168.0.5:8786`, whose workers compute
            instead. They need this package in the same version.

    Attributes:
        size: How many tasks are done at a time; 1 until the workers are known.

    Raises:
        ValueError: the number is out of range, or both are given.
    """

    def __init__(self, workers: int | None = None, dask: str | None = None) -> None:
        if workers is not None and dask is not None:
            raise ValueError(f"workers: Dask has its own at {dask}, got {workers!r}")
        self._workers = default_workers() if workers is None else workers
        check_count("workers", self._workers, low=1, high=MOST_WORKERS)
        self._dask = dask
        self.size = 1 if dask else self._workers
        self._local: Any = None
        self._connecting: asyncio.Task[Any] | None = None

    async def start(self) -> None:
        """Starts the workers, or connects to the scheduler, unless that is done.

        Raises:
            Unreachable: the scheduler does not answer, or has no workers.
        """
        await self._client()

    async def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a worker returns for a function of a module, or raises.

        Raises:
            Unreachable: the connection to the scheduler is lost.
            WorkerDied: the worker ended.
        """
        import distributed
        from distributed.client import ClosedClientError, FutureCancelledError
        from distributed.comm import CommClosedError

        client = await self._client()
        try:
            # As bytes: the scheduler, in the server's process, need not read them.
            packed = pickle.dumps((function, arguments))
            return await client.submit(_run, packed, pure=False, retries=0)
        except distributed.scheduler.KilledWorker:
            raise WorkerDied from None
        except (ClosedClientError, FutureCancelledError, CommClosedError):
            self._connecting = None
            asyncio.get_running_loop().create_task(client.close(), context=Context())
            raise Unreachable(f"The Dask scheduler at {self._dask} does not answer.") from None

    async def close(self) -> None:
        """Stops the workers of this machine, or leaves the scheduler."""
        if self._connecting is not None:
            client = await self._connecting
            self._connecting = None
            await client.close()
        if self._local is not None:
            await self._local.close()

    async def _client(self) -> Any:
        """The client, which all who wait for it share."""
        task = self._connecting
        if task is None or (
            task.done() and (task.exception() or task.result().status != "running")
        ):
            # In a context of its own: else it would keep the page that asked first.
            loop = asyncio.get_running_loop()
            task = self._connecting = loop.create_task(self._connect(), context=Context())
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(task)

    async def _connect(self) -> Any:
        import distributed

        options: dict[str, Any] = {"asynchronous": True, "set_as_default": False}
        if self._dask is None:
            if self._local is None:
                # The runner tries again itself.
                self._local = await local_cluster(
                    self._workers, asynchronous=True, allowed_failures=0, preload=PRELOAD
                )
            return await distributed.Client(self._local, **options)
        expected = "dask: expected the address of a scheduler with workers"
        client = None
        try:
            client = distributed.Client(self._dask, timeout=SECONDS_TO_CONNECT, **options)
            await client
            self.size = sum((await client.nthreads()).values())
        except (OSError, TypeError, ValueError) as error:
            raise Unreachable(f"{expected}, got {self._dask!r}: {error}") from None
        if not self.size:
            self.size = 1
            await client.close()
            raise Unreachable(f"{expected}, and the one at {self._dask} has none")
        return client


def _run(packed: bytes) -> Any:
    torch.set_num_threads(1)
    function, arguments = pickle.loads(packed)
    return function(*arguments)
