r"""The folder of the page without a server: what is in it, and how it is written."""

from __future__ import annotations

__all__ = ["write"]

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amci_core.io import StoredFileError
from amci_explorer.js.bundle import bundle
from amci_explorer.numbers.weights import LIVE
from amci_explorer.static.facts import colours, problem_facts, style_facts
from amci_explorer.static.kinds import KINDS
from amci_explorer.static.pictures import Case
from amci_explorer.static.told import Step, subject_of, told

PAGE = Path(__file__).parent / "page"
# Says that a folder was written here, and may be replaced.
MARK = "made-by-amci-explorer.txt"
MARK_TEXT = "`python -m amci_explorer.static` writes this folder and replaces all of it.\n"


def write(folder: Path, steps: Sequence[Step] = ()) -> Path:
    """Writes the page into a folder: it works from a file and from any web server.

    All is written beside and then renamed: the old page stays whole until the new one is.

    Arguments:
        folder: The folder. It is new, empty, or was written by this function.
        steps: The tour.

    Raises:
        StoredFileError: the folder holds something else, or cannot be written.
    """
    try:
        _check(folder)
        folder = folder.resolve()
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            _fill(beside, steps)
            beside.chmod(0o755)
            _replace(folder, beside)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        why = error.strerror or error
        raise StoredFileError(f"{folder}: cannot be written ({why})") from error
    return folder


def _check(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise StoredFileError(f"{folder}: a file; expected the name of a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise StoredFileError(f"{folder}: holds other files, which would be lost; name a new one")


def _replace(folder: Path, new: Path) -> None:
    old = None
    if folder.exists():
        old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        folder.rename(old / "old")
    new.rename(folder)
    if old is not None:
        shutil.rmtree(old)


def _fill(folder: Path, steps: Sequence[Step]) -> None:
    facts = {
        "problems": {name: problem_facts(name) for name in LIVE},
        "styles": style_facts(),
        "steps": _steps(folder, steps),
    }
    parts = {
        "style": f"{colours()}\n{_text('style.css')}",
        "facts": json.dumps(facts, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        "worker": bundle(PAGE / "worker.mjs"),
        "script": bundle(PAGE / "main.mjs"),
    }
    page = _text("index.html")
    for name, text in parts.items():
        if "</script" in text or "</style" in text:
            raise ValueError(f"{name}: its text would end its own element")
    # In one go: a text of the tour may look like the place of another part.
    page = re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], page)
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / MARK).write_text(MARK_TEXT, encoding="utf-8")


def _text(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _steps(folder: Path, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps as the page reads them; their stored pictures are written."""
    found, problem = [], LIVE[0]
    for step in steps:
        problem = step.state.get("problem", problem)
        found.append(told(step, _picture(folder, step, problem)))
    return found


def _picture(folder: Path, step: Step, problem: str) -> dict[str, str] | None:
    kind = subject_of(step)
    if kind is None:
        return None
    drawn = KINDS[kind](Case.of(step.state, problem))
    pictures = folder / "pictures"
    pictures.mkdir(exist_ok=True)
    files = {}
    for theme in ("light", "dark"):
        files[theme] = f"pictures/{step.name}-{theme}.svg"
        (folder / files[theme]).write_bytes(drawn.svg(dark=theme == "dark"))
    return {**files, "alternative": drawn.alternative, "caption": drawn.caption}
