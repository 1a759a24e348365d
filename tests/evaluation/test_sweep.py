"""A sweep's file resumes what was killed, and no two sweeps share it."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch.distributions import Normal

import amci_core as amci
from amci_core.estimators import tables
from amci_core.evaluation.cases import Sweep
from amci_core.evaluation.sweep import SweepFile, read_sweep
from amci_core.io import StoredFileError

PROBLEM, NORMAL = amci.problem("tail-1d"), Normal(0.0, 1.0)
ORACLE = amci.load_proposals("tail-1d", variant="oracle")
WANTED = {"cases": 6, "runs": 5, "draws": (2, 10), "seed": 3}
SETTINGS = {"problem": "tail-1d", "seed": 3}


def test_cases_come_back_as_they_were(tmp_path):
    path, sweep = tmp_path / "sweep.parquet", Sweep(PROBLEM, ORACLE, **WANTED)
    made = [sweep.errors(number) for number in range(3)]
    with SweepFile(path, SETTINGS) as file:
        assert file.read() == {}
        for number in (2, 0):
            file.add(number, made[number])
    with SweepFile(path, SETTINGS) as file:
        with pytest.raises(ValueError, match=r"^out: another sweep is writing"):
            SweepFile(path, SETTINGS).__enter__()
        assert set(file.read()) == {0, 2}
        file.add(1, made[1])
        file.finish(pd.concat(made), {7: "ValueError: no"})
    noted, rows = read_sweep(path)
    assert (noted["settings"], noted["failures"]) == (SETTINGS, {"7": "ValueError: no"})
    for column, values in pd.concat(made).items():
        assert list(map(str, rows[column])) == list(map(str, map(np.array, values))), column
    assert [file.name for file in tmp_path.iterdir()] == ["sweep.parquet"]


def test_a_file_that_no_sweep_wrote_is_refused_and_kept(tmp_path):
    path = tmp_path / "sweep.parquet"
    for noted in ({}, {b"amci": b"null"}, {b"amci": b'{"settings": [1]}'}):
        pq.write_table(pa.table({"a": [1]}, metadata=noted), path)
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
    return "defensive", wanted


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
        (with_weights, 1.0, 1.01, "proposals "),
    ],
)
def test_another_sweep_s_file_is_refused_and_kept(tmp_path, make, one, another, differs):
    path = tmp_path / "sweep.parquet"

    def evaluated(value):
        proposals, others = make(value)
        wanted = {"problem": PROBLEM, "proposals": proposals} | WANTED | others
        return amci.evaluate(**wanted, out=path)

    first = evaluated(one)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"^out: .* belongs to another sweep \({differs}"):
        evaluated(another)
    # A whole file is not computed again.
    assert repr(evaluated(one).estimators) == repr(first.estimators)
    assert path.read_bytes() == before


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


def test_a_case_that_failed_is_tried_again_and_a_sweep_that_was_stopped_goes_on(
    tmp_path, monkeypatch
):
    path, right = tmp_path / "sweep.parquet", Sweep.of_case
    whole = amci.evaluate(PROBLEM, ORACLE, **WANTED)

    def evaluated(error=None):
        def of_case(self, number):
            if error is not None and number == 2:
                raise error
            return right(self, number)

        monkeypatch.setattr(Sweep, "of_case", of_case)
        return amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)

    with pytest.raises(KeyboardInterrupt):
        evaluated(KeyboardInterrupt())
    assert not path.exists()
    found = evaluated(ArithmeticError("no such case"))
    assert found.failures == {2: "ArithmeticError: no such case"}
    assert read_sweep(path)[0]["failures"] == {"2": "ArithmeticError: no such case"}
    assert "median over 5 of 6 cases, 1 failed (quartiles)" in str(found)
    mended = evaluated()
    assert mended.failures == {}
    assert "median over 6 cases (quartiles)" in str(mended)
    assert read_sweep(path)[0]["failures"] == {}
    assert repr(mended.estimators) == repr(whole.estimators)
