"""How often means that runs are said to determine are off: `python benchmarks/determined.py`.

Long runs of every case are cut into short ones, whose means are held against that of all. The
table is that of docs/estimators.md; it takes some six minutes of one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import torch

import amci_core as amci
from amci_core.evaluation.runs import ROUNDING, effective_errors, is_determined, least_effective

SHORT = (100, 200, 400, 1000)
# Short runs of each case.
CHUNKS = 60
# What two totals of draws cost is a few times what the larger costs.
FEW, MANY = (2, 4, 10, 30), (100, 300, 1000)
PROBLEMS = [
    *(("tail-1d", v, 7, FEW) for v in ("spline", "paper")),
    *(("tail-1d", v, 4, MANY) for v in ("spline", "paper")),
    *((name, "spline", 4, FEW) for name in ("cancer", "tail-5d", "peak")),
    ("tail-1d", "oracle", 3, FEW),
    ("gain-loss", "spline", 10, (3, 10, 30)),
    ("gain-loss", "spline", 4, MANY),
]
ESTIMATORS = ("amci", "snis-q2", "snis-qm", "snis-q1", "snis-qm-stratified", "amci-cv")


def cells(runs: int) -> Iterator[tuple[str, np.ndarray]]:
    """Errors of many runs in units of mu, (R,), for each problem, case, estimator and budget."""
    for name, variant, cases, draws in PROBLEMS:
        problem, proposals = amci.problem(name), amci.load_proposals(name, variant=variant)
        served = ESTIMATORS if proposals.q2 is not None else ("amci", "snis-q1")
        y, theta = problem.cases(cases, seed=5)
        for i in range(cases):
            case = [None if v is None else v[i] for v in (y, theta)]
            longest = min(runs, 3_000_000 // draws[-1])
            found = amci.error_curves(
                problem, proposals, *case, draws=draws, runs=longest, estimators=served, seed=i
            )
            for estimator, curve in found.by_name.items():
                for errors in curve.errors.T:
                    there = errors[~np.isnan(errors)]
                    if np.square(there).max(initial=0.0) > ROUNDING:
                        yield estimator, there


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="longest runs of a case")
    torch.set_num_threads(1)
    off = {short: np.zeros(7) for short in SHORT}
    for estimator, errors in cells(parser.parse_args().runs):
        for short, total in off.items():
            chunks = min(len(errors) // short, CHUNKS)
            if chunks < 2:
                continue
            runs = errors[: chunks * short].reshape(chunks, short).T
            mean = np.square(runs).mean(axis=0)
            called = is_determined(mean, effective_errors(runs), least_effective(short))
            ratio = np.abs(np.log(mean[called] / np.square(errors).mean()))
            amci_too = (estimator == "amci") * np.array([called.sum(), (ratio > np.log(3)).sum()])
            wrong = [(ratio > np.log(factor)).sum() for factor in (2, 3, 10)]
            # Every case counts alike, however many short runs it has.
            total += np.array([chunks, called.sum(), *wrong, *amci_too]) / chunks
    print("runs: % determined; of these off by more than 2, 3, 10; AMCI alone by more than 3")
    for short, (every, called, *wrong, of_amci, amci_wrong) in off.items():
        shares = [100 * each / called for each in wrong] if called else []
        own = 100 * amci_wrong / of_amci if of_amci else np.nan
        told = "  ".join(f"{share:4.1f}" for share in (100 * called / every, *shares, own))
        print(f"{short:6d}: {told}   ({every:.0f} cells)")


if __name__ == "__main__":
    main()
