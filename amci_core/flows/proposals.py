r"""The set of proposals that goes with a problem."""

from __future__ import annotations

__all__ = ["Proposals"]

from dataclasses import dataclass, field
from typing import Any

from amci_core.flows.density import Proposal


@dataclass(frozen=True)
class Proposals:
    """One proposal for each term of a problem; None where a term needs none.

    Arguments:
        problem: Name of the problem that they were made for.
        variant: Where they come from: `spline`, `paper`, `oracle`, or a name of the user's.
        q1_plus: For E1_plus, towards f_plus p(x, y).
        q1_minus: For E1_minus, towards f_minus p(x, y); None where f >= 0.
        q2: For E2, towards p(x, y); None where the normaliser is known.
        card: What is known of them: configuration, training, evaluation.
    """

    problem: str
    variant: str
    q1_plus: Proposal
    q1_minus: Proposal | None
    q2: Proposal | None
    card: dict[str, Any] = field(default_factory=dict)

    @property
    def as_tuple(self) -> tuple[Proposal | None, Proposal | None, Proposal | None]:
        """In the order of `amci_core.estimators.PROPOSALS`."""
        return (self.q1_plus, self.q1_minus, self.q2)

    @property
    def present(self) -> tuple[int, ...]:
        """Indices of the proposals that there are."""
        return tuple(j for j, proposal in enumerate(self.as_tuple) if proposal is not None)
