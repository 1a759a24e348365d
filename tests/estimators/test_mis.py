"""Moments from all draws and the delta method, against sums over a discrete model."""

from dataclasses import replace

import numpy as np
import pytest
from discrete import judged, prepared, signed

from amci_core.estimators import combine, moments, relative_variance
from amci_core.estimators.mis import outliers, pooled
from amci_core.estimators.tables import amci, snis_q1, snis_q2

MODEL = signed()
REUSE = np.array([[0.6, -0.3, 0.2], [0.1, 0.8, 0.3], [0.3, 0.5, 0.5]])
TABLES = {"amci": amci(), "snis-q1": snis_q1(), "snis-q2": snis_q2(), "reuse": REUSE}


def in_units(found):
    """Covariances (*, 3, 3, 3) of one draw in the terms' own units."""
    mean = np.exp(found.log_mean)[..., None, :]
    return mean[..., :, None] * found.covariance * mean[..., None, :]


def test_pooled_moments_are_those_of_the_model():
    counts, runs = (3000, 2000, 4000), 200
    found = moments(MODEL.draws(counts, runs=runs, seed=0))
    mean = np.exp(found.log_mean)
    assert (abs(mean.mean(0) - MODEL.terms) < 4 * mean.std(0) / np.sqrt(runs)).all()
    covariance = in_units(found)
    for j in range(3):
        error = abs(covariance[:, j].mean(axis=0) - MODEL.covariance(j))
        # Ratios of means over n draws have a bias of order 1 / n.
        tolerance = 4 * covariance[:, j].std(axis=0) / np.sqrt(runs)
        assert (error <= tolerance + abs(MODEL.covariance(j)) / 2000).all()
    np.testing.assert_array_equal(found.counts, counts)


def test_other_proposals_draws_show_a_proposals_variance():
    # No draw of q2 has f > 0, so its own sample variance of f_plus w is zero.
    draws = MODEL.draws((400, 400, 400), runs=1, seed=1)
    q2 = draws.stretch(2)
    low = q2.start + np.flatnonzero(draws.f[0, q2] <= 0)
    kept = np.concatenate([np.arange(800), low])
    blind = replace(
        draws,
        f=draws.f[:, kept],
        log_joint=draws.log_joint[:, kept],
        log_q={j: q[:, kept] for j, q in draws.log_q.items()},
        counts={0: 400, 1: 400, 2: len(low)},
    )
    found = moments(blind)
    seen = float(in_units(found)[0, 2, 0, 0])
    assert (blind.f[:, blind.stretch(2)] <= 0).all()
    assert seen > 0.1 * MODEL.covariance(2)[0, 0]


def test_a_reference_shows_what_every_proposal_misses():
    # The sixth point has a tenth of E1_plus, and no proposal goes there but once in a million.
    q = MODEL.q.copy()
    q[:, 5] = 1e-6
    model = replace(MODEL, q=q / q.sum(axis=1, keepdims=True))
    draws = model.draws((500, 500, 500, 200), runs=1, seed=11)
    assert draws.present == (0, 1, 2)
    found, blind = moments(draws), moments(draws.first([500, 500, 500]))
    exact = 1 / (1 + model.covariance(0)[0, 0] / model.terms[0] ** 2)
    assert exact < 1e-3
    by_all, by_own = (1 / (1 + each.covariance[0, 0, 0, 0]) for each in (found, blind))
    assert by_all == pytest.approx(exact, rel=0.5)
    assert by_own > 0.1
    assert np.exp(found.log_mean[0, 0]) == pytest.approx(MODEL.terms[0], rel=0.2)


@pytest.mark.parametrize("table", [snis_q1(), REUSE])
def test_a_proposal_that_misses_mass_has_an_infinite_variance(table):
    blind = replace(MODEL, q=MODEL.q.copy())
    blind.q[0, :3] = 0
    blind.q[0] /= blind.q[0].sum()
    found = moments(blind.draws((50, 50, 50), runs=3, seed=2))
    assert (relative_variance(table, found) == np.inf).all()
    # AMCI uses q1_plus for E1_plus alone, and of that it misses nothing.
    assert np.isfinite(relative_variance(amci(), found)).all()


@pytest.mark.parametrize("name", TABLES)
def test_the_delta_method_gives_the_spread_of_estimates(name):
    counts, runs = (400, 300, 500), 8000
    draws = MODEL.draws(counts, runs=runs, seed=3)
    values = combine(TABLES[name], draws, np.array([counts])).value[:, 0] / MODEL.size
    predicted = relative_variance(TABLES[name], MODEL.moments(counts))
    # A sample variance of nearly normal values is known to sqrt(2 / runs); the delta method
    # leaves out terms of relative order 1 / n, here with constants below ten.
    np.testing.assert_allclose(values.var(), predicted, rtol=4 * np.sqrt(2 / runs) + 10 / 300)


def test_an_error_is_unknown_where_the_own_draws_have_one_f():
    draws = MODEL.draws((0, 0, 2, 2), runs=500, seed=8)
    found = judged(prepared(snis_q2(), draws)).standard_error
    np.testing.assert_array_equal(np.isnan(found), draws.f[:, 0] == draws.f[:, 1])


def with_one_giant(draws):
    """One point of q2 becomes a hundred times as likely under the model."""
    log_joint = draws.log_joint.copy()
    hit = draws.stretch(2).start + np.flatnonzero(draws.f[0, draws.stretch(2)] > 0)[0]
    log_joint[0, hit] += np.log(100)
    return replace(draws, log_joint=log_joint), hit


def test_an_outlier_is_left_out_and_no_other():
    draws = MODEL.draws((60, 60, 60), runs=1, seed=2)
    giant, place = with_one_giant(draws)
    np.testing.assert_array_equal(np.flatnonzero(outliers(pooled(giant))[0]), [place])
    plain, robust, normal = moments(giant), moments(giant, robust=True), moments(draws)

    def of_f_plus(found):
        return float(in_units(found)[0, 2, 0, 0])

    assert of_f_plus(plain) > 20 * of_f_plus(normal)
    assert of_f_plus(robust) == pytest.approx(of_f_plus(normal), rel=0.5)
    unchanged = moments(draws, robust=True)
    np.testing.assert_array_equal(unchanged.covariance, normal.covariance)


def test_draws_joined_are_those_drawn_at_once():
    draws = MODEL.draws((6, 4, 8), runs=3, seed=12)
    first = draws.first({0: 2, 1: 1, 2: 5})
    rest = [np.arange(draws.stretch(j).start + n, draws.stretch(j).stop) for j, n in
            first.counts.items()]  # fmt: skip
    later = np.concatenate(rest)
    second = draws.mapped(lambda values: values[..., later], {0: 4, 1: 3, 2: 3})
    both = first.joined(second)
    assert both.counts == draws.counts
    np.testing.assert_array_equal(both.f, draws.f)
    for j in range(3):
        np.testing.assert_array_equal(both.log_weight(j), draws.log_weight(j))
