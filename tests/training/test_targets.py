"""Where theta and x come from: chains and importance draws agree, and agree with closed forms."""

import math

import pytest
import torch
from scipy import integrate, stats

from amci_core.models import problem, problems
from amci_core.training.targets import markov_chain


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def coordinates(x, theta):
    return (x if theta is None else torch.cat([theta, x], -1)).double()


def chain_mean(values):
    """Mean and its standard error for states of 1000 walkers; each walker's mean is one batch.

    Walkers move along lines to each other, of which there are so many that they count as
    independent.
    """
    means = values.reshape(-1, 1000, values.shape[-1]).mean(0)
    return means.mean(0), means.std(0) / math.sqrt(1000)


def weighted_mean(values, log_r):
    weight = torch.softmax(log_r.double(), 0)[:, None]
    mean = (weight * values).sum(0)
    return mean, (weight * (values - mean)).square().sum(0).sqrt()


@pytest.mark.parametrize("name", ["tail-2d", "gain-loss", "peak", "cancer"])
def test_the_chain_and_importance_draws_have_the_same_moments(name):
    chosen = problem(name)
    x, theta, log_r = markov_chain(chosen, 4000, seeded())
    chain = coordinates(x, theta)
    x, theta, log_weight = chosen.sample_training(100_000, seeded(1))
    draws = coordinates(x, theta)
    unit = draws.std(0)
    for power in (1, 2):
        mean, error = chain_mean((chain / unit) ** power)
        expected, own = weighted_mean((draws / unit) ** power, log_weight)
        assert (abs(mean - expected) < 5 * (error.square() + own.square()).sqrt()).all()
        assert (error < 0.05 * ((draws / unit) ** power).std(0)).all()
    assert (log_r == 0).all()


def test_the_chain_s_x_in_one_dimension_follows_its_closed_form():
    # g(theta, x) prop. to N(x; 0, 1) on 0 < theta < x, theta < 5: x has density x N(x) up to 5,
    # the mean of theta given x is x / 2.
    x, theta, _ = markov_chain(problem("tail-1d"), 20_000, seeded(2))
    assert (x > theta).all()

    def density(t):
        return min(t, 5.0) * stats.norm.pdf(t)

    mass = integrate.quad(density, 0, 12)[0]
    exact = integrate.quad(lambda t: t * density(t), 0, 12)[0] / mass
    mean, error = chain_mean(torch.cat([x, theta, x < 1], -1).double())
    expected = [exact, exact / 2, integrate.quad(density, 0, 1)[0] / mass]
    assert (abs(mean - torch.tensor(expected)) < 4 * error).all()
    assert error.max() < 0.02


@pytest.mark.parametrize("name", [name for name in problems() if problem(name).theta])
def test_theta_is_uniform_on_its_range_as_the_chain_takes_it_to_be(name):
    chosen = problem(name)
    theta = chosen.sample_theta(50_000, seeded())
    low, high = chosen.theta.low, chosen.theta.high
    for column in ((theta - low) / (high - low)).double().T.numpy():
        assert stats.kstest(column, "uniform").pvalue > 1e-3
