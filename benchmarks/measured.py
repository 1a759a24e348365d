r"""The figures of `benchmarks/draws.py`, as JSON, of whichever tree of the package is imported.

It runs in earlier commits too: what has moved since is looked for at both places.
"""

from __future__ import annotations

__all__ = ["best_of", "draws_per_second", "main", "megabytes"]

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import torch

import amci_core as amci

try:
    # Its name in earlier commits; an editable install would offer them today's as well.
    Sampler = importlib.import_module("amci_core.evaluation.drawing").Sampler
except ModuleNotFoundError:
    Sampler = importlib.import_module("amci_core.estimation.sampling").Sampler

# Cases for `estimate_to`: a batch, or single ones where it takes no batches.
CASES, SINGLE_CASES = 4000, 20


def best_of(act: Callable[[], Any], repeats: int = 7) -> float:
    """Seconds of one core that the fastest of several calls takes; the first one warms up.

    The thread's own clock is used, so that other programs matter less; nothing here is computed in
    another thread.
    """
    act()
    seconds = []
    for _ in range(repeats):
        start = time.thread_time()
        act()
        seconds.append(time.thread_time() - start)
    return min(seconds)


def megabytes() -> float:
    """Largest resident memory so far."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def draws_per_second(problem: Any, proposals: Any, n: int) -> float:
    """Points of all proposals, n in all, at one (y, theta), with everything an estimator sees."""
    y, theta = problem.check(*problem.cases(1, seed=0))
    sampler = Sampler(problem, proposals, y[0], None if theta is None else theta[0])
    counts = np.zeros(3, dtype=np.int64)
    counts[list(proposals.present)] = n // len(proposals.present)
    generator = torch.Generator().manual_seed(0)
    return float(counts.sum() / best_of(lambda: sampler.draw(counts, generator)))


def milliseconds(name: str, **chosen: Any) -> float:
    """Of one estimate with 128 draws, and its standard error."""
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    y, theta = problem.cases(1, seed=0)
    at = (y[0], None if theta is None else theta[0])
    # Another seed every time: what was computed at the same points may be kept.
    seeds = count()
    return 1000 * best_of(
        lambda: amci.estimate(problem, proposals, *at, seed=next(seeds), **chosen).standard_error,
        repeats=30,
    )


def cases_per_second(name: str) -> float:
    """With `estimate_to` at 1 %."""
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    y, theta = problem.cases(CASES, seed=0)
    theta = [None] * CASES if theta is None else theta

    def single(n: int) -> None:
        for case in range(n):
            amci.estimate_to(problem, proposals, y[case], theta[case], relative_error=0.01)

    single(1)
    try:
        seconds = best_of(
            lambda: amci.estimate_to(problem, proposals, y, theta, relative_error=0.01), repeats=1
        )
    except ValueError as error:
        if "single pair" not in str(error):
            raise
        return SINGLE_CASES / best_of(lambda: single(SINGLE_CASES), repeats=1)
    return CASES / seconds


def main() -> int:
    """Prints the figures by name."""
    torch.set_num_threads(1)
    found = {}
    for name in ("tail-1d", "tail-5d", "cancer"):
        found[f"estimate {name}"] = milliseconds(name)
        found[f"over amci {name}"] = found[f"estimate {name}"] / milliseconds(
            name, estimator="amci"
        )
    for name, n in (
        ("tail-1d", 1_000),
        ("tail-1d", 100_000),
        ("tail-5d", 10_000),
        ("cancer", 10_000),
        ("gain-loss", 10_000),
        ("peak", 10_000),
    ):
        speed = draws_per_second(amci.problem(name), amci.load_proposals(name), n)
        found[f"draws {name} {n}"] = speed
    found["cases tail-5d"] = cases_per_second("tail-5d")
    found["memory"] = megabytes()
    json.dump({"tree": amci.__file__, "figures": found}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
