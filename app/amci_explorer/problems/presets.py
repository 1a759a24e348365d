r"""What the page says of a problem: where it opens, what to watch, what controls are called."""

from __future__ import annotations

__all__ = [
    "Stop",
    "coordinate_names",
    "digits_of",
    "handle_label",
    "opening",
    "planes",
    "preset_at",
    "presets",
    "read_stop",
    "slider_range",
    "variable_labels",
]

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from amci_core.models import Problem, Variable
from amci_explorer.problems import registry
from amci_explorer.text import subscript


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A case worth seeing.

    Arguments:
        name: What a preset is called; of a step its name in links.
        text: What there is to see, two or three sentences; formulas in LaTeX between dollars.
        link: What the page's address holds there; all else opens anew.
        title: The title of a tour's step.
        light: The part of the page that the step lights up; empty for none.
        question: A question to the reader; empty for none.
        answer: The answer, shown when it is opened.
    """

    name: str
    text: str
    link: Mapping[str, str]
    title: str = ""
    light: str = ""
    question: str = ""
    answer: str = ""


def read_stop(entry: Mapping[str, Any], problem: str) -> Stop:
    """Reads a stop from a table of a TOML file.

    Arguments:
        entry: The table. Its `link` is an address of the page, or what follows its question mark.
        problem: The problem of a link that names none.

    Raises:
        TypeError: an entry is missing or unknown.
        ValueError: the link is none.
    """
    query = entry.get("link", "").rpartition("?")[2]
    link = {"problem": problem, **dict(parse_qsl(query, strict_parsing=True))}
    return Stop(**{**entry, "link": link})


TABLE = tomllib.loads((Path(__file__).parent / "presets.toml").read_text("utf-8"))
# By the problem's name.
PRESETS: Mapping[str, Sequence[Stop]] = {
    name: tuple(read_stop(entry, name) for entry in of["presets"]) for name, of in TABLE.items()
}
# Names in links by which two cases are the same, whatever is shown of them.
CASE = ("problem", "f", "y", "theta", "variant", "snapshot", "alpha", "beta")
LABELS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    name: {at: tuple(labels) for at, labels in of["labels"].items()} for name, of in TABLE.items()
}
# Wider ranges than this are moved in whole numbers.
WIDE = 100.0


def presets(problem: Problem) -> Sequence[Stop]:
    """Cases worth seeing; empty if the problem has none."""
    return PRESETS.get(problem.name, ())


def preset_at(link: Mapping[str, str]) -> Stop | None:
    """The preset whose case a link leads to; None if there is none."""
    known = PRESETS.get(link["problem"], ())
    same = (p for p in known if all(p.link.get(name) == link.get(name) for name in CASE))
    return next(same, None)


def opening(problem: Problem) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """y and theta where the page opens: the first preset's, else a typical case.

    Each is empty where the problem has none.
    """
    for first in PRESETS.get(_model(problem), ())[:1]:
        return _point(first.link.get("y")), _point(first.link.get("theta"))
    y, theta = (() if v is None else tuple(map(float, v)) for v in problem.typical_case())
    return y, theta


def _point(text: str | None) -> tuple[float, ...]:
    return tuple(map(float, text.split(","))) if text else ()


def variable_labels(problem: Problem, variable: Variable) -> tuple[str, ...]:
    """What controls for a variable are called: one name where its coordinates are alike."""
    name, alike = variable.name, (variable.typical == variable.typical[:, :1]).all()
    own = (name,) if alike else tuple(f"{name}{subscript(i + 1)}" for i in range(variable.dim))
    return LABELS.get(_model(problem), {}).get(name, own)


def handle_label(label: str, variable: Variable) -> str:
    """What a handle is called: what it moves, and in which unit."""
    return f"{label}, {variable.unit}" if variable.unit else label


def digits_of(variable: Variable, i: int = 0) -> int:
    """Digits after the point that the i-th coordinate of a variable is moved by.

    None of counts or over a wide range, and two or more, for a hundredth of a narrow one.
    """
    low, high = variable.typical[:, i]
    if np.broadcast_to(variable.whole or False, variable.dim)[i] or high - low > WIDE:
        return 0
    return max(2, 2 - math.floor(math.log10(high - low)))


def slider_range(variable: Variable, i: int = 0) -> dict[str, Any]:
    """The ends, the step and the decimals of a slider for the i-th coordinate of a variable."""
    (start, end), digits = variable.typical[:, i].tolist(), digits_of(variable, i)
    return {"start": start, "end": end, "step": 10.0**-digits, "digits": digits}


def coordinate_names(problem: Problem) -> tuple[str, ...]:
    """What the coordinates of x are called."""
    known = LABELS.get(_model(problem), {}).get("x")
    several = tuple(f"x{subscript(i + 1)}" for i in range(problem.x.dim))
    return known or (several if problem.x.dim > 1 else ("x",))


def _model(problem: Problem) -> str:
    """Whose prior and likelihood a problem has: with another f the one it comes from."""
    return registry.split(problem.name)[0]


def planes(names: Sequence[str]) -> dict[tuple[int, int], str]:
    """Two coordinates each and their names; a single coordinate twice."""
    several = combinations(range(1, len(names) + 1), 2)
    found = {(i, j): f"{names[i - 1]}, {names[j - 1]}" for i, j in several}
    return found or {(1, 1): names[0]}
