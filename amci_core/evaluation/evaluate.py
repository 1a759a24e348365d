r"""Errors over many pairs (y, theta) drawn from p(y) p(theta): the paper's summary figures."""

from __future__ import annotations

__all__ = ["Evaluation", "evaluate", "stream_evaluation"]

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from amci_core.devices import CPU
from amci_core.evaluation.cases import Case, Cases
from amci_core.evaluation.journal import Journal
from amci_core.evaluation.runs import BOUND, Estimators
from amci_core.evaluation.sweep import Sweep, case_errors
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.origin import digest, origin
from amci_core.parallel import Stream, run_tasks


@dataclass(frozen=True)
class Evaluation:
    """What `amci evaluate` prints: errors of every estimator over cases, for B budgets.

    A case's error is the mean over its runs that gave an estimate. Cases with mu = 0 have no
    relative error and are left out of the relative figures.

    Arguments:
        problem: Name of the problem.
        variant: Variant of its proposals.
        budgets: Total draws, B of them.
        pairs: Number of cases (y, theta).
        runs: Independent runs of each case.
        seed: The seed of cases and runs.
        estimators: For each estimator lists over budgets: the quantiles over cases `remse_median`,
            `remse_q25`, `remse_q75`, `remse_q95`, `remse_max` and `mse_median`; their Monte Carlo
            standard errors `remse_median_error` and so on, over cases and runs, that of the
            largest over runs alone; the medians over cases of the quartiles over runs, `runs_q25`,
            `runs_median` and `runs_q75`; `failed`, the number of runs of all cases without an
            estimate; `unjudged`, the share of cases whose runs do not determine their mean;
            `truth_matters`, the share whose truth is not known well enough.
        below_bound: Share of cases in which each estimator's ReMSE lies below the SNIS bound
            (asymptotic, for independent draws from one proposal), over budgets; empty where
            `bound` is not among the estimators.
        surely_below_bound: Share of cases where it does so by more than 2 standard errors.
        undecided_bound: Share of cases where it lies within 2 standard errors of the bound, or
            less than 100 times below it where runs do not determine the mean.
        truth_error: The largest standard error of a case's truth over its size; 0 where all truths
            are exact.
        draws_per_second: Points drawn, with every density at each, per second; 0 where all cases
            were there already.
        seconds: Wall time.
        failures: Number of a case that failed, and why; other figures leave it out.
    """

    problem: str
    variant: str
    budgets: list[int]
    pairs: int
    runs: int
    seed: int
    estimators: dict[str, dict[str, list[float]]]
    below_bound: dict[str, list[float]]
    surely_below_bound: dict[str, list[float]]
    undecided_bound: dict[str, list[float]]
    truth_error: float
    draws_per_second: float
    seconds: float
    failures: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        sweep: Sweep,
        cases: Cases,
        *,
        seconds: float = 0.0,
        points: int = 0,
        failures: Mapping[int, str] | None = None,
    ) -> Evaluation:
        """What cases of a sweep say; points and seconds are those that were spent on them."""
        bounded = BOUND in sweep.estimators
        shares = {name: cases.against_bound(name) for name in sweep.drawn if bounded}
        with np.errstate(invalid="ignore", divide="ignore"):
            doubt = cases.truth_error / np.abs(cases.truth)
        return cls(
            problem=sweep.problem.name,
            variant=sweep.proposals.variant,
            budgets=sweep.budgets.tolist(),
            pairs=len(sweep),
            runs=sweep.runs,
            seed=sweep.seed,
            estimators={name: cases.summary(name) for name in sweep.estimators},
            below_bound={name: share[0] for name, share in shares.items()},
            surely_below_bound={name: share[1] for name, share in shares.items()},
            undecided_bound={name: share[2] for name, share in shares.items()},
            truth_error=float(np.max(doubt[cases.truth != 0], initial=0.0)),
            draws_per_second=points / seconds if seconds else 0.0,
            seconds=seconds,
            failures=dict(failures or {}),
        )

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
    estimators: Estimators | None = None,
    truth: Any = None,
    cases: tuple[Any, Any] | None = None,
    seed: int = 0,
    device: str = "cpu",
    out: str | Path | None = None,
    workers: int | None = None,
    dask: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Relative and absolute errors of estimators over cases, drawn from p(y) p(theta) or given.

    Warning:
        Where cores are busy call `torch.set_num_threads(1)` first: it can be 30 times as fast.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        pairs: Number of cases (y, theta).
        runs: Independent runs of each case.
        budgets: Total draws of an estimator; increasing.
        estimators: As for `error_curves`.
        truth: As for `error_curves`, for the cases: numbers (n,), or an object with `value` and
            `standard_error`, such as `read_cases` gives. Without errors they count as exact; with
            them `truth_matters` says which results they are too large for. Without cases it is
            for `problem.cases(pairs, seed=seed)`.
        cases: y (n, D_y) and theta (n, D_theta), each None where the problem has none, in the
            place of pairs that are drawn.
        seed: Whole number >= 0.
        device: Where points are drawn and densities computed: cpu, cuda or another device of
            PyTorch, or auto, a GPU where there is one. Devices draw different random numbers.
        out: A Parquet file that the cases are written to, one after another, with what they
            were made from; what is there already, after a kill, is not done again.
        workers: Number of processes that do the cases; by default they are done here.
        dask: Address of a Dask scheduler, whose workers do the cases. The numbers are the same
            wherever they are done.
        progress: Called with the number of cases done and the number wanted.

    Raises:
        ValueError: an argument is out of range or unknown; or the problem does not know its truth
            and none is given, or not its bound and that is asked for; or the file belongs to
            another sweep, or another is writing it.
        RuntimeError: no case could be done.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = amci.load_proposals("tail-1d", variant="oracle")
        >>> found = amci.evaluate(problem, proposals, pairs=3, runs=4, budgets=[10])
        >>> found.below_bound["amci"] == [1.0]
        True
    """
    began = time.perf_counter()
    sweep = Sweep.of(
        problem,
        proposals,
        pairs=pairs,
        runs=runs,
        budgets=budgets,
        estimators=estimators,
        truth=truth,
        cases=cases,
        seed=seed,
        device=device,
    )
    journal = None if out is None else Journal(Path(out), _settings(sweep))
    found: list[Case] = []
    failures: dict[int, str] = {}
    with journal or nullcontext():
        if journal is not None:
            found += journal.cases()
        there = {case.number for case in found}
        missing = [number for number in range(len(sweep)) if number not in there]
        for done in run_tasks(partial(case_errors, sweep), missing, workers=workers, dask=dask):
            if done.failure is not None:
                failures[done.item] = done.failure
            else:
                if journal is not None:
                    journal.add(done.value)
                found.append(done.value)
            if progress is not None:
                progress(len(found) + len(failures), len(sweep))
        if journal is not None:
            journal.finish(failures)
    if not found:
        number, why = next(iter(failures.items()))
        raise RuntimeError(f"all of {len(sweep)} cases failed; case {number}: {why}")
    points = sum(case.points for case in found if case.number not in there)
    seconds = time.perf_counter() - began
    return Evaluation.of(sweep, Cases(found), seconds=seconds, points=points, failures=failures)


def stream_evaluation(
    problem: Problem,
    proposals: Proposals,
    *,
    pairs: int = 100,
    runs: int = 100,
    budgets: Sequence[int] = (2, 10, 100, 1000),
    estimators: Estimators | None = None,
    seed: int = 0,
) -> Stream[Cases]:
    """The cases of `evaluate`, one more with each item.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        pairs: Number of cases (y, theta).
        runs: Independent runs of each case.
        budgets: Total draws of an estimator; increasing.
        estimators: As for `error_curves`.
        seed: Whole number >= 0.

    Raises:
        ValueError: see `evaluate`.
    """
    sweep = Sweep.of(
        problem,
        proposals,
        pairs=pairs,
        runs=runs,
        budgets=budgets,
        estimators=estimators,
        truth=None,
        cases=None,
        seed=seed,
    )
    return Stream(len(sweep), lambda number: case_errors(sweep, number), Cases)


def _settings(sweep: Sweep) -> dict[str, Any]:
    """What the numbers of a sweep depend on."""
    truth, of = sweep.truth, origin(sweep.problem, sweep.proposals)
    return {
        **{name: of[name] for name in ("problem", "variant", "weights")},
        "pairs": len(sweep),
        "runs": sweep.runs,
        "budgets": sweep.budgets.tolist(),
        "estimators": list(sweep.estimators),
        "seed": sweep.seed,
        **({} if sweep.device == CPU else {"device": str(sweep.device)}),
        "cases": digest(
            sweep.y.numpy(),
            *(() if sweep.theta is None else (sweep.theta.numpy(),)),
            *(truth.log_unit, truth.sign, truth.error),
        ),
        "versions": of["versions"],
    }
