r"""Many tasks of one kind: in this process, in worker processes, or on a Dask scheduler.

A task seeds itself by its item, so that its result does not depend on where, or in what order,
tasks are done. Worker processes and Dask are both run by `distributed`.
"""

from __future__ import annotations

__all__ = ["Done", "Stream", "local_cluster", "run_tasks"]

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import cloudpickle
import torch

from amci_core._arguments import check_count
from amci_core.models.loading import FILE_MODULE

if TYPE_CHECKING:
    import distributed

T = TypeVar("T")

CONNECT_SECONDS = 30
HOST = "127.0.0.1"
# Ends a worker when the pipe to its parent closes, however the parent ended.
END_WITH_PARENT = """
import os, threading
wait = lambda: (os.read(0, 1), os._exit(0))
threading.Thread(target=wait, daemon=True).start()
"""


@dataclass(frozen=True)
class Done:
    """A task that ended.

    Arguments:
        item: The task's item.
        value: Its result; None if it failed.
        failure: The error in a line; None if it succeeded.
    """

    item: Any
    value: Any = None
    failure: str | None = None


class Stream(Generic[T]):
    """A computation in parts, with a result that gets better part by part.

    Every part is seeded by its number: any process can do any of them, in any order, and merged
    in order they give what `run` gives.

    Arguments:
        count: Number of parts, at least one.
        part: Does the part of a number.
        merge: Makes a result of the first parts, in their order.

    Example:
        >>> stream = Stream(3, lambda number: number**2, sum)
        >>> stream.run(print), stream.merge([stream.part(i) for i in (0, 1)])
        0
        1
        5
        (5, 1)
    """

    def __init__(
        self, count: int, part: Callable[[int], Any], merge: Callable[[Sequence[Any]], T]
    ) -> None:
        self.count, self.part, self.merge = count, part, merge

    def run(self, on_progress: Callable[[T], object] | None = None) -> T:
        """The result of all parts; without `on_progress` it is merged once."""
        parts = []
        for number in range(self.count):
            parts.append(self.part(number))
            if on_progress is not None and number < self.count - 1:
                on_progress(self.merge(parts))
        result = self.merge(parts)
        if on_progress is not None:
            on_progress(result)
        return result


def run_tasks(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    *,
    workers: int | None = None,
    dask: str | None = None,
) -> Iterator[Done]:
    """Does `function(item)` for every item, and yields tasks as they end.

    A task that raises is reported in `Done.failure`; the others go on. Tasks of a worker that is
    lost are done again, as often as `distributed.scheduler.allowed-failures` says (3), then they
    are reported. Workers have one thread of PyTorch.

    Arguments:
        function: Any function that pickles, such as a `functools.partial` with a problem.
        items: Small and distinct.
        workers: Number of worker processes. None, without `dask`: this process.
        dask: Address of a Dask scheduler, such as `tcp://192.168.0.5:8786`, whose workers have
            this package in the same version.

    Raises:
        ValueError: both are given, the number is out of range, or there is no scheduler with
            workers at that address.

    Example:
        >>> [done.value for done in run_tasks(abs, [-2, 3])]
        [2, 3]
    """
    if dask is not None and workers is not None:
        raise ValueError(f"workers: expected None with dask={dask!r}, got {workers!r}")
    if workers is not None:
        check_count("workers", workers, low=1, high=1000)
    if not items:
        return
    if dask is None and workers is None:
        yield from (_done(function, item) for item in items)
        return
    import distributed

    with ExitStack() as stack:
        if workers is not None:
            cluster = stack.enter_context(local_cluster(min(workers, len(items))))
            client = distributed.Client(cluster, set_as_default=False)
        else:
            client = _connected(dask)
        stack.enter_context(client)
        yield from _on_workers(client, function, items)


def _on_workers(
    client: distributed.Client, function: Callable[[Any], Any], items: Sequence[Any]
) -> Iterator[Done]:
    import distributed

    # A task of its own: it is sent once, and made again if the worker that has it is lost.
    sent = client.submit(bytes, _packed(function), pure=False)
    futures = client.map(_task, items, function=sent, pure=False)
    item_of = {future.key: item for future, item in zip(futures, items, strict=True)}
    waiting = distributed.as_completed(futures, loop=client.loop)
    del futures  # a result is freed as soon as it is here
    for future in waiting:
        error = future.exception()
        if error is None:
            yield future.result()
        elif isinstance(error, distributed.scheduler.KilledWorker):
            yield Done(item_of[future.key], failure="its worker died: killed, or out of memory")
        else:
            yield Done(item_of[future.key], failure=_in_a_line(error))


def _task(item: Any, function: bytes) -> Done:
    # Sums of several threads can differ in the last digit.
    torch.set_num_threads(1)
    return _done(_unpacked(function), item)


def _done(function: Callable[[Any], Any], item: Any) -> Done:
    try:
        return Done(item, function(item))
    except Exception as error:  # the other tasks go on
        return Done(item, failure=_in_a_line(error))


def _in_a_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")[:500]


_unpacked = lru_cache(8)(cloudpickle.loads)


def _packed(function: Callable[[Any], Any]) -> bytes:
    """As bytes, with the classes of problems from files: workers need not have these files."""
    for name, module in list(sys.modules.items()):
        if name.startswith(FILE_MODULE):
            cloudpickle.register_pickle_by_value(module)
    packed: bytes = cloudpickle.dumps(function)
    return packed


def _connected(address: str | None) -> Any:
    import distributed

    expected = "dask: expected the address of a scheduler with workers"
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"{expected}, got {address!r}: {error}") from None
    if not client.nthreads():
        client.close()
        raise ValueError(
            f"{expected}, got {address!r} without workers. Start some: dask worker {address}"
        )
    return client


def local_cluster(
    workers: int, *, asynchronous: bool = False, preload: str = ""
) -> distributed.SpecCluster:
    """A scheduler in this process with workers that end when it does.

    Workers are started by the command `dask`, with one thread each: they do not import the main
    script, as those of `LocalCluster` do, so that it needs no guard. Windows has `LocalCluster`.

    Arguments:
        workers: Number of processes.
        asynchronous: Whether to run in this thread's event loop; the cluster is awaited then.
        preload: Python code that every worker runs first, such as its imports.

    Returns:
        A `distributed` cluster.
    """
    import distributed
    from distributed.deploy.subprocess import SubprocessWorker

    # The port takes pickles, so that only holders of these credentials may connect.
    security = distributed.Security.temporary()
    if sys.platform == "win32":  # where `SubprocessWorker` refuses to start
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=None,
            dashboard_address=None,
            security=security,
            asynchronous=asynchronous,
        )
    tls = security.get_tls_config_for_role("worker")
    # Other users of the machine can read the words of a command, but not its environment.
    environment = os.environ | {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": tls["ca_file"],
        "DASK_DISTRIBUTED__COMM__TLS__WORKER__KEY": tls["key"],
        "DASK_DISTRIBUTED__COMM__TLS__WORKER__CERT": tls["cert"],
        "DASK_DISTRIBUTED__WORKER__PRELOAD": str([END_WITH_PARENT, *filter(None, [preload])]),
        "DASK_LOGGING__DISTRIBUTED": "critical",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    options = {"host": HOST, "nthreads": 1, "memory_limit": None, "dashboard": False}
    spec = json.dumps({"cls": "distributed.Worker", "opts": options})

    class Worker(SubprocessWorker):
        """A process that another replaces when it ends, until the cluster is closed."""

        async def _start(self) -> None:
            await self._spawn()
            self.replacing = asyncio.ensure_future(self._replace())

        async def _spawn(self) -> None:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "dask", "spec", self.scheduler, "--spec", spec),
                stdin=asyncio.subprocess.PIPE,
                env=environment,
                start_new_session=True,  # it does not hear Ctrl-C
            )

        async def _replace(self) -> None:
            while True:
                await self.process.wait()
                await self._spawn()

        async def close(self) -> None:
            self.replacing.cancel()
            await super().close()

    class Scheduler(distributed.Scheduler):
        def start_http_server(self, *_: Any, **__: Any) -> None:
            """Opens no port for dashboards."""

    return distributed.SpecCluster(
        workers={i: {"cls": Worker} for i in range(workers)},
        scheduler={
            "cls": Scheduler,
            "options": {"host": HOST, "dashboard": False, "security": security},
        },
        security=security,
        asynchronous=asynchronous,
        silence_logs=logging.CRITICAL,
    )
