r"""The line below the pictures, and the table that it unfolds."""

import re

import pytest
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.diagnosis import diagnosis
from amci_explorer.numbers.summary import summarize
from amci_explorer.text import number
from imperfect import imperfect

import amci_core as amci

PROBLEM = amci.problem("tail-1d")


def summary(proposals, y=1.0, theta=3.0, draws=64):
    if isinstance(proposals, str):
        proposals = amci.load_proposals("tail-1d", variant=proposals)
    return summarize(CaseDraws(PROBLEM, proposals, y, theta, draws=draws, seed=0))


def line(card):
    """A card's line without markup."""
    return " ".join(re.sub("<[^>]*>", " ", card._line.object).replace("\u00a0", " ").split())


def row(card, name):
    """An estimator's row of a card's table."""
    return next(each for each in card._table.object.split("<tr>") if f"</i>{name}<" in each)


def test_rows_are_the_estimates_of_the_core_with_as_many_draws():
    found = summary(imperfect(), theta=0.5)
    names = ["amci", "amci-cv", "snis-q2", "snis-qm", "snis-qm-stratified", "snis-q1"]
    assert [row.name for row in found.rows] == names
    assert (found.total, found.judging) == (128, 18)
    assert {row.draws for row in found.rows} == {146}
    for name in names[:3]:
        expected = amci.estimate(PROBLEM, imperfect(), 1.0, 0.5, draws=146, estimator=name, seed=0)
        row = found.row(name)
        assert (row.value, row.standard_error) == (expected.value, expected.standard_error)
        assert row.relative_error == pytest.approx(row.value / PROBLEM.truth(1.0, 0.5) - 1)


def test_remarks_say_what_draws_cannot_tell():
    found = summary("oracle")
    assert found.rows[0].remark == "exact up to rounding"
    # All draws of SNIS q1 lie above the threshold, and f is 1 at each.
    assert "its error is unknown" in found.row("snis-q1").remark
    assert "the estimate is 0" in found.row("snis-q2").remark
    found = summary("spline", y=4.0, theta=0.0)
    assert found.rows[0].value > 1
    assert found.rows[0].remark


@pytest.mark.parametrize(
    ("name", "variant", "y", "theta"),
    [
        ("tail-10d", "spline", 0.5, 1.0),
        ("tail-1d", "spline", 1.0, 3.0),
        ("tail-1d", "paper", -4.0, 5.0),
    ],
)
def test_a_verdict_is_that_of_the_default_estimator_unless_its_draws_contradict_amci(
    name, variant, y, theta
):
    problem, proposals = amci.problem(name), amci.load_proposals(name, variant=variant)
    case = [y] * problem.dim, [theta] * problem.dim
    draws = CaseDraws(problem, proposals, *case, draws=64, seed=0)
    found, seen = summarize(draws), diagnosis(draws)
    assert (found.verdict, found.seen) == (seen.level, seen.draws)
    assert found.effective == {term.name: term.core.smallest_ess for term in seen.terms}
    assert found.verdict == found.row("amci-cv" if variant == "spline" else "amci").verdict
    if variant == "paper":
        assert found.verdict == "do not trust"
        assert found.reason == "all draws together contradict it"


def test_the_line_holds_the_figures_and_unfolds_a_bar_for_every_estimator(in_a_loop):
    def body(turned):
        turned.does = True
        turned.explorer.state.commit()
        card = turned.explorer.summary
        rows, best = card.shown.value.rows, card.shown.value.row("amci-cv")
        text = r"Reliable μ = \(([\d.]+) ± ([\d.]+)\) × 10⁻⁴, truth ([\d.]+) × 10⁻⁴ "
        text += "mismatch 8.5 nats trained in 3 min"
        value, half, truth = map(float, re.fullmatch(text, line(card)).groups())
        assert value == pytest.approx(1e4 * best.value, abs=1e-4)
        assert half == pytest.approx(1e4 * (best.interval_high - best.value), rel=0.1)
        assert truth == pytest.approx(1e4 * PROBLEM.truth(1.0, 3.0), abs=1e-4)
        assert abs(value - truth) < half
        assert not len(card._more)
        card._fold.clicks += 1
        assert card._table in card._more
        assert card._table.object.count("<svg") == len(rows) == card._table.object.count("</svg>")
        # SNIS q1 answers 1: an arrow at the end of the axis.
        assert "M196.0 8l-8 -5v10z" in row(card, "SNIS q₁")
        # The truth is the middle, and AMCI within its interval of it.
        low, high = map(float, re.search(r"M([\d.]+) 8H([\d.]+)", row(card, "AMCI")).groups())
        assert low < 100 < high
        card._fold.clicks += 1
        assert not len(card._more)

    in_a_loop(body, {"y": "1", "theta": "3", "runs": "4"})


def test_an_unreliable_case_says_why_and_leads_to_an_answer(in_a_loop):
    def body(turned):
        turned.does = True
        explorer, card = turned.explorer, turned.explorer.summary
        state = explorer.state
        state.commit()
        said = line(card)
        assert said.startswith("Do not trust all draws together contradict it μ ≈ 1.91 × 10⁻²³")
        assert "error not known" in said
        assert card._find.styles["display"] == ""
        card._find.clicks += 1
        assert explorer.tabs.card.name == "diagnostics"
        state.move(y=1.0, theta=3.5)
        state.commit()
        # The standard deviation of a value between 0 and 1 is at most a half.
        expected = amci.estimate(PROBLEM, "paper", 1.0, 3.5, draws=146, estimator="snis-q1")
        assert expected.standard_error > 1
        cells = f"<td>{number(float(expected.value), 4)}</td><td>unusable</td>"
        assert cells in row(card, "SNIS q₁")
        # A download holds the number.
        assert card.shown.value.row("snis-q1").standard_error == expected.standard_error
        state.set(variant="spline")
        state.move(theta=3.0)
        state.commit()
        assert card._find.styles["display"] == "none"

    in_a_loop(body, {"y": "-4", "theta": "5", "variant": "paper", "runs": "4"})
