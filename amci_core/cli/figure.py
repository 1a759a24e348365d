r"""`amci figure`: the paper's figures, and others, from the shipped weights."""

from __future__ import annotations

__all__ = ["figure"]

from pathlib import Path
from typing import Annotated

import typer

from amci_core.cli import terminal
from amci_core.figures import ALL, FIGURES, make_figures

FAILED = 1


def figure(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help=f"Figures: {', '.join(FIGURES)}; or {ALL}."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for PDF, PNG, and data/*.parquet.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A try in minutes, with few cases and runs.")
    ] = False,
    workers: terminal.WorkersOption = None,
    dask: terminal.DaskOption = None,
) -> None:
    """Draw the paper's figures, and some that it does not have; what is computed is kept.

    The same command after a kill goes on where it stopped.
    """
    from amci_core.tasks import Where

    # Names are checked before anything is loaded.
    where = Where(workers, dask)
    try:
        with terminal.studies() as progress:
            made = make_figures(names, out, quick=quick, where=where, progress=progress)
            for _, files in made:
                typer.echo(f"written: {', '.join(str(file) for file in files)}")
    except RuntimeError as error:
        typer.echo(f"amci: {error}", err=True)
        raise typer.Exit(FAILED) from None
