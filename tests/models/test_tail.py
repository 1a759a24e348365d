"""The tail problems: their truth, their densities and their cases."""

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

import amci_core as amci
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


def test_the_posterior_in_five_dimensions_is_prior_times_likelihood():
    y, x = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    precision = np.linalg.inv(FIVE.prior_covariance) + np.eye(5)
    posterior = stats.multivariate_normal(np.linalg.solve(precision, y), np.linalg.inv(precision))
    evidence = stats.multivariate_normal(np.zeros(5), FIVE.prior_covariance + np.eye(5))
    log_posterior = FIVE.log_prior(x) + FIVE.log_likelihood(x, y) - evidence.logpdf(y)
    assert float(log_posterior) == pytest.approx(posterior.logpdf(x), rel=1e-12)
    theta = torch.ones(5).double()
    assert float(FIVE.log_terms(y, theta)["E2"]) == pytest.approx(evidence.logpdf(y), rel=1e-12)
