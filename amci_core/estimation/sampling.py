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
from torch.quasirandom import SobolEngine

from amci_core._arguments import seed_sequence
from amci_core.estimators.draws import COMPLEMENT, DEFENSIVE, Array, Draws, sets_of
from amci_core.flows import Proposals
from amci_core.flows.proposals import check_proposals, draw_all
from amci_core.io import pretrained_root
from amci_core.models import Problem, check_problem
from amci_core.models.contract import BOTH_SIGNS
from amci_core.models.densities import DefensiveDensity
from amci_core.proposals import load_proposals

MAX_POINTS = 20_000_000
# Binary digits of a scrambled point.
DIGITS = 52


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
            files = sorted((pretrained_root() / name).glob("*/config.json"))
            return problem, _shipped(name, proposals, *(file.stat().st_mtime_ns for file in files))
        proposals = load_proposals(problem, variant=proposals)
    check_proposals(problem, proposals)
    return problem, proposals


@lru_cache(16)
def _shipped(name: str, variant: str | None, *written: int) -> Proposals:
    """Proposals of files of these times; callers have no hold of them, to change them."""
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
        points: str = "independent",
        own_only: bool = False,
        defensive_generator: torch.Generator | None = None,
    ) -> Draws:
        """Draws counts[j] points of every component j, with all densities at each.

        Arguments:
            counts: Number of points of each component, (5,), or of the first of them.
            generator: Source of random numbers.
            runs: Number R of independent sets of points; the batch shape is then (*, R).
            points: `independent`; `sobol` for scrambled Sobol points, counts[j] at most in as many
                sets as `sets_of` says; or `common`, the same random numbers for all proposals. A
                component that cannot take Sobol points draws independent ones.
            own_only: Whether each component's density is evaluated at its own points alone, which
                is all that a table of coefficients needs.
            defensive_generator: Source of random numbers for points of the defensive density; by
                default the same.

        Raises:
            ValueError: f or a density has a value that no estimate can be made of; or no proposal
                takes the points.
        """
        components = (*self.present, DEFENSIVE)
        drawn = {j: int(counts[j]) for j in components if j < len(counts) and counts[j] > 0}
        sources = dict.fromkeys(drawn, generator)
        # q1_complement is none of the proposals of a table.
        densities: dict[int, Any] = {
            j: q for j, q in self.densities.items() if j != COMPLEMENT or j in drawn
        }
        if DEFENSIVE in drawn:
            densities[DEFENSIVE] = DefensiveDensity(self.problem, self.y, self.theta)
            sources[DEFENSIVE] = defensive_generator or generator
        uniform: dict[int, Tensor] = {}
        sets: dict[int, int] = {}
        if points != "independent":
            cases, dim = math.prod(self.y.shape[:-1]) * (runs or 1), self.problem.x.dim
            able = [j for j in drawn if getattr(densities[j], "takes_uniform", False)]
            if points == "sobol":
                for j in able:
                    sets[j], size = sets_of(drawn[j])
                    scrambled = scrambled_sobol(size, dim, cases * sets[j], sources[j])
                    uniform[j], drawn[j] = scrambled.flatten(0, 1).to(self.y.dtype), sets[j] * size
                # The draws of sets of one point each are independent.
                sets = {j: many for j, many in sets.items() if many < drawn[j]}
            elif len(able) == len(drawn):
                shape, y = (cases * max(drawn.values()), dim), self.y
                common = torch.rand(shape, generator=generator, dtype=y.dtype, device=y.device)
                uniform = dict.fromkeys(drawn, 1 - common)
            if not uniform:
                raise ValueError(
                    f"points: {points} needs proposals that can transform uniform points, which "
                    "these cannot. Use points='independent'"
                )
        x: dict[int, Tensor] = {}
        log_q: dict[int, dict[int, Tensor]] = {}
        for some in [{j: densities[j]} for j in drawn] if own_only else [densities]:
            totals = {j: n * (runs or 1) for j, n in drawn.items() if j in some}
            x_of_some, log_q_of_some = draw_all(some, totals, sources, uniform=uniform)
            x, log_q = x | x_of_some, log_q | log_q_of_some
        self.points = x
        return self.evaluated(x, log_q, runs=runs, sets=sets)

    @torch.inference_mode()
    def evaluated(
        self,
        x: Mapping[int, Tensor],
        log_q: Mapping[int, Mapping[int, Tensor]],
        *,
        runs: int | None = None,
        sets: Mapping[int, int] | None = None,
    ) -> Draws:
        """f and log p(x, y) at points of several components, beside their log densities.

        Arguments:
            x: Points of each component, by its number, (*, n_j, D); of runs one after another.
            log_q: log_q[k][j], the log density of component k at the points of j, (*, n_j).
            runs: Number R of runs; the batch shape is then (*, R).
            sets: Number of scrambled sets that the points of a component are made of.

        Raises:
            ValueError: f or p(x, y) has a value that no estimate can be made of.
        """
        axis, many = self.y.ndim - 1, runs or 1
        batch = self.y.shape[:-1] if runs is None else (*self.y.shape[:-1], runs)

        def row(parts: Mapping[int, Tensor]) -> Tensor:
            """Values (*, R n_j, ...) of every component as (*, R n, ...), run after run."""
            apart = [values.unflatten(axis, (many, -1)) for values in parts.values()]
            return torch.cat(apart, axis + 1).flatten(axis, axis + 1)

        def numbers(values: Tensor) -> Array:
            return values.reshape(*batch, -1).cpu().numpy()

        f, log_joint = self.integrand(row(x))
        theta = None if self.theta is None else self.theta.cpu()
        log_E2 = self.problem.log_evidence(self.y.cpu(), theta)
        if log_E2 is not None:
            log_E2 = np.asarray(log_E2)[(..., *[None] * (runs is not None))]
        signed = not self.problem.nonnegative or self.shift > 0
        f_max = None if signed else self.problem.f_max
        return Draws(
            f=numbers(f - self.shift if self.shift else f),
            log_joint=numbers(log_joint),
            log_q={k: numbers(row(of_k)) for k, of_k in log_q.items()},
            counts={j: points.shape[-2] // many for j, points in x.items()},
            signed=signed,
            log_E2=log_E2,
            sets=sets or {},
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


def scrambled_sobol(n: int, dim: int, sets: int, generator: torch.Generator) -> Tensor:
    """Independently scrambled sets of the first n Sobol points, (sets, n, dim), in (0, 1).

    The scrambling is Matousek's, a random linear map of the digits and a random digital shift,
    which gives a mean the variance of Owen's nested one. `torch.quasirandom` and `scipy.stats.qmc`
    have it for one set at a time, at 0.2 ms each; runs and batches take thousands of sets, and
    here a thousand cost 6 ms. The points before the scrambling are those of
    `torch.quasirandom.SobolEngine`.

    References:
        Owen, Randomly permuted (t, m, s)-nets and (t, s)-sequences, 1995.
        Matousek, On the L2-discrepancy for anchored boxes, Journal of Complexity, 1998.

    Arguments:
        n: Points of a set, a power of two.
        dim: Number of dimensions.
        sets: Number of sets.
        generator: Source of random numbers, on whose device the points are made.

    Example:
        >>> u = scrambled_sobol(8, 2, 3, torch.Generator().manual_seed(0))
        >>> strata = (8 * u).ceil().sort(dim=1).values  # a point in each eighth of a coordinate
        >>> bool((strata == torch.arange(1, 9)[:, None]).all())
        True
    """
    device, m = generator.device, n.bit_length() - 1

    def below(power: int) -> Tensor:
        return torch.randint(2**power, (sets, 1, dim), generator=generator, device=device)

    # The first n points have m digits.
    digits = (SobolEngine(dim).draw(n, dtype=torch.float64) * n).long().to(device)
    scrambled = below(DIGITS)
    for place in range(m):
        lower = DIGITS - 1 - place
        column = 2**lower + below(lower)
        scrambled = scrambled ^ column * (digits >> (m - 1 - place) & 1)
    uniform: Tensor = (scrambled.double() + 0.5) / 2**DIGITS
    return uniform


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
