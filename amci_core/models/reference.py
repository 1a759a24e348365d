r"""Every term of any problem: a broad density that reaches them all, and f with the other sign."""

from __future__ import annotations

__all__ = ["Negated", "Reference"]

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import Transform

from amci_core.models.base import Array, OptimalProposals, Problem

TERMS = ("E1_plus", "E1_minus", "E2")
# What does not depend on the sign of f, without abstract methods and properties.
SHARED = (
    *("name", "title", "description", "formula", "x", "y", "theta"),
    *("log_likelihood", "sample_likelihood", "sample_theta", "log_evidence"),
    *("_truth_error", "_log_evidence", "_log_mean_absolute_deviation", "_mismatch", "_path"),
)


class Reference:
    """The equal mixture of one broad density for each term of a problem, at given y and theta.

    For E1_plus it is the problem's own (`sample_reference`, `log_reference`), for E1_minus that of
    `problem.negated()`, for E2 the prior. The mixture is a density like a proposal's, normalized,
    and positive wherever one of the terms is. Draws take the parts in turn, so that the first m of
    them are stratified as well.

    Arguments:
        problem: What is integrated.
        y: Observations (*, D_y), as `Problem.check` returns them.
        theta: Parameters of f (*, D_theta), or None.
        terms: Names of terms; None for all that have to be estimated: no E1_minus where f >= 0,
            no E2 where the normalizer is known.

    Attributes:
        batch_shape: (*), the batch shape of y and theta.
        terms: The names of the terms, in the order of the parts.

    Raises:
        ValueError: a name is none of the problem's terms, or there is no name.

    Example:
        >>> import torch
        >>> from amci_core import problem
        >>> from amci_core.models import Reference
        >>> reference = Reference(problem("tail-1d"), *problem("tail-1d").check(1.0, 3.0))
        >>> x, log_q = reference.draw(6, torch.Generator().manual_seed(0))
        >>> x.shape, log_q.shape, reference.terms
        (torch.Size([6, 1]), torch.Size([6]), ('E1_plus', 'E2'))
        >>> (x[0::2] > 3.0).all()  # every second draw is for E1_plus
        tensor(True)
    """

    def __init__(
        self, problem: Problem, y: Tensor, theta: Tensor | None, terms: Sequence[str] | None = None
    ) -> None:
        present = ("E1_plus", "E2") if problem.nonnegative else TERMS
        if terms is None:
            known = problem.log_evidence(y, theta) is not None
            terms = [term for term in present if not (term == "E2" and known)]
        unknown = [term for term in terms if term not in present]
        if unknown or not terms:
            raise ValueError(
                f"terms: expected some of {', '.join(present)} for {problem.name}, "
                f"got {unknown[0] if unknown else 'none'}"
            )
        self.terms = tuple(terms)
        self.batch_shape = y.shape[:-1]
        # None stands for the prior.
        self._parts = [
            None if term == "E2" else problem.negated() if term == "E1_minus" else problem
            for term in self.terms
        ]
        self._problem, self._y, self._theta = problem, y, theta

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """n points x (*, n, D), of y's dtype, and their log density in nats (*, n).

        Draw i is from part i modulo the number of parts. Without a generator they come from
        torch's default one.
        """
        generator = generator or torch.default_generator
        each = -(-n // len(self._parts))
        parts = [self._draw(part, each, generator).to(self._y.dtype) for part in self._parts]
        x = torch.stack(parts, -2).flatten(-3, -2)[..., :n, :]
        return x, self.log_prob(x)

    def _draw(self, part: Problem | None, n: int, generator: torch.Generator) -> Tensor:
        if part is not None:
            return part.sample_reference(self._y, self._theta, n, generator)[0]
        x = self._problem.sample_prior(math.prod(self.batch_shape) * n, generator)
        return x.reshape(*self.batch_shape, n, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density in nats at points x (*, n, D), (*, n); -inf outside all terms."""
        parts = [
            self._problem.log_prior(x)
            if part is None
            else part.log_reference(x, self._y, self._theta)
            for part in self._parts
        ]
        return reduce(torch.logaddexp, parts) - math.log(len(parts))


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
        for name in SHARED:
            setattr(self, name, getattr(original, name))

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

    def log_prior(self, x: Tensor) -> Tensor:
        return self.original.log_prior(x)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return self.original.sample_prior(n, generator)

    @property
    def f_range(self) -> tuple[float, float]:  # type: ignore[override]
        low, high = self.original.f_range
        return -high, -low

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
