r"""Results as strict JSON, and numbers for people."""

from __future__ import annotations

__all__ = ["number", "print_json", "print_table"]

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from amci_core.files import plain


def print_json(value: Mapping[str, Any]) -> None:
    """Prints a JSON object, and nothing else, on stdout."""
    typer.echo(json.dumps(plain(value), indent=2, allow_nan=False))


def number(value: Any, digits: int = 4) -> str:
    """A number for people; a dash where there is none."""
    return "-" if math.isnan(value) else f"{float(value):.{digits}g}"


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a title and a table on stdout; columns but the first are aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for rank, name in enumerate(header):
        table.add_column(name, justify="right" if rank else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, highlight=False)
    console.print(title, soft_wrap=True)
    console.print(table)
