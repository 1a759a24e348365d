r"""The draws at one case: every card that shows a figure of them takes it from here."""

from __future__ import annotations

__all__ = ["CaseDraws", "shown_estimators"]

from dataclasses import replace
from typing import Any

import numpy as np

from amci_core._arguments import part_seed
from amci_core.estimation import Estimate
from amci_core.estimation.estimate import requirements_of
from amci_core.estimation.sampling import Sampler, generators
from amci_core.estimators import resolve
from amci_core.estimators.draws import (
    COMPLEMENT,
    COMPONENTS,
    DEFENSIVE,
    DEFENSIVE_SHARE,
    Array,
    Draws,
    defensive_draws,
)
from amci_core.evaluation.runs import default_estimators
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.numbers.known import Mu, exact

# A verdict takes many draws.
LEAST_DIAGNOSED = 1000


def joined(first: Draws, second: Draws) -> Draws:
    """The draws of both, of the same case and components, by the numbers of these."""
    component = [np.repeat(list(d.counts), list(d.counts.values())) for d in (first, second)]
    order = np.argsort(np.concatenate(component), kind="stable")

    def join(ours: Array, theirs: Array) -> Array:
        return np.concatenate([ours, theirs], -1)[..., order]

    return replace(
        first,
        f=join(first.f, second.f),
        log_joint=join(first.log_joint, second.log_joint),
        log_q={j: join(log_q, second.log_q[j]) for j, log_q in first.log_q.items()},
        counts={j: first.count(j) + second.count(j) for j in sorted(first.counts)},
    )


class CaseDraws:
    """At least 1,000 draws from every proposal, and an eighth of all from the defensive density.

    The first ones are those of `amci_core.estimate` with so many draws and that seed. Estimates
    with q1_complement share out the same total.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: The observation, as `Problem.check` takes it.
        theta: The parameter of f, (D_theta,).
        draws: Draws from each proposal that the first estimate has.
        seed: Whole number >= 0.
        mu: What estimates are compared with; by default what the problem knows.

    Attributes:
        first: Draws from each proposal that the first estimate has.
        n: Draws from each proposal, all together.
        draws: All draws, as estimators see them.
        points: Where each proposal's lie, by its name, (n, D).

    Raises:
        ValueError: see `amci_core.estimate`.
    """

    def __init__(
        self,
        problem: Problem,
        proposals: Proposals,
        y: Any,
        theta: Any,
        *,
        draws: int,
        seed: int,
        mu: Mu | None = None,
    ) -> None:
        self.problem, self.proposals, self.first, self.seed = problem, proposals, draws, seed
        self.y, self.theta = y, theta = problem.check(y, theta)
        self.mu = mu or exact(problem, y, theta)
        self._sampler = sampler = Sampler(problem, proposals, y, theta)
        self._present = proposals.present
        self._evidence = requirements_of(proposals, y, theta)
        self.draws, points = self._draw(draws, self._defensive(draws), seed)
        self.n = max(draws, LEAST_DIAGNOSED)
        if self.n > draws:
            rest = self._defensive(self.n) - self._defensive(draws)
            more, further = self._draw(self.n - draws, rest, part_seed(seed, 0))
            self.draws = joined(self.draws, more)
            points = {j: np.concatenate([x, further[j]]) for j, x in points.items()}
        self.points = {COMPONENTS[j]: points[j] for j in sampler.present}

    def estimate(self, name: str, count: int) -> Estimate:
        """The estimate of AMCI, or AMCI with control variates, with so many draws of each."""
        chosen, judging = resolve(name), self._defensive(count)
        counts = {**dict.fromkeys(self._present, count), DEFENSIVE: judging}
        if COMPLEMENT in chosen.used(self._sampler.present):
            total = count * len(self._present) + judging
            (row,) = chosen.counts([total], self._sampler.present, DEFENSIVE_SHARE)
            counts = dict(enumerate(row.tolist()))
        first = self.draws.first(counts)
        return Estimate(
            chosen.apply(first),
            positive=self._sampler.problem.nonnegative,
            requirements=self._evidence,
        )

    def _defensive(self, count: int) -> int:
        own = count * len(self._present)
        return defensive_draws(round(own / (1 - DEFENSIVE_SHARE)), DEFENSIVE_SHARE)

    def _draw(self, count: int, reference: int, seed: Any) -> tuple[Draws, dict[int, Array]]:
        sampler = self._sampler
        drawn = sampler.draw(
            [
                reference if j == DEFENSIVE else count if j in sampler.present else 0
                for j in range(len(COMPONENTS))
            ],
            generators(seed)[0],
            defensive_generator=generators(seed, "defensive")[0],
        )
        return drawn, {j: points.numpy() for j, points in sampler.points.items()}


def shown_estimators(problem: Problem, proposals: Proposals) -> tuple[str, ...]:
    """The usual estimators, and AMCI with control variates beside AMCI."""
    amci, *others = default_estimators(problem, proposals)
    return (amci, "amci-cv", *others)
