r"""The targets: what each proposal is trained towards, training draws, and where x lies."""

from __future__ import annotations

__all__ = ["TARGETS", "Target"]

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import emcee
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from amci_core.flows.density import Trainable
from amci_core.flows.layers import ToSupport
from amci_core.flows.supports import coordinate_bijectors, coordinates_of
from amci_core.models import DefensiveDensity, Problem, Variable
from amci_core.models.base import Density
from amci_core.training import clock

Source = Callable[[Problem, int, torch.Generator], tuple[Tensor, Tensor | None, Tensor]]

# With a thousand walkers a training set is a hundred states of each, ten steps apart.
WALKERS = 1_000
BURN_IN = 200
THINNING = 10
# Importance draws for each walker, out of which it starts.
CANDIDATES = 20
# f varies over a posterior where it leaves a smaller share of these of its particles effective. A
# theta where it does is looked for among so many, unless so large a share of them has it.
VARIES, PARTICLES, THETAS, COMMON = 0.95, 16, 256, 0.1


def markov_chain(
    problem: Problem, n: int, generator: torch.Generator
) -> tuple[Tensor, Tensor | None, Tensor]:
    r"""n states of an ensemble of Markov chains on g(theta, x) prop. to p(theta) p(x) f(x; theta).

    All weights r are the same, the unknown normalizer of g; log r is given as zero, since a
    constant factor of the loss moves neither its minimum nor a step of Adam. Walkers start from
    importance draws that are resampled by their weights, and make stretch moves. The first states
    are left out, and of the others one in ten is kept: the autocorrelation time is about 25 steps
    for tail-1d and 50 for tail-5d, but thinning that far costs more than it gives. The chain is
    seeded from the generator, and begins anew for every set of draws.

    Warning:
        In tail-10d and tail-20d, whose states have 20 and 40 coordinates, walkers stay about where
        they start, and moments are those of the few importance draws that they start from.

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, section "Efficient
        training".
        Foreman-Mackey, Hogg, Lang, Goodman, emcee: The MCMC Hammer, 2013.

    Arguments:
        problem: The problem; its p(theta) is uniform on the range of theta.
        n: Number of draws.
        generator: Where all randomness comes from.

    Returns:
        x (n, D), theta (n, D_theta) or None, and log r (n), in float32 on the generator's device.
    """
    dims = 0 if problem.theta is None else problem.theta.dim
    walkers = min(WALKERS, max(n, 4 * (dims + problem.x.dim)))
    x, theta, log_r = problem.sample_training(CANDIDATES * walkers, generator)
    chosen = torch.multinomial(
        torch.softmax(log_r, 0), walkers, replacement=True, generator=generator
    )
    start = x if theta is None else torch.cat([theta, x], -1)
    seed = int(torch.randint(2**32, (), generator=generator, device=generator.device))

    def parts(points: NDArray[np.float64]) -> tuple[Tensor, Tensor | None]:
        # The chain sees its states rounded as training will, so that none is rounded out of f.
        single = torch.as_tensor(points, dtype=torch.float32, device=generator.device)
        theta, x = single.split([dims, problem.x.dim], dim=-1)
        return x, None if problem.theta is None else theta

    def log_density(points: NDArray[np.float64]) -> NDArray[np.float64]:
        x, theta = parts(points)
        Target.evaluations += len(points)
        f_plus, _ = problem.f_parts(x[:, None], theta)
        log_prior = problem.log_prior(x)
        value = (log_prior + f_plus[:, 0].log()).masked_fill(log_prior == -torch.inf, -torch.inf)
        if problem.theta is not None and theta is not None:
            low, high = theta.new_tensor(problem.theta.ends)
            inside = (theta >= low) & (theta <= high)
            value = value.where(inside.all(-1), -torch.inf)
        return value.cpu().double().numpy()

    # emcee 3.1's snooker move was seen to miss the mean of x for tail-1d by 4 %.
    moves = emcee.moves.StretchMove()
    sampler = emcee.EnsembleSampler(
        walkers, start.shape[-1], log_density, vectorize=True, moves=moves
    )
    state = emcee.State(
        start[chosen].cpu().double().numpy(), random_state=np.random.RandomState(seed).get_state()
    )
    # Walkers may start from the same draw; moves drive them apart.
    state = sampler.run_mcmc(state, BURN_IN, store=False, skip_initial_state_check=True)
    sampler.run_mcmc(state, -(-n // walkers), thin_by=THINNING, skip_initial_state_check=True)
    x, theta = parts(sampler.get_chain(flat=True)[:n])
    return x, theta, torch.zeros_like(x[:, 0])


SOURCES: dict[str, Source] = {
    "importance": lambda problem, n, generator: problem.sample_training(n, generator),
    "mcmc": markov_chain,
}


class Sample(NamedTuple):
    """Weighted training draws: y (n, D_y), theta (n, D_theta) or None, x (n, D), log r (n)."""

    y: Tensor
    theta: Tensor | None
    x: Tensor
    log_r: Tensor


class Particles(NamedTuple):
    """Particles of many cases that follow a target, see `amci_core.training.particles`.

    Arguments:
        y: (cases, D_y).
        theta: (cases, D_theta), or None.
        line: The particles in the unconstrained space of the coordinates, (cases, n, D).
        x: The particles, (cases, n, D).
        missed: Share of the cases that were requested, but not reached.
    """

    y: Tensor
    theta: Tensor | None
    line: Tensor
    x: Tensor
    missed: float

    def take(self, rows: slice) -> Particles:
        """Some of the cases."""
        return Particles(*(part[rows] if isinstance(part, Tensor) else part for part in self))  # type: ignore[arg-type]


class Target:
    """f_plus(x; theta) p(x, y), for q1_plus: its draws, and a defensive density that covers it.

    Arguments:
        problem: The problem whose term it is.

    Attributes:
        particles: Particles that follow it, once they have been drawn.
        posterior: Particles of p(x | y), where y tells so much that f hardly ever varies over them
            at a theta that is drawn apart from y. Half of the cases then have one where it does.
        evaluations: Points at which this process has evaluated the density of any target.
    """

    evaluations: ClassVar[int] = 0

    term = "E1_plus"  # of `problem`: the negated one for q1_minus, M - f for q1_complement
    reads_theta = True

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._defensive: dict[torch.dtype, Trainable] = {}
        self.particles: Particles
        self.posterior: Particles | None = None

    @cached_property
    def to_support(self) -> ToSupport:
        """The bijector of the unconstrained space onto the range of x."""
        return ToSupport(coordinate_bijectors(self.problem, coordinates_of(self.problem)))

    def cases(
        self, n: int, *, uniform: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """Pairs y, theta: n from p(y) p(theta), `uniform` more spread over the typical ranges."""
        y, theta = self.problem.sample_cases(n, generator)
        # Training is in float32, also if samplers give float64.
        y = torch.cat([y.float(), _spread(self.problem.y, uniform, generator)])
        if theta is None:
            return y, None
        theta = torch.cat([theta.float(), _spread(self.problem.theta, uniform, generator)])
        if self.posterior is not None:
            new_y, new_theta = self._varying_cases(self.posterior, n // 2, generator)
            y, theta = (torch.cat([a, b[len(a) :]]) for a, b in ((new_y, y), (new_theta, theta)))
        return y, theta

    def _varying_cases(
        self, posterior: Particles, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """At most n cases with a theta from p(theta) at which f varies over the posterior."""
        rows = torch.randint(len(posterior.y), (n,), generator=generator)
        y, x = posterior.y[rows], posterior.x[rows][:, :PARTICLES]
        theta: Any = self.problem.sample_theta(n * THETAS, generator)
        theta = theta.to(x).unflatten(0, (n, THETAS))
        varies = self._varies(x[:, None].expand(-1, THETAS, -1, -1), theta)
        some = varies.any(-1)
        chosen = torch.multinomial(varies[some].float(), 1, generator=generator)[:, 0]
        return y[some], theta[some, chosen]

    def f_varies(self, posterior: Particles, generator: torch.Generator) -> bool:
        """Whether f varies over the posterior at one in ten theta that are drawn apart from y."""
        x = posterior.x[:, :PARTICLES]
        theta: Any = self.problem.sample_theta(len(x), generator)
        return float(self._varies(x, theta.to(x)).double().mean()) > COMMON

    def _varies(self, x: Tensor, theta: Tensor) -> Tensor:
        f, _ = self.problem.f_parts(x, theta)
        # In units of the largest: squares of a small f would be zero.
        f = f / f.amax(-1, keepdim=True).clamp(min=torch.finfo(f.dtype).tiny)
        share = f.mean(-1).square() / f.square().mean(-1).clamp(min=1e-30)
        return (share > 0) & (share < VARIES)

    def sample(self, n: int, generator: torch.Generator, source: str = "importance") -> Sample:
        """n weighted draws of (theta, x) from the source, and y: the paper's data sets."""
        x, theta, log_r = SOURCES[source](self.problem, n, generator)
        Target.evaluations += n
        return Sample(self.problem.sample_likelihood(x, generator), theta, x, log_r)

    def log_joint(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(x, y) in nats at x (*, n, D); result: (*, n), whose points are counted."""
        value = self.problem.log_joint(x, y)
        Target.evaluations += value.numel()
        return value

    def log_density(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        """The target's log density in nats, unnormalized, at x (*, n, D); result: (*, n)."""
        f_plus, _ = self.problem.f_parts(x, theta)
        log_joint = self.log_joint(x, y)
        # Where p(x, y) is zero f may be no number.
        return (log_joint + f_plus.log()).masked_fill(log_joint == -torch.inf, -torch.inf)

    @cached_property
    def seconds_per_point(self) -> float:
        """Seconds that `log_density` takes for a point, about."""
        generator = torch.Generator().manual_seed(0)
        y, theta = self.cases(1, uniform=0, generator=generator)

        def call(n: int) -> None:
            x = self.problem.sample_prior(n, generator).double()
            self.log_density(x[None], y.double(), None if theta is None else theta.double())

        return clock.seconds_per_point(call)

    def refer_to(self, defensive: Trainable) -> None:
        """Takes another defensive density: more is known of it than the problem says."""
        kinds = torch.float32, torch.float64
        self._defensive = {kind: copy.deepcopy(defensive).to(kind) for kind in kinds}

    def reference(self, y: Tensor, theta: Tensor | None) -> Density:
        """The defensive density at y (*, D_y) and theta (*, D_theta), which covers the target."""
        if self._defensive:
            return self._defensive[y.dtype](y, theta)
        return self.own(y, theta)

    def own(self, y: Tensor, theta: Tensor | None) -> Density:
        """The defensive density that the problem itself declares."""
        return DefensiveDensity(self.problem, y, theta, [self.term])


class JointTarget(Target):
    """p(x, y), for q2; its defensive density is the prior."""

    term = "E2"
    reads_theta = False

    def sample(self, n: int, generator: torch.Generator, source: str = "importance") -> Sample:
        # p(x, y) is drawn from directly, for every source.
        x = self.problem.sample_prior(n, generator)
        y = self.problem.sample_likelihood(x, generator)
        return Sample(y, self.problem.sample_theta(n, generator), x, torch.zeros_like(x[:, 0]))

    def log_density(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        return self.log_joint(x, y)


# f_minus is the f_plus of -f, and the complement's is that of M - f.
TARGETS: dict[str, Callable[[Problem], Target]] = {
    "q1_plus": Target,
    "q1_minus": lambda problem: Target(problem.with_negated_f()),
    "q2": JointTarget,
    "q1_complement": lambda problem: Target(problem.complement()),
}


def _spread(variable: Variable | None, n: int, generator: torch.Generator) -> Tensor:
    if variable is None:
        return torch.empty(n, 0, device=generator.device)
    return variable.nearest(variable.uniform(n, generator, typical=True))
