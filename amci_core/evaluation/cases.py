r"""Errors over many cases (y, theta) drawn from p(y) p(theta): the paper's summary figures."""

from __future__ import annotations

__all__ = ["MARGIN", "Cases", "Evaluation", "Sweep", "evaluate", "of_cases"]

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import torch
from torch import Tensor

from amci_core._arguments import check_count, check_seed, part_seed
from amci_core.devices import AUTO, CPU, device_named, one_thread
from amci_core.estimation.sampling import Sampler, generators, resolve_names
from amci_core.estimators import ESTIMATORS
from amci_core.estimators.draws import Array
from amci_core.evaluation.curves import Curve, bound_curve, curves_of
from amci_core.evaluation.runs import (
    BOUND,
    MAX_RUNS,
    Estimators,
    Runs,
    Truth,
    checked_draws,
    chosen_estimators,
    in_turns,
    quantiles,
)
from amci_core.evaluation.sweep import COLUMNS, FIGURES, origin, signatures, sweep_file
from amci_core.flows import Proposals
from amci_core.io import check_path
from amci_core.models import Problem
from amci_core.parallel import run_tasks

if TYPE_CHECKING:
    import pandas as pd

LEVELS = {"median": 0.5, "q25": 0.25, "q75": 0.75, "q95": 0.95, "max": 1.0}
# An error is on neither side of the bound within so many standard errors; and, if runs do not
# determine it, unless it is so many times below: more runs can raise it by about that much.
OPEN, MARGIN = 2.0, 100.0


def of_cases(n: int, total: int, others: str = "failed") -> str:
    """How many of all cases a summary is over: "20 cases", or "11 of 20 cases, 9 failed"."""
    return (
        f"{total:,} cases" if n == total else f"{n:,} of {total:,} cases, {total - n:,} {others}"
    )


class Cases:
    """The errors of every estimator in n cases, in the order of their numbers.

    Arguments:
        rows: A row for each case, estimator and number of draws, as `Sweep.errors` makes them and
            `read_sweep` reads them, one case after another.

    Attributes:
        number: Numbers of the cases in the sweep, (n,).
        y: Observations, (n, D_y).
        theta: Parameters of f, (n, D_theta); of length 0 if the problem has none.
        truth: mu, in units of f, (n,).
        truth_error: Its standard error, (n,).
        by_name: For each estimator the `FIGURES`, (n, B) each: the relative squared error's mean
            over runs, its standard error and its quartiles over runs; the mean squared error in
            units of f squared, and its standard error; runs without an estimate; whether the runs
            determine the mean; whether the truth's own error matters.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self._rows = rows
        first = rows.drop_duplicates("case")
        self.number: Array = first["case"].to_numpy()
        self.y, self.theta = (np.stack(first[name].to_list()) for name in ("y", "theta"))
        self.truth: Array = first["truth"].to_numpy()
        self.truth_error: Array = first["truth_error"].to_numpy()
        self.by_name: dict[str, dict[str, Any]] = {
            name: {figure: of[figure].to_numpy().reshape(len(first), -1) for figure in FIGURES}
            for name, of in rows.groupby("estimator", sort=False)
        }

    def __len__(self) -> int:
        return len(self.number)

    def only(self, rank: int) -> Cases:
        """The case of that rank, alone."""
        return Cases(self._rows[self._rows["case"] == self.number[rank]])

    def __repr__(self) -> str:
        return f"Cases: {len(self.number):,} cases with errors of {', '.join(self.by_name)}"

    def against_bound(self, name: str) -> tuple[list[float], list[float], list[float]]:
        """Shares of cases below the bound, surely below, and undecided, for B totals each.

        Undecided is a case whose error lies within two standard errors of the bound, or whose runs
        do not determine it unless it is 100 times below the bound.
        """
        figures, bounds = self.by_name[name], self.by_name[BOUND]
        # Relative errors do not underflow; if mu is zero there are none.
        zero = np.isnan(bounds["remse"])
        mean = np.where(zero, figures["mse"], figures["remse"])
        error = np.where(zero, figures["mse_error"], figures["remse_error"])
        bound = np.where(zero, bounds["mse"], bounds["remse"])
        below = mean < bound
        near = np.abs(mean - bound) <= OPEN * np.nan_to_num(error)
        undecided = near | (~figures["determined"] & (bound / MARGIN < mean))
        cases = (below, below & ~undecided, undecided)
        return tuple(of.mean(axis=0).tolist() for of in cases)

    def summary(self, name: str) -> dict[str, list[float]]:
        """Quantiles over the cases, and shares of cases, for B totals."""
        figures = self.by_name[name]

        def over_cases(figure: str, level: float) -> Array:
            (values,), _ = quantiles(figures[figure], [level])
            return np.asarray(values)

        summary = {f"remse_{name}": over_cases("remse", level) for name, level in LEVELS.items()}
        summary["mse_median"] = over_cases("mse", 0.5)
        for level in ("q25", "median", "q75"):
            summary[f"runs_{level}"] = over_cases(f"remse_{level}", 0.5)
        summary["cases"] = (~np.isnan(figures["remse"])).sum(axis=0)
        summary["failed"] = figures["failed"].sum(axis=0)
        summary["undetermined"] = (~figures["determined"]).mean(axis=0)
        summary["reference_limited"] = figures["reference_limited"].mean(axis=0)
        return {name: values.tolist() for name, values in summary.items()}


class Sweep:
    """The settings of n cases, any process can do each by its number.

    Arguments are those of `evaluate`.

    Raises:
        ValueError: see `evaluate`.
    """

    def __init__(
        self,
        problem: Problem | str,
        proposals: Proposals | str | None = None,
        *,
        cases: int | tuple[Any, Any],
        runs: int,
        draws: Sequence[int],
        estimators: Estimators | None = None,
        truth: Any = None,
        points: str | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.problem, self.proposals = problem, proposals = resolve_names(problem, proposals)
        self.runs = check_count("runs", runs, low=1, high=MAX_RUNS)
        self.seed = check_seed(seed)
        self.draws = checked_draws(draws)
        self.device = device_named(device, points=runs * int(self.draws.max()))
        if self.device != CPU and proposals.to(self.device) is None:
            if device != AUTO:
                raise ValueError(
                    f"device: expected cpu, since {proposals.variant} proposals are no networks, "
                    f"got {device!r}"
                )
            self.device = CPU
        self.estimators = chosen_estimators(estimators, problem, proposals, points)
        self.drawn = {name: each for name, each in self.estimators.items() if each is not None}
        if isinstance(cases, tuple) and len(cases) == 2:
            y, theta = problem.check(*cases)
            y, theta = torch.atleast_2d(y), None if theta is None else torch.atleast_2d(theta)
            if y.ndim > 2:
                raise ValueError(
                    f"cases: expected y and theta of shape (cases, D), got batch shape "
                    f"{tuple(y.shape[:-1])}"
                )
        else:
            check_count("cases", cases, low=1, high=1_000_000)
            y, theta = problem.check(*problem.cases(cases, seed=seed))
            y = y.expand(cases, -1)  # without y and theta there is a single row
        self.y, self.theta = y, theta
        self.truth = Truth.of(problem, y, theta, truth)
        if BOUND in self.estimators:
            self._log_deviation = problem.log_mean_absolute_deviation(y, theta)
        if self.drawn:
            self.of_case(0)  # refuses numbers of draws that do not fit

    def __len__(self) -> int:
        return len(self.y)

    def of_case(self, number: int) -> Runs:
        """The runs of a case."""
        proposals: Any = self.proposals if self.device == CPU else self.proposals.to(self.device)
        y, theta = self._case(number)
        theta = None if theta is None else theta.to(self.device)
        sampler = Sampler(self.problem, proposals, y.to(self.device), theta)
        return Runs(sampler, self.drawn, self.truth[number], draws=self.draws)

    def errors(self, number: int) -> pd.DataFrame:
        """The errors in a case, seeded by its number: a row for each estimator and total."""
        import pandas as pd

        began = time.perf_counter()
        truth = self.truth[number]
        curves: dict[str, Curve] = {}
        points = 0
        if self.drawn:
            made = self.of_case(number)
            points = self.runs * made.points
            rngs = generators(part_seed(self.seed, number), device=self.device)
            chunks = in_turns([(made, self.runs)])
            curves = curves_of(chunks, [made.errors(n, *rngs) for _, n in chunks], truth)
        if BOUND in self.estimators:
            curves[BOUND] = bound_curve(self._log_deviation[number], self.draws, truth)
        y, theta = self._case(number)
        case = {
            "case": number,
            "y": y.tolist(),
            "theta": [] if theta is None else theta.tolist(),
            "truth": float(truth.value),
            "truth_error": float(truth.standard_error),
            "points": points,
            "seconds": time.perf_counter() - began,
        }
        rows = []
        for name in self.estimators:
            curve = curves[name]
            low, _, high = curve.remse_quartiles
            figures = {"remse_q25": low, "remse_q75": high}
            figures |= {each: getattr(curve, each) for each in FIGURES if each not in figures}
            for i, total in enumerate(self.draws):
                at_total = {figure: values[i] for figure, values in figures.items()}
                rows.append(case | {"estimator": name, "draws": total} | at_total)
        return pd.DataFrame(rows, columns=COLUMNS)

    @property
    def settings(self) -> dict[str, Any]:
        """What the numbers depend on, ready for JSON."""
        theta = () if self.theta is None else (self.theta,)
        truth = self.truth.log_unit, self.truth.sign, self.truth.error
        values = np.concatenate([np.ravel(of) for of in (self.y, *theta, *truth)])
        own_coefficients = {
            name: hashlib.sha256(cloudpickle.dumps(each)).hexdigest()[:12]
            for name, each in self.drawn.items()
            if each is not ESTIMATORS.get(name)
        }
        return {
            **origin(self.problem, self.proposals),
            **self.problem.fingerprint,
            "proposals": signatures(self.problem, self.proposals),
            "cases": len(self),
            "runs": self.runs,
            "draws": self.draws.tolist(),
            "estimators": list(self.estimators),
            "coefficients": own_coefficients,
            "seed": self.seed,
            "device": str(self.device),
            "values": hashlib.sha256(values.tobytes()).hexdigest(),
        }

    def _case(self, number: int) -> tuple[Tensor, Tensor | None]:
        return self.y[number], None if self.theta is None else self.theta[number]


@dataclass(frozen=True)
class Evaluation:
    """What `amci evaluate` prints: errors of every estimator over cases, for B totals.

    A case's error is the mean over its runs that gave an estimate. Cases with mu = 0 have no
    relative error and are left out of the relative figures.

    Arguments:
        problem: Name of the problem.
        variant: Variant of its proposals.
        draws: Total draws, B of them.
        cases: Number of cases (y, theta).
        runs: Independent runs of each case.
        seed: The seed of cases and runs.
        estimators: For each estimator lists over draws: the quantiles over cases `remse_median`,
            `remse_q25`, `remse_q75`, `remse_q95`, `remse_max` and `mse_median`; the medians over
            cases of the quartiles over runs, `runs_q25`, `runs_median` and `runs_q75`; `cases`,
            the number of cases that have a relative error; `failed`, the number of runs of all
            cases without an estimate; `undetermined`, the share of cases whose runs do not
            determine their mean; `reference_limited`, the share whose truth is not known well
            enough.
        below_bound: Share of cases in which each estimator's ReMSE lies below the SNIS bound
            (asymptotic, for independent draws from one proposal), for each total; empty where
            `bound` is not among the estimators.
        surely_below_bound: Share of cases where it does so by more than 2 standard errors.
        undecided_bound: Share of cases where it lies within 2 standard errors of the bound, or
            less than 100 times below it where runs do not determine it.
        truth_error: The largest standard error of a case's truth over its size; 0 where all truths
            are exact.
        draws_per_second: Points drawn, with every density at each, per second; 0 where all cases
            were there already.
        seconds: Wall time.
        failures: Number of a case that failed, and why; other figures leave it out.
    """

    problem: str
    variant: str
    draws: list[int]
    cases: int
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

    def as_dict(self) -> dict[str, object]:
        """Plain lists and numbers, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        done, speed = self.cases - len(self.failures), self.draws_per_second
        lines = [
            f"{self.problem} with {self.variant} proposals: relative mean squared error over "
            f"{self.runs:,} runs, median over {of_cases(done, self.cases)} (quartiles)",
            f"{'draws':20}" + "".join(f"{n:>28,}" for n in self.draws),
        ]
        notes = []
        for name, errors in self.estimators.items():
            levels = zip(*(errors[f"remse_{q}"] for q in ("median", "q25", "q75")), strict=True)
            texts = (f"{middle:.2g} ({low:.2g}, {high:.2g})" for middle, low, high in levels)
            lines.append(f"{name:20}" + "".join(f"{text:>28}" for text in texts))
            for i, total in enumerate(self.draws):
                at = f"{name} at {total:,} draws: "
                if (known := round(errors["cases"][i])) < done:
                    counted = of_cases(known, done, "have no relative error")
                    notes.append(f"{at}median over {counted} (mu = 0, or all runs failed)")
                if failed := errors["failed"][i]:
                    notes.append(f"{at}{failed:,} of {done * self.runs:,} runs failed")
                if share := errors["reference_limited"][i]:
                    notes.append(f"{at}mu too uncertain in {share * done:,.0f} of {done:,} cases")
        drawn = f", {speed:.3g} draws per second" if speed else ""
        return "\n".join([*lines, *notes, f"{self.seconds:.1f} s{drawn}"])

    __repr__ = __str__


@one_thread()
def evaluate(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    *,
    cases: int | tuple[Any, Any] = 100,
    runs: int = 100,
    draws: Sequence[int] = (2, 10, 100, 1000),
    estimators: Estimators | None = None,
    truth: Any = None,
    points: str | None = None,
    seed: int = 0,
    device: str = "cpu",
    out: str | Path | None = None,
    workers: int | None = None,
    dask: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Relative and absolute errors of estimators over cases, drawn from p(y) p(theta) or given.

    Arguments:
        problem: The problem.
        proposals: Its proposals.
        cases: Number of cases, or y (n, D_y) and theta (n, D_theta), each None if the problem has
            none.
        runs: Independent runs of each case.
        draws: Total draws of an estimator; increasing.
        estimators: Names of `amci_core.estimators.ESTIMATORS` and `bound`; by default those that
            the proposals can serve of the five that `error_curves` names, and the bound.
        truth: The values that errors are counted from, if the problem does not know its truth:
            numbers (n,), or an object with `value` and `standard_error`, as of `read_cases`.
            Without errors they count as exact; with them `reference_limited` says which results
            they are too large for. With a number of cases it is for `problem.cases(n, seed=seed)`.
        points: `independent` draws (default), or `sobol` points for the estimators that take them.
        seed: Whole number >= 0.
        device: Where points are drawn and densities computed: cpu, cuda or another device of
            PyTorch, or auto, a GPU where there is one. Devices draw different random numbers.
        out: A Parquet file for the cases, with their origin. Cases that are there already, also
            after a kill, are not done again.
        workers: Number of processes that do the cases; by default they are done here.
        dask: Address of a Dask scheduler, whose workers do the cases. The numbers are the same
            wherever they are done.
        progress: Called with the number of cases done and the number wanted.

    Returns:
        `Evaluation`: in `estimators`, by name, quantiles over cases of ReMSE and MSE for each
        number of draws; printing it gives a table.

    Raises:
        ValueError: an argument is out of range or unknown; or the problem does not know its truth
            and none is given, or not its bound and that is asked for; or the file belongs to
            another sweep, or another is writing it.
        RuntimeError: no case could be done.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = amci.load_proposals("tail-1d", variant="oracle")
        >>> found = amci.evaluate(problem, proposals, cases=3, runs=4, draws=[10])
        >>> found.below_bound["amci"] == [1.0]
        True
    """
    import pandas as pd

    began = time.perf_counter()
    sweep = Sweep(
        problem,
        proposals,
        cases=cases,
        runs=runs,
        draws=draws,
        estimators=estimators,
        truth=truth,
        points=points,
        seed=seed,
        device=device,
    )
    made: list[pd.DataFrame] = []
    failures: dict[int, str] = {}
    with (
        nullcontext()
        if out is None
        else sweep_file(check_path("out", out), sweep.settings) as file
    ):
        known = None if file is None else file.rows
        before = set() if known is None else set(known["case"])
        missing = [number for number in range(len(sweep)) if number not in before]
        tasks = run_tasks(sweep.errors, missing, workers=workers, dask=dask)
        for ended, done in enumerate(tasks, len(before) + 1):
            if done.failure is not None:
                failures[done.item] = done.failure
            else:
                made.append(done.value)
                if file is not None:
                    file.add(done.item, done.value)
            if progress is not None:
                progress(ended, len(sweep))
        if not before and not made:
            number, why = next(iter(failures.items()))
            raise RuntimeError(f"all of {len(sweep)} cases failed; case {number}: {why}")
        rows = pd.concat([known, *made]).sort_values("case", kind="stable", ignore_index=True)
        if file is not None:
            file.finish(rows, failures)
    found = Cases(rows)
    drawn = sum(int(case["points"].iloc[0]) for case in made)
    seconds = time.perf_counter() - began
    shares = {name: found.against_bound(name) for name in sweep.drawn if BOUND in sweep.estimators}
    below, surely, undecided = (
        {name: of_name[part] for name, of_name in shares.items()} for part in range(3)
    )
    has_relative_error = found.truth != 0
    truth_error = found.truth_error[has_relative_error] / np.abs(found.truth[has_relative_error])
    return Evaluation(
        problem=sweep.problem.name,
        variant=sweep.proposals.variant,
        draws=sweep.draws.tolist(),
        cases=len(sweep),
        runs=runs,
        seed=seed,
        estimators={name: found.summary(name) for name in sweep.estimators},
        below_bound=below,
        surely_below_bound=surely,
        undecided_bound=undecided,
        truth_error=float(truth_error.max(initial=0.0)),
        draws_per_second=drawn / seconds,
        seconds=seconds,
        failures=failures,
    )
