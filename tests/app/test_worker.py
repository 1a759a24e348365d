import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest
from bokeh.document import Document

from app.worker import Jobs, in_spare_time

PATIENCE = 20


class Server(Document):
    """A server's event loop and its document: callbacks run one after the other, on demand."""

    def __init__(self):
        super().__init__()
        self._soon = queue.SimpleQueue()
        self.waiting = []
        self.told_by = set()
        self.gone = False
        self.session = None

    def call_soon_threadsafe(self, callback, *arguments):
        self._soon.put(partial(callback, *arguments))

    def call_later(self, delay, callback, *arguments):
        threading.Timer(delay, callback, arguments).start()

    @property
    def session_context(self):
        return SimpleNamespace(session=self.session)

    def add_next_tick_callback(self, callback):
        if self.gone:
            raise RuntimeError("the session is gone")
        self.told_by.add(threading.current_thread())
        self.waiting.append(callback)

    def turn(self):
        """One turn of the loop."""
        with contextlib.suppress(queue.Empty):
            self._soon.get(timeout=0.01)()

    def run_until(self, true):
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, "it never came true"
            self.turn()
            waiting, self.waiting = self.waiting, []
            for callback in waiting:
                callback()


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def jobs(server):
    """The jobs of a visitor, who goes at the end."""
    created = Jobs(server, server)
    yield created
    created.cancel_all()


def endless() -> Iterator[int]:
    n = 0
    while True:
        time.sleep(0.001)
        yield n
        n += 1


def test_results_grow_and_the_last_one_is_shown(server, jobs):
    shown, ends = [], []
    jobs.start("count", lambda: iter(range(50)), show=shown.append, finish=ends.append)
    server.run_until(lambda: ends)
    assert ends == [None]
    assert shown == sorted(shown)
    assert shown[-1] == 49


def test_a_job_waits_while_its_page_is_gone(server, jobs, monkeypatch):
    # There is no page to send a message to.
    monkeypatch.setattr("app.worker.one_message", contextlib.nullcontext)
    server.session = SimpleNamespace(connection_count=0)
    done = []

    def steps():
        for n in range(1000):
            done.append(n)
            time.sleep(0.001)
            yield n

    ends = []
    jobs.start("count", steps, show=lambda _: None, finish=ends.append)
    # A page that has not come yet is computed for.
    server.run_until(lambda: done)
    server.session.connection_count = 1
    server.run_until(lambda: len(done) > 10)
    server.session.connection_count = 0
    time.sleep(0.1)
    so_far = len(done)
    time.sleep(0.3)
    assert len(done) == so_far < 1000
    server.session.connection_count = 1
    server.run_until(lambda: ends)
    assert len(done) == 1000


def test_steps_run_outside_of_the_servers_thread(server, jobs):
    threads = []

    def steps():
        threads.append(threading.current_thread())
        yield 1

    ends = []
    jobs.start("where", steps, show=lambda _: None, finish=ends.append)
    server.run_until(lambda: ends)
    assert threads[0] is not threading.current_thread()


def test_the_document_is_told_by_the_servers_thread_alone(server, jobs):
    ends = []
    jobs.start("count", lambda: iter(range(50)), show=lambda _: None, finish=ends.append)
    server.run_until(lambda: ends)
    assert server.told_by == {threading.current_thread()}


def test_nothing_is_shown_after_a_cancel_even_if_it_was_on_its_way(server, jobs):
    shown = []
    jobs.start("count", endless, show=shown.append, finish=shown.append)
    while not server.waiting:
        server.turn()
    jobs.cancel("count")
    other = []
    jobs.start("other", lambda: iter([1]), show=lambda _: None, finish=other.append)
    server.run_until(lambda: other)
    assert shown == []


def test_a_new_start_calls_the_old_job_off(server, jobs):
    closed, shown, ends = threading.Event(), [], []

    def first():
        yield from endless()

    jobs.start("curves", first, show=lambda n: shown.append("old"), finish=lambda _: closed.set())
    server.run_until(lambda: shown)
    jobs.start("curves", lambda: iter([1]), show=lambda n: shown.append("new"), finish=ends.append)
    shown.clear()
    server.run_until(lambda: ends)
    assert shown == ["new"]
    assert not closed.is_set()


def test_jobs_take_turns(server, jobs):
    """A short job ends while an endless one of another visitor is under way."""
    long, short, ends = jobs, Jobs(server, server), []
    long.start("endless", endless, show=lambda _: None, finish=ends.append)
    try:
        short.start("short", lambda: iter(range(5)), show=lambda _: None, finish=ends.append)
        server.run_until(lambda: ends)
        assert ends == [None]
    finally:
        long.cancel_all()


def test_a_failure_reaches_the_visitor_and_the_worker_lives_on(server, jobs):
    def fails():
        yield 1
        raise ValueError("theta: expected a number")

    ends = []
    jobs.start("fails", fails, show=lambda _: None, finish=ends.append)
    server.run_until(lambda: ends)
    assert ends == ["theta: expected a number"]
    jobs.start("works", lambda: iter([1]), show=lambda _: None, finish=ends.append)
    server.run_until(lambda: len(ends) == 2)
    assert ends[1] is None


def test_a_failure_before_the_first_step_reaches_the_visitor(server, jobs):
    def fails():
        raise ValueError("no proposals")

    ends = []
    jobs.start("fails", fails, show=lambda _: None, finish=ends.append)
    server.run_until(lambda: ends)
    assert ends == ["no proposals"]


def test_a_job_ends_when_its_visitor_has_gone(server, jobs):
    stopped = threading.Event()

    def steps():
        try:
            yield from endless()
        finally:
            stopped.set()

    shown = []
    jobs.start("count", steps, show=shown.append, finish=shown.append)
    server.run_until(lambda: shown)
    server.gone = True
    # The generator is closed once nothing holds the job any more.
    jobs.cancel_all()
    assert stopped.wait(PATIENCE)


def test_tasks_in_spare_time_are_done_in_order_and_one_that_fails_stops_no_other():
    done = queue.SimpleQueue()

    def fail():
        done.put("failed")
        raise ValueError("wrong")

    in_spare_time([partial(done.put, "first"), fail, partial(done.put, "last")])
    assert [done.get(timeout=PATIENCE) for _ in range(3)] == ["first", "failed", "last"]
