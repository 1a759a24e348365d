"""The tail problems: their truth, their cases, and probabilities of Gaussian orthants."""

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import log_ndtr

import amci_core as amci
from amci_core.models.gaussian import log_orthant
from amci_core.models.tail import GaussianTail

PROBLEM, FIVE = amci.problem("tail-1d"), amci.problem("tail-5d")


@np.vectorize
def exact_log_mu(y, theta):
    # mu = 1 - Phi(a) with a = sqrt(2) (theta - y / 2), and 1 - Phi(a) = erfc(a / sqrt(2)) / 2.
    with mpmath.workdps(50):
        return float(mpmath.log(mpmath.erfc(mpmath.mpf(theta) - mpmath.mpf(y) / 2) / 2))


def test_truth_bound_and_mismatch_are_right_to_twelve_digits():
    case = np.linspace(-8, 8, 17)[:, None, None], np.linspace(0, 5, 11)[:, None]
    log_mu = exact_log_mu(*case)[..., 0]
    np.testing.assert_allclose(PROBLEM.log_truth(*case)[0], log_mu, rtol=1e-12)
    np.testing.assert_allclose(PROBLEM.truth(*case), np.exp(log_mu), rtol=1e-12)
    # For an indicator E|f - mu| = 2 mu (1 - mu), and the divergence of p(x | y, f = 1) is -log mu.
    deviation = PROBLEM.mean_absolute_deviation(*case)
    np.testing.assert_allclose(deviation, -2 * np.exp(log_mu) * np.expm1(log_mu), rtol=1e-11)
    np.testing.assert_allclose(PROBLEM.mismatch(*case), -log_mu, rtol=1e-12)
    assert PROBLEM.truth_error(1.0, 3.0) == 0


def test_the_bound_knows_a_mu_that_no_float_holds():
    tail, y, theta = GaussianTail(20), np.full(20, -12.0), np.full(20, 3.0)
    log_mu, _ = tail.log_truth(y, theta)
    assert log_mu < -750
    assert tail.log_mean_absolute_deviation(y, theta) == pytest.approx(np.log(2) + log_mu)


def test_cases_come_from_the_model():
    n = 20_000
    y, theta = PROBLEM.cases(n, seed=0)
    assert y.shape == theta.shape == (n, 1)
    # Kolmogorov's distance exceeds 2 / sqrt(n) with probability 7e-4.
    assert stats.kstest(y[:, 0], stats.norm(0, np.sqrt(2)).cdf).statistic < 2 / np.sqrt(n)
    assert stats.kstest(theta[:, 0], stats.uniform(0, 5).cdf).statistic < 2 / np.sqrt(n)
    assert abs(np.corrcoef(y[:, 0], theta[:, 0])[0, 1]) < 4 / np.sqrt(n)


def test_cases_depend_on_the_seed_alone():
    first = PROBLEM.cases(5, seed=3)
    torch.set_default_dtype(torch.float64)
    try:
        second = PROBLEM.cases(5, seed=3)
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_equal(first, second)
    assert (PROBLEM.cases(5, seed=4)[0] != first[0]).all()


def test_five_dimensions_have_the_papers_prior():
    printed = [
        [1.2449, 0.2068, 0.1635, 0.1148, 0.0604],
        [0.2068, 1.2087, 0.1650, 0.1158, 0.0609],
        [0.1635, 0.1650, 1.1665, 0.1169, 0.0615],
        [0.1148, 0.1158, 0.1169, 1.1179, 0.0620],
        [0.0604, 0.0609, 0.0615, 0.0620, 1.0625],
    ]
    np.testing.assert_allclose(FIVE.prior_covariance, printed, atol=5.1e-5)


@pytest.mark.parametrize(("dim", "seed"), [(2, 0), (2, 1), (3, 1), (4, 2)])
def test_moderate_probabilities_are_those_of_scipys_cdf(dim, seed):
    rng = np.random.default_rng(seed)
    mean, lower = rng.normal(size=dim), rng.normal(size=dim) - 0.5
    factor = rng.normal(size=(dim, dim + 2))
    covariance = factor @ factor.T / dim
    log_probability, error = log_orthant(mean, covariance, lower)
    # Pr(x > lower) = Pr(-x < -lower).
    precision = {"abseps": 1e-6, "releps": 1e-6, "rng": np.random.default_rng(0)}
    expected = stats.multivariate_normal.cdf(-lower, -mean, covariance, **precision)
    assert error < 2e-3
    assert abs(np.exp(log_probability) / expected - 1) < 5 * error + 1e-5 / expected


@pytest.mark.parametrize("distance", [0.0, 5.0, 34.9, 36.0, 200.0])
def test_independent_coordinates_multiply_even_far_in_the_tail(distance):
    variance = np.array([0.5, 1.0, 2.0, 0.1])
    mean = np.array([0.3, -0.2, 0.0, 1.0])
    lower = mean + distance * np.sqrt(variance) * np.array([1.0, 0.9, 1.1, 0.5])
    log_probability, error = log_orthant(mean, np.diag(variance), lower)
    expected = log_ndtr((mean - lower) / np.sqrt(variance)).sum()
    # The logarithm's rounding, relative to its size.
    assert log_probability == pytest.approx(expected, rel=1e-13, abs=1e-12)
    assert error < 1e-12


@pytest.mark.parametrize("dim", [5, 10])
def test_the_tail_problems_truth_is_right_to_a_ten_thousandth_and_its_error_honest(dim):
    problem = GaussianTail(dim)
    y, theta = problem.cases(8, seed=1)
    covariance = problem.posterior_covariance
    log_mu, error = problem.log_truth(y, theta)[0], problem.truth_error(y, theta)
    better, better_error = log_orthant(y @ covariance, covariance, theta, points=2**17, seed=7)
    difference = np.abs(np.expm1(log_mu - better))
    assert (difference < 1e-4).all()
    assert (difference < 5 * np.hypot(error, better_error)).all()
    assert (error < (1e-4 if dim == 5 else 1e-3)).all()
