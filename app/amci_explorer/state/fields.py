r"""Every choice on the page, in one table: how each is read, what is allowed, where it starts.

Parameters of the state, widgets, links, files, Reset, Back and Forward are all made from `FIELDS`.
To add a choice, add a line there.
"""

from __future__ import annotations

__all__ = [
    "FIELDS",
    "OneOf",
    "OutOfBounds",
    "brief",
    "layers",
    "nearest",
    "number",
    "plane_axes",
    "problem_names",
]

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import param
import torch

from amci_core.amortization import axis_names, default_plane
from amci_core.models import Problem
from amci_explorer.colours import SWEPT
from amci_explorer.problems import registry
from amci_explorer.problems.presets import (
    coordinate_names,
    coordinates,
    opening,
    planes,
    variable_labels,
)
from amci_explorer.problems.settings import Point
from amci_explorer.text import terms
from amci_explorer.words import CARDS

# Characters of a refused value that a message shows, and that a link may have.
SHOWN, READ = 24, 2000
# Significant digits of a number: a link with them is short, and leads to the very same case.
DIGITS = 6


class OutOfBounds(ValueError):
    """A number is beyond what is allowed; `nearest` is the closest value that is not."""

    def __init__(self, message: str, nearest: Any) -> None:
        super().__init__(message)
        self.nearest = nearest


@dataclass(frozen=True)
class Field:
    """A choice on the page: any text. Subclasses say what else it may be.

    Arguments:
        name: Its name, in the state, in links and in files.
        doc: What it is, in a sentence.
        default: Where it starts, for a problem.
        back: Whether Back and Reset set it back.
    """

    name: str
    doc: str
    default: Callable[[Problem], Any] = lambda _: ""
    back: bool = True

    bounds: ClassVar[Any] = None

    def read(self, problem: Problem, given: Any, session: object = None) -> Any:
        """Makes a value of a text from an address, or of a value from a file.

        Arguments:
            problem: The problem that it is for.
            given: The text or the value; at most `READ` characters.
            session: The page whose own proposals may be named.

        Raises:
            OutOfBounds: a number is beyond its bounds.
            ValueError: any other value is not allowed.
        """
        del problem, session
        return str(given or "")

    def write(self, value: Any) -> str:
        """The text that a link holds; `read` takes it."""
        return str(value)

    def options(self, problem: Problem, session: object = None) -> Mapping[Any, str]:
        """The values that it can have and their labels; empty if these cannot be listed."""
        del problem, session
        return {}

    def parameter(self) -> param.Parameter:
        """The parameter that the state has for it."""
        return param.Parameter(doc=self.doc)


@dataclass(frozen=True)
class Whole(Field):
    """A whole number."""

    bounds: tuple[int, int] = (0, 1)  # type: ignore[misc]

    def read(self, problem: Problem, given: Any, session: object = None) -> int:
        low, high = self.bounds
        refused = f"expected a whole number from {low:,} to {high:,}, got {brief(given)}"
        try:
            value = int(str(given).strip().replace(",", ""))
        except ValueError:
            raise ValueError(refused) from None
        if not low <= value <= high:
            raise OutOfBounds(refused, min(max(value, low), high))
        return value

    def parameter(self) -> param.Parameter:
        return param.Integer(self.bounds[0], bounds=self.bounds, doc=self.doc)


@dataclass(frozen=True)
class Real(Field):
    """A real number."""

    bounds: tuple[float, float] = (0.0, 1.0)  # type: ignore[misc]

    def read(self, problem: Problem, given: Any, session: object = None) -> float:
        return number(given, *self.bounds)

    def write(self, value: Any) -> str:
        return _written(value)

    def parameter(self) -> param.Parameter:
        return param.Number(self.bounds[0], bounds=self.bounds, doc=self.doc)


@dataclass(frozen=True)
class OneOf(Field):
    """One of a few values, by default the first.

    Arguments:
        labels: The values and their labels, for a problem; a session may have more.
    """

    labels: Callable[..., Mapping[Any, str]] = lambda _: {}
    default: Callable[[Problem], Any] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.default is None:
            object.__setattr__(self, "default", lambda problem: next(iter(self.labels(problem))))

    def options(self, problem: Problem, session: object = None) -> Mapping[Any, str]:
        return self.labels(problem)

    def read(self, problem: Problem, given: Any, session: object = None) -> Any:
        allowed = {self.write(value): value for value in self.options(problem, session)}
        text = given if isinstance(given, str) else self.write(given)
        if text not in allowed:
            raise ValueError(f"expected one of {_listed(allowed)}, got {brief(given)}")
        return allowed[text]

    def write(self, value: Any) -> str:
        if isinstance(value, list | tuple):
            return ",".join(map(str, value))
        return (
            "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        )

    def parameter(self) -> param.Parameter:
        return param.Selector(objects=[None], check_on_set=False, doc=self.doc)


@dataclass(frozen=True)
class Variant(OneOf):
    """The name of proposals; a session has those that it has trained as well."""

    def options(self, problem: Problem, session: object = None) -> Mapping[Any, str]:
        return _variants(problem, session)


@dataclass(frozen=True)
class Expression(Field):
    """An expression for f, tried at the prior's draws; empty for the problem's own f."""

    def read(self, problem: Problem, given: Any, session: object = None) -> str:
        text = " ".join(str(given or "").split())
        return registry.split(registry.problem(registry.split(problem.name)[0], text).name)[1]


@dataclass(frozen=True)
class Coordinates(Field):
    """The coordinates of y or theta, empty if a problem has none."""

    def read(self, problem: Problem, given: Any, session: object = None) -> Point:
        variable = getattr(problem, self.name)
        if variable is None:
            if given in (None, "", (), []):
                return ()
            raise ValueError(f"this problem has no {self.name}, got {brief(given)}")
        parts = given.split(",") if isinstance(given, str) else given
        parts = parts if isinstance(parts, Sequence) else [parts]
        if len(parts) != variable.dim:
            expected = "a number" if variable.dim == 1 else f"{variable.dim} numbers"
            raise ValueError(f"expected {expected}, got {len(parts)}")
        values, refused = [], ""
        for part, ends in zip(parts, variable.typical.T.tolist(), strict=True):
            try:
                values.append(number(part, *ends))
            except OutOfBounds as error:
                values.append(error.nearest)
                refused = str(error)
        taken = tuple(variable.nearest(torch.tensor(values, dtype=torch.float64)).tolist())
        if not refused and variable.whole and taken != tuple(values):
            refused = f"expected whole numbers, got {brief(given)}"
        if refused:
            raise OutOfBounds(refused, taken)
        return taken

    def write(self, value: Any) -> str:
        return ",".join(map(_written, value))


def number(given: Any, low: float, high: float) -> float:
    """A number to `DIGITS` digits; a bound that rounds to the same stays as it is.

    Raises:
        OutOfBounds: it is beyond the bounds.
        ValueError: it is no number.
    """
    refused = f"expected a number from {low:g} to {high:g}, got {brief(given)}"
    try:
        value = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if math.isnan(value):
        raise ValueError(refused)
    rounded, least, most = (float(_written(each)) for each in (value, low, high))
    if not least <= rounded <= most:
        raise OutOfBounds(refused, min(max(value, low), high))
    return min(max(rounded, low), high)


def nearest(field: Field, problem: Problem, given: Any) -> Any:
    """The field's value, or the nearest one within its bounds."""
    try:
        return field.read(problem, given)
    except OutOfBounds as error:
        return error.nearest


def brief(given: Any) -> str:
    """What was given, short enough for a message."""
    text = repr(given)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


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
        labels[name] = f"{label}, {variable.unit}" if variable.unit else label
    return labels


def problem_names() -> dict[str, str]:
    """The problems that there are proposals for: names and titles."""
    found: dict[str, str] = {}
    for name in registry.problems():
        title = registry.problem(name).title or name
        found[name] = f"{title} ({name})" if title in found.values() else title
    return found


def _first_plane(problem: Problem) -> tuple[str, str]:
    """The plane that a map opens with; of a problem with one axis that axis twice."""
    names = list(axis_names(problem))
    if len(names) > 1:
        return default_plane(problem)
    only = names[0] if names else ""
    return only, only


def _checkpoints(problem: Problem) -> dict[int | None, str]:
    """The checkpoints of the training; the last one is the trained proposal itself."""
    earlier = range(len(registry.history(problem.name)) - 1)
    return {None: "trained", **{each: f"checkpoint {each + 1}" for each in earlier}}


def _variants(problem: Problem, session: object = None) -> dict[str, str]:
    return {name: name for name in registry.variants(problem.name, session)}


def _fixed(**labels: str) -> Callable[[Problem], dict[str, str]]:
    return lambda _: labels


def _swept(problem: Problem) -> dict[str, str]:
    return {name: SWEPT[name].label for name in registry.swept(problem.name) if name != "bound"}


def _written(value: float) -> str:
    # Adding zero takes the sign from minus zero.
    return f"{value + 0.0:.{DIGITS}g}"


def _listed(names: Mapping[str, Any]) -> str:
    """The names that are allowed, as many as a message has room for."""
    few = list(names)[:10]
    return ", ".join(few) + (", …" if len(few) < len(names) else "")


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Expression("f", "Another f, an expression of x and theta."),
        Coordinates("y", "The observation's coordinates.", lambda p: opening(p)[0]),
        Coordinates("theta", "The coordinates of theta.", lambda p: opening(p)[1]),
        Variant("variant", "The proposals.", labels=_variants),
        OneOf("snapshot", "Checkpoint of the training; None for the end.", labels=_checkpoints),
        Whole("draws", "Draws from each proposal.", lambda _: 64, bounds=(2, 5000)),
        # A draw costs more in more dimensions.
        Whole(
            "runs",
            "Independent runs.",
            lambda p: 1000 if p.x.dim == 1 else min(max(1000 // p.x.dim, 20), 200),
            bounds=(4, 10_000),
        ),
        Whole("seed", "Seed of every draw.", lambda _: 0, bounds=(0, 2**31 - 1)),
        Real("alpha", "Share of E1 from q1's draws.", lambda _: 1.0, bounds=(-0.5, 1.5)),
        Real("beta", "Share of E2 from q1's draws.", lambda _: 0.0, bounds=(-0.5, 1.5)),
        Real("share", "Share of draws that q1 gets.", lambda _: 0.5, bounds=(0.01, 0.99)),
        OneOf(
            "common",
            "Both proposals transform the same random numbers.",
            labels=lambda _: {False: "independent", True: "common random numbers"},
        ),
        OneOf(
            "sobol",
            "AMCI, with control variates and without, draws scrambled Sobol points.",
            labels=lambda _: {False: "independent", True: "Sobol points"},
        ),
        OneOf(
            "measure",
            "What is drawn of errors.",
            labels=lambda _: {"percent": "%", "ReMSE": "ReMSE", "MSE": "MSE"},
        ),
        OneOf(
            "spread",
            "Medians and quartiles over the runs.",
            labels=lambda _: {False: "off", True: "on"},
        ),
        OneOf(
            "every",
            "All estimators.",
            labels=lambda _: {False: "the main ones", True: "all estimators"},
        ),
        OneOf(
            "logarithmic",
            "Densities on a logarithmic axis.",
            labels=lambda _: {False: "linear", True: "log"},
        ),
        OneOf("card", "The open card.", labels=lambda _: CARDS),
        OneOf("layer", "Quantity that the map shows.", labels=layers),
        OneOf(
            "across",
            "Horizontal axis of the map.",
            default=lambda p: _first_plane(p)[0],
            labels=plane_axes,
        ),
        OneOf(
            "upwards",
            "Vertical axis of the map.",
            default=lambda p: _first_plane(p)[1],
            labels=plane_axes,
        ),
        OneOf("source", "Stored or live.", labels=_fixed(stored="stored", live="live")),
        Whole("cases", "Cases of a live evaluation.", lambda _: 20, bounds=(2, 100)),
        Whole("case_runs", "Runs per case.", lambda _: 50, bounds=(4, 400)),
        OneOf(
            "band",
            "What the bands span.",
            labels=_fixed(runs="over runs", cases="over cases", none="none"),
        ),
        OneOf("single", "Estimator of the thin lines.", labels=_swept),
        OneOf(
            "coordinate",
            "The coordinate of x that is shown, counted from 1.",
            labels=lambda p: coordinates(coordinate_names(p)),
        ),
        OneOf(
            "pair",
            "The pair of coordinates of x that is shown, counted from 1.",
            labels=lambda p: planes(coordinate_names(p)),
        ),
        Field("compared", "The reference case, as a link."),
        OneOf(
            "theme",
            "Light, dark, or the system's setting.",
            back=False,
            labels=_fixed(system="system", light="light", dark="dark"),
        ),
    )
}
