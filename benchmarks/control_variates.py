r"""What control variates gain: `python benchmarks/control_variates.py`, half an hour.

The mean squared error of `amci-cv` over that of `amci` at the same total number of draws, an
eighth of them from the defensive density for the former, over random cases of every shipped
problem and variant. The error of a ratio says how far the largest may be Monte Carlo noise.
`--points sobol` takes Sobol points for `amci-cv`, and independent ones for `amci` all the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import torch

import amci_core as amci
from amci_core.estimators import resolve

SHIPPED = [
    *(("tail-1d", variant) for variant in ("spline", "paper")),
    *(("tail-5d", variant) for variant in ("spline", "paper")),
    *(("cancer", variant) for variant in ("spline", "paper")),
    *((name, "spline") for name in ("gain-loss", "peak")),
]
BUDGETS = (64, 256, 1000)
LEVELS = (0.05, 0.5, 0.95)


def ratios(
    name: str, variant: str, cases: int, runs: int, points: str, budgets: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Ratios of mean squared errors, and their relative standard errors, (cases, B) each."""
    problem = amci.problem(name)
    proposals = amci.load_proposals(name, variant=variant)
    y, theta = problem.sample_cases(cases, torch.Generator().manual_seed(20_260_801))
    found = amci.error_curves(
        problem,
        proposals,
        y if problem.y else None,
        theta,
        budgets=budgets,
        runs=runs,
        estimators={"amci": "amci", "amci-cv": resolve("amci-cv", points=points)},
        truth=None if problem.knows_truth else problem.truth(y, theta),
    )
    amci_mse, cv_mse = found["amci"].remse, found["amci-cv"].remse
    noise = np.hypot(found["amci"].remse_error / amci_mse, found["amci-cv"].remse_error / cv_mse)
    return cv_mse / amci_mse, noise


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--points", default="independent")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--problem", help="one of the problems alone")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| problem | draws | 5 % | median | 95 % | largest (noise) | above 1.5 | surely |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, variant in SHIPPED:
        if asked.problem not in (None, name):
            continue
        ratio, noise = ratios(name, variant, asked.cases, asked.runs, asked.points, asked.budgets)
        for b, draws in enumerate(asked.budgets):
            low, middle, high = np.nanquantile(ratio[:, b], LEVELS)
            worst = int(np.nanargmax(ratio[:, b]))
            print(
                f"| {name} {variant} | {draws:,} | {low:.2f} | {middle:.2f} | {high:.2f} "
                f"| {ratio[worst, b]:.2f} ± {ratio[worst, b] * noise[worst, b]:.2f} "
                f"| {(ratio[:, b] > 1.5).mean():.0%} "
                f"| {(ratio[:, b] * (1 - 2 * noise[:, b]) > 1.5).mean():.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
