"""The cancer problem: its densities, its truth and what it refuses."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import amci_core as amci
from amci_core.models.cancer import LOG_REST, REST_RATE, Response, moments, sizes, trajectory

PROBLEM = amci.problem("cancer")
SIZE, RESPONSE = stats.gamma(25, scale=20), stats.beta(5, 10)


def prior(n):
    return PROBLEM.sample_prior(n, torch.Generator().manual_seed(0)).double()


def measurement(c):
    """A size with noise: a gamma distribution of mean c and standard deviation 100."""
    return stats.gamma(c**2 / 1e4, scale=1e4 / c)


def success(c100):
    return (1 - 2e-8) / 2 * (np.tanh(-(c100 - 300) / 150) + 1) + 1e-8


def test_densities_and_f_are_the_papers():
    x = prior(1000)
    a, b = x.numpy().T
    log_prior = SIZE.logpdf(a) + RESPONSE.logpdf(b)
    np.testing.assert_allclose(PROBLEM.log_prior(x), log_prior, rtol=1e-10)
    c5, c100 = (u.exp().numpy() for u in sizes(*x.unbind(-1)))
    np.testing.assert_allclose(PROBLEM.f(x, None), success(c100), rtol=1e-7)
    assert (PROBLEM.f(x.float(), None) >= 1e-8 * (1 - 1e-6)).all()
    for y in ([400.0, 300.0], [20.0, 1400.0], [900.0, 60.0]):
        expected = measurement(a).logpdf(y[0]) + measurement(c5).logpdf(y[1])
        log_likelihood = PROBLEM.log_likelihood(x, torch.tensor(y).double())
        np.testing.assert_allclose(log_likelihood, expected, rtol=1e-9)


def test_points_outside_the_support_have_no_density():
    outside = torch.tensor(
        [[-1e-9, 0.3], [-5.0, 0.3], [math.inf, 0.3], [500.0, -1e-9], [500.0, 1.1], [500.0, 2.0]]
    )
    y = torch.tensor([500.0, 400.0])
    assert (PROBLEM.log_joint(outside, y) == -torch.inf).all()
    assert torch.isfinite(PROBLEM.f(outside, None)).all()
    assert PROBLEM.log_joint(torch.tensor([[math.nan, 0.3]]), y).isnan().all()


def test_draws_follow_the_model():
    n = 100_000
    point = torch.tensor([600.0, 0.3]).expand(n, 2)
    y = PROBLEM.sample_likelihood(point, torch.Generator().manual_seed(1))
    draws = torch.cat([prior(n), y], -1).T.numpy()
    laws = SIZE, RESPONSE, *map(measurement, trajectory(600.0, 0.3, [0.0, 5.0]))
    for values, law in zip(draws, laws, strict=True):
        # Kolmogorov's distance exceeds 2 / sqrt(n) with probability 7e-4.
        assert stats.kstest(values, law.cdf).statistic < 2 / math.sqrt(n)


@pytest.mark.parametrize("y", [(500.0, 400.0), (500.0, 900.0)])
def test_truth_bound_and_mismatch_agree_with_an_independent_quadrature(y):
    # The trapezoidal rule, which converges fast here: everything vanishes at the ends.
    grid = torch.cartesian_prod(torch.linspace(10, 1800, 300), torch.linspace(0.001, 0.999, 300))
    (a, b), c5_c100 = grid.double().numpy().T, sizes(*grid.double().unbind(-1))
    c5, c100 = (u.exp().numpy() for u in c5_c100)
    w = SIZE.pdf(a) * RESPONSE.pdf(b) * measurement(a).pdf(y[0]) * measurement(c5).pdf(y[1])
    cell = 1790 * 0.998 / 299**2
    assert float(PROBLEM.log_terms(y)["E2"]) == pytest.approx(math.log(w.sum() * cell), abs=1e-6)
    w, f = w / w.sum(), success(c100)
    mu = w @ f
    assert float(PROBLEM.truth(y)) == pytest.approx(mu, rel=1e-5)
    assert float(PROBLEM.mean_absolute_deviation(y)) == pytest.approx(w @ abs(f - mu), rel=1e-2)
    assert float(PROBLEM.mismatch(y)) == pytest.approx(w @ (f * np.log(f / mu)) / mu, rel=1e-5)


def test_the_quadrature_has_converged_where_the_control_reaches():
    axis = torch.tensor([1.0, 50.0, 500.0, 1500.0, 3000.0, 5000.0]).double()
    y = torch.cartesian_prod(axis, axis)[::5]
    expected = moments(y, refinement=2)[1:]
    np.testing.assert_allclose(PROBLEM.log_truth(y)[0], expected[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(PROBLEM.mean_absolute_deviation(y), expected[1], rtol=1e-2)
    np.testing.assert_allclose(PROBLEM.mismatch(y), expected[2], rtol=0, atol=2e-5)


def test_the_path_moves_the_second_measurement_to_the_level_asked_for():
    low, high = PROBLEM.mismatch_range((1500.0, 300.0))
    for level in (low + 0.2 * (high - low), low + 0.9 * (high - low), 100.0):
        y, theta = PROBLEM.at_mismatch(level, (1500.0, 300.0))
        assert (y[0], theta) == (1500.0, None)
        assert float(PROBLEM.mismatch(y)) == pytest.approx(min(level, high), abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_responses_stay_inside_with_finite_densities(dtype):
    u = torch.tensor([-1e3, -60.0, 0.0, 30.0, 1e3], dtype=dtype)
    x = Response()(u)
    assert ((x > 0) & (x < 1)).all()
    assert torch.isfinite(Response().log_abs_det_jacobian(u, x)).all()


def test_tumours_come_to_rest_at_the_size_that_the_coordinate_uses():
    epsilon = np.array([0.3, 0.5, 0.8])
    last = trajectory(500.0, epsilon, np.array([1.0, 2000.0]))[..., -1]
    assert last == pytest.approx(np.exp(LOG_REST - REST_RATE * epsilon), rel=1e-5)
