"""Tasks give the same numbers wherever they are done, and survive workers that die."""

import os
import subprocess
import sys
from functools import partial

import pytest
import torch
from own_problems import WRITTEN_OUT
from sent import awkward, deadly, noise, truth_of

from amci_core import parallel
from amci_core.parallel import run_tasks

ITEMS = list(range(12))
SHARED = torch.tensor(1 / 3)


def in_order(done):
    return sorted(done, key=lambda each: each.item)


def values(done):
    ordered = in_order(done)
    assert [each.failure for each in ordered] == [None] * len(ordered)
    return [each.value for each in ordered]


def test_a_task_that_fails_is_named_and_the_others_go_on():
    found = list(run_tasks(partial(awkward, 3), ITEMS))
    assert [done.value for done in found] == [None if i == 3 else i for i in ITEMS]
    assert [done.failure for done in found if done.failure] == ["ArithmeticError: no result for 3"]


@pytest.mark.slow
def test_workers_give_the_numbers_of_this_process():
    here = values(run_tasks(partial(noise, SHARED), ITEMS))
    assert values(run_tasks(partial(noise, SHARED), ITEMS, workers=2)) == here


@pytest.mark.slow
def test_a_task_that_kills_its_worker_is_named_and_the_others_go_on():
    found = in_order(run_tasks(partial(deadly, 3), ITEMS, workers=2))
    died = "its worker died: killed, or out of memory"
    assert found[3].failure == died
    # Dask also blames a task that waited at each worker that died.
    assert sum(done.failure == died for done in found) <= 2
    assert all(done.value == done.item for done in found if done.failure is None)


@pytest.mark.slow
def test_a_class_from_a_file_reaches_a_worker_that_has_not_the_file(tmp_path):
    from amci_core.models.loading import load_problem

    (tmp_path / "mine.py").write_text(WRITTEN_OUT.format(kind="Mine", name="mine"))
    problem = load_problem(str(tmp_path / "mine.py"))
    (tmp_path / "mine.py").unlink()
    assert values(run_tasks(partial(truth_of, problem), [1.5], workers=1)) == [3.0]


FORK = """
import multiprocessing
import amci_core as amci

def estimate(queue):
    queue.put(amci.estimate(problem, y=1.0, theta=3.0, draws=4096).value.item())

problem = amci.problem("tail-1d")
fork = multiprocessing.get_context("fork")
queue = fork.SimpleQueue()
child = fork.Process(target=estimate, args=(queue,), daemon=True)
child.start()
child.join(60)
assert child.exitcode == 0, child
assert queue.get() == amci.estimate(problem, y=1.0, theta=3.0, draws=4096).value.item()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_estimates_as_its_parent():
    # The number of threads that torch has by itself: one has nothing to wait for.
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", FORK], env=environment, check=True, timeout=110)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"workers": 0}, r"^workers: expected a whole number from 1 to 1,000"),
        ({"workers": 2, "dask": "tcp://127.0.0.1:1"}, r"^workers: expected None with dask="),
        ({"dask": "tcp://127.0.0.1:1"}, r"^dask: expected the address of a scheduler"),
    ],
)
def test_a_place_without_workers_is_refused(monkeypatch, where, message):
    monkeypatch.setattr(parallel, "CONNECT_SECONDS", 0.5)
    with pytest.raises(ValueError, match=message):
        list(run_tasks(abs, [1], **where))
