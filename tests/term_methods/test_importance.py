"""Importance sampling of a term: exact with the exact density, honest with another."""

import math

import numpy as np
import pytest
from normals import Normal, normal_term

from amci_core.term_methods import Importance


def test_one_that_starts_at_the_integrand_has_no_variance():
    integrand = normal_term(mean=1.0, dim=3, log_size=-700.0)
    found = Importance(size=10)(integrand, Normal(1.0, dim=3), seed=0)
    assert found.log_value == pytest.approx(-700.0, abs=1e-12)
    assert found.standard_error < 1e-14
    assert found.draws == integrand.evaluations == 10


def test_the_standard_error_is_that_of_the_runs():
    # w = N(0, 1) / N(0, 1.5^2) has variance 1.5 / sqrt(2 - 1 / 1.5^2) - 1.
    runs = [Importance(size=1000)(normal_term(), Normal(scale=1.5), seed=s) for s in range(400)]
    expected = math.sqrt((1.5 / math.sqrt(2 - 1 / 2.25) - 1) * 1.5 / 1.5 / 1000)
    log_values = np.array([run.log_value for run in runs])
    # A standard deviation of 400 runs is known to 3.5 %.
    assert log_values.std() == pytest.approx(expected, rel=0.14)
    assert np.mean([run.standard_error for run in runs]) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("size", [0, 1, 2.5, True, 10**9])
def test_sizes_are_checked(size):
    with pytest.raises(ValueError, match="size: expected a whole number from 2"):
        Importance(size=size)
