r"""The problem with -f in the place of f, made out of any problem."""

from __future__ import annotations

__all__ = ["Negated"]

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import Transform

from amci_core.models.base import Array, OptimalProposals, Problem


class Negated(Problem):
    """A problem that differs from the original in the sign of f alone.

    Its reference is the prior, which reaches f_minus p(x, y), though seldom where that lies far
    out in the prior's tail.

    Arguments:
        original: The problem.

    Raises:
        ValueError: the original declares f >= 0.
    """

    nonnegative = False

    def __init__(self, original: Problem) -> None:
        if original.nonnegative:
            raise ValueError(
                f"negated: {original.name} declares nonnegative = True, so that f_minus is zero; "
                "where f takes both signs, declare False and define negated()"
            )
        self.original = original
        self.name, self.title = original.name, original.title
        self.description, self.formula = original.description, original.formula
        self.x, self.y, self.theta = original.x, original.y, original.theta

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        return -self.original.f(x, theta)

    def negated(self) -> Problem:
        return self.original

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        log_mu, sign = self.original._log_truth(y, theta)
        return log_mu, -sign

    def _log_parts(self, y: Tensor, theta: Tensor | None) -> tuple[Array, ...]:
        return self.original._log_parts(y, theta)[::-1]

    def optimal_proposals(self) -> OptimalProposals | None:
        swapped = {"q1_plus": "q1_minus", "q1_minus": "q1_plus"}
        known = self.original.optimal_proposals()
        return known and {swapped.get(name, name): q for name, q in known.items()}

    def shifted(self, theta: Tensor | None, shift: float) -> Tensor | None:
        # -f - c = -(f - (-c))
        return self.original.shifted(theta, -shift)

    # All that does not depend on the sign of f.

    @property
    def support(self) -> Constraint:
        return self.original.support

    @property
    def coordinate_transforms(self) -> Mapping[str, Transform]:
        return self.original.coordinate_transforms

    @property
    def knows_truth(self) -> bool:
        return self.original.knows_truth

    @property
    def knows_bound(self) -> bool:
        return self.original.knows_bound

    def log_prior(self, x: Tensor) -> Tensor:
        return self.original.log_prior(x)

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        return self.original.log_likelihood(x, y)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return self.original.sample_prior(n, generator)

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return self.original.sample_likelihood(x, generator)

    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor | None:
        return self.original.sample_theta(n, generator)

    def log_normalizer(self, y: Tensor, theta: Tensor | None) -> Array | None:
        return self.original.log_normalizer(y, theta)

    def _log_evidence(self, y: Tensor) -> Array | None:
        return self.original._log_evidence(y)

    def _expected_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        return self.original._expected_deviation(y, theta)

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        return self.original._mismatch(y, theta)

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        return self.original._path(y, theta, t)
