r"""What a computation depends on, as plain values."""

from __future__ import annotations

__all__ = ["Point", "Settings"]

from dataclasses import dataclass

Point = tuple[float, ...]


@dataclass(frozen=True)
class Settings:
    """What a Monte Carlo computation depends on; equal choices give equal results.

    Arguments:
        problem: Name of the problem.
        y: The observation's coordinates, empty where there is none.
        theta: The coordinates of theta.
        variant: Which proposals.
        snapshot: Checkpoint of the training, None for the trained proposals.
        draws: Draws from each proposal.
        runs: Independent runs.
        seed: Seed of every draw.
        revision: Which of the proposals that the variant's name had.
    """

    problem: str
    y: Point
    theta: Point
    variant: str
    snapshot: int | None
    draws: int
    runs: int
    seed: int
    revision: int = 0

    @property
    def pair(self) -> tuple[Point | None, Point | None]:
        """y and theta as the core takes them: None for what the problem does not have."""
        return self.y or None, self.theta or None
