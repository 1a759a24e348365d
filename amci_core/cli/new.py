r"""`amci new`: a file with a problem to start from. `amci check`: whether a file's is right."""

from __future__ import annotations

__all__ = ["check", "new"]

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import amci_core as amci
from amci_core.cli import terminal

FOUND = 1

TEMPLATE = '''\
r"""How likely is it that x exceeds theta, given y = x + noise? Change what is below."""

from torch.distributions import Normal, Uniform

import amci_core as amci

PROBLEM = amci.model(
    name="{name}",
    prior=Normal(0.0, 1.0),  # of x; a list of independent ones if there are several
    likelihood=lambda x: Normal(x, 0.5),  # of y, given x; None if nothing is observed
    f=lambda x, theta: x > theta,
    theta=Uniform(0.0, 4.0),  # which theta will be asked for; None if f has none
)
'''


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE.py", help="The file to write.")],
) -> None:
    """Write a problem file to start from, with comments; it runs as it is."""
    if file.suffix != ".py":
        raise ValueError(f"FILE: expected a name that ends with .py, got {str(file)!r}")
    words = re.findall(r"[a-z0-9]+", file.stem.lower())
    if not words:
        raise ValueError(f"FILE: expected a name with a letter or digit, got {file.name!r}")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(TEMPLATE.format(name="-".join(words)))
    except FileExistsError:
        raise ValueError(f"FILE: {file} exists already. Choose another name") from None
    except OSError as error:
        raise ValueError(f"FILE: {file} cannot be written ({error.strerror})") from None
    typer.echo(f"{file} defines PROBLEM. Change it, then: amci check {file}")


def check(
    problem: Annotated[
        str, typer.Argument(metavar="FILE.py:NAME", help="A problem's file, or its name.")
    ],
    form: terminal.FormatOption = terminal.Format.table,
) -> None:
    """Look for mistakes in a problem; exit code 1 where there are errors."""
    import torch

    torch.set_num_threads(1)
    found = amci.check(terminal.load_one(problem))
    if form is terminal.Format.json:
        terminal.print_json(asdict(found))
    else:
        typer.echo(str(found))
    if found.errors:
        raise typer.Exit(FOUND)
