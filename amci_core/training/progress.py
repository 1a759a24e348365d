r"""What a training says of itself, and how it ends where it cannot go on."""

from __future__ import annotations

__all__ = ["Progress", "TrainingDiverged"]

from dataclasses import dataclass
from typing import Any

from amci_core.flows import Proposals
from amci_core.training.quality import Quality


class TrainingDiverged(RuntimeError):
    """The loss, a gradient or a parameter was not finite; says at which step.

    Where a method of the problem gave no number, it says which, at which x, y and theta.

    Attributes:
        best: The best proposals so far, where several were trained by recipes; else None.
    """

    best: Proposals | None = None


@dataclass(frozen=True)
class Progress:
    """Where a fit stands.

    Arguments:
        proposal: Name of the proposal that is trained.
        step: Steps done.
        steps: Steps planned.
        loss: Mean loss since the last report (NaN before the first step).
        quality: Held-out quality now.
        best: Held-out relative variance of the best so far.
        seconds: Time spent on this proposal.
        stage: What is being done, where there is more than one thing.
    """

    proposal: str
    step: int
    steps: int
    loss: float
    quality: Quality
    best: float
    seconds: float
    stage: str = ""

    def as_json(self) -> dict[str, Any]:
        """An entry of the log."""
        return {
            "proposal": self.proposal,
            "step": self.step,
            "seconds": round(self.seconds, 2),
            "loss": self.loss if self.step else None,
            **self.quality.as_json(),
        }
