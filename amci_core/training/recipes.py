r"""Recipes, and `train`: the proposals of a variant, by the `recipe.json` beside its weights.

A budget of time gives a number of steps by the recipe's nominal speed, measured on one core, and
never by a clock: the same seed and budget give the same weights however busy the machine is.
"""

from __future__ import annotations

__all__ = ["Recipe", "recipe", "train", "variants"]

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from amci_core._arguments import check_name, check_number, check_seed, seed_sequence
from amci_core.devices import device_named
from amci_core.evaluation import evaluate
from amci_core.flows.proposals import NAMES
from amci_core.flows.storage import write_proposals
from amci_core.io import (
    StoredFileError,
    check_path,
    plain,
    pretrained_root,
    read_json,
    write_json,
    write_tensors,
)
from amci_core.models import Problem
from amci_core.models import problem as problem_named
from amci_core.proposals import load_proposals
from amci_core.training.quality import report, write_card
from amci_core.training.trainer import (
    REPORTS,
    Checkpoint,
    Progress,
    TermRecipe,
    Trainer,
    in_turn,
)

FILE = "recipe.json"
DEFAULT_VARIANT = "spline"
# Frames of a training's history unless its recipe says otherwise.
FRAMES = 8
# The check of trained proposals takes about this share of the time that they took.
CHECK_SHARE = 0.2
FILMED = "q1_plus"
# Early steps at which the history may get a frame, as many as this up to that share of all steps;
# later on reports come as often.
EARLY_FRAMES, EARLY = 24, 0.01
# A frame is added when the divergence has fallen by this factor since the last one.
FALL = 1.5
# A report takes about as long as so many steps: with fewer between two of them a short budget
# would go into reports.
STEPS_OF_REPORT = 90
# Cases of the evaluation for the card with the recipe's own budget, and the fewest with less.
CASES, FEWEST_CASES = 100, 10


@dataclass(frozen=True)
class Recipe:
    """The proposals of a variant, in the order in which they are trained.

    Arguments:
        terms: Proposal name to its recipe.
        budget_minutes: Default budget, in minutes of one core.
        note: A sentence for the model card.
        film: Frames of the training history of q1_plus; at most.
    """

    terms: Mapping[str, TermRecipe]
    budget_minutes: float
    note: str
    film: int = FRAMES

    def steps(self, name: str, minutes: float) -> int:
        """Number of steps that a budget in minutes gives to a proposal."""
        term = self.terms[name]
        return max(1, round(minutes * term.share * term.steps_per_minute))


def variants(problem: str) -> tuple[str, ...]:
    """Names of the variants that can be trained for a problem, the default first.

    Returns:
        The names.

    Example:
        >>> variants("tail-1d")
        ('spline', 'paper')
    """
    found = {path.parent.name for path in (pretrained_root() / str(problem)).glob(f"*/{FILE}")}
    return tuple(sorted(found, key=lambda name: (name != DEFAULT_VARIANT, name)))


def recipe(problem: str, variant: str) -> Recipe:
    """The recipe of that variant, from `pretrained/<problem>/<variant>/recipe.json`.

    Returns:
        `Recipe`: by proposal the family, the objective and the share of the budget.

    Raises:
        ValueError: the problem has no such variant to train, or its recipe is not one.

    Example:
        >>> recipe("tail-1d", "paper").terms["q1_plus"].objective
        'paper'
    """
    known = variants(problem)
    if not known:
        raise ValueError(f"variant: {problem} has no recipes, got {variant!r}. Use learn")
    check_name("variant", variant, known)
    return read_recipe(pretrained_root() / problem / variant)


def read_recipe(path: Path) -> Recipe:
    """Reads a recipe; `path` is the file or the folder with its `recipe.json`.

    Raises:
        StoredFileError: the file cannot be read, or an entry is missing or unknown; the message
            names file and entry. What family and objective do not take `train` refuses.
    """
    path = path / FILE if path.is_dir() else path
    content = read_json(path)
    try:
        terms = {name: TermRecipe(**term) for name, term in content.pop("terms").items()}
        read = Recipe(terms, **content)
    except (AttributeError, KeyError, TypeError) as error:
        raise StoredFileError(f"{path}: not a recipe ({error})") from None
    if "q1_plus" not in terms or not terms.keys() <= {*NAMES}:
        raise StoredFileError(
            f"{path}: expected terms for q1_plus and others of {', '.join(NAMES)}, "
            f"got {', '.join(terms)}"
        )
    return read


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
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Path:
    """Trains the proposals of a variant and writes them, with log, history and card, to `out`.

    The same seed, budget and machine give the same weights, also when the training was broken off
    and resumed. On KeyboardInterrupt the best so far is written before the interrupt goes on. A
    checkpoint is saved before the first step and every 30 seconds; it stays if training ends
    early.

    Arguments:
        problem: Name of the problem.
        variant: Name of the variant; by default `spline`, or that of the folder of `recipe_file`.
        recipe_file: A `recipe.json`, or the folder that holds it; by default the one in
            `pretrained/<problem>/<variant>/`.
        source: Where the paper's objective takes theta and x from: `importance`, its default, or
            `mcmc`. Only for recipes on that objective.
        minutes: Budget in minutes of one core at the recipe's nominal speed; by default the
            recipe's own.
        seed: Whole number >= 0.
        out: Folder to write; it must not hold another training.
        device: `auto`, `cpu` or another device of torch; `auto` is a GPU only where a step has
            enough points to be faster there.
        resume: Whether to go on from the checkpoint in `out`.
        on_progress: Called some hundred times for each proposal.

    Returns:
        The folder.

    Raises:
        ValueError: an argument is out of range, `out` is not what `resume` says it is, or the
            recipe does not fit the problem.
        StoredFileError: a file cannot be read or written; the last checkpoint stays.
        TrainingDiverged: a loss, a gradient or a parameter was not finite; the best so far is
            written first.

    Warning:
        A budget far below the recipe's own gives proposals for a try only. They are then judged at
        fewer cases, 10 at least.

    Example:
        >>> train("tail-1d", variant="best", out="unused")
        Traceback (most recent call last):
        ValueError: variant: expected one of spline, paper, got 'best'
    """
    chosen = problem_named(problem)
    if recipe_file is None:
        variant = variant or DEFAULT_VARIANT
        read = recipe(problem, variant)
    else:
        file = check_path("recipe", recipe_file)
        read = read_recipe(file)
        variant = variant or (file if file.is_dir() else file.parent).resolve().name
    read = _with_source(read, source)
    minutes = check_number(
        "minutes",
        read.budget_minutes if minutes is None else minutes,
        "a number above 0, at most 1440",
        allowed=lambda m: 0 < m <= 1440,
    )
    plan: dict[str, Any] = {
        "problem": problem,
        "fingerprint": chosen.fingerprint,
        "variant": variant,
        "seed": check_seed(seed),
        "minutes": minutes,
        "recipe": {name: asdict(term) for name, term in read.terms.items()},
    }
    training = _Training(chosen, read, plan, check_path("out", out), device, resume)
    try:
        training.run(on_progress)
    except BaseException as error:
        if not isinstance(error, StoredFileError):  # nothing more can be written
            training.write(complete=False)
        raise
    training.write(complete=True)
    if chosen.knows_truth:
        proposals = load_proposals(problem, folder=training.out)
        cases = max(min(CASES, round(CASES * minutes / read.budget_minutes)), FEWEST_CASES)
        (own_seed,) = seed_sequence(seed, "evaluation").generate_state(1)
        found = evaluate(chosen, proposals, cases=cases, seed=int(own_seed))
        write_card(training.out, found, chosen, seconds=60 * CHECK_SHARE * minutes)
    training.checkpoint.remove()
    return training.out


def _with_source(chosen: Recipe, source: str | None) -> Recipe:
    """The recipe with its draws of theta and x from that source."""
    paper = {name: term for name, term in chosen.terms.items() if term.objective == "paper"}
    if source is not None and not paper:
        raise ValueError(
            f"source: applies to variants with the paper's objective only, got {source!r}. Leave "
            "source out"
        )
    setting = {"source": source or "importance"}
    taken = {name: replace(t, settings={**t.settings, **setting}) for name, t in paper.items()}
    return replace(chosen, terms={**chosen.terms, **taken})


def _points(settings: Mapping[str, Any]) -> int:
    """Points x of a training step."""
    cases = settings.get("cases", 0) + settings.get("uniform_cases", 0)
    of_each = settings.get("from_proposal", 0) + settings.get("from_reference", 0)
    return int(settings.get("batch", cases * of_each))


class _Training:
    """The state of one call of `train`: a trainer for every proposal, log and history."""

    def __init__(
        self,
        problem: Problem,
        read: Recipe,
        plan: dict[str, Any],
        out: Path,
        device: str,
        resume: bool,
    ) -> None:
        self.problem, self.recipe, self.plan, self.out = problem, read, plan, out
        steps = {name: read.steps(name, plan["minutes"]) for name in read.terms}
        points = max(_points(term.settings) for term in read.terms.values())
        self.trainers = {
            name: Trainer(
                problem,
                name,
                term,
                steps=steps[name],
                seed=plan["seed"],
                device=device_named(device, points),
                reports=min(REPORTS, max(steps[name] // STEPS_OF_REPORT, 2)),
            )
            for name, term in read.terms.items()
        }
        early = np.geomspace(1, max(EARLY * steps[FILMED], 1), EARLY_FRAMES)
        self._stops = {FILMED: set(np.rint(early).astype(int).tolist())}
        self.log: list[dict[str, Any]] = []
        self.film: list[dict[str, Any]] = []
        self.checkpoint = Checkpoint(out, plan, resume=resume)
        if self.checkpoint.state is not None:
            self.log, self.film = (self.checkpoint.state[name] for name in ("log", "film"))
            for name, trainer in self.trainers.items():
                trainer.load_state(self.checkpoint.state["trainers"][name])

    def run(self, on_progress: Callable[[Progress], None]) -> None:
        def before_step() -> None:
            if self.checkpoint.due:
                self._save()

        for trainer, progress in in_turn(
            self.trainers, stops=self._stops, before_step=before_step
        ):
            # A trainer that is resumed at step 0 reports it again.
            if not self.log or self.log[-1]["step"] != progress.step:
                entry = {
                    "proposal": progress.proposal,
                    "step": progress.step,
                    "seconds": round(progress.seconds, 2),
                    "loss": progress.loss if progress.step else None,
                    **vars(progress.quality),
                }
                self.log.append(entry)
            if trainer.name == FILMED:
                self._film(trainer, progress)
            on_progress(progress)

    def write(self, *, complete: bool) -> None:
        """Writes the best weights, the configuration and the log; a checkpoint if unfinished."""
        if not complete:
            self._save()
        best = {name: trainer.best_proposal().float() for name, trainer in self.trainers.items()}
        configuration = {
            **self.plan,
            "complete": complete,
            "note": self.recipe.note,
            "steps": {name: trainer.step for name, trainer in self.trainers.items()},
            "seconds": {name: round(t.seconds, 1) for name, t in self.trainers.items()},
            "quality": report(self.problem, best),
            "versions": {name: version(name) for name in ("torch", "normflows")},
        }
        families = {
            name: {"family": term.family, "arguments": dict(term.arguments)}
            for name, term in self.recipe.terms.items()
        }
        film = plain(chosen_frames(self.film, self.recipe.film))
        write_proposals(
            self.out, best, configuration=configuration, families=families, snapshots=film
        )
        if complete:
            for file in {frame["file"] for frame in self.film} - {frame["file"] for frame in film}:
                (self.out / file).unlink(missing_ok=True)
        write_json(self.out / "training.json", plain(self.log))

    def _film(self, trainer: Trainer, progress: Progress) -> None:
        """Adds a frame to the history if the divergence has fallen, and the last one."""
        divergence = progress.quality.divergence
        news = not self.film or divergence * FALL < self.film[-1]["divergence"]
        if not (news or progress.ended) or progress.step in {f["step"] for f in self.film}:
            return
        file = f"snapshots/{progress.step:06d}.safetensors"
        weights = trainer.best if progress.ended else trainer.proposal.state_dict()
        variance = progress.best if progress.ended else progress.quality.relative_variance
        frame = {
            "file": file,
            "sha256": write_tensors(self.out / file, weights),
            "step": progress.step,
            "seconds": round(progress.seconds, 2),
            "relative_variance": variance,
            "divergence": divergence,
        }
        self.film.append(frame)

    def _save(self) -> None:
        states = {name: trainer.state() for name, trainer in self.trainers.items()}
        if all(states.values()):
            self.checkpoint.save({"trainers": states, "log": self.log, "film": self.film})


def chosen_frames(film: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """At most `count` frames of a training history, the first and the last among them.

    Their divergences are as even on a log scale as those of the history allow.

    Arguments:
        film: Frames in the order of training, each with its `divergence` in nats.
        count: At least 2.

    Example:
        >>> film = [{"divergence": 2.0**-k} for k in range(9)]
        >>> [frame["divergence"] for frame in chosen_frames(film, 3)]
        [1.0, 0.0625, 0.00390625]
    """
    if len(film) <= count:
        return list(film)
    smallest = np.finfo(float).tiny
    logs = [math.log(max(frame["divergence"], smallest)) for frame in film]
    wanted = np.linspace(logs[0], logs[-1], count)[1:-1]
    inner = range(1, len(film) - 1)
    nearest = {min(inner, key=lambda i: abs(logs[i] - each)) for each in wanted}
    return [film[i] for i in sorted({0, *nearest, len(film) - 1})]
