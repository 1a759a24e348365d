r"""The first draws of a case, and what they do for the integrals."""

from __future__ import annotations

__all__ = ["Marks", "marks"]

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from amci_core.estimation.sampling import Sampler, generators
from amci_core.estimators.draws import COMPONENTS, PROPOSALS, Array, Draws
from amci_core.flows import Proposals
from amci_core.models import Problem

# No more draws are marked: a picture has no room for them.
MOST = 64
NAMES = dict(zip(PROPOSALS, ("q1", "q1_minus", "q2"), strict=True))


@dataclass(frozen=True)
class Marks:
    """As many draws from each proposal, by the names q1, q1_minus and q2.

    Arguments:
        count: How many.
        x: Where they lie, (count, D) each.
        said: What they do, in a few words.
    """

    count: int
    x: Mapping[str, Array]
    said: Mapping[str, str]


def marks(
    problem: Problem, proposals: Proposals, y: Any, theta: Any, *, draws: int, seed: int
) -> Marks:
    """The draws of `amci_core.estimate` with that seed, at most 64 from each proposal.

    Of more than 64 these are not the first ones: it draws all of a proposal at once.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: The observation, as `Problem.check` takes it.
        theta: The parameter of f, as `Problem.check` takes it.
        draws: Draws from each proposal.
        seed: Whole number >= 0.
    """
    count, pair = min(draws, MOST), problem.check(y, theta)
    sampler = Sampler(problem, proposals, *pair)
    counts = [count if j in proposals.present else 0 for j in range(len(COMPONENTS))]
    drawn = sampler.draw(counts, generators(seed)[0])
    below, above = (
        getattr(problem.support_plus(pair[1]), end, None) for end in ("upper_bound", "lower_bound")
    )
    is_threshold = pair[1] is not None and (below is None) != (above is None)
    # Of several coordinates all must be there.
    every = f" in all {problem.x.dim}" if problem.x.dim > 1 else ""
    sides = (f"above θ{every}", f"below θ{every}")[:: 1 if above is not None else -1]
    return Marks(
        count,
        {NAMES[PROPOSALS[j]]: sampler.points[j].numpy() for j in drawn.present},
        {
            NAMES[PROPOSALS[j]]: _said(drawn, j, sides if is_threshold else ())
            for j in drawn.present
        },
    )


def _said(drawn: Draws, j: int, sides: tuple[str, ...]) -> str:
    """How many draws of a proposal reach f, or count for the integral of another proposal."""
    f = drawn.f[drawn.stretch(j)]
    hits = [int((f > 0).sum()), int((f < 0).sum())]
    if sides and drawn.signed:
        return ", ".join(
            _many(n, f) + f" {side}" for n, side in zip(hits, sides, strict=True) if n
        )
    if np.isin(f, [0, 1]).all():
        return f"{_many(hits[0], f)} {sides[0] if sides else 'where f is 1'}"
    # The effective number of their weights for the other integral.
    other = "E₂" if PROPOSALS[j] != "q2" and 2 in drawn.present else "E₁"
    log_w = drawn.log_weight(j)
    with np.errstate(divide="ignore"):
        log_w = log_w if other == "E₂" else log_w + np.log(np.abs(f))
    known = np.isfinite(log_w).any()
    effective = round(float(1 / np.square(softmax(log_w)).sum())) if known else 0
    return f"{_many(effective, f)} {'counts' if effective == 1 else 'count'} for {other}"


def _many(n: int, f: Array) -> str:
    return "all" if n == len(f) else f"{n}"
