r"""What depends on the problem: the values that a choice can have, and where it opens."""

from __future__ import annotations

__all__ = ["layers", "moved_by", "opens", "options", "other_axis", "plane_axes"]

from collections.abc import Mapping
from typing import Any

from amci_core.amortization import axis_names, default_plane
from amci_core.models import Problem
from amci_explorer.colours import SWEPT
from amci_explorer.problems import registry
from amci_explorer.problems.presets import (
    coordinate_names,
    handle_label,
    opening,
    planes,
    variable_labels,
)
from amci_explorer.text import duration, pretty
from amci_explorer.words import CARDS


def options(name: str, problem: Problem, session: object = None) -> Mapping[Any, str]:
    """The values that a choice can have for a problem, and their labels.

    Arguments:
        name: The choice.
        problem: The problem.
        session: The page whose own proposals are listed as well.
    """
    match name:
        case "variant":
            return {each: each for each in registry.variants(problem.name, session)}
        case "snapshot":
            # The last checkpoint is the trained proposal itself.
            earlier = enumerate(registry.history(problem.name)[:-1])
            labels = {i: f"step {at.step:,}, after {duration(at.seconds)}" for i, at in earlier}
            return {**labels, None: "trained"}
        case "card":
            return CARDS
        case "layer":
            return layers(problem)
        case "across" | "upwards":
            return plane_axes(problem)
        case "single":
            swept = registry.swept(problem.name)
            return {each: SWEPT[each].label for each in swept if each != "bound"}
        case "coordinate":
            return dict(enumerate(coordinate_names(problem), 1))
        case "pair":
            return planes(coordinate_names(problem))
    return {}


def opens(name: str, problem: Problem) -> Any:
    """Where a choice opens for a problem; None if that does not depend on it."""
    match name:
        case "y" | "theta":
            return opening(problem)[name == "theta"]
        case "runs":
            # A draw costs more in more dimensions.
            return 1000 if problem.x.dim == 1 else min(max(1000 // problem.x.dim, 20), 200)
        case "across" | "upwards":
            axes = list(axis_names(problem))
            plane = default_plane(problem) if len(axes) > 1 else (axes or [""]) * 2
            return plane[name == "upwards"]
        case "snapshot":
            return None
    return next(iter(options(name, problem)), None)


def layers(problem: Problem) -> dict[str, str]:
    """What a map of the proposals' quality can show: names and labels."""
    drawn = registry.terms(problem.name)
    names = {term: pretty(term, signed=len(drawn) > 2) for term in drawn}
    return {
        "variance": "Relative variance per draw",
        **{f"effective-{t}": f"Effective sample size per draw, {n}" for t, n in names.items()},
        **{f"pareto-{t}": f"Pareto k̂, {n}" for t, n in names.items()},
        **({"bound": "SNIS bound / AMCI's error"} if problem.knows_bound else {}),
    }


def plane_axes(problem: Problem) -> dict[str, str]:
    """The axes that a map can have: names in the core and labels."""
    labels = {}
    for name in axis_names(problem):
        variable = getattr(problem, name.partition("[")[0])
        own_labels = variable_labels(problem, variable)
        coordinate = int(name[:-1].partition("[")[2]) if "[" in name else None
        alike = len(own_labels) != variable.dim
        if variable.dim == 1 if coordinate is not None else variable.dim > 1 and not alike:
            continue
        which = "all coordinates" if coordinate is None else f"coordinate {coordinate + 1}"
        label = f"{own_labels[0]}, {which}" if alike else own_labels[coordinate or 0]
        labels[name] = handle_label(label, variable)
    return labels


def other_axis(problem: Problem, across: str, upwards: str, *, keep: str) -> str:
    """The other axis of a map, so that no coordinate is moved by both.

    Arguments:
        problem: The problem.
        across: The horizontal axis.
        upwards: The vertical axis.
        keep: The axis that stays, "across" or "upwards".
    """
    fixed, other = (across, upwards) if keep == "across" else (upwards, across)
    kept = moved_by(problem, fixed)
    axes = (other, *plane_axes(problem))
    return next((name for name in axes if kept.isdisjoint(moved_by(problem, name))), fixed)


def moved_by(problem: Problem, axis: str) -> set[tuple[str, int]]:
    """The coordinates that an axis moves, as (variable, index); none without an axis."""
    variable, _, coordinate = axis.rstrip("]").partition("[")
    if coordinate:
        return {(variable, int(coordinate))}
    return {(variable, i) for i in range(getattr(problem, variable).dim if axis else 0)}
