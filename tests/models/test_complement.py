"""The complement of a bounded f: M - f in its place."""

import numpy as np
import pytest
import torch

import amci_core as amci


def generator():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("name", ["tail-1d", "tail-5d", "peak", "cancer"])
def test_f_and_its_complement_add_up_to_the_bound(name):
    problem = amci.problem(name)
    other = problem.complement()
    _, theta = other.check(*other.sample_cases(20, generator()))
    x = problem.sample_prior(20, generator()).double()
    total = problem.f(x, theta) + other.f(x, theta)
    torch.testing.assert_close(total, torch.full_like(total, problem.f_max))
    torch.testing.assert_close(other.complement().f(x, theta), problem.f(x, theta))


def test_only_an_f_that_is_known_to_be_bounded_has_a_bound():
    targets = {"x1 ** 2": None, "x1 - theta": None, "abs(x1) > theta": 1}
    tail = amci.problem("tail-1d")
    assert {f: amci.with_target(tail, f).f_max for f in targets} == targets


@pytest.mark.parametrize("name", ["tail-1d", "tail-5d"])
def test_the_tails_know_a_density_that_is_nearly_optimal(name):
    problem = amci.problem(name)
    other, dim, n = problem.complement(), problem.x.dim, 20_000
    y, theta = other.check(*other.sample_cases(8, generator()))
    x, log_q = other.sample_defensive(y, theta, n, generator())
    assert not (x > theta[:, None]).all(-1).any()
    # (1 - f) p(x | y) over it lies within a factor D, and its mean is one less mu.
    w = (problem.posterior(y).log_prob(x) - log_q).exp()
    assert (w.amax(-1) < (dim + 1e-9) * w.amin(-1)).all()
    rest = torch.as_tensor(1 - problem.truth(y, theta))
    error = w.std(-1) / n**0.5 + 1e-4 * rest + 1e-15
    assert (abs(w.mean(-1) - rest) < 4 * error).all()


def test_an_estimate_of_the_shipped_proposals_keeps_its_interval_below_one():
    case = [[4.0], [6.0], [8.0]], 0.0
    e, truth = (
        amci.estimate("tail-1d", None, *case, draws=256),
        amci.problem("tail-1d").truth(*case),
    )
    low, high = e.interval(0.999)
    assert ((low < truth) & (truth < high) & (high < 1)).all()
    np.testing.assert_array_less(e.standard_error, 0.1 * (1 - truth))
    assert "E1_complement" in e.diagnostics
