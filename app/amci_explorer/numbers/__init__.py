r"""Numbers that the pictures show: no widgets, and nothing that a session has."""

from __future__ import annotations

__all__ = ["SMALLEST_DENSITY", "Densities", "Look"]

from dataclasses import dataclass

import numpy as np

from amci_core.estimators.draws import Array

# A floor instead of zero, which a logarithmic axis cannot show.
SMALLEST_DENSITY = 1e-30
DENSITIES = ("target", "posterior", "q1", "q2", "target_minus", "q1_minus")


@dataclass(frozen=True)
class Look:
    """What is shown of a case.

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


@dataclass(frozen=True, kw_only=True)
class Densities:
    """Densities at one (y, theta), each of mass one; NaN where they cannot be judged.

    Arguments:
        target: g, proportional to f_plus p(x | y).
        posterior: p(x | y).
        q1: The proposal for E1_plus.
        q2: The proposal for E2; None where none is needed.
        target_minus: Where f takes both signs, as `target` for f_minus.
        q1_minus: The proposal for E1_minus, where f takes both signs.
        variant: Which proposals.
        divergence: KL(g || q1) in nats; NaN where it is not known.
        doubt: What is not judged and why, in words.
    """

    target: Array
    posterior: Array
    q1: Array
    q2: Array | None = None
    target_minus: Array | None = None
    q1_minus: Array | None = None
    variant: str
    divergence: float
    doubt: str = ""

    @property
    def shown(self) -> dict[str, Array]:
        """The densities that there are, by name."""
        there = {name: getattr(self, name) for name in DENSITIES}
        return {name: values for name, values in there.items() if values is not None}

    def about(self) -> str:
        """What is shown and where it lies, in words, for someone who cannot see it."""
        known = f"The divergence of q1 from g is {self.divergence:.2g} nats."
        return " ".join(
            filter(None, (self.place, known * bool(np.isfinite(self.divergence)), self.doubt))
        )

    @property
    def place(self) -> str:
        """What is shown and where it lies, in words."""
        raise NotImplementedError

    def distance(self, name: str, other: str) -> float:
        """The total variation of two densities in the picture, between 0 and 1."""
        raise NotImplementedError
