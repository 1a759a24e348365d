"""The exact optimal proposals of the tail problem."""

import numpy as np
import pytest
import torch
from scipy import stats

import amci_core as amci
from amci_core.flows.exact import PosteriorNormal, TruncatedPosterior

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
