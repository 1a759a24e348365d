r"""The training run of one proposal: by its recipe, or automatic from particles to a mixture."""

from __future__ import annotations

__all__ = ["AutomaticRun", "run_recipe"]

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor

from amci_core.flows import Trainable
from amci_core.flows.mixture import Mixture
from amci_core.flows.supports import on_half_lines
from amci_core.models import Problem
from amci_core.training import clock
from amci_core.training.choices import Choices
from amci_core.training.initialization import WEIGHT, initialize, pretraining
from amci_core.training.particles import MANY, NotReached, bounded, draw_particles, joined
from amci_core.training.quality import affordable, mixture_weight
from amci_core.training.targets import TARGETS
from amci_core.training.trainer import REPORTS, Progress, TermRecipe, Trainer, record, stream_seeds

MAX_STEPS = 10**7
# A report takes about as long as so many steps: with fewer between two of them a short training
# would go into reports.
STEPS_OF_REPORT = 90
# The share of a proposal's time for particles and forms, at most so many seconds in many
# coordinates: training is to begin soon. Where y is read, other cases are drawn three times during
# pre-training, with this share.
INITIALIZING, INITIALIZING_MANY, RENEWING = 0.18, 11.0, 0.014
# The share of pre-training in the time for training; the rest is refinement. In many coordinates a
# case's few particles are soon learnt by heart.
PRETRAINING, PRETRAINING_MANY = 0.3, 0.15
# Learning rates, at first and of refinement after pre-training.
RATE, RATE_AFTER = 1e-2, 2e-3
# Refinement goes back to the best weights where these were so much better.
BACK = 2.0
# It ends where the best has not become a hundredth better in this share of its reports, or where
# there is nothing left to gain.
PATIENCE, BETTER, PERFECT = 0.4, 0.99, 1e-7
# Cases and draws of a report; and the share of the time that reports may take.
HELD_OUT, HELD_OUT_MANY, REPORTING = (96, 128), (64, 128), 0.1
# Cases in a step of refinement, and the steps that the time is to have at least.
REFINED, LEAST_REFINED, LEAST_STEPS = 128, 8, 100
# The share of the time that choosing the defensive density's weight takes.
WEIGHING = 0.05


class News(NamedTuple):
    """A report of a run.

    Arguments:
        progress: Of its trainer.
        flow: The best proposal so far, in float64.
        steps: Steps of all stages so far.
        recipe: How it is trained, for the card.
        built: Its family and arguments, for the card.
    """

    progress: Progress
    flow: Trainable
    steps: int
    recipe: dict[str, Any]
    built: dict[str, Any]


def run_recipe(
    problem: Problem,
    name: str,
    recipe: TermRecipe,
    *,
    steps: int,
    seed: int,
    stops: Collection[int],
    q2: Trainable | None,
) -> Iterator[News]:
    """A training run by a recipe, whose number of steps is known.

    Arguments:
        problem: The problem.
        name: Which proposal, such as `q1_plus`.
        recipe: How it is built and trained.
        steps: Number of steps.
        seed: Whole number; the same seed gives the same weights on the same machine.
        stops: Steps with a report.
        q2: The trained q2, for a mixture with it.
    """
    reports = min(REPORTS, max(steps // STEPS_OF_REPORT, 2))
    trainer = Trainer(problem, name, recipe, steps=steps, seed=seed, reports=reports)
    trainer.defend(q2)
    built = {"family": recipe.family, "arguments": dict(recipe.arguments)}
    for progress in trainer.run(stops):
        flow = trainer.best_proposal()
        yield News(progress, flow, progress.step, record(recipe), built)


class AutomaticRun:
    """A training run from initialization, through its stages, to a defensive mixture.

    The stages are pre-training by maximum likelihood on particles and refinement by reweighted
    wake-sleep, or one with the chosen objective.

    Arguments:
        problem: The problem.
        name: Which proposal, such as `q1_plus`.
        steps: Number of steps, or None where time is given.
        until: When it ends, as `clock.now` counts; inf with steps.
        seed: Whole number; the same seed and steps give the same weights on the same machine.
        choices: The form and the objective.
        say: Called with messages.
    """

    def __init__(
        self,
        problem: Problem,
        name: str,
        *,
        steps: int | None,
        until: float,
        seed: int,
        choices: Choices,
        say: Callable[[str], None],
    ) -> None:
        self.problem, self.name, self.seed = problem, name, seed
        self._choices, self._until = choices, until
        self._say: Callable[[str], None] = lambda message: say(f"{name}: {message}")
        self._timed, self._planned = steps is None, steps or MAX_STEPS
        self._many = problem.x.dim > MANY
        self._pretraining = PRETRAINING_MANY if self._many else PRETRAINING
        self._target = TARGETS[name](problem)
        self._generator = torch.Generator().manual_seed(stream_seeds(seed, name)[0] ^ 1)
        self._weight, self._renewed = WEIGHT, 0
        self._recipes = dict[str, Any]()
        self._seconds = self._left()
        most = INITIALIZING_MANY if self._many else math.inf
        self._start = initialize(
            self._target,
            self._generator,
            choices=choices,
            steps=self._planned,
            seconds=min(INITIALIZING * self._seconds, most),
            say=self._say,
        )
        self._stages = self._steps_of_stages()
        # Evaluations of the density a second.
        self._pace = 1 / self._target.seconds_per_point if self._timed else math.inf
        count = sum(weights.numel() for weights in self._start.weights.values())
        length = f"about {self._left():.0f} s to go" if self._timed else f"{self._planned:,} steps"
        family = self._start.family["family"]
        self._say(f"{self._start.form} ({family}), {count:,} parameters; {length}")
        if missed := self._target.particles.missed:
            self._say(f"{missed:.0%} of the cases were not reached")

    def _left(self) -> float:
        return max(self._until - clock.now(), 0.0)

    def _steps_of_stages(self) -> dict[str, int]:
        """Steps of each stage, by the name of its objective."""
        if self._choices.objective is not None:
            return {TermRecipe("", {}, self._choices.objective).stage: self._planned}
        pretraining = max(1, round(self._pretraining * self._planned))
        # In several dimensions few draws of the prior lead to particles beyond every bound; a
        # flow on half-lines has all of its draws there.
        half_lines = on_half_lines(self._start.family["arguments"])
        if len(half_lines) > 1 and all(half_lines):
            pretraining = 0
        steps = {"pretrain": pretraining, "refine": self._planned - pretraining}
        return {stage: number for stage, number in steps.items() if number}

    def run(self) -> Iterator[News]:
        """Trains; the best so far at every report is a mixture with the defensive density."""
        weighing = WEIGHING * self._left()
        weights, before = self._start.weights, 0
        *_, last = self._stages
        for stage in self._stages:
            share = 1.0 if stage == last else self._pretraining
            until = clock.now() + share * (self._left() - weighing) if self._timed else math.inf
            trainer = self._trainer(stage, weights, until)
            quarters, bests = set[int](), list[float]()
            if stage == "pretrain" and not self._timed:
                quarters = {trainer.steps * i // 4 for i in (1, 2, 3)}
            for progress in trainer.run(quarters):
                ended = progress.ended
                bests.append(progress.best)
                if stage == "pretrain":
                    self._renew(trainer)
                elif stage == "refine":
                    if not progress.quality.relative_variance < BACK * progress.best:
                        trainer.go_back()
                    ended = ended or _stale(bests, trainer.reports)
                flow = trainer.best_proposal()
                if ended and stage == last:
                    self._choose_weight(flow, self._pace * weighing)
                steps = before + progress.step
                yield News(progress, self._mixed(flow), steps, self._recipes, self._built())
                if ended:
                    break
            weights, before = trainer.best, before + trainer.step

    def _trainer(self, stage: str, weights: Mapping[str, Tensor], until: float) -> Trainer:
        """The trainer of a stage; where the density is costly it evaluates few points."""
        points = self._pace * self._left()
        settings: dict[str, Any] = {}
        if stage == "pretrain":
            settings = pretraining(self.problem)
        if stage == "refine":
            cases = REFINED // 2 if self._many else REFINED
            cases = int(min(cases, max(points / LEAST_STEPS / 16, LEAST_REFINED)))
            spread = cases // 4 if bounded(self.problem) else 0
            settings = {"cases": cases - spread, "uniform_cases": spread}
            settings |= {"from_proposal": 12, "from_reference": 4}
        after = stage == "refine" and "pretrain" in self._stages
        recipe = TermRecipe(
            **self._start.family,
            objective=self._choices.objective or stage,
            settings={**settings, **self._choices.settings},
            learning_rate=RATE_AFTER if after else RATE,
        )
        self._recipes = {**self._recipes, stage: record(recipe)}
        reports = REPORTS if self._timed else max(2, min(REPORTS, self._planned // 5))
        # Half of a report's points are the defensive density's.
        held_out = affordable(REPORTING * points / 4, *(HELD_OUT_MANY if self._many else HELD_OUT))
        return Trainer(
            self.problem,
            self.name,
            recipe,
            steps=self._stages[stage],
            seed=self.seed,
            reports=reports // 2,
            target=self._target,
            start=weights,
            held_out={**held_out, "weight": WEIGHT},
            until=until,
        )

    def _renew(self, trainer: Trainer) -> None:
        """Draws other cases after each quarter: the network must not learn these by heart."""
        reached = trainer.done + 1 / trainer.steps > (self._renewed + 1) / 4
        if self.problem.y is None or self._renewed == 3 or not reached:
            return
        self._renewed += 1
        # Otherwise the particles that there are have to do.
        with suppress(NotReached):
            old, seconds = self._target.particles, RENEWING * self._seconds
            new = draw_particles(
                self._target, self._generator, steps=self._planned, seconds=seconds
            )
            self._target.particles = joined([new, old], most=len(old.y))

    def _choose_weight(self, flow: Trainable, points: float) -> None:
        """Takes the mixture, its defensive density or the prior: the best on held-out cases."""
        self._weight = mixture_weight(flow, self._start.defensive, self._target, points=points)
        if 0 < self._weight < 1:
            return
        self._say(
            f"{'the defensive density' if self._weight else 'draws of the prior'} did better at "
            "held-out cases than the trained flow and replaces it. Raise minutes"
        )

    def _mixed(self, flow: Trainable) -> Trainable:
        if 0 < self._weight < 1:
            return Mixture(flow, self._start.defensive, self._weight).eval()
        return self._start.defensive if self._weight else self._start.prior

    def _built(self) -> dict[str, Any]:
        start = self._start
        arguments: dict[str, Any] = {"term": self._target.term}
        if self._weight:
            arguments["centres"] = start.components
        if 0 < self._weight < 1:
            arguments |= {"flow": start.family, "weight": self._weight, "form": start.form}
        return {"family": "defensive", "arguments": arguments}


def _stale(bests: list[float], reports: int) -> bool:
    """Whether nothing has improved for long, or nothing is left to gain."""
    patience = max(6, round(PATIENCE * reports))
    best, before = bests[-1], bests[:-patience]
    return best < PERFECT or (bool(before) and best > BETTER * before[-1])
