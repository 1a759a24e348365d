"""A real Dask scheduler and its workers, on loopback, as a cluster would start them."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from servers import PATIENCE


def _started(*arguments, **options):
    command = [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]]
    # Workers find the functions that tests define.
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, **quiet, **options)


@contextlib.contextmanager
def dask_cluster(folder, *, workers=2):
    """The scheduler's address, and the workers' processes; everything lies in `folder`."""
    folder.mkdir(exist_ok=True)
    known = folder / "scheduler.json"
    loopback = ("--host", "127.0.0.1", "--scheduler-file", str(known))
    scheduler = _started("scheduler", *loopback, "--port", "0", "--no-dashboard", cwd=folder)
    processes = [scheduler]
    try:
        deadline = time.monotonic() + PATIENCE
        while not known.exists():
            assert time.monotonic() < deadline, "still waiting for the scheduler's address"
            time.sleep(0.05)
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory")
        doers = [
            _started("worker", *loopback, *options, str(folder / f"worker-{i}"), cwd=folder)
            for i in range(workers)
        ]
        processes += doers
        from distributed import Client

        with Client(scheduler_file=str(known), set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=PATIENCE)
            address = client.scheduler.address
        yield address, doers
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
