"""Requests of all sessions: computed once, in turn, in other processes, and cancelled."""

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from contextlib import aclosing, contextmanager
from dataclasses import replace

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
from serving import PATIENCE
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


def values(found):
    return [each.value for each in found]


def test_results_grow_in_order_and_the_complete_one_comes_last():
    async def body():
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

    run_apart(body())


def test_a_page_that_is_slow_gets_the_newest_result_alone():
    async def body():
        runner, sizes = Runner(Here()), []
        async for each in runner.results(Count(60), "a"):
            sizes.append(len(each.value))
            await asyncio.sleep(0.3)
        assert sizes[-1] == 60
        assert len(sizes) <= 3

    run_apart(body())


def test_what_two_sessions_ask_for_is_computed_once():
    async def body():
        cluster = Here()
        runner, work = Runner(cluster), Count(40, seconds=0.005)
        first, second = await asyncio.gather(all_of(runner, work), all_of(runner, work, "b"))
        assert first[-1].value == second[-1].value
        assert sorted(cluster.parts) == [("", number) for number in range(40)]
        # Who comes later gets it at once, with the seconds that it took.
        assert await all_of(runner, Count(40, seconds=0.005), "c") in (first[-1:], second[-1:])
        assert len(cluster.parts) == 40

    run_apart(body())


def test_a_computation_goes_on_for_those_who_stay_and_ends_with_the_last():
    async def body():
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

    run_apart(body())


def test_who_leaves_as_parts_arrive_leaves_no_failure_behind(caplog):
    async def body():
        for seconds in (0.0, 0.001):
            for parts in range(1, 40):
                cluster = Here(size=3)
                runner, work = Runner(cluster), Count(1000, seconds=seconds)
                taking = asyncio.create_task(all_of(runner, work))
                while len(cluster.parts) < parts:
                    await asyncio.sleep(0)
                taking.cancel()
                await asyncio.wait([taking])

    run_apart(body())
    assert not caplog.records


def test_a_browser_with_twelve_tabs_does_not_keep_another_waiting():
    async def body():
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

    run_apart(body())


def test_workers_are_given_one_part_each():
    async def body():
        cluster = Here(size=2)
        runner = Runner(cluster)
        works = [Count(20, seconds=0.003, name=str(i)) for i in range(6)]
        await asyncio.gather(*(all_of(runner, each, each.name) for each in works))
        assert cluster.most == 2

    run_apart(body())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_results_do_not_depend_on_the_number_of_workers(size):
    request = Request("error_curves", replace(Case("tail-1d").settings, runs=60, draws=16))
    expected = repr(request.result([request.part(i)[1] for i in range(request.part(0)[0])]))

    async def body():
        return await all_of(Runner(Here(size)), request)

    found = run_apart(body())
    assert repr(found[-1].value) == expected


@pytest.mark.parametrize("size", [1, 2])
def test_what_takes_too_long_ends_with_what_there_is(size):
    async def body():
        cluster = Here(size)
        runner, work = Runner(cluster, limit=2), Count(500, seconds=0.01, busy=True)
        *growing, last = await all_of(runner, work)
        # 200 parts fit, on a busy machine fewer, and those that are done before they are merged.
        assert 20 <= len(last.value) <= 250
        assert last.value == list(range(len(cluster.parts)))
        assert last.complete
        assert last.stopped == "the limit here is 2 s of computing"
        assert not any(each.complete or each.stopped for each in growing)
        # It is kept: who asks again gets no more.
        assert await all_of(runner, work) == [last]
        whole = (await all_of(runner, Count(10, seconds=0.01, busy=True)))[-1]
        assert whole.complete
        assert not whole.stopped

    run_apart(body())


def test_a_failure_reaches_all_who_wait_and_is_not_kept():
    async def body():
        runner, work = Runner(Here()), Count(100, seconds=0.002, fails=30)
        waiting = [all_of(runner, work, browser) for browser in "ab"]
        failed = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(error) for error in failed] == ["theta: expected a number"] * 2
        assert (await all_of(runner, Count(3)))[-1].value == [0, 1, 2]
        with pytest.raises(ValueError, match="theta"):
            await all_of(runner, work)

    run_apart(body())


def test_a_request_is_named_by_its_case():
    named = str(Request("reuse", Case("tail-1d").settings))
    assert named.startswith("reuse (problem = tail-1d, y = 1")


def test_one_core_is_left_to_the_server():
    assert default_workers() == max(1, len(os.sched_getaffinity(0)) - 1)


def test_workers_and_a_scheduler_elsewhere_exclude_each_other():
    with pytest.raises(ValueError, match=r"^workers: expected None with dask="):
        Cluster(2, "tcp://127.0.0.1:8786")
    with pytest.raises(ValueError, match=r"^workers: expected a whole number from 1 to 1,000"):
        Cluster(0)


@pytest.mark.slow
def test_real_workers_compute_are_replaced_and_named(tmp_path):
    async def body():
        cluster = Cluster(2)
        runner = Runner(cluster)
        pids = {(await cluster.submit(f"pid {i}", os.getpid)) for i in range(4)}
        assert os.getpid() not in pids
        started = time.monotonic()
        once = Count(20, kills=3, once=str(tmp_path / "died"))
        bad = Count(20, kills=3, name="bad")
        good = Count(400, name="good")
        found, failed, other = await asyncio.gather(
            *(all_of(runner, each, each.name) for each in (once, bad, good)),
            return_exceptions=True,
        )
        assert time.monotonic() - started < 200
        assert (tmp_path / "died").exists()
        assert values(found)[-1] == list(range(20))
        assert "crashed its workers" in str(failed)
        assert values(other)[-1] == list(range(400))
        # One that hangs is ended.
        cluster.seconds = 0.5
        with pytest.raises(RuntimeError, match=r"took more than 0\.5 s"):
            await cluster.submit("sleep", time.sleep, 600)
        cluster.seconds = 60
        alive = {(await cluster.submit(f"alive {i}", os.getpid)) for i in range(8)}
        assert alive - pids
        await cluster.close()

    run_apart(body())


@pytest.mark.slow
def test_who_leaves_while_a_result_is_fetched_does_not_keep_others_from_theirs():
    async def body():
        cluster = Cluster(1)
        client = await cluster.start()
        leaving = asyncio.create_task(cluster.submit("one", os.getpid))
        while client._gather_future is None:
            await asyncio.sleep(0)
        leaving.cancel()
        assert await cluster.submit("two", os.getpid) != os.getpid()
        await cluster.close()

    run_apart(body())


@contextmanager
def scheduler(port):
    """A Dask scheduler with a worker, at a port."""
    elsewhere = ["--no-dashboard", "--host", "127.0.0.1"]
    commands = {
        "scheduler": ["--port", str(port), *elsewhere],
        "worker": [f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny", *elsewhere],
    }
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{what}", *options],
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        for what, options in commands.items()
    ]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


async def once_reachable(runner, work):
    """Every result, from when there is a scheduler."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return await all_of(runner, work)
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
            assert values(await once_reachable(runner, work))[-1] == list(range(30))
            waiting = asyncio.create_task(all_of(runner, Count(10_000, name="long")))
            await asyncio.sleep(0.5)
        with pytest.raises(Unreachable, match="does not answer"):
            await waiting
        with scheduler(port):
            assert values(await once_reachable(runner, Count(3)))[-1] == [0, 1, 2]
            await cluster.close()

    run_apart(body())


# Prints its worker's number, and waits. It has no guard for workers that would run it again, and
# hears Ctrl-C also where the tests were started in the background.
PARENT = """
import asyncio, os, signal
from amci_explorer.compute.runner import Cluster


signal.signal(signal.SIGINT, signal.default_int_handler)


async def main():
    print(await Cluster(1).submit("pid", os.getpid), flush=True)
    await asyncio.sleep(600)


asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_within_three_seconds_of_the_server(tmp_path, how):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    paths = os.pathsep.join(filter(None, sys.path))
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    worker = int(parent.stdout.readline())
    parent.send_signal(how)
    parent.wait(10)
    parent.stdout.close()
    deadline = time.monotonic() + 3
    while os.path.exists(f"/proc/{worker}"):
        assert time.monotonic() < deadline, "the worker lives on"
        time.sleep(0.05)
