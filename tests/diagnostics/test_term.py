"""Diagnostics of every term on the draws that carry it."""

import numpy as np
import pytest
from discrete import prepared, row

from amci_core.diagnostics.term import diagnose
from amci_core.estimators.mis import pooled
from amci_core.estimators.tables import reuse, snis_q1, snis_q2


def diagnosed(table, draws):
    """Every term, by the draws alone."""
    return diagnose(prepared(table, draws), pooled(draws))


def points(j, log_w, f):
    """Points of component j whose weights are given; every density is 1 everywhere."""
    log_w = np.asarray(log_w, dtype=np.float64)
    zero = np.zeros_like(log_w)
    return {"j": j, "f": f, "log_joint": log_w, "log_q": {k: zero for k in range(3)}}


def two_cells(j, in_a, in_b, *, q1, q2):
    """Points in two cells of mass 1/2 each, of which q1 and q2 give the second these shares."""
    second = np.repeat([False, True], [in_a, in_b])
    zero = np.zeros(in_a + in_b)

    def log_q(share):
        with np.errstate(divide="ignore"):
            return np.log(np.where(second, share, 1 - share))

    joint = zero + np.log(0.5)
    return {"j": j, "f": zero + 1, "log_joint": joint, "log_q": {0: log_q(q1), 2: log_q(q2)}}


UNEVEN = points(2, np.log([1.0, 2.0, 3.0, 4.0]), [0, 1, 0, 1])


def test_uneven_weights_follow_the_formula():
    found = diagnosed(snis_q2(), row(UNEVEN))
    w = np.array([1, 2, 3, 4])
    assert found["E2"].ess == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert found["E2"].largest_weight == pytest.approx(0.4)
    fw = np.array([2, 4])
    assert found["E1_plus"].ess == pytest.approx(fw.sum() ** 2 / (fw**2).sum())
    assert found["E1_plus"].largest_weight == pytest.approx(4 / 6)
    assert found["E1_plus"].nonzero_share == 0.5
    # A good proposal for the posterior can miss f.
    missed = diagnosed(snis_q2(), row(points(2, np.zeros(8), np.zeros(8))))
    assert (missed["E2"].ess, missed["E1_plus"].ess) == (pytest.approx(8), 0)
    assert np.isnan(missed["E1_plus"].largest_weight)
    assert missed["E1_plus"].nonzero_share == 0


def test_a_shared_term_is_judged_on_the_draws_of_both_in_their_shares():
    draws = row(points(0, np.zeros(8), np.ones(8)), UNEVEN)
    found = diagnosed(reuse(alpha=0.9, beta=0.0), draws)
    assert found["E1_plus"].proposal == "q1_plus and q2"
    assert found["E1_plus"].draws == 12
    assert found["E2"].proposal == "q2"
    assert found["E2"].draws == 4
    # h = |v| t w / n; the spread is that within each proposal's draws.
    fw = np.array([0.0, 2.0, 0.0, 4.0])
    total = 0.9 * 1 + 0.1 * fw.mean()
    relative = (0.1 / 4) ** 2 * np.square(fw - fw.mean()).sum() / total**2
    assert found["E1_plus"].ess == pytest.approx(12 / (1 + 12 * relative))
    assert found["E1_plus"].largest_weight == pytest.approx(0.9 / 8 / total)


def test_other_draws_show_what_a_proposal_misses():
    # One draw of q1 in the second cell would weigh 0.5 / 0.001, five times the mean of 100 draws.
    shares = {"q1": 0.001, "q2": 0.5}
    draws = row(two_cells(0, 100, 0, **shares), two_cells(2, 50, 50, **shares))
    found = diagnosed(reuse(alpha=1, beta=0), draws)
    alone = diagnosed(snis_q1(), row(two_cells(0, 100, 0, **shares)))
    assert found["E1_plus"].ess == pytest.approx(100)
    first, second = 150 * 0.5 / (0.5 * 0.999 + 0.25), 50 * 0.5 / (0.5 * 0.001 + 0.25)
    assert found["E1_plus"].uncovered_mass == pytest.approx(second / (first + second))
    assert found["E2"].uncovered_mass == 0
    assert np.isnan(alone["E1_plus"].uncovered_mass)
