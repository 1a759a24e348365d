r"""The figures of the summary, and what they say to someone who meets them for the first time."""

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
from amci_explorer.text import doubt, in_symbols, number
from amci_explorer.text import effective as effective_size

# Relative spread of weights, or of estimates, below which they are equal but for rounding.
ROUNDING = 1e-12
# Draws of a proposal that are told.
MOST_POINTS = 200
# Where g lies, by the mismatch in nats.
PLACES = {
    0.1: "g is close to the posterior",
    2.0: "g differs moderately from the posterior",
    6.0: "g lies at the edge of the posterior",
    math.inf: "g lies far in the tail of the posterior",
}


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
    def doubt(self) -> str:
        """The standard error in words."""
        return doubt(self.standard_error, self.f_width, judged=self.verdict == LEVELS[0])


@dataclass(frozen=True)
class Summary:
    """The summary's figures at one (y, theta), with as many draws from each proposal.

    Arguments:
        rows: One for every estimator, AMCI's first.
        total: Draws of each estimator from its proposals.
        judging: Draws from the defensive density, which AMCI with control variates uses too.
        seen: Draws from each proposal that the figures from here on rest on, see `CaseDraws`.
        effective: Effective sample size of each term under its proposal: f_plus w on q1_plus and
            so on, for the terms that have one.
        hits: How many of the `total` draws of SNIS q2 reach f; None where that says nothing.
        where: Where f is not zero, in words.
        level: The mismatch, estimated where the problem does not know it.
        verdict: The verdict on AMCI's estimate, one of `LEVELS`.
        reason: The first reason for it, a sentence.
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

    def figures(self) -> list[tuple[str, str, str]]:
        """Names, figures in words, and what they say."""
        amci, mu, level = self.rows[0], self.mu, self.level
        name = "reference value" if mu.name == "reference" else mu.name
        known = "truth not known" if math.isnan(mu.value) else f"{name} {number(mu.value, 4)}"
        error = f" ± {number(level.error, 1)}" if level.error else ""
        place = next(words for limit, words in PLACES.items() if not level.value >= limit)
        mismatch = ("too few draws", "to estimate it")
        if not math.isnan(level.value):
            mismatch = (f"{number(level.value)}{error} nats", place)
        sizes = [
            (
                f"Effective sample size, {self.proposal(term)}",
                f"{effective_size(found)} of {self.seen:,}",
                self.about(term),
            )
            for term, found in self.effective.items()
        ]
        return [
            ("Estimate of μ", number(amci.value, 4), f"standard error {amci.doubt}; {known}"),
            ("Mismatch, estimated" if level.error else "Mismatch", *mismatch),
            *sizes,
        ]

    def about(self, term: str) -> str:
        """What the effective sample size of a term says, in words."""
        if term == "E2" and self.hits is not None:
            alone = ": q₂ alone says nothing about f" if self.hits == 0 else ""
            return f"{self.hits:,} of {self.total:,} draws from q₂ lie {self.where}{alone}."
        name, effective = self.proposal(term), self.effective[term]
        if effective == 0:
            return f"No draw from {name} has any weight."
        if effective > self.seen * (1 - ROUNDING):
            return f"All weights of {name} are equal: it is exact."
        return f"ESS of {self.seen:,} draws from {name}: {effective_size(effective)}."

    def proposal(self, term: str) -> str:
        """The proposal of a term, as a symbol; where f takes one sign, without it."""
        first = "q₁⁺" if "E1_minus" in self.effective else "q₁"
        return {"E1_plus": first, "E1_minus": "q₁⁻", "E2": "q₂"}[term]


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

    What is said of the case and its proposals rests on more draws, those of the diagnostics.
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
    low, high = problem.f_range
    own, verdict = judged["amci"], str(judged["amci"].verdict.level)
    effective = {
        term: float(found.smallest_ess)
        for term, found in own.diagnostics.items()
        if term != "E2" or proposals.q2 is not None
    }
    hits = None
    if where != ANYWHERE and "snis-q2" in estimates:
        hits = round(total * float(estimates["snis-q2"].diagnostics["E1_plus"].nonzero_share))
    return Summary(
        rows=tuple(
            Row(
                name=name,
                value=float(e.value),
                standard_error=float(e.standard_error),
                interval_low=float(e.interval()[0]),
                interval_high=float(e.interval()[1]),
                relative_error=float(e.value) / mu.value - 1 if mu.value else math.inf,
                draws=e.draws,
                verdict=str(judged.get(name, e).verdict.level),
                remark=_remark(e, judged.get(name, e), mu, where, problem.f_range),
                f_width=high - low,
            )
            for name, e in estimates.items()
        ),
        total=total,
        judging=n - total,
        seen=seen.n,
        effective=effective,
        hits=hits,
        where=where,
        level=level(problem, proposals, y, theta),
        verdict=verdict,
        reason=own.verdict.text,
        mu=mu,
        training=training_seconds(proposals),
        points={name: x[: min(draws, MOST_POINTS)] for name, x in seen.points.items()},
    )


def training_seconds(proposals: Proposals) -> float:
    """Seconds of training of the proposals that AMCI draws from; NaN if not recorded."""
    recorded = proposals.card.get("configuration", {}).get("seconds", {})
    used = [name for name in ("q1_plus", "q1_minus", "q2") if getattr(proposals, name) is not None]
    return float(sum(recorded.get(name, math.nan) for name in used))


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
    level = judged.verdict.level
    if level != LEVELS[-1] and not low <= value <= high:
        return (
            f"outside [{low:g}, {high:g}], where f lies: the ratio of two separate estimates can "
            "leave it"
        )
    return "" if level == LEVELS[0] else in_symbols(judged.verdict.text)
