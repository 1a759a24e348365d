r"""What a state takes over: from an address or a file, and from another problem."""

from __future__ import annotations

__all__ = ["decoded", "kept", "read_link"]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import param

from amci_core.models import Problem
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.kinds import READ, OutOfBounds, brief

if TYPE_CHECKING:
    from amci_explorer.state.state import State

POINT = ("y", "theta")


def decoded(arguments: Mapping[str, Sequence[bytes]]) -> dict[str, str]:
    """The parameters of a page's address as text, whatever bytes came.

    Arguments:
        arguments: For each name its values; the first one holds.
    """
    return {
        name: values[0].decode(errors="replace") for name, values in arguments.items() if values
    }


def read_link(state: State, link: Mapping[str, Any]) -> dict[str, str]:
    """Has a state take what a link holds; numbers beyond their bounds stop there.

    Returns:
        For each name that could not be used as it was, what is wrong with it.
    """
    wrong: dict[str, str] = {}
    if "problem" in link:
        try:
            state.open(link["problem"], keep=False)
        except ValueError as error:
            wrong["problem"] = str(error)
    taken = {}
    # What another f allows is known once it is there.
    for name in sorted(FIELDS.keys() & link.keys(), key=lambda name: name != "f"):
        try:
            if len(str(link[name])) > READ:
                raise ValueError(f"expected something short, got {brief(link[name])}")
            taken[name] = FIELDS[name].take(state.problem, link[name], state.visitor)
            if name == "f":
                state.open(state.original, f=taken.pop(name), keep=False)
        except OutOfBounds as error:
            wrong[name], taken[name] = str(error), error.nearest
        except ValueError as error:
            wrong[name] = str(error)
    with param.parameterized.batch_call_watchers(state):
        state.move(**{name: taken.pop(name) for name in POINT if taken.get(name)})
        state.set(**{name: value for name, value in taken.items() if name not in POINT})
    return wrong


def kept(state: State, before: Problem, problem: Problem) -> dict[str, Any]:
    """What a state has of one problem that makes sense for another."""
    found = {}
    for field in FIELDS.values():
        value = getattr(state, field.name)
        if field.name != "f" and (field.name in POINT or value != field.default(before)):
            try:
                found[field.name] = field.take(problem, value, state.visitor)
            except ValueError:
                continue
    if not all(name in found for name in POINT):
        for name in POINT:
            found.pop(name, None)
    return found | {"snapshot": None}
