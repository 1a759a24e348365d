r"""Error against total draws: the paper's error plots."""

from __future__ import annotations

__all__ = ["Curve", "ErrorCurves", "error_curves", "stream_error_curves"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amci_core._arguments import check_count, check_seed, part_seed
from amci_core.estimation.sampling import Sampler, generators
from amci_core.estimators import snis_bound
from amci_core.estimators.draws import Array
from amci_core.evaluation.runs import (
    BOUND,
    MAX_RUNS,
    Budgets,
    Estimators,
    Runs,
    Truth,
    checked_budgets,
    chosen_estimators,
)
from amci_core.evaluation.spread import OverRuns
from amci_core.flows import Proposals
from amci_core.flows.proposals import check_proposals
from amci_core.models import Problem
from amci_core.parallel import Stream

# An error of the truth matters from this share of the mean squared error on.
TRUTH_SHARE = 0.1


@dataclass(frozen=True)
class Curve:
    """Squared errors of one estimator over runs, for a batch (*) of pairs and B budgets.

    The relative error (ReMSE, the paper's eq. (rel-error)) is the squared error in units of mu
    squared; it is NaN where mu is zero, and the mean squared error is there still. Runs without
    an estimate are left out of all figures and counted in `failed`. The bound has no runs: its
    quartiles equal its mean, its Monte Carlo errors are zero.

    Arguments:
        squared: The squared errors over runs, in units of the squared truth.
        truth: What errors are counted from.
    """

    squared: OverRuns
    truth: Truth

    @property
    def remse(self) -> Array:
        """Mean relative squared error, (*, B)."""
        return self._relative(self.squared.mean)

    @property
    def remse_error(self) -> Array:
        """Its Monte Carlo standard error over runs, (*, B); NaN with a single run."""
        return self._relative(self.squared.mean_error)

    @property
    def remse_quartiles(self) -> Array:
        """25 %, median and 75 % of the relative squared error over runs, (3, *, B)."""
        return self._relative(self.squared.quartiles)

    @property
    def remse_quartiles_error(self) -> Array:
        """Their standard errors, (3, *, B): half the distance of two order statistics."""
        return self._relative(self.squared.quartiles_error)

    @property
    def remse_median(self) -> Array:
        """Median of the relative squared error over runs, (*, B)."""
        return np.asarray(self.remse_quartiles[1])

    @property
    def mse(self) -> Array:
        """Mean squared error, (*, B), in units of f squared."""
        return self._absolute(self.squared.mean)

    @property
    def mse_error(self) -> Array:
        """Monte Carlo standard error of the mean squared error over runs, (*, B)."""
        return self._absolute(self.squared.mean_error)

    @property
    def mse_quartiles(self) -> Array:
        """25 %, median and 75 % of the squared error over runs, (3, *, B)."""
        return self._absolute(self.squared.quartiles)

    @property
    def mse_quartiles_error(self) -> Array:
        """Monte Carlo standard errors of these three, (3, *, B)."""
        return self._absolute(self.squared.quartiles_error)

    @property
    def mse_median(self) -> Array:
        """Median of the squared error over runs, (*, B)."""
        return np.asarray(self.mse_quartiles[1])

    @property
    def failed(self) -> NDArray[np.int64]:
        """Number of runs without an estimate, (*, B)."""
        return self.squared.failed

    @property
    def mean_judged(self) -> NDArray[np.bool_]:
        """Where the runs determine the mean, (*, B); elsewhere more runs can move it by orders."""
        return self.squared.mean_judged

    @property
    def median_judged(self) -> NDArray[np.bool_]:
        """Where the runs determine the median, (*, B)."""
        return self.squared.median_judged

    @property
    def truth_matters(self) -> NDArray[np.bool_]:
        """Where the truth's own squared error is above 10 % of the mean squared error, (*, B)."""
        return np.square(self.truth.error)[..., None] > TRUTH_SHARE * self.squared.mean

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain lists, over pairs and budgets."""
        names = (
            "remse", "remse_error", "remse_quartiles", "remse_quartiles_error", "mse", "mse_error",
            "mse_quartiles", "mse_quartiles_error", "failed", "mean_judged", "median_judged",
            "truth_matters",
        )  # fmt: skip
        return {name: getattr(self, name).tolist() for name in names}

    def _relative(self, values: Array) -> Array:
        return np.where(self.truth.sign[..., None] == 0, np.nan, values)

    def _absolute(self, values: Array) -> Array:
        return values * np.square(self.truth.unit)[..., None]


@dataclass(frozen=True)
class ErrorCurves:
    """The curve of every estimator asked for; `curves["amci"]` or `curves.by_name["amci"]`.

    Arguments:
        budgets: Total draws T of an estimator, (B,).
        by_name: Estimator to curve, in the order asked for.
        runs: Runs so far.
        runs_wanted: Runs asked for.
    """

    budgets: Budgets
    by_name: dict[str, Curve]
    runs: int
    runs_wanted: int

    def __getitem__(self, name: str) -> Curve:
        return self.by_name[name]

    @property
    def truth_error(self) -> Array:
        """Standard error of the truth over its size, (*); zero where the truth is exact."""
        return next(iter(self.by_name.values())).truth.relative_error

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain lists, ready for JSON but for NaN."""
        return {
            "budgets": self.budgets.tolist(),
            "runs": self.runs,
            "truth_error": self.truth_error.tolist(),
            "estimators": {name: curve.as_dict() for name, curve in self.by_name.items()},
        }


def error_curves(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    budgets: Sequence[int] = (2, 10, 100, 1000),
    runs: int = 1000,
    estimators: Estimators | None = None,
    truth: Any = None,
    seed: int = 0,
) -> ErrorCurves:
    """Squared errors of estimators at equal total draws, over independent runs.

    Warning:
        Where cores are busy call `torch.set_num_threads(1)` first: it can be 30 times as fast.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: A number or an array of shape (*, D_y).
        theta: Likewise, (*, D_theta), or None.
        budgets: Total draws of an estimator, all its proposals together; increasing.
        runs: Independent runs.
        estimators: Names of `amci_core.estimators.ESTIMATORS`, and `bound`, the SNIS bound
            (asymptotic, for independent draws from one proposal); or a mapping of names of one's
            own to such names or to tables (3, 3). By default all that the proposals can serve of
            amci, snis-q2, snis-qm, snis-qm-stratified and snis-q1, and the bound where the problem
            knows it.
        truth: What errors are counted from, in units of f, where the problem does not know its
            truth: what `amci_core.reference` returns, or numbers that broadcast to (*). Estimates
            from the proposals under test share their faults.
        seed: Whole number >= 0; the same seed gives the same curves.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown; or the problem does
            not know its truth and none is given, or not its bound and that is asked for.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = amci.load_proposals("tail-1d", variant="oracle")
        >>> curves = amci.error_curves(problem, proposals, 1.0, 3.0, budgets=[2, 10], runs=4)
        >>> bool((curves["amci"].remse < 1e-20).all())
        True
    """
    return stream_error_curves(
        problem,
        proposals,
        y,
        theta,
        budgets=budgets,
        runs=runs,
        estimators=estimators,
        truth=truth,
        seed=seed,
    ).last()


def stream_error_curves(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    budgets: Sequence[int] = (2, 10, 100, 1000),
    runs: int = 1000,
    estimators: Estimators | None = None,
    truth: Any = None,
    seed: int = 0,
) -> Stream[ErrorCurves]:
    """`error_curves` part by part: an iterator of results from ever more draws.

    Arguments and errors are those of `error_curves`, and arguments are checked at the call. A
    caller can stop between any two items; the last equals what `error_curves` returns.
    """
    check_proposals(problem, proposals)
    y, theta = problem.check(y, theta)
    checked = checked_budgets(budgets)
    check_count("runs", runs, low=1, high=MAX_RUNS)
    chosen = chosen_estimators(estimators, problem, proposals)
    sampler = Sampler(problem, proposals, y, theta)
    target = Truth.of(problem, y, theta, truth)
    drawn = {name: each for name, each in chosen.items() if each is not None}
    check_seed(seed)
    bound = None
    if BOUND in chosen:
        bound = bound_curve(problem.log_mean_absolute_deviation(y, theta), checked, target)
    all_runs = Runs(sampler, drawn, target, budgets=checked) if drawn else None
    sizes = all_runs.sizes(runs) if all_runs else [runs]

    def part(number: int) -> dict[str, Array]:
        if all_runs is None:
            return {}
        return all_runs.squared_errors(sizes[number], *generators(part_seed(seed, number)))

    def merge(parts: Sequence[dict[str, Array]]) -> ErrorCurves:
        curves = {BOUND: bound} if bound else {}
        done = sum(sizes[: len(parts)])
        if all_runs:
            curves |= {n: Curve(each, target) for n, each in all_runs.over(parts).items()}
        return ErrorCurves(checked, {name: curves[name] for name in chosen}, done, runs)

    return Stream(len(sizes), part, merge)


def bound_curve(log_deviation: Array, budgets: Budgets, truth: Truth) -> Curve:
    """The SNIS bound, asymptotic, for independent draws from one proposal, as a curve.

    Arguments:
        log_deviation: log E|f - mu| under p(x | y) in nats, (*).
        budgets: Total draws, (B,).
        truth: mu.
    """
    # A figure that is known is the same in every run.
    bound = snis_bound(np.exp(log_deviation - truth.log_unit), budgets)
    return Curve(OverRuns(np.stack([bound] * 2, axis=-2), known=True), truth)
