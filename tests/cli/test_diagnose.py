"""`amci diagnose` and the files that it reads."""

import io
import json
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import amci_core as amci
from amci_core.io import read_columns


@pytest.fixture
def frame():
    rng = np.random.default_rng(1)
    x = np.append(rng.normal(2.5, 0.5, 400), rng.normal(0.0, 1.1, 300))
    component = np.repeat(["q1_plus", "q2"], [400, 300])
    columns = {"x1": x, "f": (x > 2) * 1.0, "log_joint": norm.logpdf(x), "component": component}
    columns |= {"log_q_q1_plus": norm.logpdf(x, 2.5, 0.5), "log_q_q2": norm.logpdf(x, 0, 1.1)}
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
    code, out, _ = run("diagnose", path, "--f x1 --log-e2 0 --r-eff 0.5 --format json")
    expected = amci.estimate_from_draws(frame, f="x1", log_E2=0.0, r_eff=0.5)
    first = json.loads(out)["estimates"][expected.name]
    for figure in ("value", "standard_error"):
        assert first[figure] == pytest.approx(float(getattr(expected, figure)), rel=1e-9)
    path.unlink()
    code, out, err = run("diagnose", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("amci: table: no such file: ")


def test_a_damaged_file_is_read_or_refused_in_words(frame, tmp_path):
    rng, content, file = np.random.default_rng(2), packed(frame), tmp_path / "draws.parquet"
    for _ in range(100):
        damaged = bytearray(content)
        for place in rng.integers(min(len(content), 3000), size=4):
            damaged[place] = rng.choice([0, 255, rng.integers(256)])
        file.write_bytes(damaged)
        with suppress(ValueError):
            read_columns(file)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("draws.txt", b"", r"expected a name that ends in \.csv or \.parquet, got 'draws.txt'"),
        ("draws.csv", b"", "cannot be read: Empty CSV file"),
        ("draws.csv", b"f,log_q\n1,2,3\n4,5,6\n", "cannot be read: .*Expected 2 columns, got 3"),
        ("draws.csv", b"f,log_q,f\n1,2,3\n", "it has the column 'f' twice"),
        ("draws.csv", b"\xff\xfe\x00,f\n1,2\n", "cannot be read: .*utf-8"),
        ("draws.parquet", b"PAR1", "cannot be read: "),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"^table: {message}"):
        read_columns(tmp_path / name)
