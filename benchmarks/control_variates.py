r"""What control variates gain: `python benchmarks/control_variates.py`, half an hour.

The mean squared error of `amci-cv` over that of `amci` at the same total number of draws, an
eighth of them from the defensive density for the former, over random cases of every shipped
problem and variant. The error of a ratio says how far the largest may be Monte Carlo noise.
`--points sobol` takes Sobol points for `amci-cv`, and independent ones for `amci` all the same.

With `--near-the-bound`, five minutes: AMCI and `amci-cv` with a proposal for M - f,
at cases with mu above 0.9, and over all cases what that proposal costs `amci-cv`.

With `--sets`, such as `--sets 4 8 --cases 10 --runs 150`: what Sobol points cost and cover if each
component has at least so many scrambled sets, 1,000 draws in all.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.special import ndtr

import amci_core as amci
from amci_core.estimators import draws, resolve

SHIPPED = [
    *(("tail-1d", variant) for variant in ("spline", "paper")),
    *(("tail-5d", variant) for variant in ("spline", "paper")),
    *(("cancer", variant) for variant in ("spline", "paper")),
    *((name, "spline") for name in ("gain-loss", "peak")),
]
TOTALS = (64, 256, 1000)
LEVELS = (0.05, 0.5, 0.95)


def ratios(
    name: str, variant: str, cases: int, runs: int, points: str, draws: Sequence[int]
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
        draws=draws,
        runs=runs,
        estimators={"amci": "amci", "amci-cv": resolve("amci-cv", points=points)},
        truth=None if problem.knows_truth else problem.truth(y, theta),
    )
    amci_mse, cv_mse = found["amci"].remse, found["amci-cv"].remse
    noise = np.hypot(found["amci"].remse_error / amci_mse, found["amci-cv"].remse_error / cv_mse)
    return cv_mse / amci_mse, noise


# mu above which cases lie; that of the peak is 0.86 at most.
LEAST = {"tail-1d": 0.9, "tail-5d": 0.9, "peak": 0.7}


def high_cases(name: str, cases: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Cases y, theta that are uniform over the typical ranges, where mu is above `LEAST`."""
    problem, rng = amci.problem(name), np.random.default_rng(20_261_127)
    ys, thetas = [], []
    while sum(map(len, thetas)) < cases:
        theta = rng.uniform(*problem.theta.typical_range, (100_000, problem.theta.dim))
        y, likely = None, slice(None)
        if problem.y is not None:
            y = rng.uniform(*problem.y.typical_range, (len(theta), problem.y.dim))
            # The truth in five dimensions takes long: mu is at most each coordinate's own.
            P = problem.posterior_covariance
            likely = (ndtr((y @ P - theta) / np.sqrt(np.diag(P))) > LEAST[name]).all(axis=1)
            y = y[likely]
        theta = theta[likely]
        if not len(theta):
            continue
        high = problem.truth(y, theta) > LEAST[name]
        ys.append(None if y is None else y[high])
        thetas.append(theta[high])
    joined = None if problem.y is None else np.concatenate(ys)[:cases]
    return joined, np.concatenate(thetas)[:cases]


def near_the_bound(name: str, cases: int, runs: int) -> None:
    """Prints rows of a table in Markdown: how many times below AMCI's and the bound's errors."""
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    without = replace(proposals, q1_complement=None)
    y, theta = high_cases(name, cases)
    options = {"draws": TOTALS[-1:], "runs": runs}
    found = amci.error_curves(
        problem,
        proposals,
        y,
        theta,
        **options,
        estimators=["amci", "amci-cv", "bound"],
    )
    remse = {name: curve.remse[..., 0] for name, curve in found.by_name.items()}
    of_cv = amci.error_curves(problem, without, y, theta, **options, estimators=["amci-cv"])
    remse["amci-cv without"] = of_cv["amci-cv"].remse[..., 0]
    for each in ("amci-cv", "amci-cv without"):
        gain, to_bound = remse["amci"] / remse[each], remse[each] / remse["bound"]
        print(
            f"| {name}, mu > {LEAST[name]} | {each} | {gain.min():.3g} | {np.median(gain):.3g} "
            f"| {gain.max():.3g} | {to_bound.max():.2g} | {(to_bound < 1).mean():.0%} |",
            flush=True,
        )
    y, theta = problem.cases(cases, seed=20_261_127)
    both = [
        amci.error_curves(problem, each, y, theta, **options, estimators=["amci-cv"])["amci-cv"]
        for each in (proposals, without)
    ]
    cost = both[0].remse[..., 0] / both[1].remse[..., 0]
    print(f"{name}: amci-cv with it over without, 5, 50, 95 %: {np.quantile(cost, LEVELS)}")


def coverage(name: str, variant: str, cases: int, runs: int, sets: Sequence[int]) -> None:
    """Prints rows of a table in Markdown: independent points, then so many sets of Sobol points.

    Errors are over those of independent points, the median over cases.
    """
    problem, proposals = amci.problem(name), amci.load_proposals(name, variant=variant)
    y, theta = problem.cases(cases, seed=20_261_127)
    mu = problem.truth(y, theta)
    independent = np.full(cases, np.nan)
    for least in (0, *sets):
        draws.LEAST_SETS = least or draws.LEAST_SETS
        errors, covered, sure, off = [], [], [], []
        for case in range(cases):
            of_case = [None if v is None else np.repeat(v[[case]], runs, 0) for v in (y, theta)]
            points = "sobol" if least else "independent"
            options = {"draws": TOTALS[-1], "points": points, "seed": case}
            e = amci.estimate(problem, proposals, *of_case, **options)
            low, high = e.interval()
            errors.append(np.mean((e.value - mu[case]) ** 2))
            covered.append((low <= mu[case]) & (mu[case] <= high))
            sure.append(e.verdict.codes == 0)
            off.append(~(np.abs(e.value - mu[case]) <= 3 * e.standard_error))
        independent = independent if least else np.array(errors)
        of_cases = np.mean(covered, 1)
        reliable = np.array(sure)
        print(
            f"| {name} {variant} | {f'from {least}' if least else 'independent'} "
            f"| {np.median(np.array(errors) / independent):.2f} "
            f"| {of_cases.mean():.1%} | {of_cases.min():.1%} | {of_cases.max():.1%} "
            f"| {reliable.mean():.0%} | {np.mean(np.array(off)[reliable]):.1%} |",
            flush=True,
        )


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--points", default="independent")
    parser.add_argument("--draws", type=int, nargs="+", default=TOTALS)
    parser.add_argument("--problem", help="one of the problems alone")
    parser.add_argument("--near-the-bound", action="store_true")
    parser.add_argument("--sets", type=int, nargs="+", help="least numbers of Sobol sets")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.near_the_bound:
        gains = "AMCI's error over its, least | median | largest"
        print(f"| cases | estimator | {gains} | its largest over the bound | below the bound |")
        print("|---|---|---:|---:|---:|---:|---:|")
        for name in LEAST:
            near_the_bound(name, asked.cases, asked.runs)
        return
    if asked.sets:
        print("| problem | sets | MSE | coverage | least | largest | reliable | off, of these |")
        print("|---|---|---:|---:|---:|---:|---:|---:|")
        for name, variant in SHIPPED:
            if asked.problem in (None, name):
                coverage(name, variant, asked.cases, asked.runs, asked.sets)
        return
    print("| problem | draws | 5 % | median | 95 % | largest (noise) | above 1.5 | surely |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, variant in SHIPPED:
        if asked.problem not in (None, name):
            continue
        ratio, noise = ratios(name, variant, asked.cases, asked.runs, asked.points, asked.draws)
        for b, total in enumerate(asked.draws):
            low, middle, high = np.nanquantile(ratio[:, b], LEVELS)
            worst = int(np.nanargmax(ratio[:, b]))
            print(
                f"| {name} {variant} | {total:,} | {low:.2f} | {middle:.2f} | {high:.2f} "
                f"| {ratio[worst, b]:.2f} ± {ratio[worst, b] * noise[worst, b]:.2f} "
                f"| {(ratio[:, b] > 1.5).mean():.0%} "
                f"| {(ratio[:, b] * (1 - 2 * noise[:, b]) > 1.5).mean():.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
