r"""The headline follows from numbers: wins, losses, verdicts and what is not known."""

import dataclasses
import math
import re
from functools import cache

import numpy as np
import pytest

import amci_core as amci
from amci_core.models import Problem
from app.state import State
from app.store import store_of
from app.words.headline import awaited, headline, how_typical


@cache
def numbers(problem, *, runs=60, **choices):
    state = State(problem)
    state.move(y=choices.pop("y", None), theta=choices.pop("theta", None))
    state.set(runs=runs, **choices)
    store = store_of(problem)
    *_, summary = store.summary(state.choice)
    *_, curves = store.error_curves(state.choice)
    return summary, curves


def test_a_large_mismatch_is_won_by_orders_and_the_numbers_are_those_of_the_curves():
    summary, curves = numbers("tail-1d", y=1.0, theta=3.0, runs=1000)
    found = headline(summary, curves)
    assert found.level == "reliable"
    # A few runs decide the mean error, so medians are compared.
    at = list(curves.budgets).index(128)
    names = ("amci", "snis-qm")
    own, rival = (100 * math.sqrt(float(curves[name].remse_median[at])) for name in names)
    assert found.text == (
        f"128 draws: AMCI is typically off by {own:.2g} %, SNIS qₘ typically by {rival:.2g} %."
    )
    assert rival > 500 * own


def test_exact_proposals_are_called_exact():
    found = headline(*numbers("tail-1d", y=1.0, theta=3.0, variant="oracle"))
    assert "AMCI is exact (Theorem 1)" in found.text


def test_a_loss_is_told_against_what_was_measured_not_against_the_bound():
    summary, curves = numbers("tail-1d", y=4.0, theta=0.0)
    found = headline(summary, curves)
    assert "There is little mismatch here" in found.text
    # SNIS q1 answers 1 in all runs: its error is no error of an estimate.
    assert "SNIS q₁" not in found.text
    assert "SNIS q₂" in found.text
    bound = math.sqrt(float(curves["bound"].remse[list(curves.budgets).index(128)]))
    assert f"{100 * bound:.2g} %" not in found.text


def test_errors_of_one_kind_are_compared():
    # By means where the runs determine all of them, else all by medians.
    summary, curves = numbers("cancer", y=(900.0, 60.0))
    text = headline(summary, curves).text
    said = [float(each) / 100 for each in re.findall(r"by ([\d.]+) %", text)]
    at = list(curves.budgets).index(summary.total)
    amci, q2, auto = (curves[name] for name in ("amci", "snis-q2", "auto"))
    assert len(said) == text.count("typically") == 3
    assert not all(bool(c.mean_judged[at]) for c in (amci, q2, auto))
    expected = [math.sqrt(c.squared.quartiles[1][at]) for c in (amci, q2, auto)]
    np.testing.assert_allclose(said, expected, rtol=0.06)
    summary, curves = numbers("tail-1d", y=1.0, theta=1.0, runs=100)
    at = list(curves.budgets).index(summary.total)
    assert curves["amci"].mean_judged[at]
    error = math.sqrt(curves["amci"].squared.mean[at])
    assert f"AMCI is off by {100 * error:.2g} %" in headline(summary, curves).text


def test_a_median_is_never_set_against_the_bound():
    summary, curves = numbers("gain-loss", y=1.0, theta=-1.5)
    at = list(curves.budgets).index(summary.total)
    judged = bool(curves["amci"].mean_judged[at])
    text = headline(summary, curves).text
    assert ("at least" in text) <= judged
    assert ("times less" in text) <= judged


def test_the_bound_is_not_told_of_a_few_draws():
    summary, curves = numbers("peak", theta=(0.5, 0.5, 0.5), draws=2)
    assert "at least" not in headline(summary, curves).text


def test_what_cannot_be_trusted_is_said_first_in_the_verdicts_words():
    found = headline(*numbers("tail-1d", y=-4.0, theta=5.0, variant="paper"))
    assert found.level == "do not trust"
    assert found.text.startswith("Do not trust AMCI here.")
    assert "q1" in found.reason


def test_where_sharing_helps_it_is_offered():
    found = headline(*numbers("cancer", y=(900.0, 60.0), runs=60))
    assert found.shares
    assert "with shared samples AMCI" in found.text


def test_a_reliable_verdict_on_a_useless_estimate_is_not_green():
    summary, curves = numbers("tail-1d", y=-4.0, theta=5.0, variant="paper")
    believed = dataclasses.replace(summary, verdict="reliable")
    assert headline(believed, curves).level == "use more draws"


def test_without_a_relative_error_none_is_told():
    found = headline(*numbers("gain-loss", y=1.0, theta=0.5))
    assert "μ is 0 here" in found.text


def test_before_the_first_draw_it_says_what_mu_is_or_that_it_is_not_known():
    assert "1 posterior draw in 4,900" in awaited(-8.5, "1 posterior draw in 4,900").text
    assert "not known" in awaited(math.nan, "").text
    assert awaited(math.log(0.25), "the probability").text.startswith("The probability is 0.25")


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.5, "A typical observation: 50 %"),
        (0.004, "one observation in 200"),
        (0.0005, "one observation in 2,000"),
        (0.0, "Fewer than one observation in 2,500"),
        (0.99, "near the middle: 99 %"),
    ],
)
def test_how_typical_a_case_is_comes_to_one_digit(share, words):
    assert words in how_typical(share)


def test_nothing_is_said_of_a_problem_without_an_observation():
    assert how_typical(math.nan) == ""
    assert isinstance(amci.problem("peak"), Problem)
