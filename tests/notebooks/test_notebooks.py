"""Stored notebooks are small, clean and complete; their cells and solutions run.

The assertions in the cells check the facts that the prose states.
"""

import re
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
LARGEST = 300_000
# What a machine would leave behind: absolute paths and addresses.
TRACES = re.compile(r"(?<![\w/.])/\w[\w.-]*/|[A-Z]:\\\\|localhost|127\.0\.0\.1")
SOLUTION = re.compile(r"<details><summary>Solution</summary>\n(.*?)\n</details>", re.DOTALL)
ALLOWED_OUTPUTS = {"stream", "execute_result"}

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def prose(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


@every_notebook
def test_it_is_valid_and_small(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert path.stat().st_size < LARGEST
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    assert [cell.id for cell in notebook.cells] == [
        f"cell-{number:02d}" for number in range(len(notebook.cells))
    ]


@every_notebook
def test_its_outputs_are_those_of_one_clean_run(path):
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} <= ALLOWED_OUTPUTS
    assert all(output.get("name") != "stderr" for output in outputs)
    pictures = [output.data for output in outputs if output.output_type == "execute_result"]
    assert pictures
    assert all("image/png" in data for data in pictures)
    printed = "".join(output.get("text", "") for output in outputs)
    assert printed
    assert not TRACES.search(printed)
    assert all(cell.metadata == {} for cell in code)


@every_notebook
def test_it_ends_in_two_exercises_with_folded_solutions(path):
    _, _, exercises = prose(read(path)).partition("## Exercises")
    assert re.findall(r"^\*\*(\d)\.\*\*", exercises, re.MULTILINE) == ["1", "2"]
    assert len(SOLUTION.findall(exercises)) == 2


@every_notebook
def test_formulas_are_for_notebook_and_served_page_alike(path):
    # Panel's Markdown knows double dollars alone.
    assert "$" not in prose(read(path)).replace("$$", "")


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
def test_it_runs_in_a_kernel_and_so_do_the_solutions_after_it(path, kernel):
    notebook = read(path)
    solutions = re.findall(r"```python\n(.*?)```", prose(notebook), re.DOTALL)
    assert solutions
    forget, *solved = map(nbformat.v4.new_code_cell, ["%reset -f", *solutions])
    notebook.cells = [forget, *notebook.cells, *solved]
    NotebookClient(notebook, km=kernel, timeout=500).execute()
