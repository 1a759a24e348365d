"""Estimates to a stated precision."""

import numpy as np
import pytest
from imperfect import imperfect

import amci_core as amci

PROBLEM = amci.problem("tail-1d")
IMPERFECT = imperfect()


@pytest.mark.parametrize("how", [{"estimator": "snis-qm"}, {"points": "sobol"}])
def test_the_precision_asked_for_is_reached_and_true(how):
    y, theta = PROBLEM.cases(60, seed=0)
    theta = np.minimum(theta, abs(y) / 2)  # where SNIS can do it
    found = amci.estimate_to(PROBLEM, IMPERFECT, y, theta, relative_error=0.05, **how)
    assert found.reached.all()
    assert (found.relative_half_width() <= 0.05).all()
    within = abs(found.value / PROBLEM.truth(y, theta) - 1) < 0.05
    # At the half-width of a 95 % interval, errors are within it 95 times of 100.
    assert within.mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 60)


def test_a_batch_has_the_figures_of_each_case():
    y, theta = PROBLEM.cases(60, seed=0)
    y, theta = y.reshape(6, 10, 1), theta.reshape(6, 10, 1)
    found = amci.estimate_to(PROBLEM, IMPERFECT, y, theta, relative_error=0.05, draws=200_000)
    shapes = {v.shape for v in (found.value, found.draws, found.reached, found.verdict.codes)}
    assert shapes == {(6, 10)}
    z = (found.value - PROBLEM.truth(y, theta)) / found.standard_error
    assert (abs(z) < 4).all()
    lower, upper = found.interval(0.95)
    np.testing.assert_allclose((upper - lower) / 2 / found.value, found.relative_half_width())
    # Each goes on for as long as it needs: 128 draws, and twice as many each time.
    assert set(np.unique(found.draws)) <= {128 * (2**k - 1) for k in range(1, 11)}
    assert found.draws.max() > 4 * found.draws.min()


def test_it_gives_up_within_the_most_draws():
    found = amci.estimate_to(PROBLEM, IMPERFECT, 1.0, 3.0, relative_error=1e-4, draws=3000)
    assert not found.reached
    assert found.value.shape == ()
    # 128 + 256 + 512 + 1,024, and what is left
    assert found.draws == 3000
    few = amci.estimate_to(PROBLEM, IMPERFECT, 1.0, 3.0, draws=20)
    assert (few.draws, few.verdict.level) == (20, "use more draws")


def test_an_estimate_that_is_not_reliable_is_never_precise_enough():
    paper = amci.load_proposals("tail-1d", variant="paper")
    y, theta = [[1.0], [-4.0]], [[0.5], [5.0]]
    found = amci.estimate_to(PROBLEM, paper, y, theta, relative_error=0.02, draws=2000)
    assert found.reached.tolist() == [True, False]
    assert found.verdict[0].level == "reliable"
    assert found.verdict[1].level != "reliable"


def test_a_batch_may_have_no_y_or_no_theta():
    for name in ("peak", "cancer"):
        problem = amci.problem(name)
        y, theta = problem.cases(3, seed=2)
        found = amci.estimate_to(name, None, y, theta, relative_error=0.1)
        assert found.reached.all()
        np.testing.assert_allclose(found.value, problem.truth(y, theta), rtol=0.3)


def test_it_prints_as_an_estimate_does_and_what_it_took():
    found = amci.estimate_to(PROBLEM, IMPERFECT, 1.0, 3.0, relative_error=0.05)
    value, interval, verdict, last = str(found).splitlines()
    assert value.startswith("mu = 0.0002")
    assert interval.startswith("95 % interval: 0.0001")
    assert verdict == str(found.verdict)
    assert last == f"as precise as requested: yes, after {found.draws:,} draws"
    several = amci.estimate_to(PROBLEM, None, [[1.0], [2.0]], 3.0)
    assert repr(several).startswith("2 estimates of mu, shape (2,): 0.0002")
    assert repr(several).endswith("as precise as requested: 2 of 2, after 256 draws")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"relative_error": 0}, r"relative_error: expected a number from 1e-15 to 1, got 0"),
        ({"relative_error": 1.01}, r"relative_error: expected .* to 1, got 1.01"),
        ({"draws": 1}, r"draws: expected at least 2, one per proposal, got 1"),
        ({"estimator": "best"}, r"estimator: expected one of amci-cv, .* got 'best'"),
    ],
)
def test_bad_arguments_of_a_precision_are_named(changed, message):
    arguments = {"problem": PROBLEM, "proposals": IMPERFECT, "y": 1.0, "theta": 3.0} | changed
    with pytest.raises(ValueError, match=f"^{message}"):
        amci.estimate_to(**arguments)
