"""Tasks give the same numbers wherever they are done, and survive workers that die."""

import os
import signal

import pytest
import torch
from schedulers import dask_cluster
from sent import awkward, deadly, noise, slow, truth_of

from amci_core.tasks import Pool, Where, run_tasks

ITEMS = list(range(12))


def in_order(done):
    return sorted(done, key=lambda each: each.item)


def same_numbers_at(where):
    shared = torch.tensor(1 / 3)
    here = list(run_tasks(noise, shared, ITEMS))
    assert [done.item for done in here] == ITEMS
    there = in_order(run_tasks(noise, shared, ITEMS, where))
    assert [done.failure for done in there] == [None] * len(ITEMS)
    return [done.value for done in there] == [done.value for done in here]


def test_processes_find_the_numbers_of_this_process():
    assert same_numbers_at(Where(workers=2))


@pytest.mark.slow
def test_dasks_workers_find_the_numbers_of_this_process(tmp_path):
    with dask_cluster(tmp_path) as (address, _):
        assert same_numbers_at(Where(dask=address))


@pytest.mark.parametrize(
    "where", [Where(), pytest.param(Where(workers=2), marks=pytest.mark.slow)]
)
def test_a_task_that_fails_is_named_and_the_others_go_on(where):
    found = in_order(run_tasks(awkward, 3, ITEMS, where))
    assert [done.value for done in found] == [None if i == 3 else i for i in ITEMS]
    assert [done.failure for done in found if done.failure] == ["ArithmeticError: no result for 3"]


@pytest.mark.slow
def test_a_task_that_kills_its_process_is_named_and_the_others_go_on():
    found = in_order(run_tasks(deadly, 3, ITEMS, Where(workers=2)))
    assert [done.value for done in found] == [None if i == 3 else i for i in ITEMS]
    assert found[3].failure == "its process died: killed, or out of memory"


@pytest.mark.slow
def test_a_process_that_is_killed_costs_no_task():
    pool = Pool(Where(workers=2))
    found = []
    for done in pool.run(slow, 0.05, ITEMS):
        found.append(done)
        if len(found) == 3:
            os.kill(done.value[1], signal.SIGKILL)
    pool.close()
    assert [done.value[0] for done in in_order(found)] == ITEMS


@pytest.mark.slow
def test_a_dask_worker_that_is_killed_costs_no_task(tmp_path):
    with dask_cluster(tmp_path) as (address, workers):
        found = []
        for done in run_tasks(slow, 0.1, ITEMS, Where(dask=address)):
            found.append(done)
            if len(found) == 4:
                workers[0].kill()
    assert [done.value[0] for done in in_order(found)] == ITEMS
    assert all(done.failure is None for done in found)


def test_a_class_from_a_file_reaches_a_worker_that_has_not_the_file(tmp_path):
    from amci_core.models.loading import load_problem

    (tmp_path / "mine.py").write_text(MINE)
    problem = load_problem(str(tmp_path / "mine.py"))
    (tmp_path / "mine.py").unlink()
    (done,) = run_tasks(truth_of, problem, [1.5], Where(workers=1))
    assert (done.failure, done.value) == (None, 3.0)


MINE = """
import math
import torch
from torch.distributions import Normal
from amci_core.models import LineProblem, Variable


class Mine(LineProblem):
    name = "mine"
    title = "Mine"
    description = "?"
    formula = "x"
    nonnegative = False
    x = Variable("x", 1, -math.inf, math.inf, "x", typical_range=(-3.0, 3.0))
    y = Variable("y", 1, -6.0, 6.0, "y", typical_range=(-3.0, 3.0))
    theta = None

    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x).sum(-1)

    def log_likelihood(self, x, y):
        return Normal(x, 1.0).log_prob(y).sum(-1)

    def f(self, x, theta):
        return x.squeeze(-1)

    def sample_prior(self, n, generator):
        return torch.randn(n, 1, generator=generator)

    def sample_likelihood(self, x, generator):
        return x + torch.randn(x.shape, generator=generator)
"""
