"""Both sides of a bounded f: exact with exact proposals, and good where mu is near M."""

from dataclasses import replace

import numpy as np
import pytest

from amci_core.estimation import Estimate
from amci_core.estimators import ESTIMATORS, Draws, resolve
from amci_core.estimators.draws import COMPLEMENT, DEFENSIVE

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
BOTH = ("two-sided", "amci-cv")


def proposals(joint, *, wrong=WRONG):
    """q1_plus, q2, the uniform defensive density and q1_complement, by number, over the points."""
    targets = {0: F * joint, 2: joint, COMPLEMENT: (M - F) * joint}
    found = {}
    for j, target in targets.items():
        q = target * np.exp(wrong * (1 - j))
        found[j] = q / q.sum()
    return {**found, DEFENSIVE: np.full(len(joint), 1 / len(joint))}


def drawn(joint, counts, *, runs, seed=0, wrong=WRONG, known=False):
    """Draws of the components in `counts`, and their densities at all of them."""
    rng, q = np.random.default_rng(seed), proposals(joint, wrong=wrong)
    x = np.concatenate(
        [rng.choice(len(joint), size=(runs, n), p=q[j]) for j, n in counts.items()], -1
    )
    with np.errstate(divide="ignore"):
        log_q = {j: np.log(q[j])[x] for j in counts}
    log_E2 = np.full(runs, np.log(joint.sum())) if known else None
    return Draws(F[x], np.log(joint)[x], log_q, counts, signed=False, log_E2=log_E2, f_max=M)


def counts_of(name, total, present=(0, 2, COMPLEMENT)):
    chosen = resolve(name)
    counts = chosen.split(total, chosen.used(present), 1 / 8)
    return {j: int(n) for j, n in enumerate(counts) if n}


def estimated(name, draws):
    return Estimate(resolve(name).prepare_all(draws), draws=draws.n, positive=True)


def mu_of(joint):
    return float(F @ joint / joint.sum())


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("where", JOINTS)
def test_exact_proposals_leave_no_error(name, where):
    joint = JOINTS[where]
    found = estimated(
        name, drawn(joint, counts_of(name, 200), runs=50, wrong=np.zeros(len(joint)))
    )
    np.testing.assert_allclose(found.value, mu_of(joint), rtol=1e-12)
    assert (found.relative_standard_error < 1e-12).all()


@pytest.mark.parametrize("where", JOINTS)
def test_both_terms_are_unbiased_and_lie_in_the_range_of_f(where):
    joint = JOINTS[where]
    found = estimated("two-sided", drawn(joint, counts_of("two-sided", 40), runs=5000))
    expected = {"E1_plus": F @ joint, "E1_complement": (M - F) @ joint, "E2": joint.sum()}
    for name, value in expected.items():
        each = found.terms[name].value
        assert abs(each.mean() - value) < 4 * each.std() / np.sqrt(len(each))
    assert ((found.value >= 0) & (found.value <= M)).all()
    assert set(found.diagnostics) == {"E1_plus", "E1_complement"}


@pytest.mark.parametrize("where", JOINTS)
def test_the_relative_variance_is_that_of_both_sides_times_the_square_of_one_less_mu(where):
    joint, runs, n = JOINTS[where], 3000, 200
    counts = {0: n, COMPLEMENT: n}
    value = estimated("two-sided", drawn(joint, counts, runs=runs)).value
    q, mu = proposals(joint), mu_of(joint)
    spread = 0.0
    for j, target in ((0, F * joint), (COMPLEMENT, (M - F) * joint)):
        of_target = np.divide(target**2, q[j], out=np.zeros_like(target), where=q[j] > 0).sum()
        spread += (of_target / target.sum() ** 2 - 1) / n
    expected = (1 - mu / M) ** 2 * spread
    # The variance of n normal values has a relative standard error of sqrt(2 / n).
    assert abs(value.var() / mu**2 / expected - 1) < 4 * np.sqrt(2 / runs) + 2 / n


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("where", JOINTS)
def test_intervals_cover_and_stay_in_the_range_of_f(name, where):
    joint, runs = JOINTS[where], 2000
    found = estimated(name, drawn(joint, counts_of(name, 240), runs=runs, wrong=3 * WRONG))
    low, high = found.interval()
    covered = ((low <= mu_of(joint)) & (mu_of(joint) <= high)).mean()
    # Four standard errors of 2,000 runs beside 93 to 97 %.
    assert 0.91 < covered < 0.985
    assert (low >= 0).all()
    assert (high <= M).all()


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("where", JOINTS)
def test_with_the_complement_control_variates_lose_little_and_gain_much(where, known):
    joint, total = JOINTS[where], 400
    present = (0, COMPLEMENT) if known else (0, 2, COMPLEMENT)

    def error(name, present):
        draws = drawn(joint, counts_of(name, total, present), runs=1500, known=known)
        return float(np.square(estimated(name, draws).value / mu_of(joint) - 1).mean())

    with_it, without = error("amci-cv", present), error("amci-cv", present[:-1])
    two_sided = error("two-sided", present)
    # A share of an eighth costs 8 / 7; four Monte Carlo errors of a ratio are a fifth.
    assert with_it < 1.4 * without
    if where == "high":
        assert max(with_it, two_sided) < without / 20


def test_a_side_that_no_draw_met_leaves_the_error_unknown():
    joint = JOINTS["high"]
    draws = drawn(joint, counts_of("two-sided", 240), runs=3)
    missed = replace(draws, log_joint=np.where(draws.f < M, -np.inf, draws.log_joint))
    found = estimated("two-sided", missed)
    np.testing.assert_array_equal(found.value, M)
    assert np.isnan(found.standard_error).all()
    assert (found.verdict.level != "reliable").all()


def test_the_proposal_for_the_other_side_is_asked_for_by_name():
    with pytest.raises(ValueError, match=r"^estimator: two-sided needs q1_plus and q1_complement"):
        ESTIMATORS["two-sided"].used((0, 2))
    draws = drawn(JOINTS["low"], {0: 4, COMPLEMENT: 4}, runs=1)
    with pytest.raises(ValueError, match=r"^f_max: expected an upper bound of f, got None"):
        replace(draws, f_max=None).complement()


def test_the_whole_budget_is_spent():
    present, totals = (0, 2, COMPLEMENT), [3, 10, 100]
    for name, least in (("two-sided", 2), ("amci-cv", 3)):
        chosen = resolve(name)
        assert chosen.least(present) == least
        np.testing.assert_array_equal(chosen.counts(totals, present).sum(axis=1), totals)
