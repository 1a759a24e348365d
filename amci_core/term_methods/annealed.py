r"""Annealed importance sampling: from a density to the integrand in small steps.

Chains start at draws of q and move, at rising inverse temperatures b, under
q^(1 - b) integrand^b; a chain's log weight is the sum of (b_k - b_{k-1}) (log integrand - log q)
at the points where it was as b rose. Weights of independent chains are unbiased for the term
whatever the chains' moves, as long as these leave each tempered density invariant.

References:
    Neal, Annealed importance sampling, Statistics and Computing 11, 2001.
    Rainforth, Golinski, Wood, Zaidi, Target-aware Bayesian inference: how to beat optimal
    conventional estimators, Journal of Machine Learning Research 21, 2020.
"""

from __future__ import annotations

__all__ = ["Annealed", "largest_step"]

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from scipy.optimize import brentq
from torch import Tensor

from amci_core.checks import check_count
from amci_core.flows.density import Density
from amci_core.term_methods.base import (
    Coordinates,
    Integrand,
    TermEstimate,
    cholesky,
    log_mean,
    where_finite,
)

MOST_CHAINS = 1_000_000
# After so many levels what is left is one step: its weights then show the error.
MOST_LEVELS = 500
# Random walks on Gaussians are fastest at this share of accepted moves in a few dimensions.
ACCEPTED = 0.3
LEAST_LOG_STEP = -700.0


@dataclass(frozen=True)
class Annealed:
    """Estimates a term by annealed importance sampling, with random walks as moves.

    A pilot of other chains, resampled as the temperature falls, finds the temperatures and, for
    each, the covariance and the scale of the moves; the chains that are weighted run with these
    fixed, so that the estimate stays unbiased. Moves are made in coordinates without bounds, see
    `Coordinates`. Where the density already is the integrand's shape, the pilot needs no
    temperature between, and the estimate is importance sampling without variance.

    Arguments:
        chains: Number of weighted chains; the standard error comes from their weights.
        moves: Moves of a chain at every temperature.
        pilot: Number of chains of the pilot.
        retained: Least share of the pilot that stays effective from one temperature to the next;
            nearer to 1 means more, smaller steps.

    Raises:
        ValueError: an argument is out of range.
    """

    chains: int = 1000
    moves: int = 5
    pilot: int = 500
    retained: float = 0.95

    def __post_init__(self) -> None:
        check_count("chains", self.chains, low=2, high=MOST_CHAINS)
        check_count("moves", self.moves, low=1, high=1000)
        check_count("pilot", self.pilot, low=50, high=MOST_CHAINS)
        if not 0 < self.retained < 1:
            raise ValueError(f"retained: expected a share between 0 and 1, got {self.retained!r}")

    @torch.inference_mode()
    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate:
        generator = torch.Generator().manual_seed(seed)
        before = integrand.evaluations
        path = _Path(integrand, start)
        log_w = self._weights(path, self._levels(path, generator), generator)
        return TermEstimate(*log_mean(log_w), integrand.evaluations - before)

    def _levels(self, path: _Path, generator: torch.Generator) -> list[_Level]:
        chains = path.begin(self.pilot, generator)
        levels: list[_Level] = []
        b, scale = 0.0, 2.38 / math.sqrt(chains.z.shape[-1])
        while (chains.log_ratio > -torch.inf).any() and len(levels) < MOST_LEVELS:
            step = largest_step(chains.log_ratio, 1 - b, self.retained)
            if step == 1 - b:
                break
            b += step
            index = _resampled(step * chains.log_ratio, generator)
            chains = _Chains(*(part[index] for part in chains))
            factor = cholesky(chains.z.T.cov().reshape(chains.z.shape[-1], -1))
            for _ in range(self.moves):
                chains, accepted = path.move(chains, _Level(b, scale * factor), generator)
                scale *= math.exp(accepted - ACCEPTED)
            levels.append(_Level(b, scale * factor))
        return levels

    def _weights(self, path: _Path, levels: list[_Level], generator: torch.Generator) -> Tensor:
        chains = path.begin(self.chains, generator)
        log_w = torch.zeros_like(chains.log_q)
        b = 0.0
        for level in levels:
            log_w += (level.b - b) * chains.log_ratio
            b = level.b
            for _ in range(self.moves):
                chains, _ = path.move(chains, level, generator)
        return log_w + (1 - b) * chains.log_ratio


class _Level(NamedTuple):
    """An inverse temperature within (0, 1), and a factor (D, D) of the moves' covariance."""

    b: float
    factor: Tensor


class _Chains(NamedTuple):
    """Where n chains are.

    Arguments:
        z: Coordinates without bounds, (n, D).
        log_det: log|det dx / dz|, (n).
        log_q: Log density that the chains start from, in nats, (n).
        log_value: Logarithm of the integrand, (n).
        free: Whether a chain moves: not where it started outside the support, (n).
    """

    z: Tensor
    log_det: Tensor
    log_q: Tensor
    log_value: Tensor
    free: Tensor

    @property
    def log_ratio(self) -> Tensor:
        return self.log_value - self.log_q


class _Path:
    """The densities q^(1 - b) integrand^b, in coordinates, and moves that leave them invariant."""

    def __init__(self, integrand: Integrand, start: Density) -> None:
        self._integrand, self._start = integrand, start
        self._coordinates = Coordinates(integrand.support)

    def begin(self, n: int, generator: torch.Generator) -> _Chains:
        x, log_q = self._start.draw(n, generator)
        if not log_q.isfinite().all():
            raise ValueError(
                "start: expected finite log densities at its own draws, "
                f"got {log_q[~log_q.isfinite()][0].item():g}"
            )
        log_value = self._integrand(x)
        z, inside = self._coordinates.inverse(x)
        free = inside & (log_value > -torch.inf)
        z = z.where(free[:, None], 0.0)
        return _Chains(z, self._coordinates.points(z)[1], log_q, log_value, free)

    def move(
        self, chains: _Chains, level: _Level, generator: torch.Generator
    ) -> tuple[_Chains, float]:
        """One random-walk Metropolis move of every chain, and the share that were accepted."""
        b = level.b
        noise = torch.randn(chains.z.shape, dtype=chains.z.dtype, generator=generator)
        z = chains.z + noise @ level.factor.T
        x, log_det = self._coordinates.points(z)
        log_q, log_value = where_finite(self._start.log_prob, x), self._integrand(x)
        proposed = _Chains(z, log_det, log_q, log_value, chains.free)
        change = (
            (1 - b) * (log_q - chains.log_q)
            + b * (log_value - chains.log_value)
            + (log_det - chains.log_det)
        )
        uniform = torch.rand(change.shape, dtype=change.dtype, generator=generator)
        accepted = chains.free & (uniform.log() < change)
        where = (accepted[:, None], *[accepted] * 4)
        moved = _Chains(*map(torch.where, where, proposed, chains))
        return moved, float(accepted.double().mean())


def largest_step(log_ratio: Tensor, most: float, retained: float) -> float:
    """The largest step in b, at most `most`, that leaves this share of the chains effective."""
    alive = log_ratio[log_ratio > -torch.inf]

    def effective(step: float) -> float:
        w = (step * (alive - alive.max())).exp()
        return float(w.sum() ** 2 / w.square().sum()) / len(alive)

    if effective(most) >= retained:
        return most

    # On the log scale, where steps of any size are found to the same relative precision.
    def excess(log_step: float) -> float:
        return effective(math.exp(log_step)) - retained

    return math.exp(brentq(excess, LEAST_LOG_STEP, math.log(most), xtol=1e-9))


def _resampled(log_w: Tensor, generator: torch.Generator) -> Tensor:
    """Indices of as many chains, in proportion to their weights: systematic resampling."""
    n = len(log_w)
    heights = log_w.softmax(0).cumsum(0)
    offset = torch.rand(1, dtype=log_w.dtype, generator=generator)
    return torch.searchsorted(heights, (torch.arange(n) + offset) / n).clamp(max=n - 1)
