r"""What `learn` makes of problems that are not ours: `python benchmarks/own_problems.py`.

Every problem of `published.py` is trained with `learn(problem, minutes=5)` and default settings,
in one thread. Then `estimate` with 1,000 draws in all is run 50 times at ten theta, spread evenly
over their range, and compared with crude Monte Carlo, Sobol points and vegas at as many
evaluations of f. All times are the processor's: on an idle core they are the wall's, and on a
shared one training still has its five minutes. Results go to `--folder`, a JSON file and the
proposals for each problem; `--table` prints the table of `docs/results/own-problems.md`.
"""

from __future__ import annotations

__all__ = ["Result", "main", "measure"]

import argparse
import json
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from published import PUBLISHED, Published
from scipy.stats import qmc
from torch import Tensor

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.training import clock, learn

Array = NDArray[np.float64]

CASES, RUNS, DRAWS, SEED = 10, 50, 1000, 123
# Runs of what AMCI is compared with, and evaluations from which crude Monte Carlo's error is read.
OTHER_RUNS, CRUDE = 10, 1_000_000
# What getrusage counts in: bytes on macOS, KiB elsewhere.
MEGABYTE = 1e6 if sys.platform == "darwin" else 1e6 / 1024
# vegas adapts in so many rounds of equal size.
ROUNDS = 5


@dataclass(frozen=True)
class Result:
    """What was measured for a problem; relative errors are squared, figures over runs and cases.

    Arguments:
        name: The problem.
        dim: Number of coordinates of x.
        minutes: Time of its training.
        started: Seconds from the call to the first step.
        megabytes: Most memory that the process has had until training ended.
        form: The forms that were chosen.
        share: The shares of the references.
        median: ReMSE at 1,000 draws, median over theta.
        even: The same with `points="sobol"`.
        largest: The largest ReMSE over theta.
        worst: The theta where that is.
        coverage: Share of the 95 % intervals that hold mu.
        off: Of the runs called reliable, the share that is off by more than three standard errors.
        kept: Of the runs within these, the share that is called reliable.
        crude: ReMSE of as many draws of the prior, median over theta.
        sobol: ReMSE of as many Sobol points, median over theta.
        vegas: ReMSE of vegas with as many evaluations, its own adaptation with them, likewise.
        query: Milliseconds of an estimate at a new theta.
        payback: Queries after which training has cost less than vegas run as far as AMCI's error.
        text: The check after training, in words.
    """

    name: str
    dim: int
    minutes: float
    started: float
    megabytes: float
    form: str
    share: str
    median: float
    even: float
    largest: float
    worst: str
    coverage: float
    off: float
    kept: float
    crude: float
    sobol: float
    vegas: float
    query: float
    payback: float
    text: str


def cases_of(problem: Published) -> tuple[Array | None, Array]:
    """y of p(y) and theta spread evenly over its range, ten of each."""
    y, theta = problem.cases(CASES, seed=SEED)
    assert theta is not None
    low, high = problem.theta.low, problem.theta.high
    levels = low + (high - low) * (np.arange(CASES) + 0.5) / CASES
    random = np.random.default_rng(0)
    columns = [levels] + [random.permutation(levels) for _ in range(theta.shape[1] - 1)]
    return y, np.stack(columns, -1)


def measure(problem: Published, proposals: Proposals, minutes: float, **spent: float) -> Result:
    """The errors of `estimate` and of what it is compared with."""
    y, theta = cases_of(problem)
    mu = problem.truth(y, theta)
    squares, evenly, covered, reliable, off = [], [], [], [], []
    began = time.process_time()
    for seed in range(RUNS):
        e = amci.estimate(problem, proposals, y, theta, draws=DRAWS, seed=seed)
        low, high = e.interval(0.95)
        squares.append((e.value / mu - 1) ** 2)
        covered.append((low <= mu) & (mu <= high))
        reliable.append(e.verdict.codes == 0)
        off.append(~(np.abs(e.value - mu) <= 3 * e.standard_error))
    query = (time.process_time() - began) / (RUNS * CASES)
    for seed in range(RUNS):
        e = amci.estimate(problem, proposals, y, theta, draws=DRAWS, seed=seed, points="sobol")
        evenly.append((e.value / mu - 1) ** 2)
    remse = np.mean(squares, 0)
    called, wrong = np.array(reliable), np.array(off)
    crude, sobol, vegas, point = compared(problem, y, theta, mu)
    configuration = proposals.card["configuration"]["proposals"]
    chosen = [entry["arguments"] for entry in configuration.values()]
    flows = [each["flow"]["family"] if "flow" in each else "defensive" for each in chosen]
    # vegas's error falls with the number of evaluations from its measured one on.
    needed = DRAWS * np.median(vegas) / np.median(remse) * point
    return Result(
        name=problem.name,
        dim=problem.x.dim,
        minutes=round(minutes, 2),
        **spent,
        form=", ".join(dict.fromkeys(flows)),
        share=", ".join(f"{each.get('share', 1):g}" for each in chosen),
        median=float(np.median(remse)),
        even=float(np.median(np.mean(evenly, 0))),
        largest=float(remse.max()),
        worst=", ".join(f"{value:.3g}" for value in theta[remse.argmax()]),
        coverage=float(np.mean(covered)),
        off=float((called & wrong).sum() / max(called.sum(), 1)),
        kept=float((called & ~wrong).sum() / max((~wrong).sum(), 1)),
        crude=float(np.median(crude)),
        sobol=float(np.median(sobol)),
        vegas=float(np.median(vegas)),
        query=1e3 * query,
        payback=float(60 * minutes / (needed - query)) if needed > query else math.inf,
        text=proposals.verdict,
    )


def compared(
    problem: Published, y: Array | None, theta: Array, mu: Array
) -> tuple[Array, Array, Array, float]:
    """ReMSE at 1,000 evaluations of crude Monte Carlo, Sobol and vegas, and seconds of one."""
    import vegas

    crude, sobol, adaptive, spent, points = [], [], [], 0.0, 0
    y_all, theta_all = problem.check(y, theta)
    assert theta_all is not None
    for i, truth in enumerate(mu):
        random = np.random.default_rng(i)
        terms = partial(_terms, problem, y_all[i], theta_all[i], _largest(problem, y_all[i]))
        parts = [terms(random.random((CRUDE // 100, problem.x.dim))) for _ in range(100)]
        L, fL = np.concatenate(parts).T
        spread = float(np.mean((fL - truth * L) ** 2) / np.mean(L) ** 2)
        # Where no draw meets an event, its variance is mu all the same.
        crude.append(max(spread, truth**2 if fL.any() else abs(truth)) / truth**2 / DRAWS)
        errors = []
        for run in range(OTHER_RUNS):
            u = qmc.Sobol(problem.x.dim, seed=run).random(1024)
            L, fL = terms(u[:DRAWS]).T
            errors.append((fL.sum() / max(L.sum(), 1e-300) / truth - 1) ** 2)
        sobol.append(np.mean(errors))
        errors = []
        for run in range(OTHER_RUNS):
            began = time.process_time()
            found = _vegas(vegas, terms, problem.x.dim, run)
            spent, points = spent + time.process_time() - began, points + DRAWS
            errors.append((found / truth - 1) ** 2)
        adaptive.append(np.mean(errors))
    return np.array(crude), np.array(sobol), np.array(adaptive), spent / points


def _terms(problem: Published, y: Tensor, theta: Tensor, log_unit: float, u: Array) -> Array:
    """L and f L in some unit at points of the unit cube, (n, 2)."""
    x = problem.prior_from_uniform(torch.from_numpy(np.clip(u, 1e-15, 1 - 1e-15)))
    L = (problem.log_likelihood(x, y) - log_unit).exp()
    return np.asarray(torch.stack([L, L * problem.f(x, theta)], -1))


def _largest(problem: Published, y: Tensor) -> float:
    """About the largest log L: its unit."""
    if problem.y is None:
        return 0.0
    x = problem.sample_prior(4096, torch.Generator().manual_seed(0)).double()
    return float(problem.log_likelihood(x, y).max())


def _vegas(vegas: Any, terms: Any, dim: int, seed: int) -> float:
    """E1 / E2 from the last rounds of vegas, which has adapted to f L in the first ones."""
    np.random.seed(seed)  # noqa: NPY002, the generator that vegas draws from

    @vegas.batchintegrand
    def integrand(u: Array) -> Array:
        values = terms(u)
        return np.ascontiguousarray(values[:, ::-1])

    integrator = vegas.Integrator([[0.0, 1.0]] * dim, max_nhcube=1)
    integrator(integrand, nitn=2, neval=DRAWS // ROUNDS)
    found = integrator(integrand, nitn=ROUNDS - 2, neval=DRAWS // ROUNDS)
    E1, E2 = (part.mean for part in found)
    return float(E1 / E2) if E2 else 0.0


def run(name: str, minutes: float, folder: Path) -> Result:
    """Trains, keeps the proposals, measures, and keeps what was measured."""
    torch.set_num_threads(1)
    clock.now = time.process_time
    problem, place = PUBLISHED[name](), folder / name
    reports: list[float] = []
    began = time.process_time()
    proposals = learn(
        problem,
        minutes=minutes,
        on_progress=lambda *_: reports.append(time.process_time() - began),
    )
    taken = (time.process_time() - began) / 60
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTE
    proposals.save(place / "proposals", replace=True)
    found = measure(problem, proposals, taken, started=reports[0], megabytes=megabytes)
    (place / "result.json").write_text(json.dumps(asdict(found), indent=1))
    return found


def table(folder: Path) -> str:
    """Results as a table, the cases that are lost first."""
    found = [
        Result(**json.loads(file.read_text())) for file in sorted(folder.glob("*/result.json"))
    ]
    asked = {result.name: _asked(result.dim) for result in found}
    # What is lost: against what is asked, of the median and of the largest, and against Sobol.
    found.sort(
        key=lambda r: -max(r.median / asked[r.name], r.largest / r.median / 30, r.median / r.sobol)
    )
    head = (
        "| problem | D | asked | ReMSE, median | largest | Sobol points | coverage | "
        "reliable and off | reliable where right | crude | Sobol | vegas | pays after | "
        "first step, s | MB |\n" + "|---|" + "---:|" * 14
    )
    rows = [
        f"| {r.name} | {r.dim} | {asked[r.name]:.0e} | {r.median:.1e} | {r.largest:.1e} | "
        f"{r.even:.1e} | {r.coverage:.1%} | {r.off:.1%} | {r.kept:.0%} | {r.crude:.1e} | "
        f"{r.sobol:.1e} | {r.vegas:.1e} | {_queries(r.payback)} | {r.started:.0f} | "
        f"{r.megabytes:,.0f} |"
        for r in found
    ]
    return "\n".join([head, *rows])


def _asked(dim: int) -> float:
    return 1e-4 if dim <= 3 else 1e-3 if dim <= 10 else 1e-2


def _queries(number: float) -> str:
    return "never" if math.isinf(number) else f"{math.ceil(number):,}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", help="names; all by default")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--folder", type=Path, default=Path("own-problems"))
    parser.add_argument("--at-once", type=int, default=1, help="problems, a core for each")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    asked = parser.parse_args(arguments)
    if not asked.table:
        # A process for each, so that its memory is its own.
        with ProcessPoolExecutor(
            asked.at_once, multiprocessing.get_context("spawn"), max_tasks_per_child=1
        ) as pool:
            trained = partial(run, minutes=asked.minutes, folder=asked.folder)
            for found in pool.map(trained, asked.problems or PUBLISHED):
                print(
                    f"{found.name}: ReMSE {found.median:.2g}, largest {found.largest:.2g} at "
                    f"theta = {found.worst}, coverage {found.coverage:.1%}, vegas "
                    f"{found.vegas:.2g}, {found.minutes:.1f} minutes, the first step after "
                    f"{found.started:.0f} s, {found.megabytes:,.0f} MB; {found.text}",
                    flush=True,
                )
    print(table(asked.folder))


if __name__ == "__main__":
    main()
