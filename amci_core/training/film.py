r"""Which moments of a training its film shows: evenly along the divergence, on a log scale."""

from __future__ import annotations

__all__ = ["FRAMES", "LARGEST_FILM", "candidates", "chosen", "is_news"]

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

# Frames of a film unless its recipe says otherwise, and at most.
FRAMES, LARGEST_FILM = 8, 24
# Early moments at which a training is looked at for its film; later on its reports come as often.
LOOKS, EARLY = 24, 0.01
# A frame is kept when the divergence has fallen by this factor since the last one.
FALL = 1.5


def candidates(steps: int) -> set[int]:
    """Steps at which a training of so many is looked at beside its reports: on a log scale.

    Example:
        >>> sorted(candidates(400))
        [1, 2, 3, 4]
    """
    last = max(EARLY * steps, 1)
    return set(np.rint(np.geomspace(1, last, LOOKS)).astype(int).tolist())


def is_news(film: Sequence[dict[str, Any]], divergence: float) -> bool:
    """Whether a proposal with this held-out divergence, in nats, belongs into the film so far."""
    return not film or divergence * FALL < film[-1]["divergence"]


def chosen(film: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """At most `count` frames, the first and the last among them.

    Their divergences are as even on a log scale as those of the film allow.

    Arguments:
        film: Frames in the order of training, each with its `divergence` in nats.
        count: At least 2.

    Example:
        >>> film = [{"divergence": 2.0**-k} for k in range(9)]
        >>> [frame["divergence"] for frame in chosen(film, 3)]
        [1.0, 0.0625, 0.00390625]
    """
    if len(film) <= count:
        return list(film)
    smallest = np.finfo(float).tiny
    logs = [math.log(max(frame["divergence"], smallest)) for frame in film]
    wanted = np.linspace(logs[0], logs[-1], count)[1:-1]
    inner = range(1, len(film) - 1)
    nearest = {min(inner, key=lambda i: abs(logs[i] - each)) for each in wanted}
    return [film[i] for i in sorted({0, *nearest, len(film) - 1})]
