r"""Where a sweep stops scaling: `python benchmarks/scaling.py`.

Three things are measured on this machine. What a task costs beside its work: empty tasks, in
processes and by a Dask scheduler. How long a sweep takes here, with 1 and with 2 workers. And how
the real scheduler serves 2 to 64 workers: they sleep for as long as the cases took, so that
two cores do for all of them. A model is held against that: n tasks of t seconds on w workers take

    T(w) = start + max(n t / w + (largest - t) / 2, n c)

where c is what the coordinator spends on a task, and the second part the wait for the last one.
"""

from __future__ import annotations

__all__ = ["main", "model", "nothing", "overhead", "scheduler", "sleep"]

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import amci_core as amci
from amci_core.evaluation.sweep import read_sweep
from amci_core.parallel import run_tasks

EMPTY = 300
WORKERS = (2, 4, 8, 16, 32, 64)
PATIENCE = 60.0


def nothing(shared: bytes, item: int) -> int:
    """A task without work."""
    return item


def sleep(shared: NDArray[np.float64], item: int) -> int:
    """A task that takes as long as a case took, and no core."""
    time.sleep(shared[item])
    return item


def model(tasks: NDArray[np.float64], workers: int, cost: float, start: float = 0.0) -> float:
    """Seconds that tasks of so many seconds take."""
    spread = float(tasks.sum()) / workers + float(tasks.max() - tasks.mean()) / 2
    return start + max(spread, len(tasks) * cost)


@contextlib.contextmanager
def scheduler(threads: int) -> Iterator[str]:
    """The address of a Dask scheduler on loopback, with one worker of so many threads."""
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        shared = ["--host", "127.0.0.1", "--scheduler-file", str(file), "--no-dashboard"]
        local = ["--nthreads", str(threads), "--no-nanny", "--local-directory", folder]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started = [subprocess.Popen([*dask, *shared, "--port", "0"], **quiet)]  # type: ignore[call-overload]
        try:
            deadline = time.monotonic() + PATIENCE
            while not file.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            started.append(subprocess.Popen([*worker, *shared, *local], **quiet))  # type: ignore[call-overload]
            from distributed import Client

            with Client(scheduler_file=str(file), set_as_default=False) as client:
                client.wait_for_workers(1, timeout=PATIENCE)
                yield client.scheduler.address
        finally:
            for process in started:
                process.kill()
                process.wait()


def overhead(where: Mapping[str, Any], size: int) -> tuple[float, float]:
    """Seconds until the first task ends, and a task's seconds after that, with shared bytes."""
    began = time.perf_counter()
    tasks = run_tasks(partial(nothing, bytes(size)), range(EMPTY), **where)
    ends = [time.perf_counter() for _ in tasks]
    return ends[0] - began, (ends[-1] - ends[0]) / (EMPTY - 1)


def main() -> None:
    """Prints the tables of `docs/scaling.md`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="tail-1d")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--draws", type=int, default=10_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    problem = amci.problem(arguments.problem)
    proposals = amci.load_proposals(problem)
    print("| where | shared | start | a task beside its work |\n|---|---:|---:|---:|")
    costs = {}
    for size in (1_000, 1_000_000):
        with scheduler(1) as address:
            for name, where in (
                ("1 process", {"workers": 1}),
                ("2 processes", {"workers": 2}),
                ("Dask, 1 worker", {"dask": address}),
            ):
                start, cost = overhead(where, size)
                costs[name, size] = start, cost
                said = f"{size / 1e6:g} MB | {start:.2g} s | {1000 * cost:.2g} ms"
                print(f"| {name} | {said} |", flush=True)
    print("\n| workers | seconds | speed-up | model |\n|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        tasks, alone = np.empty(0), 0.0
        for workers in (None, 1, 2):
            out = Path(folder) / f"{workers}.parquet"
            began = time.perf_counter()
            amci.evaluate(
                problem,
                proposals,
                cases=arguments.cases,
                runs=arguments.runs,
                draws=[10, 100, 1000, arguments.draws],
                out=out,
                workers=workers,
            )
            seconds = time.perf_counter() - began
            if workers is None:
                rows = read_sweep(out)[1].drop_duplicates("case")
                tasks, alone = rows["seconds"].to_numpy(), seconds
                print(f"| in this process | {seconds:.3g} | 1 | {tasks.sum():.3g} |", flush=True)
            else:
                start, cost = costs[f"{workers} process{'es' if workers > 1 else ''}", 1_000_000]
                said = f"{alone / seconds:.3g} | {model(tasks, workers, cost, start):.3g}"
                print(f"| {workers} | {seconds:.3g} | {said} |", flush=True)
    print(f"\n{len(tasks)} cases of {tasks.mean():.3g} s, the longest {tasks.max():.3g} s")
    print("\n| workers | seconds | model | of ideal |\n|---:|---:|---:|---:|")
    shown = np.tile(tasks, max(1, 400 // len(tasks)))
    for workers in WORKERS:
        with scheduler(workers) as address:
            began = time.perf_counter()
            tasks_done = run_tasks(partial(sleep, shown), range(len(shown)), dask=address)
            ends = [0.0 for _ in tasks_done]
            seconds = time.perf_counter() - began
            assert len(ends) == len(shown)
        start, cost = costs["Dask, 1 worker", 1_000]
        expected = model(shown, workers, cost, start)
        ideal = shown.sum() / workers / seconds
        print(f"| {workers} | {seconds:.3g} | {expected:.3g} | {ideal:.0%} |", flush=True)


if __name__ == "__main__":
    main()
