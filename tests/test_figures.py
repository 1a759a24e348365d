"""Every figure is made, with its data, and says where its numbers come from."""

import json
import os
import subprocess
import sys
from functools import cache

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import amci_core as amci
from amci_core.evaluation.cases import Cases, Sweep
from benchmarks.paper.__main__ import FIGURES, main
from benchmarks.paper.drawing import Canvas, error_curves, quantiles, save

COMMAND = [sys.executable, "-m", "benchmarks.paper"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All figures, as the command makes them, in the quick form."""
    out = tmp_path_factory.mktemp("figures")
    command = [*COMMAND, "all", "--quick", "--workers", "2", "--out", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return out


@pytest.mark.slow
@pytest.mark.xdist_group("figures")
def test_all_figures_are_there_with_their_data(made):
    for name in FIGURES:
        for kind, first in (("pdf", b"%PDF"), ("svg", b"<?xml")):
            content = (made / f"{name}-quick.{kind}").read_bytes()
            assert content.startswith(first)
            assert len(content) > 5000
    data = sorted((made / "data").glob("*.parquet"))
    assert len(data) > 20
    for path in data:
        noted = json.loads(pq.read_schema(path).metadata[b"amci"])
        settings = noted["settings"]
        stored = path.name in {"tail-5d-paper-quick.parquet", "cancer-paper-quick.parquet"}
        assert ("evaluate" if stored else "all --quick") in noted["command"]
        assert settings["seed"] == 0
        assert {"amci-explorer", "torch", "numpy"} <= settings["versions"].keys()
        assert all(settings["weights"].values())


@pytest.mark.slow
@pytest.mark.xdist_group("figures")
def test_data_that_are_there_are_not_computed_again(made):
    # Computed again, they would have other seconds.
    before = {path: path.read_bytes() for path in (made / "data").glob("*.parquet")}
    files = {path.name: path.read_bytes() for path in made.glob("fig[12]-quick.*")}
    main(["fig1", "fig2", "--quick", "--out", str(made)])
    assert {path.name: path.read_bytes() for path in made.glob("fig[12]-quick.*")} == files
    assert {path: path.read_bytes() for path in before} == before


@cache
def some():
    problem = amci.problem("tail-1d")
    proposals = amci.load_proposals("tail-1d", variant="oracle")
    sweep = Sweep(problem, proposals, cases=5, runs=8, draws=(2, 10))
    return Cases(pd.concat(map(sweep.errors, range(5))))


def test_curves_are_medians_over_the_cases():
    cases, canvas = some(), Canvas(1, 1, "A title")
    panel = canvas.panels[0, 0]
    error_curves(panel, np.array([2.0, 10.0]), cases, ["snis-qm", "bound"], band="cases")
    drawn = {line.get_label(): line.get_ydata() for line in panel.get_lines()}
    for name, label in (("snis-qm", "SNIS qₘ"), ("bound", "one-proposal bound")):
        medians = np.median(cases.by_name[name]["remse"], axis=0)
        np.testing.assert_allclose(drawn[label], medians, rtol=1e-12)
    low, high = np.quantile(cases.by_name["bound"]["remse"], [0.25, 0.75], axis=0)
    band = panel.collections[-1].get_paths()[0].vertices[:, 1]
    assert {*np.round(np.log([*low, *high]), 9)} <= {*np.round(np.log(band), 9)}


def test_the_same_figure_is_the_same_file(tmp_path):
    files = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        canvas = Canvas(1, 1, "A title")
        error_curves(canvas.panels[0, 0], np.array([2.0, 10.0]), some(), ["amci", "bound"])
        canvas.legend(canvas.panels[0, 0])
        files.append([path.read_bytes() for path in save(canvas.figure, folder, "it")])
        assert sorted(os.listdir(folder)) == ["it.pdf", "it.svg"]
    assert files[0] == files[1]


def test_errors_of_quantiles_are_their_spread():
    rng = np.random.default_rng(2)
    values, stated = quantiles(rng.standard_normal((200, 500)), [0.25, 0.5, 0.95])
    np.testing.assert_allclose(np.sqrt(np.mean(stated**2, 1)), values.std(axis=1), rtol=0.2)
    (largest,), (unknown,) = quantiles(np.array([[1.0], [np.inf]]), [1.0])
    assert largest == np.inf
    assert not unknown > 0
