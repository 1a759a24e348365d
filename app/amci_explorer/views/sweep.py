r"""The picture of an evaluation: medians over cases, bands, and single cases as thin lines."""

from __future__ import annotations

__all__ = ["SweepPicture"]

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, LegendItem, Range1d
from bokeh.plotting import figure

from amci_core.estimators.draws import Array
from amci_explorer.compute.session import callback
from amci_explorer.numbers.evaluated import BUDGETS, Evaluated
from amci_explorer.plots.colours import SWEPT, Style
from amci_explorer.text import number
from amci_explorer.views.figures import Theme, add_hover, picture, set_range
from amci_explorer.views.legends import add_legend
from amci_explorer.views.near import nearest_line
from amci_explorer.words.curves import CEILING, FLOOR
from amci_explorer.words.evaluation import coordinates, share

COLUMNS = ("draws", "low", "high", "median", "settled", "open")
TEXTS = ("estimator", "error", "undetermined", "cases")
LINES = ("xs", "ys", "case", "y", "theta", "errors")
POINTS = ("draws", "value", "settled", "open")
CURRENT = Style("your case", "#e8000b", "#ff6b6b")
# Of the summary, by the band's name.
BANDS = {"runs": ("runs_q25", "runs_q75"), "cases": ("remse_q25", "remse_q75")}
# A marker is filled where the runs determine the mean of more than this share of the cases.
MOST = 0.5
# How much ink the lines of the single cases have together, each of them, and what is muted.
TOGETHER, LEAST, MOST_INK, MUTED = 10.0, 0.12, 0.45, 0.12
# Of the thin lines' errors, what may lie below the picture.
BELOW = 0.02


class SweepPicture:
    """Creates the picture, empty.

    Arguments:
        name: Its name in files and tests.
        painter: What draws it for a dark page.
        click: Called with the rank of a case whose line was clicked.
    """

    def __init__(self, name: str, painter: Theme, click: Callable[[int], None]) -> None:
        self._click = click
        self._items: dict[str, LegendItem] = {}
        self._found: Evaluated | None = None
        self._single = "amci"
        self.medians = {
            each: _source(f"{name}-{each}", (*COLUMNS, *TEXTS)) for each in SWEPT
        }  # fmt: skip
        self.lines = _source(f"{name}-cases", LINES)
        self.points = _source(f"{name}-points", POINTS)
        self.current = _source(f"{name}-current", ("draws", "value"))
        self.figure = self._made(name, painter)

    def clear(self) -> None:
        """Shows nothing."""
        self._found = None
        self._marked.visible = False
        for source in (*self.medians.values(), self.lines, self.points, self.current):
            source.data = {column: [] for column in source.data}

    def limit(self, names: Sequence[str]) -> None:
        """Makes ready for these estimators."""
        for name, item in self._items.items():
            there = name in names
            if item.visible != there:
                item.visible = there
                for part in item.renderers:
                    part.visible = there

    def show(self, found: Evaluated, *, band: str, single: str) -> None:
        """Draws an evaluation.

        Arguments:
            found: It.
            band: What the bands hold, a name of `BANDS`, or another one for none.
            single: Whose cases are thin lines.
        """
        self._found, self._single = found, single
        ends = []
        for name, source in self.medians.items():
            # The legend shows a marker that is there.
            self._items[name].index = len(found.budgets) - 1
            data = self._summary(found, name, band)
            source.data = data
            ends += [np.asarray(data[column], dtype=float) for column in ("low", "median", "high")]
        ends.append(self._show_cases(found, single))
        self._fit(found, np.concatenate(ends))

    def mark(self, rank: int | None) -> None:
        """Marks the case of that rank, or none."""
        errors = self._errors
        if rank is None or errors is None or self._found is None:
            data: dict[str, Any] = {"draws": [], "value": []}
        else:
            data = {"draws": list(self._found.budgets), "value": np.maximum(errors[rank], FLOOR)}
        self.current.data = data
        self._marked.visible = bool(len(data["draws"]))

    def colour(self, single: str, dark: bool) -> None:
        """Draws the thin lines in the colour of their estimator."""
        colour = SWEPT[single].colour(dark)
        self._thin.glyph.line_color = colour
        self._dots.glyph.update(fill_color=colour, line_color=colour)

    @property
    def _errors(self) -> Array | None:
        """Errors of the single cases, (n, B)."""
        found = self._found
        if found is None or found.cases is None or self._single not in found.cases.by_name:
            return None
        return found.cases.by_name[self._single]["remse"]

    def _summary(self, found: Evaluated, name: str, band: str) -> dict[str, Any]:
        if name not in found.estimators:
            return {column: [] for column in (*COLUMNS, *TEXTS)}
        own, count = found.estimators[name], len(found.budgets)

        def column(key: str, otherwise: float = np.nan) -> Array:
            known = own.get(key)
            return np.array([otherwise] * count if known is None else known, dtype=float)

        median, error = column("remse_median"), column("remse_median_error")
        undetermined = column("undetermined", 0.0)
        low, high = (column(key) for key in BANDS.get(band, ("", "")))
        bound = name == "bound"
        settled = (undetermined <= MOST).astype(float)
        return {
            "draws": list(found.budgets),
            "low": _clipped(low),
            "high": _clipped(high),
            "median": _clipped(median),
            "settled": settled,
            "open": np.where(np.isnan(median), 0.0, 1.0),
            "estimator": [SWEPT[name].label] * count,
            "error": [
                f"{number(m, 2)}" + ("" if np.isnan(e) else f" ± {number(e, 1)}")
                for m, e in zip(median, error, strict=True)
            ],
            "undetermined": ["none" if bound else share(part) for part in undetermined],
            "cases": [f"{found.counted:,}"] * count,
        }

    def _show_cases(self, found: Evaluated, single: str) -> Array:
        """Draws the thin lines; gives the errors that the axis is to show."""
        errors, cases, draws = self._errors, found.cases, list(found.budgets)
        if errors is None or cases is None:
            for source in (self.lines, self.points, self.current):
                source.data = {column: [] for column in source.data}
            return np.empty(0)
        own, n = cases.by_name[single], len(cases)
        ink = min(max(TOGETHER / n, LEAST), MOST_INK)
        self._thin.glyph.line_alpha = ink
        shown = _clipped(errors)
        y, theta = ([coordinates(v) or "none" for v in each] for each in (cases.y, cases.theta))
        said = [
            [
                f"{t:,} draws: {number(e, 2)} ± {number(s, 1)}"
                + ("" if judged else ", not judged")
                for t, e, s, judged in zip(draws, *row, strict=True)
                if not np.isnan(e)
            ]
            for row in zip(errors, own["remse_error"], own["determined"], strict=True)
        ]
        self.lines.data = {
            "xs": [draws] * n,
            "ys": list(shown),
            "case": cases.number,
            "y": y,
            "theta": theta,
            "errors": ["<br>".join(row) for row in said],
        }
        self.points.data = {
            "draws": np.tile(draws, n),
            "value": shown.ravel(),
            "settled": 2 * ink * own["determined"].ravel(),
            "open": np.where(np.isnan(shown.ravel()), 0.0, 2 * ink),
        }
        known = shown[np.isfinite(shown)]
        return known[known >= np.quantile(known, BELOW)] if known.size else known

    def _fit(self, found: Evaluated, values: Array) -> None:
        """Has the axes show it, in whole decades."""
        values = values[np.isfinite(values)]
        draws = found.budgets
        set_range(self.figure.x_range, draws[0] * 0.75, draws[-1] * 1.35)
        if values.size:
            ends = np.clip([values.min(), values.max()], FLOOR, CEILING)
            low, high = np.floor(np.log10(ends[0])), np.ceil(np.log10(ends[1]))
            set_range(self.figure.y_range, 10.0**low / 1.5, 10.0**high * 1.5)

    def _made(self, name: str, painter: Theme) -> figure:
        shown = picture(
            name,
            alternative="Relative mean squared error of every estimator against total draws.",
            x_label="total draws",
            y_label="relative mean squared error",
            height=460,
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(BUDGETS[0] * 0.75, BUDGETS[-1] * 1.35),
            y_range=Range1d(1e-6, 10),
        )
        self._thin = shown.multi_line("xs", "ys", source=self.lines, line_width=1, line_alpha=0.3)
        # What the pointer meets: a thin line is hard to hit.
        self._reach = shown.multi_line(
            "xs", "ys", source=self.lines, line_width=8, line_alpha=0, name=f"{name}-reach"
        )
        self._dots = shown.scatter("draws", "value", source=self.points, size=5)
        self._dots.glyph.update(fill_alpha="settled", line_alpha="open", line_width=1)
        for each, style in SWEPT.items():
            self._items[each] = LegendItem(
                label=style.label, renderers=self._curve(shown, each, style, painter)
            )
        mark = shown.line("draws", "value", source=self.current, line_width=3)
        painter.follow(mark.glyph, CURRENT, "line_color")
        self._hovers(shown)
        self._marked = LegendItem(label=CURRENT.label, renderers=[mark], visible=False)
        thin = LegendItem(label="single cases", renderers=[self._thin, self._dots])
        add_legend(shown, [*self._items.values(), thin, self._marked], click_policy="mute")
        shown.on_event("tap", callback(lambda event: self._tap(event.x, event.y)))
        return shown

    def _curve(self, shown: figure, name: str, style: Style, painter: Theme) -> list[Any]:
        source, bound = self.medians[name], name == "bound"
        line = shown.line("draws", "median", source=source, line_width=2 if bound else 3)
        line.glyph.line_dash = list(style.dash) or "solid"
        painter.follow(line.glyph, style, "line_color")
        dots = shown.scatter("draws", "median", source=source, size=4 if bound else 9, name=name)
        dots.glyph.update(fill_alpha="settled", line_alpha="open", line_width=1.5)
        painter.follow(dots.glyph, style, "fill_color", "line_color")
        if bound:
            return [line, dots]
        band = shown.varea("draws", "low", "high", source=source, fill_alpha=0.14)
        painter.follow(band.glyph, style, "fill_color")
        return [line, band, dots]

    def _hovers(self, shown: figure) -> None:
        median = [
            ("median of", "@estimator, @draws{0,0} total draws"),
            ("error", "@error"),
            ("cases", "@cases; not judged: @undetermined"),
        ]
        case = [("case", "@case"), ("y", "@y"), ("θ", "@theta"), ("error", "@errors{safe}")]
        # Both may be below the pointer: each has its own side.
        medians = add_hover(shown, [item.renderers[-1] for item in self._items.values()], median)
        medians.update(attachment="left", limit=1)
        add_hover(shown, [self._reach], case).update(attachment="right", limit=1)

    def let_mute(self, painter: Theme) -> None:
        """Makes what is muted faint: by itself only what is filled would be."""
        for name, item in self._items.items():
            for part in item.renderers:
                colours = [n for n in ("line_color", "fill_color") if hasattr(part.glyph, n)]
                alphas = [n for n in ("line_alpha", "fill_alpha") if hasattr(part.glyph, n)]
                part.muted_glyph = part.glyph.clone(**dict.fromkeys(alphas, MUTED))
                painter.follow(part.muted_glyph, SWEPT[name], *colours)

    def _tap(self, x: float, y: float) -> None:
        errors = self._errors
        if errors is None or self._found is None:
            return
        draws = np.array(self._found.budgets, dtype=float)
        rank = nearest_line(self.figure, (x, y), draws, _clipped(errors))
        if rank is not None:
            self._click(rank)


def _clipped(errors: Array) -> Array:
    """Errors that a logarithmic axis can show; NaN stays."""
    return np.asarray(np.where(np.isfinite(errors), np.clip(errors, FLOOR, CEILING), np.nan))


def _source(name: str, columns: tuple[str, ...]) -> ColumnDataSource:
    return ColumnDataSource({column: [] for column in columns}, name=name)
