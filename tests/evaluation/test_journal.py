"""A sweep's file takes up what was killed, and no two sweeps share it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from schedulers import dask_cluster
from servers import PATIENCE

import amci_core as amci
from amci_core.evaluation import Cases, read_sweep
from amci_core.evaluation.cases import FIGURES
from amci_core.evaluation.journal import Journal
from amci_core.evaluation.rows import cases_of
from amci_core.evaluation.sweep import Sweep, case_errors
from amci_core.io import StoredFileError

PROBLEM = amci.problem("tail-1d")
ORACLE = amci.load_proposals("tail-1d", variant="oracle")
WANTED = {"pairs": 6, "runs": 5, "budgets": (2, 10), "seed": 3}
SETTINGS = {"problem": "tail-1d", "seed": 3}
COMMAND = [
    *(sys.executable, "-m", "amci_core", "evaluate", "tail-1d"),
    *("--pairs", "40", "--runs", "100", "--budgets", "2,200"),
]


def some_cases(n=3):
    sweep = Sweep.of(
        PROBLEM, ORACLE, **(WANTED | {"pairs": n}), estimators=None, truth=None, cases=None
    )
    return [case_errors(sweep, number) for number in range(n)]


def same(first, second):
    """Whether two cases are the same, bit for bit."""
    assert (first.number, first.truth, first.points) == (
        second.number,
        second.truth,
        second.points,
    )
    np.testing.assert_array_equal(first.y, second.y)
    np.testing.assert_array_equal(first.theta, second.theta)
    np.testing.assert_array_equal(first.budgets, second.budgets)
    assert list(first.by_name) == list(second.by_name)
    for name, figures in first.by_name.items():
        for figure in FIGURES:
            np.testing.assert_array_equal(figures[figure], second.by_name[name][figure])


def numbers(path):
    """All that does not depend on the clock."""
    return read_sweep(path)[1].drop(["seconds"])


def test_cases_come_back_as_they_were(tmp_path):
    path, made = tmp_path / "sweep.parquet", some_cases()
    with Journal(path, SETTINGS) as journal:
        for case in reversed(made):
            journal.add(case)
        for found, case in zip(journal.cases(), made, strict=True):
            same(found, case)
        journal.finish({7: "ValueError: no"})
    noted, table = read_sweep(path)
    assert (noted["settings"], noted["failures"]) == (SETTINGS, {"7": "ValueError: no"})
    for found, case in zip(cases_of(table), made, strict=True):
        same(found, case)
    assert [file.name for file in tmp_path.iterdir()] == ["sweep.parquet"]


def test_nothing_is_lost_or_repeated_wherever_a_write_was_cut_off(tmp_path):
    path, made = tmp_path / "sweep.parquet", some_cases()
    part = tmp_path / "sweep.parquet.part"
    sizes = []
    with Journal(path, SETTINGS) as journal:
        for case in made:
            sizes.append(part.stat().st_size)
            journal.add(case)
    whole = part.read_bytes()
    rng = np.random.default_rng(0)
    for cut in (*sizes, len(whole), *rng.integers(sizes[0], len(whole), 12)):
        part.write_bytes(whole[:cut])
        there = [i for i in range(3) if cut >= [*sizes[1:], len(whole)][i]]
        with Journal(path, SETTINGS) as journal:
            assert journal.done == set(there)
            for case in made:
                if case.number not in journal.done:
                    journal.add(case)
            for found, case in zip(journal.cases(), made, strict=True):
                same(found, case)


def test_a_damaged_file_gives_no_wrong_number(tmp_path):
    path, made = tmp_path / "sweep.parquet", some_cases()
    part = tmp_path / "sweep.parquet.part"
    with Journal(path, SETTINGS) as journal:
        for case in made:
            journal.add(case)
    whole = part.read_bytes()
    rng, refused = np.random.default_rng(0), 0
    for place in rng.integers(0, len(whole), 20):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        part.write_bytes(damaged)
        said = ""
        try:
            with Journal(path, SETTINGS) as journal:
                for found in journal.cases():
                    same(found, made[found.number])
                assert len(journal.done) < 3
        except ValueError as error:
            said = str(error)
        if said:
            # Its beginning is damaged: nothing is known of it.
            assert "is not the beginning of a sweep" in said
            assert part.read_bytes() == damaged
            refused += 1
    assert refused < 20


def test_a_sweep_that_did_nothing_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"^workers"):
        amci.evaluate(PROBLEM, ORACLE, **WANTED, out=tmp_path / "sweep.parquet", workers=0)
    assert list(tmp_path.iterdir()) == []


def test_what_another_sweep_has_begun_stays_where_it_is_refused(tmp_path):
    path, part = tmp_path / "sweep.parquet", tmp_path / "sweep.parquet.part"
    with Journal(path, SETTINGS) as journal:
        journal.add(some_cases()[0])
    before = part.read_bytes()
    with pytest.raises(ValueError, match="belongs to another sweep"), Journal(path, {"seed": 4}):
        pass
    assert part.read_bytes() == before


def test_a_second_sweep_into_the_file_is_refused(tmp_path):
    path = tmp_path / "sweep.parquet"
    with (
        Journal(path, SETTINGS),
        pytest.raises(ValueError, match=r"^out: another sweep is writing"),
        Journal(path, SETTINGS),
    ):
        pass
    with Journal(path, SETTINGS):
        pass


def test_another_sweep_s_file_is_refused_and_kept(tmp_path):
    path = tmp_path / "sweep.parquet"
    amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    before = path.read_bytes()
    other = WANTED | {"seed": 4}
    with pytest.raises(ValueError, match=r"^out: .* belongs to another sweep: seed 3, here 4"):
        amci.evaluate(PROBLEM, ORACLE, **other, out=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"PAR1 no"])
def test_a_file_that_no_sweep_wrote_is_refused_and_kept(content, tmp_path):
    for name in ("sweep.parquet", "sweep.parquet.part"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"sweep\.parquet"):
            amci.evaluate(PROBLEM, ORACLE, **WANTED, out=tmp_path / "sweep.parquet")
        assert (tmp_path / name).read_bytes() == content
        (tmp_path / name).unlink()


def test_a_table_from_elsewhere_is_no_sweep(tmp_path):
    import pyarrow as pa

    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(StoredFileError, match="not a file that a sweep wrote"):
        read_sweep(tmp_path / "other.parquet")


def test_a_table_with_gaps_or_other_columns_is_no_sweep(tmp_path):
    import pyarrow as pa

    path = tmp_path / "sweep.parquet"
    amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    table = pq.read_table(path)
    n = len(table)
    for name, column in (
        ("case", pa.array(["a"] * n)),
        ("truth", pa.nulls(n, pa.float64())),
        ("estimator", pa.nulls(n, pa.string())),
    ):
        other = table.set_column(table.column_names.index(name), name, column)
        pq.write_table(other, path)
        with pytest.raises(StoredFileError, match="not a file that a sweep wrote"):
            read_sweep(path)
    pq.write_table(table.slice(0, 0), path)
    with pytest.raises(StoredFileError, match="not a file that a sweep wrote"):
        read_sweep(path)


def test_the_name_says_what_the_file_is(tmp_path):
    with pytest.raises(ValueError, match=r"^out: expected a file that ends in \.parquet"):
        amci.evaluate(PROBLEM, ORACLE, **WANTED, out=tmp_path / "sweep.csv")


def test_a_whole_file_is_not_computed_again(tmp_path):
    path = tmp_path / "sweep.parquet"
    first = amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    before = path.read_bytes()
    again = amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    assert path.read_bytes() == before
    assert again.draws_per_second == 0 < first.draws_per_second
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
    monkeypatch.undo()
    mended = amci.evaluate(PROBLEM, ORACLE, **WANTED, out=path)
    assert mended.failures == {}
    assert read_sweep(path)[0]["failures"] == {}
    assert repr(mended.estimators) == repr(amci.evaluate(PROBLEM, ORACLE, **WANTED).estimators)


def test_where_all_cases_fail_the_first_is_said(monkeypatch):
    right = Sweep.of_case

    def wrong(self, number):
        if hasattr(self, "begun"):
            raise ArithmeticError("nothing works")
        object.__setattr__(self, "begun", True)
        return right(self, number)

    monkeypatch.setattr(Sweep, "of_case", wrong)
    with pytest.raises(RuntimeError, match=r"^all of 6 cases failed; case 0: Arith.*thing works"):
        amci.evaluate(PROBLEM, ORACLE, **WANTED)


@pytest.mark.slow
def test_a_killed_command_goes_on_with_the_same_numbers(tmp_path):
    path, part = tmp_path / "sweep.parquet", tmp_path / "sweep.parquet.part"
    command = [*COMMAND, "--out", str(path)]
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE
    while not (part.exists() and part.stat().st_size > 60_000):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not path.exists()
    with dask_cluster(tmp_path / "dask") as (address, workers):
        other = subprocess.Popen([*command, "--dask", address], stdout=subprocess.DEVNULL)
        size = part.stat().st_size
        while part.exists() and part.stat().st_size < size + 20_000:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        workers[0].kill()
        assert other.wait(PATIENCE) == 0
    whole = [*COMMAND, "--out", str(tmp_path / "whole.parquet"), "--format", "json"]
    printed = json.loads(subprocess.run(whole, capture_output=True, check=True).stdout)
    assert numbers(path).equals(numbers(tmp_path / "whole.parquet"))
    cases = Cases(cases_of(read_sweep(path)[1]))
    assert len(cases) == 40
    for name, figures in printed["estimators"].items():
        assert repr(cases.summary(name)["remse_median"]) == repr(figures["remse_median"])
    assert os.listdir(tmp_path / "dask")
