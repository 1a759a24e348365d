"""The evaluation card: stored figures, single cases, a small sweep live."""

import csv
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from amci_explorer.compute.results import Result, Results
from amci_explorer.numbers import evaluated
from amci_explorer.problems import registry
from amci_explorer.state.case import Case
from amci_explorer.text import number
from amci_explorer.views import evaluation as views
from amci_explorer.views import export
from amci_explorer.views.evaluation import EvaluationCard
from amci_explorer.views.layout import HTML

import amci_core as amci
from amci_core.io import pretrained_root


def shown(state, found=None):
    """A card with what is stored, or with something else."""
    state.set(card="evaluation")
    card = EvaluationCard(state, Results())
    card.open()
    asked = card.asked(state)
    found = found or evaluated.stored(asked.settings)
    card.take(Result(asked, found, 0.1, complete=True))
    return card


def words(card):
    return " ".join(part.object for part in card.panel.select(HTML))


def test_what_is_stored_is_shown_with_its_origin_and_every_case():
    state = Case("tail-1d")
    card = shown(state)
    told = words(card)
    assert "100 cases drawn from p(y) p(θ), 100 runs each, seed 0" in told
    # By another route: the median over cases of the stored file.
    rows = pd.read_parquet(pretrained_root() / "tail-1d/spline/cases.parquet")
    last = rows[(rows["estimator"] == "amci") & (rows["draws"] == 1000)]
    assert f"AMCI with 1,000 draws: median error {number(last['remse'].median(), 2)}" in told
    assert "below the best that any one proposal can do in 100.0 % of the cases" in told
    state.set(single="snis-qm-stratified")
    own = card.shown.value.cases.by_name["snis-qm-stratified"]["remse"]
    (lines,) = (each for each in card.picture.shown if each.group == "Cases")
    shown_errors = [each.dimension_values("error") for each in lines.split()]
    np.testing.assert_allclose(shown_errors, np.clip(own, 1e-18, 1e3))
    assert "SNIS qₘ stratified with 1,000 draws" in words(card)


@pytest.mark.parametrize(("name", "origin"), [("peak", "p(θ)"), ("cancer", "p(y)")])
def test_cases_are_said_to_come_from_what_a_problem_has_alone(name, origin):
    assert f"cases drawn from {origin}, " in words(shown(Case(name)))


def test_what_has_no_stored_evaluation_says_so():
    state = Case("tail-1d")
    state.set(variant="oracle")
    card = EvaluationCard(state, Results())
    card.open()
    assert card.asked(state) is None
    assert "No evaluation is stored for these proposals. Choose live" in words(card)


def test_live_figures_are_those_of_evaluate(in_a_loop, monkeypatch):
    monkeypatch.setattr(views, "CASES", 3)
    monkeypatch.setattr(views, "RUNS", 8)

    def body(turned):
        turned.does = True
        state = turned.explorer.state
        state.set(card="evaluation")
        state.commit()
        card = turned.explorer.tabs.card
        assert card.shown.asked.what == "stored_evaluation"
        state.set(source="live")
        state.commit()
        expected = amci.evaluate(
            "tail-1d",
            None,
            cases=3,
            runs=8,
            draws=evaluated.TOTALS,
            estimators=registry.swept("tail-1d"),
        )
        found = card.shown.value
        np.testing.assert_equal(dict(found.estimators), expected.estimators)
        assert found.against_bound["amci"][0] == expected.surely_below_bound["amci"]
        # It is of no case: a handle starts nothing.
        before = turned.started.count("evaluation")
        state.move(y=2.0)
        state.commit()
        assert turned.started.count("evaluation") == before

    in_a_loop(body)


def test_without_a_truth_cases_count_from_reference_values_and_others_are_left_out(
    new, monkeypatch
):
    problem, proposals = new(dim=1, nonnegative=True, f="x[..., 0].exp()")
    ys, _ = problem.cases(3, seed=1)
    missing, known = ys[:2], amci.reference_value

    def reference(problem, at, *rest, **options):
        if at in missing:
            raise ValueError("no draw reached E1_plus")
        return known(problem, at, *rest, **options)

    monkeypatch.setattr(evaluated.amci, "reference_value", reference)
    state = Case(problem.name)
    state.set(source="live")
    results = []
    evaluated.live(problem, proposals, cases=3, runs=20, seed=1).run(results.append)
    assert [found.done for found in results] == [1, 2, 3]
    for found in results:
        card = shown(state, found)
        told = words(card)
        assert set(card.frame(found).get("case", [])) <= {2}
        assert f"without a reference value of μ, left out: {found.left_out}." in told
        assert f"{found.done - found.left_out} of 3 cases" in told
    assert "AMCI with 1,000 draws" in told
    assert found.against_bound == {}
    assert found.cases.number.tolist() == [2]
    np.testing.assert_allclose(found.cases.y, ys[2:])
    medians = found.estimators["amci"]["remse_median"]
    # A factor of 100 more draws, up to noise.
    assert medians[3] < medians[1] / 10
    missing, _ = problem.cases(1, seed=1)
    with pytest.raises(ValueError, match="no case has a reference value"):
        evaluated.live(problem, proposals, cases=1, runs=20, seed=1).run()


def test_figures_can_be_taken_home():
    state = Case("gain-loss")
    card = shown(state)
    head, *lines = card.details.csv.callback().read().splitlines()
    assert "problem=gain-loss" in head
    rows = list(csv.DictReader(lines))
    cases = card.shown.value.cases
    assert len(rows) == len(cases) * len(cases.by_name) * 4
    last = [row for row in rows if row["estimator"] == "amci" and row["draws"] == "1000"]
    np.testing.assert_allclose(
        [float(row["remse"]) for row in last], cases.by_name["amci"]["remse"][:, -1]
    )
    assert float(last[0]["y1"]) == cases.y[0, 0]
    content = json.load(export.everything(state, {"evaluation": card.shown}))
    kept = content["results"]["evaluation"]
    assert len(kept["table"]) == len(rows)
    assert (kept["wanted"], kept["table"][0]["remse"]) == (len(cases), None)
    without = replace(card.shown.value, cases=None)
    assert len(export.frame(without)) == 4 * len(without.estimators)
