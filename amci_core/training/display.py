r"""Progress bars of a training, in a terminal or a notebook, with the time left."""

from __future__ import annotations

__all__ = ["Display"]

import math
import sys
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from amci_core.training.trainer import Progress


class Display:
    """Shows each proposal's progress in a bar for each stage, from the first report on.

    Arguments:
        shown: Whether it shows anything; None: only if stderr is a terminal, or in a notebook.
    """

    def __init__(self, shown: bool | None = None) -> None:
        console = Console(stderr=True)
        if shown is None:
            shown = console.is_jupyter or sys.stderr.isatty()
        self._shown, self._tasks = shown, dict[str, TaskID]()
        figures = TextColumn("{task.fields[figures]}")
        description = TextColumn("{task.description}")
        self._bar = Bar(description, BarColumn(), figures, TimeRemainingColumn(), console=console)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def say(self, message: str) -> None:
        """Prints a line above the bars."""
        if self._shown:
            self._bar.console.print(message, markup=False, highlight=False)

    def __call__(self, report: Progress) -> None:
        """Takes a report to its bar."""
        if not self._shown:
            return
        if not self._tasks:
            self._bar.start()
        quality = report.quality
        loss = "-" if math.isnan(report.loss) else f"{report.loss:.3g}"
        figures = (
            f"loss {loss}  validation {quality.divergence:.3g} nats  "
            f"relative variance {quality.relative_variance:.3g}"
        )
        name = f"{report.proposal}, {report.stage}"
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, figures="")
        task = self._tasks[name]
        self._bar.update(task, completed=report.step, total=report.steps, figures=figures)
