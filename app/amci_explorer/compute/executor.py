r"""Where parts of computations are done: in processes of this machine, or by Dask's workers.

Both are executors of `concurrent.futures`. What is submitted to them is a function of a module
with plain arguments. Work goes to processes and not to threads: small operations of PyTorch hold
the interpreter's lock, and threads that compute keep a server from answering.
"""

from __future__ import annotations

__all__ = ["executor", "usual_workers", "without_main"]

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

from amci_core._arguments import check_count

MOST_WORKERS = 1000
FORKSERVER = "forkserver" in multiprocessing.get_all_start_methods()
CONTEXT = multiprocessing.get_context("forkserver" if FORKSERVER else "spawn")
SECONDS_FOR_DASK = 30
# What a worker needs, imported once by the process that workers are forked from. It starts no
# thread: a fork of a process whose PyTorch has threads can wait for ever.
PRELOADED = ("amci_core.evaluation", "amci_core.amortization", "amci_core.diagnostics")
# One process is started at a time.
_STARTING = threading.RLock()


def usual_workers() -> int:
    """One less than the cores this process may use, at least one."""
    known = getattr(os, "sched_getaffinity", None)
    return max(1, (len(known(0)) if known else os.cpu_count() or 2) - 1)


def executor(*, workers: int | None = None, dask: str | None = None) -> tuple[Executor, int]:
    """Starts an executor, and says how many tasks it does at a time.

    Workers start with the first tasks. PyTorch has one thread in each: work is spread over
    processes.

    Arguments:
        workers: Number of processes; by default `usual_workers`.
        dask: Address of a Dask scheduler, such as `tcp://192.168.0.5:8786`, whose workers are
            taken in the place of processes. They need this package in the same version.

    Raises:
        ValueError: the number is out of range, both are given, or there is no scheduler with a
            worker at that address.

    Example:
        >>> pool, at_a_time = executor(workers=1)
        >>> with pool:
        ...     pool.submit(abs, -2).result(), at_a_time
        (2, 1)
    """
    if dask is not None:
        if workers is not None:
            raise ValueError(f"workers: Dask has its own at {dask}, got {workers!r}")
        return _of_dask(dask)
    count = usual_workers() if workers is None else workers
    check_count("workers", count, low=1, high=MOST_WORKERS)
    context = _Context()
    if FORKSERVER:
        context.set_forkserver_preload(list(PRELOADED))
    return ProcessPoolExecutor(count, mp_context=context, initializer=_begin), count


@contextmanager
def without_main() -> Iterator[None]:
    """Has a process that is started inside not run the main script.

    That may start a server without asking.
    """
    with _STARTING:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


@contextmanager
def _without_interrupt() -> Iterator[None]:
    """Keeps Ctrl-C from a process that is started inside; this one has it afterwards."""
    if not FORKSERVER:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker(CONTEXT.Process):  # type: ignore[name-defined]
    """A process that does not run the main script, and does not hear of Ctrl-C."""

    def start(self) -> None:
        with without_main(), _without_interrupt():
            super().start()


class _Context(type(CONTEXT)):  # type: ignore[misc]
    Process = _Worker


def _begin() -> None:
    """Makes a worker end with the process that started it, and not by Ctrl-C before that."""
    _one_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


def _one_thread() -> None:
    torch.set_num_threads(1)


def _of_dask(address: str) -> tuple[Executor, int]:
    import distributed

    if not address.strip():
        raise ValueError(f"dask: expected the address of a scheduler, got {address!r}")
    connect: Any = distributed.Client
    try:
        client = connect(address, timeout=SECONDS_FOR_DASK, set_as_default=False)
    except (OSError, TypeError, ValueError, TimeoutError) as error:
        expected = "dask: expected the address of a scheduler"
        raise ValueError(f"{expected}, got {address!r}: {error}") from None
    at_a_time = sum(client.nthreads().values())
    if not at_a_time:
        client.close()
        raise ValueError(f"dask: the scheduler at {address} has no workers")
    client.run(_one_thread)
    return client.get_executor(), at_a_time
