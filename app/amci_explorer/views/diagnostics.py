r"""Whether an estimate can be trusted: each term's weights, their tail, the running estimate."""

from __future__ import annotations

__all__ = ["DiagnosticsCard"]

import math
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, Range1d, Span
from bokeh.plotting import figure
from numpy.typing import NDArray

from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result
from amci_explorer.numbers.diagnosis import Along, Diagnosis
from amci_explorer.plots.colours import ESTIMATORS, SHAPES
from amci_explorer.problems.presets import coordinate_names
from amci_explorer.state.state import State
from amci_explorer.views import export
from amci_explorer.views.bound import bound
from amci_explorer.views.card import Card
from amci_explorer.views.figures import add_hover, describe, pane, picture, set_range
from amci_explorer.views.layout import HTML, column, hide, side_by_side
from amci_explorer.views.legends import add_legend
from amci_explorer.views.term import METER, STYLES, VERDICTS, TermView
from amci_explorer.words import HELP
from amci_explorer.words.diagnosis import about_verdict, about_way, pretty

# The running estimate is scaled to its interval after this share of the draws.
SHOWN_FROM = 0.03
VERDICT = """
.verdict { border-left: 5px solid var(--level); padding: 2px 0 2px 12px; min-height: 3.6em; }
.level { font-size: var(--title); font-weight: 600; line-height: 1.4; color: var(--level); }
p, li { margin: 0 0 4px 0; font-size: var(--text); line-height: 1.5; max-width: 90ch; }
ul { margin: 0; padding-left: 1.1rem; }
"""
EMPTY = '<div class="verdict"><p>Sampling …</p></div>'


class DiagnosticsCard(Card):
    """Whether an estimate can be trusted."""

    name = "diagnostics"
    title = "Diagnostics"
    unit = "steps"
    help = HELP["diagnostics"]
    drawn = ("coordinate",)

    def content(self) -> list[Any]:
        self._verdict = HTML(EMPTY, VERDICT, margin=(0, 0, 12, 0))
        self.terms = {name: TermView(name, self.painter) for name in STYLES}
        self._coordinate = bound(
            self.state,
            "coordinate",
            "Coordinate of x",
            listed=True,
            sizing_mode=None,
            width=220,
            margin=(0, 0, 8, 0),
        )
        self._place = column()
        self._there: tuple[str, ...] = ()
        self.along = ColumnDataSource(
            {name: [] for name in ("draws", "value", "low", "high", "control")},
            name="diagnostics-way",
        )
        self.figure = self._picture()
        return [
            self._verdict,
            self._coordinate,
            self._place,
            HTML("<h3>AMCI's estimate as draws are added</h3>", METER, margin=(8, 0, 0, 0)),
            pane(self.figure),
        ]

    def asked(self, case: State) -> Request:
        return Request("diagnosis", case.settings)

    def progress(self, found: Diagnosis) -> tuple[int, int]:
        return found.steps

    def clear(self) -> None:
        problem, terms = self.state.problem, self.store.terms
        hide(self._coordinate, problem.x.dim == 1)
        for name, view in self.terms.items():
            view.open(pretty(name, signed=not problem.nonnegative), self._looked)
        # A picture in a hidden place has no width, and the page waits for one: what a problem
        # does not have is not there.
        if terms != self._there:
            self._there = terms
            panels = [self.terms[name].panel for name in terms]
            self._place[:] = [side_by_side(*panels, least=300)]
        self.along.data = {name: [] for name in self.along.data}
        self._verdict.object = EMPTY
        self._drawn: tuple[Request, int] | None = None

    def draw(self, found: Diagnosis, *, complete: bool) -> None:
        if self.shown is None:
            return
        if self._drawn is None or self._drawn[0] != self.shown.asked:
            self._show_words(found)
            for term in found.terms:
                self.terms[term.name].show(term)
        self._look(self.shown)
        if found.along is not None:
            self._show_along(found, found.along)

    def redraw(self) -> None:
        if self.shown is not None:
            self._look(self.shown)

    def describe(self, found: Diagnosis) -> None:
        for term in found.terms:
            self.terms[term.name].describe(term, found.draws)
        if found.along is not None:
            describe(self.figure, about_way(found))

    def frame(self, found: Diagnosis) -> pd.DataFrame:
        return export.weights(found)

    def recolour(self, dark: bool) -> None:
        super().recolour(dark)
        if self.shown is not None:
            self._show_words(self.shown.value)

    @property
    def _looked(self) -> str:
        """What the coordinate that is looked at is called."""
        return coordinate_names(self.state.problem)[self.state.coordinate - 1]

    def _show_words(self, found: Diagnosis) -> None:
        style = VERDICTS[found.level]
        self._verdict.object = (
            f'<div class="verdict" role="status" style="--level: {style.colour(self.dark)}">'
            f'<div class="level">{style.label}</div>{about_verdict(found)}</div>'
        )
        for term in found.terms:
            self.terms[term.name].show_words(term, found.draws, self.dark)

    def _look(self, shown: Result) -> None:
        """Shows the weights against the coordinate that is looked at."""
        looked = (shown.asked, self.state.coordinate)
        if looked != self._drawn:
            self._drawn = looked
            for term in shown.value.terms:
                self.terms[term.name].look(term, self.state.coordinate - 1, self._looked)

    def _show_along(self, found: Diagnosis, along: Along) -> None:
        # Without a truth the running estimate is compared with the final one.
        known = not math.isnan(found.mu.value)
        aim = found.mu.value if known else found.estimate
        relative = abs(aim) > 1e-12
        scale = 100 / abs(aim) if relative else 1.0
        value, control, low, high = (
            scale * (each - aim) for each in (along.value, along.control, along.low, along.high)
        )
        wide = np.abs(np.concatenate([low, high, value])[np.tile(_late(found, along), 3)])
        wide = wide[np.isfinite(wide)]
        half = 1.2 * float(wide.max()) if len(wide) and wide.max() > 0 else 1.0
        of, name = ("μ", found.mu.name) if known else ("the latter", "final estimate")
        unit = f"in % of {of}" if relative else "in units of f"
        self.figure.yaxis.axis_label = f"estimate − {name}, {unit}"
        set_range(self.figure.y_range, -half, half)
        set_range(self.figure.x_range, 4, found.draws * 1.1)
        low, high = (np.clip(end, -1e3 * half, 1e3 * half) for end in (low, high))
        self.along.data = dict(draws=along.draws, value=value, low=low, high=high, control=control)

    def _picture(self) -> figure:
        shown = picture(
            "diagnostics-along",
            alternative="The estimate along the draws, with its 95 % interval.",
            x_label="draws per proposal",
            y_label="estimate − truth, in % of μ",
            height=280,
            x_axis_type="log",
            x_range=Range1d(4, 1000),
            y_range=Range1d(-1, 1),
        )
        style, other = ESTIMATORS["amci"], ESTIMATORS["amci-cv"]
        band = shown.varea("draws", "low", "high", source=self.along, fill_alpha=0.2)
        line = shown.line("draws", "value", source=self.along, line_width=2.5)
        dashed = shown.line(
            "draws", "control", source=self.along, line_width=2.5, line_dash=[5, 3]
        )
        truth = Span(location=0, dimension="width", line_width=1.5, line_dash=[4, 4])
        self.painter.follow(band.glyph, style, "fill_color")
        self.painter.follow(line.glyph, style, "line_color")
        self.painter.follow(dashed.glyph, other, "line_color")
        shown.add_layout(self.painter.follow(truth, SHAPES["threshold"], "line_color"))
        tips = [
            ("draws", "@draws{0,0}"),
            (style.label, "@value{0.00e+0}"),
            (other.short, "@control{0.00e+0}"),
            ("interval", "@low{0.00e+0} to @high{0.00e+0}"),
        ]
        add_hover(shown, [line], tips, mode="vline")
        items = [(style.label, [line]), ("95 % interval", [band]), (other.short, [dashed])]
        add_legend(shown, items)
        return shown


def _late(found: Diagnosis, along: Along) -> NDArray[np.bool_]:
    """Where the interval is narrow enough to be what the picture is scaled to."""
    late = along.draws >= SHOWN_FROM * found.draws
    return late | ~late.any()
