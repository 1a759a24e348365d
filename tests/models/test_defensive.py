"""The broad density of a problem: normalized, drawn as it says, and positive on every term."""

import math

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


TAILS = {
    "tail-1d": [(1.0, 3.0), (3.0, 0.1), (-8.0, 5.0), (8.0, 0.0), (0.0, 0.0)],
    "tail-5d": [
        ((3.0,) * 5, (0.1,) * 5),
        ((-3.0, 3.0, 0.0, 1.0, -1.0), (0.5, 2.0, 1.0, 0.0, 3.0)),
    ],
}


@pytest.mark.parametrize("name", list(CASES))
def test_draws_for_f_estimate_its_integral(name):
    problem = amci.problem(name)
    cases = [(problem, CASES[name]), *((problem, case) for case in TAILS.get(name, ()))]
    if not problem.nonnegative:
        cases.append((problem.with_negated_f(), CASES[name]))
    for problem, case in cases:
        y, theta = problem.check(*case)
        x, log_q = problem.sample_defensive(y, theta, N, generator())
        torch.testing.assert_close(problem.log_defensive(x, y, theta), log_q)
        f, _ = problem.f_parts(x, theta)
        assert (f > 0).all()
        log_E1 = torch.as_tensor(problem.log_terms(y, theta)["E1_plus"])[..., None]
        weights = (f.log() + problem.log_joint(x, y) - log_q - log_E1).exp()
        assert ((weights.mean(-1) - 1).abs() < 5 * weights.std(-1) / math.sqrt(N)).all()


def test_no_density_lies_where_f_is_zero():
    problem, x = amci.problem("tail-1d"), torch.tensor([[3.0], [2.0]], dtype=torch.float64)
    assert (problem.log_defensive(x, *problem.check(1.0, 3.0)) == -torch.inf).all()


@pytest.mark.parametrize("name", ["tail-1d", "tail-2d", "gain-loss", "peak", "cancer"])
def test_training_draws_are_weighted_by_f_and_the_prior(name):
    problem, n, source = amci.problem(name), 200_000, generator()
    x, theta, log_r = problem.sample_training(n, source)
    values = problem.f(problem.sample_prior(n, source), problem.sample_theta(n, source))
    weights, values = log_r.double().exp(), values.clamp(min=0).double()
    error = math.hypot(weights.std(), values.std()) / math.sqrt(n)
    assert abs(weights.mean() - values.mean()) < 4 * error
    assert (problem.f(x, theta) > 0).all()


def test_any_number_of_first_draws_is_stratified():
    _, density = reference("tail-1d")
    x, _ = density.draw(31, generator())
    # Draws for E1_plus lie above theta = 3 in the first case, those for E2 hardly ever.
    assert (x[0, 0::2] > 3).all()
    assert (x[0, 1::2] < 3).sum() >= 13


def test_every_problem_is_covered():
    assert set(CASES) == set(problems())
