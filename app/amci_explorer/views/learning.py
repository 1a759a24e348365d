r"""How a training goes: held-out relative variance and loss against seconds."""

from __future__ import annotations

__all__ = ["LearningView"]

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Range1d
from bokeh.plotting import figure

from amci_core.estimators.draws import Array
from amci_explorer.compute.learner import lines
from amci_explorer.compute.trainee import Report
from amci_explorer.plots.colours import SHAPES
from amci_explorer.text import number
from amci_explorer.views.figures import Theme, add_hover, describe, pane, picture, set_range
from amci_explorer.views.layout import column
from amci_explorer.views.legends import Legends

COLUMNS = ("seconds", "best", "variance", "loss")
# The style and the label of each proposal.
STYLES = {"q1_plus": ("q1", "q₁"), "q1_minus": ("q1_minus", "q₁⁻"), "q2": ("q2", "q₂")}
LEAST, MOST = 1e-9, 1e6
LEAST_SECONDS = 5.0


class LearningView:
    """Creates the pictures, empty; `show` fills them.

    Arguments:
        painter: What draws them for a dark page.
    """

    def __init__(self, painter: Theme) -> None:
        self.sources = {
            name: ColumnDataSource({c: [] for c in COLUMNS}, name=f"learning-{name}")
            for name in STYLES
        }
        self._x = Range1d(0, LEAST_SECONDS)
        options: dict[str, Any] = {"x_label": "seconds of training", "x_range": self._x}
        self.variance: figure = picture(
            "learning-variance",
            alternative="Relative variance at held-out cases against seconds of training.",
            y_label="relative variance, held out",
            height=310,
            y_range=Range1d(1e-3, 10),
            y_axis_type="log",
            tools="box_zoom,reset",
            **options,
        )
        self.loss: figure = picture(
            "learning-loss",
            alternative="Loss against seconds of training.",
            y_label="loss",
            height=230,
            y_range=Range1d(0, 1),
            tools="box_zoom,reset",
            **options,
        )
        self.loss.yaxis.ticker.desired_num_ticks = 4
        parts: dict[str, list[Any]] = {}
        for name, (style, _) in STYLES.items():
            source, shape = self.sources[name], SHAPES[style]
            now = self.variance.line("seconds", "variance", source=source, line_alpha=0.45)
            best = self.variance.line(
                "seconds", "best", source=source, line_width=2.5, line_dash=list(shape.dash)
            )
            loss = self.loss.line("seconds", "loss", source=source, line_width=1.8)
            for each in (now, best, loss):
                painter.follow(each.glyph, shape, "line_color")
            parts[name] = [best, now]
            tips = [("seconds", "@seconds{0.0}"), ("best", "@best{0.00e+0}")]
            add_hover(self.variance, [best], [*tips, ("now", "@variance{0.00e+0}")])
            add_hover(self.loss, [loss], [tips[0], ("loss", "@loss{0.0000}")])
        self._legend = Legends(self.variance, parts)
        self.panel = column(pane(self.variance), pane(self.loss))

    def show(self, reports: list[Report]) -> None:
        """Draws where a training stood."""
        by_name = lines(reports)
        for name, source in self.sources.items():
            found = by_name.get(name, [])
            columns = {c: np.array([getattr(each, c) for each in found]) for c in COLUMNS}
            for c in ("best", "variance"):
                columns[c] = np.clip(columns[c], LEAST, MOST)
            source.data = columns
        self._legend.show({name: STYLES[name][1] for name in by_name})
        last = reports[-1].seconds if reports else 0.0
        set_range(self._x, 0, max(LEAST_SECONDS, 5 * np.ceil(1.02 * last / 5)))
        seen = _finite([v for each in reports for v in (each.best, each.variance)])
        seen = np.clip(seen[seen > 0], LEAST, MOST)
        if seen.size:
            low, high = np.floor(np.log10(seen.min())), np.ceil(np.log10(seen.max()))
            set_range(self.variance.y_range, 10.0**low, 10.0 ** max(high, low + 1))
        losses = _finite([each.loss for each in reports])
        if losses.size:
            low, high = np.quantile(losses, [0.0, 0.98])
            room = 0.06 * max(high - low, 1e-3)
            set_range(self.loss.y_range, low - room, high + room)

    def describe(self, reports: list[Report]) -> None:
        """Renews the text alternatives."""
        said = ", ".join(
            f"{STYLES[name][1]} from {number(each[0].best)} to {number(each[-1].best)}"
            for name, each in lines(reports).items()
        )
        if said:
            about = "Relative variance at held-out cases, the best so far: "
            describe(self.variance, f"{about}{said}.")
        losses = _finite([each.loss for each in reports])
        if losses.size:
            first, last = (number(float(losses[i])) for i in (0, -1))
            describe(self.loss, f"Loss against seconds of training, from {first} to {last}.")


def _finite(values: list[float]) -> Array:
    found = np.array(values, dtype=float)
    return found[np.isfinite(found)]
