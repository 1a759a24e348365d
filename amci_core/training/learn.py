r"""`learn`: proposals for your own problem, with everything automatic.

Each proposal has a training run. Particles are drawn from its term by sequential Monte Carlo.
Student-t components are fitted to them, which make the defensive density broad and near; the
directions in which particles differ most from the prior are the axes of rotated forms; and a short
training on them compares the forms. The best one is pre-trained by maximum likelihood on the
particles, and refined by reweighted wake-sleep. In the end it is mixed with the defensive density.
"""

from __future__ import annotations

__all__ = ["learn", "stream_learning"]

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from amci_core._arguments import check_count, check_name, check_number, check_seed
from amci_core.checking import check
from amci_core.devices import one_thread
from amci_core.flows import FAMILIES, Proposals, Trainable
from amci_core.flows.mixture import Centres, DefensiveComponent, Mixture
from amci_core.flows.proposals import NAMES
from amci_core.flows.storage import save_trained
from amci_core.flows.supports import coordinates_of
from amci_core.io import StoredFileError, check_path
from amci_core.models import Problem, check_problem
from amci_core.models.fingerprint import unlike
from amci_core.progress import Bars
from amci_core.proposals import load_proposals
from amci_core.training import clock
from amci_core.training.clock import Budget
from amci_core.training.forms import Choices, default_forms, form_names, terms_of
from amci_core.training.objectives import LikelihoodObjective
from amci_core.training.particles import (
    MANY,
    NotReached,
    bounded,
    draw_particles,
    joined,
    numbers_read,
)
from amci_core.training.quality import long_check, mixture_weight
from amci_core.training.targets import TARGETS, Particles
from amci_core.training.trainer import (
    OPTIMIZERS,
    REPORTS,
    Checkpoint,
    Progress,
    TermRecipe,
    Trainer,
    TrainingDiverged,
    stream_seeds,
    usable,
)

VARIANT = "learnt"
MAX_MINUTES, MAX_STEPS = 10_000.0, 10**7
MINUTES = 5.0
# The check of a problem: seconds, and the share of the time, at most.
CHECK_SECONDS, CHECKING = 2.0, 0.03
# With fewer steps than this the long check is a short one.
STEPS_FOR_CHECK = 1000
# Of the time for initialization: the share of particles and forms together; of that, the shares of
# particles and of fitting components, the rest being for comparing forms. Where y is read, other
# cases are drawn three times during pre-training.
SCOUTING, DRAWING, FITTING, RENEWING = 0.65, 0.4, 0.15, 0.05
# Cases for particles of the posterior, with few steps.
POSTERIOR_CASES = 512
# Seconds of particles and forms in many coordinates, at most: training is to begin soon.
SCOUTING_MANY = 11.0
COMPONENTS = 8
NETWORK: Mapping[str, Any] = {"hidden": [64, 64], "activation": "silu"}
# The share of the cases on which forms are compared.
HELD_BACK = 1 / 8
# Steps of fitting components, and of comparing forms. In many coordinates, where a step takes long
# and particles teach less than weighted draws do, a third of them.
CENTRE_STEPS, TRIAL_STEPS, OF_MANY = 600, 250, 1 / 3
TRIAL_RATE, CLIP = 3e-3, 5.0
# The share of pre-training in the time for training; the rest is refinement. In many coordinates a
# case's few particles are soon learnt by heart.
PRETRAINING, PRETRAINING_MANY = 0.6, 0.15
STAGES = ("pretrain", "refine")
# Learning rates, at first and of refinement after pre-training.
RATE, RATE_AFTER = 1e-2, 2e-3
# Refinement goes back to the best weights where these were so much better.
BACK = 2.0
# It ends where the best has not become a hundredth better in this share of its reports, or where
# there is nothing left to gain.
PATIENCE, BETTER, PERFECT = 0.4, 0.99, 1e-7
# Cases and draws of a report, and the least where the density is costly.
HELD_OUT, LEAST_HELD_OUT = (96, 128), (8, 32)
# The share of the time that reports may take.
REPORTING = 0.1
# Cases in a step of refinement, and the steps that the time is to have at least.
REFINED, LEAST_REFINED, LEAST_STEPS = 128, 8, 100
# The defensive density's weight until it is chosen, and the share of the time that this takes.
WEIGHT, WEIGHING = 0.01, 0.05

Say = Callable[[str], None]


def stream_learning(
    problem: Problem | str,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    choices: Choices | None = None,
    q2: Proposals | None = None,
    say: Say = lambda message: None,
) -> Iterator[tuple[Progress, Proposals]]:
    """Trains proposals for a problem, registered or not, and yields them as they improve.

    The problem is checked first, see `amci_core.check`. Then each proposal is initialized:
    particles are drawn from its term by sequential Monte Carlo for many (y, theta) at once, and
    the form that suits them is chosen. It is pre-trained by maximum likelihood on the particles,
    and refined by reweighted wake-sleep on weighted draws of its own. In the end it is a mixture
    of the flow and, for 0.2 to 10 % of its draws, of a defensive density: the problem's own, or
    the prior, and Student-t components near the particles. It costs about that share of the draws,
    and bounds the weights wherever the defensive density reaches. Last, all proposals are checked
    at 30 held-out cases, or at as many as there is time for; with fewer than 1,000 steps at one,
    and one more for every 50. The result is stored in their card with their number, and sets how
    many draws the verdict on an estimate nearby requires.

    Arguments:
        problem: The problem, or the name of a shipped one.
        minutes: Time for everything together, on one core; by default 5. The number of steps then
            depends on how fast the machine is.
        steps: Instead, steps for each proposal: the same seed then gives the same weights on the
            same machine.
        seed: Whole number >= 0.
        folder: Where the best so far is saved, every half minute and at the end; new or empty;
            `amci_core.load_proposals(problem, folder=...)` reads it at any time. By default
            nothing is written: `Proposals.save` does so later.
        resume: Whether to go on from the folder's checkpoint; with steps, to the same weights.
        choices: The form of the proposals; by default automatic.
        q2: Proposals for a problem with the same p(x, y) and another f, whose q2 is taken instead
            of training one.
        say: Called with messages on what is done.

    Yields:
        A report, and the best proposals so far: some hundred times for each proposal, one proposal
        after the other. Later ones are their defensive density.

    Raises:
        ValueError: an argument is out of range, the check of the problem found an error, the
            folder is not what `resume` says it is, or no draw of the prior reaches f and the
            problem has no defensive density.
        TrainingDiverged: a loss, a gradient or a parameter of every proposal was not finite.

    Warning:
        Where cores are busy call `torch.set_num_threads(1)` first. A part of the term that no draw
        of the prior, of the defensive density and no particle reaches is not covered: see
        `amci_core.estimate`.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> for progress, proposals in stream_learning(problem, steps=2): pass
        >>> proposals.variant, proposals.present
        ('learnt', (0, 2))
    """
    problem = check_problem(problem)
    if minutes is not None and steps is not None:
        raise ValueError(f"steps: expected minutes or steps, got both ({minutes!r}, {steps!r})")
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
    if q2 is not None and getattr(q2, "q2", None) is None:
        raise ValueError(f"q2: expected proposals with a q2, got {q2!r:.60}")
    if q2 is not None and (
        other := unlike(problem, q2.problem, q2.fingerprint, "log_prior", "log_likelihood")
    ):
        raise ValueError(f"q2: expected one for p(x, y) of {problem.name}, got one for {other}")
    choices = choices or Choices()
    if not isinstance(choices, Choices):
        raise ValueError(f"choices: expected Choices(family=...), got {choices!r:.60}")
    if choices.family is not None:
        check_name("family", choices.family, form_names(problem))
    plan = {**problem.fingerprint, "seed": seed, "steps": steps, "choices": asdict(choices)}
    place = None if folder is None else check_path("folder", folder)
    checkpoint = Checkpoint(place, plan, resume=resume)
    spent = checkpoint.state["spent"] if checkpoint.state else 0.0
    budget = Budget(math.inf if minutes is None else 60 * minutes, spent)
    with budget.initializing():
        limit = min(CHECK_SECONDS, CHECKING * budget.seconds)
        found = check(problem, seconds=limit)
        found.refuse()
        for finding in found.findings:
            say(str(finding))
        # The first optimizer of a process imports for seconds.
        OPTIMIZERS["soap"]([torch.nn.Parameter(torch.zeros(1))], 1.0)
    names, state = terms_of(problem), checkpoint.state or {}
    if q2 is not None:
        names = tuple(name for name in names if name != "q2")
    flows: dict[str, Any] = {}
    configuration: dict[str, Any] = {"seed": seed, "steps": {}, "recipe": {}, "proposals": {}}
    for name in names:
        target = TARGETS[name](problem)
        flows[name] = usable(DefensiveComponent(target.problem, target.term))
        entry = {"family": "defensive-component", "arguments": {"term": target.term}}
        configuration["proposals"][name] = entry
    if state:
        before, configuration = load_proposals(problem, folder=checkpoint.folder), state["card"]
        flows = {name: getattr(before, name) for name in names}
    if q2 is not None:
        flows["q2"] = q2.q2
        of_q2 = q2.card.get("configuration", {}).get("proposals", {}).get("q2")
        configuration["proposals"]["q2"] = of_q2
    seconds = configuration.setdefault("seconds", {})
    failed: dict[str, str] = state.get("failed", {})
    left = names[names.index(state["name"]) :] if state else names
    run: _Run | None = None

    def ready() -> Proposals:
        card = {"configuration": copy.deepcopy(configuration)}
        parts: Any = {name: flows.get(name) for name in NAMES}
        fingerprint = problem.fingerprint
        return Proposals(problem.name, VARIANT, card=card, fingerprint=fingerprint, **parts)

    def save() -> None:
        if checkpoint.folder is None or run is None:
            return
        save_trained(checkpoint.folder, ready())
        if (at := run.state()) is not None:
            known = {"spent": budget.spent, "card": configuration, "failed": failed}
            checkpoint.save({**known, "name": run.name, "run": at})

    def before_step() -> None:
        if checkpoint.due:
            save()

    progress: Progress | None = None
    try:
        for i, name in enumerate(left):
            try:
                # What one proposal leaves of its time, the next ones have.
                at = state.pop("run", None)
                run = _Run(problem, name, budget, len(left) - i, steps, seed, choices, say, at)
                for progress, flows[name] in run.run(before_step):
                    configuration["steps"][name] = sum(run.done.values())
                    before_it = sum(s for n, s in seconds.items() if n != name)
                    seconds[name] = round(budget.spent - before_it, 1)
                    configuration["recipe"][name] = run.recipes
                    configuration["proposals"][name] = run.entry
                    yield progress, ready()
            except (NotReached, TrainingDiverged) as error:
                # The best so far, or else the defensive density; the others are trained.
                failed[name] = str(error)
                say(f"{name}: {error}")
                if progress is None and name == left[-1]:
                    raise
        say("checks the proposals at held-out cases")
        # Few steps are for a try, and not worth a long check.
        tried = steps is not None and steps < STEPS_FOR_CHECK
        few = {"cases": 1 + (steps or 0) // 50, "draws": 2000} if tried else {}
        verdict = long_check(problem, ready(), seconds=budget.seconds - budget.spent, **few)
        missing = [f"{name} could not be trained ({why})" for name, why in failed.items()]
        verdict["text"] = "; ".join([*missing, verdict["text"]])
        configuration["verdict"] = verdict
        say(verdict["text"])
    except BaseException as error:
        if progress is not None and not isinstance(error, StoredFileError):
            save()
        raise
    save()
    checkpoint.remove()
    assert progress is not None
    yield progress, ready()


def learn(
    problem: Problem | str,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    choices: Choices | None = None,
    q2: Proposals | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Proposals:
    """Trains proposals for a problem, registered or not; see `stream_learning` for how.

    Meanwhile torch has one thread: its networks are small, and where cores are busy more threads
    wait for one another.

    Arguments:
        problem: The problem, or the name of a shipped one.
        minutes: Time for everything together, on one core; by default 5.
        steps: Instead, steps for each proposal.
        seed: Whole number >= 0.
        folder: Where the best so far is saved; None for nowhere.
        resume: Whether to go on from the folder's checkpoint.
        choices: The form of the proposals; by default automatic.
        q2: Proposals for a problem with the same p(x, y) and another f, whose q2 is taken instead
            of training one.
        progress: Whether to show progress bars, with the time left; None: only in a terminal or a
            notebook. Or a function, which is called with every report.

    Returns:
        The best of each. Ctrl-C ends the training with the best so far.

    Raises:
        ValueError: see `stream_learning`.

    Example:
        >>> import amci_core as amci
        >>> learn(amci.problem("peak"), steps=1).present
        (0,)
    """
    best: Proposals | None = None
    report = progress if callable(progress) else None
    with one_thread(), Bars(False if report else progress) as bars:  # type: ignore[arg-type]
        try:
            for here, newest in stream_learning(
                problem,
                minutes=minutes,
                steps=steps,
                seed=seed,
                folder=folder,
                resume=resume,
                choices=choices,
                q2=q2,
                say=bars.say,
            ):
                best = newest
                report(here) if report else show(bars, here)
        except KeyboardInterrupt:
            if best is None:
                raise
            bars.say("interrupted: these are the best so far")
    assert best is not None  # a stream has an item at least
    return best


def show(bars: Bars, progress: Progress) -> None:
    """Shows a report in the bar of its proposal and stage."""
    name = f"{progress.proposal}, {progress.stage}"
    bars.update(name, progress.step, progress.steps, progress.figures)


class _Run:
    """The training run of one proposal, from initialization to its defensive density.

    Arguments:
        problem: The problem.
        name: Which proposal, such as `q1_plus`.
        budget: The time of the whole training.
        terms: How many proposals share what is left of it.
        steps: Number of steps, or None where time is given.
        seed: Whole number; the same seed and steps give the same weights on the same machine.
        choices: The form.
        say: Called with messages.
        state: What `state` gave for a run that goes on.
    """

    # Attributes that a checkpoint holds beside the target's, the trainer's and the generator's.
    PLAIN = ("form", "family", "found", "weights", "stage", "bests", "renewed", "done", "recipes")

    def __init__(
        self,
        problem: Problem,
        name: str,
        budget: Budget,
        terms: int,
        steps: int | None,
        seed: int,
        choices: Choices,
        say: Say,
        state: dict[str, Any] | None,
    ) -> None:
        self.problem, self.name, self.seed, self.budget = problem, name, seed, budget
        self._say: Say = lambda message: say(f"{name}: {message}")
        self.until, self.to_initialize = budget.until(terms), budget.to_initialize(terms)
        self.timed, self.planned = steps is None, steps or MAX_STEPS
        self.many = problem.x.dim > MANY
        self.target = TARGETS[name](problem)
        self.generator = torch.Generator().manual_seed(stream_seeds(seed, name)[0] ^ 1)
        self.weight = WEIGHT
        self.trainer: Trainer | None = None
        self.bests, self.renewed = list[float](), 0
        self.done, self.recipes = dict[str, int](), dict[str, Any]()
        self._resumed = None if state is None else state["trainer"]
        with budget.initializing():
            if state is None:
                most = SCOUTING_MANY if self.many else math.inf
                self._initialize(choices, min(SCOUTING * self.to_initialize, most))
            else:
                self._load(state)
            self.pretraining = PRETRAINING_MANY if self.many else PRETRAINING
            first = max(1, round(self.pretraining * self.planned))
            # In several dimensions few draws of the prior lead to particles beyond every bound; a
            # flow on half-lines has all of its draws there.
            if problem.x.dim > 1 and FAMILIES[self.family["family"]].exact_support:
                first = 0
            self.steps = {"pretrain": first, "refine": self.planned - first}
            if state is None:
                self.stage = "pretrain" if first else "refine"
            # Evaluations of the density a second.
            self.pace = 1 / max(self.target.seconds_per_point, 1e-12) if self.timed else math.inf
        count = sum(each.numel() for each in self.weights.values())
        length = f"about {self._left():.0f} s to go" if self.timed else f"{self.planned:,} steps"
        self._say(f"{self.form} ({self.family['family']}), {count:,} parameters; {length}")
        if missed := self.target.particles.missed:
            self._say(f"{missed:.0%} of the cases were not reached")

    def _left(self) -> float:
        return max(self.until - clock.now(), 0.0)

    def _initialize(self, choices: Choices, seconds: float) -> None:
        """Draws particles, fits the defensive density to them, and compares forms on them."""
        began, until = clock.now(), clock.now() + seconds
        target, generator = self.target, self.generator
        own, reads_theta = target.problem, self.name != "q2"
        share = OF_MANY if self.many else 1.0
        self._say("draws particles")
        if reads_theta and own.y is not None and own.theta is not None:
            joint, limit = TARGETS["q2"](self.problem), DRAWING / 2 * seconds
            few = min(self.planned, POSTERIOR_CASES)
            posterior = draw_particles(joint, generator, steps=few, seconds=limit)
            if not target.f_varies(posterior, generator):
                target.posterior = posterior
        limit = DRAWING * seconds - (clock.now() - began)
        found = draw_particles(target, generator, steps=self.planned, seconds=limit)
        target.particles = kept = back = found
        if len(found.y) > 1:
            held_back = max(1, int(HELD_BACK * len(found.y)))
            kept, back = found.take(slice(held_back, None)), found.take(slice(held_back))
        self._say("fits Student-t components")
        coordinates = coordinates_of(own)
        self.found = {
            **NETWORK,
            "coordinates": coordinates,
            "components": COMPONENTS,
            "reads_theta": reads_theta,
        }
        around = Centres(own, **self.found)
        around.start_from(kept.line, kept.y, kept.theta, generator)
        limit = FITTING / (1 - DRAWING) * (until - clock.now())
        self._fit(around, kept, min(round(share * CENTRE_STEPS), 4 * self.planned), limit)
        self._defend(around)
        candidates = default_forms(own, reads_theta=reads_theta, choices=choices)
        tried, weights = dict[str, float](), dict[str, Mapping[str, Tensor]]()
        for form, family in candidates.items():
            if tried and clock.now() > until:
                break
            made: Any = FAMILIES[family["family"]](own, **family["arguments"])
            made.initialize(torch.Generator().manual_seed(0))
            if form == "rotated":
                made.whiten(*_axes(coordinates, kept))
            if len(candidates) > 1:
                self._say(f"tries {form}")
                most = min(round(share * TRIAL_STEPS), 1 + self.planned // 4)
                limit = (until - clock.now()) / (len(candidates) - len(tried))
                self._fit(made, kept, most, limit)
            tried[form] = self._loss(made, back)
            weights[form] = made.state_dict()
        # The first, which is the simplest, where none is better.
        self.form = min(tried, key=lambda form: tried[form])
        self.family, self.weights = candidates[self.form], weights[self.form]

    def _defend(self, around: Centres) -> None:
        self.prior = DefensiveComponent(self.target.problem, self.target.term)
        self.centres = around.requires_grad_(False)
        self.defence = Mixture(self.prior, around, 0.5)
        self.target.refer_to(self.defence)

    def _fit(self, flow: Trainable, particles: Particles, steps: int, seconds: float) -> None:
        """Steps of maximum likelihood on particles, with a rate that falls to zero."""
        target = copy.copy(self.target)
        target.particles = particles
        objective = LikelihoodObjective(target, self.generator, **_pretraining(self.problem))
        optimizer = OPTIMIZERS["soap"](flow.parameters(), TRIAL_RATE)
        began, done = clock.now(), 0.0
        for step in range(steps):
            done = max(done, step / steps, (clock.now() - began) / max(seconds, 1e-9))
            if done >= 1:
                break
            for group in optimizer.param_groups:
                group["lr"] = TRIAL_RATE * (1 + math.cos(math.pi * done)) / 2
            loss = objective.loss(flow)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(flow.parameters(), CLIP)
            if bool(loss.isfinite()):
                optimizer.step()

    @torch.inference_mode()
    def _loss(self, flow: Trainable, particles: Particles) -> float:
        """Mean -log q at particles, q being mixed with the defensive density; inf for NaN."""
        y, theta, x = particles.y, particles.theta, particles.x[:, :64]
        log_h = self.target.reference(y, theta).log_prob(x)
        loss = -torch.logaddexp(flow(y, theta).log_prob(x), log_h + math.log(WEIGHT)).mean()
        return float(loss) if bool(loss.isfinite()) else math.inf

    def _trainer(self, share: float, weighing: float) -> Trainer:
        """The trainer of the stage; where the density is costly it has few points and cases."""
        left = self._left()
        settings = _pretraining(self.problem)
        if self.stage == "refine":
            points = self.pace * left / LEAST_STEPS
            cases = REFINED // 2 if self.many else REFINED
            cases = int(min(cases, max(points / 16, LEAST_REFINED)))
            spread = cases // 4 if bounded(self.problem) else 0
            settings = {"cases": cases - spread, "uniform_cases": spread}
            settings |= {"from_proposal": 12, "from_reference": 4}
        (cases, draws), (least_cases, least_draws) = HELD_OUT, LEAST_HELD_OUT
        # Half of the points are the defensive density's.
        points = self.pace * REPORTING * left / 4
        draws = int(min(draws, max(points / (2 * least_cases), least_draws)))
        cases = 64 if self.many else cases
        cases = int(min(cases, max(points / (2 * draws), least_cases)))
        recipe = TermRecipe(**self.family, objective=self.stage, settings=settings)
        rate = RATE_AFTER if self.stage == "refine" and self.steps["pretrain"] else RATE
        recipe = replace(recipe, learning_rate=rate)
        self.recipes[self.stage] = asdict(recipe)
        reports = REPORTS if self.timed else max(2, min(REPORTS, self.planned // 5))
        trainer = Trainer(
            self.problem,
            self.name,
            recipe,
            steps=self.steps[self.stage],
            seed=self.seed,
            reports=reports // 2,
            target=self.target,
            start=self.weights,
            held_out={"cases": cases, "draws": draws, "weight": WEIGHT},
            until=clock.now() + share * (left - weighing) if self.timed else math.inf,
        )
        if self._resumed is not None:
            trainer.load_state(self._resumed)
            self._resumed = None
        return trainer

    def run(self, before_step: Callable[[], None]) -> Iterator[tuple[Progress, Trainable]]:
        """At every report: the progress, and the best proposal so far, mixed."""
        weighing = WEIGHING * self._left() if self.timed else math.inf
        stages = [stage for stage in STAGES if self.steps[stage]]
        for stage in stages[stages.index(self.stage) :]:
            self.trainer, self.stage, last = None, stage, stage == stages[-1]
            self.trainer = trainer = self._trainer(1.0 if last else self.pretraining, weighing)
            quarters = set[int]()
            if self.stage == "pretrain" and not self.timed:
                quarters = {trainer.steps * i // 4 for i in (1, 2, 3)}
            for progress in trainer.run(stops=quarters, before_step=before_step):
                if self.stage == "pretrain":
                    self._renew(trainer)
                elif not progress.quality.relative_variance < BACK * progress.best:
                    trainer.go_back()
                self.bests.append(progress.best)
                self.done[self.stage] = progress.step
                ended = progress.ended or (self.stage == "refine" and self._stale(trainer))
                flow = trainer.best_proposal()
                if ended and last:
                    self._choose(flow, weighing)
                yield progress, self._mixed(flow)
                if ended:
                    break
            if not last:
                self.weights, self.bests = trainer.best, []

    def _renew(self, trainer: Trainer) -> None:
        """Draws other cases after each quarter: the network must not learn these by heart."""
        reached = trainer.done + 1 / trainer.steps > (self.renewed + 1) / 4
        if self.problem.y is None or self.renewed == 3 or not reached:
            return
        self.renewed += 1
        # Otherwise the particles that there are have to do.
        with self.budget.initializing(), suppress(NotReached):
            seconds, old = RENEWING * self.to_initialize, self.target.particles
            new = draw_particles(self.target, self.generator, steps=self.planned, seconds=seconds)
            self.target.particles = joined([new, old], most=len(old.y))

    def _stale(self, trainer: Trainer) -> bool:
        """Whether nothing has improved for long, or nothing is left to gain."""
        patience = max(6, round(PATIENCE * trainer.reports))
        best, before = self.bests[-1], self.bests[:-patience]
        return best < PERFECT or (bool(before) and best > BETTER * before[-1])

    def _choose(self, flow: Trainable, seconds: float) -> None:
        """Takes the mixture, its defensive density or the prior: the best on held-out cases."""
        self.weight = mixture_weight(flow, self.defence, self.target, points=self.pace * seconds)
        if 0 < self.weight < 1:
            return
        self._say(
            f"{'the defensive density' if self.weight else 'draws of the prior'} did better at "
            "held-out cases than the trained flow and replaces it. Raise minutes"
        )

    def _mixed(self, flow: Trainable) -> Trainable:
        if 0 < self.weight < 1:
            return usable(Mixture(flow, self.defence, self.weight))
        return usable(self.defence if self.weight else self.prior)

    @property
    def entry(self) -> dict[str, Any]:
        """The trained proposal's family and arguments, for its card."""
        arguments: dict[str, Any] = {"term": self.target.term, "found": self.found}
        if 0 < self.weight < 1:
            arguments |= {"own": self.family, "share": self.weight, "form": self.form}
            return {"family": "defensive", "arguments": arguments}
        found = self.found if self.weight else None
        return {"family": "defensive-component", "arguments": {**arguments, "found": found}}

    def state(self) -> dict[str, Any] | None:
        """What the rest of the run depends on; None if there is nothing to resume from."""
        trainer = None if self.trainer is None else self.trainer.state()
        if trainer is None:
            return None
        posterior = self.target.posterior
        return {
            "plain": {name: getattr(self, name) for name in self.PLAIN},
            "centres": self.centres.state_dict(),
            "particles": tuple(self.target.particles),
            "posterior": None if posterior is None else tuple(posterior),
            "generator": self.generator.get_state(),
            "trainer": trainer,
        }

    def _load(self, state: dict[str, Any]) -> None:
        vars(self).update(state["plain"])
        around = Centres(self.target.problem, **self.found)
        around.load_state_dict(state["centres"])
        self._defend(around)
        self.target.particles = Particles(*state["particles"])
        if state["posterior"] is not None:
            self.target.posterior = Particles(*state["posterior"])
        self.generator.set_state(state["generator"])


def _pretraining(problem: Problem) -> dict[str, int]:
    """Cases and points in a step of maximum likelihood.

    In few dimensions many points cost no more than a few; where much is read, cases count most.
    """
    if numbers_read(problem) > 4:
        return {"cases": 256, "points": 4}
    dim = problem.x.dim
    return {"cases": 256 if dim <= 3 else 128 if dim <= MANY else 64, "points": 16}


def _axes(coordinates: list[dict[str, Any]], found: Particles) -> tuple[Tensor, Tensor]:
    """The linear map of a rotated form: directions in which particles differ most from the prior.

    These are the eigenvectors of the particles' second moments, in the prior's units, whose
    eigenvalues are farthest from one; over all cases at once, since single ones have few
    particles.
    """
    centre, scale = (
        found.line.new_tensor([c[k] for c in coordinates]) for k in ("centre", "scale")
    )
    z = ((found.line - centre) / scale).flatten(0, 1)
    values, vectors = torch.linalg.eigh((z.T @ z / len(z)).double())
    order = (values - 1).abs().argsort(descending=True)
    return centre, scale[:, None] * vectors[:, order].to(scale)
