"""What README.md says is so: its code and commands run, its numbers are the recorded ones."""

import json
import re
import shlex
from pathlib import Path

import pytest

from amci_core import problems
from amci_core.cli import main
from amci_core.files import pretrained_root

README = (Path(__file__).parents[1] / "README.md").read_text()
COMMANDS = [
    pytest.param(command, marks=pytest.mark.slow if command.startswith("figure") else ())
    for command in re.findall(r"^    amci (.*)$", README, re.MULTILINE)
]
PROBLEM_ROWS = re.findall(
    r"^\| ([a-z]\S+)" + r" \| (\S+)" * 5 + r" \| [^|]+ \| (\d+) % \|$", README, re.MULTILINE
)


def test_the_python_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    value, error, *_, truth = map(float, re.findall(r"[\d.]+e-\d+", capsys.readouterr().out)[:5])
    assert abs(value - truth) < 4 * error


@pytest.mark.parametrize("row", PROBLEM_ROWS, ids=lambda row: row[0])
def test_the_table_of_problems_holds_the_recorded_numbers(row):
    name, median, q95, largest, bound, ratio, below = row
    path = pretrained_root() / name / "spline" / "evaluation.json"
    evaluation = json.loads(path.read_text())
    amci, of_bound = (evaluation["estimators"][k] for k in ("amci", "bound"))
    for shown, field in [(median, "remse_median"), (q95, "remse_q95"), (largest, "remse_max")]:
        assert float(shown) == pytest.approx(amci[field][-1], rel=0.05)
    assert float(bound) == pytest.approx(of_bound["remse_median"][-1], rel=0.05)
    measure = "mse_median" if name == "gain-loss" else "remse_median"
    exact = of_bound[measure][-1] / amci[measure][-1]
    assert float(ratio.replace(",", "")) == pytest.approx(exact, rel=0.05)
    assert float(below) == pytest.approx(100 * evaluation["below_bound"]["amci"][-1], abs=0.5)


def test_every_problem_is_in_the_table():
    assert [row[0] for row in PROBLEM_ROWS] == list(problems())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.split()[0])
def test_every_command_runs(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The same commands with less to do: what is tested is that they are spelt right. Training
    # has tests of its own.
    short = command.replace("--pairs 100", "--pairs 3").replace("fig1", "fig2")
    monkeypatch.setattr("amci_core.training.train", lambda *_, **__: tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(short))
    assert ended.value.code == 0


def test_the_files_it_names_exist():
    root = Path(__file__).parents[1]
    named = re.findall(r"`([\w./-]+\.(?:py|md|cff))`|\]\(((?:docs|notebooks)/[\w.-]+)[#)]", README)
    assert len(named) > 5
    for path in (a or b for a, b in named):
        assert (root / path).is_file(), path
