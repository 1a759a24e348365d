r"""The learnt proposals beside what they should be, and the log-ratio of q1 to g below."""

from __future__ import annotations

__all__ = ["DensityView"]

import numpy as np
from bokeh.models import BoxAnnotation, ColumnDataSource, Range1d, Span
from bokeh.plotting import figure

from app.colours import SHAPES
from app.store import SMALLEST_DENSITY, Densities
from app.summary import number
from app.views.figures import (
    Painter,
    add_hover,
    add_legend,
    describe,
    pane,
    picture,
    set_range,
    step_above,
)
from app.views.inputs import choice
from app.views.layout import card

# Heights of the axes change in steps: one that changed with every move would be measured, laid out
# and painted with every move, and could not be read.
HEIGHTS = (0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
# In nats.
HALF_HEIGHTS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CURVES = ("posterior", "target", "q2", "q1")
SIGNED_CURVES = ("posterior", "target", "target_minus", "q2", "q1", "q1_minus")
WANTED = ("posterior", "target", "target_minus")
HELP = (
    "AMCI draws from two proposals. q₂ should look like the posterior; q₁ like g, "
    "the posterior where f is not zero, here above the threshold θ. The lower "
    "picture shows how far q₁ is from g: at 0 they agree, ±0.1 is ten per cent. It "
    "matters within the shaded part, which carries 99 % of g."
)
SIGNED_HELP = (
    "f takes both signs, so AMCI draws from three proposals. q₂ should look like the posterior; "
    "q₁⁺ like g⁺, the posterior times the gain, and q₁⁻ like g⁻, the posterior times the loss. "
    "The lower picture shows how far each is from its g: at 0 they agree, ±0.1 is ten per cent. "
    "The shaded part carries 99 % of g⁺."
)


class DensityView:
    """Creates the pictures, empty; `show` fills them.

    The one on the linear axis and the one on the logarithmic axis have sources of their own, and
    the hidden one is left alone: the page lays out and paints also what cannot be seen.

    Arguments:
        x_range: Ends of the x axis.
        signed: Whether f takes both signs.
    """

    def __init__(self, x_range: tuple[float, float], *, signed: bool = False) -> None:
        self._painter = Painter()
        self._latest: Densities | None = None
        shared = Range1d(*x_range)
        names = SIGNED_CURVES if signed else CURVES
        self._linear = _Curves("linear", names, shared, Range1d(0, 1), self._painter)
        self._logarithmic = _Curves("log", names, shared, Range1d(1e-8, 30), self._painter)
        self._ratio = _Ratio(shared, self._painter, signed=signed)
        self._visible = self._linear
        self._panes = {each: pane(each.figure) for each in (self._linear, self._logarithmic)}
        self.scale = choice("Scale of the densities", {"linear": False, "log": True}, value=False)
        self.panel = card(
            "Densities",
            *self._panes.values(),
            pane(self._ratio.figure),
            tools=[self.scale],
            help_text=SIGNED_HELP if signed else HELP,
        )
        self.set_scale(False)

    @property
    def figure(self) -> figure:
        """The picture that the page opens with."""
        return self._linear.figure

    def show(self, found: Densities) -> None:
        """Draws new densities."""
        self._latest = found
        self._visible.show(found)
        self._ratio.show(found)

    def describe(self, found: Densities) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        low, high = found.region
        text = (
            f"Densities over x. The threshold is at {found.threshold:.3g}; 99 % of g lies from "
            f"{low:.3g} to {high:.3g}. The divergence of q1 from g is "
            f"{number(max(found.divergence, 0), 2)} nats."
        )
        for each in self._panes:
            describe(each.figure, text)

    def set_scale(self, logarithmic: bool) -> None:
        """Shows the densities on a linear or a logarithmic axis."""
        self._visible = self._logarithmic if logarithmic else self._linear
        if self._latest is not None:
            self._visible.show(self._latest)
        for each, shown in self._panes.items():
            shown.visible = each is self._visible

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._painter.paint(dark)


class _Marked:
    """A figure with the threshold and the region that carries 99 % of g."""

    def __init__(self, shown: figure, painter: Painter) -> None:
        self.figure = shown
        self._region = BoxAnnotation(fill_alpha=0.16, line_alpha=0)
        self._threshold = Span(dimension="height", line_width=1.5)
        self._threshold.line_dash = list(SHAPES["threshold"].dash)
        shown.add_layout(painter.follow(self._region, SHAPES["region"], "fill_color"))
        shown.add_layout(painter.follow(self._threshold, SHAPES["threshold"], "line_color"))

    def mark(self, found: Densities) -> None:
        """Moves the marks."""
        self._threshold.location = found.threshold
        self._region.update(left=found.region[0], right=found.region[1])


class _Curves(_Marked):
    """The densities, on a linear or a logarithmic axis."""

    def __init__(
        self,
        scale: str,
        names: tuple[str, ...],
        x_range: Range1d,
        y_range: Range1d,
        painter: Painter,
    ) -> None:
        self._linear = scale == "linear"
        self._names = names
        shown = picture(
            f"densities-{scale}",
            alternative="Densities over x: learnt proposals, the posterior and g.",
            x_label="x",
            y_label="density" if self._linear else "density, log scale",
            height=300,
            x_range=x_range,
            y_range=y_range,
            y_axis_type=scale,
        )
        super().__init__(shown, painter)
        self._source = ColumnDataSource(
            {name: [] for name in ("x", *names)},
            name="densities" if self._linear else "densities-log-axis",
        )
        items, tips = [], []
        for name in names:
            style, parts = SHAPES[name], []
            label = _label(name, signed=names is SIGNED_CURVES)
            wanted = name in WANTED
            if wanted:
                bottom = 0 if self._linear else SMALLEST_DENSITY
                area = shown.varea("x", bottom, name, source=self._source)
                area.glyph.fill_alpha = 0.18 if name == "posterior" else 0.3
                painter.follow(area.glyph, style, "fill_color")
                parts.append(area)
            line = shown.line(
                "x",
                name,
                source=self._source,
                line_width=1.5 if wanted else 2.5,
                line_dash=list(style.dash) or "solid",
                name=name,
            )
            painter.follow(line.glyph, style, "line_color")
            items.append((label, [*parts, line]))
            tips.append((label, f"@{name}{{0.000e+0}}"))
        add_hover(shown, line, [("x", "@x{0.00}"), *tips], mode="vline")
        add_legend(shown, items)

    def show(self, found: Densities) -> None:
        """Draws new densities."""
        columns = found.columns
        self._source.data = {name: columns[name] for name in ("x", *self._names)}
        self.mark(found)
        if self._linear:
            # A bad q1 can be a spike: it may leave the picture, g and the posterior may not.
            highest = max(columns[name].max() for name in self._names if name in WANTED)
            learnt = max(columns[name].max() for name in self._names if name.startswith("q1"))
            wanted = 1.05 * max(highest, min(learnt, 1.3 * highest))
            set_range(self.figure.y_range, 0, step_above(wanted, HEIGHTS))


class _Ratio(_Marked):
    """How far q1 is from g, on a logarithmic scale."""

    def __init__(self, x_range: Range1d, painter: Painter, *, signed: bool) -> None:
        shown = picture(
            "log-ratio",
            alternative="Log-ratio of q1 to g over x, in nats.",
            x_label="x",
            y_label="log q₁ − log g, nats",
            height=200,
            tools="box_zoom,reset",
            x_range=x_range,
            y_range=Range1d(-0.1, 0.1),
        )
        super().__init__(shown, painter)
        shown.yaxis.ticker.desired_num_ticks = 5
        zero = Span(location=0, dimension="width", line_width=1)
        shown.add_layout(painter.follow(zero, SHAPES["target"], "line_color"))
        self._sources = {"q1": ColumnDataSource({"x": [], "log_ratio": []}, name="log-ratio-data")}
        if signed:
            self._sources["q1_minus"] = ColumnDataSource(
                {"x": [], "log_ratio": []}, name="log-ratio-minus-data"
            )
        for name, source in self._sources.items():
            line = shown.line("x", "log_ratio", source=source, line_width=2.5)
            line.glyph.line_dash = list(SHAPES[name].dash) if signed else "solid"
            painter.follow(line.glyph, SHAPES[name], "line_color")
            tips = [("x", "@x{0.00}"), ("log-ratio", "@log_ratio{0.0000} nats")]
            add_hover(shown, line, tips, mode="vline")

    def show(self, found: Densities) -> None:
        """Draws new log-ratios; where g is zero there is none."""
        self.mark(found)
        low, high = found.region
        largest = 0.0
        for name, column in (("q1", "log_ratio"), ("q1_minus", "log_ratio_minus")):
            if name in self._sources:
                log_ratio = found.columns[column]
                there = np.isfinite(log_ratio)
                x, log_ratio = found.x[there], log_ratio[there]
                self._sources[name].data = {"x": x, "log_ratio": log_ratio}
                if name == "q1":
                    inside = (x > low) & (x <= high)
                else:
                    g = found.columns["target_minus"][there]
                    inside = g > 0.01 * g.max()
                largest = max(largest, float(np.abs(log_ratio[inside]).max(initial=0.0)))
        half = step_above(1.1 * largest, HALF_HEIGHTS)
        set_range(self.figure.y_range, -half, half)


def _label(name: str, *, signed: bool) -> str:
    """The name in the legend: with both signs of f, q1 and g carry theirs."""
    label = SHAPES[name].label
    if not signed or name not in ("q1", "target"):
        return label
    return label.replace("q₁", "q₁⁺").replace("g ∝ f", "g⁺ ∝ f⁺")
