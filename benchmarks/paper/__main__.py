r"""Makes the paper's figures, and three that it does not have, from the shipped weights.

    python -m benchmarks.paper fig1 --quick
    python -m benchmarks.paper all --workers 2     # or: make figures

Every figure is written as SVG and PDF, its data as Parquet in `data/`, with the command, versions,
seeds and hashes of weights that they came from. Data that are there are not computed again: the
same command after a kill goes on where it stopped. `python -m benchmarks.paper.claims FOLDER`
then writes docs/results/figures.md, which compares what the paper says with these data.
"""

from __future__ import annotations

__all__ = ["FIGURES", "main"]

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks.paper import beyond, figures
from benchmarks.paper.drawing import save
from benchmarks.paper.studies import Studies

FIGURES = {
    "fig1": figures.fig1,
    "fig2": figures.fig2,
    "fig3": figures.fig3,
    "appendix-q1": figures.appendix_q1,
    "appendix-cases": figures.appendix_cases,
    "mismatch": beyond.mismatch,
    "dimension": beyond.dimension,
    "training": beyond.training,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Arguments:
        arguments: What follows the command's name; by default what the process was called with.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="+", choices=[*FIGURES, "all"], metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("runs/figures"))
    parser.add_argument("--quick", action="store_true", help="a try in minutes, with few cases")
    parser.add_argument("--workers", type=int, help="processes that do the work")
    parser.add_argument("--dask", metavar="ADDRESS", help="a running Dask scheduler instead")
    options = parser.parse_args(arguments)
    made = [*(options.out / "data").glob("*.parquet")]
    if options.out.exists() and not made and any(options.out.iterdir()):
        parser.error(f"--out: {options.out} holds other files; name a new folder")
    names = list(FIGURES) if "all" in options.names else options.names
    with Progress(console=Console(stderr=True)) as bars:
        tasks = {}

        def show(study: str, done: int, cases: int) -> None:
            if study not in tasks:
                tasks[study] = bars.add_task(study, total=cases)
            bars.update(tasks[study], completed=done)

        studies = Studies(
            options.out / "data",
            quick=options.quick,
            workers=options.workers,
            dask=options.dask,
            progress=show,
        )
        for name in names:
            file = f"{name}-quick" if options.quick else name
            paths = save(FIGURES[name](studies), options.out, file)
            print(f"written: {', '.join(str(path) for path in paths)}")


if __name__ == "__main__":
    sys.exit(main())
