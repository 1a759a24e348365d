r"""A whole training: every proposal of a variant, with checkpoints, film, log and card."""

from __future__ import annotations

__all__ = ["CHECKPOINT", "train"]

import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from amci_core._arguments import check_number, check_seed, seed_sequence
from amci_core.devices import device_named
from amci_core.evaluation import evaluate
from amci_core.files import (
    Kinds,
    StoredFileError,
    check_object,
    check_path,
    make_folder,
    plain,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)
from amci_core.models import Problem
from amci_core.models import problem as problem_named
from amci_core.proposals import load_proposals, write_proposals
from amci_core.training.film import candidates, chosen, is_news
from amci_core.training.progress import Progress
from amci_core.training.quality import report, write_card
from amci_core.training.recipes import DEFAULT_VARIANT, Recipe, read_recipe, recipe, with_source
from amci_core.training.trainer import REPORTS, Fit, run_in_turn

CHECKPOINT = "checkpoint"
# The check of trained proposals takes about this share of the time that they took.
CHECK_SHARE = 0.2
# The first checkpoint is written before the first step, the second one soon after.
SECOND_CHECKPOINT_SECONDS = 8.0
CHECKPOINT_SECONDS = 30.0
FILMED = "q1_plus"
# A report takes about as long as so many steps: with fewer between two of them a short budget
# would go into reports.
STEPS_OF_REPORT = 90
# Cases of the evaluation for the card with the recipe's own budget, and the fewest with less.
PAIRS, FEWEST_PAIRS = 100, 10
STATE: dict[str, Kinds] = {
    **dict.fromkeys(("plan", "files", "fits"), (dict,)),
    **dict.fromkeys(("log", "film"), (list,)),
}


def train(
    problem: str,
    *,
    variant: str | None = None,
    recipe_file: str | Path | None = None,
    source: str | None = None,
    minutes: float | None = None,
    seed: int = 0,
    out: str | Path,
    device: str = "auto",
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Trains the proposals of a variant and writes them, with log, film and card, to `out`.

    The same seed, budget and machine give the same weights, also when the training was broken off
    and resumed. On KeyboardInterrupt the best so far is written before the interrupt goes on.
    Checkpoints come before the first step and every 30 seconds; the last one stays if training
    ends early.

    Arguments:
        problem: Name of the problem.
        variant: Name of the variant; by default `spline`, or that of the folder of `recipe_file`.
        recipe_file: A `recipe.json`, or the folder that holds it; by default the one in
            `pretrained/<problem>/<variant>/`.
        source: Where the paper's objective takes theta and x from: `importance`, its default, or
            `mcmc`. For other objectives there is none to choose.
        minutes: Budget in minutes of one core at the recipe's nominal speed; by default the
            recipe's own.
        seed: Whole number >= 0.
        out: Folder to write; it must not hold another training.
        device: `auto`, `cpu` or another device of torch.
        resume: Whether to go on from the checkpoint in `out`.
        on_progress: Called some hundred times for each proposal.

    Returns:
        The folder.

    Raises:
        ValueError: an argument is out of range, `out` is not what `resume` says it is, or the
            recipe does not fit the problem.
        StoredFileError: a file cannot be read or written; the last checkpoint stays.
        TrainingDiverged: something was not finite; the best so far is written first.

    Warning:
        A budget far below the recipe's own gives proposals that serve for nothing but a try. They
        are then judged at fewer cases, 10 at least.

    Example:
        >>> train("tail-1d", variant="best", out="unused")
        Traceback (most recent call last):
        ValueError: variant: expected one of spline, paper, got 'best'
    """
    chosen = problem_named(problem)
    if recipe_file is None:
        variant = DEFAULT_VARIANT if variant is None else variant
        read = recipe(problem, variant)
    else:
        file = check_path("recipe_file", recipe_file)
        read = read_recipe(file)
        folder = file if file.is_dir() else file.parent
        variant = folder.resolve().name if variant is None else variant
    read = with_source(read, source)
    plan: dict[str, Any] = {
        "problem": problem,
        "variant": variant,
        "seed": check_seed(seed),
        "minutes": read.budget_minutes if minutes is None else check_number("minutes", minutes),
        "recipe": {name: asdict(term) for name, term in read.terms.items()},
    }
    session = _Session(chosen, read, plan, check_path("out", out), device_named(device))
    session.open(resume=resume)
    try:
        with _deferred_interrupt() as interrupted:
            session.run(on_progress, interrupted)
    except BaseException as error:
        if not isinstance(error, StoredFileError):  # nothing more can be written
            session.write(complete=False)
        raise
    session.write(complete=True)
    if chosen.knows_truth:
        proposals = load_proposals(problem, folder=session.out)
        pairs = round(PAIRS * plan["minutes"] / read.budget_minutes)
        pairs = min(PAIRS, max(pairs, FEWEST_PAIRS))
        (own_seed,) = seed_sequence(seed, "evaluation").generate_state(1)
        found = evaluate(chosen, proposals, pairs=pairs, seed=int(own_seed))
        write_card(session.out, found, seconds=60 * CHECK_SHARE * plan["minutes"])
    shutil.rmtree(session.out / CHECKPOINT, ignore_errors=True)
    return session.out


@contextmanager
def _deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether Ctrl-C was pressed; a second Ctrl-C interrupts at once.

    Only a program's main thread can catch it; elsewhere the function always says no.
    """
    pressed = threading.Event()

    def note(signum: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


class _Session:
    """The state of one call of `train`: a fit for every proposal, the log and the film so far."""

    def __init__(
        self, problem: Problem, read: Recipe, plan: dict[str, Any], out: Path, device: torch.device
    ) -> None:
        self.problem, self.recipe, self.plan, self.out = problem, read, plan, out
        steps = {name: read.steps(name, plan["minutes"]) for name in read.terms}
        self.fits = {
            name: Fit(
                problem,
                name,
                term,
                steps=steps[name],
                seed=plan["seed"],
                device=device,
                reports=min(REPORTS, max(steps[name] // STEPS_OF_REPORT, 2)),
            )
            for name, term in read.terms.items()
        }
        self.stops = {FILMED: candidates(steps[FILMED])}
        self.log: list[dict[str, Any]] = []
        self.film: list[dict[str, Any]] = []
        self._due = -math.inf  # when the next checkpoint is written, on the monotonic clock

    def open(self, *, resume: bool) -> None:
        checkpoint = self.out / CHECKPOINT / "state.json"
        if resume:
            if not checkpoint.is_file():
                raise ValueError(f"resume: there is no checkpoint in {self.out}")
            self._load(checkpoint)
            return
        if checkpoint.exists() or (self.out / "config.json").exists():
            raise ValueError(
                f"out: {self.out} already holds a training; resume it, or choose another folder"
            )
        make_folder("out", self.out)

    def run(
        self, on_progress: Callable[[Progress], None] | None, interrupted: Callable[[], bool]
    ) -> None:
        def before_step() -> None:
            if interrupted():
                raise KeyboardInterrupt
            if time.monotonic() >= self._due:
                self._save()

        for fit, progress in run_in_turn(self.fits, stops=self.stops, before_step=before_step):
            entry = progress.as_json()
            # A fit resumed at step 0 reports it again.
            if not self.log or self.log[-1]["step"] != entry["step"]:
                self.log.append(entry)
            if fit.name == FILMED:
                self._film(fit, progress)
            if on_progress is not None:
                on_progress(progress)

    def write(self, *, complete: bool) -> None:
        """Writes the best weights, the configuration and the log; a checkpoint if unfinished."""
        if not complete:
            self._save()
        best = {name: fit.best_proposal() for name, fit in self.fits.items()}
        configuration = {
            **self.plan,
            "complete": complete,
            "note": self.recipe.note,
            "steps": {name: fit.step for name, fit in self.fits.items()},
            "seconds": {name: round(fit.seconds, 1) for name, fit in self.fits.items()},
            "quality": report(self.problem, best),
            "versions": {name: version(name) for name in ("torch", "normflows")},
        }
        families = {
            name: {"family": term.family, "arguments": dict(term.arguments)}
            for name, term in self.recipe.terms.items()
        }
        film = chosen(self.film, self.recipe.film)
        write_proposals(
            self.out, best, configuration=configuration, families=families, snapshots=film
        )
        if complete:
            for file in {frame["file"] for frame in self.film} - {frame["file"] for frame in film}:
                (self.out / file).unlink(missing_ok=True)
        write_json(self.out / "training.json", self.log)

    def _film(self, fit: Fit, progress: Progress) -> None:
        """Keeps a frame of the film where there is something new to see, and the last one."""
        last, quality = progress.step == fit.steps, progress.quality
        # A fit resumed at a step reports it again.
        filmed = {frame["step"] for frame in self.film}
        if progress.step in filmed or not (last or is_news(self.film, quality.divergence)):
            return
        file = f"snapshots/{progress.step:06d}.safetensors"
        weights = fit.best if last else fit.proposal.state_dict()
        frame = {
            "file": file,
            "sha256": write_tensors(self.out / file, weights),
            "step": progress.step,
            "seconds": round(progress.seconds, 2),
            "relative_variance": progress.best if last else quality.relative_variance,
            "divergence": quality.divergence,
        }
        self.film.append(plain(frame))

    def _save(self) -> None:
        if not all(fit.resumable for fit in self.fits.values()):
            return
        folder = self.out / CHECKPOINT
        files, numbers = {}, {}
        for name, fit in self.fits.items():
            tensors, numbers[name] = fit.state()
            file = f"{name}-{fit.step}.safetensors"
            files[name] = {"file": file, "sha256": write_tensors(folder / file, tensors)}
        state = {"plan": self.plan, "files": files, "fits": numbers}
        write_json(folder / "state.json", state | {"log": self.log, "film": self.film})
        for old in {*folder.glob("*.safetensors")} - {folder / e["file"] for e in files.values()}:
            old.unlink()
        started = any(fit.step for fit in self.fits.values())
        self._due = time.monotonic() + (
            CHECKPOINT_SECONDS if started else SECOND_CHECKPOINT_SECONDS
        )

    def _load(self, checkpoint: Path) -> None:
        state = read_json(checkpoint)
        check_object(checkpoint, state, STATE)
        if state["plan"] != self.plan:
            there = f"resume: the training in {self.out} is {state['plan']}"
            raise ValueError(f"{there}, not {self.plan}")
        for i, entry in enumerate(state["log"] + state["film"]):
            check_object(checkpoint, entry, {"step": (int,)}, within=f"entry {i} of log and film")
        for name, fit in self.fits.items():
            try:
                entry, numbers = state["files"][name], state["fits"][name]
                file = checkpoint.parent / entry["file"]
                fit.load_state(read_tensors(file, expected_sha256=entry["sha256"]), numbers)
            except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
                if isinstance(error, StoredFileError):
                    raise
                reason = f"{name} does not fit this training ({error})"
                raise StoredFileError(f"{checkpoint}: {reason}") from None
        self.log, self.film = state["log"], state["film"]
