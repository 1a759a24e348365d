import math

import numpy as np
import pytest
from amci_explorer.numbers.diagnosis import diagnosis
from amci_explorer.numbers.play import playback
from amci_explorer.numbers.summary import summarize
from amci_explorer.text import number
from amci_explorer.views.layout import HTML
from imperfect import imperfect
from scipy.stats import norm

import amci_core as amci


@pytest.fixture(scope="module")
def problem():
    return amci.problem("tail-1d")


def summary(problem, proposals, y=1.0, theta=3.0, draws=64):
    return summarize(problem, proposals, y=y, theta=theta, draws=draws, seed=0)


def of(found, name):
    return next(row for row in found.rows if row.name == name)


@pytest.fixture(scope="module")
def oracle():
    return amci.load_proposals("tail-1d", variant="oracle")


def test_every_estimator_gets_the_same_number_of_draws(problem, oracle):
    found = summary(problem, oracle, draws=20)
    assert {row.name: row.draws for row in found.rows} == dict.fromkeys(
        (
            *("amci", "amci-cv", "snis-q2"),
            *("snis-qm", "snis-qm-stratified", "snis-q1"),
        ),
        40 + 6,
    )
    assert (found.total, found.judging) == (40, 6)


def test_rows_are_the_estimates_of_the_core(problem):
    found = summary(problem, imperfect(), theta=0.5)
    expected = amci.estimate(
        problem, imperfect(), 1.0, 0.5, draws=146, estimator="snis-q2", seed=0
    )
    row = of(found, "snis-q2")
    assert (row.value, row.standard_error) == (expected.value, expected.standard_error)
    with_control = amci.estimate(problem, imperfect(), 1.0, 0.5, draws=146, seed=0)
    assert of(found, "amci-cv").value == with_control.value
    assert row.relative_error == pytest.approx(row.value / problem.truth(1.0, 0.5) - 1)


def test_exact_proposals_are_called_exact(problem, oracle):
    found = summary(problem, oracle)
    assert "it is exact" in found.about("E1_plus")
    assert found.rows[0].remark == "exact up to rounding"


def test_a_q2_that_sees_nothing_is_said_to(problem, oracle):
    found = summary(problem, oracle)
    assert found.hits == 0
    assert found.about("E2").startswith("0 of 128 draws from q₂ lie above θ: q₂ alone says")
    assert "the estimate is 0" in of(found, "snis-q2").remark


def test_draws_above_the_threshold_are_counted(problem, oracle):
    found = summary(problem, oracle, y=3.0, theta=0.1)
    # mu = 0.976: 128 draws, within 4 standard deviations of a binomial.
    assert abs(found.hits - 125) < 7
    assert f"{found.hits} of 128 draws from q₂ lie above θ" in found.about("E2")


def test_an_answer_that_cannot_know_how_wrong_it_is_says_so(problem, oracle):
    # All draws of SNIS q1 lie above the threshold, and f is 1 at each.
    row = of(summary(problem, oracle), "snis-q1")
    assert row.value == pytest.approx(1)
    assert "its error is unknown" in row.remark


def test_an_estimate_of_a_probability_above_one_is_said_to_lie_outside(problem):
    row = summary(problem, amci.load_proposals("tail-1d"), y=4.0, theta=0.0, draws=64).rows[0]
    assert row.value > 1
    assert row.remark.startswith("outside [0, 1], where f lies: the ratio of two separate")
    # Phi(2 sqrt(2)), as it is not said of a value.
    assert abs(row.value - norm.cdf(2 * math.sqrt(2))) < 4 * row.standard_error


def test_a_standard_error_beyond_the_range_of_f_is_called_unusable(in_a_loop):
    tail, paper = amci.problem("tail-1d"), amci.load_proposals("tail-1d", variant="paper")
    expected = amci.estimate(tail, paper, 1.0, 3.5, draws=146, estimator="snis-q1")
    # The standard deviation of a value between 0 and 1 is at most a half.
    assert expected.standard_error > 1

    def body(turned):
        turned.does = True
        turned.explorer.state.commit()
        shown = "".join(p.object for p in turned.explorer.summary.panel.select(HTML))
        row = next(each for each in shown.split("<tr>") if "</i>SNIS q₁<" in each)
        assert f"<td>{number(float(expected.value), 4)}</td><td>unusable</td>" in row
        assert "do not trust: all draws together" in row
        # A download holds the number.
        (row,) = (each for each in turned.explorer.summary.shown.value.rows if "q1" in each.name)
        assert row.standard_error == expected.standard_error

    in_a_loop(body, {"y": "1", "theta": "3.5", "variant": "paper", "runs": "4"})


def test_strip_diagnostics_and_draw_by_draw_say_the_same_of_the_same_draws(problem):
    for variant, y, theta, draws in (("spline", 1.0, 3.0, 64), ("paper", -4.0, 5.0, 64)):
        proposals = amci.load_proposals("tail-1d", variant=variant)
        found = summary(problem, proposals, y, theta, draws)
        checked = problem.check(y, theta)
        seen = diagnosis(problem, proposals, y=checked[0], theta=checked[1], draws=draws, seed=0)
        assert (found.verdict, found.seen) == (seen.level, seen.draws)
        assert seen.text.startswith(found.verdict)
        assert found.reason == seen.text
        assert found.effective == {term.name: term.effective for term in seen.terms}
        played = playback(problem, proposals, y, theta, draws=draws)
        np.testing.assert_allclose(played.error[draws - 1], found.rows[0].standard_error)
        assert played.estimate[draws - 1] == pytest.approx(found.rows[0].value)


def test_what_the_draws_cannot_tell_is_not_judged(problem):
    # By quadrature, q1 misses 73 % of g, and its relative ESS is 3e-31.
    found = summary(problem, amci.load_proposals("tail-1d", variant="paper"), -4.0, 5.0)
    assert found.effective["E1_plus"] < 1
    assert "below 1" in found.about("E1_plus")
    # 130 standard errors off, as from draws that miss most of g.
    row = of(found, "snis-qm-stratified")
    assert abs(row.value - found.mu.value) > 100 * row.standard_error
    assert row.doubt == "not judged"
    assert row.remark.startswith("use more draws: only about 2.0 draws")
    # With control variates the same draws say more.
    amci_error, error = (abs(of(found, name).relative_error) for name in ("amci", "amci-cv"))
    assert error < amci_error - 0.2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.02348, "0.0235"),
        (2.0348e-4, "2.03 × 10⁻⁴"),
        (-3.0e-12, "−3.00 × 10⁻¹²"),
        (12345.0, "1.23 × 10⁴"),
        (4980.0, "4,980"),
        (-2.5, "−2.5"),
        (math.nan, "?"),
        (math.inf, "∞"),
    ],
)
def test_numbers_are_written_for_reading(value, text):
    assert number(value) == text
