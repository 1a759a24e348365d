r"""Estimates of mu(y, theta), from so many draws or as precise as requested."""

from __future__ import annotations

__all__ = ["estimate", "estimate_to", "requirements_of"]

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from amci_core._arguments import check_count, check_number, seed_from
from amci_core.diagnostics import Verdict
from amci_core.diagnostics.verdict import NOTHING_KNOWN, RELIABLE, Requirements, requirements_near
from amci_core.estimation.result import LEVEL, Estimate, Precise
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators, resolve_names
from amci_core.estimators import Estimator, resolve
from amci_core.estimators.base import Counts
from amci_core.estimators.draws import (
    COMPLEMENT,
    COMPLEMENT_SHARE,
    COMPONENTS,
    DEFENSIVE,
    DEFENSIVE_SHARE,
    PROPOSALS,
    Array,
    defensive_draws,
    whole_sets,
)
from amci_core.estimators.uncertainty import Uncertainty
from amci_core.flows import Proposals
from amci_core.models import Problem

# The rounding of an estimate itself.
LEAST_ERROR = 1e-15
FIRST_DRAWS = 128
# Points of cases that are estimated at once, for memory.
POINTS = 100_000

PerCase = TypeVar("PerCase", Uncertainty, Verdict)


def estimate(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    y: Any = None,
    theta: Any = None,
    *,
    draws: int | Mapping[str, int] = 128,
    estimator: str | Array | Estimator = "amci-cv",
    defensive: float = DEFENSIVE_SHARE,
    shift: float = 0.0,
    points: str | None = None,
    diagnose: bool = True,
    seed: int | None = 0,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """Estimates mu(y, theta) = E[f(x; theta)] under p(x | y).

    All cases of a batch share one stream of random numbers: a case gets other draws in a batch
    than it gets alone with the same seed.

    Arguments:
        problem: The problem, or the name of a shipped one.
        proposals: The proposals to draw from, or the name of a shipped variant; by default the
            shipped default variant.
        y: The observation: a number (if y has one dimension) or an array of shape (*, D_y). None
            if the problem has no y.
        theta: Parameter of f, (*, D_theta); y and theta broadcast. None if the problem has none.
        draws: Total number of draws T, those of the defensive density included. A
            mapping such as `{"q1_plus": 64, "q2": 64}` sets it for each proposal that the
            estimator uses; draws of the defensive density, and those of `q1_complement` if
            `amci-cv` has them and they are left out, are then added.
        estimator: A name of `amci_core.estimators.ESTIMATORS` or a table of coefficients. The
            default `amci-cv`, AMCI with control variates, uses all draws for every term.
        defensive: Share of all draws, from 0 to below 1, from the problem's defensive density: at
            least four, if two of each proposal are left. They are part of `amci-cv` and judge
            every other estimator. With 0, no draw can tell what all proposals miss.
        shift: A constant c: f - c is split into its positive and negative part, and c is added
            back. A c below f everywhere leaves no negative part.
        points: `independent` draws, the default, or `sobol`: each proposal transports scrambled
            Sobol points, for `amci-cv`, `amci` and other tables of fixed coefficients. They come
            in 16 to 31 independent sets of 2^k points, whose sums give the standard error, so that
            somewhat less than `draws` can be drawn. What transports none draws independent points:
            some proposals from elsewhere, and the defensive density where the problem defines no
            `prior_from_uniform` or `defensive_from_uniform`.
        diagnose: False leaves out what only errors and verdicts need: draws of the defensive
            density, and the density of each proposal at the draws of others. With `amci` or
            another table a batch is then 15 to 40 times as fast; `value` and `terms` are all that
            the result can give.
        seed: Whole number >= 0; the same seed gives the same draws. None for a random one.
        rng: Generator of a seed, in the place of `seed`.

    Returns:
        `Estimate`: `value` (*), in units of f, `standard_error`, `interval(level)`,
        `verdict`, and per term `terms` and `diagnostics`; printing it says all of that for
        one case.

    References:
        Section 4 of the paper, footnote on the shift.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown.

    Example:
        >>> import amci_core as amci
        >>> e = amci.estimate("tail-1d", y=1.0, theta=3.0, draws=128)
        >>> truth = amci.problem("tail-1d").truth(1.0, 3.0)
        >>> bool(abs(e.value / truth - 1) < 1e-3), str(e.verdict.level)
        (True, 'reliable')
    """
    problem, proposals = resolve_names(problem, proposals)
    chosen = resolve(estimator, points=points)
    expected = "a number from 0 to below 1"
    check_number("defensive", defensive, expected, lambda share: 0 <= share < 1)
    y, theta = problem.check(y, theta)
    shift = check_number("shift", shift)
    if shift and type(problem).shifted is Problem.shifted:
        warnings.warn(
            f"shift: the proposals of {problem.name} were trained for f, not for f - {shift:g}: "
            "expect larger errors, and check the verdict",
            stacklevel=2,
        )
    sampler = Sampler(problem, proposals, y, theta, shift)
    used, value_alone = chosen.used(sampler.present), not diagnose and chosen.own_densities
    defensive = 0.0 if value_alone else defensive
    if isinstance(draws, Mapping):
        counts = _per_proposal(draws, used, defensive)
        counts = whole_sets(counts) if chosen.points == "sobol" else counts
    else:
        check_count("draws", draws, low=1, high=MAX_POINTS)
        counts = chosen.counts([draws], sampler.present, defensive)[0]
    # An estimator that chooses the proposal of each draw by chance needs enough of each.
    of_proposals = int(counts.sum() - counts[DEFENSIVE])
    reserve = counts if chosen.fixed else chosen.reserve([of_proposals], sampler.present)
    reserve[DEFENSIVE] = counts[DEFENSIVE]
    points = int(reserve.sum()) * math.prod(y.shape[:-1])
    check_count("draws, of all proposals and cases together", points, low=1, high=MAX_POINTS)
    seed = seed_from(seed, rng)
    for_points, for_choices = generators(seed)
    drawn = sampler.draw(
        reserve,
        for_points,
        points=chosen.points,
        own_only=value_alone,
        defensive_generator=generators(seed, "defensive")[0],
    )
    if chosen.fixed:
        prepared = chosen.apply(drawn)
    else:
        prepared = chosen.running(drawn, [of_proposals], for_choices)
    # The long check is of all proposals together.
    all_used = {j for j in sampler.present if j < len(PROPOSALS)} <= set(used)
    requirements = requirements_of(proposals, y, theta) if all_used else NOTHING_KNOWN
    return Estimate(prepared, problem.nonnegative and not shift, shift, requirements)


def requirements_of(proposals: Proposals, y: Tensor, theta: Tensor | None) -> Requirements:
    """What the long check of these proposals, if there was one, says of estimates at y, theta."""
    check = proposals.card.get("configuration", {}).get("verdict")
    if check is None:
        return NOTHING_KNOWN
    return requirements_near(check, y.numpy(), None if theta is None else theta.numpy())


def _per_proposal(draws: Mapping[str, int], used: Sequence[int], share: float) -> Counts:
    names = [COMPONENTS[j] for j in used]
    if not set(names) - {COMPONENTS[COMPLEMENT]} <= set(draws) <= set(names):
        raise ValueError(
            f"draws: expected a number for each of {', '.join(names)}, the estimator's proposals, "
            f"got {dict(draws)}"
        )
    for name, count in draws.items():
        check_count(f"draws of {name}", count, low=1, high=MAX_POINTS)
    counts = np.array([draws.get(name, 0) for name in COMPONENTS])
    if set(draws) < set(names):
        of_complement = int(counts.sum()) * COMPLEMENT_SHARE / (1 - COMPLEMENT_SHARE)
        counts[COMPLEMENT] = max(round(of_complement), 1)
    counts[DEFENSIVE] = defensive_draws(round(int(counts.sum()) / (1 - share)), share)
    return counts


def estimate_to(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    y: Any = None,
    theta: Any = None,
    *,
    relative_error: float = 0.01,
    draws: int = 1_000_000,
    estimator: str | Array | Estimator = "amci-cv",
    defensive: float = DEFENSIVE_SHARE,
    points: str | None = None,
    seed: int | None = 0,
    rng: np.random.Generator | None = None,
) -> Precise:
    """Doubles the draws until the half-width of the 95 % interval is a share of the estimate.

    Each case starts with 128 draws. It is done when its interval is narrow enough and its verdict
    is "reliable"; else it gets twice as many new draws. All cases of a batch share one stream of
    random numbers: the draws of one depend on the others.

    Arguments:
        problem: A problem, or the name of a registered one.
        proposals: Its proposals, or the name of a variant; the default ones if left out.
        y: The observation, (*, D_y) or a number; None if the problem has no y.
        theta: Parameter of f, (*, D_theta) or a number; None if the problem has none.
        relative_error: Requested half-width, as a share of the estimate, from 1e-15, the rounding
            of the estimate itself, to 1.
        draws: Most draws of a case, all its estimates together.
        estimator: A name or an estimator, see `estimate`.
        defensive: Share of all draws from the problem's defensive density.
        points: `independent` or `sobol`, as for `estimate`.
        seed: Whole number >= 0; None for a random one.
        rng: Generator of a seed, in the place of `seed`.

    Returns:
        `Precise`: `value`, `standard_error` and `interval(level)`, `reached`, whether that is as
        precise as requested, and `draws`, what it took, (*) each.

    Raises:
        ValueError: an argument is out of range or unknown.

    Example:
        >>> import amci_core as amci
        >>> found = amci.estimate_to("tail-1d", y=[[0.0], [1.0]], theta=3.0)
        >>> found.reached.tolist(), found.draws.tolist()
        ([True, True], [128, 128])
    """
    problem, proposals = resolve_names(problem, proposals)
    chosen = resolve(estimator, points=points)
    expected = f"a number from {LEAST_ERROR:g} to 1"
    check_number("relative_error", relative_error, expected, lambda v: LEAST_ERROR <= v <= 1)
    check_count("draws", draws, low=1, high=MAX_POINTS)
    rng = np.random.default_rng(seed_from(seed, rng))
    y, theta = problem.check(y, theta)
    batch = tuple(y.shape[:-1])
    y = y.reshape(math.prod(batch), y.shape[-1])
    theta = None if theta is None else theta.reshape(len(y), theta.shape[-1])

    def estimates(cases: NDArray[np.int64], total: int) -> Estimate:
        return estimate(
            problem,
            proposals,
            y[cases],
            None if theta is None else theta[cases],
            draws=total,
            estimator=chosen,
            defensive=defensive,
            rng=rng,
        )

    parts = []
    unfinished, total, before = np.arange(len(y)), min(FIRST_DRAWS, draws), 0
    while len(unfinished):
        following = min(2 * total, draws - before - total)
        left, at_once = [], max(POINTS // total, 1)
        for cases in np.split(unfinished, range(at_once, len(unfinished), at_once)):
            e = estimates(cases, total)
            reached = e.verdict.codes == RELIABLE
            reached &= e.relative_half_width(LEVEL) <= relative_error
            ends = reached if following > total else np.ones_like(reached)
            spent = np.full(ends.sum(), before + e.draws)
            uncertainty = _of_cases(e.uncertainty, ends)
            parts.append((cases[ends], e.value[ends], uncertainty, e.verdict[ends], spent))
            left.append(cases[~ends])
        unfinished, before, total = np.concatenate(left), before + e.draws, following

    ended, values, uncertainties, verdicts, spent_by_part = zip(*parts, strict=True)
    order = np.argsort(np.concatenate(ended))
    return Precise(
        value=np.concatenate(values)[order].reshape(batch),
        uncertainty=_joined(uncertainties, order, batch),
        verdict=_joined(verdicts, order, batch),
        draws=np.concatenate(spent_by_part)[order].reshape(batch),
        relative_error=relative_error,
    )


def _of_cases(figures: Uncertainty, cases: NDArray[np.bool_]) -> Uncertainty:
    return Uncertainty(*(getattr(figures, field.name)[cases] for field in fields(figures)))


def _joined(parts: Sequence[PerCase], order: NDArray[np.int64], batch: tuple[int, ...]) -> PerCase:
    """The figures of all cases, (*), from those of parts of them."""
    whole = []
    for field in fields(parts[0]):
        column = np.concatenate([getattr(part, field.name) for part in parts])[order]
        whole.append(column.reshape(batch + column.shape[1:]))
    return type(parts[0])(*whole)
