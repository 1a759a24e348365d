r"""What the user chose: the table `amci_explorer.state.fields.FIELDS` come alive, no widgets."""

from __future__ import annotations

__all__ = ["OPENING_PROBLEM", "State"]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import param

from amci_core.models import Problem
from amci_explorer.numbers.known import Level, level_range
from amci_explorer.numbers.known import level as known_level
from amci_explorer.problems import registry
from amci_explorer.problems.presets import Preset
from amci_explorer.problems.settings import Point, Settings
from amci_explorer.state.fields import FIELDS, Field, other_axis
from amci_explorer.state.history import Steps
from amci_explorer.state.kinds import brief, nearest
from amci_explorer.state.link import kept, read_link

OPENING_PROBLEM = "tail-1d"
# A level is kept as it was asked for where the case, to its digits, is as near as this, in nats.
NEAR = 1e-3
POINT = ("y", "theta")
# What is kept of a case to compare with. It has the seed of the other: the same random numbers.
PINNED = (
    *("f", "y", "theta", "variant", "snapshot", "draws", "runs"),
    *("alpha", "beta", "share", "common"),
)


class State(param.Parameterized):
    """Creates the choices of one visitor, at their defaults.

    It has a parameter for each of `FIELDS`. y, theta and the mismatch level are three handles of
    one point: they change through `move` only, all at once, so that there is nothing that could
    chase its own tail.

    Arguments:
        problem: Name of the problem that is looked at first.
        visitor: Whose own proposals there are: the state that this one is kept beside.
    """

    problem: Any = param.ClassSelector(class_=Problem, constant=True, doc="What is integrated.")
    level: Any = param.Number(default=0.0, constant=True, doc="Mismatch of (y, theta), in nats.")
    level_error: Any = param.Number(default=0.0, constant=True, doc="Its standard error.")
    committed = param.Event(doc="A control was let go: Monte Carlo may start.")
    renewed = param.Event(doc="The proposals that are chosen got better: they are being trained.")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, problem: str = OPENING_PROBLEM, *, visitor: object | None = None) -> None:
        super().__init__()
        self.visitor = visitor or self
        self._left: dict[str, dict[str, Point]] = {}
        self._steps = Steps()
        self._pinned: tuple[Any, State | None] = (None, None)
        self.open(problem)
        self._record()

    @property
    def original(self) -> str:
        """The problem's name, whatever its f is."""
        return registry.split(self.problem.name)[0]

    @property
    def settings(self) -> Settings:
        """What Monte Carlo would be run for now."""
        same = {name: getattr(self, name) for name in (*POINT, "variant", "draws", "runs", "seed")}
        snapshot = self.snapshot if self.variant == "spline" else None
        revision = registry.revision(self.problem.name, self.variant)
        return Settings(problem=self.problem.name, snapshot=snapshot, revision=revision, **same)

    def set(self, **values: Any) -> None:
        """Changes some of the fields, all at once; for y and theta see `move`, for f `open`.

        Raises:
            ValueError: a value is not allowed; nothing has changed then.
        """
        read = {name: self._read(FIELDS[name], value) for name, value in values.items()}
        along = {name: getattr(self, name) for name in ("across", "upwards")}
        read |= other_axis(self.problem, along, read)
        self.param.update(**read)

    def open(self, name: str, *, f: str = "", keep: bool = True) -> None:
        """Turns to another problem, or f; keeps of the rest what it can, if that is to be kept.

        The point is the one that was left there, or where y and theta are of the same kind the
        one that was looked at, or the first preset's. What stood where it starts does so again.

        Arguments:
            name: The problem's name.
            f: An expression of x and theta in the place of its own f; empty for that.
            keep: Whether anything is to be kept.

        Raises:
            ValueError: there is no such problem, there are no proposals for it, or f is no
                expression for it (`ExpressionError`, with the column); nothing has changed then.
        """
        if name not in registry.problems():
            raise ValueError(
                f"expected one of {', '.join(registry.problems())}, got {brief(name)}"
            )
        before, problem = self.problem, registry.problem(name, f)
        new = {field.name: field.default(problem) for field in FIELDS.values()}
        if before is not None and keep:
            self._left[self.original] = {n: getattr(self, n) for n in POINT}
            new |= kept(self, before, problem)
            new |= self._left.get(name, {})
        new["f"] = registry.split(problem.name)[1]
        level = known_level(problem, None, new["y"], new["theta"])
        new |= {"level": level.value, "level_error": level.error}
        with param.parameterized.edit_constant(self):
            self.param.update(problem=problem, **new)

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
        new_y = self.y if y is None else self._read(FIELDS["y"], y)
        new_theta = self.theta if theta is None else self._read(FIELDS["theta"], theta)
        if level is not None:
            at = self.problem.at_mismatch(level, new_y or None, new_theta or None)
            new_y, new_theta = (
                nearest(FIELDS[name].read, self.problem, () if v is None else tuple(map(float, v)))
                for name, v in zip(POINT, at, strict=True)
            )
        reached = known_level(self.problem, None, new_y, new_theta)
        # The level asked for stays as it is, to the digit: the handle under the user's finger
        # must not be moved by rounding.
        kept = level is not None and abs(reached.value - level) < NEAR
        with param.parameterized.edit_constant(self):
            now = level if kept else reached.value
            self.param.update(y=new_y, theta=new_theta, level=now, level_error=reached.error)

    def learn(self, choice: Settings, level: Level) -> None:
        """Takes the mismatch that was estimated for a choice, unless its point has been left."""
        if choice.pair == self.settings.pair and not self.level_error == 0:
            with param.parameterized.edit_constant(self):
                self.param.update(level=level.value, level_error=level.error)

    def level_range(self) -> tuple[float, float] | None:
        """The levels that the mismatch's handle can reach, in nats; None where there is no way."""
        ends = level_range(self.problem, self.y, self.theta)
        return None if ends is None else (min(ends[0], self.level), max(ends[1], self.level))

    def commit(self) -> None:
        """Says that a control was let go: a step for Back, and Monte Carlo may start."""
        self._record()
        self.param.trigger("committed")

    def apply(self, preset: Preset) -> None:
        """Goes to a preset; what it does not name is set back."""
        named = {"variant": None, "snapshot": None, "draws": None, "alpha": None, "beta": None}
        named |= {"card": self.card}
        for name, usual in named.items():
            asked = getattr(preset, name, None)
            named[name] = FIELDS[name].default(self.problem) if usual is None else usual
            if asked is not None:
                named[name] = asked
        with param.parameterized.batch_call_watchers(self):
            self.move(y=preset.y or None, theta=preset.theta)
            self.set(**named)
        self.commit()

    def at(self, preset: Preset) -> bool:
        """Whether the state is where a preset leads."""
        names = ("y", "theta", "variant", "draws", "alpha", "beta")
        asked = {name: getattr(preset, name) for name in names}
        same = all(v in (None, getattr(self, n)) for n, v in asked.items())
        return same and not self.f and self.snapshot == preset.snapshot

    def reset(self) -> None:
        """Sets everything but the problem back to where it opens."""
        with param.parameterized.batch_call_watchers(self):
            if self.f:
                self.open(self.original)
            self._set_all({})
        self.commit()

    @property
    def can_go(self) -> tuple[bool, bool]:
        """Whether there is something to go back to, and forward to."""
        return self._steps.can_go

    def go(self, step: int) -> None:
        """Goes back by one step (-1), or forward (1); without such a step stays."""
        asked = self._steps.go(step)
        if asked is not None:
            with param.parameterized.batch_call_watchers(self):
                there = asked["problem"], asked.get("f", "")
                if there != (self.original, self.f):
                    self.open(there[0], f=there[1])
                self._set_all(asked)
            self.param.trigger("committed")

    def visit(self, link: Mapping[str, str]) -> None:
        """Goes where a link leads, a step of this visit; what it does not name starts anew.

        Raises:
            ValueError: a value is not allowed.
        """
        there = link.get("problem", self.original), link.get("f", "")
        with param.parameterized.batch_call_watchers(self):
            if there != (self.original, self.f):
                self.open(there[0], f=there[1], keep=False)
            self._set_all(link)
        self.commit()

    def link(self, *, pinned: bool = False) -> dict[str, str]:
        """What an address holds that leads back here: all that is not where it opens.

        Arguments:
            pinned: Whether only what leads to the same figures is wanted.
        """
        found = {"problem": self.original}
        for field in FIELDS.values():
            value = getattr(self, field.name)
            if pinned and field.name not in PINNED:
                continue
            if (field.name in POINT and value) or value != field.default(self.problem):
                found[field.name] = field.write(value)
        return found

    def read(self, link: Mapping[str, Any]) -> dict[str, str]:
        """Takes what an address, or a file, holds; numbers beyond their bounds stop there.

        Returns:
            For each name that could not be used as it was, what is wrong with it.
        """
        wrong = read_link(self, link)
        self._steps = Steps()
        self._record()
        return wrong

    def as_json(self) -> dict[str, Any]:
        """Everything that was chosen, as plain values; `read` takes it."""
        return {"problem": self.original} | {name: getattr(self, name) for name in FIELDS}

    @property
    def pinned(self) -> State | None:
        """The state that is kept to compare with, with this one's seed; None without one."""
        if self._pinned[0] != (self.compared, self.seed):
            found = State(visitor=self.visitor) if self.compared else None
            if found is not None:
                found.read({**dict(parse_qsl(self.compared)), "seed": self.seed})
            self._pinned = (self.compared, self.seed), found
        return self._pinned[1]

    @property
    def beside(self) -> State | None:
        """The one that is kept, where pictures can show it beside this: of the same problem."""
        pinned = self.pinned
        same = pinned is not None and pinned.problem.name == self.problem.name
        return pinned if same else None

    def options(self, name: str) -> Mapping[Any, str]:
        """What a field can be, and the labels; with the visitor's own proposals."""
        options = FIELDS[name].options
        found = {} if options is None else dict(options(self.problem))
        if name == "variant":
            found |= {each: each for each in registry.variants(self.problem.name, self.visitor)}
        return found

    def pin(self, kept: bool = True) -> None:
        """Keeps this state to compare with, or lets go of the one that is."""
        self.param.update(compared=urlencode(self.link(pinned=True)) if kept else "")
        self.commit()

    def _set_all(self, asked: Mapping[str, str]) -> None:
        """Sets every field to what a link has, or back where the link is silent."""
        new = {
            field.name: field.take(self.problem, asked[field.name], self.visitor)
            if field.name in asked
            else field.default(self.problem)
            for field in FIELDS.values()
            if field.back and field.name != "f"
        }
        with param.parameterized.batch_call_watchers(self):
            self.move(**{name: new.pop(name) or None for name in POINT})
            self.param.update(**new)

    def _record(self) -> None:
        here = self.link().items()
        self._steps.add({n: text for n, text in here if n == "problem" or FIELDS[n].back})

    def _read(self, field: Field, value: Any) -> Any:
        try:
            return field.take(self.problem, value, self.visitor)
        except ValueError as error:
            raise ValueError(f"{field.name}: {error}") from None


for _field in FIELDS.values():
    State.param.add_parameter(
        _field.name,
        param.Parameter(default=None, constant=_field.name in ("f", *POINT), doc=_field.doc),
    )
