r"""Importance sampling of a term: the mean of integrand / q over draws from q."""

from __future__ import annotations

__all__ = ["Importance"]

from dataclasses import dataclass

import torch

from amci_core.checks import check_count
from amci_core.term_methods.base import Density, Integrand, TermEstimate, log_mean

MOST_DRAWS = 20_000_000


@dataclass(frozen=True)
class Importance:
    """Estimates a term by the mean of its weights on draws from the density given.

    The standard error comes from the weights' own spread, and cannot see mass that no draw
    reaches.

    Arguments:
        size: Number of draws.

    Raises:
        ValueError: the size is no whole number within [2, 20,000,000].
    """

    size: int = 1000

    def __post_init__(self) -> None:
        check_count("size", self.size, low=2, high=MOST_DRAWS)

    @torch.inference_mode()
    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate:
        x, log_q = start.draw(self.size, torch.Generator().manual_seed(seed))
        return TermEstimate(*log_mean(integrand(x) - log_q), self.size)
