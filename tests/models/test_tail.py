"""The tail problems: their truth, their densities and the arguments that they refuse."""

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate, stats

import amci_core as amci
from amci_core.models.tail import GaussianTail

PROBLEM = amci.problem("tail-1d")
CORNERS = [(1.0, 3.0), (3.0, 0.1), (-8.0, 5.0), (8.0, 0.0), (0.0, 0.0)]


def exact_mu(y: float, theta: float) -> mpmath.mpf:
    # mu = 1 - Phi(a) with a = sqrt(2) (theta - y / 2), and 1 - Phi(a) = erfc(a / sqrt(2)) / 2.
    with mpmath.workdps(50):
        return mpmath.erfc(mpmath.mpf(theta) - mpmath.mpf(y) / 2) / 2


def test_truth_is_right_to_twelve_digits():
    y = np.linspace(-8, 8, 33)[:, None, None]
    theta = np.linspace(0, 5, 21)[:, None]
    expected = np.vectorize(lambda a, b: float(exact_mu(a, b)))(y[..., 0], theta[..., 0])
    np.testing.assert_allclose(PROBLEM.truth(y, theta), expected, rtol=1e-12)
    expected_log = np.vectorize(lambda a, b: float(mpmath.log(exact_mu(a, b))))
    log_mu = expected_log(y[..., 0], theta[..., 0])
    np.testing.assert_allclose(PROBLEM.log_truth(y, theta)[0], log_mu, rtol=1e-12)


@pytest.mark.parametrize(("y", "theta"), CORNERS)
def test_expected_deviation_is_that_of_an_indicator(y, theta):
    mu = exact_mu(y, theta)
    expected = float(mu * abs(1 - mu) + (1 - mu) * abs(0 - mu))
    assert float(PROBLEM.mean_absolute_deviation(y, theta)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("y", "theta"), [(1.0, 3.0), (3.0, 0.1), (-4.0, 5.0)])
def test_mismatch_is_the_divergence_between_the_optimal_proposals(y, theta):
    posterior = stats.norm(y / 2, np.sqrt(0.5))

    def integrand(x):
        log_g = posterior.logpdf(x) - posterior.logsf(theta)
        return np.exp(log_g) * (log_g - posterior.logpdf(x))

    divergence, _ = integrate.quad(integrand, theta, max(theta, y / 2) + 8, epsabs=1e-12)
    assert float(PROBLEM.mismatch(y, theta)) == pytest.approx(divergence, rel=1e-8)


def test_the_mismatch_control_stays_within_the_range_of_theta():
    assert PROBLEM.at_mismatch(0.0, 0.0, 1.0)[1] == 0.0
    assert PROBLEM.at_mismatch(1e4, 0.0, 1.0)[1] == 5.0
    with pytest.raises(ValueError, match=r"level: expected .* got"):
        PROBLEM.at_mismatch(-1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"^y: expected a single case"):
        PROBLEM.at_mismatch(1.0, [[1.0], [2.0]], 1.0)


def test_cases_come_from_the_model():
    n = 20_000
    y, theta = PROBLEM.cases(n, seed=0)
    assert theta is not None
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


@pytest.mark.parametrize(
    ("y", "theta", "message"),
    [
        (8.1, 1.0, r"y: expected .* within \[-8, 8\], got 8.1"),
        (1.0, -0.1, r"theta: expected .* within \[0, 5\], got -0.1"),
        (float("nan"), 1.0, r"y: expected .* got nan"),
        (np.zeros((0, 1)), 1.0, r"y: expected .* got shape \(0, 1\)"),
        (np.zeros((2, 1)), np.ones((3, 1)), r"y and theta: .* \(2,\) and \(3,\) do not broadcast"),
        (1.0, None, r"theta: tail-1d needs it .* within \[0, 5\]"),
        (None, 1.0, r"y: tail-1d needs it .* within \[-8, 8\]"),
        ("one", 1.0, r"y: expected .* got 'one'"),
    ],
)
def test_bad_arguments_are_named(y, theta, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        PROBLEM.truth(y, theta)


def test_bad_numbers_of_cases_and_seeds_are_named():
    with pytest.raises(ValueError, match=r"^n: expected a whole number"):
        PROBLEM.cases(0, seed=0)
    with pytest.raises(ValueError, match=r"^seed: expected a whole number"):
        PROBLEM.cases(3, seed=-1)


def test_an_unknown_problem_is_named():
    assert "tail-1d" in amci.problems()
    with pytest.raises(ValueError, match=r"^problem: expected one of .*tail-1d.* got 'tail-3d'"):
        amci.problem("tail-3d")


FIVE = GaussianTail(5)


def test_five_dimensions_have_the_papers_prior():
    printed = [
        [1.2449, 0.2068, 0.1635, 0.1148, 0.0604],
        [0.2068, 1.2087, 0.1650, 0.1158, 0.0609],
        [0.1635, 0.1650, 1.1665, 0.1169, 0.0615],
        [0.1148, 0.1158, 0.1169, 1.1179, 0.0620],
        [0.0604, 0.0609, 0.0615, 0.0620, 1.0625],
    ]
    np.testing.assert_allclose(FIVE.prior_covariance, printed, atol=5.1e-5)
    assert FIVE.name == "tail-5d"


def test_the_posterior_in_five_dimensions_is_prior_times_likelihood():
    y, x = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    precision = np.linalg.inv(FIVE.prior_covariance) + np.eye(5)
    np.testing.assert_allclose(FIVE.posterior_covariance, np.linalg.inv(precision), atol=1e-14)
    mean = FIVE.posterior_mean(y)
    np.testing.assert_allclose(mean, np.linalg.solve(precision, y), rtol=1e-12)
    expected = stats.multivariate_normal(mean, FIVE.posterior_covariance).logpdf(x)
    evidence = stats.multivariate_normal(np.zeros(5), FIVE.prior_covariance + np.eye(5))
    log_posterior = FIVE.log_prior(x) + FIVE.log_likelihood(x, y) - evidence.logpdf(y)
    assert float(log_posterior) == pytest.approx(expected, rel=1e-12)


def test_the_error_of_the_truth_is_small_and_zero_in_one_dimension():
    y, theta = FIVE.cases(20, seed=0)
    assert FIVE.truth_error(y, theta).shape == (20,)
    assert (FIVE.truth_error(y, theta) < 1e-4).all()
    assert GaussianTail(1).truth_error(1.0, 3.0) == 0


@pytest.mark.parametrize("y", [(1.0,) * 5, (-2.0,) * 5, (3.0, 1.0, -1.0, 2.0, 0.0)])
@pytest.mark.parametrize("t", [0.3, 1.5, 2.9])
def test_the_mismatch_control_follows_the_diagonal_of_thetas(y, t):
    level = float(FIVE.mismatch(y, (t,) * 5))
    start = (1.0, 2.0, 0.0, 3.0, 0.5)
    assert FIVE.at_mismatch(level, y, start)[1] == pytest.approx([t] * 5, abs=2e-6)
    assert FIVE.at_mismatch(0.0, y, start)[1] == pytest.approx([0.0] * 5)
    assert FIVE.at_mismatch(1e4, y, start)[1] == pytest.approx([3.0] * 5)


def test_the_bound_knows_a_mu_that_no_float_holds():
    tail, y, theta = GaussianTail(20), np.full(20, -12.0), np.full(20, 3.0)
    log_mu, _ = tail.log_truth(y, theta)
    assert log_mu < -750
    # 2 mu (1 - mu), and mu is nothing beside 1.
    assert tail.log_mean_absolute_deviation(y, theta) == pytest.approx(np.log(2) + log_mu)
