r"""How figures look: axes, error curves with bands, and files in SVG and PDF."""

from __future__ import annotations

__all__ = ["Canvas", "error_curves", "quantiles", "save"]

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from amci_explorer.colours import ESTIMATORS
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from amci_core.estimators.draws import Array
from amci_core.evaluation.cases import Cases
from amci_core.io import replacing

# Inches of a panel, and of what stands around it.
WIDTH, HEIGHT, AROUND = 3.3, 2.7, 0.8
# Lines of larger errors are cut: one draw that is wrong by 10^18 would flatten all others.
HIGHEST = 1e3
SETTINGS = {
    "font.size": 9.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "amci",
    "pdf.fonttype": 42,
}


class Canvas:
    """Creates a figure with rows x columns of panels, and a legend below them.

    Arguments:
        rows: Number of rows.
        columns: Number of columns.
        title: What stands above.
    """

    def __init__(self, rows: int, columns: int, title: str) -> None:
        with rc_context(SETTINGS):
            size = (WIDTH * columns + 0.3, HEIGHT * rows + AROUND)
            self.figure = Figure(figsize=size, layout="constrained")
            FigureCanvasAgg(self.figure)
            self.panels: Any = self.figure.subplots(rows, columns, squeeze=False)
            self.figure.suptitle(title, fontsize=11)

    def legend(self, *panels: Axes) -> None:
        """A legend of what is in these panels, each name once."""
        named: dict[str, Any] = {}
        for panel in panels:
            for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
                named.setdefault(name, handle)
        self.figure.legend(
            list(named.values()),
            list(named),
            loc="outside lower center",
            ncols=len(named),
            frameon=False,
        )


def error_curves(
    panel: Axes,
    draws: Array,
    cases: Cases,
    names: Iterable[str],
    *,
    band: str = "runs",
    figure: str = "remse",
) -> None:
    """The median over cases of an error against total draws, with a band.

    A marker is hollow where in more than half of the cases the runs do not determine the mean.

    Arguments:
        panel: Where it is drawn.
        draws: Total draws, (B,).
        cases: The errors.
        names: Estimators.
        band: `runs`: the quartiles of one run's error, medians over cases, as the paper has it;
            `cases`: the quartiles over cases of the mean error; or neither.
        figure: remse or mse.
    """
    shown: list[Array] = []
    for name in names:
        style, own = ESTIMATORS[name], cases.by_name[name]
        (median,), (error,) = quantiles(own[figure], [0.5])
        dash = (0, tuple(step / 2 for step in style.dash)) if style.dash else "solid"
        panel.plot(draws, median, color=style.light, linestyle=dash, label=style.label, lw=1.4)
        if name != "bound":
            judged = (own["determined"] != 0).mean(axis=0) > 0.5
            bars: dict[str, Any] = {"color": style.light, "fmt": "o", "ms": 3, "lw": 0.8}
            for which, face in ((judged, style.light), (~judged, "white")):
                # Downwards an error of the size of the median has no end on a log scale.
                ends = [np.minimum(error, 0.9 * median)[which], error[which]]
                panel.errorbar(draws[which], median[which], ends, markerfacecolor=face, **bars)
        low_high = _band(own, band, figure, name)
        if low_high is not None:
            panel.fill_between(draws, *low_high, color=style.light, alpha=0.15, lw=0)
        shown.append(median)
    panel.set_xscale("log")
    panel.set_yscale("log")
    _limit(panel, shown, figure)


def quantiles(values: Array, levels: Sequence[float]) -> tuple[Array, Array]:
    """Quantiles of values (n, *) along the first axis, (L, *), and their standard errors.

    NaN values are left out. Of n values about n p +- sqrt(n p (1 - p)) lie below the quantile p:
    its standard error is half the distance between the order statistics of these two ranks, rough
    below some 20 values. It is zero for the largest value, and NaN for a single one.
    """
    n = (~np.isnan(values)).sum(axis=0)
    ordered = np.sort(values, axis=0)
    p = np.array(levels).reshape(-1, *[1] * n.ndim)
    step = np.sqrt(p * (1 - p) / np.maximum(n, 1))

    def at(level: Array) -> Array:
        place = level.clip(0, 1) * np.maximum(n - 1, 0)
        low = np.floor(place).astype(np.int64)
        part = place - low
        first = np.take_along_axis(ordered, low, axis=0)
        above = np.minimum(low + 1, np.maximum(n - 1, 0))
        second = np.take_along_axis(ordered, above, axis=0)
        flat = (part == 0) | (first == second)
        return np.where(flat, first, first + part * (second - first))

    with np.errstate(invalid="ignore"):
        return at(p + 0 * step), np.where(n > 1, (at(p + step) - at(p - step)) / 2, np.nan)


def _band(own: Any, band: str, figure: str, name: str) -> tuple[Array, Array] | None:
    if band == "runs" and figure == "remse" and name != "bound":
        low, high = (quantiles(own[f"remse_{q}"], [0.5])[0][0] for q in ("q25", "q75"))
        return low, high
    if band == "cases":
        low, high = quantiles(own[figure], [0.25, 0.75])[0]
        return low, high
    return None


def _limit(panel: Axes, shown: list[Array], figure: str) -> None:
    known = np.concatenate(shown)
    known = known[np.isfinite(known) & (known > 0)]
    if not len(known):
        return
    high = min(HIGHEST, float(known.max()) * 5) if figure == "remse" else float(known.max()) * 5
    panel.set_ylim(float(known.min()) / 5, high)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Writes NAME.svg and NAME.pdf; the same figure gives the same bytes."""
    written = []
    for kind, date in (("svg", "Date"), ("pdf", "CreationDate")):
        path = folder / f"{name}.{kind}"
        with replacing(path) as beside, rc_context(SETTINGS):
            figure.savefig(beside, format=kind, metadata={date: None})
        written.append(path)
    return written
