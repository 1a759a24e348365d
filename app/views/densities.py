r"""The learnt proposals beside what they should be, and the log-ratio of q1 to g below."""

from __future__ import annotations

__all__ = ["DensityView"]

import numpy as np
from bokeh.models import BoxAnnotation, ColumnDataSource, Range1d, Span
from bokeh.plotting import figure

from app.colours import SHAPES
from app.store import SMALLEST_DENSITY, X_RANGE, Densities
from app.summary import number
from app.views.figures import Painter, add_hover, add_legend, describe, pane, picture, set_range
from app.views.inputs import choice
from app.views.layout import card

# Heights of the axes change in steps: one that changed with every move would be measured, laid out
# and painted with every move, and could not be read.
HEIGHTS = (0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
# In nats.
HALF_HEIGHTS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CURVES = ("posterior", "target", "q2", "q1")


class DensityView:
    """Creates the pictures, empty; `show` fills them.

    The one on the linear axis and the one on the logarithmic axis have sources of their own, and
    the hidden one is left alone: the page lays out and paints also what cannot be seen.
    """

    def __init__(self) -> None:
        self._painter = Painter()
        self._latest: Densities | None = None
        x_range = Range1d(*X_RANGE)
        self._linear = _Curves("linear", x_range, Range1d(0, 1), self._painter)
        self._logarithmic = _Curves("log", x_range, Range1d(1e-8, 30), self._painter)
        self._ratio = _Ratio(x_range, self._painter)
        self._visible = self._linear
        self._panes = {each: pane(each.figure) for each in (self._linear, self._logarithmic)}
        self.scale = choice("Scale of the densities", {"linear": False, "log": True}, value=False)
        self.panel = card(
            "Densities",
            *self._panes.values(),
            pane(self._ratio.figure),
            tools=[self.scale],
            help_text=(
                "AMCI draws from two proposals. q₂ should look like the posterior; q₁ like g, "
                "the posterior where f is not zero, here above the threshold θ. The lower "
                "picture shows how far q₁ is from g: at 0 they agree, ±0.1 is ten per cent. It "
                "matters within the shaded part, which carries 99 % of g."
            ),
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

    def __init__(self, scale: str, x_range: Range1d, y_range: Range1d, painter: Painter) -> None:
        self._linear = scale == "linear"
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
            {name: [] for name in ("x", *CURVES)},
            name="densities" if self._linear else "densities-log-axis",
        )
        items = []
        for name in CURVES:
            style, parts = SHAPES[name], []
            wanted = name in ("posterior", "target")
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
            items.append((style.label, [*parts, line]))
        tips = [(SHAPES[name].label, f"@{name}{{0.000e+0}}") for name in CURVES]
        add_hover(shown, line, [("x", "@x{0.00}"), *tips], mode="vline")
        add_legend(shown, items)

    def show(self, found: Densities) -> None:
        """Draws new densities."""
        self._source.data = {name: getattr(found, name) for name in ("x", *CURVES)}
        self.mark(found)
        if self._linear:
            # A bad q1 can be a spike: it may leave the picture, g and the posterior may not.
            highest = max(found.target.max(), found.posterior.max())
            wanted = 1.05 * max(highest, min(found.q1.max(), 1.3 * highest))
            set_range(self.figure.y_range, 0, _step(wanted, HEIGHTS))


class _Ratio(_Marked):
    """How far q1 is from g, on a logarithmic scale."""

    def __init__(self, x_range: Range1d, painter: Painter) -> None:
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
        self._source = ColumnDataSource({"x": [], "log_ratio": []}, name="log-ratio-data")
        line = shown.line("x", "log_ratio", source=self._source, line_width=2.5)
        painter.follow(line.glyph, SHAPES["q1"], "line_color")
        tips = [("x", "@x{0.00}"), ("log-ratio", "@log_ratio{0.0000} nats")]
        add_hover(shown, line, tips, mode="vline")

    def show(self, found: Densities) -> None:
        """Draws a new log-ratio; where g is zero there is none."""
        there = np.isfinite(found.log_ratio)
        x, log_ratio = found.x[there], found.log_ratio[there]
        self._source.data = {"x": x, "log_ratio": log_ratio}
        self.mark(found)
        low, high = found.region
        largest = np.abs(log_ratio[(x > low) & (x <= high)]).max(initial=0.0)
        half = _step(1.1 * float(largest), HALF_HEIGHTS)
        set_range(self.figure.y_range, -half, half)


def _step(wanted: float, steps: tuple[float, ...]) -> float:
    """The least of the steps that is enough, or the largest."""
    return next((step for step in steps if step >= wanted), steps[-1])
