r"""The learnt proposals beside what they should be, and the log-ratio of q1 to g below."""

from __future__ import annotations

__all__ = ["DensityView"]

import math

import numpy as np
from bokeh.models import BoxAnnotation, ColumnDataSource, Range1d, Span
from bokeh.plotting import figure

from app.colours import SHAPES
from app.store import X_RANGE, Densities
from app.summary import number
from app.views.figures import Painter, add_hover, add_legend, describe, pane, picture, set_range
from app.views.inputs import choice
from app.views.layout import card

# Half-heights of the log-ratio's axis, in nats: it changes in steps, not with every move.
HALF_HEIGHTS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CURVES = ("posterior", "target", "q2", "q1")


class DensityView:
    """Creates both pictures, empty; `show` fills them."""

    def __init__(self) -> None:
        self._painter = Painter()
        empty: list[float] = []
        self.source = ColumnDataSource(
            {name: empty for name in ("x", *CURVES, "log_ratio")}, name="densities"
        )
        self._x_range = Range1d(*X_RANGE)
        self._region = [BoxAnnotation(fill_alpha=0.16, line_alpha=0) for _ in range(3)]
        self._threshold = [Span(dimension="height", line_width=1.5) for _ in range(3)]
        self.linear = self._densities("linear", Range1d(0, 1))
        self.logarithmic = self._densities("log", Range1d(1e-8, 30))
        self.ratio = self._ratio()
        self.scale = choice("Scale of the densities", {"linear": False, "log": True}, value=False)
        self._shown = [pane(self.linear), pane(self.logarithmic)]
        self.panel = card(
            "Densities",
            *self._shown,
            pane(self.ratio),
            tools=[self.scale],
            help_text=(
                "AMCI draws from two proposals. q₂ should look like the posterior; q₁ like g, "
                "the posterior where f is not zero, here above the threshold θ. The lower "
                "picture shows how far q₁ is from g: at 0 they agree, ±0.1 is ten per cent. It "
                "matters within the shaded part, which carries 99 % of g."
            ),
        )
        self.set_scale(False)

    def show(self, found: Densities) -> None:
        """Draws new densities."""
        self.source.data = {
            "x": found.x,
            "posterior": found.posterior,
            "target": found.target,
            "q1": found.q1,
            "q2": found.q2,
            "log_ratio": found.log_ratio,
        }
        for span in self._threshold:
            span.location = found.threshold
        for box in self._region:
            box.update(left=found.region[0], right=found.region[1])
        # A bad q1 can be a spike: it may leave the picture, g and the posterior may not.
        highest = max(found.target.max(), found.posterior.max())
        top = 1.08 * max(highest, min(found.q1.max(), 1.5 * highest))
        set_range(self.linear.y_range, 0, top)
        half = self._half_height(found)
        set_range(self.ratio.y_range, -half, half)

    def describe(self, found: Densities) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        low, high = found.region
        text = (
            f"Densities over x. The threshold is at {found.threshold:.3g}; 99 % of g lies from "
            f"{low:.3g} to {high:.3g}. The divergence of q1 from g is "
            f"{number(max(found.divergence, 0), 2)} nats."
        )
        for shown in (self.linear, self.logarithmic):
            describe(shown, text)

    def set_scale(self, logarithmic: bool) -> None:
        """Shows the densities on a linear or a logarithmic axis."""
        self._shown[0].visible = not logarithmic
        self._shown[1].visible = logarithmic

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._painter.paint(dark)

    def _densities(self, scale: str, y_range: Range1d) -> figure:
        shown = picture(
            f"densities-{scale}",
            alternative="Densities over x: learnt proposals, the posterior and g.",
            x_label="x",
            y_label="density" if scale == "linear" else "density, log scale",
            height=300,
            x_range=self._x_range,
            y_range=y_range,
            y_axis_type=scale,
        )
        index = 0 if scale == "linear" else 1
        self._decorate(shown, index)
        items = []
        for name in CURVES:
            style = SHAPES[name]
            target = name in ("posterior", "target")
            if target:
                area = shown.varea(
                    "x", 0 if scale == "linear" else 1e-30, name, source=self.source
                )
                area.glyph.fill_alpha = 0.18 if name == "posterior" else 0.3
                self._painter.follow(area.glyph, style, "fill_color")
            line = shown.line(
                "x",
                name,
                source=self.source,
                line_width=1.5 if target else 2.5,
                line_dash=list(style.dash) or "solid",
                name=name,
            )
            self._painter.follow(line.glyph, style, "line_color")
            items.append((style.label, [area, line] if target else [line]))
            if name == "q1":
                tips = [("x", "@x{0.00}")] + [
                    (SHAPES[c].label, f"@{c}{{0.000e+0}}") for c in CURVES
                ]
                add_hover(shown, line, tips, mode="vline")
        add_legend(shown, items)
        return shown

    def _ratio(self) -> figure:
        shown = picture(
            "log-ratio",
            alternative="Log-ratio of q1 to g over x, in nats.",
            x_label="x",
            y_label="log q₁ − log g, nats",
            height=200,
            tools="box_zoom,reset",
            x_range=self._x_range,
            y_range=Range1d(-0.1, 0.1),
        )
        self._decorate(shown, 2)
        zero = Span(location=0, dimension="width", line_width=1)
        shown.add_layout(self._painter.follow(zero, SHAPES["target"], "line_color"))
        line = shown.line("x", "log_ratio", source=self.source, line_width=2.5, name="log_ratio")
        self._painter.follow(line.glyph, SHAPES["q1"], "line_color")
        tips = [("x", "@x{0.00}"), ("log-ratio", "@log_ratio{0.0000} nats")]
        add_hover(shown, line, tips, mode="vline")
        shown.yaxis.ticker.desired_num_ticks = 5
        return shown

    def _decorate(self, shown: figure, index: int) -> None:
        box, span = self._region[index], self._threshold[index]
        shown.add_layout(self._painter.follow(box, SHAPES["region"], "fill_color"))
        span.line_dash = list(SHAPES["threshold"].dash)
        shown.add_layout(self._painter.follow(span, SHAPES["threshold"], "line_color"))

    @staticmethod
    def _half_height(found: Densities) -> float:
        low, high = found.region
        inside = (found.x > low) & (found.x <= high) & np.isfinite(found.log_ratio)
        largest = float(np.abs(found.log_ratio[inside]).max(initial=0.0))
        fitting = [half for half in HALF_HEIGHTS if half >= 1.1 * largest]
        return fitting[0] if fitting and math.isfinite(largest) else HALF_HEIGHTS[-1]
