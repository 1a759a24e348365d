"""What is shown, as tables, CSV and JSON."""

import csv
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from amci_explorer.compute.computations import computations_of
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result
from amci_explorer.numbers.pictures import densities
from amci_explorer.problems import registry
from amci_explorer.state.case import Case
from amci_explorer.views import export

import amci_core as amci

STORE = computations_of("tail-1d")


@pytest.fixture(scope="module")
def state():
    found = Case("tail-1d")
    found.set(runs=4, draws=8, variant="oracle")
    return found


def read(state, found):
    """The first line and the rows of a file."""
    text = export.file({"B": (Request("summary", state.settings), export.frame(found))})
    return text.readline(), list(csv.DictReader(text))


def column(lines, name):
    return [float(line[name]) for line in lines]


def test_curves_are_one_line_for_every_estimator_and_number_of_draws(state):
    curves = STORE.error_curves(state.settings).run()
    _, lines = read(state, curves)
    assert len(lines) == len(curves.by_name) * len(curves.draws)
    bound = [line for line in lines if line["estimator"] == "bound"]
    np.testing.assert_allclose(column(bound, "remse_mean"), curves["bound"].remse)
    assert column(bound, "draws") == curves.draws.tolist()


def test_where_mu_is_zero_the_files_have_what_the_picture_has():
    state = Case("gain-loss")
    state.move(y=0.8, theta=0.4)
    state.set(runs=8)
    curves = computations_of("gain-loss").error_curves(state.settings).run()
    _, (*_, last) = read(state, curves)
    assert last["remse_median"] == "nan"
    curve = curves[last["estimator"]]
    assert float(last["mse_median"]) == curve.truth.unit**2 * curve.quartiles[1][-1]
    assert int(last["failed"]) == curve.failed[-1]


def test_densities_are_one_line_for_every_point_and_weights_for_every_draw(state):
    found = densities(STORE.problem, registry.chosen(state.settings), *state.settings.pair)
    _, lines = read(state, found)
    for name in ("x", "target", "posterior", "q1", "q2"):
        np.testing.assert_array_equal(column(lines, name), getattr(found, name))
    found = STORE.diagnosis(state.settings).run()
    head, lines = read(state, found)
    # More draws than the case has.
    assert "(rows: 1,000 draws of each term; " in head
    assert len(lines) == 1000 * len(found.terms)
    of_q2 = column([line for line in lines if line["term"] == "E2"], "log10_weight_over_mean")
    np.testing.assert_array_equal(of_q2, found.terms[1].log_weights)


def test_files_name_the_version_the_seed_and_the_weights(in_a_loop):
    entries = amci.load_proposals("tail-1d").card["configuration"]["proposals"]
    hashes = {name: entry["sha256"] for name, entry in entries.items()}

    def body(turned):
        turned.does = True
        explorer = turned.explorer
        explorer.state.commit()
        errors = explorer.errors.details.csv.callback()
        for file in (errors, export.file(explorer.densities.answers())):
            head = file.readline()
            assert "seed=3" in head
            assert f"amci-explorer {amci.__version__}" in head
            assert f"q1_plus {hashes['q1_plus'][:12]}" in head
        content = json.load(explorer._everything())["results"]["errors"]
        assert content["answers"]["seed"] == "3"
        assert content["weights"] == hashes
        assert content["versions"]["amci-explorer"] == amci.__version__

    in_a_loop(body, {"problem": "tail-1d", "runs": "4", "seed": "3"})


def everything(state, *, revision=0, **found):
    settings = replace(state.settings, revision=revision)
    results = {what: Result(Request(what, settings), value, 1.0) for what, value in found.items()}
    text = export.everything(state, results).read()
    return json.loads(text, parse_constant=lambda constant: pytest.fail(constant))


def test_everything_is_valid_json_also_with_infinite_and_missing_numbers(state):
    reuse = STORE.reuse(state.settings).run()
    summary = STORE.summary(state.settings).run()
    content = everything(state, reuse=reuse, summary=summary)
    other = Case()
    assert other.read(content["state"]) == {}
    assert other.as_json() == state.as_json()
    results = content["results"]
    assert results["reuse"]["answers"]["variant"] == "oracle"
    assert results["reuse"]["complete"] is False
    rows = [(row["alpha"], row["beta"], row["remse_mean"]) for row in results["reuse"]["table"]]
    for i, alpha in enumerate(reuse.alphas):
        for j, beta in enumerate(reuse.betas):
            at = rows[i * len(reuse.betas) + j]
            assert at == pytest.approx((alpha, beta, reuse.remse[i, j]), nan_ok=True)
    assert results["summary"]["table"][0]["name"] == "amci"
    # Weights that training has replaced are not named.
    assert "weights" in results["summary"]
    assert "weights" not in everything(state, revision=7, summary=summary)["results"]["summary"]


def test_everything_has_the_map_as_far_as_it_is_computed(state):
    steps = []
    last = STORE.amortization(state.settings, "y", "theta").run(steps.append)
    assert last.done.all()
    for found in (steps[0], last):
        rows = pd.DataFrame(everything(state, map=found)["results"]["map"]["table"])
        for name, values in [
            ("y", np.broadcast_to(found.x.values, found.done.shape)),
            ("relative_variance", found.relative_variance),
            ("relative_ess_E1_plus", found.relative_ess[0]),
            ("pareto_k_E2", found.pareto_k[1]),
            ("bound_over_amci", found.bound_ratio),
        ]:
            expected = np.where(np.isfinite(values), values, np.nan)[found.done]
            np.testing.assert_allclose(rows[name].astype(float), expected)
