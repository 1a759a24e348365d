import csv
import json

import numpy as np
import pytest

from app import export
from app.state import State
from app.store import COLUMNS, store_of


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
    densities = store.densities(choice)
    lines = list(csv.DictReader(export.densities_csv(densities)))
    for name in COLUMNS:
        values = [float(line[name]) for line in lines]
        np.testing.assert_array_equal(values, getattr(densities, name))


def test_everything_is_valid_json_also_with_infinite_and_missing_numbers(store, choice):
    *_, reuse = store.reuse(choice)
    text = export.everything_json(
        choice,
        densities=store.densities(choice),
        curves=None,
        reuse=reuse,
        summary=next(store.summary(choice)),
        diagnosis=next(store.diagnosis(choice)),
    ).read()
    content = json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
    assert content["choice"]["theta"] == list(choice.theta)
    assert content["error_curves"] is None
    assert np.shape(content["reuse"]["remse"]) == reuse.remse.shape
    assert content["summary"]["rows"][0]["name"] == "amci"
    # Exact proposals have weights without a tail.
    assert [term["k"] for term in content["diagnosis"]["terms"]] == [None, None]
    assert len(content["diagnosis"]["terms"][0]["x"]) == content["diagnosis"]["draws"]
