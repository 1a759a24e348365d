r"""The command `amci`: the commands by what they are about, and how a command ends.

A command imports what it needs when it runs, so that `amci --help` answers at once.
"""

from __future__ import annotations

__all__ = ["app", "main"]

import re
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

import amci_core as amci
from amci_core.cli import terminal
from amci_core.cli.estimate import diagnose, estimate
from amci_core.cli.evaluate import evaluate
from amci_core.cli.problems import check, new, problems
from amci_core.cli.train import INTERRUPTED, train

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback(invoke_without_command=True)
def _amci(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Amortized Monte Carlo integration: expectations of f(x; theta) under p(x | y)."""
    if version:
        typer.echo(amci.__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _command in (problems, estimate, diagnose, evaluate, train, new, check):
    app.command()(terminal.documented(_command))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line; exit code 0, 1 where a check found errors, or 2 and one
    line on stderr for bad input.

    Arguments:
        arguments: What follows the command's name; by default what the process was called with.
    """
    # As Ctrl-C, which a process that a script starts in the background ignores.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = app(arguments, prog_name="amci", standalone_mode=False)
    except (TyperException, ValueError, OSError) as error:
        message = error.format_message() if isinstance(error, TyperException) else str(error)
        message = re.sub(r"Input should be (a valid \w+).*", r"expected \1, such as 100", message)
        typer.echo(f"amci: {' '.join(message.split())}", err=True)
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        typer.echo("amci: interrupted", err=True)
    sys.exit(code or 0)
