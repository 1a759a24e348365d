r"""Where problems and flows meet estimators: points are drawn and turned into numbers."""

from __future__ import annotations

__all__ = ["MAX_POINTS", "Sampler", "check_count", "generators"]

import math
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.checks import check_count, check_seed
from amci_core.estimators import PROPOSALS, Draws, Points
from amci_core.estimators.combine import Counts
from amci_core.estimators.draws import Array
from amci_core.flows import ConditionalDensity, Proposals
from amci_core.flows.density import TrainableDensity
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
        drawn = {j: int(counts[j]) for j in self.present if counts[j] > 0}
        shared = self._shared_noise(drawn, generator) if common else None
        points = self._points(drawn, generator, shared)
        log_E2 = self.problem.log_normalizer(self.y, self.theta)
        return Draws((points.get(0), points.get(1), points.get(2)), log_E2)

    def _shared_noise(self, drawn: dict[int, int], generator: torch.Generator) -> Tensor:
        if len(set(drawn.values())) > 1:
            raise ValueError(
                f"counts: common random numbers need equal ones, got {list(drawn.values())}"
            )
        for j in drawn:
            if not isinstance(self.densities[j], TrainableDensity):
                raise ValueError(
                    "estimator: common random numbers need proposals that transport base points, "
                    f"and {PROPOSALS[j]} of these does not"
                )
        size = math.prod(self.y.shape[:-1]) * next(iter(drawn.values()))
        return 1 - torch.rand(size, self.problem.x.dim, dtype=self.y.dtype, generator=generator)

    @torch.inference_mode()
    def _points(
        self, drawn: dict[int, int], generator: torch.Generator, shared: Tensor | None
    ) -> dict[int, Points]:
        """drawn[j] points of every proposal j; all of them are looked at in one go."""
        x: dict[int, Tensor] = {}
        log_q: dict[tuple[int, int], Array] = {}
        for j, n in drawn.items():
            density = self.densities[j]
            if shared is not None and isinstance(density, TrainableDensity):
                x[j], own = density.transport(density.from_uniform(shared))
            else:
                x[j], own = density.draw(n, generator)
            log_q[j, j] = own.numpy()
        for k, density in self.densities.items():
            foreign = {j: n for j, n in drawn.items() if j != k}
            if foreign:
                found = density.log_prob(torch.cat([x[j] for j in foreign], -2))
                for j, part in zip(foreign, found.split([*foreign.values()], -1), strict=True):
                    log_q[k, j] = part.numpy()

        together = torch.cat([*x.values()], -2)
        f_plus, f_minus = self.problem.f_parts(together, self.theta, self.shift)
        log_joint = self.problem.log_joint(together, self.y)
        ends = pairwise(accumulate(drawn.values(), initial=0))
        parts = {j: slice(*stretch) for j, stretch in zip(drawn, ends, strict=True)}
        return {
            j: Points(
                f_plus=f_plus[..., part].numpy(),
                f_minus=None if f_minus is None else f_minus[..., part].numpy(),
                log_joint=log_joint[..., part].numpy(),
                log_q=(log_q.get((0, j)), log_q.get((1, j)), log_q.get((2, j))),
            )
            for j, part in parts.items()
        }


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
