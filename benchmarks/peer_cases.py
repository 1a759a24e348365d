r"""What the methods of `peers.py` integrate: one case, its integrals over the unit cube, a count.

mu(y, theta) = E1 / E2, with E1 the integral of f p(x, y) and E2 that of p(x, y); E2 is 1 where
nothing is observed. A `Part` carries the unit cube to where one of them lies, so that every method
works on the unit cube. For the tail problems and gain-loss it leads to the half-space where f is
not zero, with a scale for the distance from its bound; else it is the inverse of the prior's
distribution function.
"""

from __future__ import annotations

__all__ = ["Array", "Case", "Part", "problem_of"]

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from published import PUBLISHED
from torch import Tensor

import amci_core as amci
from amci_core.models import Problem
from amci_core.models.gain_loss import GainLoss
from amci_core.models.gaussian import GaussianModel

Array = NDArray[np.float64]
Map = Callable[[Tensor], tuple[Tensor, Tensor]]
# Points of the cube keep this distance from its faces; points evaluated at once.
EDGE, CHUNK = 1e-15, 2**16


def problem_of(name: str) -> Problem:
    """A problem by its name: one of ours, or one of `published.py`."""
    return PUBLISHED[name]() if name in PUBLISHED else amci.problem(name)


@dataclass(frozen=True)
class Part:
    """Integrals that are taken at the same points.

    Arguments:
        gives: Their names, E1 or E2 or both.
        to_x: From points u (n, D) of the unit cube to x (*, n, D) and log|dx/du| (*, n).
    """

    gives: tuple[str, ...]
    to_x: Map


class Case:
    """A pair (y, theta), or a batch (*) of pairs, and how many densities have been evaluated.

    Arguments:
        problem: What is integrated.
        y: (*, D_y), or None.
        theta: (*, D_theta), or None.
        truth: Whether the truth is needed.

    Attributes:
        mu: The truth, (*), NaN where it is not needed.
        spent: Number of points at which p(x, y) or f has been evaluated.
        parts: The integrals.
    """

    def __init__(
        self, problem: Problem, y: Array | None, theta: Array | None, *, truth: bool = True
    ) -> None:
        self.problem, self.spent = problem, 0
        self.y, self.theta = problem.check(y, theta)
        self.batch = tuple(self.y.shape[:-1])
        self.given = (y, theta)
        self.mu = np.asarray(problem.truth(y, theta)) if truth else np.full(self.batch, np.nan)
        self.dim = problem.x.dim
        self.known = problem.log_evidence(self.y, self.theta) is not None
        self.signed = not problem.nonnegative
        self.parts = _parts(self)

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """log p(x, y) in nats and f at x (*, n, D), each (*, n)."""
        self.spent += math.prod(x.shape[:-1])
        theta = None if self.theta is None else self.theta[..., None, :]
        return self.problem.log_joint(x, self.y), self.problem.f(x, theta)

    def values(self, part: Part, u: Array | Tensor) -> Array:
        """The integrands of a part at points of the cube, (*, n, number of integrals)."""
        points = torch.as_tensor(np.clip(u, EDGE, 1 - EDGE))
        with torch.inference_mode():
            x, log_jacobian = part.to_x(points)
            log_joint, f = self.terms(x.expand(*self.batch, *x.shape[-2:]))
            density = (log_joint + log_jacobian).exp()
            columns = {"E1": density * f, "E2": density}
            return np.asarray(torch.stack([columns[name] for name in part.gives], -1).numpy())

    def ratio(self, found: dict[str, float]) -> float:
        """mu from E1 and E2; 0 where E2 was not found."""
        E2 = found.get("E2", 1.0)
        return float(found["E1"] / E2) if E2 else 0.0

    def together(self, means: list[Array]) -> Array:
        """mu from the means of the parts, each (*, number of integrals)."""
        found = {"E1": np.zeros(self.batch), "E2": np.zeros(self.batch)}
        for part, values in zip(self.parts, means, strict=True):
            for k, name in enumerate(part.gives):
                found[name] = found[name] + values[..., k]
        E2 = np.ones(self.batch) if self.known else found["E2"]
        return np.divide(found["E1"], E2, out=np.zeros(self.batch), where=E2 != 0)

    def prior_map(self) -> Map:
        """From the unit cube to the prior."""
        problem = self.problem

        def to_x(u: Tensor) -> tuple[Tensor, Tensor]:
            x = problem.prior_from_uniform(u)
            assert x is not None
            return x, -problem.log_prior(x)

        return to_x


def _parts(case: Case) -> tuple[Part, ...]:
    problem, prior = case.problem, case.prior_map()
    if not isinstance(problem, GaussianModel):
        return (Part(("E1",) if case.known else ("E1", "E2"), prior),)
    sides = [problem, problem.with_negated_f()] if isinstance(problem, GainLoss) else [problem]
    return (*(Part(("E1",), _beyond(case, side)) for side in sides), Part(("E2",), prior))


def _beyond(case: Case, side: Problem) -> Map:
    """To the half-space where f is not zero: by the problem's own defensive density."""
    density: Any = side.defensive(case.y, case.theta)

    def to_x(u: Tensor) -> tuple[Tensor, Tensor]:
        x = density.from_uniform(u)
        return x, -density.log_prob(x)

    return to_x
