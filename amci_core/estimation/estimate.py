r"""One estimate of mu(y, theta), with its uncertainty and what it is made of."""

from __future__ import annotations

__all__ = ["estimate", "evidence_of", "pilot_moments", "report"]

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from amci_core._arguments import check_count, check_number
from amci_core.diagnostics.card import evidence
from amci_core.diagnostics.verdict import NOTHING_KNOWN, Evidence
from amci_core.estimation.result import Estimate
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators
from amci_core.estimators import PROPOSALS, Draws, Estimator, Moments, moments, resolve
from amci_core.estimators.budget import split_budget
from amci_core.estimators.combine import Counts, Prepared
from amci_core.estimators.draws import DEFENSIVE_SHARE, Array, defensive_draws
from amci_core.flows import Proposals
from amci_core.flows.proposals import check_proposals
from amci_core.models import Problem

PILOT_DRAWS = 64


def estimate(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    draws: int | Sequence[int] | None = None,
    estimator: str | Array | Estimator = "amci-cv",
    alpha: float | None = None,
    beta: float | None = None,
    defensive: float = DEFENSIVE_SHARE,
    shift: float | str = 0.0,
    total: int | None = None,
    pilot: int = PILOT_DRAWS,
    seed: int = 0,
) -> Estimate:
    """Estimates mu(y, theta) = E[f(x; theta)] under p(x | y).

    All pairs of a batch share one stream of random numbers: a pair gets other draws in a batch
    than it gets alone with the same seed.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: A number (where y has one dimension) or an array of shape (*, D_y). None where the
            problem has no y.
        theta: Likewise, (*, D_theta); the two broadcast. None where the problem has no theta.
        draws: Number of draws from each proposal that the estimator uses, 64 by default, or the
            three numbers for q1_plus, q1_minus and q2, as `split_budget` gives them.
        estimator: A name of `amci_core.estimators.ESTIMATORS` or a table of coefficients. The
            default `amci-cv`, AMCI with control variates, uses all draws for every term.
        alpha: With `reuse`, the share of E1 that comes from q1's draws.
        beta: With `reuse`, the share of E2 that comes from q1's draws.
        defensive: Share of all draws, from 0 to below 1, that the problem's defensive density
            makes, beside those of the proposals: at least four. They are part of `amci-cv`, and
            judge every other estimator. With 0 there are none, and no draw can tell what all
            proposals miss.
        shift: A constant c: f - c is split into its positive and negative part, and c is added
            back. A c below f everywhere leaves no negative part. `pilot` takes an estimate of mu
            from a pilot, for a single pair.
        total: In the place of `draws`, all draws together, those of the defensive density with
            them. An estimator that can split them unevenly over several proposals, such as AMCI,
            takes a pilot first, whose draws are part of the total, and splits the rest as its
            moments say (`split_budget`), for a single pair. SNIS draws all from its one proposal.
        pilot: Draws of each proposal in a pilot; they are not used again.
        seed: Whole number >= 0; the same seed gives the same draws.

    References:
        Section 4 of the paper, footnote on the shift.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown; or both draws and
            total are given.

    Example:
        >>> import amci_core as amci
        >>> problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
        >>> found = amci.estimate(problem, proposals, 1.0, 3.0)
        >>> bool(abs(found.value / problem.truth(1.0, 3.0) - 1) < 1e-3), str(found.verdict.level)
        (True, 'reliable')
    """
    check_proposals(problem, proposals)
    chosen = resolve(estimator, alpha=alpha, beta=beta)
    expected = "a number from 0 to below 1"
    defensive = check_number("defensive", defensive, expected, lambda share: 0 <= share < 1)
    y, theta = problem.check(y, theta)
    constant, spent = _constant(problem, proposals, y, theta, shift, pilot=pilot, seed=seed)
    sampler = Sampler(problem, proposals, y, theta, constant)
    used = chosen.used(sampler.present)
    for_points, for_choices = generators(seed)
    counts, budget = None, 0
    if total is not None:
        if draws is not None:
            raise ValueError(f"draws: expected either draws or total, got {draws!r} and {total!r}")
        check_count("total", total, low=1, high=MAX_POINTS)
        budget = int(total) - spent - defensive_draws(total, defensive)
        if chosen.splits(sampler.present):
            counts, spent = _split(
                sampler, budget, total=total, spent=spent, chosen=chosen, pilot=pilot, seed=seed
            )
        elif budget < (least := chosen.least(sampler.present)):
            raise ValueError(
                f"total: expected at least {total - budget + least} draws, got {total}"
            )
    elif draws is None or isinstance(draws, int | np.integer):
        each = 64 if draws is None else check_count("draws", draws, low=1, high=MAX_POINTS)
        budget = each * len(used)
        if chosen.fixed:
            counts = np.isin(range(3), used) * each
    else:
        counts = _three(draws, used)
    reserve = chosen.reserve([budget], sampler.present)[:3] if counts is None else counts
    own = budget if counts is None else int(counts.sum())
    every = round(own / (1 - defensive)) if total is None else int(total)
    reference = defensive_draws(every, defensive)
    points = (int(reserve.sum()) + reference) * math.prod(y.shape[:-1])
    check_count("draws, of all proposals and pairs together", points, low=1, high=MAX_POINTS)
    drawn = sampler.draw(
        np.append(reserve, reference),
        for_points,
        common=chosen.common,
        defensive_generator=generators(seed, "defensive")[0],
    )
    if counts is None:
        prepared = chosen.prepare(drawn, [budget], for_choices)
    else:
        prepared = chosen.prepare_all(drawn)
    return report(
        prepared,
        draws=own + reference + spent,
        positive=problem.nonnegative and not constant,
        shift=constant,
        # The check is of all proposals together.
        evidence=evidence_of(proposals, y, theta) if used == sampler.present else NOTHING_KNOWN,
    )


def evidence_of(proposals: Proposals, y: Tensor, theta: Tensor | None) -> Evidence:
    """What the long check of these proposals, if there was one, says of estimates at y, theta."""
    check = proposals.card.get("configuration", {}).get("verdict")
    if check is None:
        return NOTHING_KNOWN
    return evidence(check, y.numpy(), None if theta is None else theta.numpy())


def report(
    prepared: Prepared,
    *,
    draws: int,
    positive: bool,
    shift: float = 0.0,
    evidence: Evidence = NOTHING_KNOWN,
) -> Estimate:
    """What an estimator makes of all of its draws; what goes with it is computed when asked for.

    Arguments:
        prepared: The table and its draws, best with some of the reference.
        draws: How many draws are reported.
        positive: Whether mu is known to be positive.
        shift: The constant that was taken from f.
        evidence: What is known of the proposals here.
    """
    return Estimate(
        combined=prepared.combine(),
        prepared=prepared,
        draws=draws,
        positive=positive,
        shift=shift,
        evidence=evidence,
    )


def pilot_moments(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    draws: int = PILOT_DRAWS,
    shift: float = 0.0,
    seed: int = 0,
) -> Moments:
    """Pooled moments from a few draws of each proposal, for `split_budget` and `tables.optimum`.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: As for `estimate`.
        theta: As for `estimate`.
        draws: Draws from each proposal.
        shift: The constant c taken from f.
        seed: Whole number >= 0.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown.

    Example:
        >>> import amci_core as amci
        >>> problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
        >>> seen = amci.pilot_moments(problem, proposals, 1.0, 3.0, draws=50)
        >>> amci.split_budget(seen, 100).sum()
        np.int64(100)
    """
    check_proposals(problem, proposals)
    check_count("draws", draws, low=1, high=MAX_POINTS)
    sampler = Sampler(problem, proposals, *problem.check(y, theta), check_number("shift", shift))
    return moments(_pilot(sampler, draws, seed, purpose="pilot"))


def _pilot(sampler: Sampler, draws: int, seed: int, *, purpose: str) -> Draws:
    check_count("pilot", draws, low=2, high=MAX_POINTS)
    counts = [draws if j in sampler.present else 0 for j in range(3)]
    return sampler.draw(counts, generators(seed, purpose)[0])


def _constant(
    problem: Problem,
    proposals: Proposals,
    y: Any,
    theta: Any,
    shift: float | str,
    *,
    pilot: int,
    seed: int,
) -> tuple[float, int]:
    """The shift c, and what finding it cost in draws."""
    spent = 0
    if shift == "pilot":
        if y.ndim > 1:
            raise ValueError(
                f"shift: a pilot serves a single pair, got batch {tuple(y.shape[:-1])}"
            )
        sampler = Sampler(problem, proposals, y, theta)
        drawn = _pilot(sampler, pilot, seed, purpose="shift")
        shift = float(resolve("amci").prepare_all(drawn).combine().value[..., -1])
        if not np.isfinite(shift):
            raise ValueError("shift: the pilot gave no estimate; give it more draws")
        spent = pilot * len(sampler.present)
    shift = check_number("shift", shift, "a finite number or pilot")
    if shift and type(problem).shifted is Problem.shifted:
        warnings.warn(
            f"shift: the proposals of {problem.name} were trained for f, not for f - {shift:g}: "
            "expect larger errors, and look at the verdict",
            stacklevel=3,
        )
    return shift, spent


def _split(
    sampler: Sampler,
    budget: int,
    *,
    total: int,
    spent: int,
    chosen: Estimator,
    pilot: int,
    seed: int,
) -> tuple[Counts, int]:
    """Draws from each proposal out of a budget, by a pilot, and what was spent before them."""
    if sampler.y.ndim > 1:
        raise ValueError(f"total: expected a single pair, got batch {tuple(sampler.y.shape[:-1])}")
    known = moments(_pilot(sampler, pilot, seed, purpose="pilot"))
    of_pilot = pilot * len(sampler.present)
    if budget - of_pilot < chosen.least(sampler.present):
        raise ValueError(
            f"total: expected more than {total - budget + of_pilot} draws, those of the pilot "
            f"and of the defensive density, got {total}; ask for a smaller pilot"
        )
    counts = split_budget(known, budget - of_pilot, estimator=chosen)
    # One draw of a component says nothing of its variance.
    short = (counts == 1) & (counts.max() > 2)
    counts[short] += 1
    counts[counts.argmax()] -= int(short.sum())
    return counts, spent + of_pilot


def _three(draws: Sequence[int], used: Sequence[int]) -> Counts:
    counts = np.asarray(draws)
    whole = counts.shape == (3,) and counts.dtype.kind in "iu" and (counts >= 0).all()
    if not whole or any((counts[j] > 0) != (j in used) for j in range(3)):
        there = ", ".join(PROPOSALS[j] for j in used)
        raise ValueError(
            "draws: expected a whole number of draws from each proposal, or three of them, above "
            f"zero for those that it uses ({there}) and zero for others, got {draws!r}"
        )
    return counts.astype(np.int64)
