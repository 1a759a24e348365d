r"""The command `amci`: one file a command.

A command imports what it needs when it runs, so that `amci --help` answers at once.
"""

from __future__ import annotations

__all__ = ["app", "main"]

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from amci_core import __version__
from amci_core.cli.estimate import estimate
from amci_core.cli.evaluate import evaluate
from amci_core.cli.problems import problems
from amci_core.cli.train import train

# What typer raises for a wrong command line; it exports only this subclass of it in all versions.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

BAD_INPUT = 2
INTERRUPTED = 130

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback(invoke_without_command=True)
def _amci(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Amortized Monte Carlo integration: expectations of f(x; theta) under p(x | y)."""
    if version:
        typer.echo(__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _command in (problems, estimate, evaluate, train):
    app.command()(_command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line; exit code 0, or 2 and one line on stderr for bad input.

    Arguments:
        arguments: What follows the command's name; by default what the process was called with.
    """
    try:
        code = app(arguments, prog_name="amci", standalone_mode=False)
    except UsageError as error:
        _refuse(error.format_message())  # type: ignore[attr-defined]
    except (ValueError, FileNotFoundError) as error:
        _refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        typer.echo("amci: interrupted", err=True)
    sys.exit(code or 0)


def _refuse(message: str) -> NoReturn:
    typer.echo(f"amci: {' '.join(message.split())}", err=True)
    sys.exit(BAD_INPUT)
