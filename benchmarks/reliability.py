r"""How often verdicts are right: `python benchmarks/reliability.py`, some minutes a problem.

Thresholds of the verdict are tuned on one set and reported on another:

- tuning: shipped problems with their trained proposals, with early frames of the training, and
  with proposals made worse on purpose: narrowed, shifted, or without half of their mass;
- report: problems of `invented.py` with proposals that `learn` trains for them, and other
  seeds.

A case is one (y, theta) with one set of proposals, run many times. It is reliable if the errors of
nearly all runs lie within three of their standard errors, and these are not larger than f itself.
Doubts are standard errors over cases.
"""

from __future__ import annotations

__all__ = ["Case", "Degraded", "Table", "confusion", "main", "measure", "optimism", "worse"]

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from invented import OWN_PROBLEMS
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import biject_to
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import Transform

import amci_core as amci
from amci_core.diagnostics import LEVELS
from amci_core.flows import ConditionalDensity, Proposal, Proposals
from amci_core.models import Problem
from amci_core.training import learn
from amci_core.training.learn import usual_terms

Array = NDArray[np.float64]

SHIPPED = ("tail-1d", "tail-5d", "cancer", "gain-loss")
KINDS = ("good", "early", "narrowed", "shifted", "halved")
# Nearly all runs of a reliable case: a normal error lies within three standard errors in 99.7 %.
WITHIN, NEARLY_ALL = 3.0, 0.95
# Draws whose effective share is compared with that of many.
FEW, MANY = (64, 256, 1000), 100_000
PILOT = 4096


class Degraded(Proposal):
    """A proposal made worse: its points, unconstrained, are moved.

    Arguments:
        proposal: The one to spoil.
        problem: Whose f_plus it is for.
        everywhere: Whether it lives wherever x does, not on the support of f_plus alone.
        scale: Factor by which points are moved away from their mean.
        shift: Shift of every coordinate, in standard deviations of the proposal.
        halved: Whether the half above the mean of the first coordinate is mirrored at it.
    """

    def __init__(
        self,
        proposal: Proposal,
        problem: Problem,
        *,
        everywhere: bool,
        scale: float = 1.0,
        shift: float = 0.0,
        halved: bool = False,
    ) -> None:
        self.proposal, self.problem, self.everywhere = proposal, problem, everywhere
        self.scale, self.shift, self.halved = scale, shift, halved

    def _support(self, theta: Tensor | None) -> Constraint:
        unbounded = self.everywhere and math.isinf(self.problem.x.low)
        if unbounded:
            return torch.distributions.constraints.real
        return self.problem.support_plus(None if theta is None else theta[..., None, :])

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        return _Worse(self.proposal(y, theta), biject_to(self._support(theta)), self)


class _Worse(ConditionalDensity):
    def __init__(self, density: ConditionalDensity, to_support: Transform, how: Degraded) -> None:
        super().__init__(density.batch_shape)
        self._density, self._to_support, self._how = density, to_support, how
        pilot = to_support.inv(density.draw(PILOT, torch.Generator().manual_seed(0))[0])
        self._mean = pilot.mean(dim=-2, keepdim=True)
        self._shift = how.shift * pilot.std(dim=-2, keepdim=True)

    def _mirror(self, z: Tensor) -> Tensor:
        return torch.cat([2 * self._mean[..., :1] - z[..., :1], z[..., 1:]], -1)

    def _above(self, z: Tensor) -> Tensor:
        return z[..., :1] > self._mean[..., :1]

    def _log_slope(self, z: Tensor, x: Tensor) -> Tensor:
        return self._to_support.log_abs_det_jacobian(z, x).expand_as(x).sum(-1)

    def _log_original(self, z: Tensor) -> Tensor:
        x = self._to_support(z)
        log_q = self._density.log_prob(x) + self._log_slope(z, x)
        return torch.nan_to_num(log_q, nan=-math.inf, posinf=-math.inf, neginf=-math.inf)

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        z = self._to_support.inv(self._density.draw(n, generator)[0])
        if self._how.halved:
            z = z.where(~self._above(z), self._mirror(z))
        x = self._to_support(self._mean + self._how.scale * (z - self._mean) + self._shift)
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        at = self._to_support.inv(x)
        z = self._mean + (at - self._mean - self._shift) / self._how.scale
        log_q = self._log_original(z)
        if self._how.halved:
            log_q = torch.logaddexp(log_q, self._log_original(self._mirror(z)))
            log_q = log_q.masked_fill(self._above(z)[..., 0], -math.inf)
        log_q = log_q - x.shape[-1] * math.log(self._how.scale) - self._log_slope(at, x)
        return torch.nan_to_num(log_q, nan=-math.inf, posinf=-math.inf, neginf=-math.inf)


def worse(
    problem: Problem, proposals: Proposals, kind: str, rng: np.random.Generator
) -> Proposals:
    """Each proposal is spoilt, or left alone, by chance; at least one is spoilt."""
    spoilt: list[Proposal | None] = []
    chosen = rng.integers(len(proposals.present))
    for j, proposal in enumerate(proposals.as_tuple):
        if proposal is None or (j != proposals.present[chosen] and rng.random() < 0.5):
            spoilt.append(proposal)
            continue
        how = {
            "narrowed": {"scale": float(np.exp(rng.uniform(np.log(0.35), np.log(1.0))))},
            "shifted": {"shift": float(rng.normal())},
            "halved": {"halved": True},
        }[kind]
        own = problem.negated() if j == 1 else problem
        spoilt.append(Degraded(proposal, own, everywhere=j == 2, **how))
    return Proposals(problem.name, kind, spoilt[0], spoilt[1], spoilt[2])


class Case(NamedTuple):
    """One (y, theta) with one set of proposals.

    Arguments:
        kind: Where the proposals come from.
        codes: Verdicts of the runs, indices of `LEVELS`.
        covered: Whether the 95 % interval of each run holds the truth.
        within: Whether the error of each run lies within three of its own standard errors.
        vacuous: Whether that standard error exceeds the mean of |f|, or is infinite: it is kept
            by whatever estimate, and says nothing.
    """

    kind: str
    codes: NDArray[np.int64]
    covered: NDArray[np.bool_]
    within: NDArray[np.bool_]
    vacuous: NDArray[np.bool_]

    @property
    def reliable(self) -> bool:
        """Whether nearly all of its runs are right about their error."""
        return bool((self.within & ~self.vacuous).mean() >= NEARLY_ALL)


def measure(
    problem: Problem,
    proposals: Proposals,
    y: Array,
    theta: Array | None,
    *,
    kind: str,
    draws: int,
    runs: int,
    seed: int,
) -> Case:
    """Runs one case many times, with so many draws of each proposal."""
    mu = float(problem.truth(y, theta))
    # Exact estimates are right but for rounding.
    slack = 1e-9 * abs(mu)
    found = amci.estimate(problem, proposals, np.tile(y, (runs, 1)), theta, draws=draws, seed=seed)
    lower, upper = found.interval(0.95)
    parts = [found.terms[name].value for name in ("E1_plus", "E1_minus") if name in found.terms]
    size = np.sum(parts, axis=0) / found.terms["E2"].value
    return Case(
        kind,
        codes=found.verdict.codes,
        covered=(lower - slack <= mu) & (mu <= upper + slack),
        within=np.abs(found.value - mu) <= WITHIN * found.standard_error + slack,
        vacuous=~(found.standard_error < size),
    )


@dataclass(frozen=True)
class Table:
    """Verdicts of single runs against what is so, with standard errors over cases.

    Arguments:
        cases: Number of cases that are reliable, and that are not.
        said: Share of their runs given each of `LEVELS`, (2, 3); NaN without cases.
        called: Share of the runs of reliable cases that are called so.
        wrong: Share of the runs called reliable that err by more than three standard errors.
        covered: Coverage of 95 % intervals over the runs called reliable.
    """

    cases: tuple[int, int]
    said: Array
    called: tuple[float, float]
    wrong: tuple[float, float]
    covered: tuple[float, float]

    def __str__(self) -> str:
        lines = [f"  {'':<14}{'cases':>7}" + "".join(f"{level:>17}" for level in LEVELS)]
        for name, n, shares in zip(
            ("reliable", "not reliable"), self.cases, self.said, strict=True
        ):
            lines.append(f"  {name:<14}{n:>7}" + "".join(f"{share:17.1%}" for share in shares))
        for name, (share, doubt), limit in (
            ("reliable runs called so", self.called, "at least 85 %"),
            ("wrong among those called reliable", self.wrong, "at most 5 %"),
            ("coverage of 95 % intervals among them", self.covered, "93 to 97 %"),
        ):
            lines.append(f"  {name}: {share:.1%} ± {doubt:.1%} ({limit})")
        return "\n".join(lines)


def confusion(cases: Sequence[Case]) -> Table:
    """The confusion table over some cases."""
    row = np.array([0 if case.reliable else 1 for case in cases])
    said = np.array([[(case.codes == k).mean() for k in range(3)] for case in cases])
    means = [said[row == i].mean(0) if (row == i).any() else np.full(3, np.nan) for i in (0, 1)]
    passed = [case.codes == 0 for case in cases]
    runs = np.array([each.sum() for each in passed], dtype=np.float64)
    return Table(
        cases=(int((row == 0).sum()), int((row == 1).sum())),
        said=np.array(means),
        called=_ratio(said[row == 0, 0], np.ones(int((row == 0).sum()))),
        wrong=_ratio(
            np.array([(~c.within[ok]).sum() for c, ok in zip(cases, passed, strict=True)]), runs
        ),
        covered=_ratio(
            np.array([c.covered[ok].sum() for c, ok in zip(cases, passed, strict=True)]), runs
        ),
    )


def _ratio(above: Array, below: Array) -> tuple[float, float]:
    """A ratio of sums over cases, and its standard error."""
    if not below.sum():
        return math.nan, math.nan
    ratio = above.sum() / below.sum()
    return float(ratio), float(np.sqrt(np.square(above - ratio * below).sum()) / below.sum())


def tuning(name: str, kind: str, number: int) -> tuple[Problem, Proposals]:
    """A shipped problem with proposals of that kind."""
    problem, trained = amci.problem(name), amci.load_proposals(name)
    rng = np.random.default_rng([number, SHIPPED.index(name)])
    if kind == "good":
        return problem, trained
    if kind == "early":
        frames = amci.load_snapshots(name)[:-1]
        return problem, frames[int(rng.integers(len(frames)))].proposals
    return problem, worse(problem, trained, kind, rng)


def learnt(name: str, folder: Path, steps: int) -> tuple[Problem, Proposals]:
    """A problem of one's own with trained proposals, from the folder where they are there."""
    problem, place = OWN_PROBLEMS[name](), folder / name
    if not (place / "config.json").exists():
        print(f"{name}: training {steps} steps into {place}", file=sys.stderr)
        small = {"bins": 8, "hidden": [32, 32]} if problem.x.dim > 1 else {}
        terms = {
            key: replace(term, arguments={**term.arguments, **small})
            for key, term in usual_terms(problem).items()
        }
        amci.save_proposals(place, learn(problem, terms, steps=steps, seed=0))
    return problem, amci.load_proposals(problem, folder=place)


def optimism(pairs: int) -> Iterator[str]:
    """Effective share of 64, 256 and 1,000 draws over that of 100,000, for every kind."""
    yield f"  {'':<10}" + "".join(f"{n:>10,} draws: median  95th pct  largest" for n in FEW)
    for kind in KINDS:
        found: list[list[float]] = [[], [], []]
        for name in SHIPPED:
            for i in range(pairs):
                problem, proposals = tuning(name, kind, i)
                y, theta = (None if v is None else v[i] for v in problem.cases(pairs, seed=7))
                many = amci.estimate(problem, proposals, y, theta, draws=MANY, seed=i)
                for k, n in enumerate(FEW):
                    batch = np.tile(y, (20, 1))
                    few = amci.estimate(problem, proposals, batch, theta, draws=n, seed=i)
                    for term, there in many.diagnostics.items():
                        share = few.diagnostics[term].effective_draws / n
                        found[k] += list(share / (there.effective_draws / MANY))
        cells = []
        for ratios in found:
            known = np.array(ratios)[np.isfinite(ratios)]
            cells.append(
                f"{np.median(known):24.2f}{np.quantile(known, 0.95):10.2f}{known.max():9.1f}"
            )
        yield f"  {kind:<10}" + "".join(cells)


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15, help="cases of each problem")
    parser.add_argument("--draws", type=int, nargs="+", default=[256], help="of each proposal")
    parser.add_argument("--runs", type=int, default=100, help="of each case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sets", nargs="+", default=["tuning", "report", "optimism"])
    parser.add_argument("--folder", type=Path, default=Path("runs/own"), help="learnt proposals")
    parser.add_argument("--steps", type=int, default=500, help="of their training")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for draws in options.draws:
        for chosen in ("tuning", "report"):
            if chosen not in options.sets:
                continue
            names = SHIPPED if chosen == "tuning" else tuple(OWN_PROBLEMS)
            everything: list[Case] = []
            for name in names:
                # The report set has other seeds as well.
                seed = options.seed + (1000 if chosen == "report" else 0)
                found = list(_cases(name, chosen, draws, seed, options))
                print(f"{name} ({chosen}), {draws} draws of each proposal", flush=True)
                print(confusion(found))
                everything += found
            print(f"all of {chosen}, {draws} draws of each proposal")
            print(confusion(everything), flush=True)
    if "optimism" in options.sets:
        print("effective share over that of 100,000 draws")
        for line in optimism(2):
            print(line, flush=True)
    return 0


def _cases(
    name: str, chosen: str, draws: int, seed: int, options: argparse.Namespace
) -> Iterator[Case]:
    for i in range(options.pairs):
        kind = KINDS[i % len(KINDS)] if chosen == "tuning" else "learnt"
        problem, proposals = (
            tuning(name, kind, i)
            if chosen == "tuning"
            else learnt(name, options.folder, options.steps)
        )
        y, theta = problem.cases(options.pairs, seed=seed)
        assert y is not None
        at = (y[i], None if theta is None else theta[i])
        yield measure(
            problem, proposals, *at, kind=kind, draws=draws, runs=options.runs, seed=seed + i
        )


if __name__ == "__main__":
    sys.exit(main())
