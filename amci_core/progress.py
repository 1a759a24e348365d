r"""Progress bars, in a terminal or a notebook, with the time left."""

from __future__ import annotations

__all__ = ["Bars"]

import sys
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)


class Bars:
    """Bars on stderr, and messages above them.

    Arguments:
        shown: Whether anything is shown; None: only if stderr is a terminal, or in a notebook.

    Example:
        >>> with Bars(shown=False) as bars:
        ...     bars.update("cases", 3, 10)
    """

    def __init__(self, shown: bool | None = None) -> None:
        console = Console(stderr=True)
        if shown is None:
            shown = console.is_jupyter or sys.stderr.isatty()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
        )
        self._bars = Progress(*columns, console=console, disable=not shown)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def say(self, message: str) -> None:
        """Prints a line above the bars."""
        if not self._bars.disable:
            self._bars.console.print(message, markup=False, highlight=False, soft_wrap=True)

    def update(self, name: str, done: int, total: int, figures: str = "") -> None:
        """Sets the bar of that name, which is added if it is new."""
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, figures="")
        self._bars.update(self._tasks[name], completed=done, total=total, figures=figures)
