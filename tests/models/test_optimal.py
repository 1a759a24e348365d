"""The exact optimal proposals: draws follow their densities, which are the optimal ones."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import amci_core as amci

PROBLEM = amci.problem("tail-1d")
GAIN = amci.problem("gain-loss")
CASES = [(1.0, 3.0), (3.0, 0.1), (-8.0, 5.0), (8.0, 0.0)]


def density(name, y, theta):
    return PROBLEM.optimal_proposals()[name](*PROBLEM.check(y, theta))


def expected_density(name, y, theta):
    scale = np.sqrt(0.5)
    if name == "q2":
        return stats.norm(y / 2, scale)
    return stats.truncnorm((theta - y / 2) / scale, np.inf, y / 2, scale)


@pytest.mark.parametrize("name", ["q1_plus", "q2"])
@pytest.mark.parametrize(("y", "theta"), CASES)
def test_draws_and_densities_are_those_of_the_posterior(name, y, theta):
    n = 10_000
    x, log_q = density(name, y, theta).draw(n, torch.Generator().manual_seed(0))
    assert x.shape == (n, 1)
    expected = expected_density(name, y, theta)
    points = x[:, 0].numpy()
    np.testing.assert_allclose(log_q, expected.logpdf(points), rtol=1e-10, atol=1e-10)
    # Kolmogorov's distance exceeds 2 / sqrt(n) with probability 7e-4.
    assert stats.kstest(points, expected.cdf).statistic < 2 / np.sqrt(n)


def test_the_posterior_in_five_dimensions_is_exact():
    problem = amci.problem("tail-5d")
    y, theta = problem.cases(3, seed=0)
    n = 20_000
    density = problem.optimal_proposals()["q2"](*problem.check(y, theta))
    x, log_q = density.draw(n, torch.Generator().manual_seed(0))
    assert x.shape == (3, n, 5)
    covariance = torch.tensor(problem.posterior_covariance)
    mean = problem.posterior_mean(torch.tensor(y))
    expected = torch.distributions.MultivariateNormal(mean[:, None], covariance).log_prob(x)
    torch.testing.assert_close(log_q, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(density.log_prob(x), expected, rtol=1e-12, atol=1e-12)
    # Var(s_ij) = (c_ii c_jj + c_ij^2) / n for a normal's sample covariance.
    variance = covariance.diag()
    error = ((torch.outer(variance, variance) + covariance.square()) / n).sqrt()
    for i in range(3):
        assert ((x[i].T.cov() - covariance).abs() < 4 * error).all()
        assert ((x[i].mean(0) - mean[i]).abs() < 4 * (variance / n).sqrt()).all()


@pytest.mark.parametrize("name", ["q1_plus", "q1_minus"])
@pytest.mark.parametrize(("y", "theta"), [(1.0, 0.4), (-4.0, 2.0), (6.0, -3.0)])
def test_weighted_posteriors_are_drawn_as_their_density_says(name, y, theta):
    proposal = getattr(amci.load_proposals("gain-loss", variant="oracle"), name)
    density = proposal(*GAIN.check(y, theta))

    def cumulative(x):
        def q(t):
            return float(density.log_prob(torch.tensor([[t]], dtype=torch.float64)).exp())

        low, high = (theta, x) if name == "q1_plus" else (x, theta)
        mass = integrate.quad(q, low, high, limit=200)[0]
        return mass if name == "q1_plus" else 1 - mass

    assert cumulative(theta + 12 if name == "q1_plus" else theta - 12) == pytest.approx(
        1.0 if name == "q1_plus" else 0.0, abs=1e-8
    )
    x, log_q = density.draw(400, torch.Generator().manual_seed(0))
    torch.testing.assert_close(density.log_prob(x), log_q)
    values = np.array([cumulative(float(t)) for t in x.flatten()])
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_the_truncated_cauchy_is_drawn_as_its_density_says():
    proposal = amci.load_proposals("peak", variant="oracle").q1_plus
    theta = torch.tensor([0.2, 0.9, 0.8], dtype=torch.float64)
    density = proposal(theta[:0], theta)
    x, log_q = density.draw(4000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(density.log_prob(x), log_q)
    sharpness = 100**0.8
    for d, centre in enumerate((0.2, 0.9)):
        cauchy = stats.cauchy(centre, 1 / sharpness)
        low, high = cauchy.cdf([0, 1])
        values = (cauchy.cdf(x[:, d].numpy()) - low) / (high - low)
        assert stats.kstest(values, "uniform").pvalue > 1e-3
    assert (density.log_prob(torch.tensor([[0.5, 1.5]])) == -torch.inf).all()
