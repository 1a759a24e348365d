r"""Nodes of a quadrature, computed once."""

from __future__ import annotations

__all__ = ["gauss_legendre"]

from functools import cache

import numpy as np
from numpy.typing import NDArray


@cache
def gauss_legendre(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """n nodes within [-1, 1] and their weights, (n,) each; not to be changed."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights
