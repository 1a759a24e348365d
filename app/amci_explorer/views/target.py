r"""The field for another f: a line of text, examples to pick, and the way back."""

from __future__ import annotations

__all__ = ["TargetControls"]

from typing import Any

import numpy as np

from amci_core.models import Problem
from amci_core.models.expression import LONGEST, ExpressionError
from amci_explorer.numbers.weighted import weighted
from amci_explorer.problems import registry
from amci_explorer.problems.examples import examples
from amci_explorer.server.session import callback
from amci_explorer.state.case import Case
from amci_explorer.views.inputs import Typed, flat_button, select
from amci_explorer.views.layout import HTML, NOTE, column

# Draws from each proposal and the defensive density.
TRIED = 1000
ZERO = "f is 0 at all points tried: the event is rare here, or μ is 0. If so, change f, y or θ."


class TargetControls:
    """Creates the field of f; what is typed changes nothing until it is right and applied.

    Arguments:
        state: What it changes, and follows.
    """

    def __init__(self, state: Case) -> None:
        self._state = state
        self.field = Typed("f(x, θ), then Enter", state.f, "")
        self.field.placeholder = "the problem's f"
        self._allowed = HTML("", NOTE)
        self._own = flat_button("Restore the problem's f", lambda _: self._take(""))
        self._examples = select("Examples", {"": ""}, margin=(6, 0, 0, 0))
        for widget in (self.field, self._examples):
            widget.param.watch(callback(self._chose), "value")
        state.param.watch(lambda *_: self.follow(), "f")
        state.param.watch(lambda *_: self._judge(), "committed")
        self.panel = column(self.field, self._allowed, self._examples, self._own, gap=6)
        self.open()

    def open(self) -> None:
        """Offers what fits the state's problem."""
        problem = registry.problem(self._state.original)
        found = {f"{name}: {text}": text for name, text in examples(problem).items()}
        self._examples.param.update(options={"choose one": "", **found}, value="")
        self._allowed.object = f"<p>{allowed(problem)}</p>"
        self.follow()

    def follow(self) -> None:
        """Shows the state's f, and whether it is zero around the posterior."""
        f = self._state.f
        self._own.disabled = not f
        self.field.value = f
        if self._examples.value not in ("", f):
            self._examples.value = ""
        self.field.complain()

    def _judge(self) -> None:
        """Says so if f is zero at draws from all proposals, and nothing can be estimated."""
        problem, settings = self._state.problem, self._state.settings
        if not self._state.f:
            return
        pair = problem.check(*settings.pair)
        tried = weighted(problem, registry.chosen(settings), *pair, draws=TRIED)
        self.field.complain(ZERO if np.isneginf(tried.log_abs_f).all() else "")

    def _chose(self, event: Any) -> None:
        if event.obj is self.field or event.new:
            self._take(event.new)

    def _take(self, text: str) -> None:
        """Has the state take a text, or says what is wrong with it."""
        text = " ".join(text[: 2 * LONGEST].split())
        try:
            if text == self._state.f:
                self.follow()
                return
            self._state.open(self._state.original, f=text)
            self._state.commit()
        except ExpressionError as error:
            self.field.complain(f"Column {error.column}: {error.why}")
        except ValueError as error:
            self.field.complain(str(error).removeprefix("f: "))


def allowed(problem: Problem) -> str:
    """What an expression may contain, for a problem."""
    sizes = [("x", problem.x.dim)]
    if problem.theta is not None:
        sizes.append(("theta", problem.theta.dim))
    names = " and ".join(
        f"{name}1" if size == 1 else f"{name}1 to {name}{size}, or {name} for all"
        for name, size in sizes
    )
    return (
        f"Up to {LONGEST} characters of {names}, numbers, + - * / **, comparisons, "
        "and, or, not, exp, log, sqrt, abs, sin, cos, tanh, min, max, where(condition, a, b), and "
        "over coordinates sum, mean, norm, all, any. Enter applies."
    )
