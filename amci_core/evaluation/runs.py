r"""Errors of estimators over independent runs, against total draws: the paper's error plots.

Runs are made in chunks that fit in the cache.
"""

from __future__ import annotations

__all__ = [
    "BOUND",
    "QUARTILES",
    "ROUNDING",
    "Curve",
    "ErrorCurves",
    "Estimators",
    "Truth",
    "chosen_estimators",
    "curve_stream",
    "default_estimators",
    "effective_errors",
    "error_curves",
    "is_determined",
    "least_effective",
    "quantiles",
    "runs_by_draws",
]

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from amci_core._arguments import check_count, check_name, check_seed, part_seed
from amci_core.devices import one_thread
from amci_core.estimation.sampling import MAX_POINTS, Sampler, generators, resolve_names
from amci_core.estimators import ESTIMATORS, Estimator, resolve
from amci_core.estimators.base import Combined
from amci_core.estimators.draws import DEFENSIVE, POINTS, Array, log
from amci_core.estimators.uncertainty import snis_bound
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.parallel import Stream
from amci_core.printing import Printed

Totals = NDArray[np.int64]
Estimators = Sequence[str] | Mapping[str, Any]

MAX_RUNS = 1_000_000
# Points of one chunk in one dimension; in D dimensions a point costs about D^2 times as much.
CHUNK_POINTS = 200_000
# Runs of the first chunk of several groups: a rough curve.
ROUGH = 30
BOUND = "bound"
DEFAULT = ("amci", "snis-q2", "snis-qm", "snis-qm-stratified", "snis-q1", BOUND)
QUARTILES = (0.25, 0.5, 0.75)
# Squared errors below this, in units of mu squared, are rounding.
ROUNDING = 1e-24
# An error of the truth matters from this share of the mean squared error on.
TRUTH_SHARE = 0.1


@dataclass(frozen=True, repr=False)
class Truth(Printed):
    """The value that errors are counted from, for a batch (*) of cases.

    Arguments:
        log_unit: log|mu| in nats, (*), the unit in which errors are computed; 0 if mu is zero:
            errors are then in units of f.
        sign: Sign of mu, (*); zero if mu is.
        error: Standard error of mu, (*), in that unit; zero if mu is exact.
        given: Whether it is a reference value instead of the problem's own.
    """

    log_unit: Array
    sign: Array
    error: Array
    given: bool = False

    @classmethod
    def of(cls, problem: Problem, y: Tensor, theta: Tensor | None, given: Any = None) -> Truth:
        """The truth at y and theta, as `Problem.check` returns them.

        Arguments:
            problem: The problem.
            y: Observations (*, D_y).
            theta: Parameters of f (*, D_theta), or None.
            given: mu in units of f, instead of the problem's own: numbers that broadcast to (*),
                or an object with such a `value` and `standard_error`, such as `reference_value`
                returns.

        Raises:
            ValueError: what is given does not broadcast, is not finite, or has a sign that mu
                cannot have; or nothing is given and the problem does not know its truth.
        """
        batch = tuple(y.shape[:-1])
        if given is None:
            log_truth, sign = problem.log_truth(y, theta)
            error = problem.truth_error(y, theta)
        else:
            center, spread = getattr(given, "value", given), getattr(given, "standard_error", 0.0)
            value = _broadcast("truth", center, batch, nonnegative=problem.nonnegative)
            error = _broadcast("truth.standard_error", spread, batch, nonnegative=True)
            sign = np.sign(value)
            log_truth = log(np.abs(value))
            error = error / np.where(sign == 0, 1.0, np.abs(value))
        zero = np.isneginf(log_truth)
        log_unit, sign = np.where(zero, 0.0, log_truth), np.where(zero, 0.0, sign)
        return cls(log_unit, sign, error, given is not None)

    def __getitem__(self, case: int) -> Truth:
        return Truth(self.log_unit[case], self.sign[case], self.error[case], self.given)

    @property
    def unit(self) -> Array:
        """|mu|, or 1 if mu is zero, (*), in units of f."""
        return np.exp(self.log_unit)

    @property
    def value(self) -> Array:
        """mu, (*), in units of f."""
        return self.sign * self.unit

    @property
    def relative_error(self) -> Array:
        """Standard error of mu over |mu|, (*); NaN if mu is zero."""
        return np.where(self.sign == 0, np.nan, self.error)

    @property
    def standard_error(self) -> Array:
        """Standard error of mu, (*), in units of f."""
        return self.error * self.unit

    def errors(self, estimates: Combined) -> Array:
        """(estimate - mu) over the unit, of estimates (*, runs, B); NaN for NaN."""
        with np.errstate(over="ignore"):
            unit = np.exp(estimates.log_unit - self.log_unit[..., None, None])
            return estimates.ratio * unit - self.sign[..., None, None]


def _broadcast(name: str, value: Any, batch: tuple[int, ...], *, nonnegative: bool) -> Array:
    array = np.asarray(value, dtype=np.float64)
    least = 0.0 if nonnegative else -np.inf
    if not (np.isfinite(array) & (array >= least)).all():
        some = " >= 0" if nonnegative else ""
        raise ValueError(f"{name}: expected finite numbers{some}, got {value!r}")
    try:
        return np.broadcast_to(array, batch)
    except ValueError:
        raise ValueError(
            f"{name}: expected the batch shape {batch} of y and theta, got shape {array.shape}"
        ) from None


class Runs:
    """Creates independent runs of estimators for a batch (*) of cases.

    All estimators see the same draws, so that differences between them are not noise.

    Arguments:
        sampler: Draws from the proposals.
        estimators: The estimators by name.
        truth: The value that errors are counted from.
        draws: Total draws of an estimator, increasing, (B,).
        reach: How many of these totals, from the first on, a run draws for; by default all.

    Attributes:
        points: Points that a run draws in each case.
        tried: Totals that a run reaches and that are large enough for an estimate, by the
            estimator's name, (B,).
        first: Runs of the first chunk, if there is a single group of runs.
        largest: Runs of its largest chunk.
        turn: Runs of a chunk, if several groups of runs take turns.

    Raises:
        ValueError: `draws` is too small or too large.
    """

    def __init__(
        self,
        sampler: Sampler,
        estimators: Mapping[str, Estimator],
        truth: Truth,
        *,
        draws: Totals,
        reach: int | None = None,
    ) -> None:
        self._sampler, self._estimators, self._truth = sampler, estimators, truth
        present = sampler.present
        least = {name: estimator.least(present) for name, estimator in estimators.items()}
        if draws[-1] < max(least.values()):
            raise ValueError(
                f"draws: expected at least {max(least.values())} draws, one per proposal, "
                f"got {draws[-1]}"
            )
        self._totals = {name: np.maximum(draws[:reach], n).tolist() for name, n in least.items()}
        reached = np.arange(len(draws)) < (len(draws) if reach is None else reach)
        self.tried = {name: reached & (draws >= n) for name, n in least.items()}
        reserves = [
            estimator.reserve(self._totals[name], present)
            for name, estimator in estimators.items()
            if estimator.points == "independent"
        ]
        # All estimators share independent draws. A number of draws takes Sobol points of its own.
        self._counts = np.max(reserves, axis=0) if reserves else None
        counts = [] if self._counts is None else [self._counts]
        for name, estimator in estimators.items():
            if estimator.points == "sobol":
                counts += list(estimator.counts(self._totals[name], present))
        self.points = int(np.sum(counts))
        # The numbers of runs made at a time depend on the draws of a table alone.
        own = int(np.sum(counts, axis=0)[:DEFENSIVE].sum()) * truth.log_unit.size
        check_count("draws, of all proposals and cases", own, low=1, high=MAX_POINTS)
        dim = sampler.problem.x.dim
        self.first, self.largest = 4 if dim == 1 else 1, max(1, CHUNK_POINTS // (dim**2 * own))
        # Each chunk costs as much again as some 50,000 points of one dimension.
        self.turn = max(1, CHUNK_POINTS // (2 * dim * own))

    def errors(
        self, runs: int, for_points: torch.Generator, for_choices: np.random.Generator
    ) -> dict[str, Array]:
        """Errors in units of the truth's: name -> (*, runs, B).

        NaN if an estimate has no value (no weight at all), for fewer draws than proposals, and
        beyond the totals that the runs reach.
        """
        drawn: Any = None
        if self._counts is not None:
            drawn = self._sampler.draw(self._counts, for_points, runs=runs)
        errors_by_name = {}
        for name, estimator in self._estimators.items():
            totals = self._totals[name]
            if estimator.points == "sobol":
                errors = self._of_sobol_points(estimator, totals, runs, for_points)
            else:
                estimates = estimator.running(drawn, totals, for_choices).combine()
                errors = self._truth.errors(estimates)
            tried = self.tried[name]
            errors_by_name[name] = np.full((*errors.shape[:-1], len(tried)), np.nan)
            errors_by_name[name][..., tried] = errors[..., tried[: len(totals)]]
        return errors_by_name

    def _of_sobol_points(
        self, estimator: Estimator, totals: Sequence[int], runs: int, generator: torch.Generator
    ) -> Array:
        """Errors of an estimator with scrambled points, (*, runs, B)."""
        errors = []
        for counts in estimator.counts(totals, self._sampler.present):
            drawn = self._sampler.draw(counts, generator, runs=runs, points="sobol")
            errors.append(self._truth.errors(estimator.apply(drawn).combine()))
        return np.concatenate(errors, axis=-1)


def runs_by_draws(runs: int, draws: Sequence[int] | Totals) -> NDArray[np.int64]:
    """Fewer runs where they cost more: numbers for `error_curves(runs=)`, (B,).

    All of them up to 512 draws; beyond, as many as cost the same, 512 runs / draws, but at least
    100: these know a mean square of normal errors to 14 %, and its root to 7 %. Of more than 130
    runs 30 end at 512 draws, for a rough curve at once.

    Arguments:
        runs: Runs of the smallest totals.
        draws: Total draws of an estimator, increasing, (B,).

    Example:
        >>> runs_by_draws(1000, [2, 512, 1000, 2000, 10_000]).tolist()
        [1000, 1000, 512, 256, 100]
    """
    few = np.ceil(512 * runs / np.asarray(draws)).clip(100, max(100, runs - ROUGH))
    return np.where(np.asarray(draws) <= 512, runs, np.minimum(runs, few).astype(np.int64))


def in_turns(groups: Sequence[tuple[Runs, int]]) -> list[tuple[Runs, int]]:
    """The chunks of groups of runs, from the shortest runs to the longest, in their order.

    The chunks of a single group grow. Of several groups the shortest starts with a rough curve;
    then all take turns, so that every total has runs early.
    """
    (short, runs), *longer = groups
    if not longer:
        return [(short, size) for size in chunk_sizes(runs, short.first, short.largest)]
    rough = min(ROUGH, short.turn, runs)
    turns = [
        [(group, size) for size in chunk_sizes(n, group.turn, group.turn)]
        for group, n in [(short, runs - rough), *longer[::-1]]
    ]
    return [(short, rough), *filter(None, chain.from_iterable(zip_longest(*turns)))]


def chunk_sizes(runs: int, first: int, largest: int) -> list[int]:
    """So many runs in chunks, few at first so that something shows at once."""
    sizes: list[int] = []
    while (done := sum(sizes)) < runs:
        sizes.append(min(largest, runs - done, max(first, 2 * done)))
    return sizes


def effective_errors(errors: Array, expected: Any = 0.0) -> Array:
    """The effective number of squared errors e^2 of n runs, along axis 0.

    It is (sum z^2)^2 / sum z^4 for the errors z about their mean, times sum z^2 / sum e^2: an
    error that all runs share hides the rare runs that make up for it, as if no run met f. It is
    n / 3 for normal errors, small if a few large errors make up the mean square, and 0 if all
    errors are equal.

    Arguments:
        errors: Signed errors, (n, *); NaN for a run without an estimate, which is left out.
        expected: The error that all runs are known to share, (*); one up to twice as large does
            not count as shared.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        n = (~np.isnan(errors)).sum(axis=0)
        mean = np.nansum(errors, axis=0) / n
        square = np.square(errors - mean)
        total = np.nansum(square, axis=0)
        shared = n * np.maximum(np.square(mean) - np.square(2 * np.asarray(expected)), 0.0)
        effective = np.square(total) / np.nansum(np.square(square), axis=0)
        return np.asarray(np.nan_to_num(effective * total / (total + shared)))


def is_determined(mean_square: Array, effective: Array, least: Any) -> NDArray[np.bool_]:
    """Whether runs determine their mean squared error; one within rounding of zero is.

    Arguments:
        mean_square: Mean squared error in units of mu squared, (*).
        effective: The effective number of squared errors, (*).
        least: The least effective number, such as `least_effective`.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray((effective >= least) | (mean_square < ROUNDING))


def least_effective(runs: Any) -> Any:
    """The effective number of errors from which on n runs determine a mean squared error.

    min(200, max(25, n / 4)); `docs/estimators.md` has how often means called determined are wrong.
    """
    return np.clip(runs / 4, 25, 200)


def quantiles(values: Array, levels: Sequence[float]) -> Array:
    """Quantiles of values (n, *) along the first axis, (L, *); NaN values are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where all values are NaN
        finite = np.minimum(values, np.finfo(np.float64).max)
        return np.asarray(np.nanquantile(finite, levels, axis=0))


def chosen_estimators(
    wanted: Estimators | None,
    problem: Problem,
    proposals: Proposals,
    points: str | None = None,
) -> dict[str, Estimator | None]:
    """The requested estimators by name, in their order; None for the bound, without draws.

    Arguments:
        wanted: Names, or a mapping of names to names, tables (3, 3) or estimators; by default
            `default_estimators`.
        problem: The problem.
        proposals: Its proposals.
        points: `sobol` for those that take them, `independent`; None for each estimator's own.

    Raises:
        ValueError: a name is unknown, a table is not one, or there are none; or points are none.
    """
    if wanted is None:
        wanted = default_estimators(problem, proposals)
    names = list(wanted)
    if not names or not all(isinstance(name, str) for name in names):
        some = "names, or a mapping of names to estimators and tables"
        raise ValueError(f"estimators: expected {some}, got {wanted!r:.99}")
    named = wanted if isinstance(wanted, Mapping) else {name: name for name in names}
    if points is not None:
        check_name("points", points, POINTS)
    return {name: _chosen(choice, points) for name, choice in named.items()}


def _chosen(choice: Any, points: str | None) -> Estimator | None:
    if isinstance(choice, str) and not choice.startswith("reuse:"):
        check_name("estimators", choice, (*ESTIMATORS, BOUND), ", or reuse:ALPHA:BETA")
        if choice == BOUND:
            return None
    estimator = resolve(choice)
    if points is None:
        return estimator
    return resolve(estimator, points=points if estimator.takes_sobol else "independent")


def default_estimators(problem: Problem, proposals: Proposals) -> tuple[str, ...]:
    """Those of `DEFAULT` that these proposals can serve, with the bound if it is known."""
    # With q1_plus alone the mixture is q1_plus.
    served = DEFAULT if proposals.q2 is not None else ("amci", "snis-q1", BOUND)
    return tuple(name for name in served if name != BOUND or problem.knows_bound)


def checked_draws(draws: Sequence[int]) -> Totals:
    """The total draws as an array (B,).

    Raises:
        ValueError: they are not increasing whole numbers from 1 to `MAX_POINTS`.
    """
    checked = [check_count("draws", total, low=1, high=MAX_POINTS) for total in draws]
    if not checked or sorted(set(checked)) != checked:
        raise ValueError(f"draws: expected increasing numbers of draws, got {draws!r}")
    return np.array(checked)


def checked_runs(runs: Any, draws: Totals) -> NDArray[np.int64]:
    """Runs of each total as an array (B,), from one number or one for each total.

    Raises:
        ValueError: they are no whole numbers from 1 to `MAX_RUNS`, increase, or are too few.
    """
    every = runs if np.ndim(runs) else [runs] * len(draws)
    checked = np.array([check_count("runs", n, low=1, high=MAX_RUNS) for n in every])
    if checked.shape != draws.shape or (np.diff(checked) > 0).any():
        few = f"{len(draws)} numbers that do not increase"
        raise ValueError(f"runs: expected one for all draws, or {few}, got {runs!r:.99}")
    return checked


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
