"""A sweep's file resumes what was killed, and no two sweeps share it."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from schedulers import dask_cluster
from servers import PATIENCE
from torch.distributions import Normal

import amci_core as amci
from amci_core.estimators import tables
from amci_core.evaluation import Cases, Sweep, read_sweep
from amci_core.evaluation.sweep import SweepFile
from amci_core.io import StoredFileError, pretrained_root

PROBLEM, NORMAL = amci.problem("tail-1d"), Normal(0.0, 1.0)
ORACLE = amci.load_proposals("tail-1d", variant="oracle")
WANTED = {"cases": 6, "runs": 5, "draws": (2, 10), "seed": 3}
SETTINGS = {"problem": "tail-1d", "seed": 3}
COMMAND = [
    *(sys.executable, "-m", "amci_core", "evaluate", "tail-1d"),
    *("--cases", "40", "--runs", "100", "--draws", "2,200"),
]


def some_cases(n=3):
    sweep = Sweep(PROBLEM, ORACLE, **(WANTED | {"cases": n}))
    return [sweep.errors(number) for number in range(n)]


def numbers(path):
    """All that does not depend on the clock."""
    return read_sweep(path)[1].drop(columns="seconds")


def test_cases_come_back_as_they_were(tmp_path):
    path, made = tmp_path / "sweep.parquet", some_cases()
    with SweepFile(path, SETTINGS) as file:
        assert file.read() == {}
        for number in (2, 0):
            file.add(number, made[number])
    with SweepFile(path, SETTINGS) as file:
        assert set(file.read()) == {0, 2}
        file.add(1, made[1])
        file.finish(pd.concat(made), {7: "ValueError: no"})
    noted, rows = read_sweep(path)
    assert (noted["settings"], noted["failures"]) == (SETTINGS, {"7": "ValueError: no"})
    for column, values in pd.concat(made).items():
        assert list(map(str, rows[column])) == list(map(str, map(np.array, values))), column
    assert [file.name for file in tmp_path.iterdir()] == ["sweep.parquet"]


def test_the_stored_evaluations_can_be_read():
    for path in pretrained_root().glob("*/*/cases.parquet"):
        noted, rows = read_sweep(path)
        assert len(Cases(rows)) == noted["settings"]["cases"]


def test_a_second_sweep_into_the_file_is_refused(tmp_path):
    path = tmp_path / "sweep.parquet"
    with (
        SweepFile(path, SETTINGS),
        pytest.raises(ValueError, match=r"^out: another sweep is writing"),
        SweepFile(path, SETTINGS),
    ):
        pass
    with SweepFile(path, SETTINGS):
        pass


def test_a_file_that_no_sweep_wrote_is_refused_and_kept(tmp_path):
    path = tmp_path / "sweep.parquet"
    for content in (b"PAR1 no", {}, {b"amci": b"null"}, {b"amci": b'{"settings": [1]}'}):
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            pq.write_table(pa.table({"a": [1]}, metadata=content), path)
        before = path.read_bytes()
        with pytest.raises(StoredFileError, match="not a file that a sweep wrote"):
            amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
        assert path.read_bytes() == before
    with pytest.raises(ValueError, match=r"^out: expected a file that ends in \.parquet"):
        amci.evaluate(PROBLEM, ORACLE, **WANTED, out=tmp_path / "sweep.csv")


def with_table(share):
    return ORACLE, {"estimators": {"mine": tables.reuse(share, share)}}


def with_f(bound):
    """A model whose truth is given, so that f alone is another one."""
    made = amci.model(prior=NORMAL, likelihood=lambda x: Normal(x, 1.0), f=lambda x: x > bound)
    cases = ([[0.0], [1.0]], None)
    wanted = {"problem": made, "cases": cases, "truth": [0.1, 0.2], "estimators": ["amci"]}
    return amci.load_proposals(made, variant="defensive"), wanted


def with_proposals(scale):
    normal = {
        "q1_plus": lambda y, theta: Normal(theta, scale),
        "q2": lambda y, theta: Normal(y / 2, scale),
    }
    return amci.Proposals.from_distributions(PROBLEM, **normal), {}


def with_weights(factor):
    """Weights that changed in memory, where the stored ones have the old hash."""
    loaded = amci.load_proposals(PROBLEM)
    for weights in loaded.q1_plus.parameters():
        weights.mul_(factor)
    return loaded, {}


@pytest.mark.parametrize(
    ("make", "one", "another", "differs"),
    [
        (lambda seed: (ORACLE, {"seed": seed}), 3, 4, "seed 3, here 4"),
        (with_table, 0.5, 0.25, "coefficients "),
        (with_f, 1.0, 1.5, r"f \["),
        (with_proposals, 1.0, 1.25, "proposals "),
        (with_weights, 1.0, 1.01, "proposals "),
    ],
)
def test_another_sweep_s_file_is_refused_and_kept(tmp_path, make, one, another, differs):
    path = tmp_path / "sweep.parquet"

    def evaluated(value):
        proposals, others = make(value)
        return amci.evaluate(
            **({"problem": PROBLEM} | WANTED | others), proposals=proposals, out=path
        )

    first = evaluated(one)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"^out: .* belongs to another sweep \({differs}"):
        evaluated(another)
    assert path.read_bytes() == before
    assert repr(evaluated(one).estimators) == repr(first.estimators)


def test_files_of_others_beside_those_of_a_sweep_stay(tmp_path):
    path = tmp_path / "sweep.parquet"
    notes = tmp_path / "sweep.parquet.cases" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("precious")
    amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    path.unlink()
    assert [*notes.parent.iterdir()] == [notes]
    # Rows whose sweep is not known are neither taken nor removed.
    other = notes.with_name("0000000.parquet")
    other.write_text("mine")
    with pytest.raises(StoredFileError, match="not a file that a sweep wrote"):
        amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    assert other.read_text() == "mine"
    other.unlink()
    for odd in (tmp_path / ("a" * 300 + ".parquet"), "/dev/null/sweep.parquet", 3):
        with pytest.raises(ValueError, match=r"^out: expected a path"):
            amci.evaluate(PROBLEM, ORACLE, **WANTED, out=odd)


def test_a_whole_file_is_not_computed_again(tmp_path):
    path = tmp_path / "sweep.parquet"
    first = amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    before = path.read_bytes()
    again = amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    assert path.read_bytes() == before
    assert repr(again.estimators) == repr(first.estimators)
    assert repr(amci.evaluate(PROBLEM, ORACLE, **WANTED).estimators) == repr(first.estimators)


def test_a_case_that_failed_is_tried_again(tmp_path, monkeypatch):
    path = tmp_path / "sweep.parquet"
    right = Sweep.of_case

    def wrong(self, number):
        if number == 2:
            raise ArithmeticError("no such case")
        return right(self, number)

    monkeypatch.setattr(Sweep, "of_case", wrong)
    found = amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    assert found.failures == {2: "ArithmeticError: no such case"}
    assert read_sweep(path)[0]["failures"] == {"2": "ArithmeticError: no such case"}
    done, n = WANTED["cases"] - 1, WANTED["cases"]
    assert f"median over {done} of {n} cases, 1 failed (quartiles)" in str(found)
    monkeypatch.undo()
    mended = amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    assert mended.failures == {}
    assert f"median over {n} cases (quartiles)" in str(mended)
    assert read_sweep(path)[0]["failures"] == {}
    assert repr(mended.estimators) == repr(amci.evaluate(PROBLEM, ORACLE, **WANTED).estimators)


@pytest.mark.slow
def test_a_killed_command_goes_on_with_the_same_numbers(tmp_path):
    path, folder = tmp_path / "sweep.parquet", tmp_path / "sweep.parquet.cases"
    command = [*COMMAND, "--out", str(path)]
    deadline = time.monotonic() + PATIENCE

    def wait_for(cases):
        while len(list(folder.glob("[0-9]*.parquet"))) < cases:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_for(5)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not path.exists()
    with dask_cluster(tmp_path / "dask") as (address, workers):
        other = subprocess.Popen([*command, "--dask", address], stdout=subprocess.DEVNULL)
        wait_for(len(list(folder.glob("[0-9]*.parquet"))) + 3)
        workers[0].kill()
        assert other.wait(PATIENCE) == 0
    whole = [*COMMAND, "--out", str(tmp_path / "whole.parquet"), "--format", "json"]
    printed = json.loads(subprocess.run(whole, capture_output=True, check=True).stdout)
    assert numbers(path).equals(numbers(tmp_path / "whole.parquet"))
    cases = Cases(read_sweep(path)[1])
    assert len(cases) == 40
    for name, figures in printed["estimators"].items():
        assert repr(cases.summary(name)["remse_median"]) == repr(figures["remse_median"])
