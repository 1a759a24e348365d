r"""AMCI against what else one would take: `python benchmarks/peers.py`.

For each of 20 cases (y, theta) from p(y) p(theta), each method runs with growing budgets, 20 seeds
each, until the root mean square of its relative error, against the truth, is below 0.1 %, or the
seconds of a case are spent. What an error of 10 %, 1 % or 0.1 % takes is read from the first
budget from which on the error stays below, between two budgets on a log-log line. All times are
the processor's, which are the wall's on an idle core, in one thread; those of a query are medians
over seeds, after one run that is not counted. A batch of 1,000 other cases is estimated at the
budget that the median case needs for 1 %: at once where the method can, else one by one.

`--times` measures the times at these budgets again, all methods in turn, so that another load of
the machine hits all of them. Every (problem, method) is a JSON file in `--folder`, and what is
there is not run again; `--table` prints the tables of `docs/results/peers.md`, `--picture` draws
them.
Proposals for the problems of `published.py` are learnt, two minutes each, and kept in the folder.
Needs `pip install -e ".[peers]"`; a method whose library is missing is skipped, and said to
be, and so is one that fails.
"""

from __future__ import annotations

__all__ = ["main", "measure"]

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peer_cases import Case, problem_of
from peer_learned import LEARNED
from peer_methods import METHODS as DIRECT
from peer_methods import PROPOSALS, Method
from peer_samplers import SAMPLERS
from peer_tables import OF_MANY, TARGETS, asked_for, needs, picture, tables
from published import PUBLISHED

import amci_core as amci
from amci_core.models import Problem
from amci_core.training import clock, learn

METHODS: dict[str, Method] = {**DIRECT, **SAMPLERS, **LEARNED}
OURS = ("tail-1d", "tail-5d", "cancer", "gain-loss")
THEIRS = ("ring", "bioassay", "corner-peak-5d", "eight-schools", "linear-20d")
CASE_SEED, BATCH_SEED, BATCH = 11, 12, 1000
# Errors below this are not followed further; runs of a budget that is too slow for all seeds.
ENOUGH, LEAST_SEEDS = 0.0007, 3
# Of the cases of a batch that goes one by one, so many are run.
ONE_BY_ONE = 10
# Rounds of the times that are measured in turn; what takes longer, in ms, keeps its first time.
TURNS, SLOW = 11, 500.0


def prepare(problem: Problem, folder: Path, minutes: float) -> None:
    """Puts the proposals for a problem where the methods look for them."""
    name = problem.name
    place = folder / "proposals" / name
    if name not in PUBLISHED:
        PROPOSALS[name] = amci.load_proposals(name)
        return
    if not place.exists():
        print(f"{name}: learning for {minutes:g} minutes", flush=True)
        started = time.process_time()
        learn(problem, minutes=minutes).save(place)
        seconds = {"seconds": time.process_time() - started}
        place.with_suffix(".json").write_text(json.dumps(seconds))
    PROPOSALS[name] = amci.load_proposals(problem, folder=place)


def training(problem: Problem, key: str, folder: Path) -> dict[str, float]:
    """Seconds that a method's proposals have taken, from their card or as they were learnt."""
    learnt = folder / "proposals" / f"{problem.name}.json"
    if learnt.exists():
        return dict(json.loads(learnt.read_text()))
    seconds = dict(PROPOSALS[problem.name].card["configuration"]["seconds"])
    if key == "amci-value":
        seconds.pop("q1_complement", None)
    return {"seconds": sum(seconds.values())}


def cases_of(problem: Problem, n: int, seed: int) -> list[Case]:
    """n pairs from p(y) p(theta)."""
    y, theta = problem.cases(n, seed=seed)
    return [
        Case(problem, None if y is None else y[i], None if theta is None else theta[i])
        for i in range(n)
    ]


def measure(method: Method, case: Case, seeds: int, seconds: float) -> list[dict[str, float]]:
    """What a method makes of a case, budget by budget: evaluations, ms, rms, seeds."""
    rows: list[dict[str, float]] = []
    began = time.process_time()
    for budget in method.ladder:
        errors, times, before = [], [], case.spent
        for seed in range(seeds):
            started = time.process_time()
            value = method.run(case, budget, seed)
            times.append(time.process_time() - started)
            errors.append(float(value) / float(case.mu) - 1)
            if len(errors) >= LEAST_SEEDS and time.process_time() - began > seconds:
                break
        rms = math.sqrt(float(np.mean(np.square(errors))))
        rows.append(
            {
                "budget": budget,
                "evaluations": (case.spent - before) / len(errors),
                "ms": 1e3 * statistics.median(times),
                "rms": rms if math.isfinite(rms) else 1e300,
                "seeds": len(errors),
            }
        )
        enough = rms < ENOUGH and not method.precise
        if enough or time.process_time() - began + 2 * times[-1] > seconds:
            break
    return rows


def at(method: Method, budget: float, spent: Callable[[float], float]) -> float:
    """What a budget between two of the ladder takes, on a log-log line."""
    low = max((rung for rung in method.ladder if rung <= budget * 1.001), default=method.ladder[0])
    high = min((rung for rung in method.ladder if rung >= budget / 1.001), default=low)
    if low == high or high < low:
        return spent(low)
    share = math.log(budget / low) / math.log(high / low)
    return spent(low) ** (1 - share) * spent(high) ** share


def batch(method: Method, problem: Problem, budget: float) -> float:
    """Milliseconds a case of 1,000, at one budget."""
    return at(method, budget, lambda rung: _batch(method, problem, rung))


def _batch(method: Method, problem: Problem, budget: float) -> float:
    y, theta = problem.cases(BATCH, seed=BATCH_SEED)
    if method.batch is None:
        many = range(ONE_BY_ONE)
        cases = [Case(problem, *(None if v is None else v[i] for v in (y, theta))) for i in many]
        times = []
        for case in cases:
            started = time.process_time()
            method.run(case, budget, 0)
            times.append(time.process_time() - started)
        return 1e3 * statistics.mean(times)
    case = Case(problem, y, theta, truth=False)
    times = []
    for seed in range(2):
        started = time.process_time()
        method.batch(case, budget, seed)
        times.append(time.process_time() - started)
    return 1e3 * min(times) / BATCH


def again(name: str, folder: Path, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Times of all methods at what each case needs, in turn, so that all see the same machine."""
    problem = problem_of(name)
    found: dict[str, Any] = {}
    quick = {
        (r["method"], target): [need and need["budget"] for need in r["needs"][target]]
        for r in results
        if "skipped" not in r
        for target in r["needs"]
        if statistics.median(n["ms"] if n else math.inf for n in r["needs"][target]) < SLOW
    }
    for key in {key for key, _ in quick}:
        if (train := METHODS[key].train) is not None:
            train(problem, folder)
    cases = cases_of(problem, max(len(budgets) for budgets in quick.values()), CASE_SEED)
    times: dict[tuple[str, str], list[float]] = {which: [] for which in quick}
    for turn in range(TURNS + 1):
        for (key, target), budgets in quick.items():
            there = [i for i, budget in enumerate(budgets) if budget is not None]
            i = there[turn % len(there)]

            def spent(rung: float, key: str = key, i: int = i, turn: int = turn) -> float:
                started = time.process_time()
                # No more seeds than something has been trained for.
                METHODS[key].run(cases[i], rung, turn % (METHODS[key].seeds or TURNS))
                return 1e3 * (time.process_time() - started)

            taken = at(METHODS[key], budgets[i], spent)
            if turn > 0:
                times[key, target].append(taken)
    for (key, target), budgets in quick.items():
        entry = found.setdefault(key, {}).setdefault(target, {})
        entry["ms"] = statistics.median(times[key, target])
        if target != str(OF_MANY):
            continue
        middle = statistics.median_low([budget for budget in budgets if budget is not None])
        many = METHODS[key].batch is not None
        entry["batch"] = batch(METHODS[key], problem, middle) if many else entry["ms"]
    return found


def run(name: str, key: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything of one problem and one method."""
    problem, method = problem_of(name), METHODS[key]
    cases = cases_of(problem, min(arguments.cases, method.cases or arguments.cases), CASE_SEED)
    result: dict[str, Any] = {"problem": name, "method": key, "title": method.title}
    result["told"] = method.told
    if not method.fits(cases[0]):
        return {**result, "skipped": method.unless}
    if key.startswith("amci"):
        result["training"] = training(problem, key, arguments.folder)
    if method.train is not None:
        result["training"] = method.train(problem, arguments.folder)
    seeds = min(arguments.seeds, method.seeds or arguments.seeds)
    # What is compiled or looked up at the first call is not counted.
    started = time.perf_counter()
    method.run(cases[0], method.ladder[0], seeds)
    result["first"] = time.perf_counter() - started
    rows = [measure(method, case, seeds, arguments.seconds) for case in cases]
    read = asked_for if method.precise else needs
    found = {str(target): [read(of_case, target) for of_case in rows] for target in TARGETS}
    if method.extra is not None:
        result["extra"] = method.extra(cases[0])
    result.update(cases=rows, needs=found, batch={})
    reached = [need["budget"] for need in found[str(OF_MANY)] if need is not None]
    if 2 * len(reached) > len(cases):
        result["batch"][str(OF_MANY)] = batch(method, problem, statistics.median(reached))
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="*", default=[*OURS, *THEIRS])
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a method and a case")
    parser.add_argument("--minutes", type=float, default=2.0, help="to learn proposals")
    parser.add_argument("--folder", type=Path, default=Path("peers"))
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    parser.add_argument("--times", action="store_true", help="measure the times again, in turn")
    parser.add_argument("--picture", type=Path, help="draw what is there, run nothing")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    clock.now = time.process_time
    asked.folder.mkdir(parents=True, exist_ok=True)
    reads = asked.table or asked.picture or asked.times
    for name in [] if reads else asked.problems:
        prepare(problem_of(name), asked.folder, asked.minutes)
        for key in asked.methods:
            place = asked.folder / f"{name}--{key}.json"
            if place.exists():
                continue
            if missing := METHODS[key].missing:
                print(f"{name}, {key}: skipped, {', '.join(missing)} not installed", flush=True)
                continue
            started = time.perf_counter()
            try:
                found = run(name, key, asked)
            except (ValueError, RuntimeError, ArithmeticError) as error:
                print(f"{name}, {key}: failed, {error}", flush=True)
                continue
            place.write_text(json.dumps(found, indent=1))
            print(f"{name}, {key}: {time.perf_counter() - started:.0f} s", flush=True)
    results = [json.loads(file.read_text()) for file in sorted(asked.folder.glob("*--*.json"))]
    for name in asked.problems if asked.times else []:
        prepare(problem_of(name), asked.folder, asked.minutes)
        turned = again(name, asked.folder, [r for r in results if r["problem"] == name])
        (asked.folder / f"{name}-times.json").write_text(json.dumps(turned, indent=1))
    for result in results:
        place = asked.folder / f"{result['problem']}-times.json"
        if place.exists():
            result["times"] = json.loads(place.read_text()).get(result["method"], {})
    if asked.picture:
        picture(results, asked.picture)
    if asked.table:
        print(tables(results))


if __name__ == "__main__":
    main()
