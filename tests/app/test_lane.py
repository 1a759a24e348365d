"""The lane of trainings: a few at a time, the others in turn, each ended with its visitor."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import works
from amci_explorer.compute.lane import Lane, lane
from amci_explorer.compute.trainee import Order
from servers import Threads

import amci_core as amci
from amci_core.training import Choices

# A training comes after all else on a busy machine.
PATIENCE = 700
ROOT = Path(__file__).resolve().parents[2]
# SNIS q_m has so many times the error of AMCI, where f is rare enough to tell them apart.
THETAS, TIMES = (2.5, 3.0, 4.0), 30


class Told(list):
    """What a training told."""

    def __init__(self):
        super().__init__()
        self._changed = threading.Condition()

    def __call__(self, what, value):
        with self._changed:
            self.append((what, value))
            self._changed.notify_all()

    def of(self, what):
        return [value for told, value in self if told == what]

    def wait_for(self, true):
        with self._changed:
            assert self._changed.wait_for(lambda: true(self), PATIENCE), list(self)

    def wait(self, what):
        """The first value that is told under that name."""
        self.wait_for(lambda told: told.of(what))
        return self.of(what)[0]


def order(problem="tail-1d", minutes=10.0, **options):
    return Order(problem, "learnt", Choices(), minutes, 0, **options)


@pytest.fixture
def enter():
    """Enters a lane; all trainings are left at the end."""
    entered = []

    def make(where, asked=None):
        told = Told()
        training = where.enter(asked or order(), told)
        entered.append(training)
        return training, told

    yield make
    for each in entered:
        each.leave()


def is_alive(pid):
    """Whether a process does something: one that only waits to be asked for its end does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(true):
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_who_comes_later_is_told_their_place_and_moves_up(enter):
    one = Lane(1, target=works.obeys, context=Threads)
    first, said = enter(one)
    _, second = enter(one)
    third, last = enter(one)
    said.wait("said")
    assert (second.of("place"), last.of("place")) == ([0], [1])
    first.leave()
    second.wait("said")
    assert last.of("place") == [1, 0]
    third.stop()
    # What has only waited is over at once.
    assert last.wait("ended") is True
    assert not last.of("begun")


def test_as_many_go_on_at_a_time_as_are_allowed(enter):
    two = Lane(2, target=works.obeys, context=Threads)
    told = [enter(two)[1] for _ in range(3)]
    for each in told[:2]:
        each.wait("said")
    assert told[2] == [("place", 0)]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="there are no signals")
def test_a_crash_is_told_in_words_and_frees_the_place(enter):
    one = Lane(1, target=works.dies)
    _, told = enter(one)
    _, second = enter(one)
    assert "ended by signal 9" in told.wait("failed")
    second.wait("begun")


def test_what_a_process_says_of_its_failure_is_told(enter):
    _, told = enter(Lane(1, target=works.fails, context=Threads))
    assert told.wait("failed") == "tail-1d cannot be learnt"


@pytest.mark.slow
def test_an_order_that_cannot_be_done_is_told_by_the_real_process(enter):
    _, told = enter(Lane(1), order("no-such-problem"))
    assert "no-such-problem" in told.wait("failed")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")
def test_the_process_ends_with_its_visitor(enter):
    training, told = enter(Lane(1, target=works.obeys))
    told.wait("said")
    training.leave()
    wait_until(lambda: not is_alive(training.pid))
    assert not told.of("ended") + told.of("failed")


SERVER = """
import os, sys, threading
sys.path.insert(0, "tests/app")
from test_lane import Told, order
from amci_explorer.compute.lane import Lane

told = Told()
training = Lane(1).enter(order(), told)
told.wait("said")
print(training.pid, flush=True)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")
def test_the_process_ends_with_the_server_however_that_ends():
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    done = subprocess.run(
        [sys.executable, "-c", SERVER],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    wait_until(lambda: not is_alive(int(done.stdout)))


@pytest.mark.parametrize("odd", ["0", "two"])
def test_the_environment_is_checked(monkeypatch, odd):
    monkeypatch.setenv("AMCI_TRAININGS", odd)
    lane.cache_clear()
    with pytest.raises(ValueError, match=r"^AMCI_TRAININGS: expected"):
        lane()


@pytest.mark.slow
def test_twenty_seconds_beat_the_mixture_thirty_times(enter):
    seconds = 20
    _, told = enter(Lane(1), order(minutes=seconds / 60))
    assert told.wait("ended") is False
    # It has computed for no longer than it was asked to, whatever else the machine did.
    assert told.of("report")[-1].seconds < 1.3 * seconds
    # Some on the way, so that the page can show them.
    assert len(told.of("proposals")) > 5
    learnt = told.of("proposals")[-1]
    assert learnt.variant == "learnt"
    assert "held-out cases" in learnt.card["configuration"]["verdict"]["text"]
    for theta in THETAS:
        curves = amci.error_curves(
            amci.problem("tail-1d"),
            learnt,
            1.0,
            theta,
            budgets=[1000],
            runs=400,
            estimators=["amci", "snis-qm"],
            seed=1,
        ).by_name
        error, of_mixture = (np.median(curves[n].remse_quartiles[1]) for n in ("amci", "snis-qm"))
        assert TIMES * error < of_mixture, theta
