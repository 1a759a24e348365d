"""Diagnostics of every term on the draws that carry it."""

import numpy as np
import pytest

from amci_core.diagnostics import diagnose
from amci_core.estimators import Draws, Points
from amci_core.estimators.tables import amci, reuse, snis_q1, snis_q2


def points(log_w, f_plus, f_minus=None):
    """Points whose weights are given; the proposal's density is 1 everywhere."""
    log_w = np.asarray(log_w, dtype=np.float64)
    zero = np.zeros_like(log_w)
    as_array = np.asarray(f_plus, dtype=np.float64)
    minus = None if f_minus is None else np.asarray(f_minus, dtype=np.float64)
    return Points(as_array, minus, log_w, (zero, zero, zero))


def two_cells(in_a, in_b, *, q1, q2):
    """Points in two cells of mass 1/2 each, of which q1 and q2 give the second these shares."""
    second = np.repeat([False, True], [in_a, in_b])
    zero = np.zeros(in_a + in_b)

    def log_q(share):
        return zero + np.log(np.where(second, share, 1 - share))

    return Points(zero + 1, None, zero + np.log(0.5), (log_q(q1), None, log_q(q2)))


EVEN = points(np.zeros(8), np.ones(8))
UNEVEN = points(np.log([1.0, 2.0, 3.0, 4.0]), [0, 1, 0, 1])


def test_even_weights_count_in_full():
    found = diagnose(reuse(alpha=1, beta=0), Draws((EVEN, None, EVEN)))
    assert set(found) == {"E1_plus", "E2"}
    for term in found.values():
        assert term.effective_draws == pytest.approx(8)
        assert term.largest_share == pytest.approx(1 / 8)
        assert term.nonzero_share == 1
        assert term.draws == 8


def test_uneven_weights_follow_the_formula():
    found = diagnose(snis_q2(), Draws((None, None, UNEVEN)))
    w = np.array([1, 2, 3, 4])
    assert found["E2"].effective_draws == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert found["E2"].largest_share == pytest.approx(0.4)
    fw = np.array([2, 4])
    assert found["E1_plus"].effective_draws == pytest.approx(fw.sum() ** 2 / (fw**2).sum())
    assert found["E1_plus"].largest_share == pytest.approx(4 / 6)
    assert found["E1_plus"].nonzero_share == 0.5


def test_a_good_posterior_proposal_can_miss_f():
    nothing = points(np.zeros(8), np.zeros(8))
    found = diagnose(snis_q2(), Draws((None, None, nothing)))
    assert found["E2"].effective_draws == pytest.approx(8)
    assert found["E1_plus"].effective_draws == 0
    assert np.isnan(found["E1_plus"].largest_share)
    assert found["E1_plus"].nonzero_share == 0


def test_a_term_is_judged_on_the_draws_that_carry_most_of_it():
    draws = Draws((EVEN, None, UNEVEN))
    assert diagnose(reuse(alpha=0.9, beta=0.2), draws)["E1_plus"].draws == 8
    assert diagnose(reuse(alpha=0.9, beta=0.2), draws)["E2"].draws == 4
    assert diagnose(reuse(alpha=0.2, beta=0.9), draws)["E2"].draws == 8


def test_the_negative_part_has_its_own_diagnostics():
    signed = points(np.zeros(4), [1, 1, 0, 0], f_minus=[0, 0, 0, 3])
    found = diagnose(amci(), Draws((signed, signed, signed)))
    assert found["E1_plus"].effective_draws == pytest.approx(2)
    assert found["E1_minus"].effective_draws == pytest.approx(1)
    assert found["E1_minus"].nonzero_share == 0.25


def test_weights_far_from_one_keep_their_shares():
    near = diagnose(snis_q2(), Draws((None, None, UNEVEN)))["E2"]
    for nats in (-4000, 4000):
        shifted = points(UNEVEN.log_joint + nats, UNEVEN.f_plus)
        far = diagnose(snis_q2(), Draws((None, None, shifted)))["E2"]
        np.testing.assert_allclose(far.effective_draws, near.effective_draws, rtol=1e-9)
        np.testing.assert_allclose(far.largest_share, near.largest_share, rtol=1e-9)


def test_batches_keep_their_shape():
    batch = points(np.zeros((3, 2, 5)), np.ones((3, 2, 5)))
    found = diagnose(reuse(alpha=1, beta=0), Draws((batch, None, batch)))["E1_plus"]
    assert found.effective_draws.shape == found.largest_share.shape == (3, 2)
    assert found.nonzero_share.shape == (3, 2)


def test_other_draws_show_what_a_proposal_misses():
    # One draw of q1 in the second cell would weigh 0.5 / 0.001, five times the mean of 100 draws.
    shares = {"q1": 0.001, "q2": 0.5}
    draws = Draws((two_cells(100, 0, **shares), None, two_cells(50, 50, **shares)))
    found = diagnose(reuse(alpha=1, beta=0), draws)
    alone = diagnose(snis_q1(), Draws((two_cells(100, 0, **shares), None, None)))
    assert found["E1_plus"].effective_draws == pytest.approx(100)
    first, second = 150 * 0.5 / (0.5 * 0.999 + 0.25), 50 * 0.5 / (0.5 * 0.001 + 0.25)
    assert found["E1_plus"].missed_share == pytest.approx(second / (first + second))
    assert found["E2"].missed_share == 0
    assert np.isnan(alone["E1_plus"].missed_share)


def test_what_a_proposal_cannot_reach_at_all_is_missed():
    shares = {"q1": 0.0, "q2": 0.5}
    with np.errstate(divide="ignore"):
        draws = Draws((two_cells(100, 0, **shares), None, two_cells(50, 50, **shares)))
    assert diagnose(reuse(alpha=1, beta=0), draws)["E1_plus"].missed_share == pytest.approx(
        0.6, abs=0.1
    )


def test_a_term_names_its_proposal_and_the_draws_that_count():
    found = diagnose(snis_q2(), Draws((None, None, UNEVEN)))["E1_plus"]
    assert found.proposal == "q2"
    assert found.nonzero_draws == 2
