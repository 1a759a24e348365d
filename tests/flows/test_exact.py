"""The exact optimal proposals of the tail problems."""

import numpy as np
import pytest
import torch
from scipy import stats

import amci_core as amci
from amci_core.flows.exact import PosteriorNormal, TruncatedPosterior
from amci_core.models.tail import tail_5d

PROBLEM = amci.problem("tail-1d")
CASES = [(1.0, 3.0), (3.0, 0.1), (-8.0, 5.0), (8.0, 0.0)]


def density(kind, y, theta):
    return kind(PROBLEM)(*PROBLEM.check(y, theta))


def reference(kind, y, theta):
    scale = np.sqrt(0.5)
    if kind is PosteriorNormal:
        return stats.norm(y / 2, scale)
    return stats.truncnorm((theta - y / 2) / scale, np.inf, y / 2, scale)


@pytest.mark.parametrize("kind", [PosteriorNormal, TruncatedPosterior])
@pytest.mark.parametrize(("y", "theta"), CASES)
def test_draws_and_densities_are_those_of_the_posterior(kind, y, theta):
    n = 10_000
    x, log_q = density(kind, y, theta).draw(n, torch.Generator().manual_seed(0))
    assert x.shape == (n, 1)
    expected = reference(kind, y, theta)
    points = x[:, 0].numpy()
    np.testing.assert_allclose(log_q, expected.logpdf(points), rtol=1e-10, atol=1e-10)
    # Kolmogorov's distance exceeds 2 / sqrt(n) with probability 7e-4.
    assert stats.kstest(points, expected.cdf).statistic < 2 / np.sqrt(n)


def test_the_truncated_posterior_lives_above_theta():
    y, theta = np.meshgrid(np.linspace(-8, 8, 9), np.linspace(0, 5, 6))
    q1 = density(TruncatedPosterior, y[..., None], theta[..., None])
    x, log_q = q1.draw(1000, torch.Generator().manual_seed(0))
    assert x.shape == (6, 9, 1000, 1)
    bound = torch.as_tensor(theta)[..., None, None]
    assert (x > bound).all()
    assert torch.isfinite(log_q).all()
    assert (q1.log_prob(bound) == -torch.inf).all()


def test_the_posterior_in_five_dimensions_is_exact():
    problem = tail_5d()
    y, theta = problem.cases(3, seed=0)
    n = 20_000
    x, log_q = PosteriorNormal(problem)(*problem.check(y, theta)).draw(
        n, torch.Generator().manual_seed(0)
    )
    assert x.shape == (3, n, 5)
    covariance = torch.tensor(problem.posterior_covariance)
    mean = problem.posterior_mean(torch.tensor(y))
    expected = torch.distributions.MultivariateNormal(mean[:, None], covariance).log_prob(x)
    torch.testing.assert_close(log_q, expected, rtol=1e-12, atol=1e-12)
    density = PosteriorNormal(problem)(*problem.check(y, theta))
    torch.testing.assert_close(density.log_prob(x), expected, rtol=1e-12, atol=1e-12)
    # Var(s_ij) = (c_ii c_jj + c_ij^2) / n for a normal's sample covariance.
    variance = covariance.diag()
    error = ((torch.outer(variance, variance) + covariance.square()) / n).sqrt()
    for i in range(3):
        assert ((x[i].T.cov() - covariance).abs() < 4 * error).all()
        assert ((x[i].mean(0) - mean[i]).abs() < 4 * (variance / n).sqrt()).all()


def test_the_truncated_posterior_has_no_closed_form_in_five_dimensions():
    with pytest.raises(ValueError, match=r"^problem: expected one in one dimension, got tail-5d"):
        TruncatedPosterior(tail_5d())
