r"""Whether the samplers of a problem draw from the densities that it states."""

from __future__ import annotations

__all__ = ["check_likelihood", "check_prior", "check_reference"]

import math
from collections.abc import Callable

import torch
from torch import Tensor

from amci_core.checking.calibration import Calibration, against_copula, calibration
from amci_core.checking.findings import Notes, place
from amci_core.checking.ranges import Drawn
from amci_core.models import Problem, Variable

# Draws of a test: fewer where a point costs more than a test may take.
FEWEST, MOST = 1024, 16_384
# Numbers at once, for memory.
NUMBERS = 1_000_000
# Seconds that a test of one density may take, as a share of all.
SHARE = 0.05
# How far apart pairs of x are for which y is drawn, as shares of that of two prior draws.
STEPS = (1.0, 0.3, 0.1, 0.03, 0.01)
# Values of x at which the likelihood is tested as a density of y, and cases of the reference.
PLACES, CASES = 3, 3
# An integral that differs from one by a smaller share is a matter of accuracy.
LEAST = 0.02


def affordable(notes: Notes, dim: int, call: Callable[[int], object]) -> int:
    """How many draws a test may have, from the time that the fewest take."""
    before = notes.spent
    call(FEWEST)
    each = max((notes.spent - before) / FEWEST, 1e-9)
    n = min(SHARE * notes.seconds / each, NUMBERS / dim, MOST)
    # Powers of two, so that a test seldom depends on how busy the machine is.
    return int(2 ** math.floor(math.log2(max(n, FEWEST))))


def check_prior(problem: Problem, notes: Notes) -> None:
    """Notes a prior's sampler that does not follow its density, or that is not normalised."""

    def draws(n: int, seed: int = 2) -> Tensor:
        return problem.sample_prior(n, torch.Generator().manual_seed(seed)).double()

    n = affordable(notes, problem.x.dim, lambda n: problem.log_prior(draws(n)))
    x = draws(n, 3)
    if not notes.finite("log_prior", problem.log_prior(x), x):
        return
    found, integral = against_copula(x, problem.log_prior, torch.Generator().manual_seed(4))
    if found.alarm:
        notes.error(*_said("prior", problem.log_prior, draws(n, 5), integral, n))
    elif not found.judged:
        notes.skip(f"sample_prior: whether its draws follow log_prior, from {n:,} draws")


def _said(
    name: str, log_density: Callable[[Tensor], Tensor], x: Tensor, integral: float, n: int
) -> tuple[str, str]:
    """The method and what to say: is it the constant alone, or more?"""
    again = against_copula(
        x, lambda x: log_density(x) - math.log(integral), torch.Generator().manual_seed(6)
    )[0] if 0 < integral < math.inf else Calibration(True, True)  # fmt: skip
    if not again.alarm and again.judged and abs(integral - 1) > LEAST:
        return f"log_{name}", (
            f"integrates to {integral:.3g} in the place of 1, by the draws of sample_{name}; add "
            f"the missing constant, about {-math.log(integral):.3g} nats"
        )
    return f"sample_{name}", (
        f"its draws do not follow log_{name}, as {n:,} of them show; mend either, such as a "
        "scale, a rate or a bound"
    )


def check_likelihood(problem: Problem, drawn: Drawn, notes: Notes) -> None:
    """Notes a likelihood's sampler that does not follow its density.

    Of two values of x, which one y was drawn for has known odds, whatever y is: counts as well.
    Then, where y is continuous, the density of y at a few x is tested by itself.
    """
    if problem.y is None:
        return

    def test(n: int, step: float) -> Calibration | None:
        generator = torch.Generator().manual_seed(7)
        x = problem.sample_prior(n, generator).double()
        other = x + step * (problem.sample_prior(n, generator).double() - x)
        if step < 1:
            allowed = problem.log_prior(other) > -torch.inf
            x, other = x[allowed], other[allowed]
        if len(x) < FEWEST // 2:
            return None
        label = torch.randint(0, 2, (len(x),), generator=generator).double()
        y = problem.sample_likelihood(x.where(label[:, None] == 0, other), generator).double()
        # Of what was moved to the ends of the range nothing can be said; the rest has its odds.
        kept = ~_at_ends(problem.y, y)
        x, other, label, y = x[kept], other[kept], label[kept], y[kept]
        ones, others = problem.log_likelihood(x, y), problem.log_likelihood(other, y)
        if not all(notes.finite("log_likelihood", *at) for at in ((ones, x), (others, other))):
            return None
        log_odds = others - ones
        return calibration(log_odds, label, _features(log_odds, other - x, y))

    n = affordable(notes, max(problem.x.dim, problem.y.dim), lambda n: test(n, STEPS[0]))
    # Between two draws there is no x without a prior that says so.
    steps = STEPS[:1] if notes.failed("log_prior") else STEPS
    tests = (test(n, step) for step in steps if notes.left())
    found = [each for each in tests if each is not None]
    if any(each.alarm for each in found):
        notes.error(
            "sample_likelihood",
            f"its draws do not follow log_likelihood as x changes, as {n:,} of them show; mend "
            "either, such as a scale or a mean",
        )
        return
    if not any(each.judged for each in found):
        notes.skip("sample_likelihood: whether its draws follow log_likelihood")
    _check_density_of_y(problem, drawn, n, notes)


def _at_ends(variable: Variable | None, y: Tensor) -> Tensor:
    """Which of the draws (n, D_y) lie at the ends of their range: none of counts, (n,)."""
    assert variable is not None
    at_ends = ((y <= variable.low) | (y >= variable.high)).any(-1)
    return at_ends & _continuous(y[~at_ends])


def _continuous(y: Tensor) -> bool:
    return len(y) > 0 and len(y[:, 0].unique()) > 0.9 * len(y)


def _features(log_odds: Tensor, step: Tensor, y: Tensor) -> Tensor:
    """Of the odds, of the step from one x to the other, and of y along it."""
    scale = step.std(0).clamp(min=1e-300)
    step = (step / scale)[:, :3].tanh()
    y = ((y - y.median(0).values) / y.std(0).clamp(min=1e-300))[:, :3].tanh()
    both = (step[:, :, None] * y[:, None, :]).flatten(1)
    return torch.cat([log_odds[:, None].tanh(), log_odds.abs()[:, None].tanh(), step, both], -1)


def _check_density_of_y(problem: Problem, drawn: Drawn, n: int, notes: Notes) -> None:
    for i in range(PLACES):
        if not notes.left():
            return
        x = drawn.x[i, :1]
        y = problem.sample_likelihood(x.expand(n, -1), torch.Generator().manual_seed(8)).double()
        if _at_ends(problem.y, y).any():
            continue  # moved to the ends of the range
        if not _continuous(y):
            return  # counts have no density

        def log_density(y: Tensor, x: Tensor = x) -> Tensor:
            return problem.log_likelihood(x, y)

        found, integral = against_copula(y, log_density, torch.Generator().manual_seed(9))
        if not found.alarm:
            continue
        method, said = _said("likelihood", log_density, y, integral, n)
        at = place(x[0])
        if method == "log_likelihood":
            notes.warning(
                method,
                f"its integral over y is {integral:.3g} at x = {at}, the same for all x: mu is "
                "right, but E2 is not; add the missing constant",
            )
        else:
            notes.error(method, f"{said}; at x = {at}")
        return


def check_reference(problem: Problem, drawn: Drawn, notes: Notes, method: str = "") -> None:
    """Notes a reference whose draws do not follow its density, or that is not normalised.

    Arguments:
        problem: The problem, or its negated one.
        drawn: Cases.
        notes: Where it is noted.
        method: What to name in the place of `sample_reference` and `log_reference`.
    """
    y = drawn.y[:CASES]
    theta = None if drawn.theta is None else drawn.theta[:CASES]

    def draws(n: int, seed: int = 10) -> tuple[Tensor, Tensor]:
        return problem.sample_reference(y, theta, n, torch.Generator().manual_seed(seed))

    def timed(n: int) -> object:
        x, _ = draws(n // CASES)
        return problem.log_reference(x, y, theta)

    n = affordable(notes, problem.x.dim, timed)
    x, log_q = draws(n)
    sampler, density = (method or "sample_reference"), (method or "log_reference")
    if not notes.finite(sampler, x.sum(-1) + log_q, x):
        return
    log_density = problem.log_reference(x, y, theta)
    if not notes.finite(density, log_density, x):
        return
    if not torch.allclose(log_q, log_density, 1e-6, 1e-6):
        apart = float((log_q - log_density).abs().nan_to_num(torch.inf).max())
        notes.error(
            sampler,
            f"the log density that it returns differs from log_reference by up to {apart:.3g} "
            "nats; return log_reference at the draws",
        )
        return
    for case in range(len(y)):

        def of_case(points: Tensor, case: int = case) -> Tensor:
            at = None if theta is None else theta[case]
            return problem.log_reference(points, y[case], at)

        seeded = torch.Generator().manual_seed(11 + case)
        found, integral = against_copula(x[case], of_case, seeded)
        if found.alarm:
            name, said = _said("reference", of_case, draws(n, 20)[0][case], integral, n)
            notes.error(method or name, f"{name}: {said}" if method else said)
            return
        if not found.judged:
            notes.skip(f"{sampler}: whether its draws follow its density, from {n:,} draws")
