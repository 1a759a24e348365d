r"""What the user chose: the table `FIELDS` come alive, no widgets."""

from __future__ import annotations

__all__ = ["OPENING_PROBLEM", "State", "decoded"]

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import param

from amci_core.models import Problem
from amci_explorer.numbers.known import Level, level_range
from amci_explorer.numbers.known import level as known_level
from amci_explorer.problems import registry
from amci_explorer.problems.presets import Preset
from amci_explorer.problems.settings import Point, Settings
from amci_explorer.state.fields import FIELDS, READ, OneOf, OutOfBounds, brief, nearest, plane_axes

OPENING_PROBLEM = "tail-1d"
# A level stays as it was asked for if the case, to its digits, is as near as this, in nats.
NEAR = 1e-3
POINT = ("y", "theta")
# The part of a reference case that its figures depend on; the seed is the other case's, so that
# both have the same random numbers.
COMPARED = (
    *("f", "y", "theta", "variant", "snapshot", "draws", "runs"),
    *("alpha", "beta", "share", "common", "sobol"),
)
# Steps that Back leads through.
STEPS = 100


class State(param.Parameterized):
    """Creates the choices of one page, at their defaults.

    It has a parameter for each of `FIELDS`. y, theta and the mismatch level are three handles of
    one point: they change through `move` only, all at once, so that no handle chases another.

    Arguments:
        problem: Name of the problem that the page opens with.
        session: The page whose own proposals there are; by default this state.
    """

    problem: Any = param.ClassSelector(class_=Problem, constant=True, doc="What is integrated.")
    level: Any = param.Number(default=0.0, constant=True, doc="Mismatch of (y, theta), in nats.")
    level_error: Any = param.Number(default=0.0, constant=True, doc="Its standard error.")
    committed = param.Event(doc="A control was let go: Monte Carlo may start.")
    renewed = param.Event(doc="The chosen proposals got better: they are being trained.")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, problem: str = OPENING_PROBLEM, *, session: object | None = None) -> None:
        super().__init__()
        self.session = session or self
        # The point that was left at each problem.
        self._left: dict[str, dict[str, Point]] = {}
        self._reference: tuple[Any, State | None] = (None, None)
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
        revision = registry.revision(self.problem.name, self.variant)
        return Settings(problem=self.problem.name, snapshot=snapshot, revision=revision, **same)

    def options(self, name: str) -> Mapping[Any, str]:
        """The values that a field can have, and their labels."""
        return FIELDS[name].options(self.problem, self.session)

    def set(self, **values: Any) -> None:
        """Changes some of the fields, all at once; for y and theta see `move`, for f `open`.

        Raises:
            ValueError: a value is not allowed; nothing has changed then.
        """
        read = {name: self._read(name, value) for name, value in values.items()}
        self.param.update(**read, **self._other_axis(read))

    def open(self, name: str, *, f: str = "", keep: bool = True) -> None:
        """Turns to another problem, or f, and keeps of the rest what makes sense there.

        The point is the one that was left there; else the one of the problem before if y and theta
        are of the same kind; else the first preset's. In another number of dimensions it has the
        means of y and of theta in every coordinate.

        Arguments:
            name: The problem's name.
            f: An expression of x and theta instead of the problem's own f; empty for the latter.
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
            same = name in registry.sizes(self.original).values()
            left = self._spread(problem) if same else self._left.get(name, {})
            new |= self._kept(before, problem) | left
        new["f"] = registry.split(problem.name)[1]
        level = known_level(problem, None, new["y"], new["theta"])
        new |= {"level": level.value, "level_error": level.error}
        with param.parameterized.edit_constant(self):
            for field in FIELDS.values():
                if isinstance(field, OneOf):
                    self.param[field.name].objects = list(field.options(problem, self.session))
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
        new_y = self.y if y is None else self._read("y", y)
        new_theta = self.theta if theta is None else self._read("theta", theta)
        if level is not None:
            at = self.problem.at_mismatch(level, new_y or None, new_theta or None)
            new_y, new_theta = (
                nearest(FIELDS[name], self.problem, () if v is None else tuple(map(float, v)))
                for name, v in zip(POINT, at, strict=True)
            )
        reached = known_level(self.problem, None, new_y, new_theta)
        # The handle under the user's finger must not be moved by rounding.
        stays = level is not None and abs(reached.value - level) < NEAR
        with param.parameterized.edit_constant(self):
            now = level if stays else reached.value
            self.param.update(y=new_y, theta=new_theta, level=now, level_error=reached.error)

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

    def apply(self, preset: Preset) -> None:
        """Goes to a preset; what it does not name starts anew."""
        fields = {name: getattr(preset, name) for name in ("variant", "snapshot", "draws")}
        fields |= {"alpha": preset.alpha, "beta": preset.beta}
        named = {
            name: FIELDS[name].default(self.problem) if value is None else value
            for name, value in fields.items()
        }
        with param.parameterized.batch_call_watchers(self):
            self.move(y=preset.y or None, theta=preset.theta)
            self.set(card=preset.card or self.card, **named)
        self.commit()

    def at(self, preset: Preset) -> bool:
        """Whether the state is where a preset leads."""
        names = ("y", "theta", "variant", "draws", "alpha", "beta")
        asked = {name: getattr(preset, name) for name in names}
        same = all(v in (None, getattr(self, n)) for n, v in asked.items())
        return same and not self.f and self.snapshot == preset.snapshot

    def reset(self) -> None:
        """Sets everything but the problem back to where it opens."""
        self._go_to({"problem": self.original})
        self.commit()

    @property
    def can_go(self) -> tuple[bool, bool]:
        """Whether there is a step back, and a step forward."""
        return self._step > 0, self._step < len(self._steps) - 1

    def go(self, step: int) -> None:
        """Goes back by one step (-1), or forward (1); without such a step stays."""
        if 0 <= self._step + step < len(self._steps):
            self._step += step
            self._go_to(self._steps[self._step], keep=True)
            self.param.trigger("committed")

    def visit(self, link: Mapping[str, str]) -> None:
        """Goes where a link leads, a step of this visit; what it does not name starts anew.

        Raises:
            ValueError: a value is not allowed.
        """
        self._go_to(link)
        self.commit()

    def link(self, *, compared: bool = False) -> dict[str, str]:
        """What an address holds that leads back here: all that is not where it opens.

        Arguments:
            compared: Whether to name only what the figures depend on.
        """
        found = {"problem": self.original}
        for name, field in FIELDS.items():
            value = getattr(self, name)
            opens = value == field.default(self.problem) and not (name in POINT and value)
            if not opens and (name in COMPARED or not compared):
                found[name] = field.write(value)
        return found

    def read(self, link: Mapping[str, Any]) -> dict[str, str]:
        """Takes what an address, or a file, holds; numbers beyond their bounds stop there.

        Returns:
            For each name that could not be used as it was, what is wrong with it.
        """
        wrong: dict[str, str] = {}
        if "problem" in link:
            try:
                self.open(link["problem"], keep=False)
            except ValueError as error:
                wrong["problem"] = str(error)
        taken: dict[str, Any] = {}
        # f first: it decides what the others may be.
        for name in [name for name in FIELDS if name in link]:
            try:
                if len(str(link[name])) > READ:
                    raise ValueError(f"too long: {brief(link[name])}")
                taken[name] = self._take(name, link[name])
                if name == "f":
                    self.open(self.original, f=taken.pop(name), keep=False)
            except OutOfBounds as error:
                wrong[name], taken[name] = str(error), error.nearest
            except ValueError as error:
                wrong[name] = str(error)
        with param.parameterized.batch_call_watchers(self):
            self.move(**{name: taken.pop(name) or None for name in POINT if name in taken})
            self.param.update(**{**taken, **self._other_axis(taken)})
        self._steps, self._step = [], -1
        self._record()
        return wrong

    def as_json(self) -> dict[str, Any]:
        """Everything that was chosen, as plain values; `read` takes it."""
        return {"problem": self.original} | {name: getattr(self, name) for name in FIELDS}

    @property
    def reference(self) -> State | None:
        """The reference case, with this case's seed; None if there is none."""
        if self._reference[0] != (self.compared, self.seed):
            found = State(session=self.session) if self.compared else None
            if found is not None:
                found.read({**dict(parse_qsl(self.compared)), "seed": self.seed})
            self._reference = (self.compared, self.seed), found
        return self._reference[1]

    @property
    def same_reference(self) -> State | None:
        """The reference case if it is of the same problem, so that pictures can show both."""
        found = self.reference
        same = found is not None and found.problem.name == self.problem.name
        return found if same else None

    def compare(self, here: bool = True) -> None:
        """Makes this case the reference case, or lets go of the one there is."""
        self.param.update(compared=urlencode(self.link(compared=True)) if here else "")
        self.commit()

    def _read(self, name: str, value: Any) -> Any:
        try:
            return self._take(name, value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _take(self, name: str, value: Any) -> Any:
        if name == "compared" and value:
            return self._checked(str(value))
        return FIELDS[name].read(self.problem, value, self.session)

    def _checked(self, link: str) -> str:
        """The link of a reference case, read once."""
        case = State(session=self.session)
        for name, why in case.read(dict(parse_qsl(link))).items():
            raise ValueError(f"{name}: {why}")
        return urlencode(case.link(compared=True))

    def _kept(self, before: Problem, problem: Problem) -> dict[str, Any]:
        """What was chosen at one problem that makes sense at another."""
        found: dict[str, Any] = {"snapshot": None}
        for name, field in FIELDS.items():
            value = getattr(self, name)
            chosen = name in POINT or value != field.default(before)
            if chosen and name not in ("f", "snapshot"):
                try:
                    found[name] = field.read(problem, value, self.session)
                except ValueError:
                    continue
        if not all(name in found for name in POINT):
            found = {name: value for name, value in found.items() if name not in POINT}
        return found

    def _spread(self, problem: Problem) -> dict[str, Any]:
        """The point in another number of dimensions: the mean of y and of theta everywhere."""
        return {
            name: nearest(FIELDS[name], problem, (fmean(getattr(self, name)),) * problem.x.dim)
            for name in POINT
        }

    def _go_to(self, link: Mapping[str, str], keep: bool = False) -> None:
        """Sets every field to what a link has, or to where it opens."""
        problem, f = link.get("problem", self.original), link.get("f", "")
        with param.parameterized.batch_call_watchers(self):
            if (problem, f) != (self.original, self.f):
                self.open(problem, f=f, keep=keep)
            new = {
                name: self._take(name, link[name]) if name in link else field.default(self.problem)
                for name, field in FIELDS.items()
                if field.back and name != "f"
            }
            self.move(**{name: new.pop(name) or None for name in POINT})
            self.param.update(**new)

    def _other_axis(self, chosen: Mapping[str, Any]) -> dict[str, str]:
        """The map's other axis, if the one that is chosen would move the same coordinate."""
        across, upwards = (chosen.get(n, getattr(self, n)) for n in ("across", "upwards"))
        if _independent(across, upwards):
            return {}
        last = "upwards" in chosen and "across" not in chosen
        other, fixed = ("across", upwards) if last else ("upwards", across)
        free = (name for name in plane_axes(self.problem) if _independent(name, fixed))
        return {other: next(free, fixed)}

    def _record(self) -> None:
        """Takes a step, unless it leads nowhere else; what was ahead is forgotten."""
        here = self.link().items()
        link = {n: text for n, text in here if n == "problem" or FIELDS[n].back}
        if not self._steps or link != self._steps[self._step]:
            self._steps = [*self._steps[: self._step + 1], link][-STEPS:]
            self._step = len(self._steps) - 1


def decoded(arguments: Mapping[str, Sequence[bytes]]) -> dict[str, str]:
    """The parameters of a page's address as text, from any bytes.

    Arguments:
        arguments: For each name its values; the first one holds.
    """
    return {
        name: values[0].decode(errors="replace") for name, values in arguments.items() if values
    }


def _independent(first: str, second: str) -> bool:
    """Whether two axes move no coordinate together."""
    (a, _, i), (b, _, j) = first.partition("["), second.partition("[")
    return a != b or (i != j and bool(i) and bool(j))


for _field in FIELDS.values():
    _parameter = _field.parameter()
    _parameter.constant = _field.name in ("f", *POINT)
    State.param.add_parameter(_field.name, _parameter)
