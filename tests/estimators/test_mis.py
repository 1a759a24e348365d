"""Moments from all draws and the delta method, against sums over a discrete model."""

from dataclasses import replace

import numpy as np
import pytest
from discrete import signed

from amci_core.estimators import moments, relative_variance
from amci_core.estimators.tables import amci, snis_q1

MODEL = signed()
REUSE = np.array([[0.6, -0.3, 0.2], [0.1, 0.8, 0.3], [0.3, 0.5, 0.5]])


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


def with_one_giant(draws):
    """One point of q2 becomes a hundred times as likely under the model."""
    log_joint = draws.log_joint.copy()
    hit = draws.stretch(2).start + np.flatnonzero(draws.f[0, draws.stretch(2)] > 0)[0]
    log_joint[0, hit] += np.log(100)
    return replace(draws, log_joint=log_joint)


def test_an_outlier_is_left_out_and_no_other():
    draws = MODEL.draws((60, 60, 60), runs=1, seed=2)
    giant = with_one_giant(draws)
    plain, robust, normal = moments(giant), moments(giant, robust=True), moments(draws)

    def of_f_plus(found):
        return float(in_units(found)[0, 2, 0, 0])

    assert of_f_plus(plain) > 20 * of_f_plus(normal)
    assert of_f_plus(robust) == pytest.approx(of_f_plus(normal), rel=0.5)
    unchanged = moments(draws, robust=True)
    np.testing.assert_array_equal(unchanged.covariance, normal.covariance)
