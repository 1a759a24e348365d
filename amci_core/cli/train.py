r"""`amci train`: learn the proposals of a problem."""

from __future__ import annotations

__all__ = ["INTERRUPTED", "train"]

import re
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
            help="Time of one core, such as 90s, 10m or 1h. With a recipe it is counted at its "
            "nominal speed and fixes the number of steps, so that the same seed gives the same "
            "weights; default: the recipe's own. For FILE.py:Class it is the time; default: 5m."
        ),
    ] = None,
    seed: terminal.SeedOption = 0,
    device: terminal.DeviceOption = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint in the folder.")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Threads of PyTorch.")] = 1,
) -> None:
    """Train the proposals of a problem; Ctrl-C keeps the best so far, --resume goes on.

    For FILE.py:Class everything is automatic, see `amci_core.learn`: the problem is checked,
    particles show where f lies, and the proposals are checked in the end.
    """
    import torch

    import amci_core as amci
    from amci_core import training
    from amci_core.models.loading import is_file_name
    from amci_core.training.display import Display

    torch.set_num_threads(threads)
    minutes = None if budget is None else _minutes(budget)
    own = is_file_name(problem)
    for option, value in {"variant": variant, "recipe": recipe, "source": source}.items():
        if own and value is not None:
            raise ValueError(f"{option}: is for shipped problems, got {value} for {problem}")
    if own and device not in {"auto", "cpu"}:
        raise ValueError(f"device: expected cpu for a problem from a file, got {device!r}")
    try:
        with Display(shown=True) as display:
            if own:
                for progress, _ in training.stream_learning(
                    amci.load_problem(problem),
                    minutes=minutes,
                    seed=seed,
                    folder=out,
                    resume=resume,
                    say=display.say,
                ):
                    display(progress)
            else:
                training.train(
                    problem,
                    variant=variant,
                    recipe_file=recipe,
                    source=source,
                    minutes=minutes,
                    seed=seed,
                    out=out,
                    device=device,
                    resume=resume,
                    on_progress=display,
                )
    except (KeyboardInterrupt, training.TrainingDiverged) as error:
        stopped = isinstance(error, KeyboardInterrupt)
        said = f"interrupted; the best so far is in {out}, go on with --resume"
        typer.echo(f"amci: {said if stopped else f'{error}, in {out}'}", err=True)
        raise typer.Exit(INTERRUPTED if stopped else FAILED) from None
    typer.echo(f"trained: {out}")


def _minutes(budget: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget.strip())
    minutes = float(match[1]) * {"s": 1 / 60, "m": 1, "h": 60}[match[2]] if match else 0.0
    if not 1 / 60 <= minutes <= 24 * 60:
        raise ValueError(f"budget: expected 1s to 24h, such as 90s, 10m or 1.5h, got {budget!r}")
    return minutes
