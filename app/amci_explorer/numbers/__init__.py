r"""Numbers that the pictures of densities show: no widgets, and nothing that a visitor has."""

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


@dataclass(frozen=True, kw_only=True)
class Densities:
    """Densities at one (y, theta), each of mass one; NaN where they cannot be judged.

    Arguments:
        target: g, proportional to f_plus p(x | y).
        posterior: p(x | y).
        q1: The proposal for E1_plus.
        q2: The proposal for E2; None where none is needed.
        target_minus: Where f takes both signs, as `target` for f_minus.
        q1_minus: Likewise, the proposal for E1_minus.
        variant: Which proposals.
        doubt: What is not judged and why, in words.
    """

    target: Array
    posterior: Array
    q1: Array
    q2: Array | None = None
    target_minus: Array | None = None
    q1_minus: Array | None = None
    variant: str
    doubt: str = ""

    @property
    def divergence(self) -> float:
        """KL(g || q1) in nats; NaN where it is not known."""
        raise NotImplementedError

    @property
    def axes(self) -> dict[str, Array]:
        """The coordinates of every point that is shown, by name."""
        raise NotImplementedError

    @property
    def columns(self) -> dict[str, Array]:
        """A table of what is shown, by name, of equal lengths."""
        there = self.axes | {name: getattr(self, name) for name in DENSITIES}
        return {name: np.ravel(v) for name, v in there.items() if v is not None}

    def along(self, coordinate: int) -> dict[str, Array]:
        """Densities along a coordinate of x, from 0 on: x and those that there are, (n,) each."""
        del coordinate
        return {n: v for n, v in self.columns.items() if n in ("x", *DENSITIES)}

    def sentences(self) -> list[str]:
        """What is shown and where it lies."""
        raise NotImplementedError

    def about(self) -> str:
        """What is shown, in words, for someone who cannot see it."""
        found = self.divergence
        known = f"The divergence of q1 from g is {found:.2g} nats." if found == found else ""
        return " ".join(filter(None, [*self.sentences(), known, self.doubt]))
