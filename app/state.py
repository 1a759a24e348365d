r"""What the user chose: parameters only, no widgets, nothing derived but the mismatch."""

from __future__ import annotations

__all__ = ["LIMITS", "Choice", "State", "whole_number"]

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import param

from amci_core.models import Preset, Problem

VARIANTS = ("spline", "paper", "oracle")
LIMITS = {"draws": (2, 5000), "runs": (4, 10_000), "seed": (0, 2**31 - 1)}
DEFAULTS: dict[str, Any] = {"y": 1.0, "theta": 3.0, "variant": "spline"}
REUSE_RANGE = (-0.5, 1.5)


@dataclass(frozen=True)
class Choice:
    """What a Monte Carlo computation depends on; equal choices give equal results."""

    y: float
    theta: float
    variant: str
    snapshot: int | None
    draws: int
    runs: int
    seed: int


class State(param.Parameterized):
    """Creates the choices of one visitor, at their defaults.

    y, theta and the mismatch level are three handles of one point: they change through `move`
    only, all at once, so that there is nothing that could chase its own tail.

    Arguments:
        problem: The problem that is looked at.
    """

    y = param.Number(constant=True, doc="The observation.")
    theta = param.Number(constant=True, doc="The threshold.")
    level = param.Number(constant=True, doc="Mismatch level of (y, theta), in nats.")
    variant: Any = param.Selector(default="spline", objects=list(VARIANTS), doc="Which proposals.")
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

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem
        self.move(y=DEFAULTS["y"], theta=DEFAULTS["theta"])

    @property
    def choice(self) -> Choice:
        """What Monte Carlo would be run for now."""
        return Choice(
            y=self.y,
            theta=self.theta,
            variant=self.variant,
            snapshot=self.snapshot if self.variant == "spline" else None,
            draws=self.draws,
            runs=self.runs,
            seed=self.seed,
        )

    def move(
        self, *, y: float | None = None, theta: float | None = None, level: float | None = None
    ) -> None:
        """Moves the point by one of its handles, or by y together with one of the others.

        Raises:
            ValueError: a value is no number or out of range; the point stays where it was.
        """
        y = self.y if y is None else self._shown("y", y)
        if level is not None:
            theta = float(self.problem.at_mismatch(level, y, self.theta)[1][0])
        theta = self.theta if theta is None else self._shown("theta", theta)
        reached = float(self.problem.mismatch(y, theta))
        # The level asked for stays as it is, to the digit: the handle under the user's finger
        # must not be moved by rounding.
        kept = level is not None and abs(reached - level) < 1e-6
        with param.parameterized.edit_constant(self):
            self.param.update(y=y, theta=theta, level=level if kept else reached)

    def level_range(self) -> tuple[float, float]:
        """The mismatch levels that theta can reach at this y, in nats."""
        assert self.problem.theta is not None
        low, high = self.problem.theta.shown or (self.problem.theta.low, self.problem.theta.high)
        return (
            float(self.problem.mismatch(self.y, low)),
            float(self.problem.mismatch(self.y, high)),
        )

    def apply(self, preset: Preset) -> None:
        """Goes to a preset; what it does not name is set back."""
        assert preset.theta is not None
        with param.parameterized.batch_call_watchers(self):
            self._set_back()
            self.move(y=preset.y[0], theta=preset.theta[0])
            named = {
                name: getattr(preset, name)
                for name in ("variant", "draws", "alpha", "beta")
                if getattr(preset, name) is not None
            }
            self.param.update(**named)
        self.param.trigger("released")

    def reset(self) -> None:
        """Sets everything back to where the page opens."""
        with param.parameterized.batch_call_watchers(self):
            self._set_back()
            self.param.update(relative=True, logarithmic=False, runs=1000, seed=0)
            self.move(y=DEFAULTS["y"], theta=DEFAULTS["theta"])
        self.param.trigger("released")

    def read_query(self, query: Mapping[str, Any]) -> dict[str, str]:
        """Takes y, theta, variant, draws, runs and seed from a page's address.

        Returns:
            For each name that could not be used, what is wrong with it.
        """
        wrong: dict[str, str] = {}
        for name in ("y", "theta"):
            if name in query:
                try:
                    self.move(**{name: _number(name, query[name])})
                except ValueError as error:
                    wrong[name] = str(error)
        for name in LIMITS:
            if name in query:
                try:
                    self.param.update(**{name: whole_number(name, query[name])})
                except ValueError as error:
                    wrong[name] = str(error)
        if "variant" in query:
            if query["variant"] in VARIANTS:
                self.variant = query["variant"]
            else:
                wrong["variant"] = (
                    f"expected one of {', '.join(VARIANTS)}, got {query['variant']!r}"
                )
        return wrong

    def query(self) -> dict[str, str]:
        """The address that leads back here, with rounded values."""
        found = {"y": f"{self.y:.4g}", "theta": f"{self.theta:.4g}"}
        for name in ("variant", "draws", "runs", "seed"):
            value = getattr(self, name)
            if value != self.param[name].default:
                found[name] = str(value)
        return found

    def _set_back(self) -> None:
        names = ("variant", "snapshot", "draws", "alpha", "beta")
        self.param.update(**{name: self.param[name].default for name in names})

    def _shown(self, name: str, value: float) -> float:
        variable = self.problem.y if name == "y" else self.problem.theta
        assert variable is not None
        low, high = variable.shown or (variable.low, variable.high)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            raise ValueError(f"{name}: expected a number from {low:g} to {high:g}, got {value!r}")
        return float(value)


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


def _number(name: str, text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected a number, got {text!r}") from None
