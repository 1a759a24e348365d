r"""The gauge and the two pictures of one term of the estimate."""

from __future__ import annotations

__all__ = ["METER", "TermView"]

import math
from html import escape

from amci_core.diagnostics import LEVELS
from amci_explorer.numbers.diagnosis import TermWeights
from amci_explorer.plots.colours import VERDICTS
from amci_explorer.plots.diagnostics import weights_against_x, weights_histogram
from amci_explorer.views.layout import HTML, column
from amci_explorer.views.picture import Picture
from amci_explorer.words.diagnosis import (
    about_histogram,
    about_k,
    about_scatter,
    about_weights,
    pretty,
)

# Ends of a gauge, and where ArviZ calls a k-hat very bad.
GAUGE, VERY_BAD = (-0.5, 1.25), 1.0
METER = """
h3 { font-size: var(--text); font-weight: 600; margin: 0 0 2px 0; }
.name { display: flex; justify-content: space-between; gap: 8px; font-size: var(--small); }
.name b { font-variant-numeric: tabular-nums; }
.track { position: relative; height: 10px; border-radius: 5px; margin: 8px 0 4px 0; }
.mark { position: absolute; top: -5px; width: 4px; height: 20px; margin-left: -2px;
        border-radius: 2px; background: currentColor; }
.spread { position: absolute; top: 4px; height: 2px; background: currentColor; }
.limit { position: absolute; top: -2px; height: 14px; border-left: 2px dashed currentColor; }
.words { font-size: var(--small); line-height: 1.4; min-height: 2.8em; opacity: 0.9; }
"""


class TermView:
    """Creates the gauge and the two pictures of one term, empty.

    Arguments:
        name: The term, such as E1_plus.
    """

    def __init__(self, name: str) -> None:
        self._meter = HTML("", METER)
        self.histogram = Picture(
            f"diagnostics-weights-{name}", "Histogram of log weights.", height=230
        )
        self.scatter = Picture(f"diagnostics-scatter-{name}", "Weights against x.", height=230)
        self.panel = column(self._meter, self.histogram.panel, self.scatter.panel, gap=4)

    def open(self, label: str) -> None:
        """Makes ready for a problem, in which the term has this label."""
        self.label = label
        self.histogram.clear()
        self.scatter.clear()
        self._meter.object = ""

    def show(self, term: TermWeights, dark: bool) -> None:
        """Draws the histogram with its fitted tail."""
        self.histogram.draw(weights_histogram(term, dark=dark))

    def look(self, term: TermWeights, i: int, coordinate: str, dark: bool) -> None:
        """Shows the weights against a coordinate of x."""
        self.scatter.draw(weights_against_x(term, i, label=coordinate, dark=dark))

    def show_words(self, term: TermWeights, draws: int, dark: bool) -> None:
        """Shows the gauge, and what it says."""
        proposal = pretty(term.proposal, signed="⁺" in self.label or "⁻" in self.label)
        self._meter.object = _meter(term, draws, self.label, proposal, dark)

    def describe(self, term: TermWeights, draws: int, coordinate: str) -> None:
        """Renews the text alternatives."""
        self.histogram.describe(about_histogram(term, self.label))
        self.scatter.describe(about_scatter(term, self.label, draws, coordinate))


def _meter(term: TermWeights, draws: int, label: str, proposal: str, dark: bool) -> str:
    good, some, bad = (VERDICTS[level].colour(dark) for level in LEVELS)
    limit, end = _place(term.threshold), _place(VERY_BAD)
    track = (
        f"background: linear-gradient(to right, {good} {limit}%, {some} {limit}% {end}%, "
        f"{bad} {end}%)"
    )
    marks = f'<div class="limit" style="left: {limit}%"></div>'
    if not math.isnan(term.k):
        low, high = (_place(term.k + side * term.error) for side in (-1, 1))
        if math.isfinite(term.k):
            marks += f'<div class="spread" style="left: {low}%; width: {high - low:.2f}%"></div>'
        marks += f'<div class="mark" style="left: {_place(term.k)}%"></div>'
    k = about_k(term)
    return (
        f"<h3>{label} from {proposal}</h3>"
        f'<div class="name"><span>Pareto k-hat</span><b>{k}</b></div>'
        f'<div class="track" role="img" style="{track}" aria-label="k-hat of {label} on '
        f'{proposal}: {k}, limit {term.threshold:.2f}">{marks}</div>'
        f'<div class="words">{escape(about_weights(term, draws, proposal))}</div>'
    )


def _place(k: float) -> float:
    """Where a k-hat stands on its gauge, in per cent of the width."""
    low, high = GAUGE
    return round(100 * min(max((k - low) / (high - low), 0.0), 1.0), 2)
