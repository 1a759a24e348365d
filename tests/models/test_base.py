"""What every problem tells of its terms and its support, against quadrature."""

import math

import numpy as np
import pytest
import torch
from hidden import KNOWLEDGE, hidden

import amci_core as amci
from amci_core.models import Problem
from amci_core.models.tail import GaussianTail


def quadrature(name, edges):
    """Nodes x (n, D) and weights (n) of a product of Gauss-Legendre rules, a panel a stretch."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    rules = []
    for cuts in edges:
        half = np.diff(cuts)[:, None] / 2
        x = np.asarray(cuts)[:-1, None] + half * (nodes + 1)
        rules.append((x.ravel(), (half * weights).ravel()))
    x = np.stack([g.ravel() for g in np.meshgrid(*(r[0] for r in rules), indexing="ij")], -1)
    w = np.prod(np.meshgrid(*(r[1] for r in rules), indexing="ij"), axis=0).ravel()
    return torch.from_numpy(x), w


@pytest.mark.parametrize(
    ("name", "at", "edges"),
    [
        ("tail-1d", (1.0, 1.5), [(-9, 0, 1.5, 3, 10)]),
        ("tail-1d", (-2.0, 3.0), [(-9, 0, 3.0, 5, 10)]),
        ("gain-loss", (1.0, 0.4), [(-9, 0, 0.4, 3, 10)]),
        ("gain-loss", (4.0, -2.0), [(-9, -2, 0, 3, 10)]),
        ("cancer", ((600.0, 250.0),), [(1, 200, 400, 600, 900, 1500), (0, 0.2, 0.4, 0.6, 1)]),
        ("peak", (None, (0.3, 0.7, 0.4)), [(0, 0.3, 1), (0, 0.7, 1)]),
    ],
)
def test_log_terms_against_quadrature(name, at, edges):
    problem = amci.problem(name)
    x, weights = quadrature(name, edges)
    y, theta = problem.check(*at)
    joint = np.exp(problem.log_joint(x, y).numpy()) * weights
    f_plus, f_minus = problem.f_parts(x, theta)
    found = problem.log_terms(*at)
    assert float(found["E2"]) == pytest.approx(math.log(joint.sum()), abs=1e-6)
    assert float(found["E1_plus"]) == pytest.approx(math.log(f_plus.numpy() @ joint), abs=1e-6)
    if f_minus is None:
        assert set(found) == {"E1_plus", "E2"}
    else:
        assert float(found["E1_minus"]) == pytest.approx(
            math.log(f_minus.numpy() @ joint), abs=1e-6
        )


@pytest.mark.parametrize("name", amci.problems())
def test_the_prior_is_zero_outside_the_support_alone(name):
    problem = amci.problem(name)
    x = problem.sample_prior(1000, torch.Generator().manual_seed(0)).double()
    assert problem.support.check(x).all()
    far = torch.cat([x - 3, x * 1.5, -x])
    inside = problem.support.check(far).all(-1)
    assert torch.equal(problem.log_prior(far) > -torch.inf, inside)


def test_the_support_follows_from_the_range_of_x():
    problem = GaussianTail(1)
    for low, high, inside, outside in (
        (-math.inf, math.inf, 0.0, None),
        (0.0, math.inf, 1.0, -1.0),
        (-math.inf, 0.0, -1.0, 1.0),
        (0.0, 1.0, 0.5, 1.5),
    ):
        problem.x = type(problem.x)("x", 1, low, high, "a quantity")
        assert problem.support.check(torch.tensor(inside))
        assert outside is None or not problem.support.check(torch.tensor(outside))


def test_what_a_problem_knows_of_its_truth_is_optional():
    assert not Problem.__abstractmethods__ & set(KNOWLEDGE)
    known, unknown = amci.problem("tail-1d"), hidden("tail-1d")
    assert (known.knows_truth, known.knows_bound) == (True, True)
    assert (unknown.knows_truth, unknown.knows_bound) == (False, False)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.truth(1.0, 3.0), "truth: tail-1d has no known mu. Define _log_truth, or"),
        (lambda p: p.log_terms(1.0, 3.0), "truth: tail-1d has no known mu"),
        (
            lambda p: p.mean_absolute_deviation(1.0, 3.0),
            "mean_absolute_deviation: tail-1d has no known value",
        ),
        (
            lambda p: p.mismatch(1.0, 3.0),
            "mismatch: tail-1d has no known mismatch. Define _mismatch",
        ),
        (lambda p: p.mismatch_range(1.0, 3.0), "mismatch: tail-1d has no path .* Define _path"),
    ],
)
def test_what_is_not_known_is_named_with_the_method_to_define(ask, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        ask(hidden("tail-1d"))


@pytest.mark.parametrize("dim", [-1, 0, 1.5])
def test_a_variable_has_coordinates(dim):
    with pytest.raises(
        ValueError, match=rf"^x.dim: expected a whole number from 1 .*, got {dim}$"
    ):
        amci.Variable("x", dim, 0.0, 1.0, "a number")


def test_a_row_of_numbers_is_told_from_several_cases():
    problem = amci.problem("tail-1d")
    hint = r"For several cases pass shape \(cases, 1\), such as \[\[1.0\], "
    with pytest.raises(ValueError, match=rf"^y: expected a number or .* got shape \(2,\). {hint}"):
        problem.check([1.0, 2.0], 3.0)
    with pytest.raises(ValueError, match=r"an array of shape \(\.\.\., 5\) .* got shape \(3,\)$"):
        amci.problem("tail-5d").check([1.0, 2.0, 3.0], [1.0] * 5)


def test_a_problem_prints_what_it_is():
    assert repr(amci.problem("tail-5d")) == "tail-5d: x of 5, y of 5, theta of 5; f >= 0; mu known"
    assert str(amci.problem("gain-loss")).endswith("f of both signs; mu known")
    assert "y of" not in repr(amci.problem("peak"))
