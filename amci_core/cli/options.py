r"""Options that several commands share, and how their text is read."""

from __future__ import annotations

__all__ = ["Format", "FormatOption", "ProblemName", "SeedOption", "VariantOption", "load", "split"]

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

import amci_core as amci

if TYPE_CHECKING:
    from amci_core.flows import Proposals
    from amci_core.models import Problem


T = TypeVar("T")


class Format(StrEnum):
    """How a result is written to stdout."""

    table = "table"
    json = "json"


ProblemName = Annotated[
    str, typer.Argument(metavar="PROBLEM", help="A name that `amci problems` lists.")
]
VariantOption = Annotated[
    str, typer.Option(help="Which proposals: spline, paper or oracle (the exact ones).")
]
SeedOption = Annotated[int, typer.Option(help="Whole number >= 0; the same seed, same numbers.")]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print the result.")]


def load(
    problem: str, variant: str | None, folder: Path | None = None
) -> tuple[Problem, Proposals]:
    """The problem and its proposals of that variant, or those in a folder.

    Also tells PyTorch to use one thread: the networks are too small to gain from more.

    Raises:
        ValueError: there is no such problem or variant.
    """
    import torch

    torch.set_num_threads(1)
    return amci.problem(problem), amci.load_proposals(problem, variant=variant, folder=folder)


def split(name: str, text: str, kind: Callable[[str], T]) -> list[T]:
    """What a text with commas lists.

    Raises:
        ValueError: an entry is not of that kind.
    """
    try:
        return [kind(entry.strip()) for entry in text.split(",")]
    except ValueError:
        expected = "whole numbers" if kind is int else "numbers"
        raise ValueError(f"{name}: expected {expected} with commas, got {text!r}") from None
