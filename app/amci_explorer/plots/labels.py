r"""Names beside the ends of curves: never on one another, never cut."""

from __future__ import annotations

__all__ = ["LABEL_HEIGHT", "apart", "end_labels", "width_of"]

from collections.abc import Sequence
from typing import Any

import holoviews as hv
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

# Of a line of text of 12 pixels, and of one of its characters on average, in pixels.
LABEL_HEIGHT, CHARACTER = 15.0, 7.2


def apart(
    places: Sequence[float],
    low: float,
    high: float,
    *,
    height: float,
    log: bool = True,
    least: float = LABEL_HEIGHT,
) -> NDArray[np.float64]:
    """Moves labels along an axis, as little as possible, so that none overlaps another.

    The sum of the squared ways is least. All stay within the axis; if it is too short for all of
    them, they share it evenly.

    Arguments:
        places: Where the labels belong, in units of the axis, (n,).
        low: The axis' lower end.
        high: Its upper end.
        height: Of the axis, in pixels.
        log: Whether the axis is logarithmic.
        least: The distance between two labels, in pixels.

    Returns:
        Where they go, in units of the axis, (n,).

    Example:
        >>> apart([10.0, 10.0], 1.0, 100.0, height=100, least=50).round(3).tolist()
        [3.162, 31.623]
    """
    n = len(places)
    if n == 0:
        return np.empty(0)
    start, end, at = (np.log(v) if log else np.asarray(v, float) for v in (low, high, places))
    pixels = height * (at - start) / (end - start)
    least = min(least, (height - least) / max(n - 1, 1))
    order, steps = np.argsort(pixels, kind="stable"), least * np.arange(n)
    # Without their distances they only have to be in order.
    fitted = isotonic_regression(pixels[order] - steps).x
    margin = max(0.0, min(LABEL_HEIGHT / 2, (height - steps[-1]) / 2))
    placed = np.empty(n)
    placed[order] = np.clip(fitted, margin, height - margin - steps[-1]) + steps
    values = start + placed / height * (end - start)
    return np.exp(values) if log else values


def width_of(texts: Sequence[str]) -> int:
    """The room that labels need beside a picture, in pixels."""
    return round(12 + CHARACTER * max(map(len, texts), default=0))


def end_labels(
    x: float,
    y: Sequence[float],
    texts: Sequence[str],
    colours: Sequence[str],
    *,
    ylim: tuple[float, float],
    height: float,
    log: bool = True,
) -> hv.Labels:
    """Labels to the right of a picture, each in the colour of its curve.

    They stand in the margin, which is as wide as they need: put `hv.opts` of the overlay beside
    the curves as `error_curves` does.

    Arguments:
        x: Where the curves end.
        y: How high each ends, (n,).
        texts: Their names.
        colours: Their colours.
        ylim: Ends of the y axis.
        height: Height of the frame, in pixels.
        log: Whether the y axis is logarithmic.
    """
    at = apart(y, *ylim, height=height, log=log)
    labels = hv.Labels(
        {"x": [x] * len(at), "y": at, "text": list(texts), "colour": list(colours)},
        ["x", "y"],
        ["text", "colour"],
    )
    return labels.opts(
        text_color="colour",
        text_align="left",
        text_baseline="middle",
        text_font_size="12px",
        text_font_style="bold",
        hooks=[_into_margin],
    )


def _into_margin(plot: Any, element: hv.Labels) -> None:
    """Draws labels beside the frame, and gives them room there."""
    drawn = plot.handles["glyph_renderer"]
    drawn.level = "overlay"
    drawn.glyph.x_offset = 8
    plot.state.min_border_right = width_of(element.dimension_values("text").tolist())
