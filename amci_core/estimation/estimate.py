r"""One estimate of mu(y, theta), with its uncertainty and what it is made of."""

from __future__ import annotations

__all__ = ["estimate", "pilot_moments", "requirements_of"]

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from amci_core._arguments import check_count, check_number
from amci_core.diagnostics.verdict import NOTHING_KNOWN, Requirements, requirements_near
from amci_core.estimation.result import Estimate
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators, resolve_names
from amci_core.estimators import (
    COMPONENTS,
    PROPOSALS,
    Draws,
    Estimator,
    Moments,
    moments,
    resolve,
)
from amci_core.estimators.budget import split_draws
from amci_core.estimators.combine import Counts
from amci_core.estimators.draws import (
    COMPLEMENT,
    DEFENSIVE,
    DEFENSIVE_SHARE,
    Array,
    defensive_draws,
    split_evenly,
    whole_sets,
)
from amci_core.flows import Proposals
from amci_core.models import Problem

PILOT_DRAWS = 64


def estimate(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    y: Any = None,
    theta: Any = None,
    *,
    draws: int | Mapping[str, int] = 128,
    estimator: str | Array | Estimator = "amci-cv",
    alpha: float | None = None,
    beta: float | None = None,
    defensive: float = DEFENSIVE_SHARE,
    shift: float | str = 0.0,
    split: str = "even",
    pilot: int = PILOT_DRAWS,
    points: str | None = None,
    diagnose: bool = True,
    seed: int = 0,
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
        draws: Total number of draws T, those of the defensive density and of pilots included. A
            mapping such as `{"q1_plus": 64, "q2": 64}` sets it for each proposal that the
            estimator uses, as `split_draws` does; draws of the defensive density are then added.
        estimator: A name of `amci_core.estimators.ESTIMATORS` or a table of coefficients. The
            default `amci-cv`, AMCI with control variates, uses all draws for every term.
        alpha: With `reuse`, the share of E1 that comes from q1's draws.
        beta: With `reuse`, the share of E2 that comes from q1's draws.
        defensive: Share of all draws, from 0 to below 1, from the problem's defensive density: at
            least four, if two of each proposal are left. They are part of `amci-cv` and judge
            every other estimator. With 0, no draw can tell what all proposals miss.
        shift: A constant c: f - c is split into its positive and negative part, and c is added
            back. A c below f everywhere leaves no negative part. `pilot` takes an estimate of mu
            from a pilot, for a single case.
        split: `even`, or `pilot`: the draws of AMCI, or of another estimator that draws from
            several proposals, are split by `split_draws` with the moments of a pilot, which is
            part of the total. For a single case.
        pilot: Draws of each proposal in a pilot; they are not used again.
        points: `independent` draws, the default, or `sobol`: each proposal transports scrambled
            Sobol points, for `amci-cv`, `amci` and other tables of fixed coefficients. They come
            in 4 to 7 independent sets of 2^k points, whose sums give the standard error, so that
            somewhat less than `draws` can be drawn. What transports none draws independent points:
            some proposals from elsewhere, and the defensive density where the problem defines no
            `prior_from_uniform` or `defensive_from_uniform`.
        diagnose: False leaves out what only errors and verdicts need: draws of the defensive
            density, and the density of each proposal at the draws of others. With `amci` or
            another table a batch is then 15 to 40 times as fast; `value` and `terms` are all that
            the result can give.
        seed: Whole number >= 0; the same seed gives the same draws.

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
        >>> found = amci.estimate("tail-1d", y=1.0, theta=3.0, draws=128)
        >>> truth = amci.problem("tail-1d").truth(1.0, 3.0)
        >>> bool(abs(found.value / truth - 1) < 1e-3), str(found.verdict.level)
        (True, 'reliable')
    """
    problem, proposals = resolve_names(problem, proposals)
    chosen = resolve(estimator, alpha=alpha, beta=beta, points=points)
    expected = "a number from 0 to below 1"
    check_number("defensive", defensive, expected, lambda share: 0 <= share < 1)
    if split not in ("even", "pilot"):
        raise ValueError(f"split: expected even or pilot, got {split!r}")
    y, theta = problem.check(y, theta)
    constant, spent = _constant(problem, proposals, y, theta, shift, pilot=pilot, seed=seed)
    sampler = Sampler(problem, proposals, y, theta, constant)
    used, own_only = chosen.used(sampler.present), not diagnose and chosen.own_densities
    share = 0.0 if own_only else defensive
    if isinstance(draws, Mapping):
        counts = _per_proposal(draws, used, share)
    else:
        check_count("draws", draws, low=1, high=MAX_POINTS)
        if split == "pilot" and len(used) > 1:
            counts, spent = _by_pilot(sampler, chosen, draws, spent, share, pilot, seed)
        else:
            counts = chosen.split(draws, used, share, spent=spent)
    if chosen.points == "sobol":
        counts = whole_sets(counts)
    # An estimator that chooses the proposal of each draw by chance needs enough of each.
    own = int(counts.sum() - counts[DEFENSIVE])
    reserve = counts if chosen.fixed else np.isin(range(len(COMPONENTS)), used) * own
    reserve[DEFENSIVE] = counts[DEFENSIVE]
    points = int(reserve.sum()) * math.prod(y.shape[:-1])
    check_count("draws, of all proposals and cases together", points, low=1, high=MAX_POINTS)
    for_points, for_choices = generators(seed)
    drawn = sampler.draw(
        reserve,
        for_points,
        common=chosen.common,
        points=chosen.points,
        own_only=own_only,
        defensive_generator=generators(seed, "defensive")[0],
    )
    return Estimate(
        prepared=chosen.prepare_all(drawn)
        if chosen.fixed
        else chosen.prepare(drawn, [own], for_choices),
        draws=(drawn.n if chosen.fixed else int(counts.sum())) + spent,
        positive=problem.nonnegative and not constant,
        shift=constant,
        # The check is of all proposals together; both sides of f are all of it.
        requirements=requirements_of(proposals, y, theta)
        if COMPLEMENT in used or used == _of_table(sampler)
        else NOTHING_KNOWN,
    )


def requirements_of(proposals: Proposals, y: Tensor, theta: Tensor | None) -> Requirements:
    """What the long check of these proposals, if there was one, says of estimates at y, theta."""
    check = proposals.card.get("configuration", {}).get("verdict")
    if check is None:
        return NOTHING_KNOWN
    return requirements_near(check, y.numpy(), None if theta is None else theta.numpy())


def pilot_moments(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    y: Any = None,
    theta: Any = None,
    *,
    draws: int = PILOT_DRAWS,
    shift: float = 0.0,
    seed: int = 0,
) -> Moments:
    """Pooled moments from a few draws of each proposal, for `split_draws` and `tables.optimum`.

    Arguments:
        problem: A problem, or the name of a registered one.
        proposals: Its proposals, or the name of a variant; the default ones if left out.
        y: The observation, (*, D_y) or a number; None if the problem has no y.
        theta: Parameter of f, (*, D_theta) or a number; None if the problem has none.
        draws: Total number of draws, at least two of each proposal.
        shift: The constant c taken from f.
        seed: Whole number >= 0.

    Returns:
        `Moments`: mean and covariance of (f_plus w, f_minus w, w) for one draw of each
        proposal, (*).

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown.

    Example:
        >>> import amci_core as amci
        >>> seen = amci.pilot_moments("tail-1d", y=1.0, theta=3.0, draws=100)
        >>> list(amci.split_draws(seen, 1000))
        ['q1_plus', 'q2']
    """
    problem, proposals = resolve_names(problem, proposals)
    sampler = Sampler(problem, proposals, *problem.check(y, theta), check_number("shift", shift))
    present = _of_table(sampler)
    check_count("draws", draws, low=2 * len(present), high=MAX_POINTS)
    counts = split_evenly(draws, present, 0.0)
    return moments(sampler.draw(counts, generators(seed, "pilot")[0]))


def _of_table(sampler: Sampler) -> tuple[int, ...]:
    """The proposals there that a table has a row for."""
    return tuple(j for j in sampler.present if j < len(PROPOSALS))


def _pilot(argument: str, sampler: Sampler, pilot: int, seed: int, *, purpose: str) -> Draws:
    if sampler.y.ndim > 1:
        batch = tuple(sampler.y.shape[:-1])
        raise ValueError(
            f"{argument}: pilot needs a single case, got batch shape {batch}. Loop over the cases"
        )
    check_count("pilot", pilot, low=2, high=MAX_POINTS)
    counts = np.isin(range(len(PROPOSALS)), sampler.present) * pilot
    return sampler.draw(counts, generators(seed, purpose)[0])


def _constant(
    problem: Problem,
    proposals: Proposals,
    y: Tensor,
    theta: Tensor | None,
    shift: float | str,
    *,
    pilot: int,
    seed: int,
) -> tuple[float, int]:
    """The shift c, and the draws of its pilot."""
    spent = 0
    if shift == "pilot":
        sampler = Sampler(problem, proposals, y, theta)
        drawn = _pilot("shift", sampler, pilot, seed, purpose="shift")
        shift = float(resolve("amci").prepare_all(drawn).combine().value[..., -1])
        if not np.isfinite(shift):
            raise ValueError("shift: the pilot gave no estimate. Raise pilot")
        spent = pilot * len(_of_table(sampler))
    shift = check_number("shift", shift, "a finite number or pilot")
    if shift and type(problem).shifted is Problem.shifted:
        warnings.warn(
            f"shift: the proposals of {problem.name} were trained for f, not for f - {shift:g}: "
            "expect larger errors, and check the verdict",
            stacklevel=3,
        )
    return shift, spent


def _by_pilot(
    sampler: Sampler,
    chosen: Estimator,
    draws: int,
    spent: int,
    share: float,
    pilot: int,
    seed: int,
) -> tuple[Counts, int]:
    """Draws of each component, (5,), by a pilot, and what pilots have drawn."""
    known = moments(_pilot("split", sampler, pilot, seed, purpose="pilot"))
    spent += pilot * len(_of_table(sampler))
    of_defensive = defensive_draws(draws, share)
    least = spent + of_defensive + len(chosen.used(sampler.present))
    if draws < least:
        raise ValueError(
            f"draws: expected at least {least}, {spent} of them for pilots and {of_defensive} "
            f"for the defensive density, got {draws}. Raise draws, or lower pilot"
        )
    own, of_complement = draws - spent - of_defensive, 0
    if COMPLEMENT in chosen.used(sampler.present):
        of_complement = max(round((chosen.complement or 0) * own), 1)
    by_name = split_draws(known, own - of_complement, estimator=chosen)
    of_table = [by_name.get(name, 0) for name in PROPOSALS]
    counts = np.array([*of_table, of_defensive, of_complement])
    # One draw of a component says nothing of its variance.
    short = counts[:3] == 1
    if counts[:3].max() > 2:
        counts[:3][short] += 1
        counts[counts[:3].argmax()] -= int(short.sum())
    return counts, spent


def _per_proposal(draws: Mapping[str, int], used: Sequence[int], share: float) -> Counts:
    names = [COMPONENTS[j] for j in used]
    if set(draws) != set(names):
        raise ValueError(
            f"draws: expected a number for each of {', '.join(names)}, the estimator's proposals, "
            f"got {dict(draws)}"
        )
    for name, count in draws.items():
        check_count(f"draws of {name}", count, low=1, high=MAX_POINTS)
    counts = np.array([draws.get(name, 0) for name in COMPONENTS])
    counts[DEFENSIVE] = defensive_draws(round(sum(draws.values()) / (1 - share)), share)
    return counts
