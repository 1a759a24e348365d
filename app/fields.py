r"""Every choice on the page, in one table: how each is read, what is allowed, where it starts.

Widgets, links, files, Reset, Back and Forward are all made from `FIELDS`.
"""

from __future__ import annotations

__all__ = ["FIELDS", "Field", "OutOfBounds", "brief", "layers", "usual_runs"]

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from amci_core.models import Problem
from amci_core.plane import axis_names, default_plane
from app import own
from app.choice import Point
from app.presets import coordinate_names, coordinates, opening, pairs, variable_labels
from app.store import store_of
from app.words.numbers import terms

# Of a value that nobody can want, a message shows so many characters, and a link reads so many.
SHOWN, READ = 24, 2000
# Numbers are kept to so many digits: a link with them is short, and leads to the very same case.
DIGITS = 6


class OutOfBounds(ValueError):
    """A number beyond what is allowed.

    Arguments:
        message: What is allowed, and what came.
        nearest: The nearest value that is.
    """

    def __init__(self, message: str, nearest: Any) -> None:
        super().__init__(message)
        self.nearest = nearest


def brief(given: Any) -> str:
    """What was given, short enough for a message."""
    text = repr(given)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


@dataclass(frozen=True)
class Field:
    """One choice on the page.

    Arguments:
        name: Its name, in the state, in links and in files.
        doc: What it is, in a sentence.
        read: Makes a value, of a problem, from a text or a value.
        default: Where it starts, for a problem.
        write: Makes the text that a link holds.
        options: Where it is one of a few: these and their labels, for a problem.
        bounds: Where it is a number: the least and the largest.
        back: Whether Back and Reset set it back.
    """

    name: str
    doc: str
    read: Callable[[Problem, Any], Any]
    default: Callable[[Problem], Any]
    write: Callable[[Any], str] = str
    options: Callable[[Problem], Mapping[Any, str]] | None = None
    bounds: tuple[float, float] | None = None
    back: bool = True


def usual_runs(problem: Problem) -> int:
    """How many runs a problem opens with: a draw costs more in more dimensions."""
    return 1000 if problem.x.dim == 1 else 200


def layers(problem: Problem) -> dict[str, str]:
    """What a map of the proposals' quality can show: names and labels."""
    drawn = store_of(problem.name).terms
    names = terms(signed=len(drawn) > 2)
    return {
        "variance": "Relative variance of one draw",
        **{f"effective-{t}": f"Effective share of draws for {names[t]}" for t in drawn},
        **{f"pareto-{t}": f"Pareto k̂ for {names[t]}" for t in drawn},
        **({"bound": "Bound of SNIS over AMCI's error"} if problem.knows_bound else {}),
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
    return {name: own.problem(name).title or name for name in own.problems()}


def _whole(low: int, high: int) -> dict[str, Any]:
    def read(_: Problem, given: Any) -> int:
        refused = f"expected a whole number from {low:,} to {high:,}, got {brief(given)}"
        try:
            value = int(str(given).strip().replace(",", ""))
        except ValueError:
            raise ValueError(refused) from None
        if not low <= value <= high:
            raise OutOfBounds(refused, min(max(value, low), high))
        return value

    return {"read": read, "bounds": (low, high)}


def _real(low: float, high: float) -> dict[str, Any]:
    def read(_: Problem, given: Any) -> float:
        return _number(given, low, high)

    return {"read": read, "bounds": (low, high), "write": _written}


def _flag(options: Mapping[bool, str]) -> dict[str, Any]:
    words = {"true": True, "false": False}

    def read(_: Problem, given: Any) -> bool:
        if str(given).lower() not in words:
            raise ValueError(f"expected true or false, got {brief(given)}")
        return words[str(given).lower()]

    return {
        "read": read,
        "write": lambda value: str(value).lower(),
        "options": lambda _: options,
    }


def _one_of(options: Callable[[Problem], Mapping[str, str]]) -> dict[str, Any]:
    def read(problem: Problem, given: Any) -> str:
        allowed = options(problem)
        if str(given) not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, got {brief(given)}")
        return str(given)

    return {"read": read, "options": options}


def _point(name: str) -> dict[str, Any]:
    def read(problem: Problem, given: Any) -> Point:
        variable = getattr(problem, name)
        if variable is None:
            if given in (None, (), [], ""):
                return ()
            raise ValueError(f"this problem has no {name}, got {brief(given)}")
        parts = given.split(",") if isinstance(given, str) else given
        parts = parts if isinstance(parts, Sequence) else [parts]
        if len(parts) != variable.dim:
            raise ValueError(f"expected {_numbers(variable.dim)}, got {len(parts)}")
        values, refused = [], None
        for part in parts:
            try:
                values.append(_number(part, *variable.usual_range))
            except OutOfBounds as error:
                values.append(error.nearest)
                refused = error
        if refused is not None:
            raise OutOfBounds(str(refused), tuple(values))
        return tuple(values)

    return {
        "read": read,
        "default": lambda problem: opening(problem)[name == "theta"],
        "write": lambda value: ",".join(map(_written, value)),
    }


def _frame(problem: Problem, given: Any) -> int | None:
    """A frame of the training film; the last one is the trained proposal itself."""
    frames = len(store_of(problem.name).snapshots)
    if given in (None, ""):
        return None
    value = int(_number(given, 0, max(frames - 1, 0)))
    return value if value < frames - 1 else None


def _pair(problem: Problem, given: Any) -> tuple[int, int]:
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, Sequence) or len(parts) != 2:
        raise ValueError(f"expected two coordinates, got {brief(given)}")
    first, second = (int(_number(part, 1, problem.x.dim)) for part in parts)
    if first == second and problem.x.dim > 1:
        raise ValueError(f"expected two coordinates, got {brief(given)}")
    return min(first, second), max(first, second)


def _number(given: Any, low: float, high: float) -> float:
    refused = f"expected a number from {low:g} to {high:g}, got {brief(given)}"
    try:
        value = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if math.isnan(value):
        raise ValueError(refused)
    if not low <= value <= high:
        raise OutOfBounds(refused, min(max(value, low), high))
    return float(_written(value))


def _written(value: float) -> str:
    # Adding zero takes the sign from minus zero.
    return f"{value + 0.0:.{DIGITS}g}"


def _numbers(count: int) -> str:
    return "a number" if count == 1 else f"{count} numbers"


def _first_plane(problem: Problem) -> tuple[str, str]:
    """The plane that is looked at first; with one axis alone there is none."""
    names = list(axis_names(problem))
    return default_plane(problem) if len(names) > 1 else (names[0], names[0])


def _case(_: Problem, given: Any) -> str:
    """The link of another state, checked."""
    from app.state import State

    if not given:
        return ""
    pinned = State()
    wrong = pinned.read(dict(parse_qsl(str(given))))
    if wrong:
        name, why = next(iter(wrong.items()))
        raise ValueError(f"{name}: {why}")
    return urlencode(pinned.link(pinned=True))


def _first(options: Callable[[Problem], Mapping[str, str]]) -> Callable[[Problem], str]:
    return lambda problem: next(iter(options(problem)))


def _variants(problem: Problem) -> dict[str, str]:
    return {name: name for name in own.variants(problem.name)}


def _cards(_: Problem) -> dict[str, str]:
    return {"reuse": "Sample reuse", "diagnostics": "Diagnostics", "map": "Amortization map"}


def _themes(_: Problem) -> dict[str, str]:
    return {"system": "as the system", "light": "light", "dark": "dark"}


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("y", "The observation's coordinates.", **_point("y")),
        Field("theta", "The coordinates of theta.", **_point("theta")),
        Field("variant", "Which proposals.", default=_first(_variants), **_one_of(_variants)),
        Field(
            "snapshot",
            "Frame of the training film; None for the trained proposals.",
            _frame,
            lambda _: None,
            lambda value: "" if value is None else str(value),
        ),
        Field("draws", "Draws from each proposal.", default=lambda _: 64, **_whole(2, 5000)),
        Field("runs", "Independent runs.", default=usual_runs, **_whole(4, 10_000)),
        Field("seed", "Seed of every draw.", default=lambda _: 0, **_whole(0, 2**31 - 1)),
        Field("alpha", "Share of E1 from q1's draws.", default=lambda _: 1.0, **_real(-0.5, 1.5)),
        Field("beta", "Share of E2 from q1's draws.", default=lambda _: 0.0, **_real(-0.5, 1.5)),
        Field("share", "Share of draws that q1 gets.", default=lambda _: 0.5, **_real(0.01, 0.99)),
        Field(
            "common",
            "Both proposals transport the same random numbers.",
            default=lambda _: False,
            **_flag({False: "independent", True: "common random numbers"}),
        ),
        Field(
            "relative",
            "Errors in units of mu squared.",
            default=lambda _: True,
            **_flag({True: "ReMSE", False: "MSE"}),
        ),
        Field(
            "logarithmic",
            "Densities on a logarithmic axis.",
            default=lambda _: False,
            **_flag({False: "linear", True: "log"}),
        ),
        Field("card", "The card that is open.", default=_first(_cards), **_one_of(_cards)),
        Field("layer", "What the map shows.", default=_first(layers), **_one_of(layers)),
        Field(
            "across",
            "The map's axis across.",
            default=lambda p: _first_plane(p)[0],
            **_one_of(plane_axes),
        ),
        Field(
            "upwards",
            "The map's axis upwards.",
            default=lambda p: _first_plane(p)[1],
            **_one_of(plane_axes),
        ),
        Field(
            "coordinate",
            "The coordinate of x that is looked at, from 1 on.",
            lambda problem, given: int(_number(given, 1, problem.x.dim)),
            lambda _: 1,
            options=lambda problem: coordinates(coordinate_names(problem)),
        ),
        Field(
            "pair",
            "The two coordinates of x that are looked at, from 1 on.",
            _pair,
            lambda problem: (1, min(2, problem.x.dim)),
            lambda value: ",".join(map(str, value)),
            options=lambda problem: pairs(coordinate_names(problem)),
        ),
        Field("compared", "The case that is kept to compare with.", _case, lambda _: ""),
        Field(
            "theme",
            "Light, dark, or as the system has it.",
            default=_first(_themes),
            back=False,
            **_one_of(_themes),
        ),
    )
}
