r"""Drawing until an estimate is as precise as requested, for one case (y, theta) or for many."""

from __future__ import annotations

__all__ = ["estimate_to"]

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from amci_core._arguments import check_count, check_name, check_number
from amci_core.diagnostics import Verdict
from amci_core.diagnostics.verdict import MORE_DRAWS, NO_TRUST, RELIABLE
from amci_core.estimation.estimate import requirements_of
from amci_core.estimation.result import LEVEL, Estimate, Precise
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators, resolve_names
from amci_core.estimators import Draws, Estimator, moments, resolve
from amci_core.estimators.combine import Counts
from amci_core.estimators.draws import (
    COMPLEMENT,
    COMPLEMENT_SHARE,
    COMPONENTS,
    DEFENSIVE,
    DEFENSIVE_SHARE,
    Array,
    defensive_draws,
    whole_sets,
)
from amci_core.estimators.uncertainty import split_draws
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.reference import LEAST_REFERENCE_DRAWS, reference_value

# The estimators whose draws can go on.
SCHEMES = ("amci-cv", "amci")
# What can give an answer.
BY_DRAWS, BY_DEFENSIVE, BY_REFERENCE = "draws", "defensive draws", "reference value"
SEARCHED = "two searches without proposals found the same mass"
# Where an estimate is refused: the share of the defensive density then, and the standard errors of
# half an interval of a reference value, whose error comes from twelve shifts.
LARGER_SHARE, OF_REFERENCE = 0.5, 2.2
# The rounding of an estimate itself.
LEAST_ERROR = 1e-15
# From fewer draws of a proposal than this, a standard error is not to be believed.
FIRST_DRAWS = 128
# Of a batch, cases that need no more than these are done at once.
QUICK_DRAWS = 32
# A step goes a little past what the error so far needs, and never far past it.
MARGIN, LEAST_GROWTH, LARGEST_GROWTH = 1.1, 1.2, 4.0
# Of a batch, cases go on together whose draws to come differ by less than this factor.
GRID = 1.25
# Points of a group of cases, for memory.
POINTS = 100_000


class _Group(NamedTuple):
    """Cases that have had, and get next, the same numbers of draws.

    Arguments:
        rows: Their numbers, (R,).
        more: Draws of each component to come, (5,).
        draws: The draws so far, of batch shape (R); None before the first.
        dropped: Draws that were made before and are not among these, (5,).
    """

    rows: NDArray[np.int64]
    more: Counts
    draws: Draws | None = None
    dropped: Counts | int = 0

    def parts(self) -> list[_Group]:
        """The same in groups with few enough points."""
        had = 0 if self.draws is None else self.draws.n
        size = max(1, POINTS // (had + int(self.more.sum())))
        slices = [slice(i, i + size) for i in range(0, len(self.rows), size)]
        return [
            self._replace(
                rows=self.rows[s], draws=None if self.draws is None else self.draws.of(s)
            )
            for s in slices
        ]


def estimate_to(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    y: Any = None,
    theta: Any = None,
    *,
    relative_error: float = 0.01,
    max_draws: int = 1_000_000,
    estimator: str = "amci-cv",
    escalate: bool = False,
    points: str | None = None,
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Precise:
    """Draws until the half-width of the 95 % interval is below a share of the estimate.

    A single case starts with 128 draws of each proposal, and splits what follows as their moments
    say. Intervals are computed again and again, so that the stated precision is reached somewhat
    too early now and then. An estimate whose verdict is not "reliable" goes on with four times the
    draws; one that is still "do not trust" after that gives up.

    Of q1_complement `amci-cv` takes an eighth as many as of all proposals.

    Cases of a batch start with 32 draws of each proposal. Those are done at once whose interval is
    narrow enough and whose verdict is "reliable"; the others go on to 128 and then as single ones
    do, with those that need about as many draws. All cases of a batch share one stream of random
    numbers: the draws of one depend on the others.

    With `escalate`, a case whose verdict is still not "reliable" is tried in another way: by
    `amci-cv` with half of the draws from the defensive density, and then by `reference_value`,
    which needs no proposals. `Precise.answered_by` names the way that gave the answer, and
    `Precise.spent` says what each one cost.

    Arguments:
        problem: A problem, or the name of a registered one.
        proposals: Its proposals, or the name of a variant; the default ones if left out.
        y: The observation, (*, D_y) or a number; None if the problem has no y.
        theta: Parameter of f, (*, D_theta) or a number; None if the problem has none.
        relative_error: Requested half-width, as a share of the estimate, from 1e-15, the rounding
            of the estimate itself, to 1.
        max_draws: Draws of a case after which it gives up, in each way.
        estimator: `amci-cv` or `amci`.
        escalate: Whether to go on in other ways where the verdict is not "reliable".
        points: `independent` draws (default), or `sobol`: each step then draws larger sets of
            Sobol points, and those before count as draws too.
        seed: Whole number >= 0.
        progress: Called after each step with an entry of `Precise.steps`.

    Returns:
        `Precise`: `value`, `standard_error` and `relative_half_width` (*), `reached`,
        whether that is as small as requested, and `draws`, what it took.

    Raises:
        ValueError: an argument is out of range or unknown.

    Example:
        >>> import amci_core as amci
        >>> found = amci.estimate_to("tail-1d", y=[[0.0], [1.0]], theta=3.0)
        >>> found.reached.tolist(), found.draws.tolist()
        ([True, True], [83, 83])
    """
    problem, proposals = resolve_names(problem, proposals)
    chosen = resolve(check_name("estimator", estimator, SCHEMES), points=points)
    expected = f"a number from {LEAST_ERROR:g} to 1"
    check_number("relative_error", relative_error, expected, lambda v: LEAST_ERROR <= v <= 1)
    y, theta = problem.check(y, theta)
    least = int(_first(chosen, proposals, FIRST_DRAWS, DEFENSIVE_SHARE).sum())
    low = max(least, LEAST_REFERENCE_DRAWS) if escalate else least
    check_count("max_draws", max_draws, low=low, high=MAX_POINTS)
    asked = (relative_error, max_draws, seed, progress)
    found = _by_draws(problem, proposals, y, theta, chosen, DEFENSIVE_SHARE, *asked)
    if escalate:
        for way in (_by_defensive_draws, _by_reference):
            refused = np.asarray(found.verdict.codes != RELIABLE)
            if refused.any():
                mask = torch.as_tensor(refused)
                cases = y[mask], None if theta is None else theta[mask]
                found = found.replaced(refused, way(problem, proposals, *cases, *asked))
    return found


def _by_defensive_draws(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, *asked: Any
) -> Precise:
    by_all = resolve("amci-cv", points="independent")
    return _by_draws(problem, proposals, y, theta, by_all, LARGER_SHARE, *asked)


def _by_reference(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, *asked: Any
) -> Precise:
    """The reference values of cases (n); "do not trust" where one fails, with its reason."""
    relative_error, max_draws, seed, _ = asked
    figures, spent = np.full((2, len(y)), np.nan), np.zeros(len(y), dtype=np.int64)
    codes, why = np.full(len(y), NO_TRUST), np.empty(len(y), object)
    for i in range(len(y)):
        case = y[i], None if theta is None else theta[i]
        try:
            found = reference_value(
                problem, *case, relative_error=relative_error / 4, draws=max_draws, seed=seed
            )
        except ValueError as failure:
            why[i] = (f"the reference value fails: {failure}",)
            continue
        figures[:, i], spent[i] = (found.value, found.standard_error), found.draws
        narrow = OF_REFERENCE * found.standard_error <= relative_error * abs(found.value)
        codes[i] = RELIABLE if narrow else MORE_DRAWS
        why[i] = (SEARCHED if narrow else "the reference value is not precise enough",)
    value, error = figures
    half = OF_REFERENCE * error
    width = half / np.abs(value)
    return Precise(
        value=value,
        standard_error=error,
        interval=(value - half, value + half),
        relative_half_width=width,
        reached=codes == RELIABLE,
        counts=np.zeros((len(y), len(COMPONENTS)), dtype=np.int64),
        verdict=Verdict(codes, why, *np.full((2, len(y)), np.nan)),
        steps=((int(spent.sum()), float(np.nanmax(width, initial=0.0))),),
        answered_by=np.full(len(y), BY_REFERENCE),
        spent={BY_REFERENCE: spent},
    )


def _by_draws(
    problem: Problem,
    proposals: Proposals,
    y: Tensor,
    theta: Tensor | None,
    chosen: Estimator,
    share: float,
    relative_error: float,
    max_draws: int,
    seed: int,
    progress: Callable[[int, float], None] | None,
) -> Precise:
    """The estimates with that share of their draws from the defensive density."""
    first = _first(chosen, proposals, FIRST_DRAWS, share)
    scrambled = chosen.points == "sobol"
    for_points, for_defensive = generators(seed)[0], generators(seed, "defensive")[0]

    batch, n = tuple(y.shape[:-1]), math.prod(y.shape[:-1])
    y, theta = y.reshape(n, -1), None if theta is None else theta.reshape(n, -1)
    # The value, its standard error, the ends of its interval and the half-width of each case.
    figures = np.full((5, n), np.nan)
    reached, counts = np.zeros(n, dtype=bool), np.zeros((n, len(COMPONENTS)), dtype=np.int64)
    codes, why, determined = np.zeros(n, dtype=np.int64), np.empty(n, object), np.zeros((2, n))
    steps: list[tuple[int, float]] = []
    spent, single = 0, None

    def estimated(draws: Draws, rows: Any, dropped: Any) -> Estimate:
        return Estimate(
            chosen.apply(draws),
            draws=draws.n + int(np.sum(dropped)),
            positive=problem.nonnegative,
            requirements=requirements_of(
                proposals, y[rows], None if theta is None else theta[rows]
            ),
        )

    start = _first(chosen, proposals, QUICK_DRAWS, share) if batch else first
    unfinished = _Group(np.arange(n), start).parts()[::-1]
    while unfinished:
        rows, more, draws, dropped = unfinished.pop()
        sampler = Sampler(problem, proposals, y[rows], None if theta is None else theta[rows])
        new = sampler.draw(
            more, for_points, points=chosen.points, defensive_generator=for_defensive
        )
        # A quick look is none to give up after.
        again = draws is not None and max(draws.counts.values()) >= FIRST_DRAWS
        if scrambled and draws is not None:
            dropped = dropped + np.array([draws.count(j) for j in range(len(COMPONENTS))])
        draws = new if draws is None or scrambled else draws.joined(new)
        found = estimated(draws, rows, dropped)
        low, high = found.interval(LEVEL)
        widths = found.relative_half_width(LEVEL)
        narrow = (found.verdict.codes == RELIABLE) & (widths <= relative_error)
        made = np.array([draws.count(j) for j in range(len(COMPONENTS))]) + dropped
        most = max_draws - int(made.sum()) if scrambled else max_draws
        done = narrow | (most < 2 * draws.n if scrambled else most <= draws.n)
        done |= (found.verdict.codes == NO_TRUST) & again
        ended = rows[done]
        said = np.stack([found.value, found.standard_error, low, high, widths])
        figures[:, ended], reached[ended] = said[:, done], narrow[done]
        counts[ended] = made
        codes[ended], why[ended] = found.verdict.codes[done], found.verdict.why[done]
        determined[:, ended] = found.verdict.determined_by[done], found.verdict.needed[done]
        if not batch and done.all():
            single = estimated(draws.of(0), 0, dropped)
        spent += len(rows) * new.n
        steps.append((spent, float(widths.max())))
        if progress is not None:
            progress(*steps[-1])
        if not done.all():
            going = np.flatnonzero(~done)
            draws = draws.of(going)
            ratios = widths[going] / relative_error
            plans = _plans(draws, chosen, ratios, first, most, bool(batch), share)
            for plan in np.unique(plans, axis=0):
                same = np.flatnonzero((plans == plan).all(axis=1))
                group = _Group(rows[going[same]], plan, draws.of(same), dropped)
                unfinished += group.parts()

    value, error, lower, upper, width = figures.reshape(5, *batch)
    way = BY_DRAWS if share == DEFENSIVE_SHARE else BY_DEFENSIVE
    return Precise(
        value=value,
        standard_error=error,
        interval=(lower, upper),
        relative_half_width=width,
        reached=reached.reshape(batch),
        counts=counts.reshape(*batch, len(COMPONENTS)),
        verdict=Verdict(codes.reshape(batch), why.reshape(batch), *determined.reshape(2, *batch)),
        steps=tuple(steps),
        answered_by=np.full(batch, way),
        spent={way: counts.sum(-1).reshape(batch)},
        single=single,
    )


def _first(chosen: Estimator, proposals: Proposals, n: int, share: float) -> Counts:
    """n draws of each proposal of a table, with those beside them of the others, (5,)."""
    counts = n * np.isin(range(len(COMPONENTS)), proposals.present)
    if COMPLEMENT in chosen.used(proposals.numbers):
        counts[COMPLEMENT] = round(int(counts.sum()) * COMPLEMENT_SHARE / (1 - COMPLEMENT_SHARE))
    return _with_defensive(counts, share)


def _with_defensive(counts: Counts, share: float) -> Counts:
    """Draws of the proposals, (5,), with those of the defensive density beside them."""
    own = counts.astype(np.int64)
    own[DEFENSIVE] = 0
    own[DEFENSIVE] = defensive_draws(round(int(own.sum()) / (1 - share)), share)
    return own


def _plans(
    draws: Draws,
    scheme: Estimator,
    ratios: Array,
    first: Counts,
    max_draws: int,
    batch: bool,
    share: float,
) -> Counts:
    """Draws of each component that each of R cases takes next, (R, 5).

    Arguments:
        draws: The draws so far.
        scheme: The estimator.
        ratios: Half-widths over the requested ones, (R,).
        first: Draws of each component that every case needs.
        max_draws: Most draws of a case.
        batch: Whether numbers are rounded up to a grid, so that many cases draw at once.
        share: The share of all draws that the defensive density makes.
    """
    counts = np.array([draws.count(j) for j in range(len(COMPONENTS))])
    scrambled = scheme.points == "sobol"
    if (counts[:DEFENSIVE] < first[:DEFENSIVE]).any():
        return np.tile(first if scrambled else first - counts, (len(ratios), 1))
    had, most = int(counts.sum()) - draws.count(DEFENSIVE), int(max_draws * (1 - share))
    of_complement = COMPLEMENT_SHARE * (draws.count(COMPLEMENT) > 0)
    # The error falls with the root of the draws. An interval that is narrow enough was not
    # reliable: its draws are worth little.
    growth = np.clip(
        MARGIN * np.minimum(ratios, LARGEST_GROWTH) ** 2,
        2.0 if scrambled else LEAST_GROWTH,
        LARGEST_GROWTH,
    )
    growth = np.where(ratios <= 1, LARGEST_GROWTH, growth)
    seen, plans = moments(draws), []
    for place, room in enumerate(np.minimum(most, np.ceil(had * growth)).astype(int) - had):
        own = np.zeros(len(COMPONENTS), dtype=np.int64)
        own[COMPLEMENT] = round(of_complement * (had + room))
        rest = had + room - int(own[COMPLEMENT])
        if share > DEFENSIVE_SHARE:  # moments misled the draws before
            own[:DEFENSIVE] = (counts[:DEFENSIVE] > 0) * rest // len(draws.present)
        else:
            table = np.diag(np.isin(range(3), draws.present) * 1.0)
            own[:DEFENSIVE] = split_draws(table, seen[place], rest)
        more = np.maximum(own - counts, 0)
        if more.sum() > room:
            more = np.floor(more * room / more.sum()).astype(np.int64)
        if more.sum() == 0:
            more[draws.present[-1]] = max(room, 1)
        if batch:
            with np.errstate(divide="ignore"):
                powers = np.ceil(np.log(more) / math.log(GRID) - 1e-9)
            grid = np.where(more > 0, np.ceil(GRID**powers), 0).astype(np.int64)
            more = grid if grid.sum() <= most - had else more
        plan = np.maximum(_with_defensive(counts + more, share) - counts, more)
        # At least one of these, so that their densities are known at the new draws.
        least = [j for j in (DEFENSIVE, COMPLEMENT) if draws.count(j)]
        plan[least] = np.maximum(plan[least], 1)
        plan[more.argmax()] -= max(draws.n + int(plan.sum()) - max_draws, 0)
        plans.append(whole_sets(counts + plan) if scrambled else plan)
    return np.array(plans)
