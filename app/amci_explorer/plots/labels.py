r"""Names beside the ends of curves: never on one another, never cut."""

from __future__ import annotations

__all__ = ["apart"]

from collections.abc import Sequence

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
