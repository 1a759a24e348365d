r"""`amci new`: a file with a problem to start from. `amci check`: whether a file's is right."""

from __future__ import annotations

__all__ = ["check", "new"]

import re
from dataclasses import asdict
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

import amci_core as amci
from amci_core.cli import terminal

FOUND = 1

TEMPLATE = '''\
r"""How likely is it that x exceeds theta, given y = x + noise? Change what is below."""

import math

import torch
from torch.distributions import Normal
from torch.distributions.constraints import greater_than

from amci_core.models import LineProblem, Variable  # in more dimensions: Problem


class {kind}(LineProblem):
    name = "{name}"
    nonnegative = True  # f >= 0 everywhere; False where f takes both signs
    x = Variable("x", 1, -math.inf, math.inf, "what is unknown")
    # y = None where nothing is observed; networks are scaled to the range that is shown.
    y = Variable("y", 1, -12.0, 12.0, "x seen with noise", typical_range=(-4.0, 4.0))
    theta = Variable("theta", 1, 0.0, 4.0, "the threshold")  # or None; by default uniform

    # Tensors of shape (*, 1): let x, y and theta broadcast, and return shape (*).
    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x).squeeze(-1)

    def log_likelihood(self, x, y):
        return Normal(x, 0.5).log_prob(y).squeeze(-1)

    def f(self, x, theta):
        return (x > theta).to(x.dtype).squeeze(-1)

    def support_plus(self, theta):  # leave it out where f > 0 everywhere
        return greater_than(theta)

    def sample_prior(self, n, generator):  # n draws of log_prior, shape (n, 1)
        return torch.randn(n, 1, generator=generator)

    def sample_likelihood(self, x, generator):  # one y for every x
        return x + 0.5 * torch.randn(x.shape, generator=generator)
'''


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE.py", help="The file to write.")],
) -> None:
    """Write a problem of one's own to start from, with comments; it runs as it is."""
    if file.suffix != ".py":
        raise ValueError(f"FILE: expected a name that ends with .py, got {str(file)!r}")
    words = re.findall(r"[a-z0-9]+", file.stem.lower())
    kind = "".join(word.capitalize() for word in words)
    if not words or not kind.isidentifier() or iskeyword(kind):
        raise ValueError(f"FILE: expected a name that begins with a letter, got {file.name!r}")
    try:
        with file.open("x") as opened:
            opened.write(TEMPLATE.format(kind=kind, name="-".join(words)))
    except FileExistsError:
        raise ValueError(f"FILE: {file} is there already, choose another name") from None
    except OSError as error:
        raise ValueError(f"FILE: {file} cannot be written ({error.strerror})") from None
    typer.echo(f"{file} has the problem {kind}. Change it, then: amci check {file}")


def check(
    problem: Annotated[
        str, typer.Argument(metavar="FILE.py:Class", help="A problem's file, or its name.")
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
