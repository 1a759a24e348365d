r"""Drawing until an estimate is as precise as wanted, for one pair (y, theta) or for many."""

from __future__ import annotations

__all__ = ["estimate_to"]

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from amci_core._arguments import check_count, check_number
from amci_core.diagnostics import Verdict
from amci_core.diagnostics.verdict import NO_TRUST, RELIABLE
from amci_core.estimation.estimate import evidence_of
from amci_core.estimation.result import Estimate, Precise
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators, resolve_names
from amci_core.estimators import Draws, moments, resolve
from amci_core.estimators.budget import split_draws
from amci_core.estimators.combine import Counts
from amci_core.estimators.draws import (
    DEFENSIVE,
    DEFENSIVE_SHARE,
    PROPOSALS,
    Array,
    defensive_draws,
)
from amci_core.flows import Proposals
from amci_core.models import Problem

Rows = NDArray[np.int64]

# The estimators whose draws can go on.
SCHEMES = ("amci-cv", "amci")
# The rounding of an estimate itself, and the level of its intervals.
LEAST_ERROR, LEVEL = 1e-15, 0.95
# From fewer draws of a proposal than this, a standard error is not to be believed.
FIRST_DRAWS = 128
# Of a batch, pairs that need no more than these are done at once.
QUICK_DRAWS = 32
# A step goes a little past what the error so far needs, and never far past it.
MARGIN, LEAST_GROWTH, LARGEST_GROWTH = 1.1, 1.2, 4.0
# Of a batch, pairs go on together whose draws to come differ by less than this factor.
GRID = 1.25
# Points drawn at once, and pairs that get quick looks before the rest of them goes on: memory.
POINTS, BLOCK = 20_000, 4096


def estimate_to(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    y: Any = None,
    theta: Any = None,
    *,
    relative_error: float = 0.01,
    max_draws: int = 1_000_000,
    estimator: str = "amci-cv",
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Precise:
    """Draws until the half-width of the 95 % interval is below a share of the estimate.

    It starts with 128 draws of each proposal, and splits what follows as their moments say. Draws
    are looked at again and again, so that the stated precision is reached somewhat too early now
    and then. An estimate whose verdict is not "reliable" goes on with four times the draws; one
    that is still not to be trusted after that gives up.

    Of a batch, all pairs start with 32 draws of each proposal. Those are done at once whose
    interval is narrow enough and whose verdict is "reliable"; the others go on to 128 and then as
    single ones do, with those that need about as many draws. All pairs of a batch share one stream
    of random numbers: what one gets depends on the others.

    Arguments:
        problem: As for `amci_core.estimate`.
        proposals: As for `amci_core.estimate`.
        y: As for `amci_core.estimate`.
        theta: As for `amci_core.estimate`.
        relative_error: Half-width wanted, as a share of the estimate, from 1e-15, the rounding
            of the estimate itself, to 1.
        max_draws: Draws of a pair after which it gives up.
        estimator: `amci-cv` or `amci`.
        seed: Whole number >= 0.
        progress: Called after each step with what `Precise.steps` keeps of it.

    Raises:
        ValueError: an argument is out of range or unknown.

    Example:
        >>> import amci_core as amci
        >>> found = amci.estimate_to("tail-1d", y=[[0.0], [1.0]], theta=3.0)
        >>> found.reached.tolist(), found.draws.tolist()
        ([True, True], [73, 73])
    """
    problem, proposals = resolve_names(problem, proposals)
    if estimator not in SCHEMES:
        raise ValueError(f"estimator: expected one of {', '.join(SCHEMES)}, got {estimator!r}")
    expected = f"a number from {LEAST_ERROR:g} to 1"
    check_number("relative_error", relative_error, expected, lambda v: LEAST_ERROR <= v < 1)
    y, theta = problem.check(y, theta)
    least = int(_with_defensive(np.isin(range(3), proposals.present) * FIRST_DRAWS).sum())
    check_count("max_draws", max_draws, low=least, high=MAX_POINTS)
    search = _Search(problem, proposals, y, theta, float(relative_error), max_draws, estimator)
    for step in search.run(generators(seed)[0], generators(seed, "defensive")[0]):
        if progress is not None:
            progress(*step)
    return search.found()


@dataclass(frozen=True)
class _Group:
    """Pairs that have had, and get next, the same numbers of draws.

    Arguments:
        rows: Their numbers, (R,).
        more: Draws of each component to come, (4,).
        draws: What they have, of batch shape (R); None before the first draws.
        looks: How often their estimates have been looked at, but for quick looks.
    """

    rows: Rows
    more: Counts
    draws: Draws | None = None
    looks: int = 0

    def of(self, places: Rows) -> _Group:
        """The same for some of the pairs, by their places in the group."""
        if len(places) == len(self.rows):
            return self
        draws = None if self.draws is None else self.draws.of(places)
        return replace(self, rows=self.rows[places], draws=draws)

    def parts(self) -> list[_Group]:
        """The same in groups with few enough points."""
        had = 0 if self.draws is None else self.draws.n
        size = max(1, POINTS // (had + int(self.more.sum())))
        places = np.arange(len(self.rows))
        return [self.of(places[i : i + size]) for i in range(0, len(places), size)]


def _with_defensive(counts: Counts) -> Counts:
    """Draws of the proposals, (3,), and of the defensive density beside them, (4,)."""
    total = round(int(counts.sum()) / (1 - DEFENSIVE_SHARE))
    return np.append(counts, defensive_draws(total, DEFENSIVE_SHARE))


class _Search:
    """What is known of each of N pairs so far."""

    def __init__(
        self,
        problem: Problem,
        proposals: Proposals,
        y: Tensor,
        theta: Tensor | None,
        relative_error: float,
        max_draws: int,
        scheme: str,
    ) -> None:
        self.problem, self.proposals = problem, proposals
        self.batch, n = tuple(y.shape[:-1]), math.prod(y.shape[:-1])
        self.y = y.reshape(n, -1)
        self.theta = None if theta is None else theta.reshape(n, -1)
        self.relative_error, self.max_draws, self.scheme = relative_error, max_draws, scheme
        # The value, its standard error, the ends of its interval and the half-width.
        self.values = np.full((5, n), np.nan)
        self.reached = np.zeros(n, dtype=bool)
        self.draws = np.zeros((n, 4), dtype=np.int64)
        self.verdicts: list[tuple[Rows, Verdict]] = []
        self.steps: list[tuple[int, float]] = []
        self.last: Draws | None = None

    def run(
        self, generator: torch.Generator, for_defensive: torch.Generator
    ) -> Iterator[tuple[int, float]]:
        """Goes on until all pairs are done; what `Precise.steps` holds, one by one."""
        self.generators = generator, for_defensive
        there = np.isin(range(3), self.proposals.present)
        first, quick = _with_defensive(there * FIRST_DRAWS), _with_defensive(there * QUICK_DRAWS)
        for start in range(0, len(self.draws), BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(self.draws)))
            if not self.batch:
                yield from self._follow([_Group(rows, first)])
                continue
            left = []
            for part in _Group(rows, quick).parts():
                group, _, pending = self._look(part)
                yield self.steps[-1]
                if len(pending):
                    left.append(group.of(pending))
            if left:
                rows = np.concatenate([group.rows for group in left])
                draws = Draws.stacked([group.draws for group in left if group.draws is not None])
                group = _Group(rows, first - quick, draws)
                yield from self._follow(group.parts())

    def _follow(self, groups: list[_Group]) -> Iterator[tuple[int, float]]:
        """Draws for these groups until their pairs are done; the last group always goes first."""
        groups = groups[::-1]
        while groups:
            group, widths, pending = self._look(groups.pop())
            yield self.steps[-1]
            if len(pending):
                groups += self._next(group.of(pending), widths[pending])

    def _estimate(self, draws: Draws, rows: Rows | int) -> Estimate:
        theta = None if self.theta is None else self.theta[rows]
        return Estimate(
            resolve(self.scheme).prepare_all(draws),
            draws=draws.n,
            positive=self.problem.nonnegative,
            evidence=evidence_of(self.proposals, self.y[rows], theta),
        )

    def _look(self, group: _Group) -> tuple[_Group, Array, Rows]:
        """The group with its draws made, half-widths (R,), and the places of who goes on."""
        theta = None if self.theta is None else self.theta[group.rows]
        sampler = Sampler(self.problem, self.proposals, self.y[group.rows], theta)
        generator, for_defensive = self.generators
        draws = sampler.draw(group.more, generator, defensive_generator=for_defensive)
        if group.draws is not None:
            draws = group.draws.joined(draws)
        counts = np.array([draws.count(j) for j in range(4)])
        found = self._estimate(draws, group.rows)
        lower, upper = found.interval(LEVEL)
        own = found.uncertainty
        with np.errstate(invalid="ignore", divide="ignore"):
            first, last = own.interval(LEVEL, positive=found.positive)
            widths = (last - first) / 2 / abs(own.value)
        widths = np.where(np.isfinite(widths), widths, np.inf)
        verdict = found.verdict
        reached = (widths <= self.relative_error) & (verdict.codes == RELIABLE)
        done = reached | (found.draws >= self.max_draws)
        if counts.max() >= FIRST_DRAWS:
            done |= (verdict.codes == NO_TRUST) & (group.looks > 0)
            group = replace(group, looks=group.looks + 1)
        places, rows = np.flatnonzero(done), group.rows[done]
        said = np.stack([found.value, found.standard_error, lower, upper, widths])
        self.values[:, rows] = said[:, places]
        self.reached[rows], self.draws[rows] = reached[places], counts
        self.verdicts.append((rows, verdict[places]))
        self.last = draws
        before = self.steps[-1][0] if self.steps else 0
        new = len(group.rows) * int(group.more.sum())
        self.steps.append((before + new, float(widths.max())))
        return replace(group, draws=draws), widths, np.flatnonzero(~done)

    def _next(self, group: _Group, widths: Array) -> list[_Group]:
        """What these pairs draw next, those that draw about as much in one group."""
        draws = group.draws
        assert draws is not None
        counts = np.array([draws.count(j) for j in range(3)])
        had, most = int(counts.sum()), int(self.max_draws * (1 - DEFENSIVE_SHARE))
        seen = moments(draws)
        plans: dict[tuple[int, ...], list[int]] = {}
        for place, width in enumerate(widths.tolist()):
            # The error falls with the root of the draws; its square would overflow.
            ratio = min(width / self.relative_error, LARGEST_GROWTH)
            # An interval that is narrow enough was not reliable.
            growth = LARGEST_GROWTH if ratio <= 1 else max(MARGIN * ratio**2, LEAST_GROWTH)
            growth = min(growth, LARGEST_GROWTH)
            wanted = min(most, math.ceil(had * growth))
            by_name = split_draws(seen[place], wanted, estimator=self.scheme)
            more = np.array([by_name.get(name, 0) for name in PROPOSALS]) - counts
            more = np.maximum(more, 0)
            if more.sum() > wanted - had:
                more = np.floor(more * (wanted - had) / more.sum()).astype(np.int64)
            if more.sum() == 0:
                more[draws.present[-1]] = max(wanted - had, 1)
            if self.batch:
                # On a grid, so that many pairs draw at once.
                with np.errstate(divide="ignore"):
                    steps = np.ceil(np.log(more) / math.log(GRID) - 1e-9)
                grid = np.where(more > 0, np.ceil(GRID**steps), 0).astype(np.int64)
                more = grid if grid.sum() <= most - had else more
            plans.setdefault(tuple(more.tolist()), []).append(place)
        groups: list[_Group] = []
        for plan, places in plans.items():
            of_all = _with_defensive(counts + np.array(plan, dtype=np.int64))
            more = of_all - np.append(counts, draws.count(DEFENSIVE))
            # At least one of the defensive density, so that it is known at the new draws.
            more = np.maximum(more, [0, 0, 0, 1])
            more[more[:3].argmax()] -= max(draws.n + int(more.sum()) - self.max_draws, 0)
            groups += replace(group.of(np.array(places)), more=more).parts()
        return groups

    def found(self) -> Precise:
        """What has been found of all pairs."""
        order = np.argsort(np.concatenate([rows for rows, _ in self.verdicts]))
        parts = [
            np.concatenate([getattr(part, each.name) for _, part in self.verdicts])[order]
            for each in fields(Verdict)
        ]
        value, error, lower, upper, width = self.values.reshape(5, *self.batch)
        last = None if self.batch else self.last
        return Precise(
            value=value,
            standard_error=error,
            interval=(lower, upper),
            relative_half_width=width,
            reached=self.reached.reshape(self.batch),
            counts=self.draws.reshape(*self.batch, 4),
            verdict=Verdict(*(part.reshape(self.batch) for part in parts)),
            steps=tuple(self.steps),
            single=None if last is None else self._estimate(last.of(0), 0),
        )
