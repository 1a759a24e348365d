"""Integrands that are refused, what counts as an estimate, and the mean of weights."""

import math

import numpy as np
import pytest
import torch
from normals import normal_term
from torch.distributions import constraints

from amci_core.term_methods import METHODS, Integrand, TermEstimate, method
from amci_core.term_methods.base import log_mean


def test_an_integrand_counts_its_points_and_is_zero_where_x_has_overflowed():
    integrand = normal_term(dim=2)
    x = torch.tensor([[0.0, 0.0], [torch.inf, 0.0], [1.0, 1.0]], dtype=torch.float64)
    value = integrand(x)
    assert value[1] == -torch.inf
    assert float(value[0] - value[2]) == pytest.approx(1.0)
    assert integrand.evaluations == 3


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_integrand_that_is_no_number_is_refused_with_the_point(bad):
    integrand = Integrand(1, lambda x: torch.full(x.shape[:-1], bad), constraints.real)
    with pytest.raises(ValueError, match=rf"integrand: .* got {bad:g} at x = \[0\.5\]"):
        integrand(torch.tensor([[0.5]]))


def test_the_mean_of_weights_and_its_error_on_any_scale():
    w = np.random.default_rng(0).gamma(2.0, size=1000)
    expected = math.log(w.mean()), w.std(ddof=1) / w.mean() / math.sqrt(1000)
    for size in (-900.0, 0.0, 900.0):
        log_value, error = log_mean(torch.from_numpy(np.log(w) + size))
        assert log_value == pytest.approx(expected[0] + size, abs=1e-12)
        assert error == pytest.approx(expected[1], rel=1e-9)


def test_weights_that_are_all_zero_say_nothing_of_their_error():
    log_value, error = log_mean(torch.full((10,), -torch.inf))
    assert log_value == -math.inf
    assert math.isnan(error)


@pytest.mark.parametrize(
    "result", [(math.nan, 0.1, 1), (math.inf, 0.1, 1), (0.0, -0.1, 1), (0.0, math.inf, 1)]
)
def test_what_is_no_estimate_is_refused(result):
    with pytest.raises(ValueError, match="E2: expected a log value below infinity"):
        TermEstimate(*result).check("E2")
    with pytest.raises(ValueError, match=r"E2: expected a whole number of draws, got 1\.5"):
        TermEstimate(0.0, 0.1, 1.5).check("E2")


def test_methods_have_names_and_any_callable_is_one():
    assert set(METHODS) == {"importance", "annealed", "nested"}
    assert method("annealed") is METHODS["annealed"]
    assert method(len) is len
    for wrong in ("anealed", 3, None):
        with pytest.raises(ValueError, match="one of importance, annealed, nested, got"):
            method(wrong)
