r"""The defensive density of a problem: a broad mixture that covers every term."""

from __future__ import annotations

__all__ = ["DefensiveDensity"]

import math
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from amci_core.models.base import Problem

TERMS = ("E1_plus", "E1_minus", "E2")


class DefensiveDensity:
    """The equal mixture of one broad density for each term of a problem, at given y and theta.

    For E1_plus it is the problem's own (`sample_defensive`, `log_defensive`), for E1_minus that of
    `problem.with_negated_f()`, for E2 the prior. The mixture is normalized, and positive wherever
    one of the terms is. Draws take the parts in turn, so that the first m of them are stratified
    as well.

    Arguments:
        problem: What is integrated.
        y: Observations (*, D_y), as `Problem.check` returns them.
        theta: Parameters of f (*, D_theta), or None.
        terms: Names of terms; None for all that have to be estimated: no E1_minus where f >= 0,
            no E2 where the evidence is known.

    Attributes:
        batch_shape: (*), the batch shape of y and theta.
        terms: The names of the terms, in the order of the parts.

    Example:
        >>> import torch
        >>> from amci_core import problem
        >>> from amci_core.models import DefensiveDensity
        >>> density = DefensiveDensity(problem("tail-1d"), *problem("tail-1d").check(1.0, 3.0))
        >>> x, log_q = density.draw(6, torch.Generator().manual_seed(0))
        >>> x.shape, log_q.shape, density.terms
        (torch.Size([6, 1]), torch.Size([6]), ('E1_plus', 'E2'))
        >>> (x[0::2] > 3.0).all()  # every second draw is for E1_plus
        tensor(True)
    """

    def __init__(
        self, problem: Problem, y: Tensor, theta: Tensor | None, terms: Sequence[str] | None = None
    ) -> None:
        if terms is None:
            absent = ["E1_minus"] * problem.nonnegative
            absent += ["E2"] * (problem.log_evidence(y, theta) is not None)
            terms = [term for term in TERMS if term not in absent]
        self.terms = tuple(terms)
        self.batch_shape = y.shape[:-1]
        # None stands for the prior.
        self._parts = [
            None if term == "E2" else problem.with_negated_f() if term == "E1_minus" else problem
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
            return part.sample_defensive(self._y, self._theta, n, generator)[0]
        x = self._problem.sample_prior(math.prod(self.batch_shape) * n, generator)
        return x.reshape(*self.batch_shape, n, -1)

    @property
    def takes_uniform(self) -> bool:
        """Whether each part is a function of uniform points."""
        u = self._y.new_full((*self.batch_shape, 1, self._problem.x.dim), 0.5)
        return all(self._from_uniform(part, u) is not None for part in self._parts)

    def draw_from_uniform(
        self, u: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Uniform points of (0, 1]^D, (cases * n, D), as points x (*, n, D), with log q (*, n).

        The first coordinate chooses the part, and is then stretched to (0, 1] again.
        """
        u = u.reshape(*self.batch_shape, -1, u.shape[-1])
        first = u[..., :1] * len(self._parts)
        part = first.ceil() - 1
        stretched = (first - part).clamp(max=1 - torch.finfo(u.dtype).eps)
        u = torch.cat([stretched, u[..., 1:]], -1)
        x = torch.stack([self._from_uniform(each, u) for each in self._parts])  # type: ignore
        x = x.gather(0, part.long().expand(u.shape)[None])[0].to(self._y.dtype)
        return x, self.log_prob(x)

    def _from_uniform(self, part: Problem | None, u: Tensor) -> Tensor | None:
        if part is None:
            return self._problem.prior_from_uniform(u)
        return part.defensive_from_uniform(self._y, self._theta, u)

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density in nats at points x (*, n, D), (*, n); -inf outside all terms."""
        parts = [
            self._problem.log_prior(x)
            if part is None
            else part.log_defensive(x, self._y, self._theta)
            for part in self._parts
        ]
        log_q = reduce(torch.logaddexp, parts) - math.log(len(parts))
        return log_q.expand(*self.batch_shape, -1)
