"""Stored notebooks are small, clean and complete; they run, and what their prose says is true."""

import re
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
# What a machine would leave behind: absolute paths and addresses.
TRACES = re.compile(r"(?<![\w/.])/\w[\w.-]*/|[A-Z]:\\\\|localhost|127\.0\.0\.1")
SOLUTION = re.compile(r"<details><summary>Solution</summary>\n(.*?)\n</details>", re.DOTALL)
BEGINNING = ("- **You will be able to** ", "- **You need to know** ", "- **Time**: ")
# What the prose says of the results, by the number of the notebook, in its own variables.
FACTS = {
    "01": """
error = {name: curves[name].remse[0] for name in names}
assert (shares == 0).mean() > 0.7
assert abs(remse * draws / (4 * (1 - mu) ** 2) - 1) < 0.1
assert abs(one.value / mu - 1) < 1e-9
assert 0.5 < error["snis-qm"] / error["bound"] < 2
assert error["snis-qm-stratified"] < 1e-2 * error["bound"]
assert error["amci"] < 2e-2 * error["snis-qm-stratified"]
assert abs(e.value - mu) < 3 * e.standard_error
assert problem.mismatch(3.0, 0.1) < 0.03
""",
    "02": """
assert share < 0.03
assert min(v for _, v in history["q1_plus"]) < 1e-3 * history["q1_plus"][0][1]
assert min(v for _, v in history["q2"]) < 1e-5
assert abs(error).max() < 0.02
""",
    "03": """
near = curves["snis-qm"].remse[3:] / curves["bound"].remse[3:]
assert 0.6 < near.min() <= near.max() < 1.5
slope = np.polyfit(np.log(curves.draws[1:]), np.log(curves["amci"].remse[1:]), 1)[0]
assert abs(slope + 1) < 0.25
assert both["snis-qm-stratified"].remse[0] < 1e-3 * both["bound"].remse[0]
for case, expected in formula.items():
    for name in expected:
        assert abs(exact[case][name].remse[0] / expected[name] - 1) < 0.3
    assert exact[case]["amci"].remse[0] < 1e-20
assert summary.below_bound["amci"][0] == 1
assert summary.estimators["snis-q2"]["remse_max"][0] > 1
""",
    "04": """
for e in errors.values():
    best, of_amci = e.predicted(*e.optimum), e.predicted(1.0, 0.0)
    assert best <= e.predicted(*e.paper) < 1.1 * best
    assert best < (of_amci / 20 if e is errors[3.0, 0.1] else of_amci)
assert collapsed.sum() > 150
assert (estimate[collapsed] == 0).all()
assert (alpha[~collapsed] > 0.95).all()
for case in errors:
    assert remse[case, "amci-cv"] < min(remse[case, "amci"], remse[case, "reuse-paper"])
assert error_at((3.0, 0.1), 0.5, 0.5) < error_at((3.0, 0.1), 1.0, 0.0) / 20
error = {name: curves[name].mse[0] for name in names}
assert sorted(names, key=error.get)[:3] == ["amci", "snis-qm-stratified", "bound"]
assert error["snis-qm-stratified"] > 1e4 * error["amci"]
assert error["snis-q1"] > 100 * error["bound"]
assert np.argmin(standard_errors) in (5, 6, 7)  # around c = mu
""",
    "05": """
assert counted == {T}
assert errors[0.5]["MCMC"] == errors[0.5]["SNIS q2"] == 1
assert all(max(of["amci"], of["snis-qm-stratified"]) < 0.005 for of in errors.values())
assert not hit.any() and np.median(off) < 0.01 and off[second] < 0.05 < 0.15 < off[worst] < 0.25
assert worst == 953 and many.verdict.level[worst] == "use more draws"
assert v["learnt"][worst] > 100 * np.median(v["learnt"])
assert v["untrained"].mean() > 1000 * v["learnt"].mean()
assert 0.4 < sobol < 0.7
assert 5 < questions(0.01) < 7.5 < 550 < questions(0.1) < min(750, questions(0.1, 0.0) / 3)
assert questions(0.12) < 1000 < questions(0.13)
assert curves["amci"].remse[0] > 20 * curves["snis-q2"].remse[0]
assert curves["amci-cv"].remse[0] < 2 * curves["snis-q2"].remse[0]
""",
    "06": """
assert 0.55 < (success > 0.01).mean() < 0.65
assert regret["amci", 4] < min(regret["snis-q2", 256], regret["snis-qm-stratified", 256])
assert regret["snis-q2", 4] < 0.1 * gain
""",
    "07": """
assert 0.93 < covered < 0.99
assert (maps["spline"].relative_variance < 1).all()
left = maps["paper"].relative_variance[np.ix_(found.y.values > 3, found.x.values < -0.9)]
assert (left > 100).all()
assert 0.05 < far.mean() < 0.2
assert np.median(error) > 0
assert not (reliable & far).any()
assert np.median(own.ess) > 0.6 * own.draws
for name in ("AMCI", "AMCI, more draws"):
    assert np.median(corner[name].value) < 0.4 * float(problem.truth(y, theta))
    assert not (corner[name].verdict.level == "reliable").any()
assert (corner["half defensive"].verdict.level == "reliable").mean() > 0.9
assert precise["paper"].draws > 100 * precise["spline"].draws
scale.value = 0.1
assert "**do not trust" in judged(scale.value).splitlines()[0]
""",
    "08": """
assert 5 < nats < 6
assert [with_noise(v)[1].verdict.level for v in (0.05, 1.0)] == ["use more draws", "reliable"]
assert abs(e.value - mu) < 4 * e.standard_error
assert error["bound"] > 100 * error["amci"]
assert error["amci-cv"] < error["amci"] < error["snis-qm-stratified"]
assert summary.below_bound["amci"][0] > 0.9
""",
}

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def prose(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


@every_notebook
def test_it_is_valid_and_small_with_the_outputs_of_one_clean_run(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert path.stat().st_size < 300_000
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(cell.metadata == {} for cell in code)
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"stream", "execute_result"}
    assert all(output.get("name") != "stderr" for output in outputs)
    assert all("image/png" in output.get("data", {"image/png"}) for output in outputs)
    assert not TRACES.search("".join(output.get("text", "") for output in outputs))
    # No checks, and of the page only pictures.
    text = "\n".join(cell.source for cell in code)
    assert "assert " not in text
    named = re.findall(r"^.*\b(?:app|amci_explorer)\b.*$", text, re.MULTILINE)
    assert named == ["from amci_explorer import plots"]
    # Panel's Markdown knows double dollars alone.
    assert "$" not in prose(notebook).replace("$$", "")


@every_notebook
def test_it_says_what_for_asks_first_and_leads_on(path):
    cells = read(path).cells
    assert all(f"\n{line}" in cells[0].source for line in BEGINNING)
    assert sum("> **Before you run:**" in cell.source for cell in cells) >= 3
    exercises = prose(read(path)).partition("## Exercises")[2]
    numbers = re.findall(r"^\*\*(\d)\.\*\*", exercises, re.MULTILINE)
    assert numbers in (["1", "2"], ["1", "2", "3"])
    assert len(SOLUTION.findall(exercises)) == len(numbers)
    following = [*NOTEBOOKS[1:], "../docs/own-model.md"][NOTEBOOKS.index(path)]
    assert f"({getattr(following, 'name', following)})" in exercises.partition("**Next**: ")[2]


@every_notebook
def test_its_links_lead_to_files_and_sections(path):
    for name, anchor in re.findall(r"\]\(([\w./-]+)#?([\w-]*)\)", prose(read(path))):
        text = (path.parent / name).read_text()
        headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
        assert not anchor or anchor in [h.lower().replace(" ", "-") for h in headings]


@pytest.fixture(scope="module")
def kernel():
    """One kernel for all notebooks: each finds it without names, but with the modules loaded.

    That each runs in a kernel of its own is what its stored outputs show.
    """
    manager, client = start_new_kernel(cwd=NOTEBOOKS[0].parent)
    client.stop_channels()
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "path",
    [NOTEBOOKS[0], *(pytest.param(path, marks=pytest.mark.slow) for path in NOTEBOOKS[1:])],
    ids=lambda path: path.stem,
)
@pytest.mark.xdist_group("notebooks")
def test_it_runs_with_its_solutions_and_what_the_prose_says_is_true(path, kernel):
    notebook = read(path)
    solutions = re.findall(r"```python\n(.*?)```", prose(notebook), re.DOTALL)
    assert solutions
    facts = "import numpy as np\n" + FACTS[path.name[:2]]
    forget, *after = map(nbformat.v4.new_code_cell, ["%reset -f", facts, *solutions])
    notebook.cells = [forget, *notebook.cells, *after]
    NotebookClient(notebook, km=kernel, timeout=500).execute()
