r"""What the commands share: options, how text is read, and how results are printed."""

from __future__ import annotations

__all__ = [
    "DaskOption",
    "DeviceOption",
    "FolderOption",
    "Format",
    "FormatOption",
    "OptionalVariant",
    "PointsOption",
    "ProblemName",
    "SeedOption",
    "WorkersOption",
    "load",
    "load_one",
    "number",
    "print_json",
    "print_table",
    "print_terms",
    "split",
]

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import amci_core as amci
from amci_core.io import plain

if TYPE_CHECKING:
    from amci_core.flows import Proposals
    from amci_core.models import Problem


T = TypeVar("T")


class Format(StrEnum):
    """How a result is written to stdout."""

    table = "table"
    json = "json"


ProblemName = Annotated[
    str,
    typer.Argument(metavar="PROBLEM", help="A name that `amci problems` lists, or FILE.py:NAME."),
]
OptionalVariant = Annotated[
    str | None,
    typer.Option(
        help="Which proposals: spline (default), paper, oracle (exact) or defensive (untrained)."
    ),
]
FolderOption = Annotated[
    Path | None, typer.Option(help="A folder with proposals, instead of those shipped.")
]
PointsOption = Annotated[
    str | None,
    typer.Option(
        help="independent (the default), or sobol: scrambled Sobol points for amci-cv, amci and "
        "other tables; the rest draw independent ones."
    ),
]
SeedOption = Annotated[int, typer.Option(help="Whole number >= 0; the same seed, same numbers.")]
DeviceOption = Annotated[
    str, typer.Option(help="auto (a GPU where there is one), cpu, cuda, or another of PyTorch.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        help="Processes that do the work, one core each; by default it is done in this one."
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="A running Dask scheduler, such as tcp://HOST:8786, whose workers do the work.",
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print the result.")]


def load(
    problem: str, variant: str | None, folder: Path | None = None
) -> tuple[Problem, Proposals]:
    """The problem and its proposals of that variant, or those in a folder.

    Also tells PyTorch to use one thread: the networks are too small to gain from more.

    Raises:
        ValueError: there is no such problem or variant, or no folder with proposals for a problem
            from a file.
    """
    import torch

    torch.set_num_threads(1)
    chosen = load_one(problem)
    if folder is None and variant is None and chosen.name not in amci.problems():
        raise ValueError(
            f"--folder: expected the folder with the proposals for {problem}, which "
            f"`amci train {problem} --out FOLDER` writes. Or pass --variant defensive"
        )
    return chosen, amci.load_proposals(chosen, variant=variant, folder=folder)


def load_one(problem: str) -> Problem:
    """The problem of that name, or the one in a file, FILE.py:NAME.

    Raises:
        ValueError: there is no such problem, file or class.
    """
    from amci_core.models.loading import is_file_name

    return amci.load_problem(problem) if is_file_name(problem) else amci.problem(problem)


def split(name: str, text: str, kind: Callable[[str], T]) -> list[T]:
    """What a text with commas lists.

    Raises:
        ValueError: an entry is not of that kind.
    """
    try:
        return [kind(entry.strip()) for entry in text.split(",")]
    except ValueError:
        expected = "whole numbers such as 1000,10000" if kind is int else "numbers such as 1,2.5"
        raise ValueError(f"{name}: expected {expected}, got {text!r}") from None


def print_json(value: Mapping[str, Any]) -> None:
    """Prints a JSON object on stdout, which then holds only that."""
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


def print_terms(estimator: str, terms: Mapping[str, Any]) -> None:
    """Prints the diagnostics of an estimate's terms, as `Estimate.as_dict()` has them."""
    print_table(
        f"Terms of {estimator}",
        ("term", "value", "ESS", "largest weight", "k-hat", "at most"),
        [
            (
                name,
                number(term["value"]),
                f"{term['smallest_ess']:,.0f} of {term['draws']:,}",
                number(term["largest_weight"], 3),
                *(number(term[figure], 2) for figure in ("pareto_k", "pareto_threshold")),
            )
            for name, term in terms.items()
            if "draws" in term
        ],
    )
