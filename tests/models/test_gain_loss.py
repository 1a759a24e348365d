"""The signed problem: closed forms against quadrature, and the estimator with three proposals."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import amci_core as amci

PROBLEM = amci.problem("gain-loss")
ORACLE = amci.load_proposals("gain-loss", variant="oracle")
SCALE = math.sqrt(0.5)
CASES = [(1.0, 0.4), (-1.0, 2.0), (4.0, -2.0), (0.0, 0.0), (8.0, -3.0)]

every_case = pytest.mark.parametrize(("y", "theta"), CASES)


def expected(function, y, theta):
    """E[function(x)] under the posterior, by quadrature split at the price."""
    m = y / 2
    return sum(
        integrate.quad(lambda x: function(x) * stats.norm.pdf(x, m, SCALE), *ends, epsabs=0)[0]
        for ends in ((min(m, theta) - 9, theta), (theta, max(m, theta) + 9))
    )


@every_case
def test_terms_are_bacheliers_formula(y, theta):
    terms = PROBLEM.log_terms(y, theta)
    plus, minus = (terms[name] - terms["E2"] for name in ("E1_plus", "E1_minus"))
    assert np.exp(plus) == pytest.approx(expected(lambda x: max(x - theta, 0), y, theta), rel=1e-9)
    assert np.exp(minus) == pytest.approx(
        expected(lambda x: max(theta - x, 0), y, theta), rel=1e-9
    )
    assert np.exp(plus) - np.exp(minus) == pytest.approx(float(PROBLEM.truth(y, theta)), abs=1e-12)


@every_case
def test_mismatch_is_the_divergence(y, theta):
    mass = expected(lambda x: abs(x - theta), y, theta)
    entropy = expected(lambda x: abs(x - theta) * math.log(abs(x - theta) or 1.0), y, theta)
    found = float(PROBLEM.mismatch(y, theta))
    assert found == pytest.approx(entropy / mass - math.log(mass), abs=1e-8)


@pytest.mark.parametrize(("start", "side"), [(2.0, 1), (-2.0, -1), (0.5, 1)])
def test_the_path_reaches_the_level_asked_for_on_its_side_of_the_mean(start, side):
    y, theta = PROBLEM.at_mismatch(0.1, 1.0, start)
    assert y == 1.0
    assert (theta - 0.5) * side > 0
    assert float(PROBLEM.mismatch(y, theta)) == pytest.approx(0.1, abs=1e-9)


@pytest.mark.parametrize("y", [-8.0, -6.0, 6.0, 8.0])
def test_the_path_has_one_side_where_the_mean_is_at_the_end_of_the_prices(y):
    low, high = PROBLEM.mismatch_range(y, 0.0)
    assert low < 0.1 < high
    _, theta = PROBLEM.at_mismatch(0.1, y, 0.0)
    assert float(PROBLEM.mismatch(y, theta)) == pytest.approx(0.1, abs=1e-9)


def test_the_deviation_does_not_depend_on_the_price():
    found = PROBLEM.mean_absolute_deviation([[0.0], [3.0]], 1.0)
    assert found == pytest.approx(expected(lambda x: abs(x), 0.0, 0.0), rel=1e-9)


def test_amci_is_exact_with_three_optimal_proposals():
    y, theta = PROBLEM.cases(300, seed=1)
    found = amci.estimate(PROBLEM, ORACLE, y, theta, draws=3)
    truth = PROBLEM.truth(y, theta)
    terms = PROBLEM.log_terms(y, theta)
    size = sum(np.exp(terms[name] - terms["E2"]) for name in ("E1_plus", "E1_minus"))
    assert set(found.terms) == {"E1_plus", "E1_minus", "E2"}
    # E1_plus and E1_minus are each right to rounding; their difference is to that of their sum.
    assert abs(found.value - truth).max() < 1e-13 * size.max()


def test_a_shift_changes_the_terms_and_not_the_estimate():
    plain = amci.estimate(PROBLEM, ORACLE, 1.0, 0.4, draws=3)
    shifted = amci.estimate(PROBLEM, ORACLE, 1.0, 0.4, draws=3, shift=0.5)
    assert shifted.value == pytest.approx(float(plain.value), abs=1e-13)
    assert shifted.terms["E1_plus"].value < 0.9 * plain.terms["E1_plus"].value


def test_a_shift_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match=r"^shift: expected a finite number"):
        amci.estimate(PROBLEM, ORACLE, 1.0, 0.4, shift=math.inf)


def test_a_shift_out_of_what_the_proposals_know_is_refused():
    with pytest.raises(ValueError, match=r"^shift: "):
        amci.estimate(PROBLEM, ORACLE, 1.0, 2.5, shift=1.0)
