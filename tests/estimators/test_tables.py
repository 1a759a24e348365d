"""Tables of coefficients and the paper's optimum for sample reuse."""

from dataclasses import replace

import numpy as np
import pytest
from discrete import moments_of, signed

from amci_core.estimators import Moments, relative_variance, resolve, snis_bound
from amci_core.estimators.tables import amci, optimum, paper_optimum, reuse, snis_q1, snis_q2


def test_reuse_contains_the_estimators_of_the_paper():
    no_minus = np.array([1, 0, 1])
    np.testing.assert_array_equal(reuse(alpha=1, beta=0), amci() * no_minus)
    np.testing.assert_array_equal(reuse(alpha=0, beta=0), snis_q2() * no_minus)
    np.testing.assert_array_equal(reuse(alpha=1, beta=1), snis_q1() * no_minus)


def test_the_papers_optimum_is_its_formula():
    # alpha* = N / (M Var_q1[f w] / Var_q2[f w] + N); beta* with w in place of f w.
    covariance = np.full((3, 3, 3), np.nan)
    covariance[0], covariance[2] = np.diag([2.0, 0, 3.0]), np.diag([5.0, 0, 0.5])
    table = paper_optimum(moments_of(np.ones(3), covariance, np.array([40, 0, 10])))
    alpha, beta = 40 / (10 * 2.0 / 5.0 + 40), 40 / (10 * 3.0 / 0.5 + 40)
    np.testing.assert_allclose(table, reuse(alpha, beta))


MODEL = replace(signed(), f=abs(signed().f))


@pytest.mark.parametrize("counts", [(40, 1, 50), (400, 1, 9)])
def test_no_sample_reuse_has_less_variance_than_the_optimum(counts):
    found = MODEL.moments(counts)
    best = optimum(found)
    np.testing.assert_allclose(best.sum(axis=0), [1, 0, 1], rtol=1e-12)
    least = relative_variance(best, found)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(200):
            alpha, beta = best[0, ::2] + size * rng.standard_normal(2)
            assert relative_variance(reuse(alpha, beta), found) >= least * (1 - 1e-9)
    for table in (amci(), snis_q1(), snis_q2()):
        assert relative_variance(table, found) > least


def test_the_optimum_takes_nothing_from_a_proposal_that_misses_a_term():
    found = MODEL.moments((40, 1, 50))
    covariance = found.covariance.copy()
    covariance[0, 2, 2] = np.inf
    table = optimum(Moments(found.log_mean, covariance, found.counts))
    assert table[0, 2] == 0
    assert table[0, 0] != 0
    np.testing.assert_allclose(table.sum(axis=0), [1, 0, 1], rtol=1e-12)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones((3, 2)), r"table: expected coefficients up to 1e\+08 of shape \(3, 3\)"),
        (np.full((3, 3), np.nan), r"table: expected coefficients .* got \[\[nan"),
        (np.ones((3, 3)), r"table: expected columns that sum to one .* got sums \[3.0"),
        (np.diag([1, 0.5, 1]), r"table: expected columns .* got sums \[1.0, 0.5, 1.0\]"),
        ("snis-q3", r"estimator: expected one of amci-cv, .* or a table, got 'snis-q3'"),
        ([[1e300, 0, 0], [-1e300, 0, 0], [1, 0, 1]], r"table: expected coefficients up to"),
        ("reuse:1e300:1e300", r"alpha: expected a number up to 1e\+08, got 1e\+300"),
        ("reuse:nan:0", r"alpha: expected a number up to 1e\+08, got nan"),
    ],
)
def test_what_is_no_estimator_is_named(table, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        resolve(table)


def test_the_bound_is_the_variance_of_the_best_proposal():
    # With q proportional to p |f - mu|, the SNIS error has variance (E|f - mu|)^2 / T.
    p = np.array([0.2, 0.5, 0.3])
    f = np.array([-1.0, 0.5, 4.0])
    deviation = p @ abs(f - p @ f)
    q = p * abs(f - p @ f) / deviation
    variance = q @ (p / q * (f - p @ f)) ** 2
    assert snis_bound(np.array(deviation), [7])[0] == pytest.approx(variance / 7)
