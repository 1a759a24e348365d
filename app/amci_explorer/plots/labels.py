r"""Names beside the ends of curves: never on one another, never cut."""

from __future__ import annotations

__all__ = ["apart", "end_labels", "width_of"]

from collections.abc import Sequence
from typing import Any

import holoviews as hv
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

# Of a line of text of 12 pixels, in pixels.
LABEL_HEIGHT = 15.0


def apart(
    places: Sequence[float],
    low: float,
    high: float,
    *,
    height: float,
    heights: Sequence[float] = (),
) -> NDArray[np.float64]:
    """Moves labels along a logarithmic axis, as little as possible, so that none overlaps another.

    The sum of the squared ways is least. All stay within the axis; if it is too short for all of
    them, they share it evenly.

    Arguments:
        places: Where the labels belong, in units of the axis, (n,).
        low: The axis' lower end.
        high: Its upper end.
        height: Of the axis, in pixels.
        heights: Of the labels, in pixels, (n,); by default of one line of text each.

    Returns:
        Where their middles go, in units of the axis, (n,).

    Example:
        >>> apart([10.0, 10.0], 1.0, 100.0, height=30).round(3).tolist()
        [3.162, 31.623]
    """
    if not len(places):
        return np.empty(0)
    scale = height / np.log(high / low)
    pixels = scale * np.log(np.asarray(places) / low)
    order = np.argsort(pixels, kind="stable")
    tall = np.array(heights or [LABEL_HEIGHT] * len(places), float)[order]
    tall *= min(1.0, height / tall.sum())
    # Of each label, what those below it and half of itself take up.
    steps = np.cumsum(tall) - tall / 2
    # Without their distances they only have to be in order.
    fitted = isotonic_regression(pixels[order] - steps).x
    placed = np.empty(len(places))
    placed[order] = np.clip(fitted, 0, height - tall.sum()) + steps
    return np.asarray(low * np.exp(placed / scale))


def width_of(texts: Sequence[str]) -> int:
    """The room that labels need beside a picture, in pixels."""
    return round(12 + 7.2 * max(map(len, texts), default=0))


def end_labels(
    x: float,
    y: Sequence[float],
    texts: Sequence[str],
    colours: Sequence[str],
    *,
    ylim: tuple[float, float],
    height: float,
) -> hv.Labels:
    """Labels in the right margin of a picture, as wide as they need, in the colours of its curves.

    Arguments:
        x: Where the curves end.
        y: How high each ends, (n,).
        texts: Their names.
        colours: Their colours.
        ylim: Ends of the logarithmic y axis.
        height: Height of the frame, in pixels.
    """

    def into_margin(plot: Any, _: Any) -> None:
        drawn = plot.handles["glyph_renderer"]
        drawn.level = "overlay"
        drawn.glyph.x_offset = 8
        plot.state.min_border_right = width_of(texts)

    at = apart(y, *ylim, height=height)
    columns = {"x": [x] * len(at), "y": at, "text": list(texts), "colour": list(colours)}
    return hv.Labels(columns, ["x", "y"], ["text", "colour"]).opts(
        text_color="colour",
        text_align="left",
        text_baseline="middle",
        text_font_size="12px",
        text_font_style="bold",
        hooks=[into_margin],
    )
