r"""A sweep over cases (y, theta): what is done, and one case of it.

A case is seeded by its number: any process can do it.
"""

from __future__ import annotations

__all__ = ["Sweep", "case_errors"]

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core._arguments import check_count, check_seed, part_seed
from amci_core.devices import AUTO, CPU, device_named
from amci_core.estimation.sampling import Sampler, generators
from amci_core.estimators import Estimator
from amci_core.estimators.draws import Array
from amci_core.evaluation.cases import FIGURES, Case, Figures
from amci_core.evaluation.curves import Curve, bound_curve
from amci_core.evaluation.runs import (
    BOUND,
    MAX_RUNS,
    Budgets,
    Estimators,
    Runs,
    Truth,
    checked_budgets,
    chosen_estimators,
    reserve,
)
from amci_core.flows import Proposals
from amci_core.flows.proposals import check_proposals
from amci_core.models import Problem


@dataclass(frozen=True)
class Sweep:
    """What is done for n cases.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: Observations (n, D_y).
        theta: Parameters of f (n, D_theta), or None.
        truth: What errors are counted from, for a batch (n,).
        log_deviation: log E|f - mu| under p(x | y) in nats, (n,); None without a bound.
        budgets: Total draws of an estimator, (B,).
        estimators: By name, in the order asked for; None for the bound.
        runs: Independent runs of each case.
        seed: The seed of cases and runs.
        device: Where points are drawn, and densities computed.
    """

    problem: Problem
    proposals: Proposals
    y: Tensor
    theta: Tensor | None
    truth: Truth
    log_deviation: Array | None
    budgets: Budgets
    estimators: dict[str, Estimator | None]
    runs: int
    seed: int
    device: torch.device = CPU

    @classmethod
    def of(
        cls,
        problem: Problem,
        proposals: Proposals,
        *,
        pairs: int,
        runs: int,
        budgets: Sequence[int],
        estimators: Estimators | None,
        truth: Any,
        cases: tuple[Any, Any] | None,
        seed: int,
        device: str = "cpu",
    ) -> Sweep:
        """Checks the arguments of `amci_core.evaluate`.

        Raises:
            ValueError: see there.
        """
        check_proposals(problem, proposals)
        check_count("pairs", pairs, low=1, high=1_000_000)
        check_count("runs", runs, low=1, high=MAX_RUNS)
        check_seed(seed)
        checked = checked_budgets(budgets)
        place = device_named(device, points=runs * int(checked.max()))
        if place != CPU and proposals.to(place) is None:
            if device != AUTO:
                raise ValueError(f"device: expected cpu for {proposals.variant}, got {device!r}")
            place = CPU
        chosen = chosen_estimators(estimators, problem, proposals)
        if cases is None:
            y, theta = problem.check(*problem.cases(pairs, seed=seed))
            if y.ndim == 1:  # there is neither y nor theta
                y = y.expand(pairs, -1)
        else:
            y, theta = _given(problem, cases)
        target = Truth.of(problem, y, theta, truth)
        deviation = problem.log_mean_absolute_deviation(y, theta) if BOUND in chosen else None
        found = cls(
            problem=problem,
            proposals=proposals,
            y=y,
            theta=theta,
            truth=target,
            log_deviation=deviation,
            budgets=checked,
            estimators=chosen,
            runs=runs,
            seed=seed,
            device=place,
        )
        if found.drawn:
            found.of_case(0)
        return found

    def __len__(self) -> int:
        return len(self.y)

    @property
    def drawn(self) -> dict[str, Estimator]:
        """The estimators that draw."""
        return {name: each for name, each in self.estimators.items() if each is not None}

    def of_case(self, number: int) -> tuple[Sampler, Runs]:
        """What a case draws from, and its runs."""
        y = self.y[number].to(self.device)
        theta = None if self.theta is None else self.theta[number].to(self.device)
        sampler = Sampler(self.problem, self._moved, y, theta)
        return sampler, Runs(sampler, self.drawn, self.truth[number], budgets=self.budgets)

    @cached_property
    def _moved(self) -> Proposals:
        moved = None if self.device == CPU else self.proposals.to(self.device)
        return moved or self.proposals

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to a worker, which moves the proposals to its own device."""
        return {name: value for name, value in vars(self).items() if name != "_moved"}


def case_errors(sweep: Sweep, number: int) -> Case:
    """Errors in one case of a sweep."""
    began = time.perf_counter()
    truth, budgets, drawn = sweep.truth[number], sweep.budgets, sweep.drawn
    curves: dict[str, Curve] = {}
    points = 0
    if drawn:
        sampler, of_case = sweep.of_case(number)
        points = sweep.runs * int(reserve(drawn, sampler, budgets=budgets).sum())
        rngs = generators(part_seed(sweep.seed, number), device=sweep.device)
        chunks = [of_case.squared_errors(size, *rngs) for size in of_case.sizes(sweep.runs)]
        curves = {name: Curve(over, truth) for name, over in of_case.over(chunks).items()}
    if sweep.log_deviation is not None:
        curves[BOUND] = bound_curve(sweep.log_deviation[number], budgets, truth)
    return Case(
        number=number,
        y=sweep.y[number].numpy(),
        theta=np.empty(0) if sweep.theta is None else sweep.theta[number].numpy(),
        truth=float(truth.size * np.copysign(1.0, truth.sign)),
        truth_error=float(truth.standard_error),
        budgets=budgets,
        points=points,
        seconds=time.perf_counter() - began,
        by_name={name: _figures(curves[name]) for name in sweep.estimators},
    )


def _figures(curve: Curve) -> Figures:
    low, median, high = curve.remse_quartiles
    over_runs = {"remse_q25": low, "remse_median": median, "remse_q75": high}
    return {
        name: np.asarray(over_runs[name] if name in over_runs else getattr(curve, name))
        for name in FIGURES
    }


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
