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
from amci_core.flows.broad import Defensive
from amci_core.models import Problem
from amci_core.training.clock import now
from amci_core.training.fit import REPORTS, Fit, stream_seeds
from amci_core.training.found import NotReached
from amci_core.training.imitation import imitation
from amci_core.training.progress import Progress
from amci_core.training.recipes import TermRecipe
from amci_core.training.scout import Known, look, scout
from amci_core.training.shares import defended_share
from amci_core.training.usual import MANY, Choices, bounded

MAX_STEPS = 10**7
# Shares of a proposal's time: scouting; of the rest, imitating, and then refining. In many
# coordinates a case's few particles are soon learnt by heart.
SCOUTING, IMITATING, IMITATING_MANY = 0.25, 0.6, 0.15
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
HELD_OUT = {"cases": 96, "draws": 128, "defence": 0.01}
HELD_OUT_MANY = {**HELD_OUT, "cases": 64}
# Where only steps are timed.
ONE = {**HELD_OUT, "cases": 1}
# Steps that are timed before the number of steps is fixed.
TIMED = 6
# Where y is read, other cases are looked for so often while the first are imitated.
RENEWALS = 4
RENEWING = 1 / 40
# What getrusage counts in: bytes on macOS, KiB elsewhere.
MEGABYTE = 1e6 if sys.platform == "darwin" else 1e6 / 1024
# The share of the reference until it is chosen.
SHARE = 0.01


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
        seconds: Time for all of it; inf where steps are given.
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
        seconds: float,
        steps: int | None,
        seed: int,
        say: Callable[[Plan | str], None],
        known: Known | None = None,
        choices: Choices | None = None,
    ) -> None:
        self.problem, self.name, self.seed = problem, name, seed
        self.seconds, self.began = seconds, now()
        self.generator = torch.Generator().manual_seed(stream_seeds(seed, name)[0] ^ 1)
        most = SCOUTING_MANY if problem.x.dim > MANY else math.inf
        self.scouted = scout(
            problem,
            name,
            generator=self.generator,
            seconds=min(SCOUTING * seconds, most),
            steps=steps or MAX_STEPS,
            say=lambda what: say(f"{name}: {what}"),
            known=known,
            choices=choices,
        )
        self.share = 0.0
        self.terms = self._recipe("imitate"), self._recipe("refine")
        self.recipe = {term.objective: asdict(term) for term in self.terms}
        self.limits = [math.inf, math.inf]
        self.plan = self._planned(steps)
        say(self.plan)

    @property
    def steps(self) -> int:
        """Steps in all that are planned."""
        return sum(self.plan.steps)

    @property
    def family(self) -> dict[str, Any]:
        """The trained proposal's family and arguments."""
        arguments = {
            "own": dict(self.scouted.family),
            "term": self.scouted.target.term,
            "found": dict(self.scouted.found),
            "share": self.share or SHARE,
            "form": self.scouted.form,
        }
        return {"family": "defensive", "arguments": arguments}

    def _recipe(self, objective: str) -> TermRecipe:
        settings = imitation(self.problem)
        if objective == "refine":
            cases = 64 if self.problem.x.dim > MANY else 128
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
        held_out: Mapping[str, Any] = HELD_OUT,
    ) -> Fit:
        if held_out is HELD_OUT and self.problem.x.dim > MANY:
            held_out = HELD_OUT_MANY
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
            held_out=held_out,
            seconds=self.limits[stage],
        )

    def _planned(self, steps: int | None) -> Plan:
        """Times a few steps and a report, and fixes the numbers of steps."""
        taken, report, parameters = [0.0, 0.0], 0.0, 0
        for stage, held_out in enumerate((HELD_OUT, ONE)):
            began = now()
            fit = self._fit(stage, TIMED, 1, self.scouted.start, held_out)
            report = max(report, now() - began)
            began = now()
            for _ in range(TIMED):
                fit.advance()
            taken[stage] = (now() - began) / TIMED
            parameters = sum(p.numel() for p in fit.proposal.parameters())
        imitating = IMITATING if self.problem.x.dim <= MANY else IMITATING_MANY
        if steps is not None:
            first = max(1, round(imitating * steps))
            counts = (first, steps - first)
            self.reports = max(2, min(REPORTS, steps // 5))
            rest = first * taken[0] + counts[1] * taken[1] + self.reports * report
        else:
            rest = max(self.seconds - (now() - self.began), 1.0)
            self.reports = int(min(max(REPORTING * rest / report, 4), REPORTS))
            free = max(rest - self.reports * report, rest / 2)
            self.limits = [imitating * free, (1 - imitating) * free]
            counts = (
                max(1, int(self.limits[0] / taken[0])),
                max(1, int(self.limits[1] / taken[1])),
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
        for stage, steps in enumerate(self.plan.steps):
            if not steps:
                continue
            fit = self._fit(stage, steps, max(1, self.reports // 2), start)
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
                    self.share = defended_share(flow, self.scouted.broad, self.scouted.target)
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
        target, seconds = self.scouted.target, RENEWING * self.seconds
        with suppress(NotReached):  # then the particles that there are have to do
            target.found = look(target, self.generator, steps=self.steps, seconds=seconds)

    def _defended(self, flow: Trainable) -> Trainable:
        return usable(Defensive(flow, copy.deepcopy(self.scouted.broad), self.share or SHARE))


def _stale(bests: list[float], reports: int) -> bool:
    """Whether nothing has improved for long, or nothing is left to gain."""
    patience = max(6, round(PATIENCE * reports / 2))
    if bests[-1] < PERFECT:
        return True
    return len(bests) > patience and bests[-1] > BETTER * bests[-1 - patience]


def usable(flow: Trainable) -> Trainable:
    """A copy in float64, without gradients."""
    return copy.deepcopy(flow).double().eval().requires_grad_(False)
