"""The cancer problem: its densities, its truth and what it refuses."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import amci_core as amci
from amci_core.models.cancer import Response, moments
from amci_core.models.tumour import LOG_REST, REST_RATE, sizes, trajectory

PROBLEM = amci.problem("cancer")
CASES = [(500.0, 400.0), (500.0, 900.0)]


def prior(n, dtype=torch.float64, seed=0):
    return PROBLEM.sample_prior(n, torch.Generator().manual_seed(seed)).to(dtype)


def test_densities_are_those_of_torch():
    x = prior(200)
    shapes = torch.tensor([25.0, 5.0, 10.0]).double()
    gamma = torch.distributions.Gamma(shapes[0], 1 / 20)
    beta = torch.distributions.Beta(shapes[1], shapes[2])
    expected = gamma.log_prob(x[:, 0]) + beta.log_prob(x[:, 1])
    np.testing.assert_allclose(PROBLEM.log_prior(x), expected, rtol=1e-12)

    c = torch.stack([x[:, 0], sizes(*x.unbind(-1))[0].exp()], -1)
    y = torch.tensor([[400.0, 300.0], [20.0, 1400.0], [900.0, 60.0]]).double()
    measurement = torch.distributions.Gamma(c**2 / 1e4, c / 1e4)
    expected = measurement.log_prob(y[:, None, :]).sum(-1)
    np.testing.assert_allclose(PROBLEM.log_likelihood(x, y[:, None, :]), expected, rtol=1e-10)


def test_f_is_the_papers_success_and_keeps_its_digits():
    x = prior(1000)
    f = PROBLEM.f(x, None)
    assert ((f > 0) & (f <= 1)).all()
    c100 = sizes(*x.unbind(-1))[1].exp()
    expected = (1 - 2e-8) / 2 * (torch.tanh(-(c100 - 300) / 150) + 1) + 1e-8
    np.testing.assert_allclose(f, expected, rtol=1e-7)
    assert (PROBLEM.f(x.float(), None) >= 1e-8 * (1 - 1e-6)).all()


def test_points_outside_the_support_have_no_density():
    outside = torch.tensor(
        [[-1e-9, 0.3], [-5.0, 0.3], [math.inf, 0.3], [500.0, -1e-9], [500.0, 1.1], [500.0, 2.0]]
    )
    y = torch.tensor([500.0, 400.0])
    assert (PROBLEM.log_joint(outside, y) == -torch.inf).all()
    assert torch.isfinite(PROBLEM.f(outside, None)).all()
    support = PROBLEM.support_plus(None)
    assert not support.check(torch.tensor([[-5.0, 0.3], [500.0, 2.0]])).all(-1).any()
    with pytest.raises(ValueError, match=r"c0: expected .* got nan"):
        PROBLEM.log_joint(torch.tensor([[math.nan, 0.3]]), y)


def test_draws_have_the_moments_of_the_model():
    n = 100_000
    x = prior(n)
    beta = stats.beta(5, 10)
    for value, mean, sd in ((x[:, 0], 500, 100), (x[:, 1], 1 / 3, beta.std())):
        assert abs(value.mean() - mean) < 4 * sd / math.sqrt(n)
        # A standard deviation has a standard error of about sd / sqrt(2 n); 1.1 covers the tails.
        assert abs(value.std() - sd) < 4 * 1.1 * sd / math.sqrt(2 * n)

    point = torch.tensor([600.0, 0.3])
    y = PROBLEM.sample_likelihood(point.expand(n, 2), torch.Generator().manual_seed(1)).double()
    c = trajectory(600.0, 0.3, [0.0, 5.0])
    assert (abs(y.mean(0).numpy() - c) < 4 * 100 / math.sqrt(n)).all()
    assert (abs(y.std(0).numpy() - 100) < 4 * 1.1 * 100 / math.sqrt(2 * n)).all()


@pytest.mark.parametrize("y", CASES)
def test_truth_agrees_with_an_independent_quadrature(y):
    # The trapezoidal rule, which converges fast here: everything vanishes at the ends.
    c0, epsilon = np.linspace(10, 1800, 300), np.linspace(0.001, 0.999, 300)
    grid = torch.cartesian_prod(torch.tensor(c0), torch.tensor(epsilon))
    log_c5, log_c100 = (u.numpy() for u in sizes(*grid.unbind(-1)))
    a, b = grid.numpy().T
    c5, c100 = np.exp(log_c5), np.exp(log_c100)
    w = stats.gamma(25, scale=20).pdf(a) * stats.beta(5, 10).pdf(b)
    for c, value in ((a, y[0]), (c5, y[1])):
        w *= stats.gamma.pdf(value, c**2 / 1e4, scale=1e4 / c)
    f = (1 - 2e-8) / (1 + np.exp((c100 - 300) / 75)) + 1e-8
    w /= w.sum()
    mu = (w * f).sum()
    assert float(PROBLEM.truth(y)) == pytest.approx(mu, rel=1e-5)
    deviation = (w * abs(f - mu)).sum()
    assert float(PROBLEM.mean_absolute_deviation(y)) == pytest.approx(deviation, rel=1e-2)
    mismatch = (w * f * np.log(f / mu)).sum() / mu
    assert float(PROBLEM.mismatch(y)) == pytest.approx(mismatch, rel=1e-5)


def test_the_quadrature_has_converged_where_the_control_reaches():
    axis = torch.tensor([1.0, 50.0, 500.0, 1500.0, 3000.0, 5000.0]).double()
    y = torch.cartesian_prod(axis, axis)[::5]
    expected = moments(y, refinement=2)[1:]
    np.testing.assert_allclose(PROBLEM.log_truth(y)[0], expected[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(PROBLEM.mean_absolute_deviation(y), expected[1], rtol=1e-2)
    np.testing.assert_allclose(PROBLEM.mismatch(y), expected[2], rtol=0, atol=2e-5)


@pytest.mark.parametrize("c0", [100.0, 500.0, 1500.0])
def test_the_path_moves_the_second_measurement_to_the_level_asked_for(c0):
    low, high = PROBLEM.mismatch_range((c0, 300.0))
    for level in (low + 0.2 * (high - low), low + 0.9 * (high - low)):
        y, theta = PROBLEM.at_mismatch(level, (c0, 300.0))
        assert theta is None
        assert y[0] == c0
        assert float(PROBLEM.mismatch(y)) == pytest.approx(level, abs=1e-6)
    assert float(PROBLEM.mismatch(PROBLEM.at_mismatch(100.0, (c0, 300.0))[0])) == high


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_responses_stay_inside_with_finite_densities(dtype):
    u = torch.tensor([-1e3, -60.0, 0.0, 30.0, 1e3], dtype=dtype)
    x = Response()(u)
    log_det = Response().log_abs_det_jacobian(u, x)
    assert ((x > 0) & (x < 1)).all()
    assert torch.isfinite(log_det).all()


def test_tumours_come_to_rest_at_the_size_that_the_coordinate_uses():
    for epsilon in (0.3, 0.5, 0.8):
        last = trajectory(500.0, epsilon, np.array([1.0, 2000.0]))[-1]
        assert last == pytest.approx(math.exp(LOG_REST - REST_RATE * epsilon), rel=1e-5)
