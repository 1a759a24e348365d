"""`amci diagnose` and the files that it reads."""

import gzip
import io
import json
from contextlib import suppress

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

import amci_core as amci
from amci_core.cli import main
from amci_core.estimation.table import is_column
from amci_core.tabular import MAX_ROWS, read_columns


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
        path.write_bytes(packed(columns))
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
    assert found["versions"]["amci-explorer"] == amci.__version__
    for name, e in expected.estimates.items():
        assert found["estimates"][name]["value"] == pytest.approx(float(e.value), rel=1e-12)
        assert found["estimates"][name]["verdict"]["text"] == e.verdict.text
    code, out, err = run("diagnose", path)
    assert (code, err) == (0, "")
    assert f"amci: {expected.estimates['amci'].verdict.text}." in out
    assert "400 of q1_plus, 300 of q2" in out


def text_of(columns, separator, number=repr):
    rows = zip(*columns.values(), strict=True)
    lines = (separator.join(number(float(value)) for value in row) for row in rows)
    return "\n".join([separator.join(columns), *lines, ""])


def parquet_of(columns):
    return packed({name: pa.array(column) for name, column in columns.items()})


def packed(columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="zstd", use_dictionary=False)
    return file.getvalue()


def netcdf_of(columns):
    """Groups of variables (chains, draws), as ArviZ writes them."""
    file = io.BytesIO()
    with h5py.File(file, "w") as whole:
        for name, column in columns.items():
            whole.create_dataset(f"posterior/{name}", data=np.reshape(column, (4, -1)))
            whole.create_dataset(f"observed/{name}", data=np.zeros(7))
        whole["posterior/chain"] = np.arange(4)
        whole["elsewhere"] = h5py.ExternalLink("/etc/hostname", "f")
    return file.getvalue()


def stan_of(columns):
    """A variational approximation: comments between, and the mean in the first row."""
    renamed = {"lp__": 0 * columns["f"], "log_p__": columns["log_joint"]}
    renamed |= {"log_g__": columns["log_q"], "f": columns["f"]}
    head, *rows = text_of(renamed, ",").split("\n")
    return "\n".join(["# model = m", head, "# Stepsize = 1", "0,0,0,0.3", *rows, "# 3 seconds"])


def pathfinder_of(columns):
    renamed = {"lp_approx__": columns["log_q"], "lp__": columns["log_joint"], "f": columns["f"]}
    return text_of(renamed, ",")


def weights_of(columns):
    weights = {"log_weight": columns["log_joint"] - columns["log_q"], "f": columns["f"]}
    return text_of(weights, ",")


FILES = {
    "draws.csv": lambda columns: text_of(columns, ","),
    "DRAWS.CSV": lambda columns: "\ufeff" + text_of(columns, ","),
    "draws.tsv": lambda columns: text_of(columns, "\t"),
    "german.csv": lambda columns: text_of(columns, ";", lambda v: repr(v).replace(".", ",")),
    "notes.csv": lambda columns: text_of(columns | {"note": 0 * columns["f"]}, ";").replace(
        ";0.0\n", ";see 1,2\n"
    ),
    "excel.csv": lambda columns: text_of(columns, ",").encode("utf-16"),
    "draws.csv.gz": lambda columns: gzip.compress(text_of(columns, ",").encode()),
    "true.csv": lambda columns: (
        text_of(columns, ",").replace(",1.0\n", ",TRUE\n").replace(",0.0\n", ",FALSE\n")
    ),
    "advi.csv": stan_of,
    "pathfinder.csv": pathfinder_of,
    "weights.csv": weights_of,
    "draws.parquet": parquet_of,
    "bool.parquet": lambda columns: parquet_of(columns | {"f": columns["f"] > 0}),
    "decimal.parquet": lambda columns: parquet_of(
        columns | {"f": pa.array(columns["f"].astype("int32")).cast(pa.decimal128(12, 2))}
    ),
    "draws.nc": netcdf_of,
}


@pytest.mark.parametrize("name", ["draws.nc", "draws.csv.gz", "draws.parquet"])
def test_a_damaged_file_is_read_or_refused_in_words(name):
    rng = np.random.default_rng(2)
    columns = {key: rng.normal(size=200) for key in ("log_joint", "log_q", "f")}
    content = FILES[name](columns)
    for _ in range(600):
        damaged = bytearray(content)
        for place in rng.integers(min(len(content), 3000), size=4):
            damaged[place] = rng.choice([0, 255, rng.integers(256)])
        with suppress(ValueError):
            read_columns(bytes(damaged), name=name)


@pytest.mark.parametrize("name", FILES)
def test_files_of_others_are_read_as_they_come(name):
    x = np.random.default_rng(1).normal(0.0, 1.1, 400)
    columns = {"log_joint": norm.logpdf(x), "log_q": norm.logpdf(x, 0, 1.1)}
    columns["f"] = (x > 1).astype(float)
    expected = amci.diagnose(**columns)
    content = FILES[name](columns)
    content = content if isinstance(content, bytes) else content.encode()
    found = amci.diagnose(read_columns(content, name=name))
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=1e-9)


def test_values_that_netcdf_stores_scaled_are_unpacked():
    file = io.BytesIO()
    with h5py.File(file, "w") as whole:
        stored = whole.create_dataset("posterior/f", data=np.array([1, 5, -1], dtype="i2"))
        stored.attrs.update({"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": np.int16(-1)})
        whole["posterior/x"] = [1.0, 2.0, 3.0]
        # The type of the scale does not bound the values.
        whole.create_dataset("posterior/z", data=np.array([300, -999], dtype="i2"))
        whole["posterior/z"].attrs.update(
            {"scale_factor": np.int16(1000), "_FillValue": np.int16(-999)}
        )
    found = read_columns(file.getvalue(), name="draws.nc")
    np.testing.assert_array_equal(found["f"], [10.5, 12.5, np.nan])
    np.testing.assert_array_equal(found["z"], [300_000, np.nan])
    np.testing.assert_array_equal(found["x"], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("scale", [np.ones(3), np.ones((1, 2)), "two", 1j, h5py.Empty("f8")])
def test_a_scale_that_is_no_number_is_named(scale):
    file = io.BytesIO()
    with h5py.File(file, "w") as whole:
        stored = whole.create_dataset("posterior/f", data=np.array([1, 5, -1], dtype="i2"))
        stored.attrs["scale_factor"] = scale
    with pytest.raises(ValueError, match=r"^f: expected a number for its scale_factor, got"):
        read_columns(file.getvalue(), name="draws.nc")


LARGE = 2**60 + 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ids.csv", f"log_weight,f,x,x,id\n-1,1,1,1,{LARGE}\n-2,0,0,0,2\n"),
        ("latin.csv", "log_weight,f,\u00e9t\u00e9\n-1,1,\u00e9\n-2,0,\u00e9\n".encode("latin-1")),
        ("ids.parquet", packed({"log_weight": [-1.0, -2.0], "f": [1, 0], "id": [LARGE, LARGE]})),
    ],
)
def test_columns_that_nobody_asks_for_are_not_read(name, content):
    content = content.encode() if isinstance(content, str) else content
    found = read_columns(content, name=name, wanted=is_column)
    assert set(found) == {"log_weight", "f"}


def test_names_of_components_may_be_views_of_strings(columns):
    names = pa.array(columns["component"]).cast(pa.string_view())
    found = amci.diagnose(
        read_columns(packed(columns | {"component": names}), name="draws.parquet")
    )
    assert found.counts == {"q1_plus": 400, "q2": 300}


def test_f_may_have_another_name(run, columns, tmp_path):
    path = write(tmp_path, columns, "csv")
    code, out, _ = run("diagnose", path, "--f", "x1", "--format", "json")
    assert code == 0
    assert abs(json.loads(out)["estimates"]["snis-qm"]["value"]) < 0.2  # E[x] = 0
    code, _, err = run("diagnose", path, "--f", "g")
    assert (code, err) == (
        2,
        "amci: g: the table has no such column. Pass the name of another as f\n",
    )


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
    "draws.txt": (HEAD, "expected a name that ends in .csv, .tsv, .parquet, .nc or .csv.gz"),
    "missing.csv": (None, "no such file"),
    "f.csv": ("log_joint,log_q\n-1,-1\n", "f: the table has no such column"),
    "text.csv": (
        HEAD + "-1,-1,1\n-1,many,1\n",
        "log_q: expected numbers: could not convert string to float: 'many'",
    ),
    "ragged.csv": (HEAD + "-1,-1,1\n-1,-1\n", "Row #3: Expected 3 columns, got 2"),
    "nan.csv": (HEAD + "-1,-1,1\nnan,-1,1\n", "log_joint: expected numbers below infinity"),
    "under.csv": (
        HEAD + "-1,-1,1_000\n-1,-1,1\n",
        "f: expected numbers: could not convert string",
    ),
    "names.csv": (
        "log_joint,log_q_a,log_q_b,f,component\n-1,-1,-1,1,a\n-1,-1,-1,1,b\n",
        "log_q: expected names among q1_plus, q1_minus, q2, defensive, q1_complement, got a, b",
    ),
    "no.parquet": ("PAR1 and no more", "table: cannot be read: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_ends_with_code_2_and_one_line(run, tmp_path, name):
    content, why = WRONG[name]
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run("diagnose", tmp_path / name)
    assert (code, out) == (2, "")
    assert err.startswith("amci: ")
    assert err.count("\n") == 1
    assert why in err


def test_packed_files_have_limits_as_well():
    zeros = {name: np.zeros(3_000_000) for name in ("log_joint", "log_q", "f")}
    bomb = packed(zeros)
    assert len(bomb) < 2**20
    with pytest.raises(ValueError, match=r"bytes unpack to 72 MB"):
        read_columns(bomb, name="draws.parquet")
    long = packed({"f": np.zeros(MAX_ROWS + 1, dtype=bool)})
    with pytest.raises(ValueError, match="expected at most 5,000,000 draws, got 5,000,001"):
        read_columns(long, name="draws.parquet")
    with pytest.raises(ValueError, match="at most 1,000 bytes once unpacked"):
        read_columns(gzip.compress(bytes(2000)), name="draws.csv.gz", max_bytes=1000)
