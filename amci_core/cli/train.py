r"""`amci train`: learn the proposals of a problem."""

from __future__ import annotations

__all__ = ["INTERRUPTED", "train"]

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amci_core.cli import terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from amci_core.training import Progress

FAILED = 1
INTERRUPTED = 130


def train(
    problem: terminal.ProblemName,
    out: Annotated[Path, typer.Option(help="Folder to write; new, unless --resume.")],
    variant: Annotated[
        str | None,
        typer.Option(
            help="Which recipe: spline (default), paper, or a folder's name of your own."
        ),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(help="A recipe.json, or the folder that holds it, instead of those shipped."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Where the paper's objective takes theta and x from: importance (default) or "
            "mcmc. Only for variants that are trained on it."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Time of one core at the recipe's nominal speed, such as 90s, 10m or 1h; it "
            "fixes the number of steps, so that the same seed gives the same weights. "
            "Default: the recipe's own."
        ),
    ] = None,
    seed: terminal.SeedOption = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, or another device of PyTorch.")] = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint in the folder.")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Threads of PyTorch.")] = 1,
) -> None:
    """Train the proposals of a problem; Ctrl-C keeps the best so far, --resume goes on."""
    import torch
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from amci_core import training

    torch.set_num_threads(threads)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    display = _Display(Bar(*columns, console=Console(stderr=True)))
    try:
        training.train(
            problem,
            variant=variant,
            recipe_file=recipe,
            source=source,
            minutes=None if budget is None else training.parse_budget(budget),
            seed=seed,
            out=out,
            device=device,
            resume=resume,
            on_progress=display,
        )
    except (KeyboardInterrupt, training.TrainingDiverged) as error:
        display.close()
        stopped = isinstance(error, KeyboardInterrupt)
        said = f"interrupted; the best so far is in {out}, go on with --resume"
        typer.echo(f"amci: {said if stopped else f'{error}, in {out}'}", err=True)
        raise typer.Exit(INTERRUPTED if stopped else FAILED) from None
    finally:
        display.close()
    typer.echo(f"trained: {out}")


class _Display:
    """Shows the progress of each proposal in a bar of its own, from the first report on."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def close(self) -> None:
        """Leaves the bars as they are; what is printed next stands below them."""
        if self._bar.live.is_started:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        if not self._tasks:
            self._bar.start()
        if progress.proposal not in self._tasks:
            self._tasks[progress.proposal] = self._bar.add_task(
                progress.proposal, total=progress.steps, figures=""
            )
        quality = progress.quality
        figures = (
            f"loss {terminal.number(progress.loss, 3)}  "
            f"validation {terminal.number(quality.divergence, 3)} nats  "
            f"relative variance {terminal.number(quality.relative_variance, 3)}"
        )
        task = self._tasks[progress.proposal]
        self._bar.update(task, completed=progress.step, figures=figures)
