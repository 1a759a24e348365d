r"""The command `amci`: one file for each command that computes, and the list of problems.

A command imports what it needs when it runs, so that `amci --help` answers at once.
"""

from __future__ import annotations

__all__ = ["app", "main"]

import re
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

import amci_core as amci
from amci_core.cli import terminal
from amci_core.cli.diagnose import diagnose
from amci_core.cli.estimate import estimate
from amci_core.cli.evaluate import evaluate
from amci_core.cli.new import check, new
from amci_core.cli.train import INTERRUPTED, train

if TYPE_CHECKING:
    from amci_core.models import Variable

BAD_INPUT = 2

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


def problems(form: terminal.FormatOption = terminal.Format.table) -> None:
    """List the problems, with the ranges of y and theta."""
    listed = [amci.problem(name) for name in amci.problems()]
    if form is terminal.Format.json:
        terminal.print_json(
            {
                p.name: {
                    "title": p.title,
                    "description": p.description,
                    "y": _variable(p.y),
                    "theta": _variable(p.theta),
                }
                for p in listed
            }
        )
    else:
        rows = [(p.name, p.title, _range(p.y), _range(p.theta)) for p in listed]
        terminal.print_table("Problems", ("name", "title", "y", "theta"), rows)


def _variable(variable: Variable | None) -> dict[str, Any] | None:
    if variable is None:
        return None
    fields = ("low", "high", "unit", "meaning")
    return {"dimensions": variable.dim, **{name: getattr(variable, name) for name in fields}}


def _range(variable: Variable | None) -> str:
    if variable is None:
        return "-"
    low, high = map(terminal.number, variable.ends[:, 0].tolist())
    power = f"^{variable.dim}" if variable.dim > 1 else ""
    return f"[{low}, {high}]{power} {variable.unit}".rstrip()


for _command in (problems, estimate, diagnose, evaluate, train, new, check):
    app.command()(_command)


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
    except TyperException as error:
        _refuse(_as_ours(error))
    except (ValueError, OSError) as error:
        _refuse(_with_option(str(error), sys.argv[1:] if arguments is None else arguments))
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        typer.echo("amci: interrupted", err=True)
    sys.exit(code or 0)


def _as_ours(error: TyperException) -> str:
    """What typer says of an option, whose numbers pydantic reads, as other messages do."""
    said = error.format_message()
    read = re.search(r"'(-\S+)': Input should be ([^,]*)", said)
    if read is None:
        return said
    option, expected = read[1], read[2].replace("valid integer", "whole number")
    cause: Any = error.__context__
    return f"{option}: expected {expected}, got {cause.errors()[0]['input']!r}"


def _with_option(message: str, arguments: Sequence[str]) -> str:
    """The message about an argument, with the command's option for it: --y instead of y."""
    command = typer.main.get_command(app).commands[arguments[0]]  # type: ignore[attr-defined]
    options = {p.name: p.opts[0] for p in command.params if p.param_type_name == "option"}
    name, colon, rest = message.partition(":")
    # f can be that of the problem's file.
    return message if name == "f" else f"{options.get(name, name)}{colon}{rest}"


def _refuse(message: str) -> NoReturn:
    typer.echo(f"amci: {' '.join(message.split())}", err=True)
    sys.exit(BAD_INPUT)
