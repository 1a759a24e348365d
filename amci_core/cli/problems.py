r"""`amci problems` lists problems, `amci new` begins a file with one, `amci check` checks one."""

from __future__ import annotations

__all__ = ["TEMPLATE", "check", "new", "problems"]

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import amci_core as amci
from amci_core.cli import terminal

if TYPE_CHECKING:
    from amci_core.models import Variable

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


def problems() -> None:
    """List the problems, with the ranges of y and theta."""
    for name in amci.problems():
        problem = amci.problem(name)
        typer.echo(f"{name}: {problem.title}")
        typer.echo(f"  y: {_range(problem.y)}; theta: {_range(problem.theta)}")


def _range(variable: Variable | None) -> str:
    if variable is None:
        return "none"
    return f"[{variable.low}, {variable.high}]^{variable.dim} {variable.unit}".rstrip()


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE.py")],
) -> None:
    """Write a problem file to start from, with comments; it runs as it is.

    Arguments:
        file: The file to write.
    """
    words = re.findall(r"[a-z0-9]+", file.stem.lower())
    if file.suffix != ".py" or not words:
        raise ValueError(f"FILE: expected a name such as my_problem.py, got {str(file)!r}")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(TEMPLATE.format(name="-".join(words)))
    except FileExistsError:
        raise ValueError(f"FILE: {file} exists already. Choose another name") from None
    typer.echo(f"{file} defines PROBLEM: x, y, theta of a number each. Next: amci check {file}")


def check(
    problem: Annotated[str, typer.Argument(metavar="FILE.py:NAME")],
) -> None:
    """Look for mistakes in a problem; exit code 1 where there are errors.

    Arguments:
        problem: A problem's file, or its name.
    """
    checked = amci.check(terminal.problem_named(problem))
    typer.echo(checked)
    if checked.errors:
        raise typer.Exit(code=1)
