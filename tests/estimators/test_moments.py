"""Pooled moments and the delta method, against sums over a discrete model."""

from dataclasses import replace

import numpy as np
import pytest
from discrete import signed

from amci_core.estimators import Draws, Moments, combine, pooled_moments, variance
from amci_core.estimators.moments import unjudged
from amci_core.estimators.tables import amci, snis_q1, snis_q2

MODEL = signed()
REUSE = np.array([[0.6, -0.3, 0.2], [0.1, 0.8, 0.3], [0.3, 0.5, 0.5]])
TABLES = {"amci": amci(), "snis-q1": snis_q1(), "snis-q2": snis_q2(), "reuse": REUSE}


def exact_moments(counts):
    covariance = np.stack([MODEL.covariance(j) for j in range(3)])
    return Moments(np.zeros(()), MODEL.terms, covariance, np.array(counts))


def test_pooled_moments_are_those_of_the_model():
    counts, runs = (3000, 2000, 4000), 200
    found = pooled_moments(MODEL.draws(counts, runs=runs, seed=0))
    scale = np.exp(found.log_scale)[:, None]
    mean = scale * found.mean
    assert (abs(mean.mean(0) - MODEL.terms) < 4 * mean.std(0) / np.sqrt(runs)).all()
    covariance = scale[..., None, None] ** 2 * found.covariance
    for j in range(3):
        error = abs(covariance[:, j].mean(axis=0) - MODEL.covariance(j))
        # Ratios of means over n draws have a bias of order 1 / n.
        tolerance = 4 * covariance[:, j].std(axis=0) / np.sqrt(runs)
        assert (error <= tolerance + abs(MODEL.covariance(j)) / 2000).all()
    np.testing.assert_array_equal(found.counts, counts)


def test_few_draws_of_one_proposal_give_an_unbiased_variance():
    runs = 40_000
    found = pooled_moments(MODEL.draws((0, 0, 4), runs=runs, seed=6))
    covariance = np.exp(2 * found.log_scale)[:, None, None] * found.covariance[:, 2]
    error = abs(covariance.mean(axis=0) - MODEL.covariance(2))
    assert (error < 4 * covariance.std(axis=0) / np.sqrt(runs)).all()
    assert np.isnan(found.covariance[:, :2]).all()


def test_other_proposals_draws_bear_witness_to_a_proposals_variance():
    # No draw of q2 has f > 0, so its own sample variance of f_plus w is zero.
    draws = MODEL.draws((400, 400, 400), runs=1, seed=1)
    q2 = draws.of(2)
    low = np.flatnonzero(q2.f_plus[0] == 0)
    a, b, c = (q[:, low] for q in q2.log_q if q is not None)
    assert q2.f_minus is not None
    blind = replace(
        q2,
        f_plus=q2.f_plus[:, low],
        f_minus=q2.f_minus[:, low],
        log_joint=q2.log_joint[:, low],
        log_q=(a, b, c),
    )
    found = pooled_moments(Draws((draws.of(0), draws.of(1), blind)))
    pooled = float(np.exp(2 * found.log_scale[0]) * found.covariance[0, 2, 0, 0])
    assert np.var(blind.f_plus * np.exp(blind.log_joint - c)) == 0
    assert pooled > 0.1 * MODEL.covariance(2)[0, 0]


@pytest.mark.parametrize("table", [snis_q1(), REUSE])
def test_a_proposal_that_misses_mass_has_an_infinite_variance(table):
    blind = replace(MODEL, q=MODEL.q.copy())
    blind.q[0, :3] = 0
    blind.q[0] /= blind.q[0].sum()
    with np.errstate(divide="ignore"):
        found = pooled_moments(blind.draws((50, 50, 50), runs=3, seed=2))
    value = np.full(3, MODEL.mu)
    assert (variance(table, found, value) == np.inf).all()
    # AMCI uses q1_plus for E1_plus alone, and of that it misses nothing.
    assert np.isfinite(variance(amci(), found, value)).all()


@pytest.mark.parametrize("name", TABLES)
def test_the_delta_method_gives_the_spread_of_estimates(name):
    counts, runs = (400, 300, 500), 8000
    draws = MODEL.draws(counts, runs=runs, seed=3)
    values = combine(TABLES[name], draws, np.array([counts])).value[:, 0]
    predicted = variance(TABLES[name], exact_moments(counts), np.array(MODEL.mu))
    # A sample variance of nearly normal values is known to sqrt(2 / runs); the delta method
    # leaves out terms of relative order 1 / n, here with constants below ten.
    np.testing.assert_allclose(values.var(), predicted, rtol=4 * np.sqrt(2 / runs) + 10 / 300)


@pytest.mark.parametrize("name", TABLES)
def test_the_estimated_variance_centres_on_the_exact_one(name):
    counts, runs = (400, 300, 500), 500
    found = pooled_moments(MODEL.draws(counts, runs=runs, seed=4))
    estimated = variance(TABLES[name], found, np.full(runs, MODEL.mu))
    exact = variance(TABLES[name], exact_moments(counts), np.array(MODEL.mu))
    tolerance = 4 * estimated.std() / np.sqrt(runs)
    assert abs(estimated.mean() - exact) < tolerance + 10 / 300 * exact
    assert estimated.std() < 0.5 * exact


def test_moments_do_not_depend_on_the_scale_of_the_joint_density():
    draws = MODEL.draws((30, 30, 30), runs=5, seed=5)
    a, b, c = (p and replace(p, log_joint=p.log_joint - 3000) for p in draws.points)
    near, far = pooled_moments(draws), pooled_moments(Draws((a, b, c)))
    np.testing.assert_allclose(far.log_scale, near.log_scale - 3000, rtol=1e-12)
    np.testing.assert_allclose(far.covariance, near.covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(far.mean, near.mean, rtol=1e-9)


@pytest.mark.parametrize("name", TABLES)
def test_an_error_is_unjudged_where_e1_and_e2_share_draws_of_one_f(name):
    constant = replace(MODEL, f=np.full(6, -0.7))
    draws = constant.draws((5, 5, 5), runs=50, seed=7)
    found = unjudged(TABLES[name], draws, np.full(50, -0.7))
    assert (found == (name in ("snis-q1", "snis-q2"))).all()


def test_an_error_is_judged_once_f_differs():
    draws = MODEL.draws((0, 0, 2), runs=500, seed=8)
    value = combine(snis_q2(), draws, np.array([[0, 0, 2]])).value[:, 0]
    points = draws.of(2)
    assert points.f_minus is not None
    f = points.f_plus - points.f_minus
    np.testing.assert_array_equal(unjudged(snis_q2(), draws, value), f[:, 0] == f[:, 1])


def test_cancellation_leaves_no_negative_variance():
    constant = replace(MODEL, f=np.ones(6))
    draws = constant.draws((64, 64, 64), runs=500, seed=9)
    found = variance(snis_q2(), pooled_moments(draws), np.ones(500))
    assert (found >= 0).all()


@pytest.mark.parametrize("name", TABLES)
def test_no_standard_error_sees_mass_that_no_draw_reached(name):
    # The sixth point carries most of E1_plus that is left; no proposal ever goes there.
    reached = MODEL.q * [1, 1, 1, 1, 1, 0]
    blind = replace(MODEL, q=reached / reached.sum(axis=1, keepdims=True))
    with np.errstate(divide="ignore"):
        draws = blind.draws((50_000, 50_000, 50_000), runs=10, seed=10)
    value = combine(TABLES[name], draws, np.array([[50_000] * 3])).value[:, 0]
    stated = np.sqrt(variance(TABLES[name], pooled_moments(draws), value))
    assert (abs(value - MODEL.mu) > 4 * stated).all()
    assert (stated < 0.2 * MODEL.mu).all()
