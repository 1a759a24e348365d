"""Probabilities of Gaussian orthants, against formulas and against a quadrature."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr

from amci_core.models.gaussian import log_orthant
from amci_core.models.tail import GaussianTail


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
