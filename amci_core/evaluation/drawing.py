r"""Where problems and flows meet estimators: points are drawn and turned into numbers."""

from __future__ import annotations

__all__ = ["MAX_POINTS", "Sampler", "check_count", "generators"]

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core._checks import check_count, check_seed
from amci_core.estimators import PROPOSALS, Draws, Points
from amci_core.estimators.combine import Counts
from amci_core.estimators.draws import Array
from amci_core.flows import ConditionalDensity, Proposals
from amci_core.flows.base import TrainableDensity
from amci_core.models import Problem

MAX_POINTS = 20_000_000


class Sampler:
    """Draws from every proposal at given y, theta; the conditioners run once, here.

    Arguments:
        problem: What is integrated.
        proposals: The proposals to draw from.
        y: Observations (*, D_y), as `Problem.check` returns them.
        theta: Parameters of f (*, D_theta), or None.
        shift: The constant c that is taken from f.

    The proposals' densities there are `densities`, by number of the proposal.

    Raises:
        ValueError: the proposals were made for another problem.
    """

    def __init__(
        self,
        problem: Problem,
        proposals: Proposals,
        y: Tensor,
        theta: Tensor | None,
        shift: float = 0.0,
    ) -> None:
        if proposals.problem != problem.name:
            raise ValueError(
                f"proposals: expected ones for {problem.name}, got ones for {proposals.problem}"
            )
        self.problem, self.y, self.theta, self.shift = problem, y, theta, shift
        asked = problem.shifted(theta, shift) if shift else theta
        with torch.inference_mode():
            self.densities: dict[int, ConditionalDensity] = {
                j: q(y, asked) for j, q in enumerate(proposals.as_tuple) if q is not None
            }
        self.present = tuple(self.densities)

    def draw(self, counts: Counts, generator: torch.Generator, *, common: bool = False) -> Draws:
        """counts[j] points of every proposal j, with all densities at each; (*, counts[j]).

        Arguments:
            counts: Number of points of each proposal, (3,).
            generator: Source of random numbers.
            common: Whether the proposals transport the same random numbers.

        Raises:
            ValueError: common random numbers are asked for, and the numbers of points differ or a
                proposal does not transport base points.
        """
        drawn = [j for j in self.present if counts[j] > 0]
        shared = self._shared_noise(drawn, counts, generator) if common else None
        points: list[Points | None] = [None] * len(PROPOSALS)
        for j in drawn:
            points[j] = self._points(j, int(counts[j]), generator, shared)
        log_E2 = self.problem.log_normalizer(self.y, self.theta)
        return Draws((points[0], points[1], points[2]), log_E2)

    def _shared_noise(
        self, drawn: list[int], counts: Counts, generator: torch.Generator
    ) -> Tensor:
        if len({int(counts[j]) for j in drawn}) > 1:
            raise ValueError(
                f"counts: common random numbers need equal ones, got {list(map(int, counts))}"
            )
        for j in drawn:
            if not isinstance(self.densities[j], TrainableDensity):
                raise ValueError(
                    "estimator: common random numbers need proposals that transport base points, "
                    f"and {PROPOSALS[j]} of these does not"
                )
        cases = math.prod(self.y.shape[:-1])
        size = cases * int(counts[drawn[0]])
        return 1 - torch.rand(size, self.problem.x.dim, dtype=self.y.dtype, generator=generator)

    @torch.inference_mode()
    def _points(self, j: int, n: int, generator: torch.Generator, shared: Tensor | None) -> Points:
        density = self.densities[j]
        if shared is not None and isinstance(density, TrainableDensity):
            x, own = density.transport(density.from_uniform(shared))
        else:
            x, own = density.draw(n, generator)
        log_q: list[Array | None] = [None, None, None]
        for k, other in self.densities.items():
            log_q[k] = (own if k == j else other.log_prob(x)).numpy()
        f_plus, f_minus = self.problem.f_parts(x, self.theta, self.shift)
        return Points(
            f_plus=f_plus.numpy(),
            f_minus=None if f_minus is None else f_minus.numpy(),
            log_joint=self.problem.log_joint(x, self.y).numpy(),
            log_q=(log_q[0], log_q[1], log_q[2]),
        )


def generators(seed: Any) -> tuple[torch.Generator, np.random.Generator]:
    """Independent generators for points and for choices, from one seed.

    Raises:
        ValueError: the seed is not a whole number >= 0 (or a numpy SeedSequence).
    """
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(check_seed(seed))
    for_points, for_choices = seed.spawn(2)
    state = int(for_points.generate_state(1, np.uint64)[0] >> np.uint64(1))
    return torch.Generator().manual_seed(state), np.random.default_rng(for_choices)
