r"""One long check after training: are the proposals good where they will be asked?

A thousand draws cannot show what a hundred thousand do. So some held-out cases are estimated with
as many draws of each proposal, and tempered particles, which no proposal has drawn, are asked
whether weights there would be far above their mean. What is found stands in the card of the
proposals, and sets what verdicts on later estimates ask of their draws at cases nearby.
"""

from __future__ import annotations

__all__ = ["checked", "in_words"]

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from amci_core.diagnostics.verdict import LEVELS, MORE_DRAWS, NO_TRUST, RELIABLE
from amci_core.estimation import estimate
from amci_core.estimators.draws import PROPOSALS, TERMS
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.training.clock import now, seconds_per_point
from amci_core.training.forms import MANY, charts_of, coordinates_of
from amci_core.training.particles import find
from amci_core.training.targets import TARGETS

CASES, DRAWS, DRAWS_OF_MANY, LEAST_DRAWS = 30, 100_000, 10_000, 2_000
# Where evaluations are costly there are fewer cases, and at a single one fewer draws; of the time,
# the share of finding out what a draw takes.
FEWEST_DRAWS, TIMING = 200, 0.05
# Cases beside these, from which particles pass on.
BESIDE, PARTICLES = 226, 128
# Evaluations of the density for each particle, at least.
EVALUATIONS = 20
SEED = 2_019_06_12
# With a smaller share of effective draws a case needs more than a thousand of them.
LEAST_SHARE = 0.02
# A particle is missed where its weight is so many times the mean, which a thousand draws hardly
# meet; a case is not to be trusted where more than this share of its particles is missed.
FAR_ABOVE, LARGEST_MISSED = 100.0, 0.05
# The probability that cases which were not good lie beyond a bound by chance, at most.
CHANCE = 0.01


def checked(
    problem: Problem,
    proposals: Proposals,
    *,
    cases: int = CASES,
    draws: int | None = None,
    seconds: float = math.inf,
    seed: int = SEED,
) -> dict[str, Any]:
    """What the check of proposals found, for their card; in numbers that JSON takes.

    Arguments:
        problem: What they are for.
        proposals: What is checked.
        cases: Number of held-out cases, from p(y) p(theta).
        draws: Draws of each proposal at each; by default 100,000, or 10,000 of more than ten
            coordinates.
        seconds: About how long it may take: with less time there are fewer draws.
        seed: Whole number; of the cases and the draws.

    Returns:
        `draws` of each proposal; `cases`, each with y, theta, the least `share` of effective
        draws, the largest `missed` share, their `level`; and the `text`.
    """
    started = now()
    generator = torch.Generator().manual_seed(seed)
    y, theta = problem.check(*problem.sample_cases(cases, generator))
    looks = {
        name: _witnesses(
            problem, name, y, theta, generator, seconds / (4 * len(proposals.present))
        )
        for name in (PROPOSALS[j] for j in proposals.present)
    }
    if draws is None:
        left = seconds - (now() - started)
        cases, draws = _affordable(problem, proposals, y, theta, left)
    found = []
    for i in range(cases):
        here = y[i].numpy() if problem.y else None, None if theta is None else theta[i].numpy()
        e = estimate(problem, proposals, *here, draws=dict.fromkeys(looks, draws), seed=seed + i)
        share, missed = 1.0, 0.0
        for j, name in enumerate(TERMS):
            if j not in proposals.present:
                continue
            term = e.diagnostics[name]
            share = min(share, float(np.fmin(term.effective_draws, term.pooled_draws)) / draws)
            points = looks[PROPOSALS[j]].get(i)
            if points is not None:
                worth, gone = _by_witnesses(problem, proposals, j, y, theta, i, points, e, name)
                share, missed = min(share, worth), max(missed, gone)
        level = RELIABLE
        if share < LEAST_SHARE or not np.isfinite(e.standard_error):
            level = MORE_DRAWS
        if missed > LARGEST_MISSED:
            level = NO_TRUST
        found.append(
            {
                "y": None if problem.y is None else y[i].tolist(),
                "theta": None if theta is None else theta[i].tolist(),
                "share": share,
                "missed": missed,
                "witnessed": all(i in look for look in looks.values()),
                "level": level,
            }
        )
    check: dict[str, Any] = {"draws": draws, "cases": found}
    return {**check, "text": in_words(problem, check)}


def _affordable(
    problem: Problem, proposals: Proposals, y: Any, theta: Any, seconds: float
) -> tuple[int, int]:
    """Cases, and draws of each proposal, that the time allows."""
    most = DRAWS if problem.x.dim <= MANY else DRAWS_OF_MANY
    if not math.isfinite(seconds):
        return len(y), most
    here = y[0].numpy() if problem.y else None, None if theta is None else theta[0].numpy()

    def call(n: int) -> None:
        of_each = {PROPOSALS[j]: n for j in proposals.present}
        assert estimate(problem, proposals, *here, draws=of_each, seed=0).diagnostics

    began = now()
    each = seconds_per_point(call, TIMING * seconds)
    points = max(seconds - (now() - began), 0.0) / max(each, 1e-12)
    cases = int(min(max(points / LEAST_DRAWS, 1), len(y)))
    return cases, int(min(max(points / cases, FEWEST_DRAWS), most))


def _witnesses(
    problem: Problem, name: str, y: Any, theta: Any, generator: torch.Generator, seconds: float
) -> dict[int, torch.Tensor]:
    """Particles (n, D) of the term of a proposal, by the number of their case."""
    target = TARGETS[name](problem)
    if math.isfinite(seconds):
        points = EVALUATIONS * PARTICLES * (len(y) + BESIDE)
        if points * target.seconds_per_point(TIMING * seconds) > seconds:
            return {}
    more_y, more_theta = target.cases(BESIDE, uniform=0, generator=generator)
    rows = torch.cat([y.float(), more_y])
    both = None if more_theta is None else torch.cat([theta.float(), more_theta])
    charts = charts_of(target.problem, coordinates_of(target.problem))
    try:
        found = find(
            target,
            rows,
            both,
            charts=charts,
            particles=PARTICLES,
            generator=generator,
            seconds=seconds,
        )
    except ValueError:
        return {}
    places = found.rows.tolist()
    return {row: found.x[i].double() for i, row in enumerate(places) if row < len(y)}


@torch.inference_mode()
def _by_witnesses(
    problem: Problem,
    proposals: Proposals,
    j: int,
    y: Any,
    theta: Any,
    i: int,
    points: torch.Tensor,
    e: Any,
    name: str,
) -> tuple[float, float]:
    """Share of effective draws, and missed share, by particles that follow the term itself."""
    target = TARGETS[PROPOSALS[j]](problem)
    at = y[i], None if theta is None else theta[i]
    log_q = proposals.at(*at)[j].log_prob(points)
    log_w = target.log_density(points, *at) - log_q - float(e.terms[name].log_value)
    return float(torch.exp(-(log_w.logsumexp(0) - math.log(len(points))))), float(
        (log_w > math.log(FAR_ABOVE)).double().mean()
    )


def in_words(problem: Problem, check: Mapping[str, Any]) -> str:
    """The check in a sentence or two, with its worst case; ESS is the effective sample size.

    Example:
        >>> import amci_core as amci
        >>> case = {"y": None, "theta": [1.0], "share": 0.5, "missed": 0.0, "level": 0}
        >>> in_words(amci.problem("peak"), {"draws": 1000, "cases": [case]})
        'reliable at the one held-out case: at worst ESS 500 of 1,000 draws, at theta = 1'
    """
    cases = check["cases"]
    worst = max(cases, key=lambda case: (case["level"], case["missed"], -case["share"]))
    at = _place(worst)
    worth = f"ESS {1000 * worst['share']:,.0f} of 1,000 draws"
    where = f", at {at}" if at else ""
    good = [case for case in cases if case["level"] == RELIABLE]
    if len(good) == len(cases):
        number = "the one held-out case" if len(cases) == 1 else f"all {len(cases)} held-out cases"
        return f"reliable at {number}: at worst {worth}{where}"
    asked = LEVELS[worst["level"]]
    missed = f", with {worst['missed']:.0%} missed" if worst["missed"] > 0.01 else ""
    limit = _limit(problem, cases) if good else None
    said = (
        f"reliable for {limit}; beyond it {asked}"
        if limit
        else f"{asked} at {len(cases) - len(good)} of {len(cases)} held-out cases"
    )
    return f"{said}: at worst {worth}{missed}{where}"


def _place(case: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {', '.join(f'{value:.3g}' for value in case[name])}"
        for name in ("y", "theta")
        if case[name]
    )


def _limit(problem: Problem, cases: Sequence[Mapping[str, Any]]) -> str | None:
    """A bound on one coordinate that parts good cases from the others, in words; None: none.

    One that few cases of many numbers could have by chance is none.
    """
    numbers = sum(v.dim for v in (problem.theta, problem.y) if v)
    fine = sum(case["level"] == RELIABLE for case in cases)
    if 2 * numbers / math.comb(len(cases), fine) > CHANCE:
        return None
    for variable, name in ((problem.theta, "theta"), (problem.y, "y")):
        for d in range(variable.dim if variable else 0):
            good = [case[name][d] for case in cases if case["level"] == RELIABLE]
            bad = [case[name][d] for case in cases if case["level"] != RELIABLE]
            assert variable is not None
            called = variable.name + (f"[{d}]" if variable.dim > 1 else "")
            if max(good) < min(bad):
                return f"{called} below {(max(good) + min(bad)) / 2:.3g}"
            if min(good) > max(bad):
                return f"{called} above {(min(good) + max(bad)) / 2:.3g}"
    return None
