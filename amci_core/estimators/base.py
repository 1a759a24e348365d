r"""What an estimator is: how it spends a total of draws, and what it makes of them."""

from __future__ import annotations

__all__ = ["Estimator"]

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from amci_core.estimators.combine import Counts, Prepared
from amci_core.estimators.draws import PROPOSALS, Draws, split_evenly, whole_sets


class Estimator(ABC):
    """How to spend a total of draws, and how to turn the draws into estimates.

    A subclass defines `apply`; the rest has defaults.

    Attributes:
        fixed: Whether the numbers of draws from each proposal are fixed, and not chance.
        own_densities: Whether it needs the density of each proposal at its own draws alone.
        defensive: Share of a total that the defensive density draws for it.
        points: How its proposals draw: `independent`, or `sobol`, scrambled Sobol points.
        takes_sobol: Whether the latter is possible.

    Example:
        >>> from amci_core.estimators import tables
        >>> class Halves(Estimator):  # half of each term from q1_plus, half from q2
        ...     def apply(self, draws, counts=None):
        ...         rows = draws.totals if counts is None else counts
        ...         return Prepared(tables.reuse(0.5, 0.5), draws, rows)
        >>> Halves().counts([10, 100], present=(0, 2))
        array([[ 5,  0,  5,  0,  0],
               [50,  0, 50,  0,  0]])
    """

    fixed: bool = True
    own_densities: bool = False
    defensive: float = 0.0
    points: str = "independent"
    takes_sobol: bool = False

    @abstractmethod
    def apply(self, draws: Draws, counts: Counts | None = None) -> Prepared:
        """Estimates out of the first draws of each component, for rows of counts (B, 5).

        Without counts, one estimate out of all draws, however they are split.

        Raises:
            ValueError: f takes both signs, and the estimator has no E1_minus.
        """

    def used(self, present: Sequence[int]) -> tuple[int, ...]:
        """The proposals, among those present, that it draws from."""
        return tuple(j for j in present if j < len(PROPOSALS))

    def least(self, present: Sequence[int]) -> int:
        """The smallest total with which it makes an estimate: one draw of each proposal."""
        return len(self.used(present))

    def counts(
        self, totals: Sequence[int], present: Sequence[int], defensive: float | None = None
    ) -> Counts:
        """Draws of each component for every total, (B, 5).

        Arguments:
            totals: Total numbers of draws.
            present: The proposals there are.
            defensive: Share of the defensive density; by default the estimator's own.

        Raises:
            ValueError: a total is less than one draw of each proposal.
        """
        used, share = self.used(present), self.defensive if defensive is None else defensive
        counts = np.array([split_evenly(total, used, share) for total in totals])
        return whole_sets(counts) if self.points == "sobol" else counts

    def reserve(self, totals: Sequence[int], present: Sequence[int]) -> Counts:
        """How many draws of each component `running` needs for these totals, (5,)."""
        return np.asarray(self.counts(totals, present).max(axis=0))

    def running(self, draws: Draws, totals: Sequence[int], rng: np.random.Generator) -> Prepared:
        """Estimates for every total, increasing, out of the draws in reserve."""
        return self.apply(draws, self.counts(totals, draws.proposals))
