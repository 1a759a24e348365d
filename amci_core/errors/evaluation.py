r"""Errors over many pairs (y, theta) drawn from p(y) p(theta): the paper's summary figures."""

from __future__ import annotations

__all__ = ["Evaluation", "evaluate"]

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from torch import Tensor

from amci_core.checks import check_count, check_seed
from amci_core.errors.curves import Curve, bound_curve
from amci_core.errors.runs import (
    BOUND,
    MAX_RUNS,
    Estimators,
    Runs,
    Truth,
    checked_budgets,
    chosen_estimators,
    reserve,
)
from amci_core.errors.spread import OverRuns, quantiles
from amci_core.estimation.sampling import Sampler, generators
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem

LEVELS = {"median": 0.5, "q25": 0.25, "q75": 0.75, "q95": 0.95, "max": 1.0}
# Whether an error lies below the bound is open within so many standard errors.
OPEN = 2.0
# More runs can raise a mean that they do not settle by about so much.
UNSETTLED = 100.0


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
            largest over runs alone; `failed`, the number of runs of all cases without an estimate;
            `unjudged`, the share of cases whose runs do not settle their mean; `truth_matters`,
            the share whose truth is not known well enough.
        below_bound: Share of cases in which each estimator's ReMSE lies below the SNIS bound, over
            budgets; empty where `bound` is not among the estimators.
        surely_below_bound: Share of cases where it does so by more than 2 standard errors.
        undecided_bound: Share of cases where it lies within 2 standard errors of the bound, or
            less than 100 times below it where runs do not settle the mean.
        truth_error: The largest standard error of a case's truth over its size; 0 where all truths
            are exact.
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
    surely_below_bound: dict[str, list[float]]
    undecided_bound: dict[str, list[float]]
    truth_error: float
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
    estimators: Estimators | None = None,
    truth: Any = None,
    cases: tuple[Any, Any] | None = None,
    seed: int = 0,
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
        progress: Called with the number of cases done and the number wanted.

    Raises:
        ValueError: an argument is out of range or unknown; or the problem does not know its truth
            and none is given, or not its bound and that is asked for.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = amci.load_proposals("tail-1d", variant="oracle")
        >>> found = amci.evaluate(problem, proposals, pairs=3, runs=4, budgets=[10])
        >>> found.below_bound["amci"] == [1.0]
        True
    """
    started = time.perf_counter()
    check_count("pairs", pairs, low=1, high=1_000_000)
    check_count("runs", runs, low=1, high=MAX_RUNS)
    check_seed(seed)
    checked = checked_budgets(budgets)
    chosen = chosen_estimators(estimators, problem, proposals)
    if cases is None:
        y, theta = problem.check(*problem.cases(pairs, seed=seed))
        if y.ndim == 1:  # there is neither y nor theta
            y = y.expand(pairs, -1)
    else:
        y, theta = _given(problem, cases)
        pairs = len(y)
    target = Truth.of(problem, y, theta, truth)
    bound = None
    drawn = {name: each for name, each in chosen.items() if each is not None}
    if BOUND in chosen:
        bound = bound_curve(problem.expected_deviation(y, theta), checked, target)
    seeds = np.random.SeedSequence(seed).spawn(pairs)
    curves: dict[str, list[Curve]] = {name: [] for name in drawn}
    points = 0
    for case in range(pairs if drawn else 0):
        sampler = Sampler(problem, proposals, y[case], None if theta is None else theta[case])
        points += runs * int(reserve(drawn, sampler, budgets=checked).sum())
        of_case = Runs(sampler, drawn, target[case], budgets=checked)
        rngs = generators(seeds[case])
        chunks = [of_case.squared_errors(size, *rngs) for size in of_case.sizes(runs)]
        for name, each in drawn.items():
            errors = np.concatenate([chunk[name] for chunk in chunks])
            tried = checked >= each.least(sampler.present)
            curves[name].append(Curve(OverRuns(errors, tried), target[case]))
        if progress is not None:
            progress(case + 1, pairs)
    seconds = time.perf_counter() - started
    over_cases = {name: _Cases.of(curves[name]) for name in drawn}
    below = {} if bound is None else {n: c.against(bound.mse) for n, c in over_cases.items()}
    if bound is not None:
        over_cases[BOUND] = _Cases.of([bound])
    return Evaluation(
        problem=problem.name,
        variant=proposals.variant,
        budgets=checked.tolist(),
        pairs=pairs,
        runs=runs,
        seed=seed,
        estimators={name: over_cases[name].summary() for name in chosen},
        below_bound={name: shares[0] for name, shares in below.items()},
        surely_below_bound={name: shares[1] for name, shares in below.items()},
        undecided_bound={name: shares[2] for name, shares in below.items()},
        truth_error=float(np.max(target.relative_error, initial=0.0)),
        draws_per_second=points / seconds,
        seconds=seconds,
    )


def _given(problem: Problem, cases: tuple[Any, Any]) -> tuple[Tensor, Tensor | None]:
    """Cases as tensors y (n, D_y) and theta (n, D_theta)."""
    if not isinstance(cases, tuple) or len(cases) != 2:
        raise ValueError(
            "cases: expected a pair, y and theta, each of them None where there is none"
        )
    y, theta = problem.check(*cases)
    if y.ndim == 1:
        y, theta = y[None], None if theta is None else theta[None]
    if y.ndim != 2:
        raise ValueError(f"cases: expected one axis of cases, got batch {tuple(y.shape[:-1])}")
    return y, theta


@dataclass(frozen=True)
class _Cases:
    """Errors of one estimator in n cases, (n, B) each."""

    remse: Array
    remse_error: Array
    mse: Array
    mse_error: Array
    failed: Array
    mean_judged: Array
    truth_matters: Array

    @classmethod
    def of(cls, curves: Sequence[Curve]) -> _Cases:
        """From curves of one case each, or one of all cases."""

        def gathered(name: str) -> Array:
            rows = np.stack([getattr(curve, name) for curve in curves])
            return rows.reshape(-1, rows.shape[-1])

        return cls(*(gathered(field.name) for field in fields(cls)))

    def against(self, bound: Array) -> tuple[list[float], list[float], list[float]]:
        """Shares of cases below the bound (n, B), surely below, and undecided, (B,) each."""
        below = self.mse < bound
        near = np.abs(self.mse - bound) <= OPEN * np.nan_to_num(self.mse_error)
        unsettled = (self.mean_judged == 0) & (bound < UNSETTLED * self.mse)
        undecided = near | unsettled
        shares = (below, below & ~undecided, undecided)
        return tuple(share.mean(axis=0).tolist() for share in shares)

    def summary(self) -> dict[str, list[float]]:
        """Quantiles over the cases, with their errors, and shares of cases; over budgets."""
        levels = list(LEVELS.values())
        relative = quantiles(self.remse, levels)
        absolute = quantiles(self.mse, [LEVELS["median"]])
        relative_error = _with_runs(relative[1], self.remse, self.remse_error, levels)
        absolute_error = _with_runs(absolute[1], self.mse, self.mse_error, [LEVELS["median"]])
        found = {f"remse_{name}": v for name, v in zip(LEVELS, relative[0], strict=True)}
        found["mse_median"] = absolute[0][0]
        found |= {f"remse_{name}_error": v for name, v in zip(LEVELS, relative_error, strict=True)}
        found["mse_median_error"] = absolute_error[0]
        found["failed"] = self.failed.sum(axis=0)
        found["unjudged"] = (self.mean_judged == 0).mean(axis=0)
        found["truth_matters"] = self.truth_matters.mean(axis=0)
        return {name: values.tolist() for name, values in found.items()}


def _with_runs(over_cases: Array, values: Array, errors: Array, levels: Sequence[float]) -> Array:
    """Standard errors of quantiles (L, B) over cases and runs.

    The spread over cases holds the noise of their runs, but for a quantile that is one case.

    Arguments:
        over_cases: What order statistics of the cases say, (L, B).
        values: Errors of n cases, (n, B).
        errors: Their standard errors over runs, (n, B).
        levels: The quantiles.
    """
    n = (~np.isnan(values)).sum(axis=0)
    sorted_errors = np.take_along_axis(errors, np.argsort(values, axis=0), axis=0)
    found = []
    for p, spread in zip(levels, over_cases, strict=True):
        rank = np.rint(p * np.maximum(n - 1, 0)).astype(np.int64)
        of_case = np.take_along_axis(sorted_errors, rank[None], axis=0)[0]
        cases = np.maximum(2 * np.sqrt(n * p * (1 - p)), 1)
        alone = (p == 1) | (n <= 1)
        of_runs = np.where(alone, of_case, np.nan_to_num(of_case) / np.sqrt(cases))
        found.append(np.hypot(np.where(n > 1, spread, 0.0), of_runs))
    return np.stack(found)
