r"""What all draws say of one draw of each proposal, and of the errors that runs should have.

Runs of an estimator do not show what they have hardly ever drawn. Draws of the other proposal and
of the broad reference do: with the balance heuristic's mixture m of all of them, expectations
under q_j are means over all points with the weights r = q_j / m.
"""

from __future__ import annotations

__all__ = ["Support", "mean_support", "support_of"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from amci_core.estimators.draws import Array, Draws
from amci_core.estimators.mis import pooled

# Runs determine an error where so many times as many runs would not change it.
MORE_RUNS = 100
# A smaller share of a term is rounding.
EXCESS = 1e-13


@dataclass(frozen=True)
class Support:
    """Moments of (f w, w) of one draw of q1 and of q2, for a single pair.

    Points that a proposal will not draw even in a hundred times as many runs count as if it were
    zero there: they cost their mass, and no variance.

    Arguments:
        mean: Means as shares of the terms, (2, 2) over proposals and terms; below 1 where a
            proposal is zero on part of a term.
        lost: The share of the term where the proposal is not zero and yet will not draw, (2, 2).
        covariance: Covariance in the units of the runs' means, (2, 2, 2).
        draws: Number of draws that say so.
    """

    mean: Array
    lost: Array
    covariance: Array
    draws: int

    def squared_error(
        self, alphas: Array, betas: Array, *, counts: tuple[int, int], target: float
    ) -> Array:
        """Mean squared error of sample reuse to first order, (A, B), in units of the truth's.

        Arguments:
            alphas: Shares of E1 from q1's draws, (A,).
            betas: Shares of E2 from q1's draws, (B,).
            counts: Draws of q1 and of q2.
            target: Sign of mu: 1, or 0 where it is zero.
        """
        first = np.stack([alphas, 1 - alphas])[:, :, None]
        second = np.stack([betas, 1 - betas])[:, None, :]
        mean = self.mean[:, :, None, None]
        per_run = self.covariance / np.array(counts)[:, None, None]

        def summed(shares: Array, values: Array) -> Array:
            # A share of zero takes nothing of an infinite variance.
            parts = values.reshape(2, 1, 1) * shares
            return np.asarray(np.where(shares == 0, 0.0, parts).sum(axis=0))

        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            numerator = target * (mean[:, 0] * first).sum(axis=0)
            denominator = (mean[:, 1] * second).sum(axis=0)
            ratio = numerator / denominator
            spread = (
                summed(first**2, per_run[:, 0, 0])
                - 2 * ratio * summed(first * second, per_run[:, 0, 1])
                + ratio**2 * summed(second**2, per_run[:, 1, 1])
            )
            found = np.square(ratio - target) + spread / denominator**2
        return np.where(np.isnan(found), np.inf, found)

    def lost_error(self, alphas: Array, betas: Array) -> Array:
        """The squared error from mass that will not be drawn, though it could be, (A, B)."""
        numerator, denominator = (
            self.lost[0, t] * shares + self.lost[1, t] * (1 - shares)
            for t, shares in enumerate((alphas, betas))
        )
        return np.asarray(np.square(np.abs(numerator)[:, None] + np.abs(denominator)))


def support_of(
    draws: Draws, proposals: Sequence[int], log_units: Sequence[float], *, planned: Sequence[int]
) -> Support:
    """The moments from all draws, (n,), those of the reference among them.

    Arguments:
        draws: Points with the density of every component at each.
        proposals: The numbers of q1 and q2.
        log_units: Logarithms of the units of f w and of w, in nats.
        planned: Draws of q1 and of q2 in all runs.
    """
    seen = pooled(draws)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_t = np.stack([np.log(np.maximum(draws.f, 0.0)), np.zeros_like(draws.f)])
        log_t = log_t + draws.log_joint - np.array(log_units)[:, None]
        mass = np.exp(log_t - seen.log_mixture)
        mass = mass / np.maximum(mass.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
        means, losses, covariances = [], [], []
        for j, n in zip(proposals, planned, strict=True):
            r = np.exp(draws.log_q[j] - seen.log_mixture)
            # All points below this have, taken as one, a probability of 1 / (MORE_RUNS n).
            drawn = r * MORE_RUNS * n > r.mean()
            share = np.where(drawn, r, 0.0) / r.sum()
            # An exact proposal loses as much probability as mass, and its means nothing.
            rest = (r * ~drawn).sum() / r.sum()
            means.append((1 - (mass * ~drawn).sum(axis=-1)) / (1 - rest))
            lost = (mass * (~drawn & (draws.log_q[j] > -np.inf))).sum(axis=-1) - rest
            losses.append(np.where(lost > EXCESS, lost, 0.0))
            w = np.where(drawn, np.exp(log_t - draws.log_q[j]), 0.0)
            # Roots first: a small share of a large square must not overflow.
            centred = np.sqrt(share) * (w - (share * w).sum(axis=-1, keepdims=True))
            covariances.append(centred @ centred.T)
    return Support(np.stack(means), np.stack(losses), np.stack(covariances), draws.n)


def mean_support(found: Sequence[Support]) -> Support:
    """The mean of batches, by their numbers of draws."""
    draws = np.array([each.draws for each in found])
    share = draws / draws.sum()
    return Support(
        mean=np.tensordot(share, np.stack([each.mean for each in found]), 1),
        lost=np.tensordot(share, np.stack([each.lost for each in found]), 1),
        covariance=np.tensordot(share, np.stack([each.covariance for each in found]), 1),
        draws=int(draws.sum()),
    )
