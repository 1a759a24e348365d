r"""Where problems and flows meet estimators: points are drawn and turned into numbers."""

from __future__ import annotations

__all__ = ["MAX_POINTS", "Sampler", "generators", "resolve_names"]

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core._arguments import seed_sequence
from amci_core.estimation.sobol import scrambled_sobol
from amci_core.estimators.draws import (
    COMPLEMENT,
    COMPONENTS,
    DEFENSIVE,
    Array,
    Draws,
    sets_of,
)
from amci_core.flows import Proposals
from amci_core.flows.density import TransformedDensity
from amci_core.flows.proposals import check_proposals, draw_all
from amci_core.io import pretrained_root
from amci_core.models import Problem, check_problem
from amci_core.models.base import BOTH_SIGNS
from amci_core.models.defensive import DefensiveDensity
from amci_core.proposals import load_proposals

MAX_POINTS = 20_000_000


def resolve_names(
    problem: Problem | str, proposals: Proposals | str | None
) -> tuple[Problem, Proposals]:
    """The problem of that name, and its proposals of that variant; by default the shipped ones.

    Raises:
        ValueError: there is no such problem or variant, or the proposals are for another problem.
    """
    name, problem = problem, check_problem(problem)
    if proposals is None or isinstance(proposals, str):
        if isinstance(name, str):
            files = sorted((pretrained_root() / name).glob("*/*.*"))
            stamps = [(file, file.stat().st_mtime_ns, file.stat().st_size) for file in files]
            return problem, _shipped(name, proposals, tuple(stamps))
        proposals = load_proposals(problem, variant=proposals)
    check_proposals(problem, proposals)
    return problem, proposals


@lru_cache(16)
def _shipped(name: str, variant: str | None, stamps: Any) -> Proposals:
    """Proposals of files with these stamps; callers have no hold of them, to change them."""
    del stamps
    return load_proposals(name, variant=variant)


class Sampler:
    """Draws from every proposal at given y, theta; the conditioners run once, here.

    Arguments:
        problem: The problem.
        proposals: The proposals to draw from.
        y: Observations (*, D_y), as `Problem.check` returns them.
        theta: Parameters of f (*, D_theta), or None.
        shift: The constant c that is taken from f.

    Attributes:
        densities: The proposals there, by number.
        present: Their numbers.
        points: The points x of every component that were drawn last, (*, n, D).

    """

    def __init__(
        self,
        problem: Problem,
        proposals: Proposals,
        y: Tensor,
        theta: Tensor | None,
        shift: float = 0.0,
    ) -> None:
        self.problem, self.y, self.theta, self.shift = problem, y, theta, shift
        moved = problem.shifted(theta, shift) if shift else theta
        with torch.inference_mode():
            self.densities = proposals.at(y, moved)
        self.present = tuple(self.densities)
        self.points: dict[int, Tensor] = {}

    @torch.inference_mode()
    def draw(
        self,
        counts: Sequence[int] | np.ndarray[Any, Any],
        generator: torch.Generator,
        *,
        runs: int | None = None,
        common: bool = False,
        points: str = "independent",
        own_only: bool = False,
        defensive_generator: torch.Generator | None = None,
    ) -> Draws:
        """counts[j] points of every component j, with all densities at each, of batch shape (*).

        Arguments:
            counts: Number of points of each component, (5,), or of the first of them.
            generator: Source of random numbers.
            runs: Number R of independent sets of points; the batch shape is then (*, R).
            common: Whether the proposals transport the same random numbers.
            points: `sobol` for scrambled Sobol points, counts[j] at most in as many sets as
                `sets_of` says. A component that transports none draws independent points.
            own_only: Whether each component's density is evaluated at its own points alone, which
                is all that a table of coefficients needs.
            defensive_generator: Source of random numbers for points of the defensive density; by
                default the same.

        Raises:
            ValueError: a value is none that an estimate can be made of; or common random numbers
                are wanted, and a proposal does not transport base samples; or Sobol points are,
                and none does.
        """
        drawn = {j: int(counts[j]) for j in self.present if j < len(counts) and counts[j] > 0}
        densities: dict[int, Any] = dict(self.densities)
        if COMPLEMENT not in drawn:  # it is none of the proposals of a table
            densities.pop(COMPLEMENT, None)
        sources = dict.fromkeys(drawn, generator)
        sets = 1 if runs is None else runs
        uniform: dict[int, Tensor] = {}
        scrambled: dict[int, int] = {}
        if common:
            uniform = dict.fromkeys(drawn, self._shared_noise(drawn, sets, generator))
        if len(counts) > DEFENSIVE and counts[DEFENSIVE]:
            drawn[DEFENSIVE] = int(counts[DEFENSIVE])
            sources[DEFENSIVE] = defensive_generator or generator
            densities[DEFENSIVE] = DefensiveDensity(self.problem, self.y, self.theta)
        if points == "sobol":
            uniform, scrambled = self._sobol(densities, drawn, sets, sources)
        wanted = {j: n * sets for j, n in drawn.items()}
        if own_only:
            made = {
                j: densities[j].draw_from_uniform(uniform[j], sources[j])
                if j in uniform
                else densities[j].draw(n, sources[j])
                for j, n in wanted.items()
            }
            self.points = {j: x for j, (x, _) in made.items()}
        else:
            self.points, log_q = draw_all(densities, wanted, sources, uniform=uniform)
        axis, batch = self.y.ndim - 1, self.y.shape[:-1]

        def row(parts: dict[int, Tensor]) -> Tensor:
            """Values (*, sets * n_j, ...) of every component as (*, sets * n, ...)."""
            if sets == 1:
                return torch.cat([parts[j] for j in drawn], axis)
            apart = [parts[j].unflatten(axis, (sets, n)) for j, n in drawn.items()]
            return torch.cat(apart, axis + 1).flatten(axis, axis + 1)

        def numbers(values: Tensor) -> Array:
            return values.reshape(*batch, *(() if runs is None else (sets,)), -1).cpu().numpy()

        f, log_joint = self.integrand(row(self.points))
        theta = None if self.theta is None else self.theta.cpu()
        log_E2 = self.problem.log_evidence(self.y.cpu(), theta)
        if log_E2 is not None:
            log_E2 = np.asarray(log_E2)[(..., *(() if runs is None else (None,)))]
        signed = not self.problem.nonnegative or self.shift > 0
        f_max = None if signed else self.problem.f_max
        return Draws(
            f=numbers(f - self.shift if self.shift else f),
            log_joint=numbers(log_joint),
            log_q={j: numbers(own) for j, (_, own) in made.items()}
            if own_only
            else {k: numbers(row(log_q[k])) for k in log_q},
            counts=drawn,
            signed=signed,
            log_E2=log_E2,
            sets=scrambled,
            f_max=None if f_max is None else f_max - self.shift,
        )

    def integrand(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """f and log p(x, y) in nats at points x (*, n, D), (*, n) each.

        Raises:
            ValueError: f is not finite, or negative though it should not be; or p(x, y) is not
                finite.
        """
        f = self.problem.f(points, None if self.theta is None else self.theta[..., None, :])
        log_joint = self.problem.log_joint(points, self.y)
        # If p(x, y) is zero f may be no number.
        f = f.where(log_joint > -torch.inf, 0.0)
        negative = (f < 0) if self.problem.nonnegative else torch.zeros_like(f, dtype=torch.bool)
        densities = "log_prior and log_likelihood: expected numbers below infinity"
        for expected, values, bad in (
            (densities, log_joint, ~(log_joint < torch.inf)),
            ("f: expected finite numbers", f, ~f.isfinite()),
            ("f: expected values >= 0, since nonnegative is True", f, negative),
        ):
            if bad.any():
                at = points.expand(*bad.shape, -1)[bad][0].tolist()
                hint = f". {BOTH_SIGNS}" if bad is negative else ""
                raise ValueError(f"{expected}, got {values[bad][0].item():g} at x = {at}{hint}")
        return f, log_joint

    def _shared_noise(
        self, drawn: dict[int, int], sets: int, generator: torch.Generator
    ) -> Tensor:
        if len(set(drawn.values())) > 1:
            raise ValueError(
                f"draws: common random numbers need equal numbers of each proposal, got {drawn}"
            )
        for j in drawn:
            if not isinstance(self.densities[j], TransformedDensity):
                raise ValueError(
                    f"common: common random numbers need flows, and {COMPONENTS[j]} is none. "
                    "Use common=False"
                )
        size = math.prod(self.y.shape[:-1]) * next(iter(drawn.values())) * sets
        shape, dtype, device = (size, self.problem.x.dim), self.y.dtype, self.y.device
        return 1 - torch.rand(shape, dtype=dtype, device=device, generator=generator)

    def _sobol(
        self,
        densities: Mapping[int, Any],
        drawn: dict[int, int],
        sets: int,
        sources: Mapping[int, torch.Generator],
    ) -> tuple[dict[int, Tensor], dict[int, int]]:
        """Scrambled points for the components that transport them, and the sets of each.

        What no set takes is taken from `drawn`.
        """
        cases, uniform, scrambled = math.prod(self.y.shape[:-1]) * sets, {}, {}
        for j in drawn:
            if getattr(densities[j], "takes_uniform", False):
                many, size = sets_of(drawn[j])
                drawn[j] = many * size
                made = scrambled_sobol(size, self.problem.x.dim, cases * many, sources[j])
                uniform[j] = made.flatten(0, 1).to(self.y.dtype)
                if size > 1:
                    scrambled[j] = many
        if not uniform:
            raise ValueError(
                "points: sobol needs proposals that can transform uniform points, and none of "
                "these can. Use points='independent'"
            )
        return uniform, scrambled


def generators(
    seed: Any, purpose: str = "runs", device: torch.device | None = None
) -> tuple[torch.Generator, np.random.Generator]:
    """Independent generators for points and for choices, from one seed.

    Arguments:
        seed: Whole number from 0 to 2^63 - 1, or a numpy SeedSequence.
        purpose: What they are for, one of `amci_core._arguments.PURPOSES`.
        device: Where points are drawn; by default on the CPU.

    Raises:
        ValueError: it is no seed.
    """
    root = seed if isinstance(seed, np.random.SeedSequence) else seed_sequence(seed, purpose)
    for_points, for_choices = root.spawn(2)
    state = int(for_points.generate_state(1, np.uint64)[0] >> np.uint64(1))
    points = torch.Generator(device or "cpu").manual_seed(state)
    return points, np.random.default_rng(for_choices)
