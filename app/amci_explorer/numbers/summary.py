r"""The figures of a case: one run of every estimator, and what its draws say of the proposals."""

from __future__ import annotations

__all__ = ["Row", "Summary", "summarize"]

import math
from dataclasses import dataclass

import amci_core as amci
from amci_core.diagnostics.verdict import LEVELS
from amci_core.estimation import Estimate
from amci_core.estimators.draws import PROPOSALS
from amci_core.flows import Proposals
from amci_explorer.numbers.case import CaseDraws, shown_estimators
from amci_explorer.numbers.known import Level, Mu, level
from amci_explorer.text import in_symbols

RELIABLE, _, NO_TRUST = LEVELS
# Relative spread of weights, or of estimates, below which they are equal but for rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Row:
    """One estimator's answer.

    Arguments:
        name: The estimator.
        value: Its estimate of mu.
        standard_error: Of that; NaN where the draws cannot tell.
        interval_low: Lower end of its 95 % interval; NaN where the draws cannot tell.
        interval_high: Upper end.
        relative_error: value / mu - 1; infinite where mu is zero, NaN where it is not known.
        draws: Total draws.
        verdict: The verdict on it, one of `LEVELS`.
        remark: What to notice, or nothing.
    """

    name: str
    value: float
    standard_error: float
    interval_low: float
    interval_high: float
    relative_error: float
    draws: int
    verdict: str
    remark: str

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval."""
        return self.interval_low, self.interval_high

    @property
    def is_reliable(self) -> bool:
        """Whether its interval can be trusted."""
        return self.verdict == RELIABLE


@dataclass(frozen=True)
class Summary:
    """The figures at one (y, theta), with as many draws from each proposal.

    Arguments:
        rows: One for every estimator, AMCI's first.
        total: Draws of each estimator from its proposals.
        judging: Draws from the defensive density, which AMCI with control variates uses too.
        seen: Draws from each proposal that verdicts and effective sizes rest on, see `CaseDraws`.
        effective: Effective sample size of each term under its proposal: f_plus w on q1_plus and
            so on, for the terms that have one.
        level: The mismatch, estimated where the problem does not know it.
        verdict: The verdict on AMCI with control variates, one of `LEVELS`; "do not trust" where
            its draws contradict AMCI's.
        reason: The first reason for it, a few words.
        mu: What the estimates are compared with.
        training: Seconds of training of the proposals that AMCI draws from; NaN if not recorded.
    """

    rows: tuple[Row, ...]
    total: int
    judging: int
    seen: int
    effective: dict[str, float]
    level: Level
    verdict: str
    reason: str
    mu: Mu
    training: float = math.nan

    def row(self, name: str) -> Row:
        """An estimator's row."""
        return next(row for row in self.rows if row.name == name)


def summarize(seen: CaseDraws) -> Summary:
    """Runs every estimator once, each with as many total draws as AMCI with the first of these."""
    case = seen.problem, seen.proposals, seen.y, seen.theta
    total = seen.first * len(seen.proposals.present)
    estimates = {"amci": seen.estimate("amci", seen.first)}
    n = estimates["amci"].draws
    for name in shown_estimators(seen.problem, seen.proposals)[1:]:
        if name != "bound":
            estimates[name] = amci.estimate(*case, draws=n, estimator=name, seed=seen.seed)
    # AMCI is judged by all of its draws, once.
    judged = {name: seen.estimate(name, seen.n) for name in ("amci", "amci-cv")}
    alone, best = judged.values()
    found = alone if alone.verdict.level == NO_TRUST else best
    return Summary(
        rows=tuple(
            _row(name, each, judged.get(name, each), seen.mu, seen.problem.f_range)
            for name, each in estimates.items()
        ),
        total=total,
        judging=n - total,
        seen=seen.n,
        effective={
            term: float(diagnosed.smallest_ess)
            for term, diagnosed in alone.diagnostics.items()
            if term != "E2" or seen.proposals.q2 is not None
        },
        level=level(*case),
        verdict=str(found.verdict.level),
        reason=_reason(found),
        mu=seen.mu,
        training=_training_seconds(seen.proposals),
    )


def _row(
    name: str, found: Estimate, judged: Estimate, mu: Mu, f_range: tuple[float, float]
) -> Row:
    value, error, level = float(found.value), float(found.standard_error), judged.verdict.level
    remark = "" if level == RELIABLE else f"{level}: {_reason(judged)}"
    if abs(value - mu.value) < ROUNDING * abs(mu.value) and not mu.error:
        remark = "exact up to rounding"
    elif value == 0:
        remark = "no draw reaches f: the estimate is 0, its error unknown"
    elif not error > ROUNDING * abs(value):
        remark = "all draws agree: its error is unknown"
    elif not remark and not f_range[0] <= value <= f_range[1]:
        remark = "outside the range of f, as a ratio of two estimates can be"
    low, high = (float(end) for end in found.interval())
    off = value / mu.value - 1 if mu.value else math.inf
    return Row(name, value, error, low, high, off, found.draws, str(level), remark)


def _reason(found: Estimate) -> str:
    """The first reason for a verdict, in a few words of the page."""
    text = found.verdict.text.partition(": ")[2]
    if text.startswith("all draws together contradict it"):
        return text.partition(",")[0]
    if text.startswith("only about"):
        return "a few draws make most of its error"
    return in_symbols(text.partition(": ")[0])


def _training_seconds(proposals: Proposals) -> float:
    """Seconds of training of the proposals that AMCI draws from; NaN if not recorded."""
    recorded = proposals.card.get("configuration", {}).get("seconds", {})
    return float(sum(recorded.get(PROPOSALS[j], math.nan) for j in proposals.present))
