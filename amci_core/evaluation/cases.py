r"""Errors over many cases (y, theta) drawn from p(y) p(theta): the paper's summary figures."""

from __future__ import annotations

__all__ = ["MARGIN", "Cases", "Evaluation", "KnownCases", "Sweep", "evaluate", "read_cases"]

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import torch
from torch import Tensor

from amci_core._arguments import check_count, check_numbers, check_seed, part_seed
from amci_core.devices import AUTO, CPU, device_named, one_thread
from amci_core.estimation.sampling import Sampler, generators, resolve_names
from amci_core.estimators import ESTIMATORS
from amci_core.estimators.draws import Array
from amci_core.evaluation.runs import (
    BOUND,
    MAX_RUNS,
    Curve,
    Estimators,
    Runs,
    Truth,
    bound_curve,
    checked_draws,
    chosen_estimators,
    curves_of,
    in_turns,
    quantiles,
)
from amci_core.evaluation.sweep import FIGURES, SweepFile, origin, signatures
from amci_core.flows import Proposals
from amci_core.io import check_path, read_columns
from amci_core.models import Problem, Variable, check_problem
from amci_core.parallel import run_tasks
from amci_core.printing import Printed

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
        kinds = (below, below & ~undecided, undecided)
        return tuple(kind.mean(axis=0).tolist() for kind in kinds)

    def summary(self, name: str) -> dict[str, list[float]]:
        """Quantiles over the cases, and shares of cases, for B totals."""
        figures = self.by_name[name]
        over_cases = quantiles(figures["remse"], list(LEVELS.values()))
        summary = {f"remse_{level}": q for level, q in zip(LEVELS, over_cases, strict=True)}
        (summary["mse_median"],) = quantiles(figures["mse"], [0.5])
        for level in ("q25", "median", "q75"):
            (summary[f"runs_{level}"],) = quantiles(figures[f"remse_{level}"], [0.5])
        summary["cases"] = (~np.isnan(figures["remse"])).sum(axis=0)
        summary["failed"] = figures["failed"].sum(axis=0)
        summary["undetermined"] = (~figures["determined"]).mean(axis=0)
        summary["reference_limited"] = figures["reference_limited"].mean(axis=0)
        return {name: values.tolist() for name, values in summary.items()}


class Sweep:
    """The settings of n cases; any process can compute each of them by its number.

    Arguments are those of `evaluate`.

    Raises:
        ValueError: see `evaluate`.
    """

    def __init__(
        self,
        problem: Problem | str,
        proposals: Proposals | str | None,
        cases: int | tuple[Any, Any],
        runs: int,
        draws: Sequence[int],
        estimators: Estimators | None = None,
        truth: Any = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.problem, self.proposals = resolve_names(problem, proposals)
        self.runs = check_count("runs", runs, low=1, high=MAX_RUNS)
        self.seed = check_seed(seed)
        self.draws = checked_draws(draws)
        self.estimators = chosen_estimators(estimators, self.problem, self.proposals)
        self.drawn = {name: e for name, e in self.estimators.items() if e is not None}
        self.y, self.theta = _checked_cases(self.problem, cases, seed)
        self.truth = Truth.of(self.problem, self.y, self.theta, truth)
        self.device = device_named(device, points=runs * int(self.draws.max()))
        on_device = self.proposals if self.device == CPU else self.proposals.to(self.device)
        if on_device is None and device == AUTO:
            self.device, on_device = CPU, self.proposals
        if on_device is None:
            variant = self.proposals.variant
            raise ValueError(
                f"device: expected cpu, since {variant} proposals are no networks, got {device!r}"
            )
        self._on_device = on_device
        if BOUND in self.estimators:
            self._log_deviation = self.problem.log_mean_absolute_deviation(self.y, self.theta)
        if self.drawn:
            self.of_case(0)  # refuses numbers of draws that do not fit

    def __len__(self) -> int:
        return len(self.y)

    def of_case(self, number: int) -> Runs:
        """The runs of a case."""
        y, theta = self.y[number], None if self.theta is None else self.theta[number]
        at = y.to(self.device), None if theta is None else theta.to(self.device)
        sampler = Sampler(self.problem, self._on_device, *at)
        return Runs(sampler, self.drawn, self.truth[number], draws=self.draws)

    def errors(self, number: int) -> pd.DataFrame:
        """The errors in a case, seeded by its number: a row for each estimator and total."""
        import pandas as pd

        began = time.perf_counter()
        truth = self.truth[number]
        curves: dict[str, Curve] = {}
        if self.drawn:
            runs = self.of_case(number)
            rngs = generators(part_seed(self.seed, number), device=self.device)
            chunks = in_turns([(runs, self.runs)])
            curves = curves_of(chunks, [runs.errors(n, *rngs) for _, n in chunks], truth)
        if BOUND in self.estimators:
            curves[BOUND] = bound_curve(self._log_deviation[number], self.draws, truth)
        case = {
            "case": number,
            "y": self.y[number].tolist(),
            "theta": [] if self.theta is None else self.theta[number].tolist(),
            "truth": float(truth.value),
            "truth_error": float(truth.standard_error),
            "seconds": time.perf_counter() - began,
        }
        tables = {
            name: pd.DataFrame(_figures(curves[name]), index=self.draws)
            for name in self.estimators
        }
        rows = pd.concat(tables, names=["estimator", "draws"]).reset_index()
        return pd.DataFrame([case] * len(rows)).join(rows)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the numbers depend on, ready for JSON."""
        theta = () if self.theta is None else (self.theta,)
        truth = self.truth.log_unit, self.truth.sign, self.truth.error
        values = np.concatenate([np.ravel(array) for array in (self.y, *theta, *truth)])
        own = {name: e for name, e in self.drawn.items() if e is not ESTIMATORS.get(name)}
        return {
            **origin(self.problem, self.proposals),
            **self.problem.fingerprint,
            "proposals": signatures(self.problem, self.proposals),
            "cases": len(self),
            "runs": self.runs,
            "draws": self.draws.tolist(),
            "estimators": list(self.estimators),
            "coefficients": {name: _digest(cloudpickle.dumps(e)) for name, e in own.items()},
            "seed": self.seed,
            "device": str(self.device),
            "values": _digest(values.tobytes()),
        }


def _checked_cases(
    problem: Problem, cases: int | tuple[Any, Any], seed: int
) -> tuple[Tensor, Tensor | None]:
    """Cases from p(y) p(theta), or those given, as y (n, D_y) and theta (n, D_theta)."""
    if isinstance(cases, tuple) and len(cases) == 2:
        y, theta = problem.check(*cases)
        if y.ndim > 2:
            raise ValueError(
                f"cases: expected y and theta of shape (cases, D), got batch shape "
                f"{tuple(y.shape[:-1])}"
            )
        return torch.atleast_2d(y), None if theta is None else torch.atleast_2d(theta)
    check_count("cases", cases, low=1, high=1_000_000)
    y, theta = problem.check(*problem.cases(cases, seed=seed))
    return y.expand(cases, -1), theta  # without y and theta there is a single row


def _figures(curve: Curve) -> dict[str, Any]:
    low, _, high = curve.remse_quartiles
    quartiles = {"remse_q25": low, "remse_q75": high}
    return {name: quartiles.get(name, getattr(curve, name, None)) for name in FIGURES}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@dataclass(frozen=True, repr=False)
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
    seconds: float
    failures: dict[int, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """Plain lists and numbers, ready for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        import pandas as pd

        done = self.cases - len(self.failures)
        medians = {}
        for name, errors in self.estimators.items():
            levels = zip(*(errors[f"remse_{q}"] for q in ("median", "q25", "q75")), strict=True)
            medians[name] = [
                f"{middle:.2g} ({low:.2g}, {high:.2g})" for middle, low, high in levels
            ]
        totals = [f"{total:,} draws" for total in self.draws]
        table = pd.DataFrame.from_dict(medians, orient="index", columns=totals).to_string()
        title = (
            f"{self.problem} with {self.variant} proposals: relative mean squared error over "
            f"{self.runs:,} runs, median over {of_cases(done, self.cases)} (quartiles)"
        )
        return "\n".join([title, table, *self._notes(done), f"{self.seconds:.1f} s"])

    def _notes(self, done: int) -> Iterator[str]:
        for name, errors in self.estimators.items():
            for i, total in enumerate(self.draws):
                at = f"{name} at {total:,} draws"
                if (known := round(errors["cases"][i])) < done:
                    counted = of_cases(known, done, "have no relative error")
                    yield f"{at}: median over {counted} (mu = 0, or all runs failed)"
                if failed := errors["failed"][i]:
                    yield f"{at}: {failed:,} of {done * self.runs:,} runs failed"
                if limited := errors["reference_limited"][i]:
                    yield f"{at}: mu too uncertain in {limited * done:,.0f} of {done:,} cases"


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
        seed: Whole number >= 0.
        device: Where points are drawn and densities computed: cpu, cuda or another device of
            PyTorch, or auto, a GPU where there is one. Devices draw different random numbers, and
            other devices than cpu take proposals that are networks.
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
    sweep = Sweep(problem, proposals, cases, runs, draws, estimators, truth, seed, device)
    failures: dict[int, str] = {}
    with (
        nullcontext() if out is None else SweepFile(check_path("out", out), sweep.settings) as file
    ):
        by_case = {} if file is None else file.read()
        before = len(by_case)
        missing = [number for number in range(len(sweep)) if number not in by_case]
        tasks = run_tasks(sweep.errors, missing, workers=workers, dask=dask)
        for ended, task in enumerate(tasks, before + 1):
            if task.failure is not None:
                failures[task.item] = task.failure
            else:
                by_case[task.item] = task.value
                if file is not None:
                    file.add(task.item, task.value)
            if progress is not None:
                progress(ended, len(sweep))
        if not by_case:
            number, why = next(iter(failures.items()))
            raise RuntimeError(f"all of {len(sweep)} cases failed; case {number}: {why}")
        rows = pd.concat([by_case[number] for number in sorted(by_case)], ignore_index=True)
        if file is not None:
            file.finish(rows, failures)
    errors = Cases(rows)
    compared = sweep.drawn if BOUND in sweep.estimators else ()
    shares = {name: errors.against_bound(name) for name in compared}
    return Evaluation(
        problem=sweep.problem.name,
        variant=sweep.proposals.variant,
        draws=sweep.draws.tolist(),
        cases=len(sweep),
        runs=runs,
        seed=seed,
        estimators={name: errors.summary(name) for name in sweep.estimators},
        below_bound={name: below for name, (below, _, _) in shares.items()},
        surely_below_bound={name: surely for name, (_, surely, _) in shares.items()},
        undecided_bound={name: undecided for name, (_, _, undecided) in shares.items()},
        seconds=time.perf_counter() - began,
        failures=failures,
    )


@dataclass(frozen=True, repr=False)
class KnownCases(Printed):
    """n cases and what is taken for mu there.

    Arguments:
        y: Observations (n, D_y); None where the problem has none.
        theta: Parameters of f (n, D_theta), or None.
        value: mu, (n,), in units of f.
        standard_error: Its standard error, (n,), in units of f; zeros where it counts as exact.
    """

    y: Array | None
    theta: Array | None
    value: Array
    standard_error: Array


def read_cases(file: str | Path, problem: Problem | str) -> KnownCases:
    """Reads cases and their values of mu from a CSV or Parquet file.

    Its columns are `y` and `theta` (`y1`, `y2`, ... in several dimensions), `value` and, if it is
    known, `error`, the standard error of the value.

    Arguments:
        file: The file, whose name ends with .csv or .parquet.
        problem: The problem whose cases these are, or the name of a shipped one.

    Returns:
        `KnownCases`: y (n, D_y), theta (n, D_theta), `value` and `standard_error` (n,).

    Raises:
        ValueError: the file is missing, of another kind or damaged; a column is missing, unknown
            or no numbers; or a case is out of range.
    """
    problem = check_problem(problem)
    columns = read_columns(check_path("file", file))
    of_y, of_theta = _columns("y", problem.y), _columns("theta", problem.theta)
    wanted = [*of_y, *of_theta, "value"]
    if not set(wanted) <= set(columns) <= {*wanted, "error"}:
        raise ValueError(
            f"{file}: expected the columns {', '.join(wanted)} and, if known, error, "
            f"got {', '.join(columns)}"
        )
    try:
        arrays = {name: check_numbers(name, column) for name, column in columns.items()}
        if not np.isfinite(arrays["value"]).all():
            raise ValueError("expected finite numbers as value")
        y, theta = (
            np.column_stack([arrays[name] for name in names]) if names else None
            for names in (of_y, of_theta)
        )
        problem.check(y, theta)
    except ValueError as wrong:
        raise ValueError(f"{file}: {wrong}") from None
    value = arrays["value"]
    return KnownCases(y, theta, value, arrays.get("error", np.zeros_like(value)))


def _columns(name: str, variable: Variable | None) -> list[str]:
    dim = 0 if variable is None else variable.dim
    return [name] if dim == 1 else [f"{name}{i + 1}" for i in range(dim)]
