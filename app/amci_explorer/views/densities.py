r"""Proposals on the line in two panels: what q2 must match above, what q1 must match below."""

from __future__ import annotations

__all__ = ["DensityView", "Lines"]

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Label, Range1d, Span, Title
from bokeh.plotting import figure

from amci_core.estimators.draws import Array
from amci_core.models import Problem
from amci_explorer.js.scripts import SHARED
from amci_explorer.numbers import SMALLEST_DENSITY
from amci_explorer.numbers.line import LineDensities
from amci_explorer.numbers.pictures import picture_of
from amci_explorer.plots.colours import SHAPES, label
from amci_explorer.server.session import callback
from amci_explorer.views.figures import (
    Theme,
    add_hover,
    at_most,
    describe,
    pane,
    picture,
    set_range,
    step_above,
)
from amci_explorer.views.inputs import choice
from amci_explorer.views.layout import HTML, card, column, explain, sections
from amci_explorer.views.slider import Slider
from amci_explorer.words import HELP

# The panels from top to bottom: areas to match, and the lines of the proposals that match them.
PANELS = {name: (each["wanted"], each["learnt"]) for name, each in SHARED["PANELS"].items()}
DRAWN = [name for both in PANELS.values() for names in both for name in names]
CAPTIONS = {
    "q2": "what q₂ must match: the posterior p(x | y)",
    "q1": "what q₁ must match: f(x; θ) p(x | y), rescaled",
}
# Of the panels in pixels, the lower one with its axis.
HEIGHTS, RATIO_HEIGHT = (146, 194), 160
# And at most on a low screen.
LOWER = (82, 122)
# A proposal higher than so many times its target leaves the panel; above either is some room.
HIGHEST, ROOM = SHARED["HIGHEST"], SHARED["ROOM"]
# The logarithmic axis, in units of the highest density.
DECADES = SHARED["DECADES"]
# A share of the axis narrower than a pixel: so near its ends a density may be infinite.
SLIVER = 2e-3
# A name stands beside its line where that has this share of its height, on the left if that is
# farther right than this share of the axis.
FLANK, FAR_RIGHT = SHARED["FLANK"], SHARED["FAR_RIGHT"]
# Height of draws' ticks, as a share of the panel.
TICK_HEIGHT = 0.03
# Ends of the axis of log-ratios, in nats.
HALF_HEIGHTS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Lines:
    """Creates the two panels over one coordinate, each scaled to itself; `show` fills them.

    Where E2 is known there is no q2, and the lower panel is alone.

    Arguments:
        name: What the panels' names begin with.
        source: Their data, with a column for each density; `source_of` makes it.
        theme: Colours them.
        x_range: Of both.
        heights: In pixels, from top to bottom.
        logarithmic: Whether their y axes are.
    """

    def __init__(
        self,
        name: str,
        source: ColumnDataSource,
        theme: Theme,
        *,
        x_range: Range1d,
        heights: tuple[int, int] = HEIGHTS,
        logarithmic: bool = False,
    ) -> None:
        self._source, self._logarithmic, self._heights = source, logarithmic, heights
        self._arranged: Any = None
        columns: dict[str, list[float]] = {each: [] for each in ("q2", "q1", "q1_minus")}
        self._draws = ColumnDataSource(columns, name=f"{source.name}-draws")
        self._threshold = ColumnDataSource({"x": []}, name=f"{source.name}-threshold")
        self._parts: dict[str, list[Any]] = {}
        self._names: dict[str, Label] = {}
        self._captions: dict[str, Title] = {}
        self._hovers: dict[str, Any] = {}
        ending = "-log" if logarithmic else ""
        self.figures = {
            panel: self._figure(f"{name}-{panel}{ending}", panel, theme, x_range)
            for panel in PANELS
        }
        self._panes = {panel: pane(shown) for panel, shown in self.figures.items()}
        self.panel = column()

    def show(self, found: LineDensities) -> None:
        """Draws new densities."""
        signed, has_q2 = found.target_minus is not None, found.q2 is not None
        if (signed, has_q2, found.variant) != self._arranged:
            self._arrange(signed, has_q2, found.variant)
        columns, missing = found.columns, np.full(len(found.x), np.nan)
        self._source.data = {name: columns.get(name, missing) for name in ("x", *DRAWN)}
        self._threshold.data = {"x": [] if found.threshold is None else [found.threshold]}
        (low, high), sliver = found.extent, SLIVER * np.ptp(found.extent)
        inside = slice(*np.searchsorted(found.x, [low + sliver, high - sliver]))
        for panel, (wanted, learnt) in PANELS.items():
            rows = {n: columns[n][inside] for n in (*wanted, *learnt) if n in columns}
            self._scale(panel, rows)
            peaks = {n: int(np.nan_to_num(rows[n]).argmax()) for n in learnt if n in rows}
            for name in peaks:
                # Of two lines the left one has its name at its left.
                left = peaks[name] < max(peaks.values())
                self._place_name(name, panel, found.x[inside], rows[name], left=left)

    def show_draws(self, draws: Mapping[str, Array]) -> None:
        """Marks draws of the proposals, of equal number; of none, no marks."""
        count = len(next(iter(draws.values()), ()))
        if count or len(self._draws.data["q1"]):
            missing = np.full(count, np.nan)
            self._draws.data = {name: draws.get(name, missing) for name in self._draws.data}

    def describe(self, text: str) -> None:
        """Renews the text alternatives."""
        for panel, shown in self.figures.items():
            describe(shown, f"{CAPTIONS[panel].capitalize()}. {text}")

    def _figure(self, name: str, panel: str, theme: Theme, x_range: Range1d) -> figure:
        is_last = panel == "q1"
        shown = picture(
            name,
            alternative="Proposals, and what they must match.",
            x_label="x",
            y_label="density",
            height=self._heights[is_last],
            # The axis is one, and so are the tools that move it: as many as there is room for.
            tools="pan,box_zoom,reset" if is_last else "",
            x_range=x_range,
            y_range=Range1d(*(DECADES if self._logarithmic else (0, 1))),
            y_axis_type="log" if self._logarithmic else "linear",
        )
        shown.stylesheets = [*shown.stylesheets, at_most(LOWER[is_last])]
        shown.xaxis.visible = is_last
        shown.yaxis.visible = self._logarithmic
        shown.yaxis.ticker.desired_num_ticks = 3
        shown.ygrid.visible = False
        shown.min_border_left = 60 if self._logarithmic else 12
        caption = Title(text=CAPTIONS[panel], text_font_size="12px", text_font_style="normal")
        shown.add_layout(theme.follow(caption, SHAPES["target"], "text_color"), "above")
        self._captions[panel] = caption
        bottom = SMALLEST_DENSITY if self._logarithmic else 0
        wanted, learnt = PANELS[panel]
        for each in wanted:
            area = shown.varea("x", bottom, each, source=self._source, fill_alpha=0.3)
            theme.follow(area.glyph, SHAPES["target"], "fill_color")
            self._parts[each] = [area]
        bounds = shown.vspan("x", source=self._threshold, line_width=1.5)
        bounds.glyph.line_dash = list(SHAPES["threshold"].dash)
        theme.follow(bounds.glyph, SHAPES["threshold"], "line_color")
        shown.extra_y_ranges = {"ticks": Range1d(0, 1)}
        for each in learnt:
            style = SHAPES[each]
            line = shown.line("x", each, source=self._source, name=each, line_width=2.5)
            theme.follow(line.glyph, style, "line_color")
            ticks = shown.scatter(each, TICK_HEIGHT, source=self._draws, y_range_name="ticks")
            ticks.glyph.update(marker="dash", angle=math.pi / 2, size=8, line_alpha=0.55)
            ticks.tags = ["draws"]
            theme.follow(ticks.glyph, style, "line_color")
            words = Label(x=0, y=0, text="", text_font_size="13px", text_font_style="bold")
            words.name = f"{name}-{each}-name"
            shown.add_layout(theme.follow(words, style, "text_color"))
            self._parts[each], self._names[each] = [line, ticks, words], words
        self._hovers[panel] = add_hover(shown, [self._parts[learnt[0]][0]], [], mode="vline")
        return shown

    def _arrange(self, signed: bool, has_q2: bool, variant: str) -> None:
        """Names what there is, and hides what there is not."""
        self._arranged = signed, has_q2, variant
        for name, parts in self._parts.items():
            for part in parts:
                part.visible = signed or not name.endswith("_minus")
        for name, words in self._names.items():
            words.text = label(name, signed=signed, variant=variant)
        f = "f⁺ p(x | y) and f⁻ p(x | y)" if signed else "f(x; θ) p(x | y)"
        which = "q₁⁺ and q₁⁻" if signed else "q₁"
        self._captions["q1"].text = f"what {which} must match: {f}, rescaled"
        for panel, (wanted, learnt) in PANELS.items():
            there = [n for n in (*wanted, *learnt) if signed or not n.endswith("_minus")]
            tips = [(label(n, signed=signed, variant=variant), f"@{n}{{0.0000}}") for n in there]
            self._hovers[panel].tooltips = [("x", "@x{0.00}"), *tips]
        self.figures["q1"].height = self._heights[1] if has_q2 else sum(self._heights)
        panes = [self._panes[panel] for panel in PANELS if has_q2 or panel == "q1"]
        if list(self.panel) != panes:
            self.panel[:] = panes

    def _scale(self, panel: str, rows: Mapping[str, Array]) -> None:
        wanted, learnt = (
            max((np.nanmax(rows[n], initial=0.0) for n in names if n in rows), default=0.0)
            for names in PANELS[panel]
        )
        # A bad proposal can be a spike: it may leave the panel, what it must match may not.
        top = max(wanted, min(learnt, HIGHEST * wanted)) or learnt or 1.0
        low, high = DECADES if self._logarithmic else (0.0, ROOM)
        set_range(self.figures[panel].y_range, low * top, high * top)

    def _place_name(self, name: str, panel: str, x: Array, density: Array, *, left: bool) -> None:
        """Puts a line's name beside its right flank, or its left one where there is no room."""
        high = np.flatnonzero(density >= FLANK * np.nanmax(density, initial=0.0))
        if not len(high):
            return
        shown = self.figures[panel]
        start, end = shown.x_range.start, shown.x_range.end
        left = left or x[high[-1]] > start + FAR_RIGHT * (end - start)
        at = high[0] if left else high[-1]
        self._names[name].update(
            x=x[at],
            # Within the panel, if the line leaves it.
            y=min(density[at], 0.8 * shown.y_range.end),
            x_offset=-8 if left else 8,
            text_align="right" if left else "left",
        )


def source_of(name: str) -> ColumnDataSource:
    """What `Lines` draw, empty."""
    return ColumnDataSource({each: [] for each in ("x", *DRAWN)}, name=name)


class DensityView:
    """Creates the pictures of any problem on the line, empty; `show` fills them.

    Panels on linear and on logarithmic axes are figures of their own, of which one pair is part of
    the page.
    """

    look: Mapping[str, Any] = MappingProxyType({})

    def __init__(self) -> None:
        self._theme, self._dark = Theme(), False
        self._latest: LineDensities | None = None
        self._draws: Mapping[str, Array] = {}
        self._source, self._x_range = source_of("densities"), Range1d(0, 1)
        self._made: dict[bool, Lines] = {}
        self._lines = self._on_axes(False)
        # The line of theta goes through both panels, down to the axis.
        self.handle = Slider(
            label="Line of θ in the picture",
            figure="densities-q1",
            moves=["theta", 0],
            disabled=True,
            styles={
                "position": "absolute",
                "inset": "18px 0 auto",
                "height": "calc(100% - 62px)",
                "pointer-events": "none",
            },
        )
        self._place = column(self._lines.panel, self.handle, styles={"position": "relative"})
        self._ratio = LogRatio(self._x_range)
        scale = choice("Scale of the densities", {"linear": False, "log": True}, value=False)
        self.choices: Mapping[str, Any] = {"logarithmic": scale}
        self._help, self._remark = HTML(), HTML()
        self.panel = card(
            "Proposals",
            self._place,
            self._remark,
            self._ratio.panel,
            tools=[scale],
            help_text=self._help,
        )

    @property
    def figure(self) -> figure:
        """The picture of q1."""
        return self._lines.figures["q1"]

    def open(self, problem: Problem) -> None:
        """Makes ready for a problem."""
        self._latest = None
        explain(self._help, HELP[picture_of(problem).help])

    def show(self, found: LineDensities) -> None:
        """Draws new densities."""
        self._latest = found
        set_range(self._x_range, *found.extent)
        self._lines.show(found)
        self._ratio.show(found)
        self._remark.object = found.doubt

    def show_draws(self, draws: Mapping[str, Array]) -> None:
        """Marks where draws of the proposals lie."""
        self._draws = draws
        self._lines.show_draws(draws)

    def describe(self, found: LineDensities) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        self._lines.describe(found.about())

    def set_scale(self, logarithmic: bool) -> None:
        """Shows the densities on a linear or a logarithmic axis."""
        self._lines = self._on_axes(logarithmic)
        if self._latest is not None:
            self._lines.show(self._latest)
            self._lines.show_draws(self._draws)
        if self._place[0] is not self._lines.panel:
            self._place[:] = [self._lines.panel, self.handle]
            self.handle.figure = self._lines.figures["q1"].name

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._dark = dark
        self._theme.paint(dark)
        self._ratio.recolour(dark)

    def _on_axes(self, logarithmic: bool) -> Lines:
        """The panels on these axes, made when they are first looked at."""
        if logarithmic not in self._made:
            self._made[logarithmic] = Lines(
                "densities",
                self._source,
                self._theme,
                x_range=self._x_range,
                logarithmic=logarithmic,
            )
            self._theme.paint(self._dark)
        return self._made[logarithmic]


class LogRatio:
    """How far q1 is from what it must match, on a logarithmic scale; made when it is unfolded."""

    def __init__(self, x_range: Range1d) -> None:
        self._x_range, self._theme, self._dark = x_range, Theme(), False
        self._place = column()
        self.panel = sections(("Log-ratio of q₁ to its target", self._place))
        self.panel.param.watch(callback(lambda _: self._unfold()), "active")
        self._figure: figure | None = None
        self._latest: LineDensities | None = None
        columns: dict[str, Any] = {name: [] for name in ("x", "q1", "q1_minus")}
        self._source = ColumnDataSource(columns, name="log-ratio-data")

    def show(self, found: LineDensities) -> None:
        """Draws new log-ratios; where g is zero there is none."""
        self._latest = found
        if self._figure is None:
            return
        (low, high), x = found.region, found.x
        columns = {name: np.full(len(x), np.nan) for name in ("q1", "q1_minus")}
        largest = 0.0
        for name, log_ratio, g in (
            ("q1", found.log_ratio, found.target),
            ("q1_minus", found.log_ratio_minus, found.target_minus),
        ):
            if log_ratio is not None and g is not None:
                there = np.isfinite(log_ratio)
                columns[name][there] = log_ratio[there]
                within = (x > low) & (x <= high) if name == "q1" else g > 0.01 * np.nanmax(g)
                largest = max(largest, np.abs(log_ratio[there & within]).max(initial=0.0))
        self._source.data = {"x": x, **columns}
        half = step_above(1.1 * largest, HALF_HEIGHTS)
        set_range(self._figure.y_range, -half, half)

    def recolour(self, dark: bool) -> None:
        """Draws it for a page of that theme."""
        self._dark = dark
        self._theme.paint(dark)

    def _unfold(self) -> None:
        if self._figure is not None or not self.panel.active:
            return
        self._figure = shown = picture(
            "log-ratio",
            alternative="Log-ratio of q1 to g over x, in nats.",
            x_label="x",
            y_label="log(q₁ / g), nats",
            height=RATIO_HEIGHT,
            tools="box_zoom,reset",
            x_range=self._x_range,
            y_range=Range1d(-0.1, 0.1),
        )
        shown.yaxis.ticker.desired_num_ticks = 5
        zero = Span(location=0, dimension="width", line_width=1)
        shown.add_layout(self._theme.follow(zero, SHAPES["target"], "line_color"))
        lines = {
            name: shown.line("x", name, source=self._source, name=name, line_width=2.5)
            for name in ("q1", "q1_minus")
        }
        for name, line in lines.items():
            self._theme.follow(line.glyph, SHAPES[name], "line_color")
        tips = [("x", "@x{0.00}"), ("log-ratio", "@$name{0.0000} nats")]
        add_hover(shown, [*lines.values()], tips, mode="vline")
        self._theme.paint(self._dark)
        if self._latest is not None:
            self.show(self._latest)
        self._place[:] = [pane(shown)]
