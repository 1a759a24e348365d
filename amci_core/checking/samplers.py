r"""Whether the samplers of a problem draw from the densities that it states."""

from __future__ import annotations

__all__ = ["affordable", "check_likelihood", "check_prior", "check_reference"]

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from amci_core.checking.comparison import APART, compare, standard_errors
from amci_core.checking.findings import Notes, place
from amci_core.checking.ranges import Drawn
from amci_core.models import Problem, Variable

# Draws of a test: fewer where a point costs more than a test may take; and pairs of x.
FEWEST, MOST, PAIRS = 1024, 131_072, 16_384
# Numbers at once, for memory.
NUMBERS = 2_000_000
# Seconds that a test of one density may take, as a share of all.
SHARE = 0.05
# How far apart pairs of x are for which y is drawn, as shares of that of two prior draws.
STEPS = (1.0, 0.1, 0.01)
# Values of x at which the likelihood is tested as a density of y, and cases of the reference.
PLACES, CASES = 3, 3
# Draws of y that either x might have given, below which pairs say nothing.
LEAST_SHARED = 20.0


def affordable(notes: Notes, dim: int, call: Callable[[int], object]) -> int:
    """How many draws a test may have, from the time that the fewest take."""
    before = notes.spent
    call(FEWEST)
    each = max((notes.spent - before) / FEWEST, 1e-9)
    n = min(SHARE * notes.seconds / each, NUMBERS / dim, MOST)
    # Powers of two, so that a test seldom depends on how busy the machine is.
    return int(2 ** math.floor(math.log2(max(n, FEWEST))))


def check_prior(problem: Problem, notes: Notes) -> None:
    """Notes a prior's sampler that does not follow its density, or that is not normalized."""

    def draws(n: int, seed: int = 2) -> Tensor:
        return problem.sample_prior(n, torch.Generator().manual_seed(seed)).double()

    x = draws(affordable(notes, problem.x.dim, lambda n: problem.log_prior(draws(n))), 3)
    if not notes.finite("log_prior", problem.log_prior(x), x):
        return
    found = compare(x, problem.log_prior, torch.Generator().manual_seed(4))
    if found.alarm:
        notes.error(*found.said("sample_prior", "log_prior"))
    elif not found.judged:
        notes.skip(f"sample_prior: whether its draws follow log_prior, from {len(x):,} draws")


def check_likelihood(problem: Problem, drawn: Drawn, notes: Notes) -> None:
    """Notes a likelihood's sampler that does not follow its density.

    Two values of x have two densities of y, compared at the draws of both: counts as well. Then,
    where y is continuous, the density of y at a few x is tested by itself.
    """
    variable = problem.y
    assert variable is not None

    def test(n: int, step: float) -> tuple[bool, bool]:
        """Whether draws at pairs of x contradict the density, and whether they could."""
        generator = torch.Generator().manual_seed(7)
        x, other = problem.sample_prior(2 * n, generator).double().chunk(2)
        if step < 1:
            between = x + step * (other - x)
            other = between.where((problem.log_prior(between) > -torch.inf)[:, None], x)
        y = problem.sample_likelihood(torch.cat([x, other]), generator).double()
        pair = torch.stack([torch.cat([x, x]), torch.cat([other, other])])
        log_density = problem.log_likelihood(pair, y)
        if not notes.finite("log_likelihood", log_density, pair):
            return False, True
        odds = (log_density[1] - log_density[0]).nan_to_num(0.0, torch.inf, -torch.inf)
        share = odds.sigmoid()[:, None]
        # Of what was moved to the ends of the range nothing can be said.
        h = torch.cat([odds[:, None], odds.abs()[:, None], pair[1] - pair[0]], -1).tanh()
        h = h * ~_at_ends(variable, y)[:, None]
        apart = standard_errors(h[:n] * share[:n] - h[n:] * (1 - share[n:]))
        shared = float((share * (1 - share)).sum())
        return bool((apart.abs() > APART).any()), shared > LEAST_SHARED

    n = affordable(notes, max(problem.x.dim, variable.dim), lambda n: test(n, 1.0))
    judged = False
    # Between two draws there is no x without a prior that says so.
    for step in (1.0,) if notes.failed("log_prior") else STEPS:
        if not notes.left():
            break
        alarm, shared = test(min(n, PAIRS), step)
        judged |= shared
        if alarm:
            notes.error(
                "sample_likelihood",
                f"its draws do not follow log_likelihood as x changes, as {2 * min(n, PAIRS):,} "
                "of them show; mend either, such as a scale or a mean",
            )
            return
    if not judged:
        notes.skip("sample_likelihood: whether its draws follow log_likelihood")
    for x in drawn.x[:PLACES, :1]:
        y = problem.sample_likelihood(x.expand(n, -1), torch.Generator().manual_seed(8)).double()
        if not notes.left() or not _continuous(y) or _at_ends(variable, y).any():
            continue
        found = compare(y, partial(problem.log_likelihood, x), torch.Generator().manual_seed(9))
        if found.shape:
            method, said = found.said("sample_likelihood", "log_likelihood")
            notes.error(method, f"{said}; at x = {place(x[0])}")
        elif found.alarm:
            notes.warning(
                "log_likelihood",
                f"its integral over y is {found.integral:.3g} at x = {place(x[0])}, the same for "
                "all x: mu is right, but E2 is not; add the missing constant",
            )


def _at_ends(variable: Variable, y: Tensor) -> Tensor:
    """Which of the draws (n, D_y) lie at the ends of their range: none of counts, (n,)."""
    at_ends = ((y <= variable.low) | (y >= variable.high)).any(-1)
    return at_ends & _continuous(y[~at_ends])


def _continuous(y: Tensor) -> bool:
    return len(y) > 0 and len(y[:4096, 0].unique()) > 0.9 * len(y[:4096])


def check_reference(problem: Problem, drawn: Drawn, notes: Notes, method: str = "") -> None:
    """Notes a reference whose draws do not follow its density, or that is not normalized.

    Arguments:
        problem: The problem, or its negated one.
        drawn: Cases.
        notes: Where it is noted.
        method: What to name in the place of `sample_defensive` and `log_defensive`.
    """
    y = drawn.y[:CASES]
    theta = None if drawn.theta is None else drawn.theta[:CASES]

    def draws(n: int) -> tuple[Tensor, Tensor]:
        return problem.sample_defensive(y, theta, n, torch.Generator().manual_seed(10))

    def timed(n: int) -> object:
        x, _ = draws(n // CASES)
        return problem.log_defensive(x, y, theta)

    n = affordable(notes, CASES * problem.x.dim, timed)
    x, log_q = draws(n)
    sampler, density = (method or "sample_defensive"), (method or "log_defensive")
    if not notes.finite(sampler, x.sum(-1) + log_q, x):
        return
    log_density = problem.log_defensive(x, y, theta)
    if not notes.finite(density, log_density, x):
        return
    if not torch.allclose(log_q, log_density, 1e-6, 1e-6):
        apart = float((log_q - log_density).abs().nan_to_num(torch.inf).max())
        notes.error(
            sampler,
            f"the log density that it returns differs from log_defensive by up to {apart:.3g} "
            "nats; return log_defensive at the draws",
        )
        return
    for case in range(len(y)):

        def of_case(points: Tensor, case: int = case) -> Tensor:
            return problem.log_defensive(points, y[case], None if theta is None else theta[case])

        found = compare(x[case], of_case, torch.Generator().manual_seed(11 + case))
        if found.alarm:
            name, said = found.said("sample_defensive", "log_defensive")
            notes.error(method or name, f"{name}: {said}" if method else said)
            return
        if not found.judged:
            notes.skip(f"{sampler}: whether its draws follow its density, from {n:,} draws")
