r"""`amci train`: learn the proposals of a problem."""

from __future__ import annotations

__all__ = ["INTERRUPTED", "train"]

import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import amci_core as amci
from amci_core.cli import terminal
from amci_core.io import plain

if TYPE_CHECKING:
    from amci_core.flows import Proposals
    from amci_core.training import Choices, Progress

FAILED = 1
INTERRUPTED = 130
# The variant that everything is automatic for, see `amci_core.learn`.
AUTOMATIC = "learnt"
# An attached training comes after other programs.
NICE = 10
SECONDS_BETWEEN_SAVES = 1.0


def train(
    problem: terminal.ProblemName,
    folder: Annotated[Path, typer.Option("--out")],
    variant: str | None = None,
    recipe: Path | None = None,
    source: str | None = None,
    minutes: float | None = None,
    f: str | None = None,
    family: str | None = None,
    bins: int | None = None,
    width: int | None = None,
    seed: terminal.SeedOption = 0,
    resume: bool = False,
    progress: Literal["bars", "json"] = "bars",
    attached: bool = False,
) -> None:
    """Train the proposals of a problem; Ctrl-C or SIGTERM keeps the best so far, --resume goes on.

    For FILE.py:NAME, another f, or the variant learnt everything is automatic, see
    `amci_core.learn`: the problem is checked, particles show where f lies, and the proposals are
    checked in the end.

    Arguments:
        folder: Folder to write; new or empty, unless --resume.
        variant: Which recipe: spline (default), paper, or a folder's name of your own; learnt for
            none, with everything automatic.
        recipe: A recipe.json, or the folder that holds it, instead of those shipped.
        source: Where the paper's objective takes theta and x from: importance (default) or mcmc.
            Only for variants that are trained on it.
        minutes: Minutes of one core. With a recipe they are counted at its nominal speed and fix
            the number of steps, so that the same seed gives the same weights; default: the
            recipe's own. Without one they are the time; default: 5.
        f: Another f, such as "x1 > 2 * theta"; everything is automatic then.
        family: Form of the proposals, instead of the automatic choice.
        bins: Bins of each spline, 4 to 128.
        width: Units of each layer of the networks, 4 to 1024.
        resume: Go on with the training in the folder.
        progress: json: a line on stdout for each report, for each message, and after the best so
            far was saved, about once a second.
        attached: For a program that runs this one: end when stdin does, let other programs go
            first, and count the time of computing alone.
    """
    from amci_core.training import TrainingDiverged

    if attached:
        _attach()
    chosen = terminal.problem_named(problem)
    if f is not None:
        chosen = amci.with_target(chosen, f)
    choices = _choices(problem if f is None else chosen.name, variant, recipe)
    changes: dict[str, Any] = {"family": family, "bins": bins, "width": width}
    changes["settings"] = None if source is None else {"source": source}
    changes = {name: value for name, value in changes.items() if value is not None}
    choices = replace(choices, **changes)
    watch: dict[str, Any] = {"progress": True}
    if progress == "json":
        watch = _lines(folder, choices.minutes if minutes is None else minutes)
    options: dict[str, Any] = {"seed": seed, "folder": folder, "resume": resume}
    try:
        trained = amci.learn(chosen, minutes=minutes, choices=choices, **options, **watch)
    except TrainingDiverged as error:
        typer.echo(f"amci: {error}, in {folder}", err=True)
        raise typer.Exit(FAILED) from None
    if trained.verdict is None:
        raise SystemExit(INTERRUPTED)  # learn has said so, and main would again
    if progress == "bars":
        typer.echo(f"trained: {folder}")


def _choices(problem: str, variant: str | None, recipe: Path | None) -> Choices:
    """The choices of a recipe, or automatic ones."""
    from amci_core.proposals import DEFAULT_VARIANT
    from amci_core.training import choices

    if recipe is not None:
        return choices.read_recipe(recipe, variant)
    if variant == AUTOMATIC or (variant is None and problem not in amci.problems()):
        return choices.Choices()
    return choices.recipe(problem, variant or DEFAULT_VARIANT)


def _lines(folder: Path, minutes: float) -> dict[str, Any]:
    """Arguments of `learn` that print JSON, a line each, and save the best so far every second."""
    from amci_core.flows.storage import save_trained
    from amci_core.training import clock

    def write(**line: Any) -> None:
        print(json.dumps(plain(line)), flush=True)

    began, save_at = clock.now(), time.monotonic()

    def report(progress: Progress, best: Proposals) -> None:
        nonlocal save_at
        spent = clock.now() - began
        write(
            **{name: getattr(progress, name) for name in ("proposal", "stage", "step", "loss")},
            relative_variance=progress.quality.relative_variance,
            best=progress.best,
            seconds=spent,
            left=max(60 * minutes - spent, 0.0),
        )
        if time.monotonic() > save_at:
            save_trained(folder, best)
            save_at = time.monotonic() + SECONDS_BETWEEN_SAVES
            write(saved=str(folder))

    return {"on_progress": report, "say": lambda message: write(message=message)}


def _attach() -> None:
    """Lets other programs go first, and ends when stdin ends; time is that of computing."""
    from amci_core.training import clock

    with suppress(AttributeError, OSError):  # there is no such thing on Windows
        os.nice(NICE)
    clock.now = time.process_time

    def end() -> None:
        # Not by sys.stdin: Python aborts where a thread reads that while it shuts down.
        while os.read(0, 1024):
            pass
        os._exit(INTERRUPTED)

    threading.Thread(target=end, daemon=True).start()
