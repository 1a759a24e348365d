r"""Draws from the mixture of all proposals, out of the draws of each: SNIS q_m.

The mixture is one proposal more, so its points go through the same table as SNIS q2. Each of its
points is taken from the proposals' draws of the same number; which one is chosen by chance, as in
the paper, or in turn.
"""

from __future__ import annotations

__all__ = ["mixture_draws", "random_components", "stratified_components"]

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import Array, Draws, Points

Components = NDArray[np.int64]


def random_components(
    shape: tuple[int, ...], *, proposals: int, rng: np.random.Generator
) -> Components:
    """Independent, equally likely choices of a proposal: the paper's q_m."""
    return rng.integers(proposals, size=shape, dtype=np.int64)


def stratified_components(
    shape: tuple[int, ...], *, proposals: int, rng: np.random.Generator
) -> Components:
    """The proposals in turn, so that each contributes equally to every estimate.

    The first one is chosen by chance: otherwise an odd number of draws would favour it.
    """
    first = rng.integers(proposals, size=(*shape[:-1], 1), dtype=np.int64)
    return (first + np.arange(shape[-1])) % proposals


def mixture_draws(draws: Draws, components: Components) -> Draws:
    """Points of q_m = mean_j q_j, in the place of q2.

    Arguments:
        draws: Equally many points of every proposal, with every density at each.
        components: Which of the proposals present each point comes from, (*, n).
    """
    n = components.shape[-1]
    parts = [draws.of(j) for j in draws.present]
    equal = -np.log(len(parts))

    def pick(values: list[Array]) -> Array:
        picked = values[0][..., :n]
        for k, other in enumerate(values[1:], start=1):
            picked = np.where(components == k, other[..., :n], picked)
        return picked

    log_densities = [pick([p.log_q_of(j) for p in parts]) for j in draws.present]
    log_q = np.logaddexp.reduce(log_densities) + equal
    minus = [p.f_minus for p in parts if p.f_minus is not None]
    points = Points(
        f_plus=pick([p.f_plus for p in parts]),
        f_minus=pick(minus) if minus else None,
        log_joint=pick([p.log_joint for p in parts]),
        log_q=(None, None, log_q),
    )
    return Draws((None, None, points))
