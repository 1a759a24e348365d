"""Estimates to a stated precision, to a stated total, and those that decide for themselves."""

from dataclasses import replace

import numpy as np
import pytest
from imperfect import imperfect

import amci_core as amci
from amci_core.estimation.result import Estimate

PROBLEM = amci.problem("tail-1d")
IMPERFECT = imperfect()


@pytest.mark.parametrize("estimator", ["amci-cv", "amci"])
def test_the_precision_asked_for_is_reached_and_true(estimator):
    y, theta = PROBLEM.cases(60, seed=0)
    how = {"relative_error": 0.05, "estimator": estimator, "max_draws": 200_000}
    found = amci.estimate_to(PROBLEM, IMPERFECT, y, theta, **how)
    assert found.reached.all()
    assert (found.relative_half_width <= 0.05).all()
    within = abs(found.value / PROBLEM.truth(y, theta) - 1) < 0.05
    # At the half-width of a 95 % interval, errors are within it 95 times of 100.
    assert within.mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 60)
    for case in range(4):
        alone = amci.estimate_to(PROBLEM, IMPERFECT, y[case], theta[case], **how, seed=case)
        assert alone.reached
        assert alone.relative_half_width <= 0.05
        assert alone.draws == alone.estimate.draws == alone.steps[-1][0]
        assert alone.value == alone.estimate.value


def test_it_gives_up_at_the_most_draws_and_says_so():
    seen = []
    found = amci.estimate_to(
        PROBLEM,
        IMPERFECT,
        1.0,
        3.0,
        relative_error=1e-4,
        max_draws=3000,
        progress=lambda draws, width: seen.append((draws, width)),
    )
    assert not found.reached
    assert found.draws <= 3000
    assert tuple(seen) == found.steps


def test_where_one_draw_would_do_it_stops_after_the_first_look():
    oracle = amci.load_proposals("tail-1d", variant="oracle")
    found = amci.estimate_to(PROBLEM, oracle, 1.0, 3.0)
    # An eighth as many of q1_complement, and of the defensive density.
    assert found.counts.tolist() == [128, 0, 128, 42, 37]
    assert found.estimate.value == pytest.approx(float(PROBLEM.truth(1.0, 3.0)), rel=1e-9)


def test_a_batch_reaches_the_precision_and_says_what_each_pair_took():
    y, theta = PROBLEM.cases(60, seed=0)
    seen = []
    found = amci.estimate_to(
        PROBLEM,
        IMPERFECT,
        y.reshape(6, 10, 1),
        theta.reshape(6, 10, 1),
        relative_error=0.05,
        max_draws=200_000,
        progress=lambda draws, width: seen.append((draws, width)),
    )
    assert found.value.shape == found.reached.shape == found.verdict.codes.shape == (6, 10)
    assert found.counts.shape == (6, 10, 5)
    assert tuple(seen) == found.steps
    assert found.draws.sum() == found.steps[-1][0]
    lower, upper = found.interval
    np.testing.assert_allclose((upper - lower) / 2 / found.value, found.relative_half_width)
    # Each goes on for as long as it needs.
    assert found.draws.max() > 4 * found.draws.min()
    with pytest.raises(ValueError, match=r"single case that draws answered, got batch \(6, 10\)"):
        _ = found.estimate


def test_pairs_whose_weights_hardly_vary_take_a_quick_look():
    problem, proposals = amci.problem("tail-5d"), amci.load_proposals("tail-5d")
    y, theta = problem.cases(300, seed=1)
    found = amci.estimate_to(problem, proposals, y, theta)
    # Now and then an estimate is more than four standard errors off.
    assert found.reached.mean() > 0.99
    truth = problem.truth(y, theta)
    # The truth is known to 5e-5.
    assert (abs(found.value / truth - 1) < 0.01).mean() > 0.95
    covered = (found.interval[0] < truth) & (truth < found.interval[1])
    assert covered.mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 300)
    total = found.draws
    assert set(np.unique(total)) >= {83, 335}
    assert (total == 83).mean() > 0.8


def test_a_batch_says_of_each_pair_what_speaks_against_it():
    paper = amci.load_proposals("tail-1d", variant="paper")
    found = amci.estimate_to(
        PROBLEM, paper, [[1.0], [-4.0]], [[0.5], [5.0]], relative_error=0.02, max_draws=2000
    )
    assert found.reached[0]
    assert found.verdict[0].level == "reliable"
    assert not found.verdict[0].reasons
    assert found.verdict[1].level != "reliable"
    alone = amci.estimate_to(PROBLEM, paper, -4.0, 5.0, relative_error=0.02, max_draws=2000)
    assert found.verdict[1].level == alone.verdict.level
    assert found.verdict[1].text.startswith(str(alone.verdict.level))


def test_a_batch_may_have_no_y_or_no_theta():
    for name in ("peak", "cancer", "gain-loss"):
        problem, proposals = amci.problem(name), amci.load_proposals(name)
        y, theta = problem.cases(3, seed=2)
        found = amci.estimate_to(problem, proposals, y, theta, relative_error=0.1)
        assert found.reached.all()
        np.testing.assert_allclose(found.value, problem.truth(y, theta), rtol=0.3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"relative_error": 0}, r"relative_error: expected a number from 1e-15 to 1, got 0"),
        ({"relative_error": 1.01}, r"relative_error: expected .* to 1, got 1.01"),
        ({"max_draws": 10}, r"max_draws: expected a whole number from 293 "),
        ({"estimator": "snis-q2"}, r"estimator: expected one of amci-cv, amci, got"),
        ({"estimator": np.eye(3)}, r"estimator: expected one of amci-cv, amci, got"),
    ],
)
def test_bad_arguments_of_a_precision_are_named(changed, message):
    arguments = {"problem": PROBLEM, "proposals": IMPERFECT, "y": 1.0, "theta": 3.0} | changed
    with pytest.raises(ValueError, match=f"^{message}"):
        amci.estimate_to(**arguments)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"shift": "much"}, r"shift: expected a finite number, got 'much'"),
        ({"estimator": "reuse"}, r"estimator: expected reuse:ALPHA:BETA, got 'reuse'"),
        ({"estimator": "reuse:a:b"}, r"estimator: expected reuse:ALPHA:BETA, got 'reuse:a:b'"),
    ],
)
def test_bad_arguments_of_an_estimate_are_named(changed, message):
    arguments = {"problem": PROBLEM, "proposals": IMPERFECT, "y": 1.0, "theta": 3.0} | changed
    with pytest.raises(ValueError, match=f"^{message}"):
        amci.estimate(**arguments)


def test_what_is_refused_is_tried_in_other_ways_until_one_is_reliable():
    paper = amci.load_proposals("tail-1d", variant="paper")
    y, theta = PROBLEM.cases(40, seed=3)
    how = {"relative_error": 0.05, "max_draws": 1500}
    before = amci.estimate_to(PROBLEM, paper, y, theta, **how)
    found = amci.estimate_to(PROBLEM, paper, y, theta, **how, escalate=True)
    kept = before.verdict.level == "reliable"
    assert (found.answered_by[kept] == "draws").all()
    assert (found.value[kept] == before.value[kept]).all()
    assert set(found.answered_by[~kept]) == {"defensive draws", "reference value"}
    assert (found.spent["draws"] == before.draws).all()
    for way in ("defensive draws", "reference value"):
        tried = found.spent[way] > 0
        assert (tried >= (found.answered_by == way)).all()
        assert not tried[kept].any()
    assert (found.verdict.level == "reliable").all()
    z = (found.value - PROBLEM.truth(y, theta)) / found.standard_error
    assert (abs(z) < 3).mean() >= 0.95
    case = int(np.flatnonzero(found.answered_by == "reference value")[0])
    alone = amci.estimate_to(PROBLEM, paper, y[case], theta[case], **how, escalate=True)
    assert alone.value.shape == ()
    assert alone.verdict.text.startswith("reliable")


def test_what_nothing_answers_says_why():
    class Nothing(type(PROBLEM)):
        def f(self, x, theta):
            return 0 * x.sum(-1)

    found = amci.estimate_to(
        Nothing(1), IMPERFECT, 1.0, 3.0, max_draws=1000, escalate=True, relative_error=0.1
    )
    assert found.verdict.text.startswith("do not trust: the reference value fails: ")
    assert not found.reached


@pytest.mark.parametrize("y", [1.0, [[1.0], [0.0], [-1.0]]])
def test_what_is_not_to_be_trusted_is_never_reached(y, monkeypatch):
    """The intervals are narrow after few draws, but the verdict stays what it is."""
    doubted = Estimate.verdict.func

    def no_trust(self):
        found = doubted(self)
        why = np.empty(found.codes.shape, dtype=object)
        why.fill(("of no avail",))
        return replace(found, codes=np.full_like(found.codes, 2), why=why)

    monkeypatch.setattr(Estimate, "verdict", property(no_trust))
    found = amci.estimate_to(PROBLEM, IMPERFECT, y, 0.5, relative_error=0.5)
    assert not found.reached.any()
    assert (found.relative_half_width < 0.5).all()
    # It went on once, with four times the draws, and then gave up.
    assert (abs(found.draws / (4 * 293) - 1) < 0.25).all()
    if np.ndim(y) == 0:
        assert found.text == "no: do not trust: of no avail"


def test_what_is_printed_says_the_answer_whether_it_is_precise_and_the_cost():
    found = amci.estimate_to(PROBLEM, IMPERFECT, 1.0, 3.0, relative_error=0.05)
    said = str(found).splitlines()
    assert "\n".join(said[:3]) == str(found.estimate)
    assert said[3:] == ["as precise as requested: yes", f"cost: draws {int(found.draws):,}"]
    several = amci.estimate_to(PROBLEM, None, [[1.0], [2.0]], 3.0)
    cost = f"cost: draws {several.draws.sum():,}"
    assert repr(several).startswith("2 of 2 estimates of mu are as precise as requested")
    assert repr(several).endswith(cost)
