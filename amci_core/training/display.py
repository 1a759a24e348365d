r"""A bar for a training, in a terminal or a notebook, with what is done and the time left."""

from __future__ import annotations

__all__ = ["TIMED", "Display", "TimeLeft"]

import math
import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from amci_core.training.course import Plan
from amci_core.training.progress import Progress as Report

# The share that has to be done before the time left is shown: the first parts include what is
# started once, such as processes, and would make it many times too long.
TIMED = 0.05


class TimeLeft(TimeRemainingColumn):
    """The time left, once enough is done to tell."""

    def render(self, task: Task) -> Text:
        """The time as text; a dash for each digit before."""
        if task.percentage < 100 * TIMED:
            return Text("-:--:--", style="progress.remaining")
        return super().render(task)


class Display:
    """Shows the progress of each proposal in a bar of its own, from the first report on.

    Arguments:
        shown: Whether it shows anything; None where somebody looks: stderr is a terminal, or the
            code runs in a notebook.
    """

    def __init__(self, shown: bool | None = None) -> None:
        console = Console(stderr=True)
        if shown is None:
            shown = console.is_jupyter or sys.stderr.isatty()
        self._shown, self._tasks = shown, dict[str, TaskID]()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeLeft(),
            console=console,
        )

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the bars as they are; what is printed next stands below them."""
        if self._bar.live.is_started:
            self._bar.stop()

    def say(self, what: Plan | str) -> None:
        """Prints a line above the bars."""
        if self._shown:
            self._bar.console.print(str(what), markup=False, highlight=False)

    def __call__(self, report: Report) -> None:
        """Takes a report to its bar."""
        if not self._shown:
            return
        if not self._tasks:
            self._bar.start()
        quality = report.quality
        figures = (
            f"loss {_number(report.loss)}  validation {_number(quality.divergence)} nats  "
            f"relative variance {_number(quality.relative_variance)}"
        )
        about = f"{report.proposal}, {report.stage}" if report.stage else report.proposal
        if report.proposal not in self._tasks:
            self._tasks[report.proposal] = self._bar.add_task(about, figures="")
        self._bar.update(
            self._tasks[report.proposal],
            description=about,
            completed=report.step,
            total=report.steps,
            figures=figures,
        )


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"
