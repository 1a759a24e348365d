"""What `learn` makes of 28 problems in a minute: `python benchmarks/minute.py`.

The eighteen problems of `published.py` and the ten of `strangers.py` are each trained in one
thread of a process of their own, by the processor's clock. Then ten cases are estimated with 1,000
draws and 20 seeds. `--table` prints a table: the problems that miss most of what is asked first.
"""

from __future__ import annotations

__all__ = ["Result", "main", "measure"]

import argparse
import json
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from own_problems import cases_of
from published import PUBLISHED
from strangers import STRANGERS, truths

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.training import clock, learn

Array = NDArray[np.float64]

DRAWS = 1000


@dataclass(frozen=True)
class Result:
    """What was measured for a problem over cases and seeds.

    Arguments:
        name: The problem.
        dim: Number of coordinates of x.
        minutes: Time that was asked for.
        seconds: Processor time of the training.
        median: ReMSE with 1,000 draws, median over the cases.
        largest: The largest over the cases.
        remse: For each case.
        coverage: Share of the 95 % intervals that hold mu.
        reliable: Share of the estimates that are called reliable.
        off: Of these, the share that is off by more than three standard errors.
        truth_error: The largest relative error of mu itself.
        form: The families of flows that were chosen.
        text: The check after training, in words.
    """

    name: str
    dim: int
    minutes: float
    seconds: float
    median: float
    largest: float
    remse: list[float]
    coverage: float
    reliable: float
    off: float
    truth_error: float
    form: str
    text: str


def problem_of(name: str) -> tuple[Problem, Array | None, Array, Array, float]:
    """A problem with y, theta and mu of its ten cases, and the largest relative error of mu."""
    if name in STRANGERS:
        y, theta, mu, error = truths(name)
        return STRANGERS[name].problem(), y, theta, mu, float(error.max())
    problem = PUBLISHED[name]()
    y, theta = cases_of(problem)
    return problem, y, theta, np.asarray(problem.truth(y, theta)), 0.0


def measure(name: str, proposals: Proposals, seeds: int, minutes: float, seconds: float) -> Result:
    """Estimates ten cases with every seed and compares them with mu."""
    problem, y, theta, mu, truth_error = problem_of(name)
    squares, covered, reliable, off = [], [], [], []
    for seed in range(seeds):
        e = amci.estimate(problem, proposals, y, theta, draws=DRAWS, seed=seed)
        low, high = e.interval(0.95)
        squares.append((e.value / mu - 1) ** 2)
        covered.append((low <= mu) & (mu <= high))
        reliable.append(e.verdict.codes == 0)
        off.append(~(np.abs(e.value - mu) <= 3 * e.standard_error))
    remse, called = np.mean(squares, 0), np.array(reliable)
    chosen = [
        entry["arguments"] for entry in proposals.card["configuration"]["proposals"].values()
    ]
    flows = [each["flow"]["family"] if "flow" in each else "defensive" for each in chosen]
    return Result(
        name=name,
        dim=problem.x.dim,
        minutes=minutes,
        seconds=round(seconds, 1),
        median=float(np.median(remse)),
        largest=float(remse.max()),
        remse=remse.tolist(),
        coverage=float(np.mean(covered)),
        reliable=float(called.mean()),
        off=float((called & np.array(off)).sum() / max(called.sum(), 1)),
        truth_error=truth_error,
        form=", ".join(dict.fromkeys(flows)),
        text=proposals.verdict,
    )


def run(name: str, minutes: float, seeds: int, folder: Path) -> Result:
    """Trains, measures and writes what was measured."""
    torch.set_num_threads(1)
    clock.now = time.process_time
    problem, *_ = problem_of(name)
    began = time.process_time()
    proposals = learn(problem, minutes=minutes)
    result = measure(name, proposals, seeds, minutes, time.process_time() - began)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(asdict(result), indent=1))
    return result


def asked_of(result: Result) -> float:
    """The median ReMSE that is asked for: ten times less with three minutes."""
    asked = 1e-5 if result.dim <= 3 else 1e-4 if result.dim <= 10 else 1e-3
    return asked if result.minutes < 3 else asked / 10


def table(folder: Path) -> str:
    """The results of a folder in Markdown, the largest ratio of median and asked first."""
    results = [Result(**json.loads(file.read_text())) for file in folder.glob("*.json")]
    results.sort(key=lambda r: -r.median / asked_of(r))
    head = (
        "| problem | D | asked | ReMSE, median | largest | median / asked | coverage | reliable | "
        "reliable and off | error of the truth | seconds | form |\n|---|" + "---:|" * 10 + "---|"
    )
    rows = [
        f"| {r.name} | {r.dim} | {asked_of(r):.0e} | {r.median:.1e} | {r.largest:.1e} | "
        f"{r.median / asked_of(r):.2g} | {r.coverage:.1%} | {r.reliable:.0%} | {r.off:.1%} | "
        f"{r.truth_error:.0e} | {r.seconds:.0f} | {r.form} |"
        for r in results
    ]
    return "\n".join([head, *rows])


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", help="names; all by default")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=Path("minute"))
    parser.add_argument("--at-once", type=int, default=1, help="problems, a core for each")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    asked = parser.parse_args(arguments)
    if not asked.table:
        names = asked.problems or [*PUBLISHED, *STRANGERS]
        task = partial(run, minutes=asked.minutes, seeds=asked.seeds, folder=asked.folder)
        with ProcessPoolExecutor(
            asked.at_once, multiprocessing.get_context("spawn"), max_tasks_per_child=1
        ) as pool:
            for r in pool.map(task, names):
                print(
                    f"{r.name}: ReMSE {r.median:.2g}, largest {r.largest:.2g}, coverage "
                    f"{r.coverage:.1%}, reliable {r.reliable:.0%}, {r.seconds:.0f} s; {r.text}",
                    flush=True,
                )
    print(table(asked.folder))


if __name__ == "__main__":
    main()
