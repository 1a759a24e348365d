r"""What the commands share: options, how text is read, and how results are printed."""

from __future__ import annotations

__all__ = [
    "FolderOption",
    "FormatOption",
    "ProblemName",
    "SeedOption",
    "VariantOption",
    "documented",
    "numbers",
    "print_json",
    "problem_named",
]

import inspect
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import typer

import amci_core as amci
from amci_core.io import plain

if TYPE_CHECKING:
    from amci_core.models import Problem

Number = TypeVar("Number", int, float)

ProblemName = Annotated[
    str,
    typer.Argument(metavar="PROBLEM", help="A name that `amci problems` lists, or FILE.py:NAME."),
]
VariantOption = Annotated[
    str | None,
    typer.Option(
        help="Which proposals: spline (default), paper, oracle (exact) or defensive (untrained)."
    ),
]
FolderOption = Annotated[
    Path | None, typer.Option(help="A folder with proposals, instead of those shipped.")
]
SeedOption = Annotated[int, typer.Option(help="Whole number >= 0; the same seed, same numbers.")]
FormatOption = Annotated[
    Literal["table", "json"], typer.Option("--format", help="How to print the result.")
]


def documented(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose options have for help what its docstring says under `Arguments`.

    A parameter with a default is an option, another one an argument, if it is not annotated.
    """
    text, _, arguments = inspect.getdoc(command).partition("\n\nArguments:\n")  # type: ignore
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters
    for name, words in re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", arguments, re.MULTILINE):
        if not hasattr(hints[name], "__metadata__"):
            option: Any = typer.Option(f"--{name.replace('_', '-')}")
            required = parameters[name].default is inspect.Parameter.empty
            hints[name] = Annotated[hints[name], typer.Argument() if required else option]
        hints[name].__metadata__[0].help = " ".join(words.split())
    command.__doc__, command.__annotations__ = text, hints
    return command


def problem_named(name: str) -> Problem:
    """The problem of that name, or the one in a file, FILE.py:NAME.

    PyTorch has one thread from then on: the networks are too small to gain from more.

    Raises:
        ValueError: there is no such problem, file or class.
    """
    import torch

    from amci_core.models.loading import is_file_name

    torch.set_num_threads(1)
    return amci.load_problem(name) if is_file_name(name) else amci.problem(name)


def numbers(name: str, text: str, kind: Callable[[str], Number]) -> list[Number]:
    """The numbers that a text lists, with commas between them.

    Raises:
        ValueError: an entry is not of that kind.
    """
    try:
        return [kind(entry) for entry in text.split(",")]
    except ValueError:
        expected = "whole numbers such as 1000,10000" if kind is int else "numbers such as 1,2.5"
        raise ValueError(f"{name}: expected {expected}, got {text!r}") from None


def print_json(value: Mapping[str, Any]) -> None:
    """Prints a JSON object on stdout, which then holds only that."""
    typer.echo(json.dumps(plain(value), indent=2, allow_nan=False))
