"""Threads that share calls: same values, few calls, and errors that reach the caller."""

import numpy as np
import pytest

from amci_core.term_methods.together import Together


def test_tasks_of_different_lengths_share_calls():
    calls = []

    def double(points):
        calls.append(len(points))
        return 2 * points[:, 0]

    def task(n):
        return [pool.value(np.array([float(n + k)])) for k in range(n)]

    lengths = [3, 1, 0, 5, 2, 4, 1, 3]
    with Together(double, size=4) as pool:
        found = pool.map(task, lengths)
        assert found == [[2.0 * (n + k) for k in range(n)] for n in lengths]
        assert sum(calls) == sum(lengths)
        assert max(calls) == 4
        assert pool.value(np.array([7.0])) == 14.0


def test_a_full_pool_is_called_once_a_round():
    calls = []

    def count(points):
        calls.append(len(points))
        return points[:, 0]

    with Together(count, size=8) as pool:
        for _ in range(20):
            pool.map(lambda n: pool.value(np.array([float(n)])), range(8))
    assert calls == [8] * 20


def test_errors_of_the_function_and_of_a_task_reach_the_caller():
    def fails(points):
        raise ValueError("integrand: no")

    def breaks(n):
        if n == 3:
            raise KeyError(n)
        return pool.value(np.array([float(n)]))

    with Together(fails, size=3) as pool, pytest.raises(ValueError, match="integrand: no"):
        pool.map(lambda n: pool.value(np.array([float(n)])), range(10))
    with Together(lambda points: points[:, 0], size=3) as pool, pytest.raises(KeyError):
        pool.map(breaks, range(10))
