r"""The figures of the strip, and what to say about them to someone who meets them first."""

from __future__ import annotations

__all__ = ["Row", "Summary", "number", "odds", "summarize"]

import math
from dataclasses import dataclass

import numpy as np

import amci_core as amci
from amci_core.estimators import ESTIMATORS
from amci_core.flows import Proposals
from amci_core.models import Problem

SHOWN = ("amci", "snis-q2", "snis-qm", "snis-q1")
# Relative spread of weights below which they are equal but for rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Row:
    """One estimator's answer.

    Arguments:
        name: The estimator.
        value: Its estimate of mu.
        standard_error: Of that; NaN where the draws cannot tell.
        relative_error: value / mu - 1.
        draws: Draws in all.
        remark: What to notice, or nothing.
    """

    name: str
    value: float
    standard_error: float
    relative_error: float
    draws: int
    remark: str


@dataclass(frozen=True)
class Summary:
    """The strip's figures at one (y, theta), with N = M draws.

    Arguments:
        rows: One for every estimator.
        draws: Draws from each proposal.
        kappa: Relative standard deviation of the estimate of E1 over that of E2, both by AMCI;
            infinite where q2 is exact, NaN where both are.
        effective_q1: Effective draws of f w under q1.
        effective_q2: Effective draws of w under q2.
        above: How many of the draws of SNIS q2 lie above the threshold.
        above_of: How many draws that is of.
    """

    rows: tuple[Row, ...]
    draws: int
    kappa: float
    effective_q1: float
    effective_q2: float
    above: int
    above_of: int

    @property
    def about_kappa(self) -> str:
        """What kappa says, in words."""
        if math.isnan(self.kappa):
            return "q₁ and q₂ are both exact: AMCI has no error at all."
        if math.isinf(self.kappa):
            return "q₂ is exact: whatever error AMCI has comes from q₁."
        if self.kappa > 1.25:
            return "The error comes mostly from E₁: more draws from q₁ would help most."
        if self.kappa < 0.8:
            return "The error comes mostly from E₂: more draws from q₂ would help most."
        return "E₁ and E₂ are about equally uncertain."

    @property
    def about_q1(self) -> str:
        """What the effective draws of q1 say, in words."""
        return _worth("q₁", self.effective_q1, self.draws)

    @property
    def about_q2(self) -> str:
        """What the draws of q2 reach, in words."""
        if self.above == 0:
            return f"q₂ has put no draw of {self.above_of:,} above θ: alone it sees nothing of f."
        some = "1 draw" if self.above == 1 else f"{self.above:,} draws"
        return f"q₂ has put {some} of {self.above_of:,} above θ."


def summarize(
    problem: Problem, proposals: Proposals, *, y: float, theta: float, draws: int, seed: int
) -> Summary:
    """Runs every estimator once, each with 2 * draws draws in all.

    Raises:
        ValueError: see `amci_core.estimate`.
    """
    truth = float(problem.truth(y, theta))
    estimates = {}
    for name in SHOWN:
        used = len(ESTIMATORS[name].used(proposals.present))
        estimates[name] = amci.estimate(
            problem,
            proposals,
            y,
            theta,
            draws=2 * draws // used,
            estimator=name,
            seed=seed,
        )
    own = estimates["amci"].diagnostics
    effective_q1 = float(own["E1_plus"].effective_draws)
    effective_q2 = float(own["E2"].effective_draws)
    with_q2 = estimates["snis-q2"].diagnostics["E1_plus"]
    return Summary(
        rows=tuple(
            Row(
                name=name,
                value=float(e.value),
                standard_error=float(e.standard_error),
                relative_error=float(e.value) / truth - 1,
                draws=e.draws,
                remark=_remark(float(e.value), float(e.standard_error), truth),
            )
            for name, e in estimates.items()
        ),
        draws=draws,
        kappa=_ratio(_spread(effective_q1, draws), _spread(effective_q2, draws)),
        effective_q1=effective_q1,
        effective_q2=effective_q2,
        above=round(float(with_q2.nonzero_share) * with_q2.draws),
        above_of=with_q2.draws,
    )


def _spread(effective: float, draws: int) -> float:
    """Relative standard deviation of one weight, from n / ESS = 1 + spread^2."""
    return math.sqrt(max(draws / effective - 1, 0.0)) if effective > 0 else math.inf


def _ratio(first: float, second: float) -> float:
    if second < ROUNDING**0.5:
        return math.nan if first < ROUNDING**0.5 else math.inf
    return first / second


def number(value: float, digits: int = 3) -> str:
    """A number for reading: 0.0234, 2.03 × 10⁻⁴."""
    if not math.isfinite(value):
        return "?" if math.isnan(value) else "∞"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa} × 10{power}"


def odds(log_truth: float) -> str:
    """A small probability as "1 in so many", from its logarithm; larger ones in per cent."""
    if log_truth > math.log(0.1):
        return f"{100 * math.exp(log_truth):.3g} % of the posterior lies above θ"
    one_in = math.exp(-log_truth)
    many = f"{float(f'{one_in:.2g}'):,.0f}" if one_in < 1e6 else number(one_in, 2)
    return f"1 posterior draw in {many} lies above θ"


def _worth(name: str, effective: float, draws: int) -> str:
    if effective == 0:
        return f"No draw of {name} counts."
    if draws / effective - 1 < ROUNDING:
        return f"All {draws:,} draws of {name} count fully: it is exact."
    return f"{draws:,} draws of {name} count like {number(effective)} perfect ones."


def _remark(value: float, standard_error: float, truth: float) -> str:
    error = abs(value - truth)
    if value == 0:
        return "no draw above θ: it answers 0, and cannot say how wrong that is"
    if error < ROUNDING * truth:
        return "exact to rounding"
    if np.isnan(standard_error) and abs(value - 1) < ROUNDING:
        return "every draw lies above θ: it answers 1, and cannot say how wrong that is"
    if np.isnan(standard_error):
        return "too few draws to tell its error"
    if np.isinf(standard_error):
        return "its proposal misses part of the integral"
    if error > 4 * standard_error:
        return f"off by {error / standard_error:.0f} of its own standard errors"
    return ""
