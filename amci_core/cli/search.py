r"""`amci search`: many trainings at once, over a grid of settings."""

from __future__ import annotations

__all__ = ["search"]

from pathlib import Path
from typing import Annotated

import typer

from amci_core.cli import terminal

FAILED = 1


def search(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.toml",
            help="The table base: problem, variant, minutes, seed, device. The table grid: lists "
            "of values for these, and for places in the recipe such as "
            '"terms.q1_plus.learning_rate".',
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder; each training gets one of its own in it.")],
    workers: terminal.WorkersOption = None,
    dask: terminal.DaskOption = None,
    form: terminal.FormatOption = terminal.Format.table,
) -> None:
    """Train every combination of problems, seeds and settings, and list the best first.

    The same command after a kill trains what is missing.
    """
    from dataclasses import asdict

    import torch

    from amci_core.tasks import Where
    from amci_core.training.grid import read_grid
    from amci_core.training.search import search as run

    torch.set_num_threads(1)
    grid = read_grid(file)
    with terminal.progress("trainings") as bar:
        found = run(grid, out, where=Where(workers, dask), progress=bar)
    if form is terminal.Format.json:
        terminal.print_json({"trainings": [asdict(tried) for tried in found]})
    else:
        varied = [name for name in grid[0] if len({str(of[name]) for of in grid}) > 1]
        rows = [
            (
                tried.folder,
                *(str(tried.settings[name]) for name in varied),
                terminal.number(float("nan") if tried.remse is None else tried.remse, 3),
                terminal.number(tried.relative_variance.get("q1_plus") or float("nan"), 3),
                terminal.number(tried.seconds, 3),
            )
            for tried in found
        ]
        measured = ("ReMSE of AMCI, most draws", "relative variance of q1", "seconds")
        header = ("folder", *varied, *measured)
        terminal.print_table("Trainings, the best first", header, rows)
    failed = [tried for tried in found if tried.failure]
    for tried in failed:
        typer.echo(f"amci: {tried.folder} failed: {tried.failure}", err=True)
    if failed:
        raise typer.Exit(FAILED)
