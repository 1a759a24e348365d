r"""The figures of a case: one run of every estimator, and what its draws say of the proposals."""

from __future__ import annotations

__all__ = ["Row", "Summary", "summarize"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import amci_core as amci
from amci_core.diagnostics import LEVELS
from amci_core.estimation import Estimate
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.numbers.case import CaseDraws, shown_estimators
from amci_explorer.numbers.known import Level, Mu, exact, level
from amci_explorer.problems.presets import ANYWHERE, where_f_is
from amci_explorer.text import in_symbols

RELIABLE, _, NO_TRUST = LEVELS
# Relative spread of weights, or of estimates, below which they are equal but for rounding.
ROUNDING = 1e-12
# Draws of a proposal that pictures show.
MOST_POINTS = 200


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
        f_width: Width of f's range, beyond which a standard error says nothing.
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
    f_width: float = math.inf

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
        hits: How many of the `total` draws of SNIS q2 reach f; None where that says nothing.
        where: Where f is not zero, in words.
        level: The mismatch, estimated where the problem does not know it.
        verdict: The verdict on AMCI with control variates, one of `LEVELS`; "do not trust" where
            its draws contradict AMCI's.
        reason: The first reason for it, a few words.
        mu: What the estimates are compared with.
        training: Seconds of training of the proposals that AMCI draws from; NaN if not recorded.
        points: The first draws of AMCI from each proposal, by its name, (n, D).
    """

    rows: tuple[Row, ...]
    total: int
    judging: int
    seen: int
    effective: dict[str, float]
    hits: int | None
    where: str
    level: Level
    verdict: str
    reason: str
    mu: Mu
    training: float = math.nan
    points: Mapping[str, Array] = field(default_factory=dict)

    def row(self, name: str) -> Row:
        """An estimator's row."""
        return next(row for row in self.rows if row.name == name)


def summarize(
    problem: Problem,
    proposals: Proposals,
    *,
    y: float | Sequence[float] | None,
    theta: float | Sequence[float] | None,
    draws: int,
    seed: int,
    mu: Mu | None = None,
) -> Summary:
    """Runs every estimator once, each with as many total draws as AMCI with `draws` of each.

    Errors are counted from `mu`, by default what the problem knows.

    Raises:
        ValueError: see `amci_core.estimate`.
    """
    mu = mu or exact(problem, y, theta)
    where = where_f_is(problem)
    total = draws * len(proposals.present)
    seen = CaseDraws(problem, proposals, y, theta, draws=draws, seed=seed)
    # AMCI is judged by all of its draws, once.
    judged = {name: seen.estimate(name, seen.n) for name in ("amci", "amci-cv")}
    estimates = {"amci": seen.estimate("amci", draws)}
    n = estimates["amci"].draws
    for name in shown_estimators(problem, proposals):
        if name not in (*estimates, "bound"):
            estimates[name] = amci.estimate(
                problem, proposals, y, theta, draws=n, estimator=name, seed=seed
            )
    own = judged["amci"] if _level(judged["amci"]) == NO_TRUST else judged["amci-cv"]
    hits = None
    if where != ANYWHERE and "snis-q2" in estimates:
        hits = round(total * float(estimates["snis-q2"].diagnostics["E1_plus"].nonzero_share))
    return Summary(
        rows=tuple(
            _row(name, each, judged.get(name, each), mu, where, problem.f_range)
            for name, each in estimates.items()
        ),
        total=total,
        judging=n - total,
        seen=seen.n,
        effective={
            term: float(found.smallest_ess)
            for term, found in judged["amci"].diagnostics.items()
            if term != "E2" or proposals.q2 is not None
        },
        hits=hits,
        where=where,
        level=level(problem, proposals, y, theta),
        verdict=_level(own),
        reason=_reason(own),
        mu=mu,
        training=_training_seconds(proposals),
        points={name: x[: min(draws, MOST_POINTS)] for name, x in seen.points.items()},
    )


def _row(
    name: str, e: Estimate, judged: Estimate, mu: Mu, where: str, f_range: tuple[float, float]
) -> Row:
    low, high = (float(end) for end in e.interval())
    return Row(
        name=name,
        value=float(e.value),
        standard_error=float(e.standard_error),
        interval_low=low,
        interval_high=high,
        relative_error=float(e.value) / mu.value - 1 if mu.value else math.inf,
        draws=e.draws,
        verdict=_level(judged),
        remark=_remark(e, judged, mu, where, f_range),
        f_width=f_range[1] - f_range[0],
    )


def _remark(
    found: Estimate, judged: Estimate, mu: Mu, where: str, f_range: tuple[float, float]
) -> str:
    value, (low, high) = float(found.value), f_range
    if abs(value - mu.value) < ROUNDING * abs(mu.value) and not mu.error:
        return "exact up to rounding"
    if value == 0:
        return f"no draw falls {where}: the estimate is 0, its error unknown"
    if not found.standard_error > ROUNDING * abs(value):
        return "all draws agree: its error is unknown"
    if _level(judged) == RELIABLE:
        if low <= value <= high:
            return ""
        return f"outside [{low:g}, {high:g}], where f lies: a ratio of two estimates can leave it"
    return f"{_level(judged)}: {_reason(judged)}"


def _level(found: Estimate) -> str:
    return str(found.verdict.level)


def _reason(found: Estimate) -> str:
    """The first reason for a verdict, in a few words of the page."""
    text = found.verdict.text.partition(": ")[2]
    if text.startswith("all draws together disagree"):
        return "all draws together contradict it"
    if text.startswith("only about"):
        return "a few draws make most of its error"
    return in_symbols(text.partition(": ")[0])


def _training_seconds(proposals: Proposals) -> float:
    """Seconds of training of the proposals that AMCI draws from; NaN if not recorded."""
    recorded = proposals.card.get("configuration", {}).get("seconds", {})
    used = [name for name in ("q1_plus", "q1_minus", "q2") if getattr(proposals, name) is not None]
    return float(sum(recorded.get(name, math.nan) for name in used))
