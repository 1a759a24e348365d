"""Requests of all sessions: computed once, in turn, in other processes, and cancelled."""

import asyncio
import os
import pickle
import socket
import subprocess
import sys
import time
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from amci_explorer.compute.requests import Request
from amci_explorer.compute.runner import (
    Cluster,
    Runner,
    Unreachable,
    default_workers,
)
from amci_explorer.state.case import Case
from servers import run_apart
from serving import PATIENCE, ROOT
from works import Count


class Here:
    """Workers in the test's own event loop, which compute equal keys once."""

    def __init__(self, size=1):
        self.size = size
        self.parts, self.busy, self.most = [], 0, 0
        self._tasks = {}

    async def start(self):
        pass

    async def submit(self, key, function, packed, given, stays=False):
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._do(function, packed, given, stays))
        return await asyncio.shield(self._tasks[key])

    async def _do(self, function, packed, given, stays):
        if stays:
            work = pickle.loads(packed)
            self.busy += 1
            self.most = max(self.most, self.busy)
            await asyncio.sleep(getattr(work, "seconds", 0))
            self.busy -= 1
            self.parts.append((getattr(work, "name", ""), given))
        return function(packed, given)


async def all_of(runner, work, browser="a"):
    """Every result that a page gets."""
    return [each async for each in runner.results(work, browser)]


async def test_results_grow_in_order_and_the_complete_one_comes_last():
    runner = Runner(Here(size=2))
    found = await all_of(runner, Count(400, seconds=0.002))
    assert found[-1].value == list(range(400))
    assert [each.complete for each in found] == [False] * (len(found) - 1) + [True]
    sizes = [len(each.value) for each in found]
    assert sizes == sorted(set(sizes))
    assert all(each.value == list(range(len(each.value))) for each in found)
    assert len(found) > 2
    # Some three times a second, but for the first and the last.
    assert len(found) <= found[-1].seconds / 0.3 + 2

    # A page that is slow gets the newest result alone.
    runner, sizes = Runner(Here()), []
    async for each in runner.results(Count(60), "a"):
        sizes.append(len(each.value))
        await asyncio.sleep(0.3)
    assert sizes[-1] == 60
    assert len(sizes) <= 3


async def test_what_two_sessions_ask_for_is_computed_once():
    cluster = Here()
    runner, work = Runner(cluster), Count(40, seconds=0.005)
    first, second = await asyncio.gather(all_of(runner, work), all_of(runner, work, "b"))
    assert first[-1].value == second[-1].value
    assert sorted(cluster.parts) == [("", number) for number in range(40)]
    # Who comes later gets it at once, with the seconds that it took.
    assert await all_of(runner, Count(40, seconds=0.005), "c") in (first[-1:], second[-1:])
    assert len(cluster.parts) == 40


async def test_a_computation_goes_on_for_those_who_stay_and_ends_with_the_last():
    cluster = Here()
    runner, work = Runner(cluster), Count(1000, seconds=0.005)
    async with aclosing(runner.results(work, "b")) as stays:
        await anext(stays)
        async with aclosing(runner.results(work, "a")) as goes:
            seen = await anext(goes)
            assert 0 < len(seen.value) < 1000
        assert len((await anext(stays)).value) > len(seen.value)
    await asyncio.sleep(0.05)
    so_far = len(cluster.parts)
    await asyncio.sleep(0.05)
    assert len(cluster.parts) == so_far < 1000


async def test_who_leaves_as_parts_arrive_leaves_no_failure_behind(caplog):
    for seconds in (0.0, 0.001):
        for parts in range(1, 20):
            cluster = Here(size=3)
            runner, work = Runner(cluster), Count(1000, seconds=seconds)
            taking = asyncio.create_task(all_of(runner, work))
            while len(cluster.parts) < parts:
                await asyncio.sleep(0)
            taking.cancel()
            await asyncio.wait([taking])
    assert not caplog.records


async def test_a_browser_with_twelve_tabs_does_not_keep_another_waiting():
    cluster = Here()
    runner = Runner(cluster)
    tabs = [
        asyncio.create_task(all_of(runner, Count(500, seconds=0.005, name=f"tab {i}"), "many"))
        for i in range(12)
    ]
    await asyncio.sleep(0.1)
    so_far = len(cluster.parts)
    await all_of(runner, Count(20, seconds=0.005, name="one"), "other")
    meanwhile = [name for name, _ in cluster.parts[so_far:]]
    others = sum(name != "one" for name in meanwhile)
    assert meanwhile.count("one") == 20
    assert others <= 20 + 3
    for each in tabs:
        each.cancel()
    await asyncio.gather(*tabs, return_exceptions=True)


async def test_workers_are_given_one_part_each():
    cluster = Here(size=2)
    runner = Runner(cluster)
    works = [Count(20, seconds=0.003, name=str(i)) for i in range(6)]
    await asyncio.gather(*(all_of(runner, each, each.name) for each in works))
    assert cluster.most == 2


def test_results_do_not_depend_on_the_number_of_workers():
    request = Request("error_curves", replace(Case("tail-1d").settings, runs=60, draws=16))
    count, first = request.part(0)
    expected = repr(request.result([first, *(request.part(i)[1] for i in range(1, count))]))
    found = run_apart(all_of(Runner(Here(3)), request))
    assert repr(found[-1].value) == expected
    assert str(request).startswith("error_curves (problem = tail-1d, y = 1")


async def test_what_takes_too_long_ends_with_what_there_is():
    cluster = Here(2)
    runner, work = Runner(cluster, limit=1), Count(500, seconds=0.01, busy=True)
    *growing, last = await all_of(runner, work)
    # 100 parts fit, on a busy machine fewer, and those that are done before they are merged.
    assert 10 <= len(last.value) <= 150
    assert last.value == list(range(len(cluster.parts)))
    assert last.complete
    assert last.stopped == "the limit here is 1 s of computing"
    assert not any(each.complete or each.stopped for each in growing)
    # It is kept: who asks again gets no more.
    assert await all_of(runner, work) == [last]
    whole = (await all_of(runner, Count(10, seconds=0.01, busy=True)))[-1]
    assert whole.complete
    assert not whole.stopped


async def test_a_failure_reaches_all_who_wait_and_is_not_kept():
    runner, work = Runner(Here()), Count(100, seconds=0.002, fails=30)
    waiting = [all_of(runner, work, browser) for browser in "ab"]
    failed = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(error) for error in failed] == ["theta: expected a number"] * 2
    assert (await all_of(runner, Count(3)))[-1].value == [0, 1, 2]
    with pytest.raises(ValueError, match="theta"):
        await all_of(runner, work)


def test_workers_are_one_less_than_the_cores_and_exclude_a_scheduler_elsewhere():
    assert default_workers() == max(1, len(os.sched_getaffinity(0)) - 1)
    with pytest.raises(ValueError, match=r"^workers: expected None with dask="):
        Cluster(2, "tcp://127.0.0.1:8786")
    with pytest.raises(ValueError, match=r"^workers: expected a whole number from 1 to 1,000"):
        Cluster(0)


@pytest.mark.slow
async def test_real_workers_compute_are_replaced_and_named(tmp_path):
    cluster = Cluster(2)
    runner = Runner(cluster)
    pids = {(await cluster.submit(f"pid {i}", os.getpid)) for i in range(4)}
    assert os.getpid() not in pids
    once = Count(20, kills=3, once=str(tmp_path / "died"))
    bad = Count(20, kills=3, name="bad")
    good = Count(400, name="good")

    async def crashes():
        with pytest.raises(RuntimeError, match="crashed its workers"):
            await all_of(runner, bad, bad.name)

    asked = all_of(runner, once), crashes(), all_of(runner, good, good.name)
    found, _, other = await asyncio.gather(*asked)
    assert (tmp_path / "died").exists()
    assert found[-1].value == list(range(20))
    assert other[-1].value == list(range(400))
    # One that hangs is ended.
    cluster.seconds = 0.5
    with pytest.raises(RuntimeError, match=r"took more than 0\.5 s"):
        await cluster.submit("sleep", time.sleep, 600)
    cluster.seconds = 60
    alive = {(await cluster.submit(f"alive {i}", os.getpid)) for i in range(8)}
    assert alive - pids
    # Who leaves while a result is fetched does not keep others from theirs.
    client = await cluster.start()
    leaving = asyncio.create_task(cluster.submit("one", os.getpid))
    while client._gather_future is None:
        await asyncio.sleep(0)
    leaving.cancel()
    assert await cluster.submit("two", os.getpid) in alive
    await cluster.close()


# A Dask scheduler with a worker, at a port.
SCHEDULER = """
import sys, time
from distributed import LocalCluster

if __name__ == "__main__":
    at = {"scheduler_port": int(sys.argv[1]), "host": "127.0.0.1", "protocol": "tcp"}
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None, **at):
        time.sleep(600)
"""


@contextmanager
def scheduler(port):
    """Runs it, and kills it."""
    command = [sys.executable, "-c", SCHEDULER, str(port)]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=paths) as started:
        try:
            yield
        finally:
            started.kill()


async def once_reachable(runner, work):
    """The complete result, once there is a scheduler."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return (await all_of(runner, work))[-1].value
        except Unreachable:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.5)


@pytest.mark.slow
def test_a_scheduler_elsewhere_computes_and_is_connected_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # its workers leave folders
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def body():
        cluster = Cluster(dask=f"tcp://127.0.0.1:{port}")
        runner = Runner(cluster)
        with scheduler(port):
            work = Count(30, seconds=0.02)
            assert (await once_reachable(runner, work)) == list(range(30))
            waiting = asyncio.create_task(all_of(runner, Count(10_000, name="long")))
            await asyncio.sleep(0.5)
        with pytest.raises(Unreachable, match="does not answer"):
            await waiting
        with scheduler(port):
            assert (await once_reachable(runner, Count(3))) == [0, 1, 2]
            await cluster.close()

    run_apart(body())


# Prints the numbers of its worker and of its training, and waits. It has no guard for workers that
# would run it again.
PARENT = """
import asyncio, os, sys
sys.path.insert(0, "tests/app")
from test_train import Page, request, until
from amci_explorer.compute.runner import Cluster
from amci_explorer.compute.training import TrainingSession
from amci_explorer.state.case import Case


async def main():
    session = TrainingSession(Case("tail-1d"), Page())
    session.start(request())
    await until(lambda: session.plan)
    worker = await Cluster(1).submit("pid", os.getpid)
    print(worker, session.process.pid, flush=True)
    await asyncio.sleep(600)


asyncio.run(main())
"""


def runs_on(number):
    """Whether a process is there, other than one that only waits to be asked for its end."""
    status = Path(f"/proc/{number}/stat")
    with suppress(FileNotFoundError, ProcessLookupError):
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")
def test_workers_and_trainings_end_within_three_seconds_of_a_server_that_is_killed():
    paths = os.pathsep.join(filter(None, [str(ROOT / "tests"), *sys.path]))
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    ) as parent:
        numbers = parent.stdout.readline().split()
        parent.kill()
    assert len(numbers) == 2
    deadline = time.monotonic() + 3
    while any(map(runs_on, numbers)):
        assert time.monotonic() < deadline, "they live on"
        time.sleep(0.05)
