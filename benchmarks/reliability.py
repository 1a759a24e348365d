r"""How often verdicts are right: `python benchmarks/reliability.py`, some minutes a problem.

Cases are drawn from p(y) p(theta), with the pretrained proposals, with early frames of their
training, and with proposals made worse on purpose, each on its own: narrower, wider, shifted.
Every case is run many times with N = M draws, which gives verdicts and the coverage of 95 %
intervals, and again with ten times the draws, which says whether it *is* reliable: whether the
error lies within three of its own standard errors, in one run, or in nearly all runs. Where these
standard errors are larger than f itself, nothing can be said either way.
"""

from __future__ import annotations

__all__ = ["Case", "Degraded", "Table", "confusion", "degraded", "main", "measure"]

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import biject_to
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import Transform

import amci_core as amci
from amci_core.diagnostics import LEVELS
from amci_core.estimation import Estimate
from amci_core.flows import ConditionalDensity, Proposal, Proposals
from amci_core.models import Problem

PROBLEMS = ("tail-1d", "tail-5d", "cancer", "gain-loss")
# What a normal error does: 99.7 % within three standard errors.
WITHIN, NEARLY_ALL = 3.0, 0.98
# Fewer runs than this fall below that share by chance.
LEAST_RUNS = 100
PILOT = 4096
ROWS = ("reliable", "not reliable", "error unknown")


class Degraded(Proposal):
    """A proposal made worse: its points, unconstrained, scaled about their mean and shifted.

    Arguments:
        proposal: The one to spoil.
        problem: Whose f_plus it is for.
        everywhere: Whether it lives wherever x does, not on the support of f_plus alone.
        scale: Factor by which points are moved away from their mean.
        shift: Shift of every coordinate, in standard deviations of the proposal.
    """

    def __init__(
        self,
        proposal: Proposal,
        problem: Problem,
        *,
        everywhere: bool,
        scale: float,
        shift: float,
    ) -> None:
        self.proposal, self.problem, self.everywhere = proposal, problem, everywhere
        self.scale, self.shift = scale, shift

    def _support(self, theta: Tensor | None) -> Constraint:
        unbounded = self.everywhere and math.isinf(self.problem.x.low)
        if unbounded:
            return torch.distributions.constraints.real
        return self.problem.support_plus(None if theta is None else theta[..., None, :])

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        return _Spoilt(
            self.proposal(y, theta), biject_to(self._support(theta)), self.scale, self.shift
        )


class _Spoilt(ConditionalDensity):
    def __init__(
        self, density: ConditionalDensity, to_support: Transform, scale: float, shift: float
    ) -> None:
        super().__init__(density.batch_shape)
        self._density, self._to_support, self._scale = density, to_support, scale
        pilot = to_support.inv(density.draw(PILOT, torch.Generator().manual_seed(0))[0])
        self._mean = pilot.mean(dim=-2, keepdim=True)
        self._shift = shift * pilot.std(dim=-2, keepdim=True)

    def _log_slope(self, z: Tensor, x: Tensor) -> Tensor:
        return self._to_support.log_abs_det_jacobian(z, x).expand_as(x).sum(-1)

    def _log_q(self, x: Tensor, log_q: Tensor, moved: Tensor, z: Tensor, at: Tensor) -> Tensor:
        change = self._log_slope(z, x) - self._log_slope(at, moved)
        return log_q + change - x.shape[-1] * math.log(self._scale)

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        x, log_q = self._density.draw(n, generator)
        z = self._to_support.inv(x)
        at = self._mean + self._scale * (z - self._mean) + self._shift
        moved = self._to_support(at)
        return moved, self._log_q(x, log_q, moved, z, at)

    def log_prob(self, x: Tensor) -> Tensor:
        at = self._to_support.inv(x)
        z = self._mean + (at - self._mean - self._shift) / self._scale
        original = self._to_support(z)
        log_q = self._log_q(original, self._density.log_prob(original), x, z, at)
        return torch.nan_to_num(log_q, nan=-math.inf, posinf=-math.inf, neginf=-math.inf)


def degraded(problem: Problem, proposals: Proposals, rng: np.random.Generator) -> Proposals:
    """Each proposal is spoilt, or left alone, by chance; at least one is spoilt."""
    spoilt: list[Proposal | None] = []
    chosen = rng.integers(len(proposals.present))
    for j, proposal in enumerate(proposals.as_tuple):
        if proposal is None or (j != proposals.present[chosen] and rng.random() < 0.5):
            spoilt.append(proposal)
            continue
        spoilt.append(
            Degraded(
                proposal,
                problem.negated() if j == 1 else problem,
                everywhere=j == 2,
                scale=float(np.exp(rng.uniform(np.log(0.35), np.log(2.5)))),
                shift=float(rng.choice([0.0, rng.normal()])),
            )
        )
    return Proposals(problem.name, "degraded", spoilt[0], spoilt[1], spoilt[2])


class Case(NamedTuple):
    """One (y, theta) with one set of proposals.

    Arguments:
        kind: Where the proposals come from.
        codes: Verdicts of the runs with N = M draws, indices of `LEVELS`.
        covered: Whether the 95 % interval of each of these runs holds the truth.
        within: Whether the error of each run with ten times the draws lies within three of its
            own standard errors.
        vacuous: Whether that standard error exceeds the mean of |f|, or is infinite: it is kept
            by whatever estimate, and says nothing.
    """

    kind: str
    codes: NDArray[np.int64]
    covered: NDArray[np.bool_]
    within: NDArray[np.bool_]
    vacuous: NDArray[np.bool_]

    def row(self, *, once: bool) -> int:
        """Which of `ROWS` it belongs to, by the first of the runs or by nearly all of them."""
        n = 1 if once else len(self.within)
        if self.vacuous[:n].mean() > 1 - NEARLY_ALL:
            return 2
        return 0 if self.within[:n].mean() >= NEARLY_ALL else 1


def measure(
    problem: Problem,
    proposals: Proposals,
    y: NDArray[np.float64],
    theta: NDArray[np.float64] | None,
    *,
    kind: str,
    draws: int,
    runs: int,
    seed: int,
) -> Case:
    """Runs one case: with N = M draws, and a fifth as often, if not too rarely, with ten times."""
    mu = float(problem.truth(y, theta))
    # Exact estimates are right but for rounding.
    slack = 1e-9 * abs(mu)

    def run(n: int, times: int, stream: int) -> Estimate:
        batch = np.tile(y, (times, 1))
        return amci.estimate(problem, proposals, batch, theta, draws=n, seed=2 * seed + stream)

    few, many = run(draws, runs, 0), run(10 * draws, max(runs // 5, LEAST_RUNS), 1)
    lower, upper = few.interval(0.95)
    parts = [many.terms[name].value for name in ("E1_plus", "E1_minus") if name in many.terms]
    size = np.sum(parts, axis=0) / many.terms["E2"].value
    return Case(
        kind,
        codes=few.verdict.codes,
        covered=(lower - slack <= mu) & (mu <= upper + slack),
        within=np.abs(many.value - mu) <= WITHIN * many.standard_error + slack,
        vacuous=~(many.standard_error < size),
    )


@dataclass(frozen=True)
class Table:
    """Verdicts of single runs against what is so: shares of the runs of all cases of a row.

    Arguments:
        cases: Number of cases in each of `ROWS`.
        said: Share of their runs given each of `LEVELS`, (3, 3); NaN without cases.
    """

    cases: tuple[int, ...]
    said: NDArray[np.float64]

    def __str__(self) -> str:
        head = f"  {'':<24}{'cases':>7}" + "".join(f"{level:>17}" for level in LEVELS)
        rows = [
            f"  {name:<24}{n:>7}" + "".join(f"{share:17.1%}" for share in shares)
            for name, n, shares in zip(ROWS, self.cases, self.said, strict=True)
            if n
        ]
        return "\n".join([head, *rows])


def confusion(cases: Sequence[Case], *, once: bool) -> Table:
    """The confusion table, by one run of ten times the draws or by nearly all."""
    row = np.array([c.row(once=once) for c in cases])
    said = np.array([[(c.codes == k).mean() for k in range(len(LEVELS))] for c in cases])
    means = [
        said[row == i].mean(axis=0) if (row == i).any() else np.full(len(LEVELS), np.nan)
        for i in range(len(ROWS))
    ]
    return Table(tuple(int((row == i).sum()) for i in range(len(ROWS))), np.array(means))


def coverage(cases: Sequence[Case], *, least: float = 0.5) -> Iterator[tuple[Case, float, int]]:
    """Coverage over the runs called reliable, and their number, of cases mostly called so."""
    for case in cases:
        reliable = case.codes == 0
        if reliable.mean() >= least:
            yield case, float(case.covered[reliable].mean()), int(reliable.sum())


def cases_of(name: str, *, pairs: int, draws: int, runs: int, seed: int) -> Iterator[Case]:
    """The cases of one problem: a third pretrained, a sixth early frames, the rest degraded."""
    problem, trained = amci.problem(name), amci.load_proposals(name)
    early = [snapshot.proposals for snapshot in amci.load_snapshots(name)][:-1]
    rng = np.random.default_rng(seed)
    y, theta = problem.cases(pairs, seed=seed)
    for i in range(pairs):
        kind = ("pretrained", "degraded", "degraded", "pretrained", "degraded", "early")[i % 6]
        proposals = trained
        if kind == "early" and early:
            proposals = early[int(rng.integers(len(early)))]
        elif kind != "pretrained":
            kind, proposals = "degraded", degraded(problem, trained, rng)
        assert y is not None
        at = (y[i], None if theta is None else theta[i])
        yield measure(problem, proposals, *at, kind=kind, draws=draws, runs=runs, seed=seed + i)


def report(cases: Sequence[Case]) -> None:
    """Prints the tables over some cases."""
    for once, what in ((True, "one run"), (False, f"{NEARLY_ALL:.0%} of the runs")):
        print(f"  reliable: within {WITHIN:g} standard errors at 10 times the draws in {what}")
        print(confusion(cases, once=once))
    found = list(coverage(cases))
    if found:
        shares = np.array([share for _, share, _ in found])
        noise = np.array([2 * math.sqrt(0.95 * 0.05 / n) for _, _, n in found])
        inside = ((shares > 0.93 - noise) & (shares < 0.97 + noise)).mean()
        print(
            f"  95 % intervals of the {len(found)} cases called reliable cover "
            f"{shares.mean():.1%} on average, {shares.min():.1%} to {shares.max():.1%}; "
            f"{inside:.1%} of the cases lie within 93 to 97 %, give or take two standard errors"
        )


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=PROBLEMS, choices=PROBLEMS)
    parser.add_argument("--pairs", type=int, default=60, help="cases of each problem")
    parser.add_argument("--draws", type=int, default=256, help="from each proposal")
    parser.add_argument("--runs", type=int, default=500, help="of each case")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    everything: list[Case] = []
    for name in options.problems:
        start = time.perf_counter()
        found = []
        for case in cases_of(
            name, pairs=options.pairs, draws=options.draws, runs=options.runs, seed=options.seed
        ):
            found.append(case)
            print(f"\r{name}: {len(found)} of {options.pairs} cases", end="", file=sys.stderr)
        print(file=sys.stderr)
        print(f"{name}, N = M = {options.draws}, {time.perf_counter() - start:.0f} s")
        report(found)
        everything += found
    if len(options.problems) > 1:
        print("all problems")
        report(everything)
    return 0


if __name__ == "__main__":
    sys.exit(main())
