r"""`amci train`: learn the proposals of a problem."""

from __future__ import annotations

__all__ = ["INTERRUPTED", "train"]

from pathlib import Path
from typing import Annotated

import typer

from amci_core.cli import terminal

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

    from amci_core import training
    from amci_core.training.display import Display

    torch.set_num_threads(threads)
    display = Display(shown=True)
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
