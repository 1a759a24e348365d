"""Work is done in processes of this machine, or by Dask's workers."""

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import torch
from amci_explorer.compute.engine import Engine
from amci_explorer.compute.executor import FORKSERVER, executor, usual_workers
from amci_explorer.compute.jobs import Jobs
from amci_explorer.compute.requests import Request
from amci_explorer.state.state import State
from servers import Server
from serving import PATIENCE

# Prints its worker's number, and waits.
# It has no guard for workers that would run it again.
PARENT = """
import os, time
from amci_explorer.compute.executor import executor
pool, _ = executor(workers=1)
print(pool.submit(os.getpid).result(), flush=True)
time.sleep(600)
"""
# A process that was started in the background may have been told not to hear of Ctrl-C.
INTERRUPTED = """
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from amci_explorer.compute.executor import executor
pool, _ = executor(workers=1)
try:
    print("starting", flush=True)
    pool.submit(time.sleep, 600).result()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""


@pytest.mark.slow
def test_it_computes_in_other_processes_with_one_thread_each():
    pool, at_a_time = executor(workers=1)
    with pool:
        assert at_a_time == 1
        assert pool.submit(os.getpid).result() != os.getpid()
        assert pool.submit(torch.get_num_threads).result() == 1


def test_one_core_is_left_to_the_server():
    assert usual_workers() == max(1, len(os.sched_getaffinity(0)) - 1)


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + PATIENCE
    while os.path.exists(f"/proc/{worker}"):
        assert time.monotonic() < deadline, "the worker lives on"
        time.sleep(0.05)


@pytest.mark.parametrize("workers", [0, "2"])
def test_a_wrong_number_of_workers_is_refused(workers):
    with pytest.raises(ValueError, match=r"^workers: expected a whole number from 1 to 1,000"):
        executor(workers=workers)


def test_dask_has_workers_of_its_own():
    with pytest.raises(ValueError, match=r"^workers: Dask has its own"):
        executor(workers=2, dask="tcp://127.0.0.1:8786")


@pytest.mark.slow
def test_an_address_without_a_scheduler_is_named(monkeypatch):
    monkeypatch.setattr("amci_explorer.compute.executor.SECONDS_FOR_DASK", 0.5)
    with pytest.raises(ValueError, match=r"^dask: expected the address of a scheduler, got 'tcp"):
        executor(dask="tcp://127.0.0.1:1")


@pytest.mark.slow
def test_dasks_workers_compute_what_processes_do():
    from distributed import LocalCluster

    asked = Request("summary", State().settings)
    with LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address
        engine, server = Engine(partial(executor, dask=address)), Server()
        shown, ends = [], []
        jobs = Jobs(server, server, of=engine)
        jobs.start(
            "summary", asked, show=lambda result, _: shown.append(result), finish=ends.append
        )
        server.run_until(lambda: ends)
        engine.close()
    assert ends == [None]
    # NaN, as a standard error, is not equal to itself.
    assert repr(shown[-1]) == repr(asked.result([asked.part(0)[1]]))


@pytest.mark.slow
@pytest.mark.skipif(not FORKSERVER, reason="processes are not forked here")
def test_ctrl_c_while_processes_start_is_heard_by_the_command_alone():
    command = (sys.executable, "-c", INTERRUPTED)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        # As a terminal does it: every process of the group is told.
        os.killpg(process.pid, signal.SIGINT)
        try:
            out, complaints = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert out == "interrupted\n"
    assert "Traceback" not in complaints
