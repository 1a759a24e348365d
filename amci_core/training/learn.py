r"""Training in memory, for problems of one's own: nothing has to be chosen.

Each proposal is scouted (where does its term lie, which form suits it), imitates the particles
that scouting found, is refined on weighted draws of its own, and is defended by its reference.
"""

from __future__ import annotations

__all__ = ["Plan", "learn", "stream_learning"]

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from amci_core.checks import check_count, check_number, check_seed
from amci_core.flows import Proposals, Trainable
from amci_core.flows.broad import Defensive
from amci_core.models import Problem
from amci_core.streams import last_item
from amci_core.training.fit import REPORTS, Fit, Progress, run_in_turn, stream_seeds
from amci_core.training.recipes import TermRecipe
from amci_core.training.scout import imitation, look, scout
from amci_core.training.shares import defended_share
from amci_core.training.usual import MANY, bounded, terms_of, usual_terms
from amci_core.training.verdict import CASES, checked

VARIANT = "learnt"
MAX_STEPS, MAX_MINUTES = 10**7, 10_000.0
MINUTES = 5.0
# Shares of a proposal's time: scouting; of the rest, imitating, and then refining.
SCOUTING, IMITATING = 0.25, 0.6
# Reports take at most this share of the time.
REPORTING = 0.1
# The check at the end, of all time.
CHECKING = 0.1
# Refining goes back to the best weights where these were so much better.
BACK = 2.0
HELD_OUT = {"cases": 96, "draws": 128, "defence": 0.01}
# Steps that are timed before the number of steps is fixed.
TIMED = 6
# What is found is looked for anew so often while it is imitated, where y is read.
RENEWALS = 4


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
    """

    proposal: str
    form: str
    parameters: int
    steps: tuple[int, int]
    seconds: tuple[float, float, float, float]
    scouted: float
    missed: float

    def __str__(self) -> str:
        imitate, refine, report, rest = self.seconds
        return (
            f"{self.proposal}: {self.form}, {self.parameters:,} parameters; {self.steps[0]:,} "
            f"steps of {1e3 * imitate:.0f} ms, then {self.steps[1]:,} of {1e3 * refine:.0f} ms; a "
            f"report takes {report:.1f} s; about {rest:.0f} s to go"
            + (f"; {self.missed:.0%} of the cases were not reached" if self.missed else "")
        )


def stream_learning(
    problem: Problem,
    terms: Mapping[str, TermRecipe] | None = None,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    say: Callable[[Plan | str], None] = lambda what: None,
) -> Iterator[tuple[Progress, Proposals]]:
    """Trains proposals for a problem, registered or not, and keeps them in memory.

    `amci_core.save_proposals` writes them to a folder; `amci_core.training.train` trains what
    comes with the package, with checkpoints.

    Every proposal is a mixture of a flow and, for half a per cent to a tenth of its draws, of a
    broad reference: the problem's own, or the prior, and centres that were found. That share of
    the draws is what it costs; in return weights are bounded wherever the reference reaches.

    Arguments:
        problem: What is to be integrated.
        terms: For each proposal how it is built and trained, without a search and a defence; by
            default all is found out, see `amci_core.training.scout`.
        minutes: Time for all proposals together, on one core; by default 5. The number of steps
            then depends on how fast the machine is.
        steps: In its place, steps for each proposal: the same seed then gives the same weights on
            the same machine.
        seed: Whole number >= 0.
        say: Is told the plan of each proposal before its first step, and what is done before.

    Yields:
        Where training stands, and the proposals as they are then: some hundred times for each
        proposal, one proposal after the other. The later ones are untrained until it is their
        turn. The last item holds the best of each.

    Raises:
        ValueError: an argument is out of range, terms do not fit the problem, or no draw of the
            prior reaches f and the problem has no reference.
        TrainingDiverged: a loss, a gradient or a parameter was not finite.

    Warning:
        Where cores are busy call `torch.set_num_threads(1)` first. Proposals can miss what their
        reference misses: look at the verdict of `amci_core.estimate`.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = learn(problem, {"q1_plus": usual_terms(problem)["q1_plus"]}, steps=1)
        >>> proposals.variant, proposals.present
        ('learnt', (0,))
    """
    if minutes is not None and steps is not None:
        raise ValueError(f"steps: expected minutes or steps, not both, got {steps!r}")
    if steps is not None:
        check_count("steps", steps, low=1, high=MAX_STEPS)
    else:
        minutes = check_number(
            "minutes",
            MINUTES if minutes is None else minutes,
            f"a number above 0, at most {MAX_MINUTES:g}",
            allowed=lambda m: 0 < m <= MAX_MINUTES,
        )
    check_seed(seed)
    if terms is None:
        problem.check(*problem.cases(1, seed=0))
        return _all(problem, minutes, steps, seed, say)
    if not isinstance(terms, Mapping) or "q1_plus" not in terms:
        raise ValueError(f"terms: expected recipes with one for q1_plus, got {terms!r}")
    if steps is None:
        raise ValueError("steps: expected a number of steps, where terms are given, got None")
    return _given(problem, terms, steps, seed)


def _proposals_of(item: tuple[Progress, Proposals]) -> Proposals:
    return item[1]


learn = last_item(stream_learning, name="learn", take=_proposals_of)


def _given(
    problem: Problem, terms: Mapping[str, TermRecipe], steps: int, seed: int
) -> Iterator[tuple[Progress, Proposals]]:
    """Trains by recipes."""
    cpu, reports = torch.device("cpu"), max(1, min(REPORTS, steps // 5))
    fits = {
        name: Fit(problem, name, term, steps=steps, seed=seed, device=cpu, reports=reports)
        for name, term in terms.items()
    }
    recipes = {name: asdict(term) for name, term in terms.items()}
    configuration = {
        "seed": seed,
        "steps": dict.fromkeys(terms, steps),
        "recipe": recipes,
        "proposals": {
            name: {key: term[key] for key in ("family", "arguments")}
            for name, term in recipes.items()
        },
    }

    def stream() -> Iterator[tuple[Progress, Proposals]]:
        flows = {name: _usable(fit.proposal) for name, fit in fits.items()}
        for fit, progress in run_in_turn(fits):
            last = progress.step == fit.steps
            flows[fit.name] = _usable(fit.best_proposal() if last else fit.proposal)
            yield progress, _gathered(problem, flows, configuration)

    return stream()


def _all(
    problem: Problem,
    minutes: float | None,
    steps: int | None,
    seed: int,
    say: Callable[[Plan | str], None],
) -> Iterator[tuple[Progress, Proposals]]:
    """Finds out by itself how to train, and does it."""
    names = terms_of(problem)
    configuration: dict[str, Any] = {
        "seed": seed,
        "steps": {},
        "recipe": {},
        "proposals": {},
    }
    began = time.perf_counter()
    flows: dict[str, Trainable] = {}
    courses = {}
    # Few steps are for a try, and not worth a long check.
    cases = CASES if steps is None else min(CASES, max(1, steps // 20))
    for name in names:
        # What one proposal leaves of its time, the next ones have.
        left = math.inf
        if minutes is not None:
            left = (1 - CHECKING) * 60 * minutes - (time.perf_counter() - began)
        courses[name] = course = _Course(
            problem, name, seconds=left / (len(names) - len(courses)), steps=steps, seed=seed, say=say
        )
        configuration["steps"][name] = course.steps
        configuration["recipe"][name] = course.recipe
        for progress, flow in course.run():
            flows[name] = flow
            configuration["proposals"][name] = course.family
            if name == names[-1] and progress.step == progress.steps:
                say("checks the proposals at held-out cases")
                ready = _gathered(problem, flows, configuration)
                limit = math.inf if minutes is None else CHECKING * 60 * minutes
                configuration["verdict"] = checked(problem, ready, cases=cases, seconds=limit)
                say(configuration["verdict"]["text"])
            yield progress, _gathered(problem, flows, copy.deepcopy(configuration))


class _Course:
    """The training of one proposal, from scouting to its defence."""

    def __init__(
        self,
        problem: Problem,
        name: str,
        *,
        seconds: float,
        steps: int | None,
        seed: int,
        say: Callable[[Plan | str], None],
    ) -> None:
        self.problem, self.name, self.seed = problem, name, seed
        self.seconds, self.began = seconds, time.perf_counter()
        self.generator = torch.Generator().manual_seed(stream_seeds(seed, name)[0] ^ 1)
        self.scouted = scout(
            problem,
            name,
            generator=self.generator,
            seconds=SCOUTING * seconds,
            steps=steps or MAX_STEPS,
            say=lambda what: say(f"{name}: {what}"),
        )
        self.share = 0.0
        imitate, refine = self._recipe("imitate"), self._recipe("refine")
        self.recipe = {"imitate": asdict(imitate), "refine": asdict(refine)}
        self.terms, self.limits = (imitate, refine), [math.inf, math.inf]
        self._budget(steps)
        say(self.plan)

    @property
    def steps(self) -> int:
        """Steps in all."""
        return sum(self.plan.steps)

    @property
    def family(self) -> dict[str, Any]:
        """The trained proposal's family and arguments."""
        arguments = {
            "own": dict(self.scouted.family),
            "term": self.scouted.target.term,
            "found": dict(self.scouted.found),
            "share": self.share or 0.01,
        }
        return {"family": "defensive", "arguments": arguments}

    def _recipe(self, objective: str) -> TermRecipe:
        many = self.problem.x.dim > MANY
        settings = imitation(self.problem)
        if objective == "refine":
            cases = 64 if many else 128
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
            learning_rate=3e-3 if objective == "imitate" else 1e-3,
            annealed=True,
            steps_per_minute=1,
            share=1.0,
        )

    def _fit(self, stage: int, steps: int, reports: int, start: Any) -> Fit:
        return Fit(
            self.problem,
            self.name,
            self.terms[stage],
            steps=steps,
            seed=self.seed + stage,
            device=torch.device("cpu"),
            reports=reports,
            target=self.scouted.target,
            start=start,
            held_out=HELD_OUT,
            seconds=self.limits[stage],
        )

    def _budget(self, steps: int | None) -> None:
        """Times a few steps and a report, and fixes the numbers of steps."""
        taken, report = [], 0.0
        for stage in (0, 1):
            began = time.perf_counter()
            fit = self._fit(stage, TIMED, 1, self.scouted.start)
            report = time.perf_counter() - began
            began = time.perf_counter()
            for _ in range(TIMED):
                fit.advance()
            taken.append((time.perf_counter() - began) / TIMED)
        if steps is not None:
            counts = max(1, round(IMITATING * steps)), max(0, steps - round(IMITATING * steps))
            self.reports, rest = max(2, min(REPORTS, steps // 5)), 0.0
        else:
            rest = max(self.seconds - (time.perf_counter() - self.began), 1.0)
            self.reports = int(min(max(REPORTING * rest / report, 4), REPORTS))
            free = rest - self.reports * report
            shares = (IMITATING * free, (1 - IMITATING) * free)
            counts = tuple(max(1, int(s / t)) for s, t in zip(shares, taken, strict=True))
            self.limits = list(shares)
        self.plan = Plan(
            self.name,
            f"{self.scouted.form} ({self.scouted.family['family']})",
            sum(p.numel() for p in fit.proposal.parameters()),
            (counts[0], counts[1]),
            (*taken, report, rest),
            self.scouted.seconds,
            self.scouted.target.found.missed if self.scouted.target.found else 0.0,
        )

    def run(self) -> Iterator[tuple[Progress, Trainable]]:
        """Where it stands, and the proposal as it is then."""
        start, before, spent = self.scouted.start, 0, 0.0
        for stage, steps in enumerate(self.plan.steps):
            if not steps:
                continue
            fit = self._fit(stage, steps, max(1, self.reports // 2), start)
            renew = {steps * i // RENEWALS for i in range(1, RENEWALS)} if stage == 0 else set()
            for progress in fit.run(stops=renew):
                if stage == 0 and progress.step in renew and self.problem.y is not None:
                    self._renew()
                if stage == 1 and not progress.quality.relative_variance < BACK * progress.best:
                    fit.go_back()
                flow = fit.best_proposal()
                if stage == 1 and progress.step == fit.steps:
                    self.share = defended_share(flow, self.scouted.broad, self.scouted.target)
                said = replace(
                    progress,
                    step=before + progress.step,
                    steps=before + fit.steps + (0 if stage else self.plan.steps[1]),
                    seconds=spent + progress.seconds,
                    stage=self.terms[stage].objective,
                )
                yield said, self._defended(flow)
            start, before, spent = fit.best, before + fit.steps, spent + fit.seconds

    def _renew(self) -> None:
        """Other cases, so that the network does not learn these by heart."""
        target = self.scouted.target
        target.found = look(target, self.generator, steps=self.steps, seconds=self.seconds / 40)

    def _defended(self, flow: Trainable) -> Trainable:
        made = Defensive(flow, copy.deepcopy(self.scouted.broad), self.share or 0.01)
        return _usable(made)


def _gathered(
    problem: Problem, flows: Mapping[str, Trainable], configuration: Mapping[str, Any]
) -> Proposals:
    return Proposals(
        problem=problem.name,
        variant=VARIANT,
        q1_plus=flows["q1_plus"],
        q1_minus=flows.get("q1_minus"),
        q2=flows.get("q2"),
        card={"configuration": configuration},
    )


def _usable(flow: Trainable) -> Trainable:
    return copy.deepcopy(flow).double().eval().requires_grad_(False)
