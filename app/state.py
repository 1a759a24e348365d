r"""What the user chose: parameters only, no widgets, nothing derived but the mismatch."""

from __future__ import annotations

__all__ = ["LIMITS", "Choice", "Point", "State", "shown_range", "usual_runs", "whole_number"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import param

import amci_core as amci
from amci_core.models import Problem, Variable
from amci_core.proposals import available_variants
from app.presets import Preset, opening

LIMITS = {"draws": (2, 5000), "runs": (4, 10_000), "seed": (0, 2**31 - 1)}
OPENING_PROBLEM = "tail-1d"
REUSE_RANGE = (-0.5, 1.5)

Point = tuple[float, ...]


@dataclass(frozen=True)
class Choice:
    """What a Monte Carlo computation depends on; equal choices give equal results.

    Arguments:
        problem: Name of the problem.
        y: The observation's coordinates, empty where there is none.
        theta: Those of theta, likewise.
        variant: Which proposals.
        snapshot: Frame of the training film, None for the trained proposals.
        draws: Draws from each proposal.
        runs: Independent runs.
        seed: Seed of every draw.
    """

    problem: str
    y: Point
    theta: Point
    variant: str
    snapshot: int | None
    draws: int
    runs: int
    seed: int

    @property
    def pair(self) -> tuple[Point | None, Point | None]:
        """y and theta as the core takes them: None for what the problem does not have."""
        return self.y or None, self.theta or None


class State(param.Parameterized):
    """Creates the choices of one visitor, at their defaults.

    y, theta and the mismatch level are three handles of one point: they change through `move`
    only, all at once, so that there is nothing that could chase its own tail.

    Arguments:
        problem: Name of the problem that is looked at first.
    """

    problem: Any = param.ClassSelector(class_=Problem, constant=True, doc="What is integrated.")
    y: Any = param.Parameter(default=(), constant=True, doc="The observation's coordinates.")
    theta: Any = param.Parameter(default=(), constant=True, doc="The coordinates of theta.")
    level = param.Number(default=0.0, constant=True, doc="Mismatch of (y, theta), in nats.")
    variant: Any = param.String(default="spline", doc="Which proposals.")
    snapshot = param.Integer(
        default=None, allow_None=True, doc="Frame of the training film; None for the trained one."
    )
    draws = param.Integer(default=64, bounds=LIMITS["draws"], doc="Draws from each proposal.")
    runs = param.Integer(default=1000, bounds=LIMITS["runs"], doc="Independent runs.")
    seed = param.Integer(default=0, bounds=LIMITS["seed"], doc="Seed of every draw.")
    alpha = param.Number(default=1.0, bounds=REUSE_RANGE, doc="Share of E1 from q1's draws.")
    beta = param.Number(default=0.0, bounds=REUSE_RANGE, doc="Share of E2 from q1's draws.")
    relative = param.Boolean(default=True, doc="Errors in units of mu squared.")
    logarithmic = param.Boolean(default=False, doc="Densities on a logarithmic axis.")
    released = param.Event(doc="A control was let go: Monte Carlo may start.")

    def __init__(self, problem: str = OPENING_PROBLEM) -> None:
        super().__init__()
        self._left: dict[str, tuple[Point, Point]] = {}
        self.open(problem)

    @property
    def choice(self) -> Choice:
        """What Monte Carlo would be run for now."""
        return Choice(
            problem=self.problem.name,
            y=self.y,
            theta=self.theta,
            variant=self.variant,
            snapshot=self.snapshot if self.variant == "spline" else None,
            draws=self.draws,
            runs=self.runs,
            seed=self.seed,
        )

    def open(self, name: str, *, keep: bool = True) -> None:
        """Turns to another problem; keeps the counts, and of the rest what it can.

        The point is the one that was left there, or where y and theta are of the same kind the
        one that was looked at, or the first preset's.

        Arguments:
            name: Its name.
            keep: Whether a point is kept; else the first preset's is taken.

        Raises:
            ValueError: there is no such problem, or there are no proposals for it.
        """
        problem = amci.problem(name)
        available = available_variants(name)
        if not available:
            raise ValueError(f"problem: there are no trained proposals for {name}")
        before = self.problem
        y, theta = opening(problem)
        runs = self.runs
        if before is not None and keep:
            self._left[before.name] = (self.y, self.theta)
            if _covers(problem.y, self.y) and _covers(problem.theta, self.theta):
                y, theta = self.y, self.theta
        if before is None or runs == usual_runs(before):
            runs = usual_runs(problem)
        y, theta = self._left.get(name, (y, theta))
        level = float(problem.mismatch(y or None, theta or None))
        variant = self.variant if self.variant in available else available[0]
        with param.parameterized.edit_constant(self):
            self.param.update(
                problem=problem,
                y=y,
                theta=theta,
                level=level,
                variant=variant,
                snapshot=None,
                runs=runs,
            )

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
        problem = self.problem
        new_y = self.y if y is None else _shown(problem.y, "y", y)
        new_theta = self.theta if theta is None else _shown(problem.theta, "theta", theta)
        if level is not None:
            at = problem.at_mismatch(level, new_y or None, new_theta or None)
            new_y, new_theta = (() if v is None else tuple(map(float, v)) for v in at)
        reached = float(problem.mismatch(new_y or None, new_theta or None))
        # The level asked for stays as it is, to the digit: the handle under the user's finger
        # must not be moved by rounding.
        kept = level is not None and abs(reached - level) < 1e-6
        with param.parameterized.edit_constant(self):
            self.param.update(y=new_y, theta=new_theta, level=level if kept else reached)

    def level_range(self) -> tuple[float, float]:
        """The mismatch levels that the mismatch's handle can reach, in nats."""
        low, high = self.problem.mismatch_range(self.y or None, self.theta or None)
        return min(low, self.level), max(high, self.level)

    def apply(self, preset: Preset) -> None:
        """Goes to a preset; what it does not name is set back."""
        with param.parameterized.batch_call_watchers(self):
            self._set_back()
            self.move(y=preset.y or None, theta=preset.theta)
            named = {
                name: getattr(preset, name)
                for name in ("variant", "draws", "alpha", "beta")
                if getattr(preset, name) is not None
            }
            self.param.update(**named)
        self.param.trigger("released")

    def reset(self) -> None:
        """Sets everything but the problem back to where it opens."""
        y, theta = opening(self.problem)
        with param.parameterized.batch_call_watchers(self):
            self._set_back()
            self.param.update(
                relative=True, logarithmic=False, runs=usual_runs(self.problem), seed=0
            )
            self.move(y=y or None, theta=theta or None)
        self.param.trigger("released")

    def read_query(self, query: Mapping[str, Any]) -> dict[str, str]:
        """Takes problem, y, theta, variant, draws, runs and seed from a page's address.

        Returns:
            For each name that could not be used, what is wrong with it.
        """
        wrong: dict[str, str] = {}
        if "problem" in query:
            try:
                self.open(query["problem"], keep=False)
            except ValueError as error:
                wrong["problem"] = str(error)
        for name in ("y", "theta"):
            if name in query:
                try:
                    asked: dict[str, Any] = {name: _numbers(name, query[name])}
                    self.move(**asked)
                except ValueError as error:
                    wrong[name] = str(error)
        for name in LIMITS:
            if name in query:
                try:
                    self.param.update(**{name: whole_number(name, query[name])})
                except ValueError as error:
                    wrong[name] = str(error)
        if "variant" in query:
            allowed = available_variants(self.problem.name)
            if query["variant"] in allowed:
                self.variant = query["variant"]
            else:
                wrong["variant"] = (
                    f"expected one of {', '.join(allowed)}, got {query['variant']!r}"
                )
        return wrong

    def query(self) -> dict[str, str]:
        """The address that leads back here, with rounded values."""
        found = {}
        if self.problem.name != OPENING_PROBLEM:
            found["problem"] = self.problem.name
        for name in ("y", "theta"):
            if getattr(self, name):
                found[name] = ",".join(f"{value:.4g}" for value in getattr(self, name))
        usual = {"runs": usual_runs(self.problem)}
        for name in ("variant", "draws", "runs", "seed"):
            value = getattr(self, name)
            if value != usual.get(name, self.param[name].default):
                found[name] = str(value)
        return found

    def _set_back(self) -> None:
        names = ("snapshot", "draws", "alpha", "beta")
        self.param.update(
            variant=available_variants(self.problem.name)[0],
            **{name: self.param[name].default for name in names},
        )


def usual_runs(problem: Problem) -> int:
    """How many runs a problem opens with: a draw costs more in more dimensions."""
    return 1000 if problem.x.dim == 1 else 200


def shown_range(variable: Variable) -> tuple[float, float]:
    """The range of a variable's controls."""
    return variable.usual_range


def whole_number(name: str, text: Any) -> int:
    """Reads one of the counts in `LIMITS`.

    Raises:
        ValueError: it is not a whole number within its limits.
    """
    low, high = LIMITS[name]
    try:
        value = int(str(text).strip().replace(",", ""))
    except ValueError:
        value = None
    if value is None or not low <= value <= high:
        raise ValueError(f"expected a whole number from {low:,} to {high:,}, got {text!r}")
    return value


def _shown(variable: Variable | None, name: str, value: float | Sequence[float]) -> Point:
    if variable is None:
        raise ValueError(f"{name}: this problem has none, got {value!r}")
    values = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(values) != variable.dim:
        raise ValueError(f"{name}: expected {variable.dim} numbers, got {len(values)}")
    low, high = shown_range(variable)
    for each in values:
        number = isinstance(each, int | float) and not isinstance(each, bool)
        if not number or not low <= each <= high:
            raise ValueError(f"{name}: expected a number from {low:g} to {high:g}, got {each!r}")
    return tuple(map(float, values))


def _covers(variable: Variable | None, value: Point) -> bool:
    if variable is None:
        return not value
    low, high = shown_range(variable)
    return len(value) == variable.dim and all(low <= v <= high for v in value)


def _numbers(name: str, text: Any) -> Point:
    try:
        found = tuple(float(part) for part in str(text).split(","))
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected a number, got {text!r}") from None
    if not all(math.isfinite(value) for value in found):
        raise ValueError(f"{name}: expected a number, got {text!r}")
    return found
