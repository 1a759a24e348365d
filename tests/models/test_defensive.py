"""The broad density of a problem: normalized, drawn as it says, and positive on every term."""

import math

import pytest
import torch

import amci_core as amci
from amci_core.models import DefensiveDensity, problems

N = 20_000
TERMS = {"gain-loss": ("E1_plus", "E1_minus", "E2"), "peak": ("E1_plus",)}
# Where the two densities lie far apart.
FAR = {
    "tail-1d": ([[1.0], [3.0], [-8.0], [8.0]], [[3.0], [0.1], [5.0], [0.0]]),
    "tail-5d": ([[3.0] * 5, [-3.0, 3.0, 0.0, 1.0, -1.0]], [[0.1] * 5, [0.5, 2.0, 1.0, 0.0, 3.0]]),
}


def generator():
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize("name", problems())
def test_draws_are_from_the_density_of_all_terms(name):
    """E_h[g / h] = 1 for any normalized g inside the support: here for each part alone."""
    problem = amci.problem(name)
    y, theta = problem.check(*problem.cases(2, seed=0))
    density = DefensiveDensity(problem, y, theta)
    assert density.terms == TERMS.get(name, ("E1_plus", "E2"))
    x, log_q = density.draw(N, generator())
    assert x.shape == (2, N, problem.x.dim)
    assert x.dtype == log_q.dtype == torch.float64
    torch.testing.assert_close(log_q, density.log_prob(x))
    for term in density.terms:
        part = DefensiveDensity(problem, y, theta, (term,))
        weights = (part.log_prob(x) - log_q).exp()
        # The mixture bounds them.
        assert weights.max() <= len(density.terms) * (1 + 1e-9)
        error = weights.std(-1) / math.sqrt(N)
        # Stratified draws err less than that; a single part not at all.
        assert ((weights.mean(-1) - 1).abs() <= 5 * error + 1e-12).all()
    single = DefensiveDensity(problem, y[0], None if theta is None else theta[0])
    assert single.draw(3, generator())[0].shape == (3, problem.x.dim)


@pytest.mark.parametrize("name", [*problems(), "minus gain-loss"])
def test_draws_for_f_estimate_its_integral(name):
    problem = amci.problem(name.removeprefix("minus "))
    if name.startswith("minus"):
        problem = problem.with_negated_f()
    y, theta = problem.check(*FAR.get(name, problem.cases(2, seed=0)))
    x, log_q = problem.sample_defensive(y, theta, N, generator())
    torch.testing.assert_close(problem.log_defensive(x, y, theta), log_q)
    f, _ = problem.f_parts(x, theta)
    assert (f > 0).all()
    log_E1 = torch.as_tensor(problem.log_terms(y, theta)["E1_plus"])[..., None]
    weights = (f.log() + problem.log_joint(x, y) - log_q - log_E1).exp()
    assert ((weights.mean(-1) - 1).abs() < 5 * weights.std(-1) / math.sqrt(N)).all()


@pytest.mark.parametrize("name", ["tail-1d", "tail-2d", "gain-loss", "peak", "cancer"])
def test_training_draws_are_weighted_by_f_and_the_prior(name):
    problem, n, source = amci.problem(name), 100_000, generator()
    x, theta, log_r = problem.sample_training(n, source)
    values = problem.f(problem.sample_prior(n, source), problem.sample_theta(n, source))
    weights, values = log_r.double().exp(), values.clamp(min=0).double()
    error = math.hypot(weights.std(), values.std()) / math.sqrt(n)
    assert abs(weights.mean() - values.mean()) < 4 * error
    assert (problem.f(x, theta) > 0).all()


def test_any_number_of_first_draws_is_stratified():
    tail = amci.problem("tail-1d")
    case = tail.check(1.0, 3.0)
    x, _ = DefensiveDensity(tail, *case).draw(31, generator())
    # Draws for E1_plus lie above theta = 3, those for E2 hardly ever.
    assert (x[0::2] > 3).all()
    assert (x[1::2] < 3).sum() >= 13
    no_f = torch.tensor([[3.0], [2.0]], dtype=torch.float64)
    assert (tail.log_defensive(no_f, *case) == -torch.inf).all()
