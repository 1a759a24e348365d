r"""Errors over many pairs (y, theta) drawn from p(y) p(theta): the paper's summary figures."""

from __future__ import annotations

__all__ = ["Evaluation", "evaluate"]

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from amci_core.checks import check_count, check_seed
from amci_core.errors.runs import (
    MAX_RUNS,
    Truth,
    checked_budgets,
    named_estimators,
    reserve,
    run_chunks,
    usual_estimators,
)
from amci_core.estimation.sampling import Sampler
from amci_core.estimators import snis_bound
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem


@dataclass(frozen=True)
class Evaluation:
    """What `amci evaluate` prints: errors of every estimator over cases, for B budgets.

    Arguments:
        problem: Name of the problem.
        variant: Variant of its proposals.
        budgets: Total draws, B of them.
        pairs: Number of cases (y, theta).
        runs: Independent runs of each case.
        seed: The seed of cases and runs.
        estimators: For each estimator the lists over budgets `remse_median`, `remse_q25`,
            `remse_q75`, `remse_q95`, `remse_max`, `mse_median`: quantiles over cases of the mean
            over runs.
        below_bound: Share of cases in which each estimator's ReMSE lies below the SNIS bound, over
            budgets; empty where `bound` is not among the estimators.
        draws_per_second: Points drawn, with every density at each, per second.
        seconds: Wall time.
    """

    problem: str
    variant: str
    budgets: list[int]
    pairs: int
    runs: int
    seed: int
    estimators: dict[str, dict[str, list[float]]]
    below_bound: dict[str, list[float]]
    draws_per_second: float
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """Plain lists and numbers, ready for JSON."""
        return asdict(self)


def evaluate(
    problem: Problem,
    proposals: Proposals,
    *,
    pairs: int = 100,
    runs: int = 100,
    budgets: Sequence[int] = (2, 10, 100, 1000),
    estimators: Sequence[str] | None = None,
    truth: Any = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Relative and absolute errors of estimators over cases drawn from p(y) p(theta).

    On a machine whose cores are busy, call `torch.set_num_threads(1)` first: the arrays are small,
    and threads that wait for one another can take thirty times as long.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        pairs: Number of cases (y, theta).
        runs: Independent runs of each case.
        budgets: Total draws of an estimator; increasing.
        estimators: Names of estimators, and `bound`; by default as for `error_curves`.
        truth: What errors are counted from, in units of f: a number for each of
            `problem.cases(pairs, seed=seed)`, (pairs,). By default the problem's own truth.
        seed: Whole number >= 0.
        progress: Called with the number of cases done and the number wanted.

    Raises:
        ValueError: an argument is out of range or unknown; or the problem does not know its truth
            and none is given, or not its bound and that is asked for.
    """
    started = time.perf_counter()
    check_count("pairs", pairs, low=1, high=1_000_000)
    check_count("runs", runs, low=1, high=MAX_RUNS)
    check_seed(seed)
    checked = checked_budgets(budgets)
    estimators = usual_estimators(problem, proposals) if estimators is None else estimators
    chosen = named_estimators(estimators)
    y, theta = problem.check(*problem.cases(pairs, seed=seed))
    target = Truth.of(problem, y, theta, truth)
    mu_squared = target.mu_squared
    remse: dict[str, Array] = {name: np.empty((pairs, len(checked))) for name in chosen}
    if "bound" in estimators:
        remse["bound"] = snis_bound(problem.expected_deviation(y, theta), checked) / mu_squared
    seeds = np.random.SeedSequence(seed).spawn(pairs)
    points = 0
    for case in range(pairs if chosen else 0):
        sampler = Sampler(problem, proposals, y[case], None if theta is None else theta[case])
        points += runs * int(reserve(chosen, sampler, budgets=checked).sum())
        chunks = list(
            run_chunks(
                sampler,
                chosen,
                target[case],
                budgets=checked,
                runs=runs,
                seed=seeds[case],
            )
        )
        for name in chosen:
            remse[name][case] = np.concatenate([chunk[name] for chunk in chunks]).mean(axis=0)
        if progress is not None:
            progress(case + 1, pairs)
    seconds = time.perf_counter() - started
    bound = remse.get("bound")
    return Evaluation(
        problem=problem.name,
        variant=proposals.variant,
        budgets=checked.tolist(),
        pairs=pairs,
        runs=runs,
        seed=seed,
        estimators={name: _summary(remse[name], mu_squared) for name in estimators},
        below_bound={}
        if bound is None
        else {name: (remse[name] < bound).mean(axis=0).tolist() for name in chosen},
        draws_per_second=points / seconds,
        seconds=seconds,
    )


def _summary(remse: Array, mu_squared: Array) -> dict[str, list[float]]:
    q25, median, q75, q95, largest = np.quantile(remse, (0.25, 0.5, 0.75, 0.95, 1.0), axis=0)
    return {
        "remse_median": median.tolist(),
        "remse_q25": q25.tolist(),
        "remse_q75": q75.tolist(),
        "remse_q95": q95.tolist(),
        "remse_max": largest.tolist(),
        "mse_median": np.median(remse * mu_squared, axis=0).tolist(),
    }
