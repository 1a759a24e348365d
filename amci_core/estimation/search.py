r"""Draws for many pairs (y, theta), as many for each as its precision needs."""

from __future__ import annotations

__all__ = ["FIRST_DRAWS", "Group", "Rows", "Search"]

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from amci_core.diagnostics import Verdict
from amci_core.diagnostics.verdict import NEARLY_ALL, RELIABLE
from amci_core.estimation.estimate import reference_draws, report
from amci_core.estimation.result import Estimate
from amci_core.estimation.sampling import Sampler
from amci_core.estimators import Draws, Estimator, Moments, moments, resolve
from amci_core.estimators.budget import split_budget
from amci_core.estimators.combine import Counts
from amci_core.estimators.draws import REFERENCE, Array
from amci_core.flows import Proposals
from amci_core.models import Problem

Rows = NDArray[np.int64]

LEVEL = 0.95
# From fewer draws of a proposal than this, a standard error is not to be believed.
FIRST_DRAWS = 128
# Of a batch, pairs whose weights hardly vary need no more than these.
QUICK_DRAWS, QUICK_REFERENCE = 32, 16
# A step goes a little past what the error so far needs, and never far past it.
MARGIN, LEAST_GROWTH, LARGEST_GROWTH = 1.1, 1.2, 4.0
# Of a batch, pairs go on together whose draws to come differ by less than this factor.
GRID = 1.25
# Points drawn at once, and pairs that get quick looks before the rest of them goes on: memory.
POINTS, BLOCK = 20_000, 4096
# What is said of each pair: the value, its standard error, its interval and the half-width.
SAID = 5


@dataclass(frozen=True)
class Group:
    """Pairs that have had, and get next, the same numbers of draws.

    Arguments:
        rows: Their numbers, (R,).
        more: Draws of each proposal to come, (3,).
        reference: Draws of the reference to come; at least one, so that its density is known.
        draws: What they have, of batch shape (R); None before the first draws.
        looks: How often their estimates have been looked at, but for quick looks.
    """

    rows: Rows
    more: Counts
    reference: int = 0
    draws: Draws | None = None
    looks: int = 0

    def of(self, index: Rows) -> Group:
        """The same for some of the pairs, by their places in the group."""
        if len(index) == len(self.rows):
            return self
        draws = None if self.draws is None else _of_pairs(self.draws, index)
        return replace(self, rows=self.rows[index], draws=draws)

    def parts(self) -> list[Group]:
        """The same in groups with few enough points."""
        had = 0 if self.draws is None else self.draws.n
        size = max(1, POINTS // (had + int(self.more.sum()) + self.reference))
        places = np.arange(len(self.rows))
        return [self.of(places[i : i + size]) for i in range(0, len(places), size)]


class Search:
    """What is known of each of N pairs so far; y and theta of a single one have no batch axis."""

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
        self.batch = tuple(y.shape[:-1])
        self.y = y.flatten(0, -2) if self.batch else y
        self.theta = theta.flatten(0, -2) if self.batch and theta is not None else theta
        self.relative_error, self.max_draws, self.scheme = relative_error, max_draws, scheme
        self.estimator: Estimator = resolve(scheme)
        n = math.prod(self.batch)
        self.values = np.full((SAID, n), np.nan)
        self.reached = np.zeros(n, dtype=bool)
        self.draws = np.zeros((n, 3), dtype=np.int64)
        self.verdicts: list[tuple[Rows, Verdict]] = []
        self.steps: list[tuple[int, float]] = []
        self.single: Estimate | None = None

    def run(
        self, generator: torch.Generator, for_reference: torch.Generator
    ) -> Iterator[tuple[int, float]]:
        """Goes on until all pairs are done; what `Precise.steps` holds, one by one."""
        self.generator, self.for_reference = generator, for_reference
        first = np.zeros(3, dtype=np.int64)
        first[[j for j, q in enumerate(self.proposals.as_tuple) if q is not None]] = FIRST_DRAWS
        reference = reference_draws(first)
        if not self.batch:
            yield from self._follow([Group(np.arange(1), first, reference)])
            return
        quick = np.minimum(first, QUICK_DRAWS)
        for start in range(0, len(self.draws), BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(self.draws)))
            left = []
            for part in Group(rows, quick, QUICK_REFERENCE).parts():
                group, _, pending = self._look(part)
                yield self.steps[-1]
                if len(pending):
                    left.append(group.of(pending))
            if left:
                rows = np.concatenate([group.rows for group in left])
                draws = _joined([group.draws for group in left if group.draws is not None])
                group = Group(rows, first - quick, reference - QUICK_REFERENCE, draws)
                yield from self._follow(group.parts())

    def _follow(self, groups: list[Group]) -> Iterator[tuple[int, float]]:
        """Draws for these groups until their pairs are done; the last group always goes first."""
        groups = groups[::-1]
        while groups:
            group, widths, pending = self._look(groups.pop())
            yield self.steps[-1]
            if len(pending):
                groups += self._next(group.of(pending), widths[pending])

    def _look(self, group: Group) -> tuple[Group, Array, Rows]:
        """The group with its draws made, half-widths (R,), and the places of who goes on."""
        y, theta = self.y, self.theta
        if self.batch:
            y, theta = y[group.rows], None if theta is None else theta[group.rows]
        made = Sampler(self.problem, self.proposals, y, theta).draw(
            group.more,
            self.generator,
            reference=group.reference,
            reference_generator=self.for_reference,
        )
        draws = made if group.draws is None else group.draws.joined(made)
        counts = np.array([draws.count(j) for j in range(3)])
        total = int(counts.sum())
        found = report(
            self.estimator.prepare_all(draws), draws=total, positive=self.problem.nonnegative
        )
        lower, upper = found.interval(LEVEL)
        said = np.stack([found.value, found.standard_error, lower, upper]).reshape(4, -1)
        with np.errstate(invalid="ignore", divide="ignore"):
            widths = (said[3] - said[2]) / 2 / abs(said[0])
        widths = np.where(np.isfinite(widths), widths, np.inf)
        reached = widths <= self.relative_error
        reliable = np.atleast_1d(found.verdict.codes == RELIABLE)
        if counts.max() < FIRST_DRAWS:
            done = reached & reliable & (_effective_share(found) >= NEARLY_ALL)
        else:
            done = (reached & (reliable | (group.looks > 0))) | (total >= self.max_draws)
            group = replace(group, looks=group.looks + 1)
        places, rows = np.flatnonzero(done), group.rows[done]
        self.values[:, rows] = np.concatenate([said, widths[None]])[:, places]
        self.reached[rows], self.draws[rows] = reached[places], counts
        if len(places):
            whole = found.verdict
            self.verdicts.append((rows, whole[places] if self.batch else whole))
            self.single = None if self.batch else found
        before = self.steps[-1][0] if self.steps else 0
        new = len(group.rows) * int(group.more.sum())
        self.steps.append((before + new, float(widths.max())))
        return replace(group, draws=draws), widths, np.flatnonzero(~done)

    def _next(self, group: Group, widths: Array) -> list[Group]:
        """What these pairs draw next, those that draw about as much in one group."""
        assert group.draws is not None
        counts = np.array([group.draws.count(j) for j in range(3)])
        seen = moments(group.draws)
        plans: dict[tuple[int, ...], list[int]] = {}
        for place, width in enumerate(widths.tolist()):
            # The error falls with the root of the draws; its square would overflow.
            ratio = min(width / self.relative_error, LARGEST_GROWTH)
            growth = min(max(MARGIN * ratio**2, LEAST_GROWTH), LARGEST_GROWTH)
            wanted = min(self.max_draws, math.ceil(int(counts.sum()) * growth))
            known = _of_pair(seen, place) if self.batch else seen
            split = split_budget(known, wanted, estimator=self.scheme)
            left = wanted - int(counts.sum())
            more = _afforded(np.maximum(split - counts, 0), left, group.draws.present)
            if self.batch:
                more = _rounded(more, self.max_draws - int(counts.sum()))
            plans.setdefault(tuple(more.tolist()), []).append(place)
        groups: list[Group] = []
        for plan, places in plans.items():
            one = replace(group.of(np.array(places)), more=np.array(plan))
            wanted = reference_draws(counts + one.more) - group.draws.count(REFERENCE)
            groups += replace(one, reference=max(wanted, 1)).parts()
        return groups


def _effective_share(found: Estimate) -> Array:
    """The smallest effective share of a term's draws, by its own draws or by all, (*)."""
    terms = found.diagnostics.values()
    effective = [np.fmin(term.effective_draws, term.pooled_draws) / term.draws for term in terms]
    return np.asarray(np.min(effective, axis=0))


def _afforded(more: Counts, left: int, present: Sequence[int]) -> Counts:
    """As many of the draws wanted as there are left, and at least one in all."""
    if more.sum() > left:
        more = np.floor(more * left / more.sum()).astype(np.int64)
    if more.sum() == 0:
        more[present[-1]] = max(left, 1)
    return more


def _rounded(more: Counts, left: int) -> Counts:
    """The next numbers of draws on a grid, so that many pairs draw at once."""
    with np.errstate(divide="ignore"):
        steps = np.ceil(np.log(more) / math.log(GRID) - 1e-9)
    found = np.where(more > 0, np.ceil(GRID**steps), 0).astype(np.int64)
    return found if found.sum() <= left else more


def _of_pairs(draws: Draws, index: Rows) -> Draws:
    """The draws of some of the pairs."""
    return replace(
        draws,
        f=draws.f[index],
        log_joint=draws.log_joint[index],
        log_q={j: q[index] for j, q in draws.log_q.items()},
        log_E2=None if draws.log_E2 is None else draws.log_E2[index],
    )


def _joined(parts: list[Draws]) -> Draws:
    """The draws of the pairs of several batches, with as many draws each, as those of one."""
    one = parts[0]
    return replace(
        one,
        f=np.concatenate([part.f for part in parts]),
        log_joint=np.concatenate([part.log_joint for part in parts]),
        log_q={j: np.concatenate([part.log_q[j] for part in parts]) for j in one.log_q},
        log_E2=None
        if one.log_E2 is None
        else np.concatenate([part.log_E2 for part in parts if part.log_E2 is not None]),
    )


def _of_pair(seen: Moments, place: int) -> Moments:
    """The moments of one of several pairs."""
    return replace(
        seen,
        log_scale=np.asarray(seen.log_scale[place]),
        mean=seen.mean[place],
        covariance=seen.covariance[place],
    )
