r"""What sharing samples between q1 and q2 costs or gains: errors over a grid of (alpha, beta)."""

from __future__ import annotations

__all__ = ["ReuseErrors", "reuse_errors"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from amci_core.estimators import pooled_moments, tables
from amci_core.estimators.combine import apply, running_log_means
from amci_core.estimators.draws import Array
from amci_core.evaluation.drawing import MAX_POINTS, Sampler, check_count, generators
from amci_core.evaluation.runs import split_runs
from amci_core.flows import Proposals
from amci_core.models import Problem


@dataclass(frozen=True)
class ReuseErrors:
    """Relative squared errors of the paper's eq. (estimator-combination) over a grid, for one pair.

    Arguments:
        alphas: Shares of E1 from q1's draws, (A,).
        betas: Shares of E2 from q1's draws, (B,).
        remse: Mean over runs of (estimate / mu - 1)^2, (A, B).
        quartiles: 25 %, median, 75 % over runs, (3, A, B).
        alpha_star: The paper's optimum for alpha, from pooled moments of all draws.
        beta_star: The paper's optimum for beta.
        draws: Draws from each proposal in each run.
        runs: Independent runs.
    """

    alphas: Array
    betas: Array
    remse: Array
    quartiles: Array
    alpha_star: float
    beta_star: float
    draws: int
    runs: int

    @property
    def best(self) -> tuple[float, float]:
        """The grid's (alpha, beta) with the least mean error."""
        a, b = np.unravel_index(np.nanargmin(self.remse), self.remse.shape)
        return float(self.alphas[a]), float(self.betas[b])


def reuse_errors(
    problem: Problem,
    proposals: Proposals,
    y: Any,
    theta: Any = None,
    *,
    alphas: Sequence[float],
    betas: Sequence[float],
    draws: int = 64,
    runs: int = 1000,
    seed: int = 0,
) -> ReuseErrors:
    """Errors over the grid alphas x betas, every point of it on the same draws; N = M = draws.

    Arguments:
        problem: What is integrated; f must be >= 0.
        proposals: What is drawn from; both q1_plus and q2 are needed.
        y: A number or an array of shape (D_y,): one pair at a time.
        theta: Likewise, or None.
        alphas: Shares of E1 from q1's draws, finite.
        betas: Shares of E2 from q1's draws, finite.
        draws: Draws from each of the two proposals in each run.
        runs: Independent runs.
        seed: Whole number >= 0.

    Raises:
        ValueError: an argument is out of range, or the problem has a signed f or no q2.
    """
    y, theta = problem.check(y, theta)
    if y.ndim > 1:
        raise ValueError(f"y: expected a single pair, got batch shape {tuple(y.shape[:-1])}")
    if not problem.nonnegative or proposals.q2 is None:
        raise ValueError(f"problem: sample reuse needs f >= 0 and a q2, {problem.name} lacks them")
    check_count("draws", draws, low=1, high=MAX_POINTS)
    check_count("runs", runs, low=1, high=MAX_POINTS)
    check_count("draws times runs", draws * runs, low=1, high=MAX_POINTS)
    grid = np.array([[tables.reuse(alpha=a, beta=b)[[0, 2]] for b in betas] for a in alphas])
    for_points, _ = generators(seed)
    counts = np.array([draws, 0, draws])
    drawn = Sampler(problem, proposals, y, theta).draw(counts * runs, for_points)
    split = split_runs(drawn, runs)
    log_means = np.stack(
        [
            running_log_means(split.of(j), split.log_weight(j), counts[[j]])[..., 0, :]
            for j in (0, 2)
        ],
        axis=-2,
    )
    value = apply(grid[:, :, None], log_means).value
    errors = np.square(np.nan_to_num(value) / problem.truth(y, theta) - 1)
    alpha_star, beta_star = tables.paper_optimum(pooled_moments(drawn))
    return ReuseErrors(
        alphas=np.asarray(alphas, dtype=np.float64),
        betas=np.asarray(betas, dtype=np.float64),
        remse=errors.mean(axis=-1),
        quartiles=np.quantile(errors, (0.25, 0.5, 0.75), axis=-1),
        alpha_star=float(alpha_star),
        beta_star=float(beta_star),
        draws=draws,
        runs=runs,
    )
