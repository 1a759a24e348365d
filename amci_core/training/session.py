r"""A whole training: every proposal of a variant, with checkpoints, a film, a log and an
evaluation."""

from __future__ import annotations

__all__ = ["CHECKPOINT", "parse_budget", "pick_device", "train"]

import math
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from amci_core.checks import check_seed
from amci_core.errors.evaluation import evaluate
from amci_core.errors.runs import usual_estimators
from amci_core.files import plain, read_json, read_tensors, write_json, write_tensors
from amci_core.models import problem as problem_named
from amci_core.proposals import load_proposals, write_proposals
from amci_core.training.fit import Fit, Progress
from amci_core.training.interrupt import deferred_interrupt
from amci_core.training.recipes import Recipe, recipe, with_source

CHECKPOINT = "checkpoint"
CHECKPOINT_SECONDS = 20.0
FILMED = "q1_plus"


def parse_budget(text: str) -> float:
    """A budget such as `90s`, `10m` or `1.5h`, in minutes.

    Raises:
        ValueError: it is not of that form, or not between one second and 24 hours.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    minutes = float(match[1]) * {"s": 1 / 60, "m": 1, "h": 60}[match[2]] if match else 0.0
    if not 1 / 60 <= minutes <= 24 * 60:
        raise ValueError(f"budget: expected 1s to 24h, such as 90s, 10m or 1.5h, got {text!r}")
    return minutes


def pick_device(name: str) -> torch.device:
    """The device of that name; `auto` takes an accelerator where there is one.

    Raises:
        ValueError: torch has no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(
            f"device: expected auto, cpu or a device of torch, got {name!r}"
        ) from None
    return device


def train(
    problem: str,
    *,
    variant: str = "spline",
    source: str | None = None,
    minutes: float | None = None,
    seed: int = 0,
    out: Path,
    device: str = "auto",
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Trains the proposals of a variant and writes them, with log, film and evaluation, to `out`.

    The same seed, budget and machine give the same weights, also when the training was broken off
    and resumed. On KeyboardInterrupt the best so far is written before the interrupt goes on, and
    the checkpoint stays.

    Arguments:
        problem: Name of the problem.
        variant: Name of a recipe of `amci_core.training.recipes`.
        source: Where the paper's objective takes theta and x from: `importance`, its default, or
            `mcmc`. For other objectives there is none to choose.
        minutes: Budget in minutes of one core at the recipe's nominal speed; by default the
            recipe's own.
        seed: Whole number >= 0.
        out: Folder to write; it must not hold another training.
        device: `auto`, `cpu` or another device of torch.
        resume: Whether to go on from the checkpoint in `out`.
        on_progress: Called some hundred times for each proposal.

    Raises:
        ValueError: an argument is out of range, or `out` is not what `resume` says it is.
        TrainingDiverged: a loss was not finite; the best so far is written first.
    """
    problem_named(problem)
    chosen = with_source(recipe(problem, variant), source)
    plan = {
        "problem": problem,
        "variant": variant,
        "seed": check_seed(seed),
        "minutes": chosen.budget_minutes if minutes is None else minutes,
        "recipe": {name: asdict(term) for name, term in chosen.terms.items()},
    }
    session = _Session(chosen, plan, out, pick_device(device))
    session.open(resume=resume)
    try:
        with deferred_interrupt() as interrupted:
            session.run(on_progress, interrupted)
    except BaseException:
        session.write(complete=False)
        raise
    session.write(complete=True)
    _evaluate(problem, out, seed=seed)
    shutil.rmtree(out / CHECKPOINT, ignore_errors=True)
    return out


class _Session:
    """The state of one call of `train`: a fit for every proposal, the log and the film so far."""

    def __init__(
        self, chosen: Recipe, plan: dict[str, Any], out: Path, device: torch.device
    ) -> None:
        self.recipe, self.plan, self.out = chosen, plan, out
        problem = problem_named(plan["problem"])
        self.fits = {
            name: Fit(
                problem,
                name,
                term,
                steps=chosen.steps(name, plan["minutes"]),
                seed=plan["seed"],
                device=device,
            )
            for name, term in chosen.terms.items()
        }
        self.log: list[dict[str, Any]] = []
        self.film: list[dict[str, Any]] = []
        self._saved = time.monotonic()

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
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"out: expected a folder, got {self.out} ({error.strerror})"
            ) from None

    def run(
        self, on_progress: Callable[[Progress], None] | None, interrupted: Callable[[], bool]
    ) -> None:
        done: dict[str, Fit] = {}
        for name, fit in self.fits.items():
            fit.adopt(done)
            done[name] = fit
            stops = self._film_steps(fit) if name == FILMED else ()
            for progress in fit.run(stops=stops, interrupted=interrupted):
                self.log.append(_log_entry(progress))
                if progress.step in stops:
                    self._film(fit, progress)
                if on_progress is not None:
                    on_progress(progress)
                if time.monotonic() - self._saved > CHECKPOINT_SECONDS:
                    self._save()

    def write(self, *, complete: bool) -> None:
        """Writes the best weights, the configuration and the log; a checkpoint if unfinished."""
        if not complete and all(fit.between_steps for fit in self.fits.values()):
            self._save()
        terms = self.recipe.terms
        write_proposals(
            self.out,
            {name: fit.best_proposal() for name, fit in self.fits.items()},
            configuration={
                **self.plan,
                "complete": complete,
                "note": self.recipe.note,
                "steps": {name: fit.step for name, fit in self.fits.items()},
                "seconds": {name: round(fit.seconds, 1) for name, fit in self.fits.items()},
                "quality": {name: fit.best_quality.as_json() for name, fit in self.fits.items()},
                "versions": {name: version(name) for name in ("torch", "normflows")},
            },
            families={
                name: {"family": term.family, "arguments": dict(term.arguments)}
                for name, term in terms.items()
            },
            snapshots=self.film,
        )
        write_json(self.out / "training.json", self.log)

    def _film_steps(self, fit: Fit) -> tuple[int, ...]:
        return tuple(sorted({round(fraction * fit.steps) for fraction in self.recipe.film}))

    def _film(self, fit: Fit, progress: Progress) -> None:
        if any(frame["step"] == progress.step for frame in self.film):
            return
        file = f"snapshots/{len(self.film):02d}.safetensors"
        last = progress.step == fit.steps
        weights = fit.best if last else fit.proposal.state_dict()
        variance = progress.best if last else progress.quality.relative_variance
        self.film.append(
            {
                "file": file,
                "sha256": write_tensors(self.out / file, weights),
                "step": progress.step,
                "seconds": round(progress.seconds, 2),
                "relative_variance": variance if math.isfinite(variance) else None,
            }
        )

    def _save(self) -> None:
        folder = self.out / CHECKPOINT
        digests, numbers = {}, {}
        for name, fit in self.fits.items():
            tensors, numbers[name] = fit.state()
            file = f"{name}-{fit.step}.safetensors"
            digests[name] = {"file": file, "sha256": write_tensors(folder / file, tensors)}
        state = {
            "plan": self.plan,
            "files": digests,
            "fits": numbers,
            "log": self.log,
            "film": self.film,
        }
        write_json(folder / "state.json", state)
        current = {entry["file"] for entry in digests.values()}
        for old in folder.glob("*.safetensors"):
            if old.name not in current:
                old.unlink()
        self._saved = time.monotonic()

    def _load(self, checkpoint: Path) -> None:
        state = read_json(checkpoint)
        if state["plan"] != self.plan:
            raise ValueError(
                f"resume: the training in {self.out} is {state['plan']}, not {self.plan}"
            )
        for name, fit in self.fits.items():
            entry = state["files"][name]
            tensors = read_tensors(
                checkpoint.parent / entry["file"], expected_sha256=entry["sha256"]
            )
            fit.load_state(tensors, state["fits"][name])
        self.log, self.film = state["log"], state["film"]


def _log_entry(progress: Progress) -> dict[str, Any]:
    return {
        "proposal": progress.proposal,
        "step": progress.step,
        "seconds": round(progress.seconds, 2),
        "loss": progress.loss if progress.step else None,
        **progress.quality.as_json(),
    }


def _evaluate(name: str, out: Path, *, seed: int) -> None:
    """Writes the errors of the estimators, where the problem knows its truth."""
    problem = problem_named(name)
    if not problem.knows_truth:
        return
    proposals = load_proposals(name, folder=out)
    names = usual_estimators(problem, proposals)
    if "snis-qm" in names:
        after = names.index("snis-q1") + 1
        names = (*names[:after], "snis-qm-stratified", *names[after:])
    result = evaluate(problem, proposals, estimators=names, seed=seed)
    write_json(out / "evaluation.json", plain(result.as_dict()))
