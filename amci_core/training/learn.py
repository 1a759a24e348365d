r"""Training for problems of one's own: nothing has to be chosen."""

from __future__ import annotations

__all__ = ["VARIANT", "learn", "stream_learning", "usual_terms"]

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from amci_core._arguments import check_count, check_number, check_seed
from amci_core.checking import check
from amci_core.flows import FAMILIES, Proposals, Trainable
from amci_core.models import Problem
from amci_core.models.base import check_problem
from amci_core.training.clock import Budget, now
from amci_core.training.course import MAX_STEPS, Course, Plan, usable
from amci_core.training.display import Display
from amci_core.training.forms import Choices, terms_of, usual_terms
from amci_core.training.kept import Keeper
from amci_core.training.optimizers import OPTIMIZERS
from amci_core.training.particles import NotReached, OutOfTime
from amci_core.training.progress import Progress, TrainingDiverged
from amci_core.training.recipes import TermRecipe
from amci_core.training.targets import TARGETS
from amci_core.training.trainer import REPORTS, Fit, run_in_turn
from amci_core.training.verdict import checked

VARIANT = "learnt"
MAX_MINUTES = 10_000.0
MINUTES = 5.0
# The check of a problem: seconds, and of all time, at most.
TRIED_SECONDS, TRIED = 2.0, 0.03
# Steps from which the result is worth it.
WORTH = 1000


def stream_learning(
    problem: Problem,
    terms: Mapping[str, TermRecipe] | None = None,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    choices: Choices | None = None,
    say: Callable[[Plan | str], None] = lambda what: None,
) -> Iterator[tuple[Progress, Proposals]]:
    """Trains proposals for a problem, registered or not, step by step in view.

    The problem is checked first, see `amci_core.check`. Then each proposal is scouted: particles
    are tempered from the prior to its term for many (y, theta) at once, and the form that suits
    them is chosen. It imitates the particles, and is refined on weighted draws of its own. In the
    end it is a mixture of the flow and, for 0.2 to 10 % of its draws, of a broad
    reference: the problem's own, or the prior, and centres that were found. That share of the
    draws is what it costs; in return weights are bounded wherever the reference reaches. Last, all
    proposals are checked at 30 held-out cases; what that finds stands in their card, and sets
    what the verdict on an estimate nearby asks of its draws.

    Arguments:
        problem: What is to be integrated.
        terms: For each proposal how it is built and trained, without search, defence and check; by
            default all is found out.
        minutes: Time for everything together, on one core; by default 5. The number of steps then
            depends on how fast the machine is.
        steps: In its place, steps for each proposal: the same seed then gives the same weights on
            the same machine.
        seed: Whole number >= 0.
        folder: Where the best so far is kept, every half minute and at the end;
            `amci_core.load_proposals(problem, folder=...)` reads it at any time. By default
            nothing is written: `amci_core.save_proposals` does so later.
        resume: Whether to go on from what the folder holds; forms that were begun are kept.
        choices: What is chosen of the form of the proposals; by default all is found out.
        say: Is told the plan of each proposal before its first step, and what is done before.

    Yields:
        Where training stands, and the proposals as they are then: some hundred times for each
        proposal, one proposal after the other. In the place of later ones stands their reference,
        where terms are given they are untrained. The last item holds the best of each.

    Raises:
        ValueError: an argument is out of range, terms do not fit the problem, the check of the
            problem found an error, the folder is not what `resume` says it is, or no draw of the
            prior reaches f and the problem has no reference.
        TrainingDiverged: a loss, a gradient or a parameter was not finite.

    Warning:
        Where cores are busy call `torch.set_num_threads(1)` first. What no draw of the prior, of
        the reference and of the particles has met is not seen: see `amci_core.estimate`.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = learn(problem, {"q1_plus": usual_terms(problem)["q1_plus"]}, steps=1)
        >>> proposals.variant, proposals.present
        ('learnt', (0,))
    """
    check_problem(problem)
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
    if terms is not None:
        if not isinstance(terms, Mapping) or "q1_plus" not in terms:
            raise ValueError(f"terms: expected recipes with one for q1_plus, got {terms!r}")
        if steps is None or folder is not None or choices is not None:
            raise ValueError("steps: with terms expected steps, no folder and no choices")
        return _given(problem, terms, steps, seed)
    seconds = math.inf if minutes is None else 60 * minutes
    budget = Budget(seconds, now())
    with budget.looking():
        problem.check(*problem.cases(1, seed=0))
        if choices is not None:
            choices.check(problem)
        found = check(problem, seconds=min(TRIED_SECONDS, TRIED * seconds))
        found.refuse()
        for finding in found.findings:
            say(str(finding))
        # The first optimizer of a process imports for seconds.
        OPTIMIZERS["soap"]([torch.nn.Parameter(torch.zeros(1))], 1.0)
    keeper = Keeper(problem, folder, resume=resume)
    budget.began -= keeper.spent
    return _all(problem, budget, steps, seed, keeper, choices, say)


def learn(
    problem: Problem,
    terms: Mapping[str, TermRecipe] | None = None,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    choices: Choices | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Proposals:
    """Trains proposals for a problem, registered or not; see `stream_learning` for how.

    Arguments:
        problem: As for `stream_learning`, like all others but the last.
        terms: Likewise.
        minutes: Likewise.
        steps: Likewise.
        seed: Likewise.
        folder: Likewise.
        resume: Likewise.
        choices: Likewise.
        progress: True for a bar with what is done and the time left, on stderr or in a notebook's
            cell; False for none; None for one where somebody looks: in a terminal and in a
            notebook. Or a function, which is called with every report.

    Returns:
        The best proposals. With Ctrl-C, and with a warning where training by recipes diverges,
        these are the best so far, which have not been checked.

    Raises:
        ValueError: see `stream_learning`.
        TrainingDiverged: see `stream_learning`; before there was any.
        KeyboardInterrupt: Ctrl-C was pressed before there was any.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = learn(problem, {"q1_plus": usual_terms(problem)["q1_plus"]}, steps=1)
        >>> proposals.variant, proposals.present
        ('learnt', (0,))
    """
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise ValueError(f"progress: expected True, False, None or a function, got {progress!r}")
    best: Proposals | None = None
    given = progress if callable(progress) else None
    shown = progress if isinstance(progress, bool) else None
    with Display(False if given else shown) as display:
        stream = stream_learning(
            problem,
            terms,
            minutes=minutes,
            steps=steps,
            seed=seed,
            folder=folder,
            resume=resume,
            choices=choices,
            say=display.say,
        )
        try:
            for report, ready in stream:
                best = ready
                (given or display)(report)
        except KeyboardInterrupt:
            if best is None:
                raise
            display.say("interrupted: these are the best so far")
        except TrainingDiverged as error:
            if error.best is None:
                raise
            warnings.warn(str(error), stacklevel=2)
            best = error.best
    assert best is not None  # a stream has an item at least
    return best


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
        flows = {name: usable(fit.proposal) for name, fit in fits.items()}
        try:
            for fit, progress in run_in_turn(fits):
                last = progress.step == fit.steps
                flows[fit.name] = usable(fit.best_proposal() if last else fit.proposal)
                yield progress, _gathered(problem, flows, configuration)
        except TrainingDiverged as error:
            flows = {name: usable(fit.best_proposal()) for name, fit in fits.items()}
            error.best = _gathered(problem, flows, configuration)
            raise

    return stream()


def _all(
    problem: Problem,
    budget: Budget,
    steps: int | None,
    seed: int,
    keeper: Keeper,
    choices: Choices | None,
    say: Callable[[Plan | str], None],
) -> Iterator[tuple[Progress, Proposals]]:
    """Finds out by itself how to train, and does it."""
    names = terms_of(problem)
    flows: dict[str, Trainable] = {}
    configuration: dict[str, Any] = {"seed": seed, "steps": {}, "recipe": {}, "proposals": {}}
    for name in names:
        target = TARGETS[name](problem)
        entry = {"family": "broad", "arguments": {"term": target.term}}
        configuration["proposals"][name] = entry
        flows[name] = usable(FAMILIES["broad"](target.problem, term=target.term))
    keeper.restore(flows, configuration)
    # Few steps are for a try, and not worth a long check.
    few = {} if steps is None or steps >= WORTH else {"cases": 1 + steps // 50, "draws": 2000}
    left = [name for name in names if name not in keeper.done] or [*names[-1:]]
    failed = dict[str, Exception]()
    progress: Progress | None = None
    for i, name in enumerate(left):
        try:
            # What one proposal leaves of its time, the next ones have.
            course = Course(
                problem,
                name,
                budget=budget,
                terms=len(left) - i,
                steps=steps,
                seed=seed,
                say=say,
                known=keeper.known(name),
                choices=choices,
            )
            configuration["recipe"][name] = course.recipe
            for progress, flows[name] in course.run():
                configuration["steps"][name] = progress.step
                configuration["proposals"][name] = course.family
                ready = _gathered(problem, flows, copy.deepcopy(configuration))
                ended = progress.step == progress.steps
                keeper.keep(ready, name, ended=ended, seconds=now() - budget.began)
                yield progress, ready
        except (NotReached, OutOfTime, TrainingDiverged) as error:
            # The best so far, or else the reference, stands for it; the others are trained.
            failed[name] = error
            say(f"{name}: {error}")
    if progress is None:
        raise next(iter(failed.values()))
    say("checks the proposals at held-out cases")
    ready = _gathered(problem, flows, configuration)
    found = checked(problem, ready, seconds=budget.left(), **few)
    missing = [f"{name} could not be trained ({error})" for name, error in failed.items()]
    found["text"] = "; ".join([*missing, found["text"]])
    configuration["verdict"] = found
    say(found["text"])
    ready = _gathered(problem, flows, configuration)
    keeper.keep(ready, None, ended=True, seconds=now() - budget.began)
    yield progress, ready


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
