"""Both sides of a bounded f: exact with exact proposals, and good where mu is near M."""

from dataclasses import replace

import numpy as np
import pytest

from amci_core.estimation import Estimate
from amci_core.estimators import resolve
from amci_core.estimators.draws import COMPLEMENT, DEFENSIVE, Draws

M = 2.0
F = M * np.array([1.0, 1.0, 0.6, 1.0, 0.0, 0.1])
# mu is near M, in the middle, near 0.
JOINTS = {
    "high": np.array([3.0, 2.0, 0.05, 1.0, 0.06, 0.02]),
    "middle": np.array([0.4, 0.1, 0.3, 0.2, 0.5, 0.5]),
    "low": np.array([0.02, 0.01, 0.02, 0.02, 3.0, 1.0]),
}
# How far proposals are from their targets, in logarithms.
WRONG = 0.1 * np.array([1.0, -1.0, 0.5, 0.3, -0.6, 0.8])


def proposals(joint, wrong):
    """q1_plus, q2, the uniform defensive density and q1_complement, by number, over the points."""
    targets = {0: F * joint, 2: joint, COMPLEMENT: (M - F) * joint}
    found = {}
    for j, target in targets.items():
        q = target * np.exp(wrong * (1 - j))
        found[j] = q / q.sum()
    return {**found, DEFENSIVE: np.full(len(joint), 1 / len(joint))}


def drawn(joint, total, *, runs, present=(0, 2, COMPLEMENT), wrong=1):
    """Draws of the proposals and the defensive density; without q2, E2 is known."""
    (shares,) = resolve("amci-cv").counts([total], present)
    counts = {j: int(n) for j, n in enumerate(shares) if n}
    rng, q = np.random.default_rng(0), proposals(joint, wrong * WRONG)
    x = np.concatenate(
        [rng.choice(len(joint), size=(runs, n), p=q[j]) for j, n in counts.items()], -1
    )
    with np.errstate(divide="ignore"):
        log_q = {j: np.log(q[j])[x] for j in counts}
    log_E2 = None if 2 in present else np.full(runs, np.log(joint.sum()))
    return Draws(F[x], np.log(joint)[x], log_q, counts, signed=False, log_E2=log_E2, f_max=M)


def estimated(draws):
    return Estimate(resolve("amci-cv").apply(draws), positive=True)


def mu_of(joint):
    return float(F @ joint / joint.sum())


@pytest.mark.parametrize("where", JOINTS)
def test_intervals_cover_and_stay_in_the_range_of_f(where):
    joint, runs = JOINTS[where], 2000
    found = estimated(drawn(joint, 240, runs=runs, wrong=3))
    low, high = found.interval()
    covered = ((low <= mu_of(joint)) & (mu_of(joint) <= high)).mean()
    # Four standard errors of 2,000 runs beside 93 to 97 %.
    assert 0.91 < covered < 0.985
    assert (low >= 0).all()
    assert (high <= M).all()


@pytest.mark.parametrize("others", [(0, 2), (0,)])
@pytest.mark.parametrize("where", JOINTS)
def test_with_the_complement_control_variates_lose_little_and_gain_much(where, others):
    joint = JOINTS[where]
    with_it, without = (
        np.square(
            estimated(drawn(joint, 400, runs=1000, present=present)).value / mu_of(joint) - 1
        ).mean()
        for present in ((*others, COMPLEMENT), others)
    )
    # A share of an eighth costs 8 / 7; four Monte Carlo errors of a ratio are a quarter.
    assert with_it < 1.45 * without
    if where == "high":
        assert with_it < without / 20


def test_a_side_that_no_draw_met_leaves_the_error_unknown():
    draws = drawn(JOINTS["high"], 240, runs=3)
    missed = replace(draws, log_joint=np.where(draws.f < M, -np.inf, draws.log_joint))
    found = estimated(missed)
    np.testing.assert_allclose(found.value, M, rtol=1e-12)
    assert np.isnan(found.standard_error).all()
    assert (found.verdict.level != "reliable").all()
