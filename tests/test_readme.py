"""What README.md says is so: its code and commands run, its numbers are the recorded ones."""

import json
import math
import re
from pathlib import Path

import pytest
from scipy.stats import norm

from amci_core import problems
from amci_core.io import pretrained_root

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
RIVALS = {
    "q₂": "snis-q2",
    "q₁": "snis-q1",
    "q_m": "snis-qm",
    "q_m stratified": "snis-qm-stratified",
}
PROBLEM_ROWS = re.findall(
    r"^\| ([a-z]\S+) \| (\d\S+)" + r" \| ([^|]+)" * 8 + r" \| [^|]+ \|$", BENCHMARKS, re.MULTILINE
)
SHORT_ROWS = re.findall(
    r"^\| ([a-z]\S+): [^|]+ \| (\S+) \| (\S+) \| ([^|]+) \| (\S+) \|$", README, re.MULTILINE
)


def test_the_first_example_prints_what_stands_below_it(capsys):
    number = r"\d[\d.e-]*\d|\d"
    code, *shown = re.split(r"^# ", EXAMPLES[0], flags=re.MULTILINE)
    exec(compile(code, "README.md", "exec"), {})
    printed, shown = capsys.readouterr().out, "".join(shown)
    assert re.sub(number, "N", printed) == re.sub(number, "N", shown)
    # Processors round differently.
    told = [[float(each) for each in re.findall(number, text)] for text in (printed, shown)]
    assert told[0] == pytest.approx(told[1], rel=0.01)


def test_an_interval_that_misses_the_exact_value_says_so():
    low, high = re.search(r"^95 % interval: (\S+) to (\S+)", README, re.M).groups()
    told, place, share = re.search(
        r"exactly ([\d.]+), which the interval (holds|misses); of such intervals (\d+) in", README
    ).groups()
    assert len(told) >= len(low)
    # P(x > 2 | y = 1) under N(0.8, 0.2)
    assert float(told) == pytest.approx(
        norm.sf(2, 0.8, math.sqrt(0.2)), abs=10.0 ** (2 - len(told))
    )
    assert place == ("holds" if float(low) < float(told) < float(high) else "misses")
    assert share == "95"


@pytest.mark.slow
def test_a_model_in_five_lines_leads_to_an_answer_that_can_be_trusted(capsys):
    assert len(list(filter(None, EXAMPLES[1].splitlines()))) == 10
    exec(compile(EXAMPLES[1], "README.md", "exec"), {})
    said = capsys.readouterr().out
    value, error = map(float, re.search(r"mu = (\S+), standard error (\S+)", said).groups())
    assert "reliable" in said
    # P(x > 2 | y = 1) under N(0.8, 0.2)
    assert abs(value - norm.sf(2, 0.8, math.sqrt(0.2))) < 4 * error


@pytest.mark.parametrize("row", PROBLEM_ROWS, ids=lambda row: row[0])
def test_the_table_of_problems_holds_the_recorded_numbers(row):
    name, *shown = row
    path = pretrained_root() / name / "spline" / "evaluation.json"
    evaluation = json.loads(path.read_text())
    found = {
        key: {measure: values[-1] for measure, values in errors.items()}
        for key, errors in evaluation["estimators"].items()
    }
    rivals = [key for key in found if key.startswith("snis")]
    best = min(rivals, key=lambda key: found[key]["remse_median"])
    assert RIVALS[shown.pop(3)] == best
    undetermined = [found[key]["undetermined"] for key in ("amci", best)]
    assert shown.pop(4) == " / ".join(f"{100 * share:.0f}" for share in undetermined)
    ratio = "mse_median" if name == "gain-loss" else "remse_median"
    # To one digit: medians of the rival are uncertain.
    lead, over = (
        float(f"{found[key][ratio] / found['amci'][ratio]:.0e}") for key in (best, "bound")
    )
    assert [float(number.replace(",", "")) for number in shown] == pytest.approx(
        [
            *(found["amci"][key] for key in ("remse_median", "remse_q95", "remse_max")),
            found[best]["remse_median"],
            lead,
            found["bound"]["remse_median"],
            over,
        ],
        rel=0.05,
    )
    assert evaluation["below_bound"]["amci"][-1] == 1
    error = found[best].get("remse_median_error")
    if told := re.search(rf"([\d.e-]+) ± ([\d.e-]+)\s+on\s+{name}\b", BENCHMARKS):
        expected = (found[best]["remse_median"], error)
        assert [float(number) for number in told.groups()] == pytest.approx(expected, rel=0.05)
    else:
        assert error is None or error < found[best]["remse_median"] / 4
    if told := re.search(rf"limits (\d+) % of\s+{name}'s", BENCHMARKS):
        assert float(told[1]) == pytest.approx(100 * found["amci"]["reference_limited"])


def test_every_problem_is_in_the_long_table_and_the_short_one_is_taken_from_it():
    rows = {row[0]: (row[1], row[5], row[6], row[8]) for row in PROBLEM_ROWS}
    assert list(rows) == list(problems())
    assert len(SHORT_ROWS) == 4
    for name, *shown in SHORT_ROWS:
        assert tuple(shown) == rows[name]
