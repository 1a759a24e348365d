r"""The folder of the page without a server: the page's facts, its pictures and its scripts."""

from __future__ import annotations

__all__ = ["write"]

import json
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bokeh.embed import json_item
from bokeh.layouts import column
from bokeh.models import LayoutDOM
from bokeh.themes import built_in_themes
from bokeh.util.paths import bokehjs_path

import amci_core as amci
from amci_core.estimators import ESTIMATORS as WAYS
from amci_core.io import check_path, vacant, write_bytes
from amci_explorer.js.scripts import bundle
from amci_explorer.numbers.pictures import densities, picture_of
from amci_explorer.numbers.weights import LIVE, weights
from amci_explorer.plots.densities import DensityPicture
from amci_explorer.plots.errors import ErrorPicture
from amci_explorer.plots.style import Theme
from amci_explorer.problems.presets import TABLE, Stop, opening, slider_range, variable_labels
from amci_explorer.views.formula import formula, with_formulas
from amci_explorer.words.curves import NAMES

PAGE = Path(__file__).parent / "page"
# Marks a folder that `write` made and may write again.
MARK = "made-by-amci-explorer.txt"
MARK_TEXT = "`python -m amci_explorer.static` writes this folder.\n"
BOKEH = "bokeh.min.js"
TOTALS, RUNS, SEED = (10, 30, 100, 300, 1000), 1000, 1
# Their grounds are those of the page's cards.
THEMES = {name: built_in_themes[f"{name}_minimal"] for name in ("light", "dark")}


def write(folder: Path, steps: Sequence[Stop] = ()) -> Path:
    """Writes the page into a folder: it works from a file and from any web server.

    Arguments:
        folder: The folder. It is new, empty, or was written by this function.
        steps: The tour.

    Raises:
        StoredFileError: the folder holds something else, or cannot be written.
    """
    if not (check_path("folder", folder) / MARK).exists():
        vacant(folder)
    # The mark comes first: where it cannot be written nothing is computed.
    write_bytes(folder / MARK, MARK_TEXT.encode())
    page = _page(steps)
    # Captions of pictures are widgets of Bokeh's.
    scripts = [bokehjs_path() / "js" / name for name in (BOKEH, "bokeh-widgets.min.js")]
    write_bytes(folder / BOKEH, b"\n".join(script.read_bytes() for script in scripts))
    write_bytes(folder / "index.html", page.encode())
    return folder


def _page(steps: Sequence[Stop]) -> str:
    problems = {name: problem_facts(name) for name in LIVE}
    facts = {
        "problems": problems,
        "names": NAMES,
        "budgets": TOTALS,
        "runs": RUNS,
        "seed": SEED,
    }
    parts = {
        "style": _text("style.css"),
        "options": "".join(
            f"<option value={name}>{escape(each['title'])}</option>"
            for name, each in problems.items()
        ),
        "tour": "".join(map(_told, steps)),
        "facts": json.dumps(facts, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        "worker": bundle(PAGE / "worker.mjs"),
        "script": bundle(PAGE / "main.mjs"),
    }
    # In one go: a text of the tour may look like the place of another part.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _text("index.html"))


def _text(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def problem_facts(name: str) -> dict[str, Any]:
    """A problem as the page needs it: words, pictures, handles, weights, estimators."""
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    y, theta = opening(problem)
    ways: Any = WAYS
    handles = [
        {
            "variable": variable.name,
            "label": variable_labels(problem, variable)[0],
            **slider_range(variable),
        }
        for variable in (problem.y, problem.theta)
        if variable
    ]
    found = densities(problem, proposals, y, theta)

    def density_figures(dark: bool) -> LayoutDOM:
        shown = DensityPicture(found, dark=dark)
        shown.show(found)
        shown.describe()
        return shown.layout

    def error_figure(dark: bool) -> LayoutDOM:
        # The page fills it.
        shown = ErrorPicture(theme=Theme(dark)).figure
        shown.x_range.update(start=0.9 * TOTALS[0], end=TOTALS[-1])
        shown.toolbar_location = None
        return shown

    return {
        "title": problem.title,
        "question": TABLE[name]["question"],
        "chance": "among" in TABLE[name],
        "description": problem.description,
        "formula": formula(problem.formula),
        "extent": picture_of(problem).extent,
        "handles": [
            *handles,
            {"variable": "level", "label": "Mismatch", "step": 0.01},
            {"variable": "draws", "label": "Draws", "start": 0, "end": len(TOTALS) - 1, "step": 1},
        ],
        "opening": {"y": y, "theta": theta},
        "weights": weights(proposals),
        # Those of the first screen that the page can compute.
        "estimators": [{"name": n, "table": ways[n].table.tolist()} for n in ("amci", "snis-q2")],
        "densities": _embedded(density_figures),
        "errors": _embedded(error_figure),
    }


def _embedded(draw: Callable[[bool], LayoutDOM]) -> dict[str, Any]:
    """What is drawn, as BokehJS embeds it, by theme."""
    found = {}
    for name, theme in THEMES.items():
        drawn = column(draw(name == "dark"), sizing_mode="stretch_width")
        item: Any = json_item(drawn, theme=theme)
        # Definitions of Panel's own models.
        item["doc"].pop("defs", None)
        found[name] = item
    return found


def _told(step: Stop) -> str:
    """A step of the tour, folded; where the page can, with a link to its case."""
    case = {name: step.link[name] for name in ("problem", "y", "theta") if name in step.link}
    live = case.get("problem") in LIVE and not {"f", "variant"} & step.link.keys()
    link = f'<p><a href="#{escape(urlencode(case, safe=","))}">Show it</a></p>' if live else ""
    answer = f"<details><summary>Answer</summary>{html_of(step.answer)}</details>"
    return (
        f"<details class=card name=tour><summary>{escape(step.title)}</summary>"
        f"{html_of(step.text)}{link}{html_of(step.question)}{answer if step.answer else ''}"
        "</details>"
    )


def html_of(text: str) -> str:
    """Plain text, with formulas between dollars, as HTML; an empty line begins a paragraph."""
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))
    return "".join(f"<p>{with_formulas(each)}</p>" for each in paragraphs if each)
