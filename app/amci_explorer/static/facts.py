r"""What the page without a server knows of problems, proposals, estimators and colours."""

from __future__ import annotations

__all__ = ["VARIANT", "colours", "problem_facts", "style_facts"]

from typing import Any

import amci_core as amci
from amci_core.estimators import ESTIMATORS as WAYS
from amci_core.estimators.estimators import Tabled
from amci_core.evaluation.runs import default_estimators
from amci_core.models import Problem, Variable
from amci_explorer.numbers.pictures import picture_of
from amci_explorer.numbers.weights import weights
from amci_explorer.plots.colours import ESTIMATORS, SHAPES, label
from amci_explorer.problems.presets import (
    TABLE,
    coordinate_names,
    digits_of,
    opening,
    variable_labels,
    where_f_is,
)
from amci_explorer.text import subscript
from amci_explorer.views.formula import formula

VARIANT = "spline"


def problem_facts(name: str) -> dict[str, Any]:
    """A problem as the page needs it: words, handles, weights, estimators."""
    problem = amci.problem(name)
    proposals = amci.load_proposals(problem, variant=VARIANT)
    y, theta = opening(problem)
    signed, stored = not problem.nonnegative, weights(proposals)
    tabled = {n: WAYS[n] for n in default_estimators(problem, proposals) if n in WAYS}
    return {
        "title": problem.title,
        "description": problem.description,
        "formula": formula(problem.formula),
        "truth": TABLE.get(name, {}).get("truth", ""),
        "where": where_f_is(problem),
        "extent": picture_of(problem).extent,
        "coordinates": list(coordinate_names(problem)),
        "handles": _handles(problem),
        "opening": {"y": list(y), "theta": list(theta)},
        "shapes": {shape: label(shape, signed=signed, variant=VARIANT) for shape in SHAPES},
        "proposals": {q: text for q, text in _names(signed).items() if q in stored},
        "weights": stored,
        "estimators": [
            {"name": n, "table": way.table.tolist()}
            for n, way in tabled.items()
            if isinstance(way, Tabled)
        ],
    }


def _names(signed: bool) -> dict[str, str]:
    return {"q1_plus": "q₁⁺" if signed else "q₁", "q1_minus": "q₁⁻", "q2": "q₂"}


def _handles(problem: Problem) -> list[dict[str, Any]]:
    """The handles of y and theta, one a coordinate, with their labels, ends and steps."""
    found = []
    for variable in filter(None, (problem.y, problem.theta)):
        low, high = variable.typical_range
        found += [
            {
                "of": variable.name,
                "index": i,
                "label": text,
                "low": low,
                "high": high,
                "digits": digits_of(variable),
            }
            for i, text in enumerate(_labels(problem, variable))
        ]
    return found


def _labels(problem: Problem, variable: Variable) -> list[str]:
    names = variable_labels(problem, variable)
    if len(names) == variable.dim:
        return list(names)
    return [f"{names[0]}{subscript(i + 1)}" for i in range(variable.dim)]


def style_facts() -> dict[str, Any]:
    """Labels and dashes of estimators and shapes; their colours are in `colours`."""
    styles = {**ESTIMATORS, **SHAPES}
    return {name: {"label": s.label, "dash": list(s.dash)} for name, s in styles.items()}


def colours() -> str:
    """Every colour as a custom property of CSS, `--NAME`, for a light and a dark page."""
    styles = {**ESTIMATORS, **SHAPES}
    lines = (f"    --{n}: light-dark({s.light}, {s.dark});" for n, s in styles.items())
    return "\n".join([":root {", *lines, "}"])
