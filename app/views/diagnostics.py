r"""Whether an estimate can be believed: each term's weights, their tail, and the way to mu."""

from __future__ import annotations

__all__ = ["DiagnosticsView"]

import math
import re
from html import escape

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    CustomJSTickFormatter,
    LogTickFormatter,
    Range1d,
    Span,
)
from bokeh.plotting import figure
from numpy.typing import NDArray

from amci_core.diagnostics import LEVELS
from amci_core.diagnostics.pareto import LARGEST_K, LEAST_DRAWS
from amci_core.diagnostics.verdict import NEARLY_ALL
from amci_core.estimators.draws import Array
from app.colours import ESTIMATORS, SHAPES, Style
from app.diagnosis import Along, Diagnosis, TermWeights
from app.presets import coordinate_names
from app.session import answer
from app.store import Store
from app.summary import number
from app.views.figures import Painter, add_hover, add_legend, describe, pane, picture, set_range
from app.views.inputs import select
from app.views.layout import HTML, card, column, hide, side_by_side

STYLES = {
    "E1_plus": SHAPES["q1"],
    "E1_minus": SHAPES["q1_minus"],
    "E2": SHAPES["q2"],
}
# For each level: what to call it, and its colour on a light and on a dark page.
VERDICTS = dict(
    zip(
        LEVELS,
        (
            Style("Reliable", "#00724f", "#2fcf9f"),
            Style("Use more draws", "#8a6d00", "#e6c84f"),
            Style("Do not trust", "#b34700", "#ff8a3d"),
        ),
        strict=True,
    )
)
# Ends of a gauge.
GAUGE = (-0.5, 1.25)
LEAST_HEIGHT = 0.5
# The way to mu is shown as wide as its interval is after this share of the draws.
SHOWN_FROM = 0.03
VERDICT = """
.verdict { border-left: 5px solid var(--level); padding: 2px 0 2px 12px; min-height: 3.6em; }
.level { font-size: 1.15rem; font-weight: 600; line-height: 1.4; color: var(--level); }
p, li { margin: 0; font-size: 0.9rem; line-height: 1.5; max-width: 90ch; }
ul { margin: 0; padding-left: 1.1rem; }
"""
METER = """
h3 { font-size: 0.95rem; font-weight: 600; margin: 0 0 2px 0; }
.name { display: flex; justify-content: space-between; gap: 8px; font-size: 0.85rem; }
.name b { font-variant-numeric: tabular-nums; }
.track { position: relative; height: 10px; border-radius: 5px; margin: 8px 0 4px 0; }
.mark { position: absolute; top: -5px; width: 4px; height: 20px; margin-left: -2px;
        border-radius: 2px; background: currentColor; }
.spread { position: absolute; top: 4px; height: 2px; background: currentColor; }
.limit { position: absolute; top: -2px; height: 14px; border-left: 2px dashed currentColor; }
.words { font-size: 0.82rem; line-height: 1.4; min-height: 2.8em; opacity: 0.9; }
"""


class DiagnosticsView:
    """Creates the verdict and the pictures of all terms, empty; `open` and `show` fill them."""

    def __init__(self) -> None:
        self._painter = Painter()
        self._dark = False
        self._latest: Diagnosis | None = None
        self._verdict = HTML(EMPTY, VERDICT, margin=(0, 0, 12, 0))
        self.terms = {name: _TermView(name, self._painter) for name in STYLES}
        self._coordinate = select(
            "Coordinate of x", ["x"], sizing_mode=None, width=220, margin=(0, 0, 8, 0)
        )
        hide(self._coordinate, True)
        self._coordinate.param.watch(answer(self._look), "value")
        self._place = column()
        self._there: tuple[str, ...] = ()
        self.along = ColumnDataSource(
            {name: [] for name in ("draws", "value", "low", "high")}, name="diagnostics-way"
        )
        self.figure = self._picture()
        self.panel = card(
            "Diagnostics",
            self._verdict,
            self._coordinate,
            self._place,
            HTML("<h3>AMCI's estimate, draw by draw</h3>", METER, margin=(8, 0, 0, 0)),
            pane(self.figure),
            help_text=HELP,
        )

    def open(self, store: Store) -> None:
        """Makes ready for a problem; nothing of another one stays."""
        self._latest = None
        problem = store.problem
        names = list(coordinate_names(problem))
        several = len(names) > 1
        self._coordinate.param.update(options=names, value=names[0])
        hide(self._coordinate, not several)
        signed = not problem.nonnegative
        for name, view in self.terms.items():
            view.open(_pretty(name, signed=signed), names[0] if several else "x")
        # A picture in a hidden place has no width, and the page waits for one: what a problem
        # does not have is not there.
        if store.terms != self._there:
            self._there = store.terms
            panels = [self.terms[name].panel for name in store.terms]
            self._place[:] = [side_by_side(*panels, least=300)]
        self.along.data = {name: [] for name in self.along.data}
        self._verdict.object = EMPTY

    def show(self, found: Diagnosis) -> None:
        """Shows weights and verdict, and the estimate as far as it has been followed."""
        before, self._latest = self._latest, found
        if before is None or before.terms is not found.terms:
            self._show_terms(found)
        if found.along is not None:
            self._show_along(found, found.along)

    def describe(self) -> None:
        """Renews the text alternatives, when everything is there."""
        if self._latest is None:
            return
        for term in self._latest.terms:
            self.terms[term.name].describe(term, self._latest.draws)
        along = self._latest.along
        if along is not None:
            describe(
                self.figure,
                f"After {self._latest.draws:,} draws from each proposal the estimate is "
                f"{number(float(along.value[-1]), 4)}, with 95 % interval "
                f"{number(float(along.low[-1]), 4)} to {number(float(along.high[-1]), 4)}; the "
                f"truth is {number(self._latest.truth, 4)}.",
            )

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._dark = dark
        self._painter.paint(dark)
        if self._latest is not None:
            self._show_words(self._latest)

    def _show_terms(self, found: Diagnosis) -> None:
        self._show_words(found)
        for term in found.terms:
            self.terms[term.name].show(term)
        self._look()

    def _show_words(self, found: Diagnosis) -> None:
        self._verdict.object = _about(found, VERDICTS[found.level].colour(self._dark))
        for term in found.terms:
            self.terms[term.name].show_words(term, found.draws, self._dark)

    def _look(self, *_: object) -> None:
        if self._latest is not None:
            i = self._coordinate.options.index(self._coordinate.value)
            label = self._coordinate.value if len(self._coordinate.options) > 1 else "x"
            for term in self._latest.terms:
                self.terms[term.name].look(term, i, label)

    def _show_along(self, found: Diagnosis, along: Along) -> None:
        truth = found.truth
        relative = abs(truth) > 1e-12
        scale = 100 / abs(truth) if relative else 1.0
        low, high = (scale * (end - truth) for end in (along.low, along.high))
        value = scale * (along.value - truth)
        wide = np.abs(np.concatenate([low, high, value])[np.tile(_late(found, along), 3)])
        wide = wide[np.isfinite(wide)]
        half = 1.2 * float(wide.max()) if len(wide) and wide.max() > 0 else 1.0
        unit = "in % of μ" if relative else "in units of f"
        self.figure.yaxis.axis_label = f"estimate − truth, {unit}"
        set_range(self.figure.y_range, -half, half)
        set_range(self.figure.x_range, 4, found.draws * 1.1)
        clipped = (np.clip(end, -1e3 * half, 1e3 * half) for end in (low, high))
        self.along.data = dict(
            zip(("draws", "value", "low", "high"), (along.draws, value, *clipped), strict=True)
        )

    def _picture(self) -> figure:
        shown = picture(
            "diagnostics-along",
            alternative="The estimate along the draws, with its 95 % interval, against the truth.",
            x_label="draws from each proposal",
            y_label="estimate − truth, in % of μ",
            height=280,
            x_axis_type="log",
            x_range=Range1d(4, 1000),
            y_range=Range1d(-1, 1),
        )
        style = ESTIMATORS["amci"]
        band = shown.varea("draws", "low", "high", source=self.along, fill_alpha=0.2)
        line = shown.line("draws", "value", source=self.along, line_width=2.5)
        truth = Span(location=0, dimension="width", line_width=1.5, line_dash=[4, 4])
        self._painter.follow(band.glyph, style, "fill_color")
        self._painter.follow(line.glyph, style, "line_color")
        shown.add_layout(self._painter.follow(truth, SHAPES["threshold"], "line_color"))
        tips = [
            ("draws", "@draws{0,0}"),
            ("off by", "@value{0.00e+0}"),
            ("interval", "@low{0.00e+0} to @high{0.00e+0}"),
        ]
        add_hover(shown, line, tips, mode="vline")
        items = [("AMCI", [line]), ("its 95 % interval", [band])]
        add_legend(shown, items)
        return shown


class _TermView:
    """The gauge and the two pictures of one term."""

    def __init__(self, name: str, painter: Painter) -> None:
        self._style = STYLES[name]
        self._name = name
        self.bars = ColumnDataSource(
            {c: [] for c in ("left", "right", "height")}, name=f"diagnostics-bars-{name}"
        )
        self.tail = ColumnDataSource({"x": [], "height": []}, name=f"diagnostics-tail-{name}")
        self.points = ColumnDataSource({"x": [], "weight": []}, name=f"diagnostics-points-{name}")
        self._meter = HTML("", METER)
        self.histogram = self._histogram(painter)
        self.scatter = self._scatter(painter)
        self.panel = column(self._meter, pane(self.histogram), pane(self.scatter), gap=4)

    def open(self, label: str, coordinate: str) -> None:
        self.label = label
        self.scatter.xaxis.axis_label = coordinate
        for source in (self.bars, self.tail, self.points):
            source.data = {name: [] for name in source.data}
        self._meter.object = ""

    def show(self, term: TermWeights) -> None:
        heights, edges = term.heights, term.edges
        width = edges[-1] - edges[0]
        set_range(self.histogram.x_range, edges[0] - 0.03 * width, edges[-1] + 0.15 * width)
        set_range(self.histogram.y_range, LEAST_HEIGHT, 2 * max(float(heights.max()), 1.0))
        self.bars.data = {"left": edges[:-1], "right": edges[1:], "height": heights}
        self.tail.data = {"x": term.tail, "height": np.maximum(term.tail_heights, 1e-3)}

    def look(self, term: TermWeights, i: int, coordinate: str) -> None:
        """Shows the weights against a coordinate of x."""
        x, weight = term.x[:, i], term.log_weights
        inside = weight >= term.edges[0] - 1e-12
        x, weight = x[inside], weight[inside]
        self.scatter.xaxis.axis_label = coordinate
        low, high = _ends(x)
        set_range(self.scatter.x_range, low, high)
        width = term.edges[-1] - term.edges[0]
        low, high = term.edges[0] - 0.05 * width, term.edges[-1] + 0.05 * width
        set_range(self.scatter.y_range, low, high)
        self.points.data = {"x": x, "weight": weight}

    def show_words(self, term: TermWeights, draws: int, dark: bool) -> None:
        proposal = _pretty(term.proposal, signed="⁺" in self.label or "⁻" in self.label)
        self._meter.object = _meter(term, draws, self.label, proposal, dark)

    def describe(self, term: TermWeights, draws: int) -> None:
        """Renews the text alternatives."""
        k = "has no tail" if math.isinf(term.k) else f"has k-hat {term.k:.2f}"
        describe(
            self.histogram,
            f"Histogram of {term.nonzero:,} log weights of {self.label}, from "
            f"{term.edges[0]:.2g} to {term.edges[-1]:.2g} in powers of ten of their mean. "
            f"Their fitted tail {k}.",
        )
        top = int(np.nanargmax(term.log_weights)) if term.nonzero else 0
        at = ", ".join(f"{value:.3g}" for value in term.x[top])
        describe(
            self.scatter,
            f"Weights of {self.label} against x, {draws:,} draws. The largest is at {at}, and "
            f"makes up {_percent(term.largest)} of the sum.",
        )

    def _histogram(self, painter: Painter) -> figure:
        shown = picture(
            f"diagnostics-weights-{self._name}",
            alternative="Histogram of log weights.",
            x_label="log₁₀ weight / mean weight",
            y_label="draws",
            height=230,
            y_axis_type="log",
            x_range=Range1d(-1, 1),
            y_range=Range1d(LEAST_HEIGHT, 1000),
        )
        _narrow(shown)
        bars = shown.quad(
            left="left",
            right="right",
            bottom=LEAST_HEIGHT / 100,
            top="height",
            source=self.bars,
            fill_alpha=0.55,
            line_alpha=0,
        )
        tail = shown.line("x", "height", source=self.tail, line_width=2.5)
        painter.follow(bars.glyph, self._style, "fill_color")
        painter.follow(tail.glyph, SHAPES["threshold"], "line_color")
        add_hover(
            shown, bars, [("weights", "10^@left{0.00} to 10^@right{0.00}"), ("draws", "@height")]
        )
        add_legend(shown, [("weights", [bars]), ("fitted Pareto tail", [tail])])
        return shown

    def _scatter(self, painter: Painter) -> figure:
        shown = picture(
            f"diagnostics-scatter-{self._name}",
            alternative="Weights against x.",
            x_label="x",
            y_label="log₁₀ weight / mean",
            height=230,
            x_range=Range1d(-1, 1),
            y_range=Range1d(-1, 1),
        )
        _narrow(shown)
        dots = shown.scatter(
            "x", "weight", source=self.points, size=4, fill_alpha=0.45, line_alpha=0
        )
        painter.follow(dots.glyph, self._style, "fill_color")
        add_hover(shown, dots, [("x", "@x{0.000}"), ("weight / mean", "10^@weight{0.000}")])
        return shown


def _about(found: Diagnosis, colour: str) -> str:
    """The verdict in words."""
    words = VERDICTS[found.level].label
    if found.reasons:
        items = "".join(f"<li>{_sentence(reason)}</li>" for reason in found.reasons)
        text = f'<ul aria-label="Why">{items}</ul>'
    else:
        text = f"<p>{_sentence(found.text.partition(': ')[2])}</p>"
    if found.asked < found.draws:
        same = found.asked_text.startswith(found.level)
        alone = "would say the same" if same else f"say: {_sentence(found.asked_text)[:-1]}"
        text += (
            f"<p>These are {found.draws:,} draws from each proposal, so that tails can be seen; "
            f"your {found.asked:,} alone {alone}.</p>"
        )
    return (
        f'<div class="verdict" role="status" style="--level: {colour}">'
        f'<div class="level">{words}</div>{text}</div>'
    )


def _sentence(words: str) -> str:
    return escape(_in_symbols(words[:1].upper() + words[1:])) + "."


def _meter(term: TermWeights, draws: int, label: str, proposal: str, dark: bool) -> str:
    good, some, bad = (VERDICTS[level].colour(dark) for level in LEVELS)
    limit, end = _place(term.threshold), _place(LARGEST_K)
    track = (
        f"background: linear-gradient(to right, {good} {limit}%, {some} {limit}% {end}%, "
        f"{bad} {end}%)"
    )
    if term.effective >= NEARLY_ALL * draws:
        track += "; opacity: 0.4"
    marks = f'<div class="limit" style="left: {limit}%"></div>'
    if not math.isnan(term.k):
        low, high = (_place(term.k + side * term.error) for side in (-1, 1))
        if math.isfinite(term.k):
            marks += f'<div class="spread" style="left: {low}%; width: {high - low:.2f}%"></div>'
        marks += f'<div class="mark" style="left: {_place(term.k)}%"></div>'
    k = _about_k(term)
    return (
        f"<h3>{label} from {proposal}</h3>"
        f'<div class="name"><span>Pareto k-hat</span><b>{k}</b></div>'
        f'<div class="track" role="img" style="{track}" aria-label="k-hat of {label} on '
        f'{proposal}: {k}, at most {term.threshold:.2f} wanted">{marks}</div>'
        f'<div class="words">{escape(_words(term, draws, proposal))}</div>'
    )


def _about_k(term: TermWeights) -> str:
    if math.isnan(term.k):
        return "too few draws" if term.nonzero < LEAST_DRAWS else "not judged"
    if math.isinf(term.k):
        return "no tail"
    return f"{term.k:.2f} ± {term.error:.2f}".replace("-", "−")


def _words(term: TermWeights, draws: int, proposal: str) -> str:
    if term.nonzero == 0:
        return f"No draw of {proposal} counts."
    parts = []
    if term.nonzero < draws:
        parts.append(f"{term.nonzero:,} of {draws:,} draws count at all.")
    if term.effective >= NEARLY_ALL * draws:
        parts.append(
            f"{_percent(term.effective / draws)} of the draws count: weights that hardly vary do "
            "no harm, whatever their tail."
        )
    else:
        parts.append(
            f"{draws:,} draws count like {number(term.effective)} perfect ones; the largest "
            f"weight is {_percent(term.largest)} of the sum."
        )
        parts.append(f"Wanted is a k-hat surely below {term.threshold:.2f}, the dashed mark.")
    if term.missed > 1e-3:
        parts.append(f"{_percent(term.missed)} of the term lies where {proposal} hardly draws.")
    return " ".join(parts)


def _late(found: Diagnosis, along: Along) -> NDArray[np.bool_]:
    """Where the interval is narrow enough to be what the picture is scaled to."""
    late = along.draws >= SHOWN_FROM * found.draws
    return late | ~late.any()


def _place(k: float) -> float:
    """Where a k-hat stands on its gauge, in per cent of the width."""
    low, high = GAUGE
    return round(100 * min(max((k - low) / (high - low), 0.0), 1.0), 2)


def _narrow(shown: figure) -> None:
    """Fits a picture into a column: short labels of axes, and few."""
    shown.min_border_left = 56
    for axis in [*shown.xaxis, *shown.yaxis]:
        if not isinstance(axis.formatter, LogTickFormatter):
            axis.formatter = CustomJSTickFormatter(code=SHORT)
    shown.xaxis.ticker.desired_num_ticks = 4


def _ends(x: Array) -> tuple[float, float]:
    if len(x) == 0:
        return -1.0, 1.0
    low, high = float(x.min()), float(x.max())
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 1e-3 else f"{number(100 * share, 2)} %"


def _pretty(name: str, *, signed: bool) -> str:
    """E1_plus as E₁⁺, or as E₁ where f takes one sign."""
    short = name.replace("_plus", "+" if signed else "").replace("_minus", "-")
    return _in_symbols(short)


def _in_symbols(text: str) -> str:
    """E1+ as E₁⁺, q2 as q₂, mu as μ."""

    def symbol(found: re.Match[str]) -> str:
        sign = {"+": "⁺", "-": "⁻", None: ""}[found[3]]
        return f"{found[1]}{_subscript(int(found[2]))}{sign}"

    return re.sub(r"\b([Eq])([12])([+-])?", symbol, re.sub(r"\bmu\b", "μ", text))


def _subscript(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


SHORT = 'return Number(tick.toPrecision(4)).toString().replaceAll("-", "−")'
EMPTY = '<div class="verdict"><p>Draws are on their way.</p></div>'
HELP = (
    "The weight of a draw says how much it brings to a term: f p(x, y) / q₁ for E₁, p(x, y) / q₂ "
    "for E₂. With a perfect proposal all weights are equal, and the histogram is one spike at 0. "
    "What does harm is a tail to the right: few draws that bring much, and worse ones still to "
    "come. The curve is the generalised Pareto distribution fitted to the largest weights; its "
    "shape k-hat is the tail's heaviness: beyond 0.5 the weights have no variance, beyond 1 no "
    "mean. Fewer draws can vouch only for lighter tails: the dashed mark is the most that these "
    "can. Below the histogram you see where in x the large weights are. A term's draws cannot "
    "show what they have never reached: where other proposals' draws do, the verdict says so."
)
