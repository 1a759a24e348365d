r"""A problem's definition, tried out before it costs time."""

from __future__ import annotations

__all__ = ["check"]

import time
import warnings
from collections.abc import Callable

import torch

from amci_core.checking.findings import Checked, Notes
from amci_core.checking.long_run import LEAST_DRAWS, LONG_RUN, check_by_a_long_run
from amci_core.checking.samplers import (
    FEWEST,
    check_likelihood,
    check_prior,
    check_reference,
)
from amci_core.checking.timing import seconds_per_point
from amci_core.checking.values import CASES, POINTS, check_declared, check_values
from amci_core.checking.watched import watched
from amci_core.models import Problem
from amci_core.models.base import check_problem
from amci_core.models.contract import attempt, violations

SECONDS = 2.0
# Where the first calls take this share of the time, the rest is tried with few points.
ENOUGH, FEW = 0.25, 32
# Of the time, the share of finding out what a point takes.
TIMING = 0.05
# Batch shapes and points that methods are called with; the first is that of a problem's first use.
SHAPES = (((4,), 16), ((), 1), ((2, 3), 5))


def check(
    problem: Problem,
    *,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Checked:
    """Looks for mistakes in a problem: shapes, types, numbers, samplers, supports, truth.

    It calls every method with draws of the problem's own, always the same. Samplers are compared
    with their densities, the reference with f p(x, y), and log_evidence and the truth with a
    long run. A right problem is called wrong about once in ten thousand times.

    Warning:
        Draws see what they meet: a mistake where neither the prior nor the reference has draws is
        not found. `Checked.not_judged` says what could not be told.

    Arguments:
        problem: The problem.
        seconds: The time to aim at. Tests that need more evaluations than it has room for are left
            out, see `Checked.not_judged`.
        clock: What counts the seconds.

    Raises:
        ValueError: it is no problem.

    Example:
        >>> import amci_core as amci
        >>> print(amci.check(amci.problem("tail-1d")))
        tail-1d: no mistake found
    """
    check_problem(problem)
    notes = Notes(seconds, clock)
    check_declared(problem, notes)
    if not notes.failed("x", "y", "theta"):
        # What numpy or torch warn of on the way is found in what they return.
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _check(problem, notes)
    return notes.result(getattr(problem, "name", type(problem).__name__))


def _check(problem: Problem, notes: Notes) -> None:
    held = []
    for batch, points in SHAPES:
        if not notes.left(ENOUGH):
            notes.skip("shapes of other batches: for lack of time")
            break
        for found in violations(problem, batch, points):
            if found.cause is None and found.sure:
                notes.violation(found)
            else:
                held.append(found)
    drawn, per_point = None, 0.0
    if not notes.failed() and not held:
        timed = attempt("check", _seconds_per_point, problem, notes)
        # What raises is noted by the tests below.
        per_point = timed if isinstance(timed, float) else 0.0
    problem = watched(problem, notes)
    if not notes.failed("sample_prior") and "sample_prior" not in {e.method for e in held}:
        points = POINTS if notes.left(ENOUGH) and notes.has(CASES * POINTS * per_point) else FEW
        drawn = notes.value("check", check_values, problem, notes, points)
    # By now those that many draws raise as well are noted with an x.
    for found in held:
        if found.sure:
            notes.violation(found)
        elif not notes.failed(found.method):
            notes.skip(str(found))
    # Without draws there is none of what follows.
    stopped = [] if drawn is not None else notes.failed("sample_prior") or notes.failed()
    if stopped:
        notes.broken("values at draws, and their ranges", *stopped)

    def run(
        said: str, test: Callable[..., None], *arguments: object, points: int, needs: str
    ) -> None:
        method, _, _ = said.partition(":")
        if notes.broken(said, *needs.split(), *stopped):
            return
        if not notes.left() or not notes.has(points * per_point):
            notes.skip(f"{said}, for lack of time")
            return
        found = attempt(method, test, *arguments)
        if found is not None:
            notes.violation(found)
            notes.broken(said, found.method)

    # Any x does for the likelihood, so that the prior is judged after it.
    if problem.y is not None:
        needs = "sample_prior sample_likelihood log_likelihood"
        said = "sample_likelihood: whether its draws follow log_likelihood"
        run(said, check_likelihood, problem, drawn, notes, points=4 * FEWEST, needs=needs)
    needs = "x sample_prior log_prior"
    said = "sample_prior: whether its draws follow log_prior"
    run(said, check_prior, problem, notes, points=FEWEST, needs=needs)
    # By default the reference is the prior.
    needs = "sample_likelihood sample_theta sample_defensive log_defensive"
    said = "sample_defensive: whether its draws follow log_defensive"
    sides = [(problem, "")]
    if not problem.nonnegative and not notes.failed("with_negated_f"):
        sides.append((problem.with_negated_f(), "with_negated_f"))
    for side, method in sides:
        if not _has_default(side):
            about = (side, drawn, notes, method)
            said = (
                "with_negated_f: whether draws of its reference follow their density"
                if method
                else said
            )
            run(said, check_reference, *about, points=FEWEST, needs=needs)
    needs += " x sample_prior log_prior log_likelihood with_negated_f"
    run(LONG_RUN, check_by_a_long_run, problem, drawn, notes, points=LEAST_DRAWS, needs=needs)


def _seconds_per_point(problem: Problem, notes: Notes) -> float:
    """What log p(x, y) and f take for a point."""
    generator = torch.Generator().manual_seed(1)
    y, theta = problem.sample_cases(1, generator)

    def call(n: int) -> None:
        x = problem.sample_prior(n, generator).double()[None]
        problem.log_joint(x, y.double())
        problem.f(x, None if theta is None else theta[:, None].double())

    return seconds_per_point(call, notes.clock, TIMING * notes.seconds)


def _has_default(problem: Problem) -> bool:
    kind = type(problem)
    return (kind.sample_defensive, kind.log_defensive) == (
        Problem.sample_defensive,
        Problem.log_defensive,
    )
