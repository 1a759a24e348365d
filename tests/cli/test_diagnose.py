"""`amci diagnose` and the files that it reads."""

import io
import json
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

import amci_core as amci
from amci_core.tabular import MAX_ROWS, read_columns


@pytest.fixture
def frame():
    rng = np.random.default_rng(1)
    x = np.concatenate([2 + rng.exponential(0.5, 400), rng.normal(0.0, 1.1, 300)])
    with np.errstate(divide="ignore"):
        log_q1 = np.where(x > 2, np.log(2) - 2 * (x - 2), -np.inf)
    columns = {
        "x1": x,
        "log_joint": norm.logpdf(x),
        "log_q_q1_plus": log_q1,
        "log_q_q2": norm.logpdf(x, 0, 1.1),
        "f": (x > 2).astype(float),
        "component": np.repeat(["q1_plus", "q2"], [400, 300]),
    }
    return pd.DataFrame(columns)


def packed(frame):
    file = io.BytesIO()
    frame.to_parquet(file)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_gives_the_estimates_of_its_columns(run, frame, tmp_path, kind):
    path = tmp_path / f"draws.{kind}"
    text = "# of my own\n" + frame.to_csv(index=False)
    path.write_bytes(text.encode() if kind == "csv" else packed(frame))
    code, out, err = run("diagnose", path, "--format", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    expected = amci.estimate_from_draws(frame)
    assert found["draws"] == {"q1_plus": 400, "q2": 300}
    assert found["versions"]["amci-explorer"] == amci.__version__
    for name, e in expected.estimates.items():
        assert found["estimates"][name]["value"] == pytest.approx(float(e.value), rel=1e-12)
        assert found["estimates"][name]["verdict"]["text"] == e.verdict.text
    code, out, err = run("diagnose", path)
    assert (code, err) == (0, "")
    assert "400 of q1_plus, 300 of q2" in out
    for name, e in expected.estimates.items():
        assert f"{name}: {e}" in out


def test_options_reach_the_estimates(run, frame, tmp_path):
    path = tmp_path / "draws.parquet"
    path.write_bytes(packed(frame))
    options = ("--f", "x1", "--log-e2", "0", "--r-eff", "0.5", "--format", "json")
    found = json.loads(run("diagnose", path, *options)[1])
    expected = amci.estimate_from_draws(frame, f="x1", log_E2=0.0, r_eff=0.5)
    first = found["estimates"][expected.name]
    assert first["value"] == pytest.approx(float(expected.value), rel=1e-12)
    assert first["standard_error"] == pytest.approx(float(expected.standard_error), rel=1e-9)


def test_a_damaged_file_is_read_or_refused_in_words(frame):
    rng, content = np.random.default_rng(2), packed(frame)
    for _ in range(300):
        damaged = bytearray(content)
        for place in rng.integers(min(len(content), 3000), size=4):
            damaged[place] = rng.choice([0, 255, rng.integers(256)])
        with suppress(ValueError):
            read_columns(bytes(damaged), name="draws.parquet")


def rows_of_zeros(n):
    file = io.BytesIO()
    zeros = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([0.0]))
    pq.write_table(pa.table({"f": zeros}), file)
    return file.getvalue()


def zeros_that_unpack():
    file = io.BytesIO()
    column = np.zeros(4_000_000)
    pq.write_table(pa.table({"f": column}), file, compression="zstd", use_dictionary=False)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("draws.txt", b"", r"expected a name that ends in \.csv or \.parquet, got 'draws.txt'"),
        ("draws.csv", b"", "cannot be read: Empty CSV file"),
        ("draws.csv", b"f,log_q\n1,2,3\n4,5,6\n", "cannot be read: .*Expected 2 columns, got 3"),
        ("draws.csv", b"f,log_q,f\n1,2,3\n", "it has the column 'f' twice"),
        ("draws.csv", b"\xff\xfe\x00,f\n1,2\n", "cannot be read: .*utf-8"),
        ("draws.parquet", b"PAR1", "cannot be read: "),
        ("draws.csv", b"f\n" + 200 * b"1\n", "expected at most 300 bytes, got 402"),
    ],
)
def test_what_is_no_table_is_refused(name, content, message):
    with pytest.raises(ValueError, match=f"^table: {message}"):
        read_columns(content, name=name, max_bytes=300)


def test_what_unpacks_to_too_much_is_refused():
    with pytest.raises(ValueError, match=f"table: .*at most {MAX_ROWS:,} draws, got"):
        read_columns(rows_of_zeros(MAX_ROWS + 1), name="draws.parquet")
    with pytest.raises(ValueError, match="more than 20 times as many"):
        read_columns(zeros_that_unpack(), name="draws.parquet")


def test_a_file_that_is_not_there_is_one_line(run, tmp_path):
    code, out, err = run("diagnose", tmp_path / "draws.csv")
    assert (code, out) == (2, "")
    assert err.startswith("amci: table: no such file: ")
    assert err.count("\n") == 1
