r"""Every choice on the page, in one table: how each is read, what is allowed, where it starts.

Widgets, links, files, Reset, Back and Forward are all made from `FIELDS`.
"""

from __future__ import annotations

__all__ = ["FIELDS", "Field", "layers", "other_axis", "plane_axes", "usual_runs"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from amci_core.amortization import axis_names, default_plane
from amci_core.models import Problem
from amci_explorer.plots.colours import SWEPT
from amci_explorer.problems import registry
from amci_explorer.problems.presets import coordinate_names, coordinates, pairs, variable_labels
from amci_explorer.state.kinds import brief, flag, number, one_of, point, real, whole
from amci_explorer.text import terms


@dataclass(frozen=True)
class Field:
    """One choice on the page.

    Arguments:
        name: Its name, in the state, in links and in files.
        doc: What it is, in a sentence.
        read: Makes a value, of a problem, from a text or a value; where it is `personal`, of a
            visitor as well.
        default: Where it starts, for a problem.
        write: Makes the text that a link holds.
        options: Where it is one of a few: these and their labels, for a problem.
        bounds: Where it is a number: the least and the largest.
        back: Whether Back and Reset set it back.
        personal: Whether it can name what one visitor alone has.
    """

    name: str
    doc: str
    read: Callable[..., Any]
    default: Callable[[Problem], Any]
    write: Callable[[Any], str] = str
    options: Callable[[Problem], Mapping[Any, str]] | None = None
    bounds: tuple[float, float] | None = None
    back: bool = True
    personal: bool = False

    def take(self, problem: Problem, given: Any, visitor: object) -> Any:
        """Makes a value of what a visitor gave.

        Arguments:
            problem: The problem.
            given: A text or a value.
            visitor: Whose own may be named, see `amci_explorer.problems.registry.variants`.

        Raises:
            ValueError: it is not allowed.
        """
        return self.read(problem, given, *([visitor] if self.personal else []))


def usual_runs(problem: Problem) -> int:
    """How many runs a problem opens with: a draw costs more in more dimensions."""
    return 1000 if problem.x.dim == 1 else 200


def layers(problem: Problem) -> dict[str, str]:
    """What a map of the proposals' quality can show: names and labels."""
    drawn = registry.terms(problem.name)
    names = terms(signed=len(drawn) > 2)
    return {
        "variance": "Relative variance per draw",
        **{f"effective-{t}": f"Effective sample size per draw, {names[t]}" for t in drawn},
        **{f"pareto-{t}": f"Pareto k̂, {names[t]}" for t in drawn},
        **({"bound": "SNIS bound / AMCI's error"} if problem.knows_bound else {}),
    }


def plane_axes(problem: Problem) -> dict[str, str]:
    """The axes that a map can have: names in the core, and what they are called."""
    labels = {}
    for name in axis_names(problem):
        variable = getattr(problem, name.partition("[")[0])
        own = variable_labels(problem, variable)
        coordinate = int(name[:-1].partition("[")[2]) if "[" in name else None
        alike = len(own) != variable.dim
        if variable.dim == 1 if coordinate is not None else variable.dim > 1 and not alike:
            continue
        which = "all coordinates" if coordinate is None else f"coordinate {coordinate + 1}"
        label = f"{own[0]}, {which}" if alike else own[coordinate or 0]
        labels[name] = f"{label}, {variable.unit}" if variable.unit else label
    return labels


def problem_names() -> dict[str, str]:
    """The problems that there are proposals for: names and titles."""
    found: dict[str, str] = {}
    for name in registry.problems():
        title = registry.problem(name).title or name
        found[name] = f"{title} ({name})" if title in found.values() else title
    return found


def other_axis(
    problem: Problem, along: Mapping[str, str], chosen: Mapping[str, Any]
) -> dict[str, str]:
    """The new other axis of the map, where both would move the same coordinate.

    Arguments:
        problem: The problem.
        along: The horizontal and the vertical axis.
        chosen: What of them, among others, is being chosen; the one that is chosen stays.
    """
    across, upwards = (chosen.get(name, along[name]) for name in ("across", "upwards"))
    if _independent(across, upwards):
        return {}
    last = "upwards" in chosen and "across" not in chosen
    other, fixed = ("across", upwards) if last else ("upwards", across)
    free = (name for name in plane_axes(problem) if _independent(name, fixed))
    return {other: next(free, fixed)}


def _independent(first: str, second: str) -> bool:
    """Whether two axes move no coordinate together."""
    (a, _, i), (b, _, j) = first.partition("["), second.partition("[")
    return a != b or (i != j and bool(i) and bool(j))


def _frame(problem: Problem, given: Any) -> int | None:
    """A frame of the training film; the last one is the trained proposal itself."""
    frames = len(registry.history(problem.name))
    if given in (None, ""):
        return None
    value = int(number(given, 0, max(frames - 1, 0)))
    return value if value < frames - 1 else None


def _pair(problem: Problem, given: Any) -> tuple[int, int]:
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, Sequence) or len(parts) != 2:
        raise ValueError(f"expected two coordinates, got {brief(given)}")
    first, second = (int(number(part, 1, problem.x.dim)) for part in parts)
    if first == second and problem.x.dim > 1:
        raise ValueError(f"expected two coordinates, got {brief(given)}")
    return min(first, second), max(first, second)


def _first_plane(problem: Problem) -> tuple[str, str]:
    """The plane that is looked at first; with one axis, or with none, there is none."""
    names = list(axis_names(problem))
    if len(names) > 1:
        return default_plane(problem)
    only = names[0] if names else ""
    return only, only


def _case(_: Problem, given: Any, visitor: object) -> str:
    """The link of another state, checked."""
    from amci_explorer.state.state import State

    if not given:
        return ""
    pinned = State(visitor=visitor)
    wrong = pinned.read(dict(parse_qsl(str(given))))
    if wrong:
        name, why = next(iter(wrong.items()))
        raise ValueError(f"{name}: {why}")
    return urlencode(pinned.link(pinned=True))


def _first(options: Callable[[Problem], Mapping[str, str]]) -> Callable[[Problem], str]:
    return lambda problem: next(iter(options(problem)))


def _variants(problem: Problem) -> dict[str, str]:
    return {name: name for name in registry.variants(problem.name)}


def _variant(problem: Problem, given: Any, visitor: object) -> str:
    """Proposals that there are for everybody, or the visitor's own."""
    found: str = str(given)
    if found not in registry.variants(problem.name, visitor):
        allowed = ", ".join(registry.variants(problem.name, visitor))
        raise ValueError(f"expected one of {allowed}, got {brief(given)}")
    return found


def _target(problem: Problem, given: Any) -> str:
    """An expression for f, tried at the prior's draws; empty for the problem's own f."""
    text = " ".join(str(given or "").split())
    return registry.split(registry.problem(registry.split(problem.name)[0], text).name)[1]


def _cards(_: Problem) -> dict[str, str]:
    return {
        "play": "Draw by draw",
        "reuse": "Sample reuse",
        "diagnostics": "Diagnostics",
        "map": "Amortization map",
        "evaluation": "Evaluation",
        "train": "Train",
        "table": "Bring your draws",
    }


def _swept(problem: Problem) -> dict[str, str]:
    return {name: SWEPT[name].label for name in registry.swept(problem.name) if name != "bound"}


def _bands(_: Problem) -> dict[str, str]:
    return {"runs": "over runs", "cases": "over cases", "none": "none"}


def _sources(_: Problem) -> dict[str, str]:
    return {"stored": "stored", "live": "live"}


def _themes(_: Problem) -> dict[str, str]:
    return {"system": "system", "light": "light", "dark": "dark"}


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("f", "Another f, an expression of x and theta.", _target, lambda _: ""),
        Field("y", "The observation's coordinates.", **point("y")),
        Field("theta", "The coordinates of theta.", **point("theta")),
        Field(
            "variant",
            "The proposals.",
            _variant,
            _first(_variants),
            options=_variants,
            personal=True,
        ),
        Field(
            "snapshot",
            "Frame of the training film; None for the trained proposals.",
            _frame,
            lambda _: None,
            lambda value: "" if value is None else str(value),
        ),
        Field("draws", "Draws from each proposal.", default=lambda _: 64, **whole(2, 5000)),
        Field("runs", "Independent runs.", default=usual_runs, **whole(4, 10_000)),
        Field("seed", "Seed of every draw.", default=lambda _: 0, **whole(0, 2**31 - 1)),
        Field("alpha", "Share of E1 from q1's draws.", default=lambda _: 1.0, **real(-0.5, 1.5)),
        Field("beta", "Share of E2 from q1's draws.", default=lambda _: 0.0, **real(-0.5, 1.5)),
        Field("share", "Share of draws that q1 gets.", default=lambda _: 0.5, **real(0.01, 0.99)),
        Field(
            "common",
            "Both proposals transform the same random numbers.",
            default=lambda _: False,
            **flag({False: "independent", True: "common random numbers"}),
        ),
        Field(
            "relative",
            "Errors in units of mu squared.",
            default=lambda _: True,
            **flag({True: "ReMSE", False: "MSE"}),
        ),
        Field(
            "logarithmic",
            "Densities on a logarithmic axis.",
            default=lambda _: False,
            **flag({False: "linear", True: "log"}),
        ),
        Field("card", "The open card.", default=_first(_cards), **one_of(_cards)),
        Field("layer", "Quantity that the map shows.", default=_first(layers), **one_of(layers)),
        Field(
            "across",
            "Horizontal axis of the map.",
            default=lambda p: _first_plane(p)[0],
            **one_of(plane_axes),
        ),
        Field(
            "upwards",
            "Vertical axis of the map.",
            default=lambda p: _first_plane(p)[1],
            **one_of(plane_axes),
        ),
        Field("source", "Stored or live.", default=_first(_sources), **one_of(_sources)),
        Field("cases", "Cases of a live evaluation.", default=lambda _: 20, **whole(2, 100)),
        Field("case_runs", "Runs per case.", default=lambda _: 50, **whole(4, 400)),
        Field("band", "What the bands span.", default=_first(_bands), **one_of(_bands)),
        Field("single", "Estimator of the thin lines.", default=_first(_swept), **one_of(_swept)),
        Field(
            "coordinate",
            "The coordinate of x that is shown, counted from 1.",
            lambda problem, given: int(number(given, 1, problem.x.dim)),
            lambda _: 1,
            options=lambda problem: coordinates(coordinate_names(problem)),
        ),
        Field(
            "pair",
            "The pair of coordinates of x that is shown, counted from 1.",
            _pair,
            lambda problem: (1, min(2, problem.x.dim)),
            lambda value: ",".join(map(str, value)),
            options=lambda problem: pairs(coordinate_names(problem)),
        ),
        Field("compared", "The case kept for comparison.", _case, lambda _: "", personal=True),
        Field(
            "theme",
            "Light, dark, or the system's setting.",
            default=_first(_themes),
            back=False,
            **one_of(_themes),
        ),
    )
}
