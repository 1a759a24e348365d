"""Maps of quality over a plane of cases."""

import math
from itertools import product

import numpy as np
import pytest
from hidden import hidden
from imperfect import imperfect
from scipy.integrate import quad
from scipy.stats import norm

import amci_core as amci
from amci_core.amortization import amortization_map, default_plane

FIELDS = ("relative_variance", "relative_ess", "pareto_k", "bound_ratio")


@pytest.fixture(scope="module")
def problem():
    return amci.problem("tail-1d")


def test_variances_are_those_of_quadrature(problem):
    found = amortization_map(problem, imperfect(), size=4, draws=20_000, seed=1)
    for (i, theta), (j, y) in product(enumerate(found.y.values), enumerate(found.x.values)):
        # The proposals of imperfect.py; the target of q1 is the posterior above theta.
        posterior, mu = norm(y / 2, math.sqrt(0.5)), float(problem.truth(y, theta))
        q1, q2 = norm(max(y / 2, theta) + 0.2, 0.8), norm(y / 2 + 0.2, 0.9)
        v1, v2 = (
            quad(lambda x, p=posterior, q=q: p.pdf(x) ** 2 / q.pdf(x), low, high)[0] / mass**2 - 1
            for q, low, high, mass in ((q1, theta, theta + 6, mu), (q2, y / 2 - 6, y / 2 + 6, 1))
        )
        # Means over 80,000 points of weights whose squares are spread by a few times one.
        assert found.relative_variance[i, j] == pytest.approx(v1 + v2, rel=0.1)
        assert found.relative_ess[:, i, j] == pytest.approx([1 / (1 + v1), 1 / (1 + v2)], rel=0.05)
        bound = (2 * (1 - mu)) ** 2
        assert found.bound_ratio[i, j] == pytest.approx(bound / (2 * (v1 + v2)), rel=0.1)


@pytest.mark.parametrize(("name", "k"), [("tail-1d", 2), ("gain-loss", 3), ("peak", 1)])
def test_exact_proposals_have_no_variance_anywhere(name, k):
    problem = amci.problem(name)
    proposals = amci.load_proposals(name, variant="oracle")
    found = amortization_map(problem, proposals, size=5, draws=64)
    assert len(found.terms) == k
    # In units of the parts of mu: mu itself can be zero.
    assert (found.relative_ess > 1 - 1e-12).all()
    assert (found.bound_ratio > 1e6).all()
    assert (found.pareto_k == -np.inf).all()


def test_an_f_that_no_draw_has_met_is_not_taken_for_known():
    problem = amci.with_target("tail-1d", "1.0*(x1 > 1000)")
    found = amortization_map(problem, imperfect(problem.name), size=2, draws=32)
    assert not np.isfinite(found.relative_variance).any()
    assert (found.relative_ess[0] == 0).all()
    assert (found.relative_ess[1] > 0.1).all()


def test_a_map_grows_from_coarse_to_fine_and_its_cases_never_change(problem):
    settings = {"size": 17, "draws": 32, "seed": 3}
    steps = []
    final = amortization_map(problem, imperfect(), **settings, on_progress=steps.append)
    counts = [found.cases for found in steps]
    assert counts == sorted(set(counts))
    assert counts[0] < 17 * 17 / 4
    assert final.done.all()
    assert np.isfinite(steps[len(steps) // 3].relative_variance).all()
    alone = amortization_map(problem, imperfect(), **settings)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(final, name), getattr(alone, name))
    last = final.relative_variance
    for found in steps:
        np.testing.assert_array_equal(found.relative_variance[found.done], last[found.done])
        shown = found.relative_variance[np.isfinite(found.relative_variance)]
        assert set(shown) == set(last[found.done])


def test_axes_move_all_coordinates_or_one():
    problem = amci.problem("tail-5d")
    proposals = amci.load_proposals("tail-5d")
    y, theta = (0.0, 1.0, 2.0, 3.0, 1.0), (0.5, 1.0, 1.5, 1.0, 0.5)
    settings = {"size": (3, 2), "draws": 32, "y": y, "theta": theta}
    both = amortization_map(problem, proposals, along=("y[1]", "theta"), **settings)
    assert [axis.name for axis in (both.x, both.y)] == ["y[1]", "theta"]
    assert both.relative_variance.shape == (2, 3)
    np.testing.assert_array_equal(both.x.values, np.linspace(*problem.y.typical_range, 3))
    # The bound needs no draws: it is that of the cases the axes stand for.
    at_y = np.array([[0.0, value, 2.0, 3.0, 1.0] for value in both.x.values])
    for row, value in zip(both.bound_ratio * both.relative_variance, both.y.values, strict=True):
        at_theta = np.full((3, 5), value)
        relative = problem.mean_absolute_deviation(at_y, at_theta) / problem.truth(at_y, at_theta)
        np.testing.assert_allclose(row, relative**2 / 2, rtol=1e-9)


def test_a_problem_that_does_not_know_its_truth_has_a_map_without_the_bound(problem):
    proposals = amci.load_proposals("tail-1d", variant="oracle")
    settings = {"size": 4, "draws": 2000, "seed": 1}
    known = amortization_map(problem, proposals, **settings)
    found = amortization_map(hidden("tail-1d"), proposals, **settings)
    assert np.isnan(found.bound_ratio).all()
    # In units of mu, which is known as well as the parts are: exactly.
    for field in FIELDS[:3]:
        np.testing.assert_array_equal(getattr(found, field), getattr(known, field))


@pytest.mark.parametrize(
    ("name", "plane"),
    [
        ("tail-1d", ("y", "theta")),
        ("cancer", ("y[0]", "y[1]")),
        ("peak", ("theta[0]", "theta[1]")),
    ],
)
def test_the_first_plane_is_that_of_what_there_is(name, plane):
    assert default_plane(amci.problem(name)) == plane


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"along": ("y", "z")}, r"along: expected two different coordinates of y, y\[0\], theta"),
        ({"along": ("y", "y[0]")}, "along: expected two different coordinates"),
        ({"size": 1}, "size: expected a whole number"),
        ({"y": [[1.0], [2.0]]}, "y: expected a single case"),
    ],
)
def test_bad_arguments_are_named(problem, options, message):
    with pytest.raises(ValueError, match=message):
        amortization_map(problem, imperfect(), **options)
