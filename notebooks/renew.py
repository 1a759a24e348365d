r"""Runs the notebooks and stores what they print and show: `python notebooks/renew.py [NAME ...]`.

What JupyterLab would draw live is stored as a picture, taken by a headless Chromium, so that a
notebook is small and reads well where nothing runs.
"""

from __future__ import annotations

__all__ = ["main"]

import base64
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests")]

from serving import headless_browser  # noqa: E402

LIVE = "application/vnd.holoviews_exec.v0+json"
WIDTH = 900
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# A picture may wait for its fonts and its first layout.
SETTLE_MS = 1500
# The last cell, added for the run alone: Jupyter keeps the value of every cell in `Out`.
SAVE = """
import panel
from bokeh.resources import INLINE
for number, shown in Out.items():
    if hasattr(shown, "_repr_mimebundle_"):
        page = panel.Column(panel.panel(shown), sizing_mode="stretch_width")
        page.save({folder!r} + f"/{{number}}.html", resources=INLINE)
"""


def photograph(browser: Any, address: str) -> str:
    """A picture of the page at that address, as PNG in base64."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 400})
    page.goto(address)
    page.wait_for_function("() => window.Bokeh?.documents?.length")
    page.wait_for_timeout(SETTLE_MS)
    taken = page.screenshot(full_page=True)
    page.close()
    return base64.b64encode(taken).decode()


def clean(notebook: Any) -> None:
    """Leaves out what differs from run to run or machine to machine."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if not is_loading(each)]
            for output in cell.outputs:
                if "metadata" in output:
                    output.metadata = {}


def is_loading(output: Any) -> bool:
    """Whether an output only loads the scripts and styles that live pictures need."""
    return output.output_type == "display_data" and "image/png" not in output.data


def renew(path: Path) -> None:
    """Runs one notebook and writes it again."""
    notebook = nbformat.read(path, as_version=4)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        notebook.cells.append(nbformat.v4.new_code_cell(SAVE.format(folder=scratch)))
        place = {"metadata": {"path": str(path.parent)}}
        NotebookClient(
            notebook, timeout=300, kernel_name="python3", resources=place, coalesce_streams=True
        ).execute()
        seconds = time.perf_counter() - started
        del notebook.cells[-1]
        with headless_browser() as browser:
            for output in (each for cell in notebook.cells for each in cell.get("outputs", [])):
                if output.output_type == "execute_result" and LIVE in output.data:
                    page = Path(scratch, f"{output.execution_count}.html")
                    picture = photograph(browser, page.as_uri())
                    output.data = {"image/png": picture, "text/plain": "[a live picture]"}
    clean(notebook)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)
    print(f"{path.name}: {seconds:.0f} s, {path.stat().st_size / 1000:.0f} kB", flush=True)


def main(names: list[str]) -> None:
    """Renews the notebooks of those names, or all of them."""
    chosen = [HERE / Path(name).name for name in names] or sorted(HERE.glob("[0-9]*.ipynb"))
    for path in chosen:
        renew(path)


if __name__ == "__main__":
    main(sys.argv[1:])
