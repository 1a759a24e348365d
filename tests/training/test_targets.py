"""Where theta and x come from: chains, importance draws and particles follow closed forms."""

import math

import pytest
import torch
from scipy import stats
from scipy.stats import norm
from torch.distributions import Normal

import amci_core as amci
from amci_core.models import Problem, Variable, problem, problems
from amci_core.training.particles import smc
from amci_core.training.targets import TARGETS, markov_chain


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", ["tail-2d", "gain-loss", "peak", "cancer"])
def test_the_chain_and_importance_draws_have_the_same_moments(name):
    chosen = problem(name)
    *moved, log_r = markov_chain(chosen, 4000, seeded())
    *drawn, log_weight = chosen.sample_training(100_000, seeded(1))
    chain, draws = (
        torch.cat([v for v in values if v is not None], -1).double() for values in (moved, drawn)
    )
    weight = torch.softmax(log_weight.double(), 0)[:, None]
    for power in (1, 2):
        # Walkers move along lines to each other, of which there are so many that the means of the
        # 1000 count as independent.
        means, values = (chain**power).reshape(-1, 1000, chain.shape[-1]).mean(0), draws**power
        error, expected = means.std(0) / math.sqrt(1000), (weight * values).sum(0)
        own = (weight * (values - expected)).square().sum(0).sqrt()
        assert (abs(means.mean(0) - expected) < 5 * torch.hypot(error, own)).all()
        assert (error < 0.05 * values.std(0)).all()
    assert (log_r == 0).all()


@pytest.mark.parametrize("name", [name for name in problems() if problem(name).theta])
def test_theta_is_uniform_on_its_range_as_the_chain_takes_it_to_be(name):
    chosen = problem(name)
    theta = chosen.sample_theta(50_000, seeded())
    low, high = chosen.theta.low, chosen.theta.high
    for column in ((theta - low) / (high - low)).double().T.numpy():
        assert stats.kstest(column, "uniform").pvalue > 1e-3


CASES, PARTICLES = 64, 128


def particles(problem, name, theta, y=None):
    """Particles on x of cases at given theta (cases, D_theta)."""
    target = TARGETS[name](problem)
    y = torch.empty(len(theta), 0) if y is None else y
    return smc(target, y, theta, PARTICLES, torch.Generator().manual_seed(0))[0]


class Above(Problem):
    """All coordinates above theta, of standard normal ones; nothing says where f lies."""

    name, nonnegative, y = "above", True, None
    theta = Variable("theta", 1, 0.0, 4.0, "a bound")

    def __init__(self, dim):
        self.x = Variable("x", dim, -math.inf, math.inf, "a point")

    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x).sum(-1)

    def sample_prior(self, n, generator):
        return torch.randn(n, self.x.dim, generator=generator)

    def f(self, x, theta):
        return (x > theta).all(-1).to(x.dtype)


class Beside(Above):
    """Either side of theta: two modes."""

    name = "beside"

    def f(self, x, theta):
        return (x.abs() > theta).all(-1).to(x.dtype)


def batch_mean(values):
    """The mean over cases of their particles' means, and its standard error."""
    means = values.double().mean(1)
    return float(means.mean()), float(means.std() / math.sqrt(len(means)))


# Of so many draws of the prior not one lies within the last two: 1e-3 and 2e-9.
@pytest.mark.parametrize(("dim", "bound"), [(1, 1.0), (1, 3.1), (6, 1.8)])
def test_particles_follow_a_truncated_normal(dim, bound):
    theta = torch.linspace(0.0, bound, CASES)[:, None]
    found = particles(Above(dim), "q1_plus", theta)
    assert found.missed == 0
    assert (found.x > found.theta[:, None]).all()
    at = found.theta[:, 0].double().numpy()
    expected = torch.tensor(norm.pdf(at) / norm.sf(at))
    mean, error = batch_mean(found.x.mean(-1) - expected[:, None].float())
    # Neighbours pass particles on, so that cases are not independent where the prior has none.
    assert abs(mean) < 5 * error * math.sqrt(dim)
    assert error < 0.02


def test_modes_are_kept_in_every_case():
    # From 1.5 up a case has a seventh of the prior's draws and less: 4e-4 of them at 3.5.
    found = particles(Beside(1), "q1_plus", torch.linspace(1.5, 3.5, CASES)[:, None])
    right = (found.x > 0).double().mean((1, 2))
    assert found.missed == 0
    assert right.min() > 0.1
    assert right.max() < 0.9
    assert abs(right.mean() - 0.5) < 5 * right.std() / math.sqrt(CASES)


def test_the_posterior_s_particles_have_its_moments():
    tail = amci.problem("tail-1d")
    y = torch.linspace(-3.0, 3.0, CASES)[:, None]
    found = particles(tail, "q2", torch.ones(CASES, 1), y)
    # The posterior is N(y / 2, 1 / 2).
    z = (found.x[..., 0] - found.y / 2) * math.sqrt(2)
    for power, expected in ((1, 0.0), (2, 1.0)):
        mean, error = batch_mean(z**power)
        assert abs(mean - expected) < 5 * error
        assert error < 0.03
