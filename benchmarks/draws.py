r"""How fast points are drawn and estimates made: `python benchmarks/draws.py`, on one idle core.

Prints draws per second with their log densities under every proposal, log p(x, y) and f, the time
of one estimate, and how both grow with the batch; then trains the tail problem briefly in more and
more dimensions, and prints what that does to the relative variance.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import torch

import amci_core as amci
from amci_core.estimation.sampling import Sampler
from amci_core.flows import Proposals
from amci_core.models.tail import tail
from amci_core.training.fit import Fit
from amci_core.training.recipes import recipe

# Draws a second that are asked for, and those of the code that came with the paper.
WANTED = {
    ("tail-1d", 100_000): (7e6, 7.0e6),
    ("tail-1d", 1_000): (2e6, 4.6e5),
    ("tail-5d", 10_000): (1e5, 1_770),
    ("cancer", 10_000): (6e4, 11_500),
    ("gain-loss", 10_000): (None, None),
    ("peak", 10_000): (None, None),
}
MILLISECONDS = {"tail-1d": 3.0, "tail-5d": 8.0, "cancer": 30.0}
DIMENSIONS = (1, 2, 5, 10, 20)


def best_of(act: Callable[[], Any], repeats: int = 7) -> float:
    """Seconds of the fastest of several calls; the first one warms up."""
    act()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def megabytes() -> float:
    """Largest resident memory so far."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def draws_per_second(sampler: Sampler, n: int) -> float:
    """Points of all proposals together, n in all, with everything that an estimator sees."""
    counts = np.zeros(3, dtype=np.int64)
    counts[list(sampler.present)] = n // len(sampler.present)
    generator = torch.Generator().manual_seed(0)
    return counts.sum() / best_of(lambda: sampler.draw(counts, generator))


def report_draws() -> None:
    """Draws per second at one (y, theta), beside what is asked for."""
    print("draws per second, with all densities, log p(x, y) and f, at one (y, theta)")
    for (name, n), (wanted, released) in WANTED.items():
        problem, proposals = amci.problem(name), amci.load_proposals(name)
        y, theta = problem.check(*problem.cases(1, seed=0))
        sampler = Sampler(problem, proposals, y[0], None if theta is None else theta[0])
        speed = draws_per_second(sampler, n)
        beside = "" if released is None else f", {speed / released:6.1f} times the paper's code"
        verdict = "" if wanted is None else f" ({'holds' if speed >= wanted else 'too slow'})"
        print(f"  {name:<10} batch {n:>7,} {speed:12,.0f}{beside}{verdict}; {megabytes():.0f} MB")


def report_estimates() -> None:
    """Milliseconds of one estimate, and of a batch of a thousand cases."""
    print("one estimate with 64 draws a proposal")
    for name, wanted in MILLISECONDS.items():
        problem, proposals = amci.problem(name), amci.load_proposals(name)
        y, theta = problem.cases(1, seed=0)
        at = (y[0], None if theta is None else theta[0])
        # Another seed every time: what was solved at the same points is kept.
        seeds = count()
        found = 1000 * best_of(
            lambda p=problem, q=proposals, a=at, s=seeds: amci.estimate(p, q, *a, seed=next(s))
        )
        verdict = "holds" if found <= wanted else "too slow"
        print(f"  {name:<10} {found:7.2f} ms of {wanted:g} ms ({verdict})")
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
    y, theta = problem.cases(1000, seed=0)
    found = 1000 * best_of(lambda: amci.estimate(problem, proposals, y, theta))
    print(f"  tail-1d, a thousand cases at once {found:7.1f} ms of 100 ms")


def report_batches() -> None:
    """How draws per second grow with the batch."""
    print("tail-5d, draws per second by batch")
    problem, proposals = amci.problem("tail-5d"), amci.load_proposals("tail-5d")
    y, theta = problem.check(*problem.cases(1, seed=0))
    sampler = Sampler(problem, proposals, y[0], None if theta is None else theta[0])
    for n in (100, 1_000, 10_000, 100_000):
        print(f"  {n:>7,} {draws_per_second(sampler, n):12,.0f}; {megabytes():.0f} MB")


def report_dimensions(steps: int) -> None:
    """The same short training of q1 in more and more dimensions."""
    print(f"tail problem by dimension: q1 after {steps:,} steps")
    term = recipe("tail-5d", "spline").terms["q1_plus"]
    for dim in DIMENSIONS:
        problem = tail(dim)
        coordinates = [{"kind": "half-line", "scale": 0.5}] * dim
        scaled = replace(term, arguments={**term.arguments, "coordinates": coordinates})
        device = torch.device("cpu")
        fit = Fit(problem, "q1_plus", scaled, steps=steps, seed=0, device=device, reports=5)
        last = list(fit.run())[-1]
        quality, q1 = last.quality, fit.best_proposal().double().requires_grad_(False)
        y, theta = problem.check(*problem.cases(1, seed=0))
        only = Proposals(problem.name, "short", q1, None, None)
        speed = draws_per_second(Sampler(problem, only, y[0], theta[0]), 10_000)
        print(
            f"  D = {dim:>2}: relative variance {quality.relative_variance:.2g} (95 % "
            f"{quality.relative_variance_q95:.2g}, largest {quality.relative_variance_max:.2g}), "
            f"{1000 * last.seconds / steps:.0f} ms a step, {speed:,.0f} draws per second"
        )


def main() -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="of each short training; 0: none")
    options = parser.parse_args()
    torch.set_num_threads(1)
    report_draws()
    report_estimates()
    report_batches()
    if options.steps:
        report_dimensions(options.steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
