r"""The paper's figures, and others, from the shipped weights: what `amci figure` makes."""

from __future__ import annotations

__all__ = ["FIGURES", "make_figures"]

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amci_core.tasks import Where

# A figure is a function of that name in a module here: data in, a matplotlib figure out.
FIGURES = {
    "fig1": "paper",
    "fig2": "paper",
    "fig3": "paper",
    "appendix_q1": "paper",
    "appendix_cases": "paper",
    "mismatch": "beyond",
    "dimension": "beyond",
    "training": "beyond",
}
ALL = "all"


def make_figures(
    names: Sequence[str],
    out: Path,
    *,
    quick: bool = False,
    where: Where | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Iterator[tuple[str, list[Path]]]:
    """Makes figures one after another, as PDF and PNG, with their data as Parquet in `data`.

    Data that are there already are not computed again. The same data serve several figures.

    Arguments:
        names: Names out of `FIGURES`, or all.
        out: Folder.
        quick: A try with few cases and runs, in minutes; its files are called NAME-quick.
        where: Where cases are done; by default in this process.
        progress: Called with the name of a study, its cases done and all of them.

    Yields:
        The name of a figure and its files.

    Raises:
        ValueError: there is no such figure, or the folder holds data of others.
        RuntimeError: a case failed.
    """
    # Files have hyphens where functions cannot.
    wanted = list(FIGURES) if list(names) == [ALL] else [n.replace("-", "_") for n in names]
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown or not wanted:
        raise ValueError(
            f"figure: expected {ALL} or one of {', '.join(FIGURES)}, got {', '.join(unknown)}"
        )
    return _made(wanted, Path(out), quick, where, progress)


def _made(
    wanted: list[str],
    out: Path,
    quick: bool,
    where: Where | None,
    progress: Callable[[str, int, int], None] | None,
) -> Iterator[tuple[str, list[Path]]]:
    from importlib import import_module

    from amci_core.figures.drawing import save
    from amci_core.figures.studies import Studies

    studies = Studies(out / "data", quick=quick, where=where, progress=progress)
    for name in wanted:
        draw = getattr(import_module(f"amci_core.figures.{FIGURES[name]}"), name)
        file = name.replace("_", "-") + ("-quick" if quick else "")
        yield name, save(draw(studies), out, file)
