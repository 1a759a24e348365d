import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from amci_core.diagnostics import LEVELS
from app import export
from app.amortization import plane_of
from app.pictures import densities
from app.state import State
from app.store import store_of


@pytest.fixture(scope="module")
def store():
    return store_of("tail-1d")


@pytest.fixture(scope="module")
def choice(store):
    state = State(store.problem.name)
    state.param.update(runs=4, draws=8, variant="oracle")
    return state.choice


def test_curves_are_one_line_for_every_estimator_and_budget(store, choice):
    *_, curves = store.error_curves(choice)
    lines = list(csv.DictReader(export.curves_csv(curves)))
    assert len(lines) == len(curves.by_name) * len(curves.budgets)
    bound = [line for line in lines if line["estimator"] == "bound"]
    np.testing.assert_allclose(
        [float(line["remse_mean"]) for line in bound], curves["bound"].remse
    )
    assert [int(line["draws"]) for line in bound] == curves.budgets.tolist()


def test_densities_are_one_line_for_every_point(store, choice):
    found = densities(store.problem, store.proposals(choice), *choice.pair)
    lines = list(csv.DictReader(export.densities_csv(found)))
    for name in ("x", "target", "posterior", "q1", "q2", "log_ratio"):
        values = [float(line[name]) for line in lines]
        np.testing.assert_array_equal(values, getattr(found, name))


def parse(text):
    return json.loads(text, parse_constant=lambda constant: pytest.fail(constant))


def test_everything_is_valid_json_also_with_infinite_and_missing_numbers(store, choice):
    *_, reuse = store.reuse(choice)
    text = export.everything_json(
        choice,
        densities=densities(store.problem, store.proposals(choice), *choice.pair),
        curves=None,
        reuse=reuse,
        summary=next(store.summary(choice)),
        diagnosis=next(store.diagnosis(choice)),
    ).read()
    content = parse(text)
    assert content["choice"]["theta"] == list(choice.theta)
    assert content["error_curves"] is None
    assert np.shape(content["reuse"]["remse"]) == reuse.remse.shape
    assert content["reuse"]["predicted_remse"]["optimum"] == reuse.predicted(*reuse.optimum)
    assert sum(content["reuse"]["best_draws_q1_q2"]["optimum"]) == sum(reuse.counts)
    assert content["amortization_map"] is None
    assert content["summary"]["rows"][0]["name"] == "amci"
    # Exact proposals have weights without a tail.
    assert [term["k"] for term in content["diagnosis"]["terms"]] == [None, None]
    assert len(content["diagnosis"]["terms"][0]["x"]) == content["diagnosis"]["draws"]


def test_everything_says_of_every_term_what_its_gauge_shows(store, choice):
    *_, found = store.diagnosis(choice)
    text = export.everything_json(
        choice, densities=None, curves=None, reuse=None, summary=None, diagnosis=found
    ).read()
    content = parse(text)["diagnosis"]
    for term, expected in zip(content["terms"], found.terms, strict=True):
        assert term["name"] == expected.name
        assert term["threshold"] == expected.threshold
        assert term["effective"] == expected.effective
        assert term["level"] in LEVELS
    assert content["level"] == found.level
    assert content["along"]["high"] == found.along.high.tolist()


def test_everything_has_the_map_and_what_it_is_a_map_of(store, choice):
    state = State(store.problem.name)
    plane = plane_of(store.problem, state.choice, ("y", "theta"))
    # A map that no other test has had: a store keeps maps, and gives them whole.
    plane = replace(plane, choice=replace(plane.choice, seed=87))
    first, *_, last = store.amortization(plane.choice, plane.along)
    for found in (first, last):
        text = export.everything_json(
            choice,
            densities=None,
            curves=None,
            reuse=None,
            summary=None,
            amortization=found,
            plane=plane,
        ).read()
        shown = parse(text)["amortization_map"]
        assert shown["done_cases"] == np.sum(shown["done"]) == found.cases
        variance = np.array(shown["relative_variance"], dtype=float)
        np.testing.assert_array_equal(variance, found.relative_variance)
        assert [shown[axis]["variable"] for axis in ("x", "y")] == ["y", "theta"]
        assert shown["x"]["values"] == found.x.values.tolist()
        # JSON has no number for a k-hat of -inf or NaN.
        known = np.isfinite(found.pareto_k)
        np.testing.assert_array_equal(np.not_equal(shown["pareto_k"], None), known)
        # The map may be of other proposals than those that were chosen since.
        assert shown["proposals"]["variant"] == state.variant != choice.variant
    assert last.done.all()
