r"""The choices under an earlier interface; all of it leaves."""

from types import SimpleNamespace
from typing import Any

from amci_explorer.state import options
from amci_explorer.state.case import CHOICES, Case
from amci_explorer.state.links import OutOfBounds, brief, number, read, write
from amci_explorer.state.options import layers, plane_axes

__all__ = ["FIELDS", "OutOfBounds", "brief", "layers", "nearest", "number", "plane_axes"]


def _field(name: str) -> Any:
    declared = Case.param[name]
    return SimpleNamespace(
        name=name,
        doc=declared.doc,
        bounds=getattr(declared, "bounds", None),
        default=lambda problem: options.opens(name, problem) or declared.default,
        options=lambda problem, session=None: Case(problem.name).options(name),
        read=lambda problem, given: read(
            declared, given, problem, Case(problem.name).options(name, problem)
        ),
        write=write,
    )


FIELDS = {name: _field(name) for name in CHOICES}


def nearest(field: Any, problem: Any, given: Any) -> Any:
    """The field's value, or the nearest one within its bounds."""
    try:
        return field.read(problem, given)
    except OutOfBounds as error:
        return error.nearest
