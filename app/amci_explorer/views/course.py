r"""How the tumour may develop after its two measurements."""

from __future__ import annotations

__all__ = ["CourseView"]

from bokeh.models import ColumnDataSource, LogTicker, Range1d
from bokeh.plotting import figure

from amci_explorer.numbers.tumour import Course
from amci_explorer.plots.colours import SHAPES
from amci_explorer.text import number
from amci_explorer.views.figures import (
    Theme,
    decimal_step_above,
    describe,
    pane,
    picture,
    set_range,
)
from amci_explorer.views.layout import HTML, column
from amci_explorer.views.legends import add_legend

# Ends of the axis of sizes change in steps, so that it can be read while a handle moves.
STEPS = (1.0, 2.0, 5.0, 10.0)
TEXT = "p { margin: 0.5rem 0 0 0; font-size: var(--text); }"


class CourseView:
    """Creates the picture, empty; `show` fills it."""

    def __init__(self) -> None:
        self._painter = painter = Theme()
        self.figure: figure = picture(
            "course",
            alternative="Tumour size against days.",
            x_label="days since admission",
            y_label="size, log scale",
            height=150,
            x_range=Range1d(-2, 102),
            y_range=Range1d(10, 10_000),
            y_axis_type="log",
        )
        self.figure.yaxis.ticker = LogTicker(mantissas=[1, 2, 5], desired_num_ticks=5)
        self._text = HTML("", TEXT)
        self._sources = {
            name: ColumnDataSource({column: [] for column in columns}, name=f"course-{name}")
            for name, columns in {
                "band": ("days", "low", "median", "high"),
                "draws": ("xs", "ys"),
                "points": ("days", "sizes"),
            }.items()
        }
        band, draws, points = self._sources.values()
        area = self.figure.varea("days", "low", "high", source=band, fill_alpha=0.25)
        thin = self.figure.multi_line("xs", "ys", source=draws, line_alpha=0.45, line_width=1)
        median = self.figure.line("days", "median", source=band, line_width=2.5)
        measured = self.figure.scatter("days", "sizes", source=points, size=10, marker="diamond")
        for glyph, name, kind in (
            (area.glyph, "posterior", "fill_color"),
            (thin.glyph, "posterior", "line_color"),
            (median.glyph, "target", "line_color"),
            (measured.glyph, "measured", "fill_color"),
            (measured.glyph, "measured", "line_color"),
        ):
            painter.follow(glyph, SHAPES[name], kind)
        items = [
            ("measured", [measured]),
            ("median", [median]),
            ("middle 90 %", [area]),
            ("posterior draws", [thin]),
        ]
        add_legend(self.figure, items)
        self.panel = column(pane(self.figure), self._text)

    def show(self, found: Course) -> None:
        """Draws new courses."""
        self._sources["band"].data = {
            "days": found.days,
            "low": found.low,
            "median": found.median,
            "high": found.high,
        }
        self._sources["draws"].data = {
            "xs": [found.days] * len(found.sizes),
            "ys": list(found.sizes),
        }
        days, sizes = zip(*found.measured, strict=True)
        self._sources["points"].data = {"days": list(days), "sizes": list(sizes)}
        lowest, highest = min(found.low.min(), *sizes), max(found.high.max(), *sizes)
        low, high = (decimal_step_above(1.1 * end, STEPS) for end in (1 / lowest, highest))
        set_range(self.figure.y_range, 1 / low, high)
        self._text.object = f"<p>{_sentence(found)}</p>"

    def describe(self, found: Course) -> None:
        """Renews the text alternative; when a control is let go, not while it moves."""
        (_, first), (_, second) = found.measured
        describe(
            self.figure,
            f"Tumour size against days, measured as {first:.0f} at admission and "
            f"{second:.0f} after five days. {_sentence(found)}",
        )

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._painter.paint(dark)


def _sentence(found: Course) -> str:
    return (
        f"After 100 days the median size is {number(found.last, 3)}; the probability of success "
        f"is {number(found.probability, 3)}."
    )
