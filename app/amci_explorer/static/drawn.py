r"""Stored pictures of densities: over x, over one coordinate of it, or over the plane."""

from __future__ import annotations

__all__ = ["densities"]

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from amci_explorer.numbers.line import Line
from amci_explorer.numbers.pictures import densities as densities_of
from amci_explorer.plots.colours import SHAPES, label
from amci_explorer.static.pictures import Case, Picture, legend, line_of

# Shares of the highest density of g, and more than all of it.
LEVELS = (0.05, 0.2, 0.4, 0.6, 0.8, 1.01)


def densities(case: Case) -> Picture:
    """The proposals beside what they should be: over x, one coordinate of it, or the plane."""
    found = densities_of(*case.given, *case.pair)
    return Picture(
        partial(_draw_line if isinstance(found, Line) else _draw_plane, found),
        found.about(),
        f"Densities. {case}",
    )


def _draw_line(found: Any, panel: Axes, dark: bool) -> None:
    signed = found.target_minus is not None
    names = {name: label(name, signed=signed, variant=found.variant) for name in SHAPES}
    for name in ("posterior", "target", "target_minus"):
        if getattr(found, name) is not None:
            look: dict[str, Any] = {"color": SHAPES[name].colour(dark), "lw": 0, "alpha": 0.35}
            panel.fill_between(found.x, getattr(found, name), label=names[name], **look)
    for name in ("q2", "q1", "q1_minus"):
        if getattr(found, name) is not None:
            look = line_of(SHAPES[name], dark) | {"label": names[name]}
            panel.plot(found.x, getattr(found, name), **look)
    panel.set(xlabel=getattr(found, "label", "x"), ylabel="density", xlim=found.extent)
    panel.set_ylim(0, 1.3 * float(np.nanmax([found.target, found.posterior])))
    legend(panel)


def _draw_plane(found: Any, panel: Axes, dark: bool) -> None:
    levels = np.array(LEVELS) * np.nanmax(found.target)
    shade, line = SHAPES["target"].colour(dark), SHAPES["q1"]
    shades = [(*to_rgb(shade), alpha) for alpha in np.linspace(0.25, 0.9, len(levels) - 1)]
    panel.contourf(found.x, found.y, found.target, levels, colors=shades)
    panel.contour(found.x, found.y, found.q1, levels[:-1], colors=line.colour(dark))
    panel.plot([], [], color=line.colour(dark), label=label("q1", variant=found.variant))
    panel.fill_between([], [], color=shade, alpha=0.6, label=label("target"))
    panel.set(xlabel=found.labels[0], ylabel=found.labels[1])
    panel.set(xlim=found.extent[0], ylim=found.extent[1])
    legend(panel)
