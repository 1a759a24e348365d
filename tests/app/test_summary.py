r"""The line below the pictures, and the table that it unfolds."""

import math
import re

import numpy as np
import pytest
from amci_explorer.numbers.diagnosis import diagnosis
from amci_explorer.numbers.play import playback
from amci_explorer.numbers.summary import summarize
from amci_explorer.problems import registry
from amci_explorer.text import number
from imperfect import imperfect

import amci_core as amci

PROBLEM = amci.problem("tail-1d")
ORACLE = amci.load_proposals("tail-1d", variant="oracle")
PAPER = amci.load_proposals("tail-1d", variant="paper")


def summary(proposals, y=1.0, theta=3.0, draws=64):
    return summarize(PROBLEM, proposals, y=y, theta=theta, draws=draws, seed=0)


def shown(in_a_loop, query):
    """The card at a case, its line and its table, without markup."""
    found = {}

    def body(turned):
        turned.does = True
        turned.explorer.state.commit()
        card = turned.explorer.summary
        found.update(
            card=card,
            line=re.sub("<[^>]*>", " ", card._line.object).replace("\u00a0", " "),
            table=card._table.object,
        )

    in_a_loop(body, {"runs": "4"} | query)
    return found


def test_rows_are_the_estimates_of_the_core_with_as_many_draws():
    found = summary(imperfect(), theta=0.5)
    names = ["amci", "amci-cv", "snis-q2", "snis-qm", "snis-qm-stratified", "snis-q1"]
    assert [row.name for row in found.rows] == names
    assert (found.total, found.judging) == (128, 18)
    assert {row.draws for row in found.rows} == {146}
    for name in ("snis-q2", "amci-cv"):
        expected = amci.estimate(PROBLEM, imperfect(), 1.0, 0.5, draws=146, estimator=name, seed=0)
        row = found.row(name)
        assert (row.value, row.standard_error) == (expected.value, expected.standard_error)
        assert row.relative_error == pytest.approx(row.value / PROBLEM.truth(1.0, 0.5) - 1)


def test_remarks_say_what_draws_cannot_tell():
    found = summary(ORACLE)
    assert found.rows[0].remark == "exact up to rounding"
    # All draws of SNIS q1 lie above the threshold, and f is 1 at each.
    assert "its error is unknown" in found.row("snis-q1").remark
    assert "the estimate is 0" in found.row("snis-q2").remark


def test_an_estimate_of_a_probability_above_one_is_remarked_upon():
    found = summary(amci.load_proposals("tail-1d"), y=4.0, theta=0.0)
    assert found.rows[0].value > 1
    assert found.rows[0].remark


def test_a_verdict_is_that_of_the_default_estimator_unless_its_draws_contradict_amci():
    for name, y, theta in (("tail-10d", 0.5, 1.0), ("tail-1d", 1.0, 3.0), ("tail-1d", 4.0, 0.0)):
        problem, proposals = amci.problem(name), registry.proposals(name)
        y, theta = (
            None if v is None else np.full(v.dim, c)
            for v, c in ((problem.y, y), (problem.theta, theta))
        )
        found = summarize(problem, proposals, y=y, theta=theta, draws=64, seed=0)
        assert found.verdict == found.row("amci-cv").verdict
    found = summary(PAPER, -4.0, 5.0)
    assert found.verdict == found.rows[0].verdict == "do not trust"
    assert found.reason == "all draws together contradict it"


def test_figures_are_those_of_diagnostics_and_draw_by_draw():
    for proposals, y, theta in ((amci.load_proposals("tail-1d"), 1.0, 3.0), (PAPER, -4.0, 5.0)):
        found = summary(proposals, y, theta)
        y, theta = PROBLEM.check(y, theta)
        seen = diagnosis(PROBLEM, proposals, y=y, theta=theta, draws=64, seed=0)
        assert (found.rows[0].verdict, found.seen) == (seen.level, seen.draws)
        assert found.effective == {term.name: term.effective for term in seen.terms}
        played = playback(PROBLEM, proposals, y, theta, draws=64)
        np.testing.assert_allclose(played.error[63], found.rows[0].standard_error)
        assert played.estimate[63] == pytest.approx(found.rows[0].value)


def test_the_line_holds_verdict_interval_truth_mismatch_and_training(in_a_loop):
    found = shown(in_a_loop, {"y": "1", "theta": "3"})
    row = found["card"].shown.value.row("amci-cv")
    value, half, truth = (
        float(each)
        for each in re.search(
            r"μ = \(([\d.]+) ± ([\d.]+)\) × 10⁻⁴, truth ([\d.]+)", re.sub(" +", " ", found["line"])
        ).groups()
    )
    assert value == pytest.approx(1e4 * row.value, abs=1e-4)
    assert half == pytest.approx(1e4 * (row.interval_high - row.value), rel=0.1)
    assert truth == pytest.approx(1e4 * PROBLEM.truth(1.0, 3.0), abs=1e-4)
    assert abs(value - truth) < half
    line = " ".join(found["line"].split())
    assert line.startswith("Reliable μ")
    assert line.endswith("mismatch 8.5 nats trained in 3 min")


def test_an_unreliable_case_says_why_and_leads_to_an_answer(in_a_loop):
    def body(turned):
        turned.does = True
        explorer = turned.explorer
        explorer.state.commit()
        card = explorer.summary
        assert card._find.styles["display"] == ""
        card._find.clicks += 1
        assert explorer.tabs.card.name == "diagnostics"
        explorer.state.set(variant="spline")
        explorer.state.move(y=1.0, theta=3.0)
        explorer.state.commit()
        assert card._find.styles["display"] == "none"

    query = {"y": "-4", "theta": "5", "variant": "paper"}
    line = " ".join(shown(in_a_loop, query)["line"].split())
    assert line.startswith("Do not trust all draws together contradict it μ ≈ 1.91 × 10⁻²³")
    assert "error not known" in line
    in_a_loop(body, query | {"runs": "4"})


def test_the_table_unfolds_with_a_bar_for_every_estimator(in_a_loop):
    def body(turned):
        turned.does = True
        turned.explorer.state.commit()
        card = turned.explorer.summary
        assert not len(card._more)
        card._fold.clicks += 1
        assert card._table in card._more
        rows = card.shown.value.rows
        assert card._table.object.count("<svg") == len(rows) == card._table.object.count("</svg>")
        # SNIS q1 answers 1: an arrow at the end of the axis.
        (row,) = (each for each in card._table.object.split("<tr>") if "</i>SNIS q₁<" in each)
        assert "M196.0 8l-8 -5v10z" in row
        # The truth is the middle, and AMCI within its interval of it.
        (row,) = (each for each in card._table.object.split("<tr>") if "</i>AMCI<" in each)
        low, high = map(float, re.search(r"M([\d.]+) 8H([\d.]+)", row).groups())
        assert low < 100 < high
        card._fold.clicks += 1
        assert not len(card._more)

    in_a_loop(body, {"y": "1", "theta": "3", "runs": "4"})


def test_a_standard_error_beyond_the_range_of_f_is_called_unusable(in_a_loop):
    expected = amci.estimate(PROBLEM, PAPER, 1.0, 3.5, draws=146, estimator="snis-q1")
    # The standard deviation of a value between 0 and 1 is at most a half.
    assert expected.standard_error > 1
    found = shown(in_a_loop, {"y": "1", "theta": "3.5", "variant": "paper"})
    row = next(each for each in found["table"].split("<tr>") if "</i>SNIS q₁<" in each)
    assert f"<td>{number(float(expected.value), 4)}</td><td>unusable</td>" in row
    # A download holds the number.
    assert found["card"].shown.value.row("snis-q1").standard_error == expected.standard_error


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
