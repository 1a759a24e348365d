r"""`amci problems`: what there is to integrate."""

from __future__ import annotations

__all__ = ["problems"]

from typing import TYPE_CHECKING, Any

import amci_core as amci
from amci_core.cli.options import Format, FormatOption
from amci_core.cli.output import number, print_json, print_table

if TYPE_CHECKING:
    from amci_core.models import Variable


def problems(form: FormatOption = Format.table) -> None:
    """List the problems, with the ranges of y and theta."""
    found = [amci.problem(name) for name in amci.problems()]
    if form is Format.json:
        print_json(
            {
                p.name: {
                    "title": p.title,
                    "description": p.description,
                    "y": None if p.y is None else _variable(p.y),
                    "theta": None if p.theta is None else _variable(p.theta),
                }
                for p in found
            }
        )
    else:
        rows = [(p.name, p.title, _range(p.y), _range(p.theta)) for p in found]
        print_table("Problems", ("name", "title", "y", "theta"), rows)


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "dimensions": variable.dim,
        "low": variable.low,
        "high": variable.high,
        "unit": variable.unit,
        "meaning": variable.meaning,
    }


def _range(variable: Variable | None) -> str:
    if variable is None:
        return "-"
    interval = f"[{number(variable.low)}, {number(variable.high)}]"
    return f"{interval} {variable.unit}".rstrip() + (
        f" in {variable.dim} dimensions" if variable.dim > 1 else ""
    )
