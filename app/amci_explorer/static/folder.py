r"""The folder of the page without a server: the page's facts, its pictures and its scripts."""

from __future__ import annotations

__all__ = ["MARK", "write"]

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bokeh.util.paths import bokehjs_path

import amci_core as amci
from amci_core.estimators import ESTIMATORS as WAYS
from amci_core.estimators.estimators import Tabled
from amci_core.evaluation.runs import default_estimators
from amci_core.io import StoredFileError
from amci_explorer.js.bundle import bundle
from amci_explorer.numbers.pictures import picture_of
from amci_explorer.numbers.weights import LIVE, weights
from amci_explorer.plots.colours import ESTIMATORS
from amci_explorer.problems.presets import (
    TABLE,
    digits_of,
    opening,
    variable_labels,
    where_f_is,
)
from amci_explorer.state.tour import Step
from amci_explorer.static.pictures import BUDGETS, KINDS, RUNS, Case, densities, embedded, errors
from amci_explorer.static.pictures import numbers as numbers_of
from amci_explorer.text import subscript
from amci_explorer.views.formula import formula, with_formulas

PAGE = Path(__file__).parent / "page"
# Marks a folder that `write` made and may replace.
MARK = "made-by-amci-explorer.txt"
MARK_TEXT = "`python -m amci_explorer.static` writes this folder and replaces all of it.\n"
BOKEH = "bokeh.min.js"
VARIANT = "spline"
# Parts that the page has for its live problems; others have a picture in the step.
PARTS = {"headline", "handles", "densities", "errors", "summary"}
# Parts that take a server.
SERVED = {"play", "film", "own-f", "train"}
NOTE = "<p><i>Playing, training and your own f need the page with its server.</i></p>"


def write(folder: Path, steps: Sequence[Step] = ()) -> Path:
    """Writes the page into a folder: it works from a file and from any web server.

    The new page is written beside the old one and then renamed.

    Arguments:
        folder: The folder. It is new, empty, or was written by this function.
        steps: The tour.

    Raises:
        StoredFileError: the folder holds something else, or cannot be written.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise StoredFileError(f"{folder}: holds other files, which would be lost; name a new one")
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as beside:
            new, old = Path(beside, "new"), Path(beside, "old")
            new.mkdir()
            _fill(new, steps)
            if folder.is_dir():
                folder.rename(old)
            new.rename(folder)
    except OSError as error:
        why = error.strerror or error
        raise StoredFileError(f"{folder}: cannot be written ({why})") from error
    return folder


def _fill(folder: Path, steps: Sequence[Step]) -> None:
    facts = {
        "problems": {name: problem_facts(name) for name in LIVE},
        "labels": {name: style.label for name, style in ESTIMATORS.items()},
        "budgets": BUDGETS,
        "runs": RUNS,
        "steps": _told(steps),
    }
    colours = (f"--{n}: light-dark({s.light}, {s.dark});" for n, s in ESTIMATORS.items())
    parts = {
        "style": f":root {{ {' '.join(colours)} }}\n{_text('style.css')}",
        "facts": json.dumps(facts, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        "worker": bundle(PAGE / "worker.mjs"),
        "script": bundle(PAGE / "main.mjs"),
    }
    # In one go: a text of the tour may look like the place of another part.
    page = re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _text("index.html"))
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / MARK).write_text(MARK_TEXT, encoding="utf-8")
    shutil.copyfile(bokehjs_path() / "js" / BOKEH, folder / BOKEH)


def _text(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def problem_facts(name: str) -> dict[str, Any]:
    """A problem as the page needs it: words, pictures, handles, weights, estimators."""
    problem = amci.problem(name)
    proposals = amci.load_proposals(problem, variant=VARIANT)
    y, theta = opening(problem)
    case = Case(problem, proposals, y or None, theta or None)
    ways = {name: WAYS.get(name) for name in default_estimators(problem, proposals)}
    tables = {name: way.table for name, way in ways.items() if isinstance(way, Tabled)}
    plus = "q₁" if problem.nonnegative else "q₁⁺"
    return {
        "title": problem.title,
        "description": problem.description,
        "formula": formula(problem.formula),
        "truth": TABLE.get(name, {}).get("truth", ""),
        "where": where_f_is(problem),
        "extent": picture_of(problem).extent,
        "handles": _handles(problem),
        "opening": {"y": y, "theta": theta},
        "proposals": {"q1_plus": plus, "q1_minus": "q₁⁻", "q2": "q₂"},
        "weights": weights(proposals),
        "estimators": [{"name": way, "table": table.tolist()} for way, table in tables.items()],
        "densities": embedded(densities(case)[0]),
        # The page fills it.
        "errors": embedded(errors(case, [*tables, "bound"], runs=20)[0]),
    }


def _handles(problem: amci.Problem) -> list[dict[str, Any]]:
    """The handles of y and theta, one a coordinate, with their labels, ends and digits."""
    found = []
    for variable in filter(None, (problem.y, problem.theta)):
        names, (low, high) = variable_labels(problem, variable), variable.typical_range
        if len(names) != variable.dim:
            names = tuple(f"{names[0]}{subscript(i + 1)}" for i in range(variable.dim))
        found += [
            {
                "of": variable.name,
                "index": i,
                "label": label,
                "low": low,
                "high": high,
                "digits": digits_of(variable),
            }
            for i, label in enumerate(names)
        ]
    return found


def _told(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps as the page reads them: a live case, a picture, or both."""
    found, problem = [], LIVE[0]
    for step in steps:
        state = step.state
        problem = state.get("problem", problem)
        live = (
            state.get("problem", LIVE[0]) in LIVE
            and state.get("variant") in (None, "", VARIANT)
            and not state.get("f")
        )
        texts = {name: html_of(getattr(step, name)) for name in ("text", "question", "answer")}
        if step.light in SERVED:
            texts["text"] += NOTE
        case: dict[str, Any] = {}
        if live:
            case = {n: numbers_of(state[n]) for n in ("y", "theta") if n in state}
            case |= {"problem": state["problem"]} if "problem" in state else {}
        found.append(
            {"name": step.name, "title": step.title, "light": step.light, "live": live}
            | texts
            | {"case": case, "picture": _stored(step, problem, live)}
        )
    return found


def _stored(step: Step, problem: str, live: bool) -> dict[str, Any] | None:
    """What the page cannot show by itself of a step, as a picture with its caption."""
    if live and step.light in PARTS:
        return None
    stored = set(KINDS) - (PARTS if live else set())
    kind = next((k for k in (step.light, step.state.get("card")) if k in stored), None)
    if kind is None and live:
        return None
    case = Case.of(step.state, problem)
    draw, words = KINDS[kind or "errors"](case)
    return {"figures": embedded(draw), "caption": str(case), "words": words}


def html_of(text: str) -> str:
    """Plain text, with formulas between dollars, as HTML; an empty line begins a paragraph."""
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))
    return "".join(f"<p>{with_formulas(each)}</p>" for each in paragraphs if each)
