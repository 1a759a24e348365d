"""Nested sampling by dynesty: right in tails, from starts that are too narrow, and on plateaus."""

import numpy as np
import pytest
import torch
from normals import Normal, normal_above, normal_term
from scipy.special import log_ndtr
from torch.distributions import constraints

from amci_core.term_methods import Integrand, Nested

SMALL = Nested(live=200, pilot=200)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_a_normal_from_another(dim):
    integrand = normal_term(mean=2.0, scale=0.5, dim=dim, log_size=-700.0)
    found = SMALL(integrand, Normal(dim=dim), seed=0)
    assert abs(found.log_value + 700) < 4 * found.standard_error
    assert 0 < found.standard_error < 0.25
    assert found.draws == integrand.evaluations


def test_errors_are_those_of_the_runs():
    runs = [
        Nested(live=50, pilot=50)(normal_term(mean=1.0, dim=2), Normal(dim=2), seed=seed)
        for seed in range(20)
    ]
    z = np.array([run.log_value / run.standard_error for run in runs])
    # The mean of 20 is known to 0.22, their standard deviation to 0.16.
    assert abs(z.mean()) < 0.9
    assert 0.4 < z.std() < 1.6


@pytest.mark.parametrize("bound", [0.0, 12.0])
def test_the_tail_of_a_normal_leaves_no_plateau(bound):
    found = SMALL(normal_above(bound), Normal(bound + 1, 2.0), seed=0)
    assert abs(found.log_value - log_ndtr(-bound)) < 4 * found.standard_error
    assert found.standard_error < 0.15


def test_a_start_that_is_far_too_narrow_costs_no_accuracy():
    found = SMALL(normal_term(mean=3.0), Normal(scale=0.1), seed=0)
    assert abs(found.log_value) < 4 * found.standard_error


def test_an_indicator_within_the_support_is_a_plateau_that_is_got_through():
    above = normal_above(1.0)
    integrand = Integrand(1, above.log_value, constraints.real)
    found = Nested(live=500)(integrand, Normal(), seed=0)
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"live": 5}, "live: expected a whole number from 50"),
        ({"pilot": 5}, "pilot: expected a whole number from 50"),
        ({"together": 0}, "together: expected a whole number from 1"),
        ({"remaining": 0.0}, r"remaining: expected a share in \(0, 1\], got 0.0"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Nested(**arguments)
