r"""Which of many lines a click means, on logarithmic axes."""

from __future__ import annotations

__all__ = ["nearest_line"]

import numpy as np
from bokeh.core.property.descriptors import UnsetValueError
from bokeh.plotting import figure

from amci_core.estimators.draws import Array

# A click so near to a line means it, in pixels.
NEAR = 14.0
# The frame's size that the page has not told yet, in pixels.
USUAL_SIZE = (600, 340)


def nearest_line(shown: figure, at: tuple[float, float], x: Array, y: Array) -> int | None:
    """The line that passes nearest to a place; None where none is near.

    Arguments:
        shown: The figure, both of whose axes are logarithmic.
        at: The place, in units of the axes.
        x: Where every line has its points, (B,).
        y: How high they are there, (n, B); NaN where a line has none.
    """
    if min(at) <= 0 or not y.size:
        return None
    ranges = (shown.x_range, shown.y_range)
    # Pixels for each factor of ten, upwards as well.
    unit = [
        size / abs(np.log10(axis.end / axis.start))
        for axis, size in zip(ranges, _size(shown), strict=True)
    ]
    # In pixels from the place, (n, B, 2).
    across = np.broadcast_to(unit[0] * np.log10(x / at[0]), y.shape)
    points = np.stack([across, unit[1] * np.log10(y / at[1])], axis=-1)
    start, way = points[:, :-1], np.diff(points, axis=1)
    along = -(start * way).sum(-1) / np.maximum((way * way).sum(-1), 1e-12)
    stretches = start + np.clip(along, 0, 1)[..., None] * way
    apart = np.linalg.norm(np.concatenate([points, stretches], axis=1), axis=-1)
    nearest = np.where(np.isnan(apart), np.inf, apart).min(axis=1)
    line = int(nearest.argmin())
    return line if nearest[line] <= NEAR else None


def _size(shown: figure) -> tuple[float, float]:
    """The frame's width and height on the page, in pixels."""
    try:
        return shown.inner_width or USUAL_SIZE[0], shown.inner_height or USUAL_SIZE[1]
    except UnsetValueError:
        return USUAL_SIZE
