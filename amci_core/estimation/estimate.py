r"""One estimate of mu(y, theta), with its uncertainty and what it is made of."""

from __future__ import annotations

__all__ = ["estimate", "requirements_of"]

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from amci_core._arguments import check_count, check_number, seed_from
from amci_core.diagnostics.verdict import NOTHING_KNOWN, Requirements, requirements_near
from amci_core.estimation.result import Estimate
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators, resolve_names
from amci_core.estimators import (
    COMPONENTS,
    PROPOSALS,
    Estimator,
    resolve,
)
from amci_core.estimators.base import Counts
from amci_core.estimators.draws import (
    COMPLEMENT,
    COMPLEMENT_SHARE,
    DEFENSIVE,
    DEFENSIVE_SHARE,
    Array,
    defensive_draws,
    whole_sets,
)
from amci_core.flows import Proposals
from amci_core.models import Problem


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
