r"""Numbers that the pictures of densities show: no widgets, and nothing that a visitor has."""

from __future__ import annotations

__all__ = ["SMALLEST_DENSITY", "Numbers", "Settings"]

from dataclasses import dataclass
from typing import Protocol

from amci_core.estimators.draws import Array

# A floor instead of zero, which a logarithmic axis cannot show.
SMALLEST_DENSITY = 1e-30


class Numbers(Protocol):
    """What all of them give, so that a card needs to know nothing else."""

    @property
    def columns(self) -> dict[str, Array]:
        """A table of what is shown, by name, of equal lengths."""

    @property
    def divergence(self) -> float:
        """KL(g || q1) in nats; NaN where it is not known."""

    def about(self) -> str:
        """What is shown, in words, for someone who cannot see it."""


@dataclass(frozen=True)
class Settings:
    """What is looked at beside the case.

    Arguments:
        labels: Names of the coordinates of x.
        coordinate: The one shown alone, from 0 on.
        pair: The two shown as a plane.
        extent: Ends of the axis of a line; None to follow the densities.
    """

    labels: tuple[str, ...]
    coordinate: int = 0
    pair: tuple[int, int] = (0, 1)
    extent: tuple[float, float] | None = None
