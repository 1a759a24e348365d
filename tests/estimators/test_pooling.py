"""Moments along the number of draws, and draws that stand apart."""

from dataclasses import replace

import numpy as np
import pytest
from discrete import signed

from amci_core.estimators import Draws, pooled_moments, running_moments

MODEL = signed()
COUNTS = np.array([[2, 3, 2], [20, 30, 20], [40, 60, 40], [200, 300, 200]])


def first(draws: Draws, counts) -> Draws:
    a, b, c = (p and p.first(int(n)) for p, n in zip(draws.points, counts, strict=True))
    return Draws((a, b, c))


def test_running_moments_are_those_of_the_first_draws():
    draws = MODEL.draws(tuple(COUNTS[-1]), runs=4, seed=0)
    running = running_moments(draws, COUNTS)
    for b, counts in enumerate(COUNTS):
        alone = pooled_moments(first(draws, counts))
        unit = np.exp(running.log_scale[:, b] - alone.log_scale)
        np.testing.assert_allclose(running.mean[:, b] * unit[:, None], alone.mean, rtol=1e-10)
        squared = unit[:, None, None, None] ** 2
        np.testing.assert_allclose(
            running.covariance[:, b] * squared, alone.covariance, rtol=1e-8, atol=1e-12
        )
        np.testing.assert_array_equal(running.counts[b], counts)


def test_every_proposal_keeps_its_share_where_a_total_is_odd():
    # Pooled means are unbiased also while one proposal is a draw ahead.
    counts = np.array([[1, 0, 2], [50, 0, 100]])
    found = running_moments(MODEL.draws((50, 0, 100), runs=60_000, seed=1), counts)
    estimates = (np.exp(found.log_scale)[..., None] * found.mean)[:, 0]
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    assert (abs(estimates.mean(axis=0) - MODEL.terms) < 4 * error).all()


def with_one_giant(draws: Draws) -> Draws:
    """One point of q2 becomes a hundred times as likely under the model."""
    q2 = draws.of(2)
    log_joint = q2.log_joint.copy()
    hit = np.flatnonzero(q2.f_plus[0] > 0)[0]
    log_joint[0, hit] += np.log(100)
    return Draws((draws.of(0), draws.of(1), replace(q2, log_joint=log_joint)))


def test_a_draw_that_stands_apart_is_left_out_and_no_other():
    draws = MODEL.draws((60, 60, 60), runs=1, seed=2)
    giant = with_one_giant(draws)
    counts = [[60, 60, 60]]
    plain, apart = running_moments(giant, counts), running_moments(giant, counts, apart=True)
    normal = running_moments(draws, counts)

    def of_f_plus(found):
        return float(found.covariance[0, 0, 2, 0, 0] * np.exp(2 * found.log_scale[0, 0]))

    assert of_f_plus(plain) > 20 * of_f_plus(normal)
    assert of_f_plus(apart) == pytest.approx(of_f_plus(normal), rel=0.5)
    unchanged = running_moments(draws, counts, apart=True)
    np.testing.assert_array_equal(unchanged.covariance, normal.covariance)


def test_moments_of_proposals_that_cannot_reach_a_point_stay_finite_or_infinite():
    blind = replace(MODEL, q=MODEL.q.copy())
    blind.q[2, 4:] = 0
    blind.q[2] /= blind.q[2].sum()
    with np.errstate(divide="ignore"):
        draws = blind.draws((30, 30, 30), runs=2, seed=3)
    found = running_moments(draws, [[10, 10, 10], [30, 30, 30]], apart=True)
    assert np.isfinite(found.covariance[:, :, 0]).all()
    assert (found.covariance[:, -1, 2, 0, 0] == np.inf).all()


def test_a_point_that_neither_p_nor_q_reaches_is_no_miss():
    draws = MODEL.draws((30, 30, 30), runs=2, seed=4)
    # One draw of q1_plus lies where p and q2 are zero but for hundreds of nats.
    far = draws.of(0)
    log_joint, log_q2 = far.log_joint.copy(), far.log_q_of(2).copy()
    log_joint[:, 0], log_q2[:, 0] = -1500.0, -1200.0
    moved = replace(far, log_joint=log_joint, log_q=(far.log_q[0], far.log_q[1], log_q2))
    found = pooled_moments(Draws((moved, draws.of(1), draws.of(2))))
    assert np.isfinite(found.covariance).all()
