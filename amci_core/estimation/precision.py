r"""Drawing until an estimate is as precise as asked for."""

from __future__ import annotations

__all__ = ["Precise", "estimate_to"]

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from amci_core.checks import check_count
from amci_core.estimation.estimate import reference_draws, report
from amci_core.estimation.result import Estimate
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators
from amci_core.estimators import moments, resolve
from amci_core.estimators.budget import SCHEMES, split_budget
from amci_core.flows import Proposals
from amci_core.models import Problem

LEVEL = 0.95
# From fewer draws of a proposal than this, a standard error is not to be believed.
FIRST_DRAWS = 128
# A step goes a little past what the error so far asks for, and never far past it.
MARGIN, LARGEST_GROWTH = 1.1, 4.0


@dataclass(frozen=True)
class Precise:
    """An estimate with the precision that was asked for, or what was reached.

    Arguments:
        estimate: The estimate; its `draws` are all that were made.
        relative_half_width: Half of the width of its 95 % interval over the estimate.
        reached: Whether that is as small as asked for.
        draws: Draws of q1_plus, q1_minus and q2.
        steps: Draws in all and relative half-width after each step.
    """

    estimate: Estimate
    relative_half_width: float
    reached: bool
    draws: tuple[int, int, int]
    steps: tuple[tuple[int, float], ...]


def estimate_to(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    relative_error: float = 0.01,
    max_draws: int = 1_000_000,
    estimator: str = "amci",
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Precise:
    """Draws until the half-width of the 95 % interval is below a share of the estimate.

    It starts with 128 draws of each proposal, and splits what follows as their moments say. Draws
    are looked at again and again, so that the stated precision is reached somewhat too early now
    and then; an estimate whose verdict is not "reliable" goes on at least once.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: As for `amci_core.estimate`, a single one.
        theta: Likewise.
        relative_error: Half-width asked for, as a share of the estimate.
        max_draws: Draws in all after which it gives up.
        estimator: `amci` or `reuse-optimal`.
        seed: Whole number >= 0.
        progress: Called after each step with the draws so far and the relative half-width.

    Raises:
        ValueError: an argument is out of range or unknown, or y, theta is not a single pair.
    """
    if estimator not in SCHEMES:
        raise ValueError(f"estimator: expected one of {', '.join(SCHEMES)}, got {estimator!r}")
    if not isinstance(relative_error, Real) or not 1e-15 <= relative_error < 1:
        raise ValueError(  # less is below the rounding of what is to be estimated
            f"relative_error: expected a number from 1e-15 to 1, got {relative_error!r}"
        )
    y, theta = problem.check(y, theta)
    if y.ndim > 1:
        raise ValueError(f"y: expected a single pair, got batch {tuple(y.shape[:-1])}")
    sampler = Sampler(problem, proposals, y, theta)
    present = list(sampler.present)
    check_count("max_draws", max_draws, low=FIRST_DRAWS * len(present), high=MAX_POINTS)
    chosen = resolve(estimator)
    generator, _ = generators(seed)
    counts = np.zeros(3, dtype=np.int64)
    counts[present] = FIRST_DRAWS
    draws = sampler.draw(
        counts,
        generator,
        reference=reference_draws(counts),
        reference_generator=generators(seed, "reference")[0],
    )
    steps: list[tuple[int, float]] = []
    while True:
        total = int(counts.sum())
        found = report(chosen.prepare_all(draws), draws=total, positive=problem.nonnegative)
        width = _relative_half_width(found)
        steps.append((total, width))
        if progress is not None:
            progress(total, width)
        reached = width <= relative_error
        believed = found.verdict.level == "reliable" or len(steps) > 1
        if (reached and believed) or total >= max_draws:
            one, two, three = map(int, counts)
            return Precise(found, width, reached, (one, two, three), tuple(steps))
        growth = MARGIN * (width / relative_error) ** 2 if math.isfinite(width) else np.inf
        wanted = min(max_draws, math.ceil(total * min(max(growth, 1.2), LARGEST_GROWTH)))
        split = split_budget(moments(draws), wanted, estimator=estimator)
        more = np.maximum(split - counts, 0)
        more = _afforded(more, wanted - total, present)
        draws = draws.joined(sampler.draw(more, generator))
        counts = counts + more


def _relative_half_width(found: Estimate) -> float:
    lower, upper = found.interval(LEVEL)
    width = float(upper - lower) / 2
    return width / abs(float(found.value)) if np.isfinite(width) and found.value else math.inf


def _afforded(more: np.ndarray, left: int, present: list[int]) -> np.ndarray:
    """As many of the draws wanted as there are left, and at least one in all."""
    if more.sum() > left:
        more = np.floor(more * left / more.sum()).astype(np.int64)
    if more.sum() == 0:
        more[present[-1]] = max(left, 1)
    return more
