r"""One estimate of mu(y, theta), with its uncertainty and what it is made of."""

from __future__ import annotations

__all__ = ["Estimate", "Term", "estimate"]

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import ndtri

from amci_core._checks import check_count
from amci_core.diagnostics import TermDiagnostics, diagnose
from amci_core.estimators import TERMS
from amci_core.estimators import estimator as estimator_of
from amci_core.estimators.draws import Array
from amci_core.estimators.named import Estimator
from amci_core.evaluation.drawing import MAX_POINTS, Sampler, generators
from amci_core.flows import Proposals
from amci_core.models import Problem


@dataclass(frozen=True)
class Term:
    """One term of an estimate.

    Arguments:
        log_value: log|E_t| in nats, (*).
        sign: Its sign, (*).
    """

    log_value: Array
    sign: Array

    @property
    def value(self) -> Array:
        """The term itself, (*); zero where it underflows."""
        return self.sign * np.exp(self.log_value)


@dataclass(frozen=True)
class Estimate:
    """An estimate of mu(y, theta) for a batch (*) of pairs.

    Arguments:
        value: The estimate, (*), in units of f.
        standard_error: By the delta method from pooled moments, (*), in units of f. It cannot see
            mass that no draw has reached: trust it where the proposals cover f p(x, y) and
            p(x, y). NaN where the draws are too few to tell, or carry E1 and E2 together with the
            same f at all of them: nothing then says how wrong the value is. Infinite where another
            proposal's draws show that one misses part of a term it is used for.
        terms: E1_plus, E1_minus (where f takes both signs) and E2.
        diagnostics: Per term: effective sample size, largest weight share, share of draws with f
            != 0.
        draws: Draws used of each pair, all proposals together.
        positive: Whether mu is known to be positive.
    """

    value: Array
    standard_error: Array
    terms: dict[str, Term]
    diagnostics: dict[str, TermDiagnostics]
    draws: int
    positive: bool

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """A central interval for mu of that level, as lower and upper ends, each (*).

        On the log scale where mu is known to be positive, so that it stays so; not where reused
        draws made the estimate itself negative.

        Raises:
            ValueError: the level does not lie strictly between 0 and 1.
        """
        if not isinstance(level, Real) or not 0 < level < 1:
            raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
        half_width = -ndtri((1 - float(level)) / 2) * self.standard_error
        lower, upper = self.value - half_width, self.value + half_width
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            factor = np.exp(half_width / self.value)
            on_log_scale = (self.value > 0) & self.positive
            return (
                np.where(on_log_scale, self.value / factor, lower),
                np.where(on_log_scale, self.value * factor, upper),
            )


def estimate(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    draws: int = 64,
    estimator: str | np.ndarray | Estimator = "amci",
    shift: float = 0.0,
    seed: int = 0,
) -> Estimate:
    """Estimates mu(y, theta) = E[f(x; theta)] under p(x | y).

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: A number (where y has one dimension) or an array of shape (*, D_y). None where the
            problem has no y.
        theta: Likewise, (*, D_theta); the two broadcast. None where the problem has no theta.
        draws: Number of draws from each proposal that the estimator uses.
        estimator: A name of `amci_core.estimators.ESTIMATORS`, or a table of coefficients.
        shift: A constant c: f - c is split into its positive and negative part, and c is added
            back. A c below f everywhere leaves no negative part.
        seed: Whole number >= 0; the same seed gives the same draws.

    References:
        Section 4 of the paper, footnote on the shift.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown.
    """
    chosen = estimator_of(estimator)
    y, theta = problem.check(y, theta)
    check_count("draws", draws, low=1, high=MAX_POINTS)
    if not isinstance(shift, Real) or not math.isfinite(shift):
        raise ValueError(f"shift: expected a finite number, got {shift!r}")
    sampler = Sampler(problem, proposals, y, theta, float(shift))
    total = draws * len(chosen.used(sampler.present))
    reserve = chosen.reserve([total], sampler.present)
    points = int(reserve.sum()) * math.prod(y.shape[:-1])
    check_count("draws, of all proposals and pairs together", points, low=1, high=MAX_POINTS)
    for_points, for_choices = generators(seed)
    prepared = chosen.prepare(sampler.draw(reserve, for_points), [total], for_choices)
    combined = prepared.combine()
    value = combined.value[..., 0]
    signed = prepared.draws.signed
    return Estimate(
        value=value + shift,
        standard_error=prepared.standard_error(value),
        terms={
            name: Term(combined.log_terms[..., 0, t], combined.sign[..., 0, t])
            for t, name in enumerate(TERMS)
            if not (name == "E1_minus" and not signed)
        },
        diagnostics=diagnose(prepared.table, prepared.draws),
        draws=total,
        positive=problem.nonnegative and not shift,
    )
