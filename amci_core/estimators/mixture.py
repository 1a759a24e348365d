r"""Draws from the mixture of all proposals, out of the draws of each: SNIS q_m.

The mixture is one proposal more, so its points go through the same table as SNIS q2. Each of its
points is taken from the proposals' draws of the same number; which one is chosen by chance, as in
the paper, or in turn.
"""

from __future__ import annotations

__all__ = [
    "MixtureDraws",
    "mixture_draws",
    "random_components",
    "stratified_components",
    "stratified_moments",
]

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import Array, Draws, Points
from amci_core.estimators.moments import Moments, reweighted_covariance
from amci_core.estimators.pooling import terms_of

Components = NDArray[np.int64]


class MixtureDraws(NamedTuple):
    """Draws from the mixture in the place of q2, and log q_j at them for each component j."""

    draws: Draws
    log_components: tuple[Array, ...]


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


def mixture_draws(draws: Draws, components: Components) -> MixtureDraws:
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

    log_densities = tuple(pick([p.log_q_of(j) for p in parts]) for j in draws.present)
    log_q = np.logaddexp.reduce(log_densities) + equal
    minus = [p.f_minus for p in parts if p.f_minus is not None]
    points = Points(
        f_plus=pick([p.f_plus for p in parts]),
        f_minus=pick(minus) if minus else None,
        log_joint=pick([p.log_joint for p in parts]),
        log_q=(None, None, log_q),
    )
    return MixtureDraws(Draws((None, None, points), draws.log_E2), log_densities)


def stratified_moments(mixed: MixtureDraws) -> Moments:
    """Moments of stratified draws, in the place of q2's: the covariance within components.

    Stratifying fixes how many draws come from each component, so that the spread between the
    components' means adds no variance: with Cov_j the covariance of t p / q_m under component j,
    n draws of the mixture have the covariance mean_j Cov_j / n. As everywhere, each Cov_j is
    estimated from all draws, here reweighted by q_j / q_m.
    """
    points = mixed.draws.of(2)
    log_mixture = points.log_q_of(2)
    log_w = points.log_joint - log_mixture
    log_scale = log_w.max(axis=-1)
    values = terms_of([points]) * np.exp(log_w - log_scale[..., None])[..., None, :]
    within = [
        reweighted_covariance(values, np.exp(log_q - log_mixture))
        for log_q in mixed.log_components
    ]
    covariance = np.full((*log_scale.shape, 3, 3, 3), np.nan)
    covariance[..., 2, :, :] = np.mean(within, axis=0)
    return Moments(log_scale, values.mean(axis=-1), covariance, np.array([0, 0, points.n]))
