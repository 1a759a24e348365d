r"""Splines with a defensive component: q1 = s q2 + (1 - s) spline, s a function of y and theta.

Where f has a floor, f p(x, y) is a little of p(x, y) and a part of its own: two islands, of which
one spline covers the first badly. The first is what q2 is for.
"""

from __future__ import annotations

__all__ = ["Defended", "defended_spline"]

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from amci_core.flows.autoregressive import Autoregressive, autoregressive_spline
from amci_core.flows.conditioner import Conditioner
from amci_core.flows.density import Trainable, TrainableDensity, flat_cases
from amci_core.models.base import Problem

# Training starts from about LOG_ODDS_AT_START, a share of two in a hundred.
LOG_ODDS_AT_START, LOG_ODDS_SCALE = -4.0, 8.0


class Defended(Trainable):
    """A mixture of a proposal of its own and, for the share s(y, theta), the problem's q2.

    References:
        Hesterberg, Weighted average importance sampling and defensive mixture distributions, 1995.

    Arguments:
        own: What is trained.
        defence: A copy of q2; it takes over q2's weights, and keeps them.
        share: The network that predicts the log-odds of s.
    """

    def __init__(self, own: Autoregressive, defence: Autoregressive, share: Conditioner) -> None:
        super().__init__()
        self.own, self.share = own, share
        self.defence = defence.requires_grad_(False)

    def initialize(self, generator: torch.Generator) -> None:
        self.own.initialize(generator)
        self.share.initialize(generator)

    def adopt(self, trained: Mapping[str, Trainable]) -> bool:
        if "q2" not in trained:
            raise ValueError("terms: a defended proposal expects q2 to be trained before it")
        self.defence.load_state_dict(trained["q2"].state_dict())
        return True

    def log_odds(self, y: Tensor, theta: Tensor | None) -> Tensor:
        """log s / (1 - s) for y (cases, D_y) and theta (cases, D_theta): (cases, 1)."""
        return LOG_ODDS_AT_START + LOG_ODDS_SCALE * self.share(y, theta)

    def __call__(self, y: Tensor, theta: Tensor | None) -> DefendedDensity:
        return DefendedDensity(self, y, theta)


class DefendedDensity(TrainableDensity):
    """The mixture at given y and theta.

    The first coordinate of a base point tells which component carries it, and is then stretched
    to (0, 1] again, so that stratified base points are strata of the mixture.
    """

    def __init__(self, proposal: Defended, y: Tensor, theta: Tensor | None) -> None:
        super().__init__(y.shape[:-1])
        self._own, self._defence = proposal.own(y, theta), proposal.defence(y, theta)
        log_odds = proposal.log_odds(*flat_cases(y, theta))
        self._share = torch.sigmoid(log_odds)
        log_shares = logsigmoid(log_odds), logsigmoid(-log_odds)
        self._log_share, self._log_rest = (log.reshape(*self.batch_shape, 1) for log in log_shares)

    def noise(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self._own.noise(n, generator)

    def from_uniform(self, u: Tensor) -> Tensor:
        return self._own.from_uniform(u)

    def stratified_noise(self, n: int, generator: torch.Generator) -> Tensor:
        return self._own.stratified_noise(n, generator)

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        grouped = z.reshape(len(self._share), -1, z.shape[-1])
        first, others = grouped[..., 0], grouped[..., 1:]
        defended = first <= self._share
        stretched = (first - self._share) / (1 - self._share)
        x, log_own = self._own.transport(_base_points(stretched.where(~defended, 1.0), others))
        if not defended.any():
            return x, self._mixed(log_own, self._defence.log_prob(x))
        stretched = first / self._share
        other, log_defence = self._defence.transport(
            _base_points(stretched.where(defended, 1.0), others)
        )
        chosen = defended.reshape(x.shape[:-1])
        x = torch.where(chosen[..., None], other, x)
        return x, self._mixed(
            torch.where(chosen, self._own.log_prob(x), log_own),
            torch.where(chosen, log_defence, self._defence.log_prob(x)),
        )

    def log_prob(self, x: Tensor) -> Tensor:
        return self._mixed(self._own.log_prob(x), self._defence.log_prob(x))

    def _mixed(self, log_own: Tensor, log_defence: Tensor) -> Tensor:
        return torch.logaddexp(log_own + self._log_rest, log_defence + self._log_share)


def _base_points(first: Tensor, others: Tensor) -> Tensor:
    """Rows of base points in (0, 1]^D; a stretched coordinate may be rounded to zero."""
    first = first.clamp(torch.finfo(first.dtype).tiny, 1)
    return torch.cat([first[..., None], others], -1).flatten(0, 1)


def defended_spline(
    problem: Problem,
    *,
    coordinates: Sequence[Mapping[str, Any]],
    defence: Mapping[str, Any],
    bins: int,
    hidden: tuple[int, ...],
    activation: str,
    reads_theta: bool = True,
) -> Defended:
    """Splines coordinate by coordinate, with q2 as a defensive component.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: As for `autoregressive_spline`.
        defence: q2's own arguments, an `autoregressive_spline` too.
        bins: Number of bins of each spline.
        hidden: Widths of the hidden layers of each network.
        activation: The networks' activation.
        reads_theta: Whether they read theta beside y.

    Raises:
        ValueError: as for `autoregressive_spline`.
    """
    network: dict[str, Any] = {"hidden": hidden, "activation": activation}
    share = Conditioner(
        y=problem.y, theta=problem.theta if reads_theta else None, out=1, **network
    )
    own = autoregressive_spline(
        problem, coordinates=coordinates, bins=bins, reads_theta=reads_theta, **network
    )
    return Defended(own, autoregressive_spline(problem, **defence), share)
