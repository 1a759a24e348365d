"""Integrands that are refused, what counts as an estimate, and the mean of weights."""

import math

import numpy as np
import pytest
import torch
from normals import Normal, normal_term
from torch.distributions import constraints

from amci_core.term_methods import METHODS, Importance, Integrand, TermEstimate, method
from amci_core.term_methods.base import Coordinates, StudentDensity, log_mean

SUPPORTS = {
    "line": constraints.real,
    "above": constraints.greater_than(torch.tensor([3.0, -1.0], dtype=torch.float64)),
    "below": constraints.less_than(2.0),
    "square": constraints.unit_interval,
    "half-strip": constraints.stack([constraints.positive, constraints.unit_interval], dim=-1),
}


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


@pytest.mark.parametrize("support", SUPPORTS.values(), ids=SUPPORTS)
def test_points_lie_in_the_support_with_their_determinant(support):
    coordinates = Coordinates(support)
    z = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x, log_det = coordinates.points(z)
    assert support.check(x).all()
    torch.testing.assert_close(coordinates.inverse(x), (z, torch.ones(50, dtype=torch.bool)))
    for i in range(len(z)):
        jacobian = torch.autograd.functional.jacobian(
            lambda row: coordinates.points(row[None])[0][0], z[i]
        )
        torch.testing.assert_close(log_det[i], jacobian.det().abs().log())


def test_a_support_without_a_bijection_is_refused():
    with pytest.raises(ValueError, match=r"support: expected one that .*biject_to knows"):
        Coordinates(constraints.integer_interval(0, 3))


@pytest.mark.parametrize("support", SUPPORTS.values(), ids=SUPPORTS)
def test_a_students_density_of_a_support_is_normalised_and_lies_within_it(support):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(500, 2, dtype=torch.float64, generator=generator)
    x, _ = Coordinates(support).points(z)
    density = StudentDensity.fitted(support, x)
    points, log_q = density.draw(20_000, generator)
    assert support.check(points).all()
    torch.testing.assert_close(density.log_prob(points), log_q, rtol=1e-9, atol=1e-6)
    # The integral of a normal density of z, from draws of the other.
    other = StudentDensity.fitted(support, x, -z.square().sum(-1))
    w = (other.log_prob(points) - log_q).exp()
    assert float(w.mean()) == pytest.approx(1, abs=4 * float(w.std()) / math.sqrt(len(w)))


def test_importance_sampling_from_the_integrand_has_no_variance():
    integrand = normal_term(mean=1.0, dim=3, log_size=-700.0)
    found = Importance(size=10)(integrand, Normal(1.0, dim=3), seed=0)
    assert found.log_value == pytest.approx(-700.0, abs=1e-12)
    assert found.standard_error < 1e-14
    assert found.draws == integrand.evaluations == 10


def test_the_standard_error_of_importance_sampling_is_that_of_the_runs():
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
