r"""Error against total draws: the paper's error plots."""

from __future__ import annotations

__all__ = ["Curve", "ErrorCurves", "curve_stream", "error_curves"]

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amci_core._arguments import check_seed, part_seed
from amci_core.devices import one_thread
from amci_core.estimation.sampling import Sampler, generators, resolve_names
from amci_core.estimators import Estimator
from amci_core.estimators.draws import Array
from amci_core.estimators.uncertainty import snis_bound
from amci_core.evaluation.runs import (
    BOUND,
    QUARTILES,
    Estimators,
    Runs,
    Totals,
    Truth,
    checked_draws,
    checked_runs,
    chosen_estimators,
    effective_errors,
    in_turns,
    is_determined,
    least_effective,
    quantiles,
)
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.parallel import Stream

# An error of the truth matters from this share of the mean squared error on.
TRUTH_SHARE = 0.1


@dataclass(frozen=True, repr=False)
class Curve:
    """Errors of one estimator over R runs, for a batch (*) of cases and B totals.

    The relative error (ReMSE, the paper's eq. (rel-error)) is the squared error in units of mu
    squared; it is NaN if mu is zero, and the mean squared error is there still. Runs without an
    estimate are left out of all figures and counted in `failed`.

    Arguments:
        errors: Signed errors in units of the truth's, (*, R, B); NaN for a run without an
            estimate, or one that does not reach a total.
        truth: The value that errors are counted from.
        runs: Runs of each total so far, (B,); 0 if it is too small for an estimate, and for a
            bound.
        known: Whether each error is the known root mean square, as for a bound. Monte Carlo errors
            are then zero, and quartiles equal the mean.
    """

    errors: Array
    truth: Truth
    runs: NDArray[np.int64]
    known: bool = False

    def __repr__(self) -> str:
        *batch, runs, totals = self.errors.shape
        medians = np.median(self.remse_median.reshape(-1, totals), axis=0)
        figures = ", ".join(f"{median:.2g}" for median in medians)
        cases = f", {math.prod(batch):,} cases" if batch else ""
        return f"Curve: {runs:,} runs{cases}, ReMSE (median) {figures} by budget"

    @cached_property
    def mean(self) -> Array:
        """Mean squared error in units of the truth's squared, (*, B); NaN without an estimate."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.nansum(self._squares, axis=0) / self._n)

    @cached_property
    def mean_error(self) -> Array:
        """Its Monte Carlo standard error over runs, (*, B); NaN with a single run."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            spread = np.nansum(np.square(self._squares - self.mean), axis=0)
            return np.where(self._n > 1, np.sqrt(spread / (self._n - 1) / self._n), np.nan)

    @cached_property
    def quartiles(self) -> Array:
        """25 %, median and 75 % of squared errors in units of the truth's squared, (3, *, B)."""
        return quantiles(self._squares, QUARTILES)

    @cached_property
    def effective(self) -> Array:
        """The effective number of squared errors, see `effective_errors`, (*, B)."""
        return effective_errors(np.moveaxis(self.errors, -2, 0))

    @property
    def determined(self) -> NDArray[np.bool_]:
        """Whether the runs determine the mean, (*, B); if not, more runs can move it by orders."""
        return is_determined(self.mean, self.effective, least_effective(self._n)) | self.known

    @property
    def remse(self) -> Array:
        """Mean relative squared error, (*, B)."""
        return self._relative(self.mean)

    @property
    def remse_error(self) -> Array:
        """Its Monte Carlo standard error over runs, (*, B); NaN with a single run."""
        return self._relative(self.mean_error)

    @property
    def remse_quartiles(self) -> Array:
        """25 %, median and 75 % of the relative squared error over runs, (3, *, B)."""
        return self._relative(self.quartiles)

    @property
    def remse_median(self) -> Array:
        """Median of the relative squared error over runs, (*, B)."""
        return np.asarray(self.remse_quartiles[1])

    @property
    def mse(self) -> Array:
        """Mean squared error, (*, B), in units of f squared."""
        return self._absolute(self.mean)

    @property
    def mse_error(self) -> Array:
        """Its Monte Carlo standard error over runs, (*, B)."""
        return self._absolute(self.mean_error)

    @property
    def failed(self) -> NDArray[np.int64]:
        """Number of runs without an estimate, (*, B)."""
        return np.asarray(np.maximum(self.runs - self._n, 0))

    @property
    def reference_limited(self) -> NDArray[np.bool_]:
        """Where the truth's own squared error is above 10 % of the mean squared error, (*, B)."""
        return np.square(self.truth.error)[..., None] > TRUTH_SHARE * self.mean

    @cached_property
    def _squares(self) -> Array:
        """Squared errors, (R, *, B)."""
        with np.errstate(over="ignore"):
            return np.square(np.moveaxis(self.errors, -2, 0))

    @cached_property
    def _n(self) -> NDArray[np.int64]:
        return np.asarray((~np.isnan(self._squares)).sum(axis=0))

    def _relative(self, values: Array) -> Array:
        return np.where(self.truth.sign[..., None] == 0, np.nan, values)

    def _absolute(self, values: Array) -> Array:
        return values * np.square(self.truth.unit)[..., None]


@dataclass(frozen=True, repr=False)
class ErrorCurves:
    """The curve of every requested estimator; `curves["amci"]` or `curves.by_name["amci"]`.

    Arguments:
        draws: Total draws T of an estimator, (B,).
        by_name: Estimator to curve, in the requested order.
        runs: Runs so far of the smallest total, which has most; see `Curve.runs` for the others.
        runs_wanted: Requested runs of the smallest total.
        progress: Share of the requested draws that the runs so far have made, from 0 to 1.
    """

    draws: Totals
    by_name: dict[str, Curve]
    runs: int
    runs_wanted: int
    progress: float = 1.0

    def __getitem__(self, name: str) -> Curve:
        return self.by_name[name]

    def __repr__(self) -> str:
        runs = np.max([curve.runs for curve in self.by_name.values()], axis=0)
        lines = ["ReMSE, median over runs, by total draws; of a batch, over cases"]
        lines += [_row("", self.draws, ","), _row("runs", runs, ",")]
        notes = []
        for name, curve in self.by_name.items():
            medians = curve.remse_median.reshape(-1, len(self.draws))
            lines.append(_row(name, np.median(medians, axis=0), ".2g"))
            failed = curve.failed.reshape(medians.shape).sum(axis=0)
            for i in np.flatnonzero(failed):
                of = f"{len(medians) * curve.runs[i]:,} runs"
                notes.append(f"{name} at {self.draws[i]:,} draws: {failed[i]:,} of {of} failed")
        return "\n".join([*lines, *notes])

    @property
    def truth_error(self) -> Array:
        """Standard error of the truth over its size, (*); zero where the truth is exact."""
        return next(iter(self.by_name.values())).truth.relative_error


def _row(label: str, values: Array | Totals, form: str) -> str:
    return f"{label:20}" + "".join(f"{value:>10{form}}" for value in values)


@one_thread()
def error_curves(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    y: Any = None,
    theta: Any = None,
    *,
    draws: Sequence[int] = (2, 10, 100, 1000),
    runs: int | Sequence[int] | NDArray[np.int64] = 1000,
    estimators: Estimators | None = None,
    truth: Any = None,
    points: str | None = None,
    seed: int = 0,
    on_progress: Callable[[ErrorCurves], object] | None = None,
) -> ErrorCurves:
    """Squared errors of estimators at equal total draws, over independent runs.

    Arguments:
        problem: The problem.
        proposals: Its proposals.
        y: A number or an array of shape (*, D_y).
        theta: A number or an array of shape (*, D_theta), or None.
        draws: Total draws of an estimator, all its proposals together; increasing.
        runs: Independent runs; or one number for each total, (B,), that does not increase, such as
            `amci_core.evaluation.runs_by_draws` returns. A run counts for all totals that it
            reaches.
        estimators: Names of `amci_core.estimators.ESTIMATORS`, and `bound`, the SNIS bound
            (asymptotic, for independent draws from one proposal); or a mapping of your own
            names to such names or to tables (3, 3). By default all that the proposals can serve of
            amci, snis-q2, snis-qm, snis-qm-stratified and snis-q1, and the bound if the problem
            knows it.
        truth: The value that errors are counted from, in units of f, if the problem does not know
            its truth: the result of `amci_core.reference_value`, or numbers that broadcast to (*).
            Estimates from the proposals under test share their faults.
        points: `independent` (default), or `sobol` for the estimators that take such points, the
            others draw independent ones. A total takes points of its own.
        seed: Whole number >= 0; the same seed gives the same curves.
        on_progress: Called with the curves so far after each part of the runs, the last time with
            the result. An exception that it raises ends the computation.

    Returns:
        `ErrorCurves`: by estimator a `Curve` with `remse`, `mse` and `determined`, (*, B) for
        B totals; printing it gives a table.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown; or the problem does
            not know its truth and none is given, or not its bound and that is asked for.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = amci.load_proposals("tail-1d", variant="oracle")
        >>> curves = amci.error_curves(problem, proposals, 1.0, 3.0, draws=[2, 10], runs=4)
        >>> bool((curves["amci"].remse < 1e-20).all())
        True
    """
    problem, proposals = resolve_names(problem, proposals)
    y, theta = problem.check(y, theta)
    stream = curve_stream(
        Sampler(problem, proposals, y, theta),
        Truth.of(problem, y, theta, truth),
        chosen_estimators(estimators, problem, proposals, points),
        draws=draws,
        runs=runs,
        seed=seed,
    )
    return stream.run(on_progress)


def curve_stream(
    sampler: Sampler,
    truth: Truth,
    chosen: Mapping[str, Estimator | None],
    *,
    draws: Sequence[int],
    runs: int | Sequence[int] | NDArray[np.int64],
    seed: int,
) -> Stream[ErrorCurves]:
    """The curves of `error_curves` in parts, from ever more runs.

    Arguments:
        sampler: Draws from the proposals at y and theta.
        truth: The value that errors are counted from.
        chosen: The estimators by name, as `chosen_estimators` returns them.
        draws: Total draws of an estimator, increasing; see `error_curves`, also for the others.
        runs: Independent runs.
        seed: Whole number >= 0.
    """
    totals = checked_draws(draws)
    wanted = checked_runs(runs, totals)
    most = int(wanted[0])
    check_seed(seed)
    drawn = {name: estimator for name, estimator in chosen.items() if estimator is not None}
    bound = {}
    if BOUND in chosen:
        deviation = sampler.problem.log_mean_absolute_deviation(sampler.y, sampler.theta)
        bound[BOUND] = bound_curve(deviation, totals, truth)
    if not drawn:
        return Stream(1, lambda _: None, lambda _: ErrorCurves(totals, bound, most, most))
    # Runs that end at a total, for every total at which some do.
    groups = [
        (Runs(sampler, drawn, truth, draws=totals, reach=reach), int(ending))
        for reach, ending in enumerate(-np.diff(wanted, append=0), start=1)
        if ending
    ]
    chunks = in_turns(groups)
    work = np.cumsum([size * group.points for group, size in chunks])

    def part(number: int) -> dict[str, Array]:
        group, size = chunks[number]
        return group.errors(size, *generators(part_seed(seed, number)))

    def merge(parts: Sequence[dict[str, Array]]) -> ErrorCurves:
        made = chunks[: len(parts)]
        curves = bound | curves_of(made, parts, truth)
        by_name = {name: curves[name] for name in chosen}
        done = sum(size for _, size in made)
        return ErrorCurves(totals, by_name, done, most, work[len(parts) - 1] / work[-1])

    return Stream(len(chunks), part, merge)


def curves_of(
    chunks: Sequence[tuple[Runs, int]], parts: Sequence[dict[str, Array]], truth: Truth
) -> dict[str, Curve]:
    """The curve of every estimator from chunks of runs and what `Runs.errors` returns for each."""
    curves = {}
    for name in parts[0]:
        errors = np.concatenate([part[name] for part in parts], axis=-2)
        runs = np.sum([size * made.tried[name] for made, size in chunks], axis=0)
        curves[name] = Curve(errors, truth, runs)
    return curves


def bound_curve(log_deviation: Array, draws: Totals, truth: Truth) -> Curve:
    """The SNIS bound, asymptotic, for independent draws from one proposal, as a curve.

    Arguments:
        log_deviation: log E|f - mu| under p(x | y) in nats, (*).
        draws: Total draws, (B,).
        truth: mu.
    """
    root = np.sqrt(snis_bound(np.exp(log_deviation - truth.log_unit), draws))
    return Curve(np.stack([root, root], axis=-2), truth, np.zeros_like(draws), known=True)
