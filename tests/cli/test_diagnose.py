"""`amci diagnose` and the files that it reads."""

import io
import json

import numpy as np
import pytest
from scipy.stats import norm

import amci_core as amci
from amci_core.cli import main
from amci_core.tabular import read_table


@pytest.fixture
def run(capsys):
    """Runs `amci` with these words; gives its exit code, stdout and stderr."""

    def call(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return call


@pytest.fixture
def columns():
    rng = np.random.default_rng(1)
    x = np.concatenate([2 + rng.exponential(0.5, 400), rng.normal(0.0, 1.1, 300)])
    with np.errstate(divide="ignore"):
        log_q1 = np.where(x > 2, np.log(2) - 2 * (x - 2), -np.inf)
    return {
        "x1": x,
        "log_joint": norm.logpdf(x),
        "log_q_q1_plus": log_q1,
        "log_q_q2": norm.logpdf(x, 0, 1.1),
        "f": (x > 2).astype(float),
        "component": np.repeat(["q1_plus", "q2"], [400, 300]),
    }


def csv_of(columns):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values()))]  # noqa: B905
    return "\n".join(lines) + "\n"


def write(folder, columns, kind):
    path = folder / f"draws.{kind}"
    if kind == "csv":
        path.write_text("# of my own\n" + csv_of(columns))
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_says_what_its_columns_say(run, columns, tmp_path, kind):
    path = write(tmp_path, columns, kind)
    code, out, err = run("diagnose", path, "--format", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    expected = amci.diagnose(
        log_joint=columns["log_joint"],
        log_q={"q1_plus": columns["log_q_q1_plus"], "q2": columns["log_q_q2"]},
        f=columns["f"],
        component=columns["component"],
    )
    assert found["draws"] == {"q1_plus": 400, "q2": 300}
    for name, e in expected.estimates.items():
        assert found["estimates"][name]["value"] == pytest.approx(float(e.value), rel=1e-12)
        assert found["estimates"][name]["verdict"]["text"] == e.verdict.text
    code, out, err = run("diagnose", path)
    assert (code, err) == (0, "")
    assert f"amci: {expected.estimates['amci'].verdict.text}." in out
    assert "400 of q1_plus, 300 of q2" in out


def test_one_component_and_a_known_normalizer(run, columns, tmp_path):
    table = {"log_joint": columns["log_joint"], "log_q": columns["log_q_q2"], "f": columns["f"]}
    path = write(tmp_path, {n: c[400:] for n, c in table.items()}, "csv")
    code, out, _ = run("diagnose", path, "--log-e2", 0, "--format", "json")
    assert code == 0
    assert json.loads(out)["estimates"].keys() == {"snis"}
    code, out, _ = run("diagnose", path)
    assert "amci: not estimated, there are no draws of q1_plus." in out


HEAD = "log_joint,log_q,f\n"
WRONG = {
    "draws.txt": (HEAD, "expected a name that ends in .csv or .parquet"),
    "missing.csv": (None, "there is no file"),
    "f.csv": ("log_joint,log_q\n-1,-1\n", "f: the table has no such column"),
    "text.csv": (
        HEAD + "-1,-1,1\n-1,many,1\n",
        "log_q: expected numbers: could not convert string to float: 'many'",
    ),
    "ragged.csv": (HEAD + "-1,-1,1\n-1,-1\n", "Row #3: Expected 3 columns, got 2"),
    "nan.csv": (HEAD + "-1,-1,1\nnan,-1,1\n", "log_joint: expected numbers below infinity"),
    "names.csv": (
        "log_joint,log_q_a,log_q_b,f,component\n-1,-1,-1,1,a\n-1,-1,-1,1,b\n",
        "log_q: expected components among q1_plus, q1_minus, q2, defensive, got a, b",
    ),
    "no.parquet": ("PAR1 and no more", "table: it cannot be read: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_ends_with_code_2_and_one_line(run, tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    content, why = WRONG[name]
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run("diagnose", tmp_path / name)
    assert (code, out) == (2, "")
    assert err.startswith("amci: ")
    assert err.count("\n") == 1
    assert why in err


def test_parquet_has_limits_as_well():
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    def packed(columns):
        file = io.BytesIO()
        pq.write_table(pa.table(columns), file, compression="zstd", use_dictionary=False)
        return file.getvalue()

    zeros = {name: np.zeros(3_000_000) for name in ("log_joint", "log_q", "f")}
    bomb = packed(zeros)
    assert len(bomb) < 2**20
    with pytest.raises(ValueError, match="got 3,000,000, which unpack to 72 MB"):
        read_table(bomb, name="draws.parquet")
    with pytest.raises(ValueError, match="expected at most 1,000 draws, got 3,000,000"):
        read_table(bomb, name="draws.parquet", max_rows=1000)
