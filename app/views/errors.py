r"""Error against total draws, as the runs come in."""

from __future__ import annotations

__all__ = ["ErrorView"]

import time
from collections.abc import Sequence

import numpy as np
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, LegendItem, Range1d
from bokeh.plotting import figure

from amci_core.errors import Curve, ErrorCurves
from amci_core.estimators.draws import Array
from app.colours import ESTIMATORS, SHAPES
from app.store import BUDGETS
from app.summary import number
from app.views.figures import Painter, add_hover, add_legend, describe, pane, picture, set_range
from app.views.inputs import choice, progress
from app.views.layout import HTML, card, row

# Relative squared errors outside of these are drawn at the edge, and named below the picture:
# 1e-18 is what rounding leaves of an exact estimate, and then some.
FLOOR, CEILING = 1e-18, 1e3
COLUMNS = ("draws", "low", "median", "high", "mean", "settled", "open")
STATUS = "p { margin: 0; font-size: 0.85rem; font-variant-numeric: tabular-nums; }"
NOTE = "p { margin: 4px 0 0 0; font-size: 0.85rem; min-height: 1.3em; opacity: 0.85; }"


class ErrorView:
    """Creates the picture with its progress, empty; `show` fills it."""

    def __init__(self) -> None:
        self._painter = Painter()
        self._latest: ErrorCurves | None = None
        self._started = 0.0
        self.relative = True
        self._items: dict[str, LegendItem] = {}
        self.sources = {
            name: ColumnDataSource({c: [] for c in COLUMNS}, name=f"errors-{name}")
            for name in ESTIMATORS
        }
        self._guide = ColumnDataSource({"draws": [], "error": []}, name="errors-guide")
        self.figure = self._picture()
        self.progress = progress()
        self.status = HTML("<p></p>", STATUS, styles={"flex": "1 1 auto"})
        self.button = pmui.Button(label="Cancel", size="small", variant="outlined", margin=0)
        self.measure = choice("Measure of error", {"ReMSE": True, "MSE": False}, value=True)
        self.note = HTML("<p></p>", NOTE)
        self.panel = card(
            "Error against draws",
            pane(self.figure),
            self.note,
            self.progress,
            row(self.status, self.button),
            tools=[self.measure],
            help_text=(
                "Every estimator is run many times with the same total number of draws. The line "
                "is the median squared error, the band holds the middle half of the runs, the "
                "dots are the mean, open ones where the runs do not settle it: more runs can move "
                "it by orders. ReMSE is the squared error in units of μ²: 1 is what the answer 0 "
                "would get. The dashed bound is the least mean squared error of "
                "self-normalised importance sampling as the draws grow; it is asymptotic, so a "
                "few draws can do better. Click a name in the legend to hide its curve."
            ),
        )

    def open(self, names: tuple[str, ...]) -> None:
        """Makes ready for a problem in which these estimators are at work."""
        self._latest = None
        for name, item in self._items.items():
            item.visible = name in names
            for part in item.renderers:
                part.visible = name in names
            self.sources[name].data = {column: [] for column in COLUMNS}
        self._guide.data = {"draws": [], "error": []}
        self.note.object = "<p></p>"

    def show(self, found: ErrorCurves) -> None:
        """Draws the curves over the runs so far, and says how far that is."""
        self._latest = found
        self._show_progress(found)
        self._draw(found)

    def _draw(self, found: ErrorCurves) -> None:
        draws = found.budgets
        # In units of f squared where errors are absolute.
        scale = 1.0 if self.relative else _unit(found)
        for name, curve in found.by_name.items():
            low, median, high = _clipped(self._quartiles(curve), scale)
            mean = _clipped(curve.remse if self.relative else curve.mse, scale)
            data = {"draws": draws, "low": low, "median": median, "high": high, "mean": mean}
            # Judged once all runs are there: the tails of their errors take a while to fit.
            settled = curve.mean_judged if _complete(found) else np.zeros(len(draws))
            data |= {"settled": settled.astype(float)}
            data |= {"open": 1 - data["settled"]}
            self.sources[name].data = data
        low_end, high_end = self._extent(found)
        set_range(self.figure.y_range, low_end * scale, high_end * scale)
        self._show_guide(found, scale)
        self.note.object = f"<p>{self._outside(found)}</p>"

    def _quartiles(self, curve: Curve) -> Array:
        return curve.remse_quartiles if self.relative else curve.mse_quartiles

    def set_relative(self, relative: bool) -> None:
        """Shows ReMSE, or MSE."""
        self.relative = relative
        self.figure.yaxis.axis_label = _label(relative)
        if self._latest is not None:
            self._draw(self._latest)

    def fit(self, found: ErrorCurves) -> None:
        """Lets the axis of draws begin and end with these curves."""
        set_range(self.figure.x_range, *_ends(found.budgets.tolist()))

    def begin(self) -> None:
        """A computation has started."""
        self._started = time.monotonic()
        self.progress.value = 0
        self.status.object = "<p>starting</p>"
        self.button.param.update(label="Cancel", disabled=False)

    def stop(self) -> None:
        """The computation was called off."""
        at = f" after {self._latest.runs:,} runs" if self._latest else ""
        self.status.object = f"<p>cancelled{at}</p>"
        self.button.label = "Run again"

    def end(self) -> None:
        """The computation is over."""
        self.button.disabled = True
        if self._latest is not None:
            seconds = time.monotonic() - self._started
            self.status.object = f"<p>{self._latest.runs:,} runs in {seconds:.1f} s</p>"
            self.describe(self._latest)

    def _show_progress(self, found: ErrorCurves) -> None:
        left = (time.monotonic() - self._started) * (found.runs_wanted / found.runs - 1)
        self.progress.value = round(100 * found.runs / found.runs_wanted)
        self.status.object = (
            f"<p>{found.runs:,} of {found.runs_wanted:,} runs, {left:.0f} s left</p>"
        )

    def describe(self, found: ErrorCurves) -> None:
        """Renews the text alternative, when the curves are complete."""
        ends = ", ".join(
            f"{ESTIMATORS[name].label} {number(float(curve.remse_median[-1]), 2)}"
            for name, curve in found.by_name.items()
        )
        describe(
            self.figure,
            f"Median relative squared error at {found.budgets[-1]:,} draws in all: {ends}.",
        )

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._painter.paint(dark)

    def _picture(self) -> figure:
        shown = picture(
            "errors",
            alternative="Squared error of every estimator against total draws.",
            x_label="draws in all",
            y_label=_label(True),
            height=434,
            x_axis_type="log",
            y_axis_type="log",
            x_range=Range1d(*_ends(BUDGETS)),
            y_range=Range1d(1e-6, 10),
        )
        guide = shown.line("draws", "error", source=self._guide, line_width=1.5)
        guide.glyph.line_dash = list(SHAPES["guide"].dash)
        self._painter.follow(guide.glyph, SHAPES["guide"], "line_color")
        for name, style in ESTIMATORS.items():
            source = self.sources[name]
            line = shown.line(
                "draws",
                "median",
                source=source,
                line_width=1.8 if name == "bound" else 2.5,
                line_dash=list(style.dash) or "solid",
                name=name,
            )
            self._painter.follow(line.glyph, style, "line_color")
            parts = [line]
            if name != "bound":
                band = shown.varea("draws", "low", "high", source=source, fill_alpha=0.16)
                dots = shown.scatter("draws", "mean", source=source, size=4)
                dots.glyph.update(fill_alpha="settled", line_alpha="open")
                self._painter.follow(band.glyph, style, "fill_color")
                self._painter.follow(dots.glyph, style, "fill_color")
                self._painter.follow(dots.glyph, style, "line_color")
                parts += [band, dots]
                tips = [
                    (style.label, "@draws{0,0} draws in all"),
                    ("median", "@median{0.00e+0}"),
                    ("middle half", "@low{0.00e+0} to @high{0.00e+0}"),
                    ("mean", "@mean{0.00e+0}"),
                ]
                add_hover(shown, dots, tips)
            self._items[name] = LegendItem(label=style.label, renderers=parts)
        last = LegendItem(label=SHAPES["guide"].label, renderers=[guide])
        add_legend(shown, [*self._items.values(), last], click_policy="hide")
        return shown

    def _show_guide(self, found: ErrorCurves, scale: float) -> None:
        # Between AMCI and the bound at the first budget that is enough for both.
        first = min(int(np.isnan(found["amci"].mse).sum()), len(found.budgets) - 1)
        unit = _unit(found)
        ends = [max(float(found[name].mse[first] / unit), FLOOR) for name in ("amci", "bound")]
        start = float(np.sqrt(ends[0] * ends[1]))
        draws = found.budgets[[first, -1]].astype(float)
        self._guide.data = {"draws": draws, "error": start * scale * draws[0] / draws}

    @staticmethod
    def _extent(found: ErrorCurves) -> tuple[float, float]:
        """Whole decades around all curves, in units of mu squared."""
        unit = _unit(found)
        values = np.concatenate(
            [
                np.ravel([c.mse_quartiles[0] / unit, c.mse_quartiles[2] / unit, c.mse / unit])
                for c in found.by_name.values()
            ]
        )
        values = np.clip(values[np.isfinite(values)], FLOOR, CEILING)
        if not values.size:
            return FLOOR, CEILING
        low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
        return 10.0**low / 1.5, 10.0**high * 1.5

    @staticmethod
    def _outside(found: ErrorCurves) -> str:
        notes = []
        if np.isnan(found.truth_error):
            notes.append("μ is 0 here, so that there is no relative error: choose MSE.")
        for name, curve in found.by_name.items():
            label, median = ESTIMATORS[name].label, curve.remse_median
            if curve.failed.any():
                failed = number(float(curve.failed.max()), 6)
                notes.append(f"{label} failed in {failed} of {found.runs:,} runs.")
            if _complete(found) and not curve.median_judged[~np.isnan(curve.mse)].all():
                notes.append(f"{label}: the runs do not settle every median.")
            if np.isnan(median).all():
                continue
            if np.nanmin(median) > CEILING:
                middle = number(float(_middle(median)), 2)
                notes.append(f"{label} lies above the picture, at {middle}.")
            elif np.nanmax(median) < FLOOR and name != "bound":
                notes.append(f"{label} is exact to rounding.")
        if any(curve.truth_matters.any() for curve in found.by_name.values()):
            notes.append("The reference value is not known well enough for the smallest errors.")
        return " ".join(notes)


def _clipped(errors: Array, scale: float) -> Array:
    return np.clip(errors, FLOOR * scale, None)


def _complete(found: ErrorCurves) -> bool:
    return found.runs >= found.runs_wanted


def _unit(found: ErrorCurves) -> float:
    """mu squared, or 1 where mu is zero."""
    return float(np.square(next(iter(found.by_name.values())).truth.unit))


def _ends(budgets: Sequence[int]) -> tuple[float, float]:
    return budgets[0] * 0.85, budgets[-1] * 1.15


def _middle(values: Array) -> float:
    return float(values[len(values) // 2])


def _label(relative: bool) -> str:
    return "ReMSE: squared error / μ²" if relative else "MSE: squared error"
