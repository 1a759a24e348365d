"""Nested sampling by dynesty: right in tails, from starts that are too narrow, and on plateaus."""

import numpy as np
import pytest
import torch
from normals import Normal, normal_above, normal_term
from scipy.special import log_ndtr
from torch.distributions import constraints

from amci_core.term_methods import Integrand, Nested
from amci_core.term_methods.nested import BatchingPool

SMALL = Nested(live=100, pilot=200)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_a_normal_from_another(dim):
    integrand = normal_term(mean=1.0, scale=0.5, dim=dim, log_size=-700.0)
    found = SMALL(integrand, Normal(dim=dim), seed=0)
    assert abs(found.log_value + 700) < 4 * found.standard_error
    assert 0 < found.standard_error < 0.25
    assert found.draws == integrand.evaluations


def test_errors_are_those_of_the_runs():
    # More points at a time than the few live ones are useful for would mostly be thrown away.
    few = Nested(live=50, pilot=50, batch=16)
    runs = [few(normal_term(mean=1.0, dim=2), Normal(dim=2), seed=seed) for seed in range(20)]
    z = np.array([run.log_value / run.standard_error for run in runs])
    # The mean of 20 is known to 0.22, their standard deviation to 0.16.
    assert abs(z.mean()) < 0.9
    assert 0.4 < z.std() < 1.6


@pytest.mark.parametrize("bound", [0.0, 12.0])
def test_the_tail_of_a_normal_leaves_no_plateau(bound):
    found = Nested(live=200)(normal_above(bound), Normal(bound + 1, 2.0), seed=0)
    assert abs(found.log_value - log_ndtr(-bound)) < 4 * found.standard_error
    assert found.standard_error < 0.15


def test_a_start_that_is_far_too_narrow_costs_no_accuracy():
    found = SMALL(normal_term(mean=3.0), Normal(scale=0.1), seed=0)
    assert abs(found.log_value) < 4 * found.standard_error


def test_an_indicator_within_the_support_is_a_plateau_that_is_got_through():
    above = normal_above(1.0)
    integrand = Integrand(1, above.log_value, constraints.real)
    found = Nested(live=200)(integrand, Normal(), seed=0)
    assert abs(found.log_value - log_ndtr(-1.0)) < 4 * found.standard_error


def test_two_modes_are_both_found():
    far = [Normal(-5.0, 0.5, 2), Normal(5.0, 0.5, 2)]
    integrand = Integrand(
        2, lambda x: torch.logaddexp(*(mode.log_prob(x) for mode in far)), constraints.real
    )
    found = SMALL(integrand, Normal(0.0, 5.0, 2), seed=0)
    assert abs(found.log_value - np.log(2)) < 4 * found.standard_error


def test_a_seed_gives_the_same_estimate_and_leaves_the_global_generators_alone():
    torch_state = torch.random.get_rng_state()
    numpy_state = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
    first, again, other = (
        Nested(live=50)(normal_term(mean=1.0), Normal(), seed=seed) for seed in (3, 3, 4)
    )
    assert first == again
    assert first.log_value != other.log_value
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    assert (np.random.get_state(legacy=False)["state"]["key"] == numpy_state).all()  # noqa: NPY002


def test_a_start_outside_the_support_is_refused():
    with pytest.raises(ValueError, match=r"start: expected a density that draws within .* got 0"):
        SMALL(normal_above(100.0), Normal(), seed=0)


@pytest.mark.filterwarnings("ignore:All the initial likelihood", "ignore:We have reached the plat")
def test_an_integrand_that_no_point_meets_is_zero_with_an_unknown_error():
    nowhere = Integrand(1, lambda x: torch.full(x.shape[:-1], -torch.inf), constraints.real)
    found = Nested(live=50)(nowhere, Normal(), seed=0)
    assert found.log_value == -np.inf
    assert np.isnan(found.standard_error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"live": 5}, "live: expected a whole number from 50"),
        ({"pilot": 5}, "pilot: expected a whole number from 50"),
        ({"batch": 0}, "batch: expected a whole number from 1"),
        ({"remaining": 0.0}, r"remaining: expected a share in \(0, 1\], got 0.0"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Nested(**arguments)


def test_tasks_of_different_lengths_share_calls():
    calls = []

    def double(points):
        calls.append(len(points))
        return 2 * points[:, 0]

    def task(n):
        return [pool.value(np.array([float(n + k)])) for k in range(n)]

    lengths = [3, 1, 0, 5, 2, 4, 1, 3]
    with BatchingPool(double, size=4) as pool:
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

    with BatchingPool(count, size=8) as pool:
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

    with BatchingPool(fails, size=3) as pool, pytest.raises(ValueError, match="integrand: no"):
        pool.map(lambda n: pool.value(np.array([float(n)])), range(10))
    with BatchingPool(lambda points: points[:, 0], size=3) as pool, pytest.raises(KeyError):
        pool.map(breaks, range(10))
