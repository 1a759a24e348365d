"""The command `amci`, as a user sees it: what it prints, where, and its exit codes."""

import hashlib
import json
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

import amci_core as amci
from amci_core.io import pretrained_root

PROBLEM = amci.problem("tail-1d")
ORACLE = amci.load_proposals(PROBLEM, variant="oracle")
ESTIMATE = "estimate tail-1d --variant oracle"
PAPER = pretrained_root() / "tail-1d" / "paper"
EVALUATE = "evaluate tail-1d --variant oracle"
COMMANDS = ("problems", "estimate", "diagnose", "evaluate", "train", "new", "check")


def refuse(name):
    raise AssertionError(f"{name} is not JSON")


strict = partial(json.loads, parse_constant=refuse)


def succeeded(result) -> str:
    code, out, err = result
    assert code == 0, err
    assert err == ""
    return out


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(run, command):
    out = succeeded(run(f"{command} --help"))
    assert f"amci {command}".strip() in out
    assert "[required]" in out or command in ("", "problems")


def test_problems_are_listed(run):
    out = succeeded(run("problems"))
    for name in amci.problems():
        assert f"{name}: {amci.problem(name).title}" in out
    assert "theta: [0.0, 5.0]^1\n" in out
    assert succeeded(run("--version")).strip() == amci.__version__


@pytest.mark.parametrize("estimator", ["amci", "reuse:0.9:0.1"])
def test_estimate_gives_what_python_gives(run, estimator):
    words = f"{ESTIMATE} --y 1 --theta 1.5 --draws 64 --seed 4 --estimator {estimator}"
    found = strict(succeeded(run(f"{words} --format json")))
    expected = amci.estimate(PROBLEM, ORACLE, 1.0, 1.5, draws=64, estimator=estimator, seed=4)
    # JSON has neither NaN nor infinity: both become null. An exact q1 misses a part of E2.
    known = bool(np.isfinite(expected.standard_error))
    assert known == (estimator == "amci")
    ends = map(float, expected.interval(0.95))
    noted = {
        "value": expected.value,
        "standard_error": expected.standard_error if known else None,
        "interval_95": [end if np.isfinite(end) else None for end in ends],
        "truth": PROBLEM.truth(1.0, 1.5),
        **{"draws": expected.draws, "seed": 4, "y": [1.0], "theta": [1.5]},
        **{"problem": "tail-1d", "variant": "oracle", "estimator": estimator},
    }
    assert {name: found[name] for name in noted} == noted
    assert found["verdict"]["text"] == expected.verdict.text
    for name, seen in expected.diagnostics.items():
        shown = [found["terms"][name][key] for key in ("value", "nonzero_share", "proposal")]
        assert shown == [expected.terms[name].value, seen.nonzero_share, seen.proposal]


def test_a_table_of_an_estimate_ends_with_its_verdict(run):
    words = f"{ESTIMATE} --y 1 --theta 3 --estimator snis-q2"
    out = succeeded(run(f"{words} --draws 256"))
    assert "\ndo not trust: all draws together contradict it, by " in out
    assert "k-hat" in out
    # No draw of eight has f > 0.
    found = strict(succeeded(run(f"{words} --draws 8 --format json")))
    assert (found["value"], found["standard_error"]) == (0, None)
    assert found["terms"]["E1_plus"]["log_value"] is None
    assert "-" in succeeded(run(f"{words} --draws 8"))


def test_evaluate_gives_what_python_gives(run):
    words = "--cases 6 --runs 5 --draws 2,10,100 --estimators amci,snis-qm,bound --seed 7"
    found = strict(succeeded(run(f"{EVALUATE} {words} --format json")))
    how = {"cases": 6, "runs": 5, "draws": [2, 10, 100], "seed": 7}
    names = ["amci", "snis-qm", "bound"]
    expected = amci.evaluate(PROBLEM, ORACLE, **how, estimators=names).as_dict()
    assert found["seconds"] > 0
    del expected["seconds"]
    assert {name: found[name] for name in expected} == expected
    # By default a table of all estimators.
    out = succeeded(run(f"{EVALUATE} --cases 2 --runs 2"))
    names = ("amci", "snis-q2", "snis-qm", "snis-qm-stratified", "snis-q1", "bound")
    assert [line.split()[0] for line in out.splitlines()[2:8]] == [*names]
    assert all(f"{total} draws" in out for total in ("2", "10", "100", "1,000"))


@pytest.mark.parametrize(
    "words", ["estimate tail-1d --y 1 --theta 3", "evaluate tail-1d --cases 1 --runs 2"]
)
def test_saved_results_name_the_version_the_seed_and_the_weights(run, words):
    found = strict(succeeded(run(words, "--variant paper --seed 5 --format json")))
    for name in ("q1_plus", "q2"):
        content = (PAPER / f"{name}.safetensors").read_bytes()
        assert found["weights"][name] == hashlib.sha256(content).hexdigest()
    assert (found["versions"]["amci-explorer"], found["seed"]) == (amci.__version__, 5)


def test_evaluate_takes_cases_and_truths_from_a_file(run, tmp_path):
    y, theta = np.array([[1.0], [0.0]]), np.array([[2.0], [1.0]])
    mu = PROBLEM.truth(y, theta)
    columns = {"y": y[:, 0], "theta": theta[:, 0], "value": mu}
    path = tmp_path / "known.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    how = "--runs 5 --draws 10,20 --truth"
    found = strict(succeeded(run(EVALUATE, "--format json", how, path)))
    expected = amci.evaluate(PROBLEM, ORACLE, cases=(y, theta), truth=mu, runs=5, draws=[10, 20])
    assert (found["cases"], found["estimators"]) == (2, expected.estimators)
    pd.DataFrame(columns | {"error": mu}).to_csv(path, index=False)
    out = succeeded(run(EVALUATE, how, path))
    assert "amci at 10 draws: mu too uncertain in 2 of 2 cases" in out
    code, _, err = run(EVALUATE, "--cases 5", how, path)
    said = "amci: --cases: leave it out with --truth, whose file has the cases\n"
    assert (code, err) == (2, said)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--nothing", "--nothing"),
        ("estimate", "PROBLEM"),
        ("estimate tail-1d --theta 1", "y: tail-1d needs it .*observation.* Pass a number"),
        (
            "estimate tail-1d --y 1 --theta 1 --variant best",
            "variant: expected one of spline, paper, oracle, defensive for tail-1d, got 'best'",
        ),
        ("estimate tail1d --y 1 --theta 1", "got 'tail1d'. Did you mean tail-1d?"),
        (f"{ESTIMATE} --y one --theta 1", "y: expected .* got 'one'"),
        (f"{ESTIMATE} --y 1 --theta 1 --draws 1e3", "--draws.* valid integer"),
        (
            f"{EVALUATE} --folder {PAPER} --variant spline",
            "variant: .* holds 'paper', got 'spline'",
        ),
        (f"{ESTIMATE} --y 1 --theta 1 --format xml", "--format"),
        (
            f"{EVALUATE} --draws 10,x",
            "draws: expected whole numbers such as 1000,10000, got '10,x'",
        ),
    ],
)
def test_bad_input_is_one_line_that_names_it(run, words, named):
    code, out, err = run(words)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert re.search(f"^amci: .*{named}", line), line
    assert len(line) < 1000


def test_an_interrupt_ends_without_a_traceback(run, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("amci_core.evaluate", interrupt)
    assert run(f"{EVALUATE} --cases 2") == (130, "", "amci: interrupted\n")


def test_help_does_not_wait_for_pytorch():
    code = (
        "import sys; sys.argv[1:] = ['--help']\n"
        "import amci_core.cli\n"
        "try: amci_core.cli.main()\n"
        "finally: assert not {'torch', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=300)


def test_a_precision_is_reached_or_not(run):
    words = "estimate tail-1d --y 1 --theta 3 --relative-error"
    found = strict(succeeded(run(f"{words} 0.01 --format json")))
    assert found["reached"] is True
    assert found["relative_half_width"] < 0.01
    few = f"{words} 0.0001 --variant paper --draws 300"
    found = strict(succeeded(run(f"{few} --format json")))
    assert found["reached"] is False
    assert "as precise as requested: no, after 300 draws" in succeeded(run(few))
