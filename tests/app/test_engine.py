"""Jobs of visitors: results grow, in turn, in other processes, and each can be called off."""

import contextlib
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest
from amci_explorer.compute.engine import AHEAD, Engine
from amci_explorer.compute.executor import executor
from amci_explorer.compute.jobs import Jobs
from amci_explorer.compute.under_way import timed_part
from servers import Server
from works import Count, Where


class Watched(ThreadPoolExecutor):
    """Two threads in the place of processes, and what was submitted to them."""

    def __init__(self):
        super().__init__(2)
        self.submitted = []

    def submit(self, function, *arguments):
        if function is not int:
            work, *rest = arguments if function is timed_part else (function.__self__, *arguments)
            self.submitted.append((work, "part" if function is timed_part else "result", *rest))
        return super().submit(function, *arguments)


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def watched():
    with Watched() as pool:
        yield pool


@pytest.fixture
def engine(watched):
    created = Engine(lambda: (watched, 2))
    yield created
    created.close()


@pytest.fixture
def jobs(server, engine):
    """The jobs of a visitor, who goes at the end."""
    created = Jobs(server, server, of=engine)
    yield created
    created.cancel_all()


@pytest.fixture(scope="module")
def processes():
    created = Engine(partial(executor, workers=2))
    yield created
    created.close()


class Shown(list):
    """The results that are shown, and the seconds that each is said to have taken."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def take(self, result, seconds):
        self.append(result)
        self.seconds.append(seconds)


def run(server, jobs, work, name="work"):
    """What is shown, and how it ends."""
    shown, ends = Shown(), []
    jobs.start(name, work, show=shown.take, finish=ends.append)
    server.run_until(lambda: ends)
    return shown, ends


def test_results_grow_in_order_and_the_whole_one_is_shown_last(server, jobs):
    shown, ends = run(server, jobs, Count(400, seconds=0.005))
    assert ends == [None]
    assert shown[-1] == list(range(400))
    assert all(each == shown[-1][: len(each)] for each in shown)
    assert [len(each) for each in shown] == sorted({len(each) for each in shown})
    assert len(shown) > 2


def test_results_are_pushed_at_most_ten_times_a_second(server, jobs):
    started = time.monotonic()
    shown, _ = run(server, jobs, Count(300, seconds=0.002))
    # The first and the last one come at once.
    assert len(shown) <= (time.monotonic() - started) / 0.1 + 2


def test_a_slow_page_gets_the_newest_result_not_all_of_them(server, jobs, engine):
    shown, ends = Shown(), []
    jobs.start("work", Count(300), show=shown.take, finish=ends.append)
    # The page answers nothing before all is computed.
    while engine.under_way or len(server.waiting) < 2:
        server.turn()
    server.run_until(lambda: ends)
    assert shown[-1] == list(range(300))
    assert len(shown) <= 2


def test_what_a_page_is_told_keeps_its_order_though_its_turns_do_not(server, jobs):
    shown, ends = Shown(), []
    jobs.start("work", Count(1), show=shown.take, finish=lambda _: ends.append(list(shown)))
    while len(server.waiting) < 2:
        server.turn()
    for callback in reversed(server.waiting):
        callback()
    assert ends == [shown] == [[[0]]]


def test_a_result_that_is_known_is_shown_to_the_next_visitor_without_computing(
    server, jobs, engine, watched
):
    first, _ = run(server, jobs, Count(20))
    so_far = len(watched.submitted)
    again, ends = run(server, Jobs(server, server, of=engine), Count(20))
    assert again == first[-1:]
    # It took as long as it did, though not for this visitor.
    assert again.seconds == first.seconds[-1:]
    assert ends == [None]
    assert len(watched.submitted) == so_far


def begun(server, jobs, work):
    """What is shown of a job, and how it ends, from its first result on."""
    shown, ends = Shown(), []
    jobs.start("work", work, show=shown.take, finish=ends.append)
    server.run_until(lambda: shown)
    return shown, ends


def test_what_two_visitors_ask_for_is_computed_once(server, jobs, engine, watched):
    work, another = Count(100, seconds=0.01), Jobs(server, server, of=engine)
    first, ends = begun(server, jobs, work)
    second, its_ends = begun(server, another, work)
    # Who comes later sees at once what there is, and how long that took.
    assert 0 < len(second[0]) < 100
    assert second.seconds[0] >= 0.01 * len(second[0]) / 2
    server.run_until(lambda: ends and its_ends)
    assert ends == its_ends == [None]
    assert first[-1] == second[-1] == list(range(100))
    parts = [number for _, kind, number in watched.submitted if kind == "part"]
    assert sorted(parts) == list(range(100))


def test_it_goes_on_for_those_who_stay(server, jobs, engine, watched):
    work, another = Count(100, seconds=0.01), Jobs(server, server, of=engine)
    gone, _ = begun(server, jobs, work)
    stays, ends = begun(server, another, work)
    jobs.cancel("work")
    gone.clear()
    server.run_until(lambda: ends)
    assert stays[-1] == list(range(100))
    assert gone == []
    # Nobody is left of whom to be told, and nothing to compute.
    another.cancel("work")
    assert not engine.under_way


def test_a_page_that_is_gone_holds_up_nobody_who_asks_for_the_same(
    server, jobs, engine, monkeypatch
):
    monkeypatch.setattr("amci_explorer.compute.jobs.guarded", contextlib.nullcontext)
    work, other = Count(100, seconds=0.01), Server()
    server.session = SimpleNamespace(connection_count=1)
    begun(server, jobs, work)
    _, ends = begun(other, Jobs(other, other, of=engine), work)
    server.session.connection_count = 0
    other.run_until(lambda: ends)
    assert ends == [None]


def test_a_failure_reaches_all_who_wait(server, jobs, engine):
    work, another = Count(100, seconds=0.02, fails=40), Jobs(server, server, of=engine)
    _, ends = begun(server, jobs, work)
    _, its_ends = begun(server, another, work)
    server.run_until(lambda: ends and its_ends)
    assert ends == its_ends == ["theta: expected a number"]
    assert not engine.under_way


def test_a_job_waits_while_its_page_is_gone(server, jobs, watched, monkeypatch):
    # There is no page to send a message to.
    monkeypatch.setattr("amci_explorer.compute.jobs.guarded", contextlib.nullcontext)
    server.session = SimpleNamespace(connection_count=0)
    ends, work = [], Count(500, seconds=0.002)
    jobs.start("count", work, show=lambda *_: None, finish=ends.append)
    # A page that has not come yet is computed for.
    server.run_until(lambda: watched.submitted)
    server.session.connection_count = 1
    server.run_until(lambda: len(watched.submitted) > 10)
    server.session.connection_count = 0
    server.run_until(lambda: not jobs.engine.busy)
    so_far = len(watched.submitted)
    server.turn(20)
    assert len(watched.submitted) == so_far < 500
    server.session.connection_count = 1
    server.run_until(lambda: ends)
    assert ends == [None]


def test_what_is_called_off_is_never_submitted(server, jobs, watched):
    shown = Shown()
    jobs.start("count", Count(1000, seconds=0.01), show=shown.take, finish=shown.append)
    server.run_until(lambda: shown)
    jobs.cancel("count")
    shown.clear()
    so_far = len(watched.submitted)
    other, _ = run(server, jobs, Count(5))
    assert other[-1] == list(range(5))
    assert all(work == Count(5) for work, *_ in watched.submitted[so_far:])
    assert shown == []


def test_nothing_is_shown_after_a_cancel_even_if_it_was_on_its_way(server, jobs):
    shown = Shown()
    jobs.start("count", Count(1000), show=shown.take, finish=shown.append)
    while not server.waiting:
        server.turn()
    jobs.cancel("count")
    run(server, jobs, Count(1))
    assert shown == []


def test_a_new_start_calls_the_old_job_off(server, jobs):
    shown, closed = Shown(), []
    jobs.start("curves", Count(1000), show=shown.take, finish=closed.append)
    server.run_until(lambda: shown)
    new, ends = run(server, jobs, Count(2), name="curves")
    assert new[-1] == [0, 1]
    assert ends == [None]
    assert closed == []


def test_visitors_take_turns(server, jobs, engine, watched):
    """Visitors who come later do not wait for the first one's thousand parts."""
    shown = Shown()
    jobs.start("long", Count(1000, seconds=0.01), show=shown.take, finish=shown.append)
    server.run_until(lambda: shown)
    others = [Jobs(server, server, of=engine) for _ in range(3)]
    so_far = len(watched.submitted)
    ends = []
    for i, each in enumerate(others):
        each.start("short", Count(5, name=str(i)), show=lambda *_: None, finish=ends.append)
    server.run_until(lambda: len(ends) == 3)
    tasks = watched.submitted[so_far:]
    own = sum(work.name == "" for work, *_ in tasks)
    # Six tasks a visitor at least, and of the long one's hardly more.
    assert own <= max(sum(work.name == str(i) for work, *_ in tasks) for i in range(3)) + 2 + AHEAD


def test_a_failure_reaches_the_visitor_and_the_next_job_works(server, jobs, watched):
    _, ends = run(server, jobs, Count(100, seconds=0.05, fails=3))
    assert ends == ["theta: expected a number"]
    tried = [task for task in watched.submitted if task[0].fails]
    assert len(tried) < 10
    assert run(server, jobs, Count(1))[1] == [None]


def test_the_document_is_told_by_the_servers_thread_alone(server, jobs):
    run(server, jobs, Count(50))
    assert server.told_by == {threading.current_thread()}


def test_a_visitor_who_has_gone_harms_nobody(server, jobs, engine, watched):
    shown = Shown()
    jobs.start("count", Count(1000, seconds=0.002), show=shown.take, finish=shown.append)
    server.run_until(lambda: shown)
    server.gone = True
    # The next result finds no page, and the rest is not computed.
    server.run_until(lambda: not engine.under_way)
    assert len(watched.submitted) < 1000
    other = Server()
    assert run(other, Jobs(other, other, of=engine), Count(3))[1] == [None]


def test_those_who_wait_are_told_when_no_worker_starts(server):
    def start():
        raise ValueError("dask: the scheduler has no workers")

    _, ends = run(server, Jobs(server, server, of=Engine(start)), Count(3))
    assert ends == ["nothing can be computed: dask: the scheduler has no workers"]


def test_jobs_can_fail_when_the_server_has_closed_its_loop(server, jobs):
    def closed(*_):
        raise RuntimeError("Event loop is closed")

    for name in ("one", "other"):
        jobs.start(name, Count(1000, seconds=0.1), show=list, finish=list)
    server.call_soon_threadsafe = closed
    jobs.fail("nothing can be computed")
    assert jobs.next_task() is None


@pytest.mark.slow
def test_work_is_done_in_other_processes(server, processes):
    shown, _ = run(server, Jobs(server, server, of=processes), Where())
    assert shown[0] != os.getpid()


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_task_done_again(server, processes, tmp_path):
    dies_once = Count(20, kills=3, once=str(tmp_path / "died"))
    shown, ends = run(server, Jobs(server, server, of=processes), dies_once)
    assert (tmp_path / "died").exists()
    assert ends == [None]
    assert shown[-1] == list(range(20))


@pytest.mark.slow
def test_a_task_that_kills_every_worker_is_named_and_no_other_visitor_is_blamed(processes):
    bad, good = Server(), Server()
    ends, good_ends, shown = [], [], Shown()
    of_bad, of_good = (Jobs(each, each, of=processes) for each in (bad, good))
    of_good.start("curves", Count(400), show=shown.take, finish=good_ends.append)
    of_bad.start("reuse", Count(20, kills=3), show=lambda *_: None, finish=ends.append)
    bad.run_until(lambda: ends)
    assert ends == ["a process died twice while it computed reuse"]
    good.run_until(lambda: good_ends)
    assert good_ends == [None]
    assert shown[-1] == list(range(400))


def test_what_costs_too_much_is_stopped_and_the_next_time_not_begun(server):
    with ThreadPoolExecutor(1) as pool:
        created = Engine(lambda: (pool, 1), budget=0.2)
        jobs, ends = Jobs(server, server, of=created), []
        work = Count(100, seconds=0.01, busy=True)
        jobs.start("count", work, show=lambda *_: None, finish=ends.append)
        server.run_until(lambda: ends)
        (told,) = ends
        assert "the limit here is 0 s" in told
        parts = int(re.search(r"ask for (\d+) parts", told)[1])
        # 20 parts fit, up to what beginning costs.
        assert 5 < parts <= 20
        # It is known now what such work costs: nothing of it is done.
        submitted = []
        pool.submit = lambda *task: submitted.append(task)
        jobs.start("count", Count(99, seconds=0.01, busy=True), show=None, finish=ends.append)
        server.run_until(lambda: len(ends) == 2)
        assert "ask for" in ends[1]
        assert submitted == []


def test_what_a_visitor_has_under_way_counts_as_well(server):
    with ThreadPoolExecutor(1) as pool:
        created = Engine(lambda: (pool, 1), budget=1.6)
        jobs, ends = Jobs(server, server, of=created), {}
        run(server, jobs, Count(27, seconds=0.04, busy=True))
        for name in ("first", "second", "third"):
            ends[name] = []
            work = Count(28, seconds=0.04, busy=True, name=name)
            jobs.start(name, work, show=lambda *_: None, finish=ends[name].append)
        server.run_until(lambda: all(ends.values()))
        (told,) = ends.pop("third")
        assert "wait for the running computations, or ask for" in told
        assert list(ends.values()) == [[None], [None]]
        # What has ended no longer counts.
        work = Count(28, seconds=0.04, busy=True, name="third")
        assert run(server, jobs, work, "third")[1] == [None]


def test_what_fits_the_budget_is_done(server):
    with ThreadPoolExecutor(1) as pool:
        created = Engine(lambda: (pool, 1), budget=0.2)
        work = Count(5, seconds=0.01, busy=True)
        assert run(server, Jobs(server, server, of=created), work)[1] == [None]
        assert 0.04 < created.seconds(work) < 0.2
        assert created.seconds(Count(50, seconds=0.01, busy=True)) > 0.4


def test_what_a_process_takes_to_begin_is_not_expected_of_every_part(server):
    with ThreadPoolExecutor(1) as pool:
        created = Engine(lambda: (pool, 1), budget=1)
        work = Count(5, seconds=0.01, busy=True, begins=0.5)
        assert run(server, Jobs(server, server, of=created), work)[1] == [None]
        # With the beginning in it, this would be 5.5 seconds, and refused.
        assert created.seconds(Count(50, seconds=0.01, busy=True)) < 0.9


def test_what_is_under_way_when_a_job_ends_does_not_begin_it_again(server, watched):
    created = Engine(lambda: (watched, 2), budget=0.2)
    jobs, ends = Jobs(server, server, of=created), []
    work = Count(100, seconds=0.01, busy=True)
    jobs.start("count", work, show=lambda *_: None, finish=ends.append)
    server.run_until(lambda: ends)
    server.run_until(lambda: not created.busy)
    server.turn(20)
    server.run_until(lambda: not created.busy)
    (told,) = ends
    assert "the limit here is" in told
    done = [number for _, kind, number in watched.submitted if kind == "part"]
    assert len(done) == len(set(done)) < 100
