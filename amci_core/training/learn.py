r"""`learn`: the one way to train proposals, for your own problem and for shipped ones.

By default everything is automatic, see `AutomaticRun`. With the choices of a shipped variant, see
`recipe`, each proposal is trained by its recipe, see `RecipeRun`. The proposals so far, their
record and a checkpoint are saved in a folder if there is one.
"""

from __future__ import annotations

__all__ = ["learn", "show", "stream_learning"]

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from amci_core._arguments import check_count, check_name, check_number, check_seed
from amci_core.checking import check
from amci_core.devices import AUTO, CPU, device_named, one_thread
from amci_core.evaluation.sweep import versions
from amci_core.flows import Proposals, Trainable
from amci_core.flows.mixture import DefensiveComponent
from amci_core.flows.proposals import NAMES
from amci_core.flows.storage import save_trained
from amci_core.io import StoredFileError, check_path, plain, write_json
from amci_core.models import Problem, check_problem
from amci_core.models.fingerprint import unlike
from amci_core.progress import Bars
from amci_core.proposals import load_proposals
from amci_core.training.checkpoint import Checkpoint, History
from amci_core.training.choices import Choices, form_names, terms_of
from amci_core.training.particles import NotReached
from amci_core.training.quality import long_check
from amci_core.training.runs import MAX_STEPS, AutomaticRun, Budget, RecipeRun
from amci_core.training.targets import TARGETS
from amci_core.training.trainer import OPTIMIZERS, Progress, TrainingDiverged, usable

MAX_MINUTES = 10_000.0
# The check of a problem: seconds, and the share of the time, at most.
CHECK_SECONDS, CHECKING = 2.0, 0.03
# With fewer steps than this the long check is a short one.
STEPS_FOR_CHECK = 1000
# The proposal whose history is saved.
OF_HISTORY = "q1_plus"

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
    device: str = AUTO,
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

    With the choices of a recipe the family, the objective and the number of steps of each proposal
    are the recipe's, and there are no particles and no mixture.

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
        resume: Whether to go on from the folder's checkpoint; with steps, to the same weights.
        choices: The form, the objective, or a recipe; by default automatic.
        q2: Proposals for a problem with the same p(x, y) and another f, whose q2 is taken instead
            of training one.
        device: The device of a training by a recipe: `auto` (the CPU, where their small steps are
            as fast), `cpu`, `cuda` or another of torch.
        say: Called with messages on what is done.

    Yields:
        A report, and the best proposals so far: some hundred times for each proposal, one proposal
        after the other. Later ones are their defensive density.

    Raises:
        ValueError: an argument is out of range, the check of the problem found an error, the
            folder is not what `resume` says it is, a recipe does not fit the problem, or no draw
            of the prior reaches f and the problem has no defensive density.
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
        >>> paper = amci.training.recipe("tail-1d", "paper")
        >>> learn(problem, steps=2, choices=paper).variant
        'paper'
    """
    problem = check_problem(problem)
    choices = choices or Choices()
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
    _check_q2(problem, q2)
    where = CPU if device == AUTO else device_named(device)
    if not choices.terms and where != CPU:
        raise ValueError(f"device: expected auto or cpu for automatic training, got {device!r}")
    training = _Training(problem, choices, minutes, steps, seed, q2, folder, resume)
    training.check(say)
    progress: Progress | None = None
    try:
        for name in training.left:
            try:
                run = training.start(name, where, say)
                for progress, flow in run.run(training.save_if_due):
                    yield progress, training.add(progress, flow)
                training.end_of_run(progress)
            except (NotReached, TrainingDiverged) as error:
                # The best so far, or else the defensive density; the others are trained.
                training.failed[name] = str(error)
                say(f"{name}: {error}")
                if progress is None and name == training.left[-1]:
                    raise
        say("checks the proposals at held-out cases")
        say(training.judge())
    except BaseException as error:
        if progress is not None and not isinstance(error, StoredFileError):
            training.save()
        raise
    training.complete()
    assert progress is not None
    yield progress, training.proposals()


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
    device: str = AUTO,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Proposals:
    """Trains proposals for a problem, registered or not; see `stream_learning` for how.

    Meanwhile torch has one thread: its networks are small, and where cores are busy more threads
    wait for one another.

    Arguments:
        problem: The problem, or the name of a shipped one.
        minutes: Time for everything together, on one core; by default 5, or the recipe's.
        steps: Instead, steps for each proposal.
        seed: Whole number >= 0.
        folder: Where the best so far is saved; None for nowhere.
        resume: Whether to go on from the folder's checkpoint.
        choices: The form, the objective, or a recipe; by default automatic.
        q2: Proposals for a problem with the same p(x, y) and another f, whose q2 is taken instead
            of training one.
        device: The device of a training by a recipe.
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
                device=device,
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


def _check_q2(problem: Problem, q2: Proposals | None) -> None:
    if q2 is None:
        return
    if getattr(q2, "q2", None) is None:
        raise ValueError(f"q2: expected proposals with a q2, got {q2!r:.60}")
    other = unlike(problem, q2.problem, q2.fingerprint, "log_prior", "log_likelihood")
    if other:
        raise ValueError(f"q2: expected one for p(x, y) of {problem.name}, got one for {other}")


class _Training:
    """The proposals so far and their record, in a folder if there is one.

    Arguments: see `stream_learning`.

    Attributes:
        left: The proposals that are still to be trained, in this order.
        failed: Proposal name to the reason why it could not be trained.
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
        plan = {
            **problem.fingerprint,
            "seed": seed,
            "steps": steps,
            "minutes": minutes if choices.terms else None,
            "choices": _record(choices),
        }
        place = None if folder is None else check_path("folder", folder)
        self._checkpoint = Checkpoint(place, plan, resume=resume)
        self._state = state = self._checkpoint.state or {}
        timed = minutes is not None and not choices.terms
        self._budget = Budget(60 * (minutes or 0) if timed else math.inf, state.get("spent", 0.0))
        names = tuple(choices.terms) or terms_of(problem)
        self.left = names = tuple(name for name in names if q2 is None or name != "q2")
        self.failed: dict[str, str] = state.get("failed", {})
        self._log: list[dict[str, Any]] = state.get("log", [])
        self._history: History | None = None
        if place is not None and choices.history:
            self._history = History(place, choices.history, state.get("history", []))
        self._run: AutomaticRun | RecipeRun | None = None
        self._flows: dict[str, Any] = {}
        if state:
            before = load_proposals(problem, folder=place)
            self._flows = {name: getattr(before, name) for name in names}
            self._configuration = state["card"]
            self.left = names[names.index(state["name"]) :]
        else:
            built = {}
            for name in names:
                target = TARGETS[name](problem)
                self._flows[name] = usable(DefensiveComponent(target.problem, target.term))
                built[name] = {"family": "defensive", "arguments": {"term": target.term}}
            self._configuration = {
                "seed": seed,
                "minutes": minutes,
                "note": choices.note,
                "versions": versions(),
                **{"steps": {}, "seconds": {}, "recipe": {}, "proposals": built},
            }
        if q2 is not None:
            self._flows["q2"] = q2.q2
            of_q2 = q2.card.get("configuration", {}).get("proposals", {}).get("q2")
            self._configuration["proposals"]["q2"] = of_q2

    def check(self, say: Say) -> None:
        """Checks the problem."""
        with self._budget.initializing():
            limit = min(CHECK_SECONDS, CHECKING * self._budget.seconds)
            checked = check(self._problem, seconds=limit)
            checked.refuse()
            for finding in checked.findings:
                say(str(finding))
            # The first optimizer of a process imports for seconds.
            OPTIMIZERS["soap"]([torch.nn.Parameter(torch.zeros(1))], 1.0)

    def start(self, name: str, device: torch.device, say: Say) -> AutomaticRun | RecipeRun:
        """The run of a proposal, or what is left of it."""
        run: AutomaticRun | RecipeRun
        state = self._state.pop("run", None)
        if self._choices.terms:
            term = self._choices.term(name)
            run = RecipeRun(
                self._problem,
                name,
                term,
                steps=self._steps or term.steps(self._minutes or 0),
                seed=self._seed,
                device=device,
                early=name == OF_HISTORY and self._history is not None,
                q2=self._flows.get("q2"),
                state=state,
            )
        else:
            run = AutomaticRun(
                self._problem,
                name,
                budget=self._budget,
                # What one proposal leaves of its time, the next ones have.
                terms=len(self.left) - self.left.index(name),
                steps=self._steps,
                seed=self._seed,
                choices=self._choices,
                say=say,
                state=state,
            )
        self._run = run
        return run

    def add(self, progress: Progress, flow: Trainable) -> Proposals:
        """Takes the best so far of the run, and returns all proposals."""
        run = self._run
        assert run is not None
        name, record = run.name, self._configuration
        others = sum(s for other, s in record["seconds"].items() if other != name)
        news = {
            "steps": run.steps_done,
            "seconds": round(self._budget.spent - others, 1),
            "recipe": run.recipe,
            "proposals": run.entry,
        }
        # A new record for each report: those before are in the proposals before.
        changed = {field: {**record[field], name: value} for field, value in news.items()}
        self._configuration = {**record, **changed}
        self._flows[name] = flow
        entry = {
            "proposal": name,
            "stage": progress.stage,
            "step": progress.step,
            "seconds": round(progress.seconds, 2),
            "loss": progress.loss,
            **vars(progress.quality),
        }
        # A run that is resumed at step 0 reports it again.
        if not self._log or any(self._log[-1][key] != entry[key] for key in list(entry)[:3]):
            self._log.append(entry)
        self._add_history(progress)
        return self.proposals()

    def end_of_run(self, progress: Progress | None) -> None:
        """The last report of a run has been taken."""
        if progress is not None:
            self._add_history(progress, ended=True)

    def _add_history(self, progress: Progress, ended: bool = False) -> None:
        run = self._run
        if self._history is None or run is None or run.name != OF_HISTORY or not run.trainer:
            return
        flow, step = self._flows[run.name], run.steps_done
        built = run.entry
        self._history.add(run.trainer, progress, flow, step=step, ended=ended, built=built)

    def proposals(self) -> Proposals:
        """The best so far."""
        parts: Any = {name: self._flows.get(name) for name in NAMES}
        return Proposals(
            self._problem.name,
            self._choices.variant,
            card={"configuration": self._configuration},
            fingerprint=self._problem.fingerprint,
            **parts,
        )

    def save_if_due(self) -> None:
        """Saves, half a minute after the last time."""
        if self._checkpoint.due:
            self.save()

    def save(self) -> None:
        """Saves the best so far, the log, and a checkpoint if there is a state to go on from."""
        folder = self._checkpoint.folder
        if folder is None or self._run is None:
            return
        history = [] if self._history is None else self._history.entries
        save_trained(folder, self.proposals(), history)
        write_json(folder / "training.json", plain(self._log))
        if (state := self._run.state()) is not None:
            training = {"card": self._configuration, "failed": self.failed, "log": self._log}
            training |= {"history": history, "spent": self._budget.spent}
            self._checkpoint.save({**training, "name": self._run.name, "run": state})

    def judge(self) -> str:
        """Checks the proposals at held-out cases, for their card, and says how they are."""
        steps = max(self._configuration["steps"].values(), default=0)
        counted = self._steps is not None or bool(self._choices.terms)
        # Few steps are for a try, and not worth a long check.
        few = {"cases": 1 + steps // 50, "draws": 2000} if steps < STEPS_FOR_CHECK else {}
        left = self._budget.seconds - self._budget.spent
        verdict = long_check(
            self._problem, self.proposals(), seconds=left, **(few if counted else {})
        )
        missing = [f"{name} could not be trained ({why})" for name, why in self.failed.items()]
        verdict["text"] = "; ".join([*missing, verdict["text"]])
        self._configuration = {**self._configuration, "verdict": verdict}
        text: str = verdict["text"]
        return text

    def complete(self) -> None:
        """Saves for the last time; nothing is left to resume from."""
        if self._history is not None:
            self._history.thin()
        self.save()
        self._checkpoint.remove()


def _record(choices: Choices) -> dict[str, Any]:
    """Choices in plain numbers and texts, a class by its name."""

    def plainly(fields: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: getattr(value, "__name__", value) for name, value in fields}

    return asdict(choices, dict_factory=plainly)
