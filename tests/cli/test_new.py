"""`amci new` and `amci check`; problems from files in the other commands."""

import json

import pytest
from own_problems import WRITTEN_OUT

import amci_core as amci


@pytest.fixture(autouse=True)
def _(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_what_new_writes_is_right_and_estimates(run, tmp_path):
    code, out, _ = run("new my_problem.py")
    assert code == 0
    assert out.endswith("x, y, theta of a number each. Next: amci check my_problem.py\n")
    assert len((tmp_path / "my_problem.py").read_text().splitlines()) <= 15
    assert run("check my_problem.py") == (0, "my-problem: no mistake found\n", "")

    problem = amci.load_problem(tmp_path / "my_problem.py")
    words = "my_problem.py:PROBLEM --variant defensive --format json"
    code, out, err = run(f"estimate {words} --y 1 --theta 1 --draws 2000")
    assert (code, err) == (0, "")
    e = amci.estimate(problem, "defensive", 1.0, 1.0, draws=2000)
    assert json.loads(out)["value"] == e.value
    assert abs(e.value - problem.truth(1.0, 1.0)) < 5 * e.standard_error
    code, out, err = run(f"evaluate {words} --cases 2 --runs 3 --draws 10")
    assert (code, err) == (0, "")
    assert json.loads(out)["problem"] == "my-problem"
    code, _, err = run("estimate my_problem.py --y 1")
    assert code == 2
    assert err.startswith("amci: proposals: none ship with the package for my-problem. Pass ")


def test_new_overwrites_nothing(run, tmp_path):
    (tmp_path / "mine.py").write_text("precious")
    for words, message in (
        ("new mine.py", "FILE: mine.py exists already. Choose another name"),
        ("new nowhere/mine.py", "[Errno 2] No such file or directory: 'nowhere/mine.py'"),
        ("new mine.txt", "FILE: expected a name such as my_problem.py, got 'mine.txt'"),
    ):
        assert run(words) == (2, "", f"amci: {message}\n")
    assert (tmp_path / "mine.py").read_text() == "precious"


def test_check_has_three_exit_codes(run, tmp_path):
    text = WRITTEN_OUT.format(kind="Mine", name="mine")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(text.replace("0.5 * torch", "0.7 * torch"))
    code, out, err = run("check wrong.py:Mine")
    assert (code, err) == (1, "")
    first, second, *others = out.splitlines()
    assert first == "mine: 1 error"
    assert second.startswith("  error: sample_likelihood: its draws do not follow log_likelihood")
    assert others == [
        "  not judged: log_evidence and the truth, before the errors above are fixed"
    ]
    for words in ("check wrong.py:Other", "check nowhere.py", "check tail"):
        code, out, err = run(words)
        assert (code, out) == (2, "")
        assert err.startswith("amci: problem: ")
