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

from amci_core.flows.autoregressive import SplineProposal, autoregressive_spline
from amci_core.flows.conditioner import Conditioner, flat_cases
from amci_core.flows.density import MixtureDensity, Trainable, TrainableDensity, log_sum
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

    def __init__(self, own: SplineProposal, defence: SplineProposal, share: Conditioner) -> None:
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
        log_odds: Tensor = LOG_ODDS_AT_START + LOG_ODDS_SCALE * self.share(y, theta)
        return log_odds

    @property
    def component(self) -> Trainable:
        return self.defence

    def tie(self, other: Trainable) -> None:
        if isinstance(other, SplineProposal) and other.equals(self.defence):
            self.defence = other

    def at(
        self, y: Tensor, theta: Tensor | None, component: TrainableDensity | None = None
    ) -> DefendedDensity:
        if component is None:
            component = self.defence.at(y, theta)
        return DefendedDensity(self, y, theta, component)


class DefendedDensity(MixtureDensity):
    """The mixture at given y and theta.

    The first coordinate of a base point says which component transports it, and is then stretched
    to (0, 1] again, so that stratified base points are strata of the mixture.
    """

    def __init__(
        self, proposal: Defended, y: Tensor, theta: Tensor | None, component: TrainableDensity
    ) -> None:
        self._own = proposal.own.at(y, theta)
        log_odds = proposal.log_odds(*flat_cases(y, theta))
        proposal.refuse_nan(log_odds)
        super().__init__(y.shape[:-1], dim=self._own.dim, like=log_odds)
        self.component = component
        self._share = torch.sigmoid(log_odds)
        log_shares = logsigmoid(log_odds), logsigmoid(-log_odds)
        self._log_share, self._log_rest = (log.reshape(*self.batch_shape, 1) for log in log_shares)

    def transport_both(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = z.reshape(self.cases, -1, self.dim)
        first, others = z[..., 0], z[..., 1:]
        defended = first <= self._share
        stretched = ((first - self._share) / (1 - self._share)).where(~defended, 1.0)
        x, log_own = self._own.transport(_base_points(stretched, others))
        most = int(defended.sum(1).max())
        if most == 0:
            log_component = self.component.log_prob(x)
            return x, self._mixed(log_own, log_component), log_component
        # The points of the component, as many in every case: those beyond its own are not used.
        index = defended.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
        rows = index[..., None]
        stretched = (first.gather(1, index) / self._share).clamp(max=1)
        others = others.gather(1, rows.expand(-1, -1, self.dim - 1))
        other, log_there = self.component.transport(_base_points(stretched, others))
        log_component = self.component.log_prob(x)
        # Points and both log densities side by side; those of the component go where it was used.
        found = torch.cat([x, log_own[..., None], log_component[..., None]], -1)
        log_own = self._own.log_prob(other)
        there = torch.cat([other, log_own[..., None], log_there[..., None]], -1)
        found, there = (part.reshape(self.cases, -1, self.dim + 2) for part in (found, there))
        rows = rows.expand_as(there)
        there = torch.where(defended.gather(1, index)[..., None], there, found.gather(1, rows))
        found = found.scatter(1, rows, there).reshape(*self.batch_shape, -1, self.dim + 2)
        x, log_own, log_component = found[..., :-2], found[..., -2], found[..., -1]
        return x, self._mixed(log_own, log_component), log_component

    def log_prob_given(self, x: Tensor, log_component: Tensor) -> Tensor:
        return self._mixed(self._own.log_prob(x), log_component)

    def _mixed(self, log_own: Tensor, log_component: Tensor) -> Tensor:
        return log_sum(log_own + self._log_rest, log_component + self._log_share)


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
    share = Conditioner(problem, out=1, reads_theta=reads_theta, **network)
    own = autoregressive_spline(
        problem, coordinates=coordinates, bins=bins, reads_theta=reads_theta, **network
    )
    return Defended(own, autoregressive_spline(problem, **defence), share)
