"""The broad density of a problem: normalized, drawn as it says, and positive on every term."""

import math

import numpy as np
import pytest
import torch

import amci_core as amci
from amci_core.models import DefensiveDensity, problems

N = 20_000
CASES = {
    "tail-1d": ([[1.0], [-2.0]], [[3.0], [0.5]]),
    "gain-loss": ([[1.0], [-1.0]], [[0.4], [2.0]]),
    "peak": (None, [[0.3, 0.7, 1.0], [0.5, 0.5, 0.1]]),
    "cancer": ([[600.0, 250.0]], None),
    **{
        f"tail-{dim}d": ([[0.5] * dim, [0.0] * dim], [[1.0] * dim, [0.1] * dim])
        for dim in (2, 5, 10, 20)
    },
}
SUBSETS = {
    **dict.fromkeys(CASES, ("E1_plus", "E2")),
    "gain-loss": ("E1_plus", "E1_minus", "E2"),
    "peak": ("E1_plus",),
}


def generator():
    return torch.Generator().manual_seed(1)


def reference(name, terms=None):
    problem = amci.problem(name)
    return problem, DefensiveDensity(problem, *problem.check(*CASES[name]), terms)


@pytest.mark.parametrize("name", ["tail-1d", "gain-loss"])
@pytest.mark.parametrize("terms", [None, ("E1_plus",), ("E2",)])
def test_the_density_integrates_to_one_on_the_line(name, terms):
    _, density = reference(name, terms)
    x = torch.linspace(-40, 60, 500_001, dtype=torch.float64)[:, None]
    mass = torch.trapezoid(density.log_prob(x).exp(), x.squeeze(-1))
    # The density jumps at theta, by 3 at most: the rule errs there by half a cell's mass.
    assert mass.numpy() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", list(CASES))
def test_draws_are_from_the_density(name):
    """E_h[g / h] = 1 for any normalized g inside the support: here for each part alone."""
    _, density = reference(name)
    x, log_q = density.draw(N, generator())
    torch.testing.assert_close(log_q, density.log_prob(x))
    for term in density.terms:
        _, part = reference(name, (term,))
        weights = (part.log_prob(x) - log_q).exp()
        # The mixture bounds them.
        assert weights.max() <= len(density.terms) * (1 + 1e-9)
        error = weights.std(-1) / math.sqrt(N)
        # Stratified draws err less than that; a single part not at all.
        assert ((weights.mean(-1) - 1).abs() <= 5 * error + 1e-12).all()


@pytest.mark.parametrize("name", list(CASES))
def test_terms_shapes_and_types(name):
    problem, density = reference(name)
    assert density.terms == SUBSETS[name]
    batch = density.batch_shape
    x, log_q = density.draw(7, generator())
    assert x.shape == (*batch, 7, problem.x.dim)
    assert log_q.shape == (*batch, 7)
    assert x.dtype == log_q.dtype == torch.float64
    y, theta = problem.check(*CASES[name])
    single = DefensiveDensity(problem, y[0], None if theta is None else theta[0])
    assert single.batch_shape == ()
    assert single.draw(3, generator())[0].shape == (3, problem.x.dim)


def test_it_estimates_both_sides_of_a_signed_term():
    problem, density = reference("gain-loss")
    y, theta = problem.check(*CASES["gain-loss"])
    x, log_q = density.draw(N, generator())
    exact = problem.log_terms(y, theta)
    for f, name in zip(problem.f_parts(x, theta), ("E1_plus", "E1_minus"), strict=True):
        values = f * (problem.log_joint(x, y) - log_q).exp()
        error = values.std(-1).numpy() / math.sqrt(N)
        assert np.all(abs(values.mean(-1).numpy() - np.exp(exact[name])) < 4 * error)


def test_any_number_of_first_draws_is_stratified():
    _, density = reference("tail-1d")
    x, _ = density.draw(31, generator())
    # Draws for E1_plus lie above theta = 3 in the first case, those for E2 hardly ever.
    assert (x[0, 0::2] > 3).all()
    assert (x[0, 1::2] < 3).sum() >= 13


def test_every_problem_is_covered():
    assert set(CASES) == set(problems())
