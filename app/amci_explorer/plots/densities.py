r"""Proposals beside what they should match: one drawing for the page, notebooks and slides."""

from __future__ import annotations

__all__ = ["CoursePicture", "DensityPicture", "densities"]

import math
import re
from typing import Any

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import Div, FixedTicker, HoverTool, LayoutDOM, Range1d
from bokeh.plotting import figure
from bokeh.plotting.contour import contour_data

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.colours import SHAPES
from amci_explorer.js.scripts import SHARED
from amci_explorer.numbers import SMALLEST_DENSITY
from amci_explorer.numbers.line import LineDensities
from amci_explorer.numbers.marks import Marks, marks
from amci_explorer.numbers.pictures import densities as numbers_of
from amci_explorer.numbers.plane import PlaneDensities
from amci_explorer.numbers.tumour import TumourDensities
from amci_explorer.plots.style import bare_figure, describe, empty_source, set_range
from amci_explorer.text import number

# Each proposal and what it should match; room above a curve and ends of a logarithmic axis in
# units of the highest density; levels of contours as shares of it; widths of a close-up.
PANELS, LEVELS, WIDTHS = SHARED["PANELS"], SHARED["LEVELS"], SHARED["WIDTHS"]
HIGHEST, ROOM, DECADES = SHARED["HIGHEST"], SHARED["ROOM"], SHARED["DECADES"]
# How much ink is left of the case that is compared with.
FAINT = 0.35
# A proposal with no more of its mass elsewhere is said to match its target.
APART = 0.08
SYMBOLS = {"q1": "q₁", "q1_minus": "q₁⁻", "q2": "q₂"}
# All that is drawn is as high as this, with captions and numbers of the axis, in pixels.
HEIGHT, CAPTION, NUMBERS = "var(--first, 400px)", 22, 26
# A plane beside the other, or below it on a phone.
BESIDE = ":host { flex: 1 1 200px !important; min-width: 0; width: auto !important; }"
CAPTIONS = f"""
:host {{ width: 100%; min-height: {CAPTION}px; }}
.bk-clearfix {{ font-size: var(--small, 13px); line-height: {CAPTION - 2}px;
                color: var(--ink, inherit); }}
"""
# Tools lie on the picture: they show where something points at it.
NO_TOUCH = "@media (hover: none) { :host { --tools: 0; } }"


def densities(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    draws: int = 64,
    seed: int = 0,
    dark: bool = False,
    **looked: Any,
) -> LayoutDOM:
    """The posterior, the target f p(x | y), rescaled, and the proposals with draws, at one case.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: The observation, if the problem has one.
        theta: The parameter of f, if the problem has one.
        draws: Draws from each proposal that are marked, at most 64.
        seed: Whole number >= 0, of the draws.
        dark: Whether the page is dark.
        looked: Where x has many coordinates, the `coordinate` and the `pair` shown, from 0 on.

    Returns:
        A Bokeh layout, for `bokeh.io.show` or `pn.pane.Bokeh`.

    Example:
        >>> import amci_core as amci
        >>> problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
        >>> shown = densities(problem, proposals, 1.0, 3.0)
        >>> print(shown.select_one({"name": "caption-q1"}).text.split("match")[1])
         f · posterior: <b>all above θ</b>
    """
    found = numbers_of(problem, proposals, y, theta, **looked)
    shown = DensityPicture(found, dark=dark)
    shown.show(found)
    shown.mark(marks(problem, proposals, y, theta, draws=draws, seed=seed))
    shown.describe()
    return shown.layout


class DensityPicture:
    """Creates the figures for densities; `show` fills them with others of the same kind.

    Arguments:
        found: Densities of that kind.
        logarithmic: Whether densities over a line have a logarithmic axis.
        dark: Whether the page is dark.

    Attributes:
        figures: The figures, by name.
        layout: All of them under their captions.
    """

    def __init__(self, found: Any, *, logarithmic: bool = False, dark: bool = False) -> None:
        self._found, self._log, self._dark = found, logarithmic, dark
        self._marks: Marks | None = None
        self._has_line, plane = isinstance(found, LineDensities), _plane_of(found)
        self.figures: dict[str, figure] = {}
        self._captions: dict[str, Div] = {}
        own = [name for name in PANELS if getattr(found, name) is not None]
        # Without a q2 there is room for a closer look.
        panels = own if self._has_line or len(own) > 1 else [*own, "close-up"]
        self._areas: dict[str, tuple[Range1d, Range1d]] = {}
        if self._has_line:
            name = "densities" if plane is None else "marginal"
            columns = ["x", *own, *(PANELS[n] for n in own)]
            self._curves = [empty_source(name + end, columns) for end in ("", "-a")]
            self._threshold = empty_source(f"{name}-threshold", ["x"])
            self._ticks = empty_source(f"{name}-draws", own)
            self._x = Range1d(*found.extent)
        if plane is not None:
            whole = Range1d(0, 1), Range1d(0, 1)
            self._areas = {
                n: (Range1d(0, 1), Range1d(0, 1)) if n == "close-up" else whole for n in panels
            }
            parts = [*own, *(PANELS[n] for n in own), "outline"]
            self._contours = {
                n + end: empty_source(
                    f"plane-{n}-data{end}", ["xs", "ys", *(["alpha"] * (n not in own))]
                )
                for n in parts
                for end in ("", "-a")
            }
            self._points = empty_source(
                "plane-draws", (n + axis for n in own for axis in ("-x", "-y"))
            )
        rows = []
        for name in panels:
            self._captions[name] = _caption(name)
            is_last, drawn = name == panels[-1], []
            height = f"{HEIGHT} - {2 * CAPTION}px"
            if self._has_line:
                drawn.append(self._line(name, is_last))
                free = f"({HEIGHT} - {CAPTION * len(panels) + NUMBERS}px) / {len(panels)}"
                height = f"{free} + {NUMBERS if is_last else 0}px"
            if plane is not None:
                drawn.append(self._plane(name, is_last or not self._has_line))
            # In a column of Bokeh's the height is a flexible one.
            flex = "flex: none !important;" if len(drawn) == 1 else ""
            for each in drawn:
                own_height = f":host {{ height: calc({height}) !important; {flex} }}"
                each.stylesheets = [own_height, NO_TOUCH]
            beside = row(*drawn, sizing_mode="stretch_width", spacing=4)
            parts = [self._captions[name], *(drawn if len(drawn) == 1 else [beside])]
            looks = {} if self._has_line else {"stylesheets": [BESIDE]}
            rows.append(column(*parts, sizing_mode="stretch_width", spacing=0, **looks))
        together = column if self._has_line else row
        self.layout: LayoutDOM = together(*rows, sizing_mode="stretch_width", margin=0)
        if not self._has_line:
            self.layout.stylesheets = [":host { flex-wrap: wrap; }"]

    @staticmethod
    def kind(found: Any) -> tuple[Any, ...]:
        """What densities have in common that the same figures can show."""
        return type(found), found.target_minus is None, found.q2 is None

    def show(self, found: Any, reference: Any = None) -> None:
        """Draws new densities, and faintly below them those of the case to compare with."""
        self._found, cases = found, [each for each in (found, reference) if each is not None]
        if self._has_line:
            self._show_lines(cases)
        if self._areas:
            self._show_planes([_plane_of(each) for each in cases])
        self._say()

    def mark(self, drawn: Marks) -> None:
        """Marks draws of the proposals, and says what they do."""
        self._marks = drawn
        if self._has_line:
            at = self._found.coordinate
            self._ticks.data = {name: drawn.x[name][:, at] for name in self._ticks.data}
        if self._areas:
            pair = zip(("-x", "-y"), _plane_of(self._found).pair, strict=True)
            self._points.data = {n + axis: x[:, i] for axis, i in pair for n, x in drawn.x.items()}
        self._say()

    def describe(self) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        for name, shown in self.figures.items():
            said = re.sub("<.*?>", "", self._captions[name.split("-", 1)[1]].text)
            describe(shown, f"{said}. {self._found.about()}")

    def _say(self) -> None:
        """What each proposal should match, and what its draws do."""
        found, drawn = self._found, self._marks
        signed = found.target_minus is not None
        posterior = "p(x)" if found.q2 is None else "posterior"
        targets = {
            "q2": "the posterior",
            "q1": f"f · {posterior}",
            "q1_minus": f"f⁻ · {posterior}",
        }
        for name, caption in self._captions.items():
            if name == "close-up":
                caption.text = "Close-up"
                continue
            symbol, target = SYMBOLS[name], targets[name]
            if signed and name == "q1":
                symbol, target = f"{symbol}⁺", target.replace("f", "f⁺", 1)
            apart = not found.distance(name, PANELS[name]) <= APART
            verb, end = "matches", ""
            if drawn is not None:
                symbol, verb = f"{drawn.count} draws from {symbol}", "match"
                end = f": <b>{drawn.said[name]}</b>"
            if apart:
                verb = "should match"
            ink = f"var(--of-{name}, {SHAPES[name].colour(self._dark)})"
            caption.text = f'<b style="color: {ink}">{symbol}</b> {verb} {target}{end}'

    def _figure(self, name: str, **options: Any) -> figure:
        shown = bare_figure(
            name=name,
            height=150,
            tools="pan,reset,save",
            toolbar_location="right",
            toolbar_inner=True,
            min_border=0,
            outline_line_color=None,
            **options,
        )
        shown.toolbar.logo = None
        shown.center = []  # no grid
        self.figures[name] = shown
        return shown

    def _line(self, name: str, is_last: bool) -> figure:
        """A panel over one coordinate, scaled to itself."""
        own, _ = self._curves
        shown = self._figure(
            f"{'densities' if own.name == 'densities' else 'marginal'}-{name}",
            x_range=self._x,
            y_range=Range1d(*(DECADES if self._log else (0, 1))),
            y_axis_type="log" if self._log else "linear",
        )
        shown.xaxis.visible, shown.yaxis.visible = is_last, self._log
        shown.yaxis.ticker.desired_num_ticks = 3
        shown.xaxis.update(axis_line_color=None, minor_tick_line_color=None)
        shown.xaxis.ticker.desired_num_ticks = 4 if self._areas else 8
        wanted, colour = PANELS[name], SHAPES[name].colour(self._dark)
        grey = SHAPES["posterior"].colour(self._dark)
        bottom = SMALLEST_DENSITY if self._log else 0
        for source, ink in zip(self._curves[::-1], (FAINT, 1.0), strict=True):
            area = {"fill_alpha": 0.3 * ink, "fill_color": grey}
            shown.varea("x", bottom, wanted, source=source, **area)
            line = {"line_width": 2.5, "line_alpha": ink, "line_color": colour}
            drawn = shown.line("x", name, source=source, name=name, **line)
        shown.vspan(
            "x",
            source=self._threshold,
            line_color=SHAPES["threshold"].colour(self._dark),
            line_dash=[4, 4],
            line_width=1.5,
        )
        # Draws are ticks at the bottom.
        shown.extra_y_ranges = {"ticks": Range1d(0, 1)}
        looks: dict[str, Any] = {"marker": "dash", "size": 9, "angle": math.pi / 2}
        at = {"x": name, "y": 0.05, "y_range_name": "ticks"}
        shown.scatter(source=self._ticks, line_color=colour, line_alpha=0.7, **at, **looks)
        tips = [("x", "@x{0.00}"), (name, f"@{name}{{0.0000}}"), (wanted, f"@{wanted}{{0.0000}}")]
        shown.add_tools(HoverTool(renderers=[drawn], tooltips=tips, mode="vline", visible=False))
        return shown

    def _show_lines(self, cases: list[LineDensities]) -> None:
        found = cases[0]
        for source, each in zip(self._curves, [*cases, None], strict=False):
            if each is not None or len(source.data["x"]):
                columns = {} if each is None else each.columns
                source.data = {name: columns.get(name, []) for name in source.data}
        self._threshold.data = {"x": [] if found.threshold is None else [found.threshold]}
        set_range(self._x, *_both([each.extent for each in cases]))
        low, high = DECADES if self._log else (0.0, ROOM)
        prefix = self._curves[0].name
        for name in self._ticks.data:
            wanted, learnt = (
                max(_highest(each, n) for each in cases) for n in (PANELS[name], name)
            )
            # A bad proposal can be a spike: it may leave the panel, what it must match may not.
            top = max(wanted, min(learnt, HIGHEST * wanted)) or learnt or 1.0
            set_range(self.figures[f"{prefix}-{name}"].y_range, low * top, high * top)
        list(self.figures.values())[-1 - bool(self._areas)].xaxis.axis_label = (
            found.label if found.label != "x" else None
        )

    def _plane(self, name: str, has_numbers: bool) -> figure:
        """A panel over two coordinates: areas of the target under lines of the proposal."""
        x_range, y_range = self._areas[name]
        shown = self._figure(f"plane-{name}", x_range=x_range, y_range=y_range)
        own = "q1" if name == "close-up" else name
        shown.xaxis.visible = has_numbers
        shown.xaxis.ticker.desired_num_ticks = 3
        shown.yaxis.ticker.desired_num_ticks = 4
        shown.axis.minor_tick_line_color = None
        shown.axis.axis_label_text_font_style = "normal"
        colour = SHAPES[own].colour(self._dark)
        grey = {"fill_color": SHAPES["target"].colour(self._dark), "line_alpha": 0}
        for end, ink in (("-a", FAINT), ("", 1.0)):
            areas, lines = self._contours[PANELS[own] + end], self._contours[own + end]
            shown.multi_polygons("xs", "ys", source=areas, fill_alpha="alpha", **grey)
            looks = {"line_color": colour, "line_alpha": ink, "line_width": 2}
            shown.multi_line("xs", "ys", source=lines, **looks)
        # Where the posterior is, beside what is elsewhere.
        if own != "q2":
            looks = {"line_color": SHAPES["threshold"].colour(self._dark), "line_dash": [4, 3]}
            shown.multi_line("xs", "ys", source=self._contours["outline"], **looks)
        shown.scatter(f"{own}-x", f"{own}-y", source=self._points, size=3, color=colour, alpha=0.7)
        return shown

    def _show_planes(self, cases: list[PlaneDensities]) -> None:
        found = cases[0]
        for each, end in zip([*cases, None], ("", "-a"), strict=False):
            for name, wanted in PANELS.items():
                if name + end in self._contours:
                    areas, lines = _contours(each, wanted, name, FAINT if end else 1.0)
                    self._contours[wanted + end].data = areas
                    self._contours[name + end].data = lines
        if found.q2 is not None and np.isfinite(found.posterior).all():
            level = np.array([0.2]) * found.posterior.max()
            self._contours["outline"].data = _isolines(found, found.posterior, level)
        for name, axes in self._areas.items():
            names = ["target"] if name == "close-up" else ["target", "posterior"]
            if name != "close-up" and "close-up" in self._areas:
                for axis, extent in zip(axes, found.extent, strict=True):
                    set_range(axis, *extent)
            else:
                _approach(axes, cases, names)
            shown = self.figures[f"plane-{name}"]
            shown.xaxis.axis_label, shown.yaxis.axis_label = found.labels


class CoursePicture:
    """Creates the picture of how a tumour may develop after its two measurements.

    Arguments:
        dark: Whether the page is dark.

    Attributes:
        figures: The figure, by its name.
        layout: The figure under its caption.
    """

    def __init__(self, *, dark: bool = False) -> None:
        shown = bare_figure(
            name="course",
            height=200,
            x_axis_label="days since admission",
            y_axis_label="tumour size",
            x_range=Range1d(-2, 102),
            y_range=Range1d(10, 10_000),
            y_axis_type="log",
            tools="pan,reset,save",
            toolbar_inner=True,
            stylesheets=[
                f":host {{ height: calc({HEIGHT} - {2 * CAPTION}px) !important;"
                " flex: none !important; }",
                NO_TOUCH,
            ],
        )
        shown.yaxis.ticker = FixedTicker()
        self._band = empty_source("course-band", ["days", "low", "median", "high"])
        self._reference = empty_source("course-a", ["days", "median"])
        self._draws = empty_source("course-draws", ["xs", "ys"])
        self._points = empty_source("course-points", ["days", "sizes"])
        grey, median, ink = (SHAPES[n].colour(dark) for n in ("posterior", "target", "measured"))
        shown.varea("days", "low", "high", source=self._band, fill_alpha=0.25, fill_color=grey)
        shown.multi_line("xs", "ys", source=self._draws, line_alpha=0.45, line_color=grey)
        for source, alpha in ((self._reference, FAINT), (self._band, 1.0)):
            looks = {"line_width": 2.5, "line_color": median, "line_alpha": alpha}
            shown.line("days", "median", source=source, **looks)
        shown.scatter("days", "sizes", source=self._points, size=10, marker="diamond", color=ink)
        self.figures = {"course": shown}
        self._caption = _caption("course")
        self.layout: LayoutDOM = column(self._caption, shown, sizing_mode="stretch_width")

    def show(self, found: TumourDensities, reference: TumourDensities | None = None) -> None:
        """Draws the course of a case, and faintly that of the case to compare with."""
        course = found.course
        self._band.data = {name: getattr(course, name) for name in self._band.data}
        self._reference.data = {
            name: [] if reference is None else getattr(reference.course, name)
            for name in self._reference.data
        }
        self._draws.data = {"xs": [course.days] * len(course.sizes), "ys": list(course.sizes)}
        days, measured = zip(*course.measured, strict=True)
        self._points.data = {"days": list(days), "sizes": list(measured)}
        low, high = min(course.low.min(), *measured) / 1.1, max(course.high.max(), *measured) * 1.1
        set_range(self.figures["course"].y_range, low, high)
        steps = (1, 2, 5) if high <= 100 * low else (1,)
        ticks = [step * 10.0**power for power in range(-3, 7) for step in steps]
        self.figures["course"].yaxis.ticker.ticks = ticks
        last = number(course.median[-1], 3)
        self._caption.text = (
            f"Median size after 100 days <b>{last}</b>, band: middle 90 %, "
            "lines: posterior draws, diamonds: measured"
        )

    def describe(self) -> None:
        """Renews the text alternative; when a control is let go, not while it moves."""
        words = "Tumour size against days. " + re.sub("<.*?>", "", self._caption.text)
        describe(self.figures["course"], f"{words}.")


def _caption(of: str) -> Div:
    looks: dict[str, Any] = {"sizing_mode": "stretch_width", "margin": 0}
    return Div(name=f"caption-{of}", stylesheets=[CAPTIONS], **looks)


def _plane_of(found: Any) -> Any:
    """The plane that densities have, or are; None without."""
    return found if isinstance(found, PlaneDensities) else getattr(found, "plane", None)


def _highest(found: LineDensities, name: str) -> float:
    """The highest density, but for the ends of the axis, where it may be infinite."""
    low, high = found.extent
    sliver = 2e-3 * (high - low)
    inside = (found.x > low + sliver) & (found.x < high - sliver)
    return float(np.nanmax(getattr(found, name)[inside], initial=0.0))


def _both(ends: list[tuple[float, float]]) -> tuple[float, float]:
    return min(low for low, _ in ends), max(high for _, high in ends)


def _contours(found: Any, wanted: str, learnt: str, ink: float) -> tuple[Any, Any]:
    """Areas of a target and lines of its proposal; empty without densities."""
    areas: Any = {"xs": [], "ys": [], "alpha": []}
    if found is None:
        return areas, {"xs": [], "ys": []}
    density, other = getattr(found, wanted), np.nan_to_num(getattr(found, learnt))
    # Lines have the levels of areas, so that they meet the edges of these where both agree. What
    # cannot be judged has no level: what was learnt is drawn by its own.
    known = np.isfinite(density).all()
    levels = np.array(LEVELS) * (density.max() if known else max(other.max(), 1e-300))
    if known:
        edges = [*levels, 1.01 * density.max()]
        filled: Any = contour_data(found.x, found.y, density, edges, want_line=False).fill_data
        alpha = (ink * np.linspace(0.15, 0.6, len(LEVELS))).tolist()
        areas = {"xs": filled.xs, "ys": filled.ys, "alpha": alpha}
    return areas, _isolines(found, other, levels)


def _isolines(found: PlaneDensities, density: Array, levels: Array) -> dict[str, Any]:
    lines: Any = contour_data(found.x, found.y, density, levels, want_fill=False).line_data
    return {"xs": lines.xs, "ys": lines.ys}


def _approach(axes: tuple[Range1d, Range1d], cases: list[Any], names: list[str]) -> None:
    """Moves axes to where densities are above their lowest level."""
    for i, (axis, whole) in enumerate(zip(axes, cases[0].extent, strict=True)):
        ends = []
        for found in cases:
            for density in (np.nan_to_num(getattr(found, name), nan=1.0) for name in names):
                points = (found.x, found.y)[i][(density > LEVELS[0] * density.max()).any(i)]
                ends.append((points[0], points[-1]))
        (low, end), length = _both(ends), whole[1] - whole[0]
        share = 1.1 * (end - low) / length
        width = length * next((each for each in WIDTHS if each >= share), WIDTHS[-1])
        start = min(max((low + end - width) / 2, whole[0]), whole[1] - width)
        set_range(axis, start, start + width)
