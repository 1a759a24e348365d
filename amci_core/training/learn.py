r"""`learn`: the one way to train proposals, for your own problem and for shipped ones.

By default everything is automatic, see `AutomaticRun`. With the choices of a shipped variant, see
`recipe`, each proposal is trained by its recipe, see `run_recipe`. The proposals so far and their
record are saved in a folder if there is one.
"""

from __future__ import annotations

__all__ = ["learn"]

import copy
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from amci_core._arguments import check_count, check_name, check_number, check_seed
from amci_core.checking import check
from amci_core.devices import one_thread
from amci_core.evaluation.sweep import versions
from amci_core.flows import Proposals
from amci_core.flows.mixture import DefensiveComponent
from amci_core.flows.storage import save_trained, write_weights
from amci_core.io import StoredFileError, check_path, plain, vacant
from amci_core.models import Problem, check_problem
from amci_core.models.fingerprint import unlike
from amci_core.progress import Bars
from amci_core.proposals import load_proposals
from amci_core.training import clock
from amci_core.training.choices import Choices, form_names, terms_of
from amci_core.training.cost import in_words as cost_in_words
from amci_core.training.cost import prices
from amci_core.training.particles import NotReached
from amci_core.training.quality import long_check
from amci_core.training.runs import MAX_STEPS, AutomaticRun, News, run_recipe
from amci_core.training.targets import TARGETS, Target
from amci_core.training.trainer import OPTIMIZERS, Progress, TrainingDiverged, record, usable

MAX_MINUTES = 10_000.0
# The check of a problem: seconds, and the share of the time, at most.
CHECK_SECONDS, CHECKING = 2.0, 0.03
# The share of the time that the check of the proposals has.
LONG_CHECK = 0.1
# The share of the check's time for what other methods would cost, and most seconds of it.
MEASURING, MEASURING_SECONDS = 0.25, 20.0
# With fewer steps than this the long check is a short one.
STEPS_FOR_CHECK = 1000
SECONDS_BETWEEN_SAVES = 30.0
# The least share of the time, relative to the other proposals, that q1_complement has, and draws
# of the prior for the mean of f.
LEAST_SHARE, DRAWS_OF_MEAN = 0.1, 1000
# The proposal whose history is saved.
OF_HISTORY = "q1_plus"


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
    progress: bool | None = None,
    on_progress: Callable[[Progress, Proposals], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> Proposals:
    """Trains proposals for a problem, registered or not.

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

    With the choices of a recipe the family, the objective and the number of steps of each proposal
    are the recipe's, and there are no particles and no mixture.

    Meanwhile torch has one thread: its networks are small, and where cores are busy more threads
    wait for one another.

    Arguments:
        problem: The problem, or the name of a shipped one.
        minutes: Time for everything together, on one core; by default that of the choices, 5. The
            number of steps then depends on how fast the machine is; by a recipe it depends on the
            recipe's nominal speed alone.
        steps: Instead, steps for each proposal: the same seed then gives the same weights on the
            same machine.
        seed: Whole number >= 0.
        folder: Where the best so far is saved, every half minute and at the end; new or empty;
            `amci_core.load_proposals(problem, folder=...)` reads it at any time. By default
            nothing is written: `Proposals.save` does so later.
        resume: Whether to go on with the training in the folder: its proposals that are complete
            stay, the others are trained from their beginning; with steps, to the same weights.
        choices: The form, the objective, or a recipe; by default automatic.
        q2: Proposals for a problem with the same p(x, y) and another f, whose q2 is taken instead
            of training one.
        progress: Whether to show progress bars, with the time left; None: only in a terminal or a
            notebook, and if there is no `on_progress`.
        on_progress: Called with a report and the best proposals so far, some hundred times for
            each proposal, one proposal after the other. Later ones are their defensive density.
        say: Called with messages; by default they are printed above the bars.

    Returns:
        The best of each. Ctrl-C ends the training with the best so far; there is no verdict then.

    Raises:
        ValueError: an argument is out of range, the check of the problem found an error, the
            folder is not what `resume` says it is, a recipe does not fit the problem, or no draw
            of the prior reaches f and the problem has no defensive density.
        TrainingDiverged: a loss, a gradient or a parameter of every proposal was not finite.

    Warning:
        A part of the term that no draw of the prior, of the defensive density and no particle
        reaches is not covered: see `amci_core.estimate`.

    Example:
        >>> import amci_core as amci
        >>> learn("peak", steps=1).present
        (0,)
        >>> learn("tail-1d", steps=2, choices=amci.training.recipe("tail-1d", "paper")).variant
        'paper'
    """
    problem, choices = check_problem(problem), choices or Choices()
    if not isinstance(choices, Choices):
        raise ValueError(f"choices: expected Choices(family=...), got {choices!r:.60}")
    if choices.family is not None:
        check_name("family", choices.family, form_names(problem))
    if minutes is not None and steps is not None:
        raise ValueError(f"steps: expected minutes or steps, got both ({minutes!r}, {steps!r})")
    if steps is not None:
        check_count("steps", steps, low=1, high=MAX_STEPS)
    else:
        minutes = check_number(
            "minutes",
            choices.minutes if minutes is None else minutes,
            f"a number above 0, at most {MAX_MINUTES:g}",
            allowed=lambda m: 0 < m <= MAX_MINUTES,
        )
    check_seed(seed)
    if resume and folder is None:
        raise ValueError("resume: expected a folder, got None. Pass the folder of the training")
    if q2 is not None and getattr(q2, "q2", None) is None:
        raise ValueError(f"q2: expected proposals with a q2, got {q2!r:.60}")
    if q2 is not None and (
        other := unlike(problem, q2.problem, q2.fingerprint, "log_prior", "log_likelihood")
    ):
        raise ValueError(f"q2: expected one for p(x, y) of {problem.name}, got one for {other}")
    training = _Training(problem, choices, minutes, steps, seed, q2, folder, resume)
    with one_thread(), Bars(False if on_progress and progress is None else progress) as bars:
        say = say or bars.say

        def report(report: Progress) -> None:
            name = f"{report.proposal}, {report.stage}"
            bars.update(name, report.step, report.steps, report.figures)
            if on_progress is not None:
                on_progress(report, training.proposals())

        try:
            training.run(report, say)
        except KeyboardInterrupt:
            if not training.reported:
                raise
            kept = "these are the best so far"
            if folder is not None:
                kept = f"the best so far is in {folder}, go on with resume"
            say(f"interrupted; {kept}")
    return training.proposals()


class _Training:
    """The proposals so far and their record, in a folder if there is one; see `learn`.

    Attributes:
        reported: Whether a proposal has been trained at all.
    """

    def __init__(
        self,
        problem: Problem,
        choices: Choices,
        minutes: float | None,
        steps: int | None,
        seed: int,
        q2: Proposals | None,
        folder: str | Path | None,
        resume: bool,
    ) -> None:
        self._problem, self._choices, self._seed = problem, choices, seed
        self._minutes, self._steps = minutes, steps
        self._folder = None if folder is None else check_path("folder", folder)
        self._saved, self._moments, self.reported = -math.inf, set[int](), False
        names = [n for n in choices.terms or terms_of(problem) if q2 is None or n != "q2"]
        plan = {"seed": seed, "steps": steps, "minutes": minutes, "choices": record(choices)}
        if self._folder is not None and resume:
            self._flows, self._record = _unfinished(problem, self._folder, plain(plan))
        else:
            if self._folder is not None:
                vacant(self._folder)
            self._flows = {}
            self._record = {
                "plan": plain(plan),
                "seed": seed,
                "note": choices.note,
                "versions": versions(),
                **{"steps": {}, "seconds": {}, "recipe": {}, "proposals": {}},
                **{"complete": [], "failed": {}, "snapshots": []},
            }
            for name in names:
                target = TARGETS[name](problem)
                self._flows[name] = usable(DefensiveComponent(target.problem, target.term))
                built = {"family": "defensive", "arguments": {"term": target.term}}
                self._record["proposals"][name] = built
        complete = self._record["complete"]
        self._left = [name for name in names if name not in complete]
        # By a recipe the number of steps is known, and takes as long as it takes.
        self._seconds = math.inf if minutes is None or choices.terms else 60 * minutes
        self._evaluations = self._record.get("cost", {}).get("evaluations", 0) - Target.evaluations
        self._began = clock.now() - sum(self._record["seconds"].get(n, 0.0) for n in complete)
        if q2 is not None:
            self._flows["q2"] = q2.q2
            of_q2 = q2.card.get("configuration", {}).get("proposals", {}).get("q2")
            self._record["proposals"]["q2"] = of_q2

    def run(self, report: Callable[[Progress], None], say: Callable[[str], None]) -> None:
        """Checks the problem, trains one proposal after the other, and checks them."""
        checked = check(self._problem, seconds=min(CHECK_SECONDS, CHECKING * self._seconds))
        checked.refuse()
        for finding in checked.findings:
            say(str(finding))
        # The first optimizer of a process imports for seconds.
        OPTIMIZERS["soap"]([torch.nn.Parameter(torch.zeros(1))], 1.0)
        try:
            for name in self._left:
                try:
                    for news in self._begin(name, say):
                        self._take(name, news)
                        if time.monotonic() > self._saved + SECONDS_BETWEEN_SAVES:
                            self._save()
                        report(news.progress)
                except (NotReached, TrainingDiverged) as error:
                    # The best so far, or else the defensive density; the others are trained.
                    self._record["failed"][name] = str(error)
                    say(f"{name}: {error}")
                    if not self.reported and name == self._left[-1]:
                        raise
                self._record["complete"].append(name)
                self._save()
            say("checks the proposals at held-out cases")
            self._judge(say)
        except BaseException as error:
            if self.reported and not isinstance(error, StoredFileError):
                self._save()
            raise
        self._save()

    def proposals(self) -> Proposals:
        """The best so far."""
        return Proposals(
            problem=self._problem.name,
            variant=self._choices.variant,
            card={"configuration": copy.deepcopy(self._record)},
            fingerprint=self._problem.fingerprint,
            source=self._problem,
            **self._flows,
        )

    def _begin(self, name: str, say: Callable[[str], None]) -> Iterator[News]:
        choices, seed = self._choices, self._seed
        if not choices.terms:
            # What one proposal leaves of its time, the next ones have.
            left = self._began + (1 - LONG_CHECK) * self._seconds - clock.now()
            shares = [_share(self._problem, n) for n in self._left[self._left.index(name) :]]
            until = clock.now() + max(left, 0.0) * shares[0] / sum(shares)
            plan: dict[str, Any] = {"steps": self._steps, "until": until, "seed": seed}
            return AutomaticRun(self._problem, name, **plan, choices=choices, say=say).run()
        term, q2 = choices.term(name), self._flows.get("q2")
        steps = self._steps or term.steps(self._minutes or 0)
        stops = set[int]()
        if choices.history and name == OF_HISTORY and self._folder:
            even = np.geomspace(1, steps, choices.history - 1)
            self._moments = stops = {0, *np.rint(even).astype(int).tolist()}
        return run_recipe(self._problem, name, term, steps=steps, seed=seed, stops=stops, q2=q2)

    def _take(self, name: str, news: News) -> None:
        """Takes the best so far of a run, and its record."""
        record = self._record
        of_others = sum(s for other, s in record["seconds"].items() if other != name)
        record["seconds"][name] = round(clock.now() - self._began - of_others, 1)
        record["steps"][name] = news.steps
        record["recipe"][name] = news.recipe
        record["proposals"][name] = news.built
        record["cost"] = {"evaluations": self._evaluations + Target.evaluations}
        self._flows[name] = news.flow
        self.reported = True
        if name == OF_HISTORY and news.steps in self._moments:
            self._save_snapshot(news)

    def _save_snapshot(self, news: News) -> None:
        """Saves the best so far at a moment of its training."""
        folder, progress = self._folder, news.progress
        assert folder is not None
        file = f"snapshots/{progress.step:06d}.safetensors"
        snapshot = {
            "file": file,
            "sha256": write_weights(folder / file, news.flow),
            "step": progress.step,
            "seconds": round(progress.seconds, 2),
            "relative_variance": progress.best if math.isfinite(progress.best) else None,
        }
        # Those after it are of a training that was broken off.
        before = [known for known in self._record["snapshots"] if known["step"] < progress.step]
        self._record["snapshots"] = [*before, snapshot]

    def _save(self) -> None:
        if self._folder is not None:
            save_trained(self._folder, self.proposals(), self._record["snapshots"])
            self._saved = time.monotonic()

    def _judge(self, say: Callable[[str], None]) -> None:
        """Checks the proposals at held-out cases, for their card."""
        steps = max(self._record["steps"].values(), default=0)
        # Few steps are for a try, and not worth a long check.
        tried = math.isinf(self._seconds) and steps < STEPS_FOR_CHECK
        few: dict[str, Any] = {"cases": 1 + steps // 50, "draws": 2000} if tried else {}
        left = (1 - MEASURING) * (self._began + self._seconds - clock.now())
        verdict = long_check(self._problem, self.proposals(), seconds=left, **few)
        failed = self._record["failed"].items()
        missing = [f"{name} could not be trained ({why})" for name, why in failed]
        verdict["text"] = "; ".join([*missing, verdict["text"]])
        self._record["verdict"] = verdict
        say(verdict["text"])
        evaluations = self._evaluations + Target.evaluations
        left = min(self._began + self._seconds - clock.now(), MEASURING_SECONDS)
        of_others = {} if tried else prices(self._problem, self.proposals(), seconds=left)
        seconds = round(clock.now() - self._began, 1)
        cost = {"evaluations": evaluations, "seconds": seconds, "prices": of_others}
        self._record["cost"] = {**cost, "text": cost_in_words(cost)}
        say(self._record["cost"]["text"])


def _share(problem: Problem, name: str) -> float:
    """The time that a proposal has relative to others.

    Without y estimates need q1_complement only where mu is large.
    """
    if name != "q1_complement" or problem.f_max is None or problem.y is not None:
        return 1.0
    generator = torch.Generator().manual_seed(0)
    x = problem.sample_prior(DRAWS_OF_MEAN, generator)
    theta = problem.sample_theta(DRAWS_OF_MEAN, generator)
    mean = float(problem.f(x.double(), None if theta is None else theta.double()).mean())
    return min(max(mean / problem.f_max, LEAST_SHARE), 1.0)


def _unfinished(
    problem: Problem, folder: Path, plan: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The proposals of a training that was broken off, and their record.

    Raises:
        ValueError: the folder holds no such training, or one with another plan.
    """
    trained = load_proposals(problem, folder=folder)
    record = trained.card["configuration"]
    if "plan" not in record or trained.verdict is not None:
        raise ValueError(f"resume: {folder} holds no training that was broken off. Start anew")
    differ = [name for name, value in plan.items() if record["plan"].get(name) != value]
    if differ:
        raise ValueError(
            f"resume: {folder} holds a training with another {', '.join(differ)}. Repeat its "
            "settings, or choose another folder"
        )
    return trained.by_name, record
