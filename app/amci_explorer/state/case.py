r"""The page's case: every choice of the page, one line each, and the point's three handles.

Links, files, Back, Forward, Reset and widgets are made from the declarations. To add a choice, add
a line to `Case`; if its values depend on the problem, add these to `state/options.py`. Its widget
stands in the view that it is about, made by `views/bound.py`.
"""

from __future__ import annotations

__all__ = ["CHOICES", "OPENING_PROBLEM", "Case"]

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any
from urllib.parse import parse_qsl, urlencode

import param

from amci_core.models import Problem
from amci_explorer.numbers.known import Level, level_range
from amci_explorer.numbers.known import level as known_level
from amci_explorer.problems import registry, session_proposals
from amci_explorer.problems.settings import Settings
from amci_explorer.state import options
from amci_explorer.state.links import (
    Coordinates,
    Expression,
    OutOfBounds,
    brief,
    nearest,
    read,
    write,
)

OPENING_PROBLEM = "tail-1d"
# A level stays as it was asked for if the case, to its digits, is as near as this, in nats.
NEAR = 1e-3
POINT = ("y", "theta")
# Steps that Back leads through.
STEPS = 100


class Case(param.Parameterized):
    """Creates the choices of one page, where they open.

    y, theta and the mismatch level are three handles of one point: they change through `move`
    only, all at once, so that no handle chases another.

    Arguments:
        problem: Name of the problem that the page opens with.
        session: The page whose own proposals there are; by default this case.
    """

    problem: Any = param.ClassSelector(class_=Problem, constant=True, doc="What is integrated.")
    level: Any = param.Number(default=0.0, constant=True, doc="Mismatch of (y, theta), in nats.")
    level_error: Any = param.Number(default=0.0, constant=True, doc="Its standard error.")
    committed = param.Event(doc="A control was let go: Monte Carlo may start.")
    renewed = param.Event(doc="The chosen proposals got better: they are being trained.")

    # The choices. All that depends on the problem, by `options`, has no values here.
    f: Any = Expression(constant=True, doc="Another f, an expression of x and theta.")
    y: Any = Coordinates(constant=True, doc="The observation's coordinates.")
    theta: Any = Coordinates(constant=True, doc="The coordinates of theta.")
    variant: Any = param.Selector(label="Proposals", doc="The proposals.")
    snapshot: Any = param.Selector(label="Training", doc="Checkpoint of the training.")
    draws: Any = param.Integer(64, bounds=(2, 5000), label="Draws per proposal")
    runs: Any = param.Integer(1000, bounds=(4, 10_000), label="Runs")
    seed: Any = param.Integer(0, bounds=(0, 2**31 - 1), label="Seed")
    alpha: Any = param.Number(1.0, bounds=(-0.5, 1.5), doc="Share of E1 from q1's draws.")
    beta: Any = param.Number(0.0, bounds=(-0.5, 1.5), doc="Share of E2 from q1's draws.")
    share: Any = param.Number(0.5, bounds=(0.01, 0.99), doc="Share of draws that q1 gets.")
    common: Any = param.Boolean(False, doc="Both proposals transform the same random numbers.")
    sobol: Any = param.Boolean(False, doc="AMCI draws scrambled Sobol points.")
    measure: Any = param.Selector(objects={"%": "percent", "ReMSE": "ReMSE", "MSE": "MSE"})
    spread: Any = param.Boolean(False, doc="Medians and quartiles over the runs.")
    every: Any = param.Boolean(False, doc="All estimators.")
    logarithmic: Any = param.Selector(objects={"linear": False, "log": True})
    card: Any = param.Selector(doc="The open card.")
    layer: Any = param.Selector(doc="Quantity that the map shows.")
    across: Any = param.Selector(doc="Horizontal axis of the map.")
    upwards: Any = param.Selector(doc="Vertical axis of the map.")
    source: Any = param.Selector(objects=["stored", "live"], doc="Stored or live.")
    single: Any = param.Selector(doc="Estimator of the thin lines.")
    coordinate: Any = param.Selector(doc="The coordinate of x that is shown, from 1.")
    pair: Any = param.Selector(doc="The pair of coordinates of x that is shown, from 1.")
    compared: Any = param.String(doc="The reference case, as a link.")
    theme: Any = param.Selector(objects=["system", "light", "dark"], doc="The page's colours.")

    def __init__(self, problem: str = OPENING_PROBLEM, *, session: object | None = None) -> None:
        super().__init__()
        self.session = session or self
        self._reference: tuple[Any, Case | None] = (None, None)
        self._steps: list[dict[str, str]] = []
        self._step = -1
        self.open(problem)
        self._record()

    @property
    def original(self) -> str:
        """The problem's name, without another f."""
        return registry.split(self.problem.name)[0]

    @property
    def settings(self) -> Settings:
        """What Monte Carlo would be run for now."""
        same = {name: getattr(self, name) for name in (*POINT, "variant", "draws", "runs", "seed")}
        snapshot = self.snapshot if self.variant == "spline" else None
        revision = session_proposals.revision(self.problem.name, self.variant)
        return Settings(problem=self.problem.name, snapshot=snapshot, revision=revision, **same)

    def options(self, name: str, problem: Problem | None = None) -> Mapping[Any, str]:
        """The values that a choice can have, and their labels; empty if they cannot be listed."""
        declared = Case.param[name]
        if isinstance(declared, param.Boolean):
            return {False: "off", True: "on"}
        if isinstance(declared, param.Selector) and declared.objects:
            return {value: label for label, value in declared.get_range().items()}
        return options.options(name, problem or self.problem, self.session)

    def set(self, **values: Any) -> None:
        """Changes some of the choices, all at once; for y and theta see `move`, for f `open`.

        Raises:
            ValueError: a value is not allowed; nothing has changed then.
        """
        self._put({name: self._read(name, value) for name, value in values.items()})

    def open(self, name: str, *, f: str = "") -> None:
        """Turns to another problem, or f, and keeps of the rest what makes sense there.

        In another number of dimensions the point has the means of y and of theta everywhere.

        Arguments:
            name: The problem's name.
            f: An expression of x and theta instead of the problem's own f; empty for the latter.

        Raises:
            ValueError: there is no such problem, there are no proposals for it, or f is no
                expression for it (`ExpressionError`, with the column); nothing has changed then.
        """
        problem = _problem(name, f)
        kept = {} if self.problem is None else self._kept(problem)
        self._put({**_opening(problem), **kept, "problem": problem})

    def move(
        self,
        *,
        y: float | Sequence[float] | None = None,
        theta: float | Sequence[float] | None = None,
        level: float | None = None,
    ) -> None:
        """Moves the point by one of its handles, or by y together with one of the others.

        Raises:
            ValueError: a value is no number or out of range; the point stays where it was.
        """
        asked = {"y": y, "theta": theta}
        point = {name: self._read(name, v) for name, v in asked.items() if v is not None}
        if level is None:
            self._put(point)
            return
        here = (point.get(name, getattr(self, name)) or None for name in POINT)
        for name, value in zip(POINT, self.problem.at_mismatch(level, *here), strict=True):
            values = () if value is None else tuple(map(float, value))
            point[name] = nearest(getattr(self.problem, name), values)
        self._put({**point, "level": level})

    def learn(self, settings: Settings, level: Level) -> None:
        """Takes the mismatch that was estimated for a point, unless that has been left."""
        if settings.pair == self.settings.pair and not self.level_error == 0:
            with param.parameterized.edit_constant(self):
                self.param.update(level=level.value, level_error=level.error)

    def level_range(self) -> tuple[float, float] | None:
        """The levels that the mismatch's handle can reach, in nats; None if there is no path."""
        ends = level_range(self.problem, self.y, self.theta)
        return None if ends is None else (min(ends[0], self.level), max(ends[1], self.level))

    def commit(self) -> None:
        """Says that a control was let go: a step for Back, and Monte Carlo may start."""
        self._record()
        self.param.trigger("committed")

    def reset(self) -> None:
        """Sets everything but the problem back to where it opens."""
        self.visit({"problem": self.original})

    @property
    def can_go(self) -> tuple[bool, bool]:
        """Whether there is a step back, and a step forward."""
        return self._step > 0, self._step < len(self._steps) - 1

    def go(self, step: int) -> None:
        """Goes back by one step (-1), or forward (1); without such a step stays."""
        if 0 <= self._step + step < len(self._steps):
            self._step += step
            self._follow(self._steps[self._step])
            self.param.trigger("committed")

    def visit(self, link: Mapping[str, str]) -> None:
        """Goes where a link leads, a step of this visit; what it does not name opens anew."""
        self._follow(link)
        self.commit()

    def read(self, link: Mapping[str, Any]) -> dict[str, str]:
        """Goes where an address, or a file, leads; numbers beyond their bounds stop there.

        Returns:
            For each name that could not be used as it was, what is wrong with it.
        """
        wrong = self._follow(link)
        self._steps, self._step = [], -1
        self._record()
        return wrong

    def link(self, *, compared: bool = False) -> dict[str, str]:
        """What an address holds that leads back here: all that is not where it opens.

        Arguments:
            compared: Whether to name only what the figures depend on.
        """
        found, opening = {"problem": self.original}, _opening(self.problem)
        for name in COMPARED if compared else CHOICES:
            value = getattr(self, name)
            if value != opening[name] or (name in POINT and value):
                found[name] = write(value)
        return found

    def as_json(self) -> dict[str, Any]:
        """Everything that was chosen, as plain values; `read` takes it."""
        return {"problem": self.original} | {name: getattr(self, name) for name in CHOICES}

    @property
    def reference(self) -> Case | None:
        """The reference case, with this case's seed; None if there is none."""
        if self._reference[0] != (self.compared, self.seed):
            found = Case(session=self.session) if self.compared else None
            if found is not None:
                found.read({**dict(parse_qsl(self.compared)), "seed": self.seed})
            self._reference = (self.compared, self.seed), found
        return self._reference[1]

    @property
    def same_reference(self) -> Case | None:
        """The reference case if it is of the same problem, so that pictures can show both."""
        found = self.reference
        same = found is not None and found.problem.name == self.problem.name
        return found if same else None

    def compare(self, here: bool = True) -> None:
        """Makes this case the reference case, or lets go of the one there is."""
        self._put({"compared": urlencode(self.link(compared=True)) if here else ""})
        self.commit()

    def _read(self, name: str, value: Any) -> Any:
        try:
            return self._take(name, value, self.problem)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _take(self, name: str, given: Any, problem: Problem) -> Any:
        """The value of a choice, for a problem."""
        value = read(Case.param[name], given, problem, self.options(name, problem))
        if name == "compared" and value:
            case = Case(session=self.session)
            for wrong, why in case.read(dict(parse_qsl(value))).items():
                raise ValueError(f"{wrong}: {why}")
            return urlencode(case.link(compared=True))
        return value

    def _put(self, values: dict[str, Any]) -> None:
        """Changes choices, and with the point its mismatch, all at once."""
        problem = values.get("problem", self.problem)
        if "problem" in values:
            values["f"] = registry.split(problem.name)[1]
        if not values.keys().isdisjoint(("problem", *POINT)):
            point = (values.get(name, getattr(self, name)) for name in POINT)
            reached = known_level(problem, None, *point)
            # The handle under the user's finger must not be moved by rounding.
            if not abs(reached.value - values.get("level", math.nan)) < NEAR:
                values["level"] = reached.value
            values["level_error"] = reached.error
        if not values.keys().isdisjoint(("across", "upwards")):
            across, upwards = (values.get(n, getattr(self, n)) for n in ("across", "upwards"))
            keep, other = ("across", "upwards") if "across" in values else ("upwards", "across")
            values[other] = options.other_axis(problem, across, upwards, keep=keep)
        with param.parameterized.edit_constant(self):
            self.param.update(**values)

    def _kept(self, problem: Problem) -> dict[str, Any]:
        """What was chosen that makes sense at another problem."""
        kept: dict[str, Any] = {}
        opening, sizes = _opening(self.problem), registry.sizes(self.original)
        same = problem.name in sizes.values() and problem.x.dim != self.problem.x.dim
        for name in CHOICES:
            value = getattr(self, name)
            if same and name in POINT:
                values = (fmean(value),) * problem.x.dim
                kept[name] = nearest(getattr(problem, name), values)
            elif name not in ("f", "snapshot") and (name in POINT or value != opening[name]):
                try:
                    kept[name] = self._take(name, value, problem)
                except ValueError:
                    continue
        whole = all(name in kept for name in POINT)
        return {name: value for name, value in kept.items() if whole or name not in POINT}

    def _follow(self, link: Mapping[str, Any]) -> dict[str, str]:
        """Sets all to what a link has, or to where it opens; returns what is wrong with it."""
        wrong: dict[str, str] = {}
        problem = _problem(self.original)
        try:
            problem = _problem(link.get("problem", self.original))
        except ValueError as error:
            wrong["problem"] = str(error)
        try:
            problem = _problem(problem.name, self._take("f", link.get("f"), problem))
        except ValueError as error:
            wrong["f"] = str(error)
        # The theme stays: it is no part of the case.
        new = {**_opening(problem), "theme": self.theme, "problem": problem}
        for name in [name for name in CHOICES if name in link and name != "f"]:
            try:
                new[name] = self._take(name, link[name], problem)
            except OutOfBounds as error:
                wrong[name], new[name] = str(error), error.nearest
            except ValueError as error:
                wrong[name] = str(error)
        self._put(new)
        return wrong

    def _record(self) -> None:
        """Takes a step, unless it leads nowhere else; what was ahead is forgotten."""
        link = {name: text for name, text in self.link().items() if name != "theme"}
        if not self._steps or link != self._steps[self._step]:
            self._steps = [*self._steps[: self._step + 1], link][-STEPS:]
            self._step = len(self._steps) - 1


# The choices' names, in the order of their declarations.
CHOICES = tuple(
    name
    for name in Case.param
    if name not in ("name", "problem", "level", "level_error", "committed", "renewed")
)
# The part of a reference case that its figures depend on; the seed is the other case's, so that
# both have the same random numbers.
COMPARED = (
    *("f", *POINT, "variant", "snapshot", "draws", "runs"),
    *("alpha", "beta", "share", "common", "sobol"),
)


def _problem(name: str, f: str = "") -> Problem:
    known = registry.problems()
    if name not in known:
        raise ValueError(f"expected one of {', '.join(known)}, got {brief(name)}")
    return registry.problem(name, f)


def _opening(problem: Problem) -> dict[str, Any]:
    """Where all choices open for a problem."""
    opening = {name: options.opens(name, problem) for name in CHOICES}
    return {n: Case.param[n].default if v is None else v for n, v in opening.items()}
