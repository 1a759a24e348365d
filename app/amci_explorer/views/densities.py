r"""Pictures of densities: over a line, over planes, and of a tumour's course."""

from __future__ import annotations

__all__ = ["DensityView"]

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, FixedTicker, Range1d, Span
from bokeh.plotting import figure
from bokeh.plotting.contour import contour_data

from amci_core.estimators.draws import Array
from amci_explorer.colours import SHAPES, label
from amci_explorer.js.scripts import SHARED
from amci_explorer.numbers import SMALLEST_DENSITY, Densities
from amci_explorer.numbers.draws import MarginalDensities
from amci_explorer.numbers.line import LineDensities
from amci_explorer.numbers.plane import PlaneDensities
from amci_explorer.numbers.tumour import Course, TumourDensities
from amci_explorer.server.session import callback
from amci_explorer.text import number
from amci_explorer.views.figures import (
    add_hover,
    at_most,
    decimal_step_above,
    describe,
    pane,
    picture,
    set_range,
    step_above,
)
from amci_explorer.views.layout import HTML, NOTE, column, sections, side_by_side
from amci_explorer.views.slider import Grip

# How much ink is left of the case that is compared with.
FAINT = 0.35
# What the evaluator in the page uses as well: panels, room above a curve, ends of a logarithmic
# axis in units of the highest density, levels of contours as shares of it, widths of a close-up.
PANELS, LEVELS = SHARED["PANELS"], SHARED["LEVELS"]
HIGHEST, ROOM, DECADES = SHARED["HIGHEST"], SHARED["ROOM"], SHARED["DECADES"]
WIDTHS = tuple(SHARED["WIDTHS"])
# What a panel has: areas to match, and the lines of proposals that match them.
PANEL = ("wanted", "learnt")


class DensityView:
    """Creates the pictures of densities; `show` fills them with others of the same kind.

    Arguments:
        found: Densities of that kind.
        logarithmic: Whether densities over a line have a logarithmic axis.
        dark: Whether the page is dark.
    """

    def __init__(self, found: Any, *, logarithmic: bool = False, dark: bool = False) -> None:
        self.parts: list[Any] = []
        self.lines: _Lines | None = None
        self.handle: Grip | None = None
        alone = type(found) is LineDensities
        if isinstance(found, LineDensities):
            name = "densities" if alone else "marginal"
            heights = (146, 194) if alone else (72, 104)
            self.lines = _Lines(name, found, heights, logarithmic=logarithmic and alone, dark=dark)
            self.parts.append(self.lines)
        if isinstance(found, PlaneDensities | MarginalDensities):
            height = 320 if type(found) is PlaneDensities else 148
            self.parts.append(_Planes("plane", found, height, dark=dark))
        if isinstance(found, TumourDensities):
            self.parts.append(_Course(dark=dark))
        panels = [part.panel for part in self.parts]
        if alone:
            looks = {"label": "Line of θ in the picture", "disabled": True, "margin": 0}
            self.handle = Grip(figure="densities-q1", moves=["theta", 0], **looks)
            panels[0].append(self.handle)
        self._remark = HTML("", NOTE)
        folded = [self.lines.ratio] if alone and self.lines else []
        self.panel = column(*panels[:1], self._remark, *panels[1:], *folded)

    @staticmethod
    def kind(found: Densities) -> tuple[Any, ...]:
        """What densities have in common that the same pictures can show."""
        return type(found), found.target_minus is None, found.q2 is None

    def show(self, found: Any, reference: Any = None) -> None:
        """Draws new densities, and faintly below them those of the case to compare with."""
        for part in self.parts:
            part.show(found, reference)
        remark = getattr(found, "remark", found.doubt)
        dashed = "Dashed: the posterior." if found.q2 is not None else ""
        planes = any(isinstance(part, _Planes) for part in self.parts)
        self._remark.object = f"<p>{remark} {dashed if planes else ''}</p>"

    def show_draws(self, draws: Mapping[str, Array]) -> None:
        """Marks draws of the proposals, of equal number, where there is an axis for them."""
        if self.lines is not None:
            self.lines.show_draws(draws)

    def describe(self, found: Any) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        for part in self.parts:
            part.describe(found)


class _Lines:
    """Panels over one coordinate, each scaled to itself: for q2 above, for q1 below."""

    def __init__(
        self,
        name: str,
        found: LineDensities,
        heights: tuple[int, int],
        *,
        logarithmic: bool,
        dark: bool,
    ) -> None:
        self._logarithmic = logarithmic
        self._names = list(found.columns)
        empty: dict[str, Any] = {n: [] for n in self._names}
        self._sources = [ColumnDataSource(dict(empty), name=name + end) for end in ("", "-a")]
        learnt: dict[str, Any] = {n: [] for n in self._names if n.startswith("q")}
        self._draws = ColumnDataSource(learnt, name=f"{name}-draws")
        self._threshold = ColumnDataSource({"x": []}, name=f"{name}-threshold")
        self.x_range = Range1d(*found.extent)
        self.figures = {}
        for panel, height in zip(PANELS, heights, strict=True):
            if panel == "q2" and found.q2 is None:
                continue
            height = sum(heights) if found.q2 is None else height
            self.figures[panel] = self._figure(f"{name}-{panel}", panel, found, height, dark)
        self.panel = column(*map(pane, self.figures.values()))
        ratio = self._log_ratio(name, dark)
        fold = sections(("Log-ratio of q₁ to its target", column()))
        # Below the fold: inside it a picture has no size.
        self.ratio = column(fold)

        def unfold(event: Any) -> None:
            self.ratio[1:] = [pane(ratio)] if event.new else []

        fold.param.watch(callback(unfold), "active")

    def _log_ratio(self, name: str, dark: bool) -> figure:
        """How far q1 is from what it must match."""
        self._ratio_range = Range1d(-0.1, 0.1)
        shown = picture(
            f"{name}-log-ratio",
            alternative="Log-ratio of q1 to g over x, in nats.",
            x_label="x",
            y_label="log(q₁ / g), nats",
            height=160,
            tools="box_zoom,reset",
            x_range=self.x_range,
            y_range=self._ratio_range,
        )
        zero = Span(location=0, dimension="width", line_color=SHAPES["target"].colour(dark))
        shown.add_layout(zero)
        for n, ratio in (("q1", "log_ratio"), ("q1_minus", "log_ratio_minus")):
            if ratio in self._names:
                looks = {"line_width": 2.5, "line_color": SHAPES[n].colour(dark), "name": ratio}
                shown.line("x", ratio, source=self._sources[0], **looks)
        tips = [("x", "@x{0.00}"), ("log-ratio", "@$name{0.0000} nats")]
        add_hover(shown, "auto", tips, mode="vline")
        return shown

    def _figure(
        self, name: str, panel: str, found: LineDensities, height: int, dark: bool
    ) -> figure:
        is_last, signed = panel == "q1", found.target_minus is not None
        shown = picture(
            name,
            alternative="Proposals, and what they must match.",
            caption=_caption(panel, signed),
            x_label="x",
            y_label="density",
            height=height,
            # The axis is one, and so are the tools that move it: as many as there is room for.
            tools="pan,box_zoom,reset" if is_last else "",
            x_range=self.x_range,
            y_range=Range1d(*(DECADES if self._logarithmic else (0, 1))),
            y_axis_type="log" if self._logarithmic else "linear",
        )
        shown.stylesheets = [*shown.stylesheets, at_most(122 if is_last else 82)]
        shown.xaxis.visible = is_last
        shown.yaxis.visible = self._logarithmic
        shown.yaxis.ticker.desired_num_ticks = 3
        shown.ygrid.visible = False
        shown.min_border_left = 60 if self._logarithmic else 12
        # The handle of theta has the row of the axis's label.
        shown.xaxis.axis_label_align = "end"
        colours = {n: style.colour(dark) for n, style in SHAPES.items()}
        wanted, learnt = ([n for n in PANELS[panel][part] if n in self._names] for part in PANEL)
        own, reference = self._sources
        bottom = SMALLEST_DENSITY if self._logarithmic else 0
        for source, ink in ((reference, FAINT), (own, 1.0)):
            for n in wanted:
                alpha, grey = 0.3 * ink, colours["target"]
                shown.varea("x", bottom, n, source=source, fill_alpha=alpha, fill_color=grey)
            for n in learnt:
                line = {"line_width": 2.5, "line_alpha": ink, "line_color": colours[n]}
                named = {"legend_label": n} if source is own else {}
                shown.line("x", n, source=source, name=n, **line, **named)
        looks: dict[str, Any] = {"line_dash": [4, 4], "line_width": 1.5}
        colour = colours["threshold"]
        shown.vspan("x", source=self._threshold, line_color=colour, **looks)
        # Draws are ticks at the bottom.
        shown.extra_y_ranges = {"ticks": Range1d(0, 1)}
        for n in learnt:
            looks = {"line_color": colours[n], "marker": "dash", "size": 8, "line_alpha": 0.55}
            at = {"x": n, "y": 0.03, "y_range_name": "ticks", "angle": math.pi / 2}
            shown.scatter(source=self._draws, **at, **looks)
        looks = {"padding": 2, "margin": 4, "background_fill_alpha": 0.5}
        shown.legend.update(location="top_right", label_text_font_size="12px", **looks)
        tips = [
            (label(n, signed=signed).split(" ")[0], f"@{n}{{0.0000}}") for n in (*wanted, *learnt)
        ]
        lines = [each for each in shown.renderers if each.name == learnt[0]]
        add_hover(shown, lines[-1:], [("x", "@x{0.00}"), *tips], mode="vline")
        return shown

    def show(self, found: LineDensities, reference: LineDensities | None) -> None:
        shown = [each for each in (found, reference) if each is not None]
        for source, each in zip(self._sources, (found, reference), strict=True):
            columns = {} if each is None else each.columns
            missing = np.full(0 if each is None else len(each.x), np.nan)
            if len(missing) or len(source.data["x"]):
                source.data = {n: columns.get(n, missing) for n in source.data}
        self._threshold.data = {"x": [] if found.threshold is None else [found.threshold]}
        set_range(self.x_range, *_both([each.extent for each in shown]))
        low, high = DECADES if self._logarithmic else (0.0, ROOM)
        for panel, drawn in self.figures.items():
            wanted, learnt = (
                max(_highest(each, n) for each in shown for n in PANELS[panel][part])
                for part in PANEL
            )
            # A bad proposal can be a spike: it may leave the panel, what it must match may not.
            top = max(wanted, min(learnt, HIGHEST * wanted)) or learnt or 1.0
            set_range(drawn.y_range, low * top, high * top)
            for item in drawn.legend.items:
                item.label = value(_label(found, item.renderers[0].name))
        self.figures["q1"].xaxis.axis_label = found.label
        g = np.nan_to_num(found.target)
        high = np.isfinite(found.log_ratio) & (g > 0.01 * g.max())
        # The axis rests while a handle moves a little.
        largest = max(1e-3, np.abs(found.log_ratio[high]).max(initial=0.0))
        half = min(decimal_step_above(1.1 * largest, (1, 3, 10)), 30.0)
        set_range(self._ratio_range, -half, half)

    def show_draws(self, draws: Mapping[str, Array]) -> None:
        count = len(next(iter(draws.values()), ()))
        if count or len(self._draws.data["q1"]):
            missing = np.full(count, np.nan)
            self._draws.data = {name: draws.get(name, missing) for name in self._draws.data}

    def describe(self, found: LineDensities) -> None:
        for panel, shown in self.figures.items():
            caption = _caption(panel, found.target_minus is not None)
            describe(shown, f"{caption.capitalize()}. {found.about()}")


def _caption(panel: str, signed: bool) -> str:
    if panel == "q2":
        return "what q₂ must match: the posterior p(x | y)"
    f = "f⁺ p(x | y) and f⁻ p(x | y)" if signed else "f(x; θ) p(x | y)"
    return f"what {'q₁⁺ and q₁⁻' if signed else 'q₁'} must match: {f}, rescaled"


def _label(found: Densities, name: str) -> str:
    return label(name, signed=found.target_minus is not None, variant=found.variant)


def _highest(found: LineDensities, name: str) -> float:
    """The highest density, but for the ends of the axis, where it may be infinite."""
    density = getattr(found, name)
    if density is None:
        return 0.0
    low, high = found.extent
    sliver = 2e-3 * (high - low)
    inside = (found.x > low + sliver) & (found.x < high - sliver)
    return float(np.nanmax(density[inside], initial=0.0))


def _both(ends: list[tuple[float, float]]) -> tuple[float, float]:
    return min(low for low, _ in ends), max(high for _, high in ends)


class _Planes:
    """Areas of the targets under lines of the proposals, side by side."""

    def __init__(self, name: str, found: Any, height: int, *, dark: bool) -> None:
        found = getattr(found, "plane", found)
        # Of each picture: what is wanted, and what was learnt.
        self._pairs = {"target": ("target", "q1")}
        if found.target_minus is not None:
            self._pairs["minus"] = "target_minus", "q1_minus"
        if found.q2 is None:
            self._pairs["close-up"] = "target", "q1"
        else:
            self._pairs["posterior"] = "posterior", "q2"
        drawn = {n for pair in self._pairs.values() for n in pair} | {"outline"}
        self._sources = {
            (n, end): ColumnDataSource({"xs": [], "ys": []}, name=f"{name}-{n}-data{end}")
            for n in drawn
            for end in ("", "-a")
        }
        self._whole, self._closer = ((Range1d(0, 1), Range1d(0, 1)) for _ in range(2))
        self.figures = {
            of: self._figure(f"{name}-{of}", of, found, height, dark) for of in self._pairs
        }
        self.panel = side_by_side(*map(pane, self.figures.values()), least=200, gap=4)

    def _figure(
        self, name: str, of: str, found: PlaneDensities, height: int, dark: bool
    ) -> figure:
        x_range, y_range = self._closer if of == "close-up" else self._whole
        wanted, learnt = self._pairs[of]
        shown = picture(
            name,
            alternative="Densities over a plane.",
            caption=of,
            x_label=found.labels[0],
            y_label=found.labels[1],
            height=height,
            x_range=x_range,
            y_range=y_range,
        )
        shown.stylesheets = [*shown.stylesheets, at_most(204)]
        shown.min_border_left = 50
        shown.xaxis.ticker.desired_num_ticks = 3
        shown.yaxis.ticker.desired_num_ticks = 4
        colours = {n: style.colour(dark) for n, style in SHAPES.items()}
        dashes = {"line_dash": list(SHAPES[learnt].dash), "line_width": 2}
        for end, ink in (("-a", FAINT), ("", 1.0)):
            areas, lines = self._sources[wanted, end], self._sources[learnt, end]
            grey = {"fill_color": colours[wanted], "line_alpha": 0, "fill_alpha": "alpha"}
            areas.data = {"xs": [], "ys": [], "alpha": []}
            shown.multi_polygons("xs", "ys", source=areas, **grey)
            looks = {"line_color": colours[learnt], "line_alpha": ink, **dashes}
            shown.multi_line("xs", "ys", source=lines, **looks)
        # Where g is not where the posterior is.
        if wanted != "posterior":
            looks = {"line_color": colours["threshold"], "line_dash": [4, 3]}
            shown.multi_line("xs", "ys", source=self._sources["outline", ""], **looks)
        return shown

    def show(self, found: Any, reference: Any) -> None:
        found, reference = (getattr(each, "plane", each) for each in (found, reference))
        shown = [found] if reference is None else [found, reference]
        for wanted, learnt in set(self._pairs.values()):
            self._draw(found, wanted, learnt, "", 1.0)
            if reference is not None:
                self._draw(reference, wanted, learnt, "-a", FAINT)
        if reference is None:
            for (_, end), source in self._sources.items():
                if end and len(source.data["xs"]):
                    source.data = {column: [] for column in source.data}
        if found.q2 is not None and np.isfinite(found.posterior).all():
            level = np.array([0.2]) * found.posterior.max()
            self._sources["outline", ""].data = _lines(found, found.posterior, level)
        if "close-up" in self.figures:
            for axis, extent in zip(self._whole, found.extent, strict=True):
                set_range(axis, *extent)
            _approach(self._closer, shown, ["target"])
        else:
            _approach(self._whole, shown, ["target", "posterior"])
        for of, drawn in self.figures.items():
            drawn.xaxis.axis_label, drawn.yaxis.axis_label = found.labels
            target, proposal = (_label(found, n) for n in self._pairs[of])
            over = "close-up" if of == "close-up" else f"over {target.split(' ')[0]}"
            # Half a panel's width: the longest is "q₂ over posterior".
            drawn.above[0].text = f"{proposal.removesuffix(' learnt')} {over}"

    def _draw(self, found: Any, wanted: str, learnt: str, end: str, ink: float) -> None:
        density, other = getattr(found, wanted), getattr(found, learnt)
        if density is None or other is None:
            return
        # Lines have the levels of areas, so that they meet the edges of these where both agree.
        # What cannot be judged has no level: what was learnt is drawn by its own.
        known, other = np.isfinite(density).all(), np.nan_to_num(other)
        levels = np.array(LEVELS) * (density.max() if known else max(other.max(), 1e-300))
        areas: Any = {"xs": [], "ys": [], "alpha": []}
        if known:
            edges = [*levels, 1.01 * density.max()]
            filled: Any = contour_data(found.x, found.y, density, edges, want_line=False).fill_data
            alpha = (ink * np.linspace(0.25, 0.9, len(LEVELS))).tolist()
            areas = {"xs": filled.xs, "ys": filled.ys, "alpha": alpha}
        self._sources[wanted, end].data = areas
        self._sources[learnt, end].data = _lines(found, other, levels)

    def describe(self, found: Any) -> None:
        for name, shown in self.figures.items():
            closer = "Close-up. " if name == "close-up" else ""
            describe(shown, closer + getattr(found, "plane", found).about())


def _lines(found: PlaneDensities, density: Array, levels: Array) -> dict[str, Any]:
    lines: Any = contour_data(found.x, found.y, density, levels, want_fill=False).line_data
    return {"xs": lines.xs, "ys": lines.ys}


def _approach(axes: tuple[Range1d, Range1d], shown: list[Any], names: list[str]) -> None:
    """Moves axes to where densities are above their lowest level."""
    for i, (axis, whole) in enumerate(zip(axes, shown[0].extent, strict=True)):
        ends = []
        for found in shown:
            for density in (np.nan_to_num(getattr(found, name), nan=1.0) for name in names):
                high = (density > LEVELS[0] * density.max()).any(i)
                points = (found.x, found.y)[i][high]
                ends.append((points[0], points[-1]))
        (low, end), length = _both(ends), whole[1] - whole[0]
        width = length * step_above(1.1 * (end - low) / length, WIDTHS)
        start = min(max((low + end - width) / 2, whole[0]), whole[1] - width)
        set_range(axis, start, start + width)


class _Course:
    """How a tumour may develop after its two measurements."""

    def __init__(self, *, dark: bool) -> None:
        name = "course"
        self._figure = shown = picture(
            name,
            alternative="Tumour size against days.",
            x_label="days since admission",
            y_label="size, log scale",
            height=150,
            x_range=Range1d(-2, 102),
            y_range=Range1d(10, 10_000),
            y_axis_type="log",
        )
        shown.yaxis.ticker = FixedTicker()
        self._sources = {
            part: ColumnDataSource({column: [] for column in columns}, name=f"{name}-{part}")
            for part, columns in {
                "band": ("days", "low", "median", "high"),
                "a": ("days", "median"),
                "draws": ("xs", "ys"),
                "points": ("days", "sizes"),
            }.items()
        }
        band, reference, draws, points = self._sources.values()
        grey, median, ink = (SHAPES[n].colour(dark) for n in ("posterior", "target", "measured"))
        shown.varea("days", "low", "high", source=band, fill_alpha=0.25, fill_color=grey)
        shown.multi_line("xs", "ys", source=draws, line_alpha=0.45, line_color=grey)
        looks = {"line_width": 2.5, "line_color": median}
        shown.line("days", "median", source=reference, line_alpha=FAINT, **looks)
        shown.line("days", "median", source=band, **looks)
        shown.scatter("days", "sizes", source=points, size=10, marker="diamond", color=ink)
        self._text = HTML("", NOTE)
        self.panel = column(pane(shown), self._text)

    def show(self, found: TumourDensities, reference: TumourDensities | None) -> None:
        course, sources = found.course, self._sources
        names = ("days", "low", "median", "high")
        sources["band"].data = {n: getattr(course, n) for n in names}
        course_a = reference and reference.course
        sources["a"].data = {
            n: getattr(course_a, n) if course_a else [] for n in ("days", "median")
        }
        sizes = course.sizes
        sources["draws"].data = {"xs": [course.days] * len(sizes), "ys": list(sizes)}
        days, measured = zip(*course.measured, strict=True)
        sources["points"].data = {"days": list(days), "sizes": list(measured)}
        lowest, highest = min(course.low.min(), *measured), max(course.high.max(), *measured)
        low, high = (decimal_step_above(1.1 * v, (1, 2, 5, 10)) for v in (1 / lowest, highest))
        set_range(self._figure.y_range, 1 / low, high)
        steps = (1, 2, 5) if high * low <= 100 else (1,)
        ticks = [step * 10.0**power for power in range(-3, 7) for step in steps]
        self._figure.yaxis.ticker.ticks = ticks
        looks = "Diamonds: measured. Line and band: median and middle 90 %. Thin: posterior draws."
        self._text.object = f"<p>{_outlook(course)} {looks}</p>"

    def describe(self, found: TumourDensities) -> None:
        (_, first), (_, second) = found.course.measured
        measured = f"{first:.0f} at admission and {second:.0f} after five days"
        about = f"Tumour size against days, measured as {measured}. {_outlook(found.course)}"
        describe(self._figure, about)


def _outlook(found: Course) -> str:
    last, probability = number(found.last, 3), number(found.probability, 3)
    return f"Median size after 100 days {last}, probability of success {probability}."
