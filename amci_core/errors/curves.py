r"""Error against total draws: the paper's error plots."""

from __future__ import annotations

__all__ = ["Curve", "ErrorCurves", "error_curves", "stream_error_curves"]

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from amci_core.checks import check_count, check_seed
from amci_core.errors.runs import (
    MAX_RUNS,
    Budgets,
    Truth,
    checked_budgets,
    named_estimators,
    run_chunks,
    usual_estimators,
)
from amci_core.estimation.sampling import Sampler
from amci_core.estimators import snis_bound
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.streams import last_item

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Curve:
    """Squared errors of one estimator over runs, for a batch (*) of pairs and B budgets.

    The relative error (ReMSE, the paper's eq. (rel-error)) is the squared error in units of mu
    squared. The bound has no runs: its quartiles equal its mean, its Monte Carlo errors are zero.

    Arguments:
        remse: Mean relative squared error, (*, B).
        remse_error: Its Monte Carlo standard error over runs, (*, B); NaN with a single run.
        remse_quartiles: 25 %, median and 75 % of the relative squared error over runs, (3, *, B).
        remse_quartiles_error: Their Monte Carlo standard errors, (3, *, B); NaN with a single run.
            Of R runs about R p +- sqrt(R p (1 - p)) lie below the quantile p: it is half the
            distance between the order statistics of these two ranks, rough below some 20 runs.
        mu_squared: mu squared, (*, 1), in units of f squared.
    """

    remse: Array
    remse_error: Array
    remse_quartiles: Array
    remse_quartiles_error: Array
    mu_squared: Array

    @property
    def mse(self) -> Array:
        """Mean squared error, (*, B), in units of f squared."""
        return self.remse * self.mu_squared

    @property
    def mse_error(self) -> Array:
        """Monte Carlo standard error of the mean squared error over runs, (*, B)."""
        return self.remse_error * self.mu_squared

    @property
    def mse_quartiles(self) -> Array:
        """25 %, median and 75 % of the squared error over runs, (3, *, B)."""
        return self.remse_quartiles * self.mu_squared

    @property
    def mse_quartiles_error(self) -> Array:
        """Monte Carlo standard errors of these three, (3, *, B)."""
        return self.remse_quartiles_error * self.mu_squared

    @property
    def remse_median(self) -> Array:
        """Median of the relative squared error over runs, (*, B)."""
        return self.remse_quartiles[1]

    @property
    def mse_median(self) -> Array:
        """Median of the squared error over runs, (*, B)."""
        return self.mse_quartiles[1]


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


def stream_error_curves(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    budgets: Sequence[int] = (2, 10, 100, 1000),
    runs: int = 1000,
    estimators: Sequence[str] | None = None,
    truth: Any = None,
    seed: int = 0,
) -> Iterator[ErrorCurves]:
    """Squared errors of estimators at equal total draws, over independent runs.

    On a machine whose cores are busy, call `torch.set_num_threads(1)` first: the arrays are small,
    and threads that wait for one another can take thirty times as long.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: A number or an array of shape (*, D_y).
        theta: Likewise, (*, D_theta), or None.
        budgets: Total draws of an estimator, all its proposals together; increasing.
        runs: Independent runs.
        estimators: Names of `amci_core.estimators.ESTIMATORS`, and `bound`, the asymptotic SNIS
            bound; by default all that the proposals can serve of amci, snis-q2, snis-qm and
            snis-q1, and the bound where the problem knows it.
        truth: What errors are counted from, in units of f, broadcasting to (*): a value from
            elsewhere, such as that of `estimate_to`. By default the problem's own truth.
        seed: Whole number >= 0; the same seed gives the same curves.

    Yields:
        The curves over the runs so far, after each of many small batches. A caller can stop
        between any two; the last item equals `error_curves`. Arguments are checked at the call.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown; or the problem does
            not know its truth and none is given, or not its bound and that is asked for.
    """
    y, theta = problem.check(y, theta)
    checked = checked_budgets(budgets)
    check_count("runs", runs, low=1, high=MAX_RUNS)
    estimators = usual_estimators(problem, proposals) if estimators is None else estimators
    chosen = named_estimators(estimators)
    sampler = Sampler(problem, proposals, y, theta)
    target = Truth.of(problem, y, theta, truth)
    mu_squared = target.mu_squared
    without_draws: dict[str, Curve] = {}
    if "bound" in estimators:
        bound = snis_bound(problem.expected_deviation(y, theta), checked)
        without_draws["bound"] = _bound_curve(bound, mu_squared)
    if not chosen:
        check_seed(seed)
        return iter([ErrorCurves(checked, without_draws, runs, runs)])
    chunks = run_chunks(sampler, chosen, target, budgets=checked, runs=runs, seed=seed)

    def stream() -> Iterator[ErrorCurves]:
        gathered: dict[str, Array] = {}
        for chunk in chunks:
            for name, errors in chunk.items():
                before = [gathered[name]] if name in gathered else []
                gathered[name] = np.concatenate([*before, errors], axis=-2)
            so_far = next(iter(gathered.values())).shape[-2]
            curves = {
                name: without_draws.get(name) or _curve(gathered[name], mu_squared)
                for name in estimators
            }
            yield ErrorCurves(checked, curves, so_far, runs)

    return stream()


error_curves = last_item(stream_error_curves)


def _curve(errors: Array, mu_squared: Array) -> Curve:
    runs = errors.shape[-2]
    spread = errors.std(axis=-2, ddof=1) if runs > 1 else np.full_like(errors[..., 0, :], np.nan)
    p = np.array(QUARTILES)
    step = np.sqrt(p * (1 - p) / runs)
    levels = np.stack([p, p - step, p + step]).clip(0, 1)
    quartiles, below, above = np.quantile(errors, levels, axis=-2)
    return Curve(
        remse=errors.mean(axis=-2),
        remse_error=spread / np.sqrt(runs),
        remse_quartiles=quartiles,
        remse_quartiles_error=(above - below) / 2 if runs > 1 else np.full_like(above, np.nan),
        mu_squared=mu_squared,
    )


def _bound_curve(bound: Array, mu_squared: Array) -> Curve:
    relative = bound / mu_squared
    return Curve(
        remse=relative,
        remse_error=np.zeros_like(relative),
        remse_quartiles=np.stack([relative] * 3),
        remse_quartiles_error=np.zeros((3, *relative.shape)),
        mu_squared=mu_squared,
    )
