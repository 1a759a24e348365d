r"""What the draws at one point say: the verdict, each term's weights, the way to mu."""

from __future__ import annotations

__all__ = ["Diagnosis", "TermWeights", "diagnosis"]

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import genpareto

from amci_core.diagnostics import TermDiagnostics
from amci_core.diagnostics.pareto import pareto_tail
from amci_core.diagnostics.verdict import LEVELS
from amci_core.estimators.draws import Array
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.known import Mu

BINS = 40
# Draws of less than this share of the mean weight, as a power of ten, are not drawn.
LOWEST = -6.0
TAIL_POINTS = 60
# Numbers of draws at which the estimate is followed, and what is noted there.
STOPS = 36
ALONG = [(name, float) for name in ("draws", "value", "low", "high", "plain")]
LOG_10 = math.log(10)


@dataclass(frozen=True)
class TermWeights:
    """The weights t w of one term on the draws that carry it, n of them.

    Arguments:
        name: The term, such as E1_plus.
        core: What the core says of them.
        x: The draws, (n, D).
        log_weights: log10 of t w over its mean, (n,); NaN where t w is zero.
        edges: Edges of the bins of the histogram of these, B + 1.
        heights: Draws in each bin, B.
        tail: Where the fitted tail is followed, in log10 of t w over its mean.
        tail_heights: Draws that it expects in a bin there.
        error: Standard error of Pareto k-hat.
    """

    name: str
    core: TermDiagnostics
    x: Array
    log_weights: Array
    edges: Array
    heights: Array
    tail: Array
    tail_heights: Array
    error: float


@dataclass(frozen=True)
class Diagnosis:
    """What the draws at one (y, theta) say.

    Arguments:
        draws: Draws from each proposal.
        mu: What the estimate is compared with.
        estimate: That of AMCI with control variates from all of these draws.
        terms: One for each term that the estimate needs draws for.
        level: The verdict on it, one of `LEVELS`; on plain AMCI where that is "do not trust".
        text: It with its first reason.
        reasons: What speaks against the estimate.
        along: The estimates with B numbers of draws from each proposal, (B,) each, in units of f:
            these numbers, the value with control variates and the ends of its 95 % interval, and
            plain AMCI's value, as `draws`, `value`, `low`, `high` and `plain`.
    """

    draws: int
    mu: Mu
    estimate: float
    terms: tuple[TermWeights, ...]
    level: str
    text: str
    reasons: tuple[str, ...]
    along: Any


def diagnosis(seen: CaseDraws) -> Diagnosis:
    """Weights and verdict, and the estimate along more and more of the draws."""
    rows = []
    for stop in np.unique(np.rint(np.geomspace(4, seen.n, STOPS)).astype(int)).tolist():
        plain, found = (seen.estimate(name, stop) for name in ("amci", "amci-cv"))
        rows.append((stop, *map(float, (found.value, *found.interval(), plain.value))))
    verdict = (plain if plain.verdict.level == LEVELS[-1] else found).verdict
    return Diagnosis(
        draws=seen.n,
        mu=seen.mu,
        estimate=float(found.value),
        terms=tuple(
            _weights(name, term, seen.points[term.proposal])
            for name, term in plain.diagnostics.items()
        ),
        level=str(verdict.level),
        text=verdict.text,
        reasons=verdict.reasons,
        along=np.array(rows, ALONG).view(np.recarray),
    )


def _weights(name: str, term: TermDiagnostics, x: Array) -> TermWeights:
    with np.errstate(divide="ignore"):
        natural = np.log(term.weights / (term.weights.mean() or 1.0))
    log_weights = np.where(term.weights > 0, natural / LOG_10, np.nan)
    drawn = log_weights[term.weights > 0]
    low, high = (drawn.min(), drawn.max()) if len(drawn) else (0.0, 0.0)
    low = max(low, min(LOWEST, high - 1))
    if high - low < 1e-9:
        low, high = low - 0.01, high + 0.01
    heights, edges = np.histogram(drawn, BINS, range=(low, high))
    # Draws that the fitted tail expects in a bin, from its cutoff to past the last draw.
    fitted, width = pareto_tail(natural), edges[1] - edges[0]
    tail = density = np.empty(0)
    if fitted.scale != 0:
        tail = np.linspace(fitted.log_cutoff / LOG_10, high + 8 * width, TAIL_POINTS)
        rise = tail * LOG_10 - fitted.log_cutoff
        density = genpareto.pdf(np.expm1(rise), fitted.k, scale=fitted.scale)
        density *= np.exp(rise) * LOG_10
    return TermWeights(
        name=name,
        core=term,
        x=x,
        log_weights=log_weights,
        edges=edges,
        heights=heights.astype(np.float64),
        tail=tail[density > 0],
        tail_heights=(fitted.size * width * density)[density > 0],
        error=fitted.error,
    )
