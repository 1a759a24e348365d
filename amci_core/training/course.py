r"""The training of one proposal: scouting, imitation, refinement, and its defence."""

from __future__ import annotations

__all__ = ["MAX_STEPS", "Course", "Plan", "usable"]

import copy
import math
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from amci_core.flows import Trainable
from amci_core.flows.mixture import DefensiveComponent, Mixture
from amci_core.models import Problem
from amci_core.training.clock import Budget, now
from amci_core.training.forms import MANY, Choices, bounded
from amci_core.training.imitation import imitation
from amci_core.training.particles import NotReached, OutOfTime
from amci_core.training.progress import Progress
from amci_core.training.recipes import TermRecipe
from amci_core.training.scout import Known, joined, look, scout
from amci_core.training.shares import defended_share
from amci_core.training.trainer import REPORTS, Fit, stream_seeds

MAX_STEPS = 10**7
# Of the time for looking, the share of scouting; where y is read, other cases are looked for three
# times while the first are imitated.
SCOUTING, RENEWALS, RENEWING = 0.65, 4, 0.05
# Of the time for training, the share of imitating; the rest is refining. In many coordinates a
# case's few particles are soon learnt by heart.
IMITATING, IMITATING_MANY = 0.6, 0.15
# Seconds of scouting in many coordinates, at most: training is to begin soon.
SCOUTING_MANY = 11.0
RATES = {"imitate": 1e-2, "refine": 2e-3}
# Reports take at most this share of the time.
REPORTING = 0.1
# Refining goes back to the best weights where these were so much better.
BACK = 2.0
# It ends where the best has not become a hundredth better in this share of its reports, or where
# there is nothing left to gain.
PATIENCE, BETTER, PERFECT = 0.4, 0.99, 1e-7
# Cases and draws that a report takes, and the least of them where the density is costly; with this
# share of the reference.
HELD_OUT, LEAST_HELD_OUT, DEFENCE = (96, 128), (8, 32), 0.01
# Cases in a step of refinement, and the steps that the time is to have at least.
REFINED, LEAST_REFINED, LEAST_STEPS = 128, 8, 100
# Of the time for looking, the share of finding out what a point takes; and the steps that are
# timed before the number of steps is fixed.
TIMING, TIMED = 0.01, 2
# What getrusage counts in: bytes on macOS, KiB elsewhere.
MEGABYTE = 1e6 if sys.platform == "darwin" else 1e6 / 1024
# The share of the reference until it is chosen, and the share of the time that this takes.
SHARE, SHARING = 0.01, 0.05


@dataclass(frozen=True)
class Plan:
    """What a training is going to do for one proposal.

    Arguments:
        proposal: Its name.
        form: Name of the form that suits best, with its family.
        parameters: Numbers that are learnt.
        steps: Steps of imitation, and of refinement.
        seconds: Of a step of each, of a report, and of all that is left to do.
        scouted: Seconds that scouting took.
        missed: Share of the cases for which no draw was found where the term is not zero.
        megabytes: Memory that the process has had at most until now.
    """

    proposal: str
    form: str
    parameters: int
    steps: tuple[int, int]
    seconds: tuple[float, float, float, float]
    scouted: float
    missed: float
    megabytes: float

    def __str__(self) -> str:
        imitate, refine, report, rest = self.seconds
        return (
            f"{self.proposal}: {self.form}, {self.parameters:,} parameters; {self.steps[0]:,} "
            f"steps of {1e3 * imitate:.0f} ms, then {self.steps[1]:,} of {1e3 * refine:.0f} ms; a "
            f"report takes {report:.1f} s; about {rest:.0f} s to go; {self.megabytes:,.0f} MB"
            + (f"; {self.missed:.0%} of the cases were not reached" if self.missed else "")
        )


class Course:
    """The training of one proposal, from scouting to its defence.

    Arguments:
        problem: The problem.
        name: Which proposal, such as `q1_plus`.
        budget: The time of the whole training.
        terms: How many proposals share what is left of it.
        steps: Number of steps, or None where time is given.
        seed: Whole number; the same seed and steps give the same weights on the same machine.
        say: Is told the plan, and what is done before.
        known: A proposal that an earlier course had reached, from which this one goes on.
        choices: What is chosen of its form.
    """

    def __init__(
        self,
        problem: Problem,
        name: str,
        *,
        budget: Budget,
        terms: int,
        steps: int | None,
        seed: int,
        say: Callable[[Plan | str], None],
        known: Known | None = None,
        choices: Choices | None = None,
    ) -> None:
        self.problem, self.name, self.seed, self.say = problem, name, seed, say
        self.budget = budget
        self.until, self.to_look = budget.until(terms), budget.to_look(terms)
        self.generator = torch.Generator().manual_seed(stream_seeds(seed, name)[0] ^ 1)
        most = SCOUTING_MANY if problem.x.dim > MANY else math.inf
        with budget.looking():
            self.scouted = scout(
                problem,
                name,
                generator=self.generator,
                seconds=min(SCOUTING * self.to_look, most),
                steps=steps or MAX_STEPS,
                say=lambda what: say(f"{name}: {what}"),
                known=known,
                choices=choices,
            )
            # Evaluations of the density that a second has room for.
            self.pace = math.inf
            if math.isfinite(budget.seconds):
                each = self.scouted.target.seconds_per_point(TIMING * self.to_look)
                self.pace = 1 / max(each, 1e-12)
            self.chosen: Trainable | None = None
            self.terms = self._recipe("imitate"), self._recipe("refine")
            self.recipe = {term.objective: asdict(term) for term in self.terms}
            self.plan = self._planned(steps)
        say(self.plan)

    @property
    def steps(self) -> int:
        """Steps in all that are planned."""
        return sum(self.plan.steps)

    @property
    def family(self) -> dict[str, Any]:
        """The trained proposal's family and arguments."""
        term = self.scouted.target.term
        flow = self.chosen.flow if isinstance(self.chosen, Mixture) else self.chosen
        if isinstance(flow, DefensiveComponent):
            found = dict(self.scouted.found) if isinstance(self.chosen, Mixture) else None
            return {"family": "broad", "arguments": {"term": term, "found": found}}
        share = self.chosen.weight if isinstance(self.chosen, Mixture) else SHARE
        arguments = {
            "own": dict(self.scouted.family),
            "term": term,
            "found": dict(self.scouted.found),
            "share": share,
            "form": self.scouted.form,
        }
        return {"family": "defensive", "arguments": arguments}

    def _left(self) -> float:
        return self.until - now()

    def _recipe(self, objective: str) -> TermRecipe:
        settings = imitation(self.problem)
        if objective == "refine":
            cases = REFINED // 2 if self.problem.x.dim > MANY else REFINED
            points = self.pace * self._left() / LEAST_STEPS
            cases = int(min(cases, max(points / 16, LEAST_REFINED)))
            spread = cases // 4 if bounded(self.problem) else 0
            settings = {
                "cases": cases - spread,
                "uniform_cases": spread,
                "from_proposal": 12,
                "from_reference": 4,
            }
        return TermRecipe(
            **self.scouted.family,
            objective=objective,
            settings=settings,
            optimizer="soap",
            learning_rate=RATES[objective],
            annealed=True,
            steps_per_minute=1,
            share=1.0,
        )

    def _fit(
        self,
        stage: int,
        steps: int,
        reports: int,
        start: Mapping[str, Tensor],
        until: float = math.inf,
        least: bool = False,
    ) -> Fit:
        (cases, draws), (least_cases, least_draws) = HELD_OUT, LEAST_HELD_OUT
        if least:
            cases, draws = LEAST_HELD_OUT
        if self.problem.x.dim > MANY:
            cases = 64
        # Half of the points are the reference's.
        points = self.pace * REPORTING * self._left() / 4
        draws = int(min(draws, max(points / (2 * least_cases), least_draws)))
        cases = int(min(cases, max(points / (2 * draws), least_cases)))
        return Fit(
            self.problem,
            self.name,
            self.terms[stage],
            steps=steps,
            seed=self.seed,
            device=torch.device("cpu"),
            reports=reports,
            target=self.scouted.target,
            start=start,
            held_out={"cases": cases, "draws": draws, "defence": DEFENCE},
            until=until,
        )

    def _planned(self, steps: int | None) -> Plan:
        """Times a few steps and a report, and fixes the numbers of steps."""
        taken, report, parameters = [0.0, 0.0], 0.0, 0
        for stage in (0, 1):
            began = now()
            fit = self._fit(stage, TIMED, 1, self.scouted.start, least=stage == 0)
            report = now() - began
            for _ in range(TIMED):
                began = now()
                fit.advance()
                taken[stage] = now() - began  # the first step allocates
            parameters = sum(p.numel() for p in fit.proposal.parameters())
        imitating = IMITATING if self.problem.x.dim <= MANY else IMITATING_MANY
        if steps is not None:
            first = max(1, round(imitating * steps))
            counts = (first, steps - first)
            self.reports = max(2, min(REPORTS, steps // 5))
            rest = first * taken[0] + counts[1] * taken[1] + self.reports * report
        else:
            rest = max(self._left(), 0.0)
            self.reports = int(min(max(REPORTING * rest / max(report, 1e-9), 4), REPORTS))
            # The clock ends both, and later looking comes out of them.
            free = max(rest - self.reports * report, rest / 2)
            counts = (
                max(1, int(imitating * free / max(taken[0], 1e-9))),
                max(1, int((1 - imitating) * free / max(taken[1], 1e-9))),
            )
        found = self.scouted.target.found
        return Plan(
            proposal=self.name,
            form=f"{self.scouted.form} ({self.scouted.family['family']})",
            parameters=parameters,
            steps=counts,
            seconds=(taken[0], taken[1], report, rest),
            scouted=self.scouted.seconds,
            missed=found.missed if found else 0.0,
            megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTE,
        )

    def run(self) -> Iterator[tuple[Progress, Trainable]]:
        """Where it stands, and the best proposal so far, defended, at every report."""
        start, before, spent = self.scouted.start, 0, 0.0
        self.sharing = SHARING * self._left()
        for stage, steps in enumerate(self.plan.steps):
            if not steps:
                continue
            share = 1.0
            if stage == 0 and self.plan.steps[1]:
                share = IMITATING if self.problem.x.dim <= MANY else IMITATING_MANY
            # The share of the reference, and a report, come at the end.
            until = now() + share * (self._left() - self.sharing - self.plan.seconds[2])
            fit = self._fit(stage, steps, max(1, self.reports // 2), start, until)
            renew = {steps * i // RENEWALS for i in range(1, RENEWALS)} if stage == 0 else set()
            bests: list[float] = []
            for progress in fit.run(stops=renew):
                if progress.step in renew and self.problem.y is not None:
                    self._renew()
                if stage == 1 and not progress.quality.relative_variance < BACK * progress.best:
                    fit.go_back()
                bests.append(progress.best)
                ended = progress.step == fit.steps or (stage == 1 and _stale(bests, self.reports))
                flow = fit.best_proposal()
                last = ended and (stage == 1 or not self.plan.steps[1])
                if last:
                    self._choose(flow)
                done = before + progress.step
                later = 0 if stage else self.plan.steps[1]
                yield (
                    replace(
                        progress,
                        step=done,
                        steps=done if last else before + fit.steps + later,
                        seconds=spent + progress.seconds,
                        stage=self.terms[stage].objective,
                    ),
                    self._defended(flow),
                )
                if ended:
                    break
            start, before, spent = fit.best, before + fit.step, spent + fit.seconds

    def _renew(self) -> None:
        """Other cases, so that the network does not learn these by heart."""
        target, seconds = self.scouted.target, RENEWING * self.to_look
        assert target.found is not None
        # Otherwise the particles that there are have to do.
        with self.budget.looking(), suppress(NotReached, OutOfTime):
            new = look(target, self.generator, steps=self.steps, seconds=seconds)
            target.found = joined([new, target.found], most=len(target.found.y))

    def _choose(self, flow: Trainable) -> None:
        """Takes the best of the defended flow, its reference and the prior, on held-out cases."""
        target, broad = self.scouted.target, self.scouted.broad
        share = defended_share(flow, broad, target, points=self.pace * self.sharing)
        if 0 < share < 1:
            self.chosen = Mixture(flow, copy.deepcopy(broad), share)
            return
        prior = DefensiveComponent(target.problem, target.term)
        self.chosen = copy.deepcopy(broad) if share else prior
        self.say(
            f"{self.name}: {'the reference' if share else 'draws of the prior'} did better at "
            "held-out cases than the flow that was trained, and is what you get; give more minutes"
        )

    def _defended(self, flow: Trainable) -> Trainable:
        return usable(self.chosen or Mixture(flow, copy.deepcopy(self.scouted.broad), SHARE))


def _stale(bests: list[float], reports: int) -> bool:
    """Whether nothing has improved for long, or nothing is left to gain."""
    patience = max(6, round(PATIENCE * reports / 2))
    if bests[-1] < PERFECT:
        return True
    return len(bests) > patience and bests[-1] > BETTER * bests[-1 - patience]


def usable(flow: Trainable) -> Trainable:
    """A copy in float64, without gradients."""
    return copy.deepcopy(flow).double().eval().requires_grad_(False)
