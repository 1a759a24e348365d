r"""What the runs of a case (y, theta) say, and what many cases say together."""

from __future__ import annotations

__all__ = ["FIGURES", "Case", "Cases"]

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from amci_core.estimators.draws import Array
from amci_core.evaluation.runs import BOUND, Budgets
from amci_core.evaluation.spread import quantiles

# What is kept of the runs of a case, for each estimator and budget.
FIGURES = (
    *("remse", "remse_error", "remse_q25", "remse_median", "remse_q75"),
    *("mse", "mse_error", "failed", "mean_judged", "truth_matters"),
)
LEVELS = {"median": 0.5, "q25": 0.25, "q75": 0.75, "q95": 0.95, "max": 1.0}
# Quantiles of the relative squared error over the runs of a case.
OVER_RUNS = {"runs_q25": "remse_q25", "runs_median": "remse_median", "runs_q75": "remse_q75"}
# Whether an error lies below the bound is open within so many standard errors.
OPEN = 2.0
# More runs can raise a mean that they do not determine by about so much.
UNSETTLED = 100.0

Figures = dict[str, Array]


@dataclass(frozen=True)
class Case:
    """What the runs of a case say.

    Arguments:
        number: Its number in the sweep.
        y: Its observation, (D_y,).
        theta: Its parameter of f, (D_theta,); of length 0 where the problem has none.
        truth: mu, in units of f.
        truth_error: Its standard error.
        budgets: Total draws, (B,).
        points: Points that were drawn.
        seconds: Time that it took.
        by_name: For each estimator the `FIGURES`, (B,) each: the relative squared error's mean
            over runs, its standard error and its quartiles over runs; the mean squared error in
            units of f squared, and its standard error; runs without an estimate; whether the runs
            determine the mean; whether the truth's own error matters.
    """

    number: int
    y: Array
    theta: Array
    truth: float
    truth_error: float
    budgets: Budgets
    points: int
    seconds: float
    by_name: Mapping[str, Figures]


class Cases:
    """The errors of every estimator in n cases, in the order of their numbers.

    Arguments:
        cases: One or more of them.
    """

    def __init__(self, cases: Iterable[Case]) -> None:
        ordered = sorted(cases, key=lambda case: case.number)
        self.number = np.array([case.number for case in ordered])
        self.y = np.stack([case.y for case in ordered])
        self.theta = np.stack([case.theta for case in ordered])
        self.truth = np.array([case.truth for case in ordered])
        self.truth_error = np.array([case.truth_error for case in ordered])
        self.points = np.array([case.points for case in ordered])
        self.seconds = np.array([case.seconds for case in ordered])
        self.by_name: dict[str, Figures] = {
            name: {
                figure: np.stack([case.by_name[name][figure] for case in ordered])
                for figure in FIGURES
            }
            for name in ordered[0].by_name
        }

    def __len__(self) -> int:
        return len(self.number)

    def only(self, rank: int) -> Cases:
        """The case of that rank, alone."""
        found = object.__new__(Cases)
        for name, value in vars(self).items():
            if name != "by_name":
                setattr(found, name, value[[rank]])
        found.by_name = {
            name: {figure: values[[rank]] for figure, values in figures.items()}
            for name, figures in self.by_name.items()
        }
        return found

    def against_bound(self, name: str) -> tuple[list[float], list[float], list[float]]:
        """Shares of cases below the bound, surely below, and undecided, over B budgets each."""
        own, bounds = self.by_name[name], self.by_name[BOUND]
        # Relative errors do not underflow; where mu is zero there are none.
        zero = np.isnan(bounds["remse"])
        mean, error, bound = (
            np.where(zero, of["mse" + part], of["remse" + part])
            for of, part in ((own, ""), (own, "_error"), (bounds, ""))
        )
        below = mean < bound
        near = np.abs(mean - bound) <= OPEN * np.nan_to_num(error)
        unsettled = (own["mean_judged"] == 0) & (bound < UNSETTLED * mean)
        undecided = near | unsettled
        shares = (below, below & ~undecided, undecided)
        return tuple(share.mean(axis=0).tolist() for share in shares)

    def summary(self, name: str) -> dict[str, list[float]]:
        """Quantiles over the cases, with their errors, and shares of cases; over budgets."""
        own = self.by_name[name]
        levels = list(LEVELS.values())
        relative = quantiles(own["remse"], levels)
        absolute = quantiles(own["mse"], [LEVELS["median"]])
        relative_error = _with_runs(relative[1], own["remse"], own["remse_error"], levels)
        absolute_error = _with_runs(
            absolute[1], own["mse"], own["mse_error"], [LEVELS["median"]]
        )  # fmt: skip
        found = {f"remse_{key}": v for key, v in zip(LEVELS, relative[0], strict=True)}
        found["mse_median"] = absolute[0][0]
        found |= {f"remse_{key}_error": v for key, v in zip(LEVELS, relative_error, strict=True)}
        found["mse_median_error"] = absolute_error[0]
        found |= {key: quantiles(own[of], [0.5])[0][0] for key, of in OVER_RUNS.items()}
        found["failed"] = own["failed"].sum(axis=0)
        found["unjudged"] = (own["mean_judged"] == 0).mean(axis=0)
        found["truth_matters"] = own["truth_matters"].mean(axis=0)
        return {key: values.tolist() for key, values in found.items()}


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
