"""The exact optimal proposals: draws follow their densities, which are the optimal ones."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import cumulative_trapezoid

import amci_core as amci

TAIL, FIVE, GAIN, PEAK = map(amci.problem, ("tail-1d", "tail-5d", "gain-loss", "peak"))
N = 10_000


def drawn(problem, name, y, theta):
    """The optimal proposal and its draws, whose density is checked to be the optimal one."""
    case = problem.check(y, theta)
    density = problem.optimal_proposals()[name](*case)
    x, log_q = density.draw(N, torch.Generator().manual_seed(0))
    torch.testing.assert_close(density.log_prob(x), log_q, rtol=1e-10, atol=1e-10)
    # q1 = f_plus p(x, y) / E1_plus, q2 = p(x, y) / E2.
    f_plus, f_minus = problem.f_parts(x, case[1])
    factor, term = {
        "q1_plus": (f_plus, "E1_plus"),
        "q1_minus": (f_minus, "E1_minus"),
        "q2": (torch.ones_like(f_plus), "E2"),
    }[name]
    expected = factor.log() + problem.log_joint(x, case[0])
    expected -= torch.as_tensor(problem.log_terms(*case)[term])[..., None]
    torch.testing.assert_close(log_q, expected, rtol=1e-8, atol=1e-8)
    return density, x


@pytest.mark.parametrize(
    ("problem", "name", "y", "theta"),
    [
        *[(TAIL, "q1_plus", y, t) for y, t in ((1.0, 3.0), (3.0, 0.1), (-8.0, 5.0), (8.0, 0.0))],
        (TAIL, "q2", 3.0, 0.1),
        *[(GAIN, f"q1_{s}", *at) for s in ("plus", "minus") for at in ((1.0, 0.4), (-4.0, 2.0))],
        (GAIN, "q2", 6.0, -3.0),
    ],
)
def test_draws_on_the_line_follow_the_optimal_density(problem, name, y, theta):
    density, x = drawn(problem, name, y, theta)
    grid = np.linspace(float(x.min()) - 3, float(x.max()) + 3, 200_001)
    q = density.log_prob(torch.from_numpy(grid)[:, None]).exp().numpy()
    below = cumulative_trapezoid(q, grid, initial=0)
    # Where q jumps, by 20 at most, the rule errs by half a cell's mass.
    assert below[-1] == pytest.approx(1, abs=1e-3)
    # Kolmogorov's distance exceeds 2 / sqrt(n) with probability 7e-4.
    values = np.interp(x.flatten(), grid, below)
    assert stats.kstest(values, "uniform").statistic < 2 / np.sqrt(N) + 1e-3


def test_draws_of_the_posterior_in_five_dimensions_have_its_moments():
    y, theta = FIVE.cases(3, seed=0)
    _, x = drawn(FIVE, "q2", y, theta)
    assert x.shape == (3, N, 5)
    mean, covariance = y @ FIVE.posterior_covariance, torch.tensor(FIVE.posterior_covariance)
    # Var(s_ij) = (c_ii c_jj + c_ij^2) / n for a normal's sample covariance.
    variance = covariance.diag()
    error = ((torch.outer(variance, variance) + covariance.square()) / N).sqrt()
    for points, centre in zip(x, torch.from_numpy(mean), strict=True):
        assert ((points.T.cov() - covariance).abs() < 4 * error).all()
        assert ((points.mean(0) - centre).abs() < 4 * (variance / N).sqrt()).all()


def test_draws_of_the_truncated_cauchy_follow_it():
    density, x = drawn(PEAK, "q1_plus", None, (0.2, 0.9, 0.8))
    for values, centre in zip(x.T.numpy(), (0.2, 0.9), strict=True):
        cauchy = stats.cauchy(centre, 1 / 100**0.8)
        low, high = cauchy.cdf([0, 1])
        assert stats.kstest((cauchy.cdf(values) - low) / (high - low), "uniform").pvalue > 1e-3
    assert (density.log_prob(torch.tensor([[0.5, 1.5]])) == -torch.inf).all()
