r"""The fields of a training: what is chosen, and what is wrong with it."""

from __future__ import annotations

__all__ = ["OrderForm"]

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from amci_core.models import Problem
from amci_core.training import Choices, form_names
from amci_explorer.compute.learner import LONGEST_NAME, MINUTES, check_name
from amci_explorer.compute.trainee import Order
from amci_explorer.problems import registry
from amci_explorer.state.fields import FIELDS, number
from amci_explorer.state.state import State
from amci_explorer.views.inputs import Typed, select
from amci_explorer.views.layout import column, side_by_side

FOUND_OUT = "automatic"
FIELDS_OF = {
    "bins": ("Bins", "", "4 to 128; empty for the default."),
    "width": ("Width", "", "Of the network's layers, 4 to 1024; empty for the default."),
    "minutes": ("Minutes", "0.5", "Training time; 0.33 is 20 seconds."),
    "seed": ("Training seed", "0", "Another seed gives other weights."),
    "name": ("Name", "learnt", f"Letters, digits and dashes, at most {LONGEST_NAME}."),
}


class OrderForm:
    """Creates the fields, with what a training begins with.

    Arguments:
        state: Whose problem is trained for.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.family = select("Family", {FOUND_OUT: ""}, margin=(6, 0))
        self.fields = {
            name: Typed(
                label=label,
                value=value,
                helper_text=text,
                size="small",
                sizing_mode="stretch_width",
                margin=(6, 0),
            )
            for name, (label, value, text) in FIELDS_OF.items()
        }
        parts = [column(each) for each in (self.family, *self.fields.values())]
        self.panel = side_by_side(*parts, least=148, gap=12)

    def open(self) -> None:
        """Offers the forms that there are for the state's problem."""
        names = _forms(self._state.problem)
        options = {FOUND_OUT: "", **{name: name for name in names}}
        value = self.family.value if self.family.value in names else ""
        self.family.param.update(options=options, value=value)

    def read(self) -> Order | None:
        """What is asked for; None where something is wrong, which is said beside each field."""
        problem = self._state.problem
        low, high = MINUTES

        readers: dict[str, Callable[[str], Any]] = {
            "bins": lambda text: Choices(bins=_whole(text)).bins,
            "width": lambda text: Choices(width=_whole(text)).width,
            "minutes": lambda text: number(text, low, high),
            "seed": lambda text: FIELDS["seed"].read(problem, text),
            "name": lambda text: check_name(problem.name, text),
        }
        found: dict[str, Any] = {}
        for name, read in readers.items():
            try:
                found[name] = read(self.fields[name].value.strip())
                self._say(name)
            except ValueError as error:
                self._say(name, str(error).removeprefix(f"{name}: "))
        if len(found) < len(readers):
            return None
        return Order(
            problem=problem.name,
            name=found["name"],
            choices=Choices(self.family.value or None, found["bins"], found["width"]),
            minutes=found["minutes"],
            seed=found["seed"],
        )

    def _say(self, name: str, wrong: str = "") -> None:
        text = wrong or FIELDS_OF[name][2]
        self.fields[name].param.update(error_state=bool(wrong), helper_text=text)


def _whole(text: str) -> int | None:
    """A whole number, or None for an empty text."""
    if not text:
        return None
    if not text.isdecimal():
        raise ValueError(f"expected a whole number, got {text[:24]!r}")
    return int(text)


@lru_cache(registry.TARGETS_KEPT)
def _forms(problem: Problem) -> tuple[str, ...]:
    try:
        return form_names(problem)
    except ValueError:  # the training says what is wrong
        return ()
