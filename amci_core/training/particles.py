r"""Initialization: particles that follow a term at many cases, by sequential Monte Carlo (SMC).

For every case (y, theta) particles start from the prior and move towards g = L p(x), with L =
f_plus p(y | x) or p(y | x), through the densities L^b p(x). The exponent b grows as fast as half
of the particles stay effective; particles are resampled by their weights, and moved by steps of
differential evolution, which take their direction and length from other particles, and by steps
that leave a normal density like the prior's as it is. Where f is zero at all of a case's particles
no exponent helps: the case takes those particles of its neighbours, cases with nearby y and theta
that have reached f, that lie within its own f too.

References:
    Del Moral, Doucet, Jasra, Sequential Monte Carlo samplers, 2006.
    ter Braak, A Markov chain Monte Carlo version of the genetic algorithm Differential Evolution,
    2006.
"""

from __future__ import annotations

__all__ = ["NotReached", "draw_particles", "smc"]

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from amci_core.models import Problem
from amci_core.models.base import Density
from amci_core.training import clock
from amci_core.training.targets import Particles, Target

# With more coordinates than this there are fewer particles, and one network serves them all.
MANY = 10
# Moves after every change of the density, and at its end.
MOVES, LAST_MOVES = 6, 20
# Neighbours whose particles a case looks at, and rounds of looking.
NEIGHBOURS, ROUNDS = 12, 60
# So many particles of its neighbours have to lie within a case's own f.
ENOUGH = 4
LEVELS = 200
# Numbers of coordinates that are computed together: memory.
AT_ONCE = 4_000_000
# Draws of the prior for cases whose f is zero at nearly all of them, in numbers of particles.
TRIES = 32
# A density misses a part of a case where more than this share of its particles have weights so
# many times above the mean.
FAR_ABOVE, MISSED = 100.0, 0.02
# The smallest step of an exponent, in logarithms: log L may span 1e12 nats.
LEAST_LOG_STEP = -30.0
# Numbers of particles in total stay below this many coordinates.
MOST, MOST_OF_MANY = 6_000_000, 1_500_000
PARTICLES = 256
# Cases for each number that a proposal reads, and at most.
CASES, MOST_CASES = 256, 2048
BLOCK, LEAST_BLOCK = 256, 16
# Evaluations of the density for each particle, about; particles of costly densities; draws of the
# paper's data set, where even these take too long.
EVALUATIONS, FEW_PARTICLES, DRAWN = 80, 64, 20_000


class NotReached(ValueError):
    """No particles follow the term: it is zero at every draw of the prior, or time ended."""


def numbers_read(problem: Problem) -> int:
    """How many numbers y and theta are."""
    return sum(v.dim for v in (problem.y, problem.theta) if v is not None)


def bounded(problem: Problem) -> bool:
    """Whether y and theta have ends, so that cases can be spread over their ranges."""
    return all(
        variable is None or np.isfinite(variable.typical).all()
        for variable in (problem.y, problem.theta)
    )


def draw_particles(
    target: Target, generator: torch.Generator, *, steps: int, seconds: float = math.inf
) -> Particles:
    """Particles of cases from p(y) p(theta) and, where y and theta have ends, spread over them.

    Arguments:
        target: The target.
        generator: Source of all randomness.
        steps: Steps of the training that follows: with few of them there are few cases.
        seconds: About how long it may take; with less time there are fewer cases.

    Raises:
        NotReached: no case was reached.
    """
    problem = target.problem
    many = problem.x.dim > MANY
    particles, most = (PARTICLES // 2, MOST_OF_MANY) if many else (PARTICLES, MOST)
    cases = min(
        CASES * (1 + numbers_read(problem)),
        MOST_CASES,
        most // (particles * problem.x.dim),
        64 + steps,
    )
    if problem.y is None and problem.theta is None:
        cases = 16
    until, block = clock.now() + seconds, BLOCK
    if math.isfinite(seconds):
        each = EVALUATIONS * target.seconds_per_point
        if LEAST_BLOCK * particles * each > seconds / 2:
            particles = FEW_PARTICLES
        if LEAST_BLOCK * particles * each > seconds / 2:
            return _from_data_set(target, until, generator)
        block = min(BLOCK, max(LEAST_BLOCK, int(seconds / 2 / (particles * each))))
    parts, taken = list[Particles](), 0.0
    # Block by block: with little time there are fewer cases, each of them reached.
    while cases > 0 and (not taken or clock.now() + taken < until):
        began, size = clock.now(), min(block, cases)
        cases -= size
        spread = size // 4 if bounded(problem) else 0
        y, theta = target.cases(size - spread, uniform=spread, generator=generator)
        try:
            parts.append(smc(target, y, theta, particles, generator, seconds=until - began)[0])
        except NotReached as error:
            failure = error
        taken = clock.now() - began
    if not parts:
        raise failure
    return joined(parts)


def joined(parts: Sequence[Particles], most: int | None = None) -> Particles:
    """The cases of all parts, at most so many of them; their particles are as many everywhere."""
    n = min(part.x.shape[1] for part in parts)
    fields = [(part.y, part.theta, part.line[:, :n], part.x[:, :n]) for part in parts]
    y, theta, line, x = (
        None if each[0] is None else torch.cat(each)[:most] for each in zip(*fields, strict=True)
    )
    missed = sum(part.missed for part in parts) / len(parts)
    return Particles(y, theta, line, x, missed)  # type: ignore[arg-type]


def _from_data_set(target: Target, until: float, generator: torch.Generator) -> Particles:
    """One particle for each case, from the paper's data sets: no density is evaluated.

    So (y, theta) come in proportion to the term, and x follows it.
    """
    n = 64
    while True:
        began = clock.now()
        sample = target.sample(n, generator)
        if n == DRAWN or 5 * (clock.now() - began) > until - clock.now():
            break
        n = min(4 * n, DRAWN)
    if not (sample.log_r > -math.inf).any():
        zero = f"the term is zero at all {n:,} draws of the prior"
        begin = "let the range of theta begin at common events"
        raise NotReached(
            f"time: {zero} within the time. Raise minutes, or {begin}"
            if n < DRAWN
            else f"f: {zero}. Define sample_training, or {begin}"
        )
    index = torch.multinomial(sample.log_r.softmax(0), n, replacement=True, generator=generator)
    y, x = sample.y[index].float(), sample.x[index].float()[:, None]
    theta = None if sample.theta is None else sample.theta[index].float()
    return Particles(y, theta, target.to_support.inverse(x, None)[0], x, 0.0)


def smc(
    target: Target,
    y: Tensor,
    theta: Tensor | None,
    particles: int,
    generator: torch.Generator,
    *,
    seconds: float = math.inf,
) -> tuple[Particles, Tensor]:
    """Particles that follow the target at given y (cases, D_y) and theta (cases, D_theta).

    Arguments:
        target: The target.
        y: Observations.
        theta: Parameters of f, or None.
        particles: Number of particles of a case, ten at least.
        generator: Source of all randomness.
        seconds: After so long it ends with the cases that it has reached.

    Returns:
        The cases that were reached, with their particles, and their rows in y.

    Raises:
        NotReached: the term is zero at all draws of the prior in every case, or no case was
            reached in time.
    """
    started, dim = clock.now(), target.problem.x.dim
    cases = Cases(target, y, theta, generator)

    def late(share: float) -> bool:
        return clock.now() - started > share * seconds

    with torch.inference_mode():
        state = init(cases, particles)
        points = state.line.flatten(0, 1)
        cases = cases._replace(prior=(points.mean(0), points.std(0)))
        draws = particles * _draw_again(cases, state, started + 0.2 * seconds)

        def temper(chosen: Tensor) -> Tensor:
            """Takes chosen cases to the exponent 1; returns which of all have come there."""
            for level in range(LEVELS):
                rows = (chosen & (state.exponent < 1)).nonzero()[:, 0]
                # The first level is all that f = 0 or 1 needs.
                if not len(rows) or (level and late(0.5)):
                    break
                state.put(rows, step(cases.take(rows), state.take(rows)))
            return state.exponent >= 1

        def move_some(rows: Tensor, times: int) -> None:
            state.put(rows, move(cases.take(rows), state.take(rows), times))

        alive = (state.log_L > -math.inf).sum(-1)
        # A case with few of them does better with its neighbours' particles.
        many = alive >= particles // 4
        some = alive >= (ENOUGH if (alive >= ENOUGH).any() else 1)
        reached = temper(many if many.any() else some)
        if target.refers:
            reference = target.reference(y, theta)
            reached = _take_draws(cases, state, reference, reached, particles / 4)
            # In many coordinates thousands of draws of the problem's own are worth a few, which
            # become more by moves.
            if not reached.any():
                reached = _take_draws(cases, state, target.own(y, theta), reached, ENOUGH)
                move_some(reached.nonzero()[:, 0], LAST_MOVES * (1 + dim // 10))
        for _ in range(ROUNDS):
            rows, givers = (~reached).nonzero()[:, 0], reached.nonzero()[:, 0]
            if not len(rows) or not len(givers) or late(0.8):
                break
            # A case that is reached from nearby keeps more of its neighbours' particles.
            for least in (particles, particles // 4, ENOUGH):
                taken = _take_from_neighbours(cases, state, rows, givers, least)
                if len(taken):
                    break
            else:
                break
            reached[taken] = True
            state.exponent[taken] = 1.0
            move_some(taken, LAST_MOVES)
        reached |= temper(~reached & some)
        # Modes of one case are offered to all. In many coordinates particles forget slowly which
        # few of them they come from.
        everyone = reached.nonzero()[:, 0]
        for _ in range(1 + dim // 10):
            if len(everyone) < 2 or late(0.9):
                break
            _take_from_neighbours(cases, state, everyone, everyone, ENOUGH)
            move_some(everyone, LAST_MOVES if dim <= 10 else 50)
        if not len(everyone) and alive.any():
            raise NotReached(
                f"time: particles have not converged after {clock.now() - started:.1f} s, though "
                f"prior draws reach the term in {int((alive > 0).sum())} of {len(y)} cases. Raise "
                "minutes"
            )
        if not len(everyone):
            raise NotReached(
                f"f: the term is zero at all {draws:,} prior draws of each of "
                f"{len(y)} cases, so training cannot start. Define sample_defensive and "
                "log_defensive, or let the range of theta begin at common events"
            )
        line = state.line[everyone]
        x = target.to_support.forward(line, None)[0]
    # Copies, which training may differentiate through.
    rows, missed = everyone.clone(), 1 - len(everyone) / len(y)
    theta = None if theta is None else theta[rows]
    return Particles(y[rows], theta, line.clone(), x.clone(), missed), rows


class Cases(NamedTuple):
    """Cases of a target.

    Arguments:
        target: The target.
        y: (cases, D_y).
        theta: (cases, D_theta), or None.
        generator: Source of all randomness.
        prior: Mean and standard deviation of the prior in the unconstrained space, (D,).
    """

    target: Target
    y: Tensor
    theta: Tensor | None
    generator: torch.Generator
    prior: tuple[Tensor, Tensor] | None = None

    def take(self, rows: Tensor) -> Cases:
        """Some of the cases."""
        return self._replace(
            y=self.y[rows], theta=None if self.theta is None else self.theta[rows]
        )

    def densities(self, line: Tensor) -> tuple[Tensor, Tensor]:
        """log p and log L, (cases, n), at points (cases, n, D) of the unconstrained space."""
        x, log_det = self.target.to_support.forward(line, None)
        # A log likelihood of 1e10 nats has no digits left in single precision.
        x, y = x.double(), self.y.double()
        theta = None if self.theta is None else self.theta.double()
        log_prior = self.target.problem.log_prior(x)
        log_g = self.target.log_density(x, y, theta)
        log_p = (log_prior + log_det).nan_to_num(-math.inf, -math.inf, -math.inf)
        log_L = torch.where(log_prior > -math.inf, log_g - log_prior, -math.inf)
        return log_p, log_L.nan_to_num(-math.inf, -math.inf, -math.inf)

    def distances(self, rows: Tensor, others: Tensor) -> Tensor:
        """Distances of some cases to others, each number in units of its spread over all."""
        read = self.y if self.theta is None else torch.cat([self.y, self.theta], -1)
        centre = read.mean(0)
        least = (1e-6 * centre.abs()).clamp(min=torch.finfo(read.dtype).tiny)
        read = read - centre
        place = read / read.square().mean(0).sqrt().maximum(least)
        return torch.cdist(place[rows], place[others])


class State(NamedTuple):
    """Particles of cases.

    Arguments:
        line: In the unconstrained space, (cases, n, D).
        log_p: The prior's log density there, (cases, n).
        log_L: log L there, (cases, n).
        exponent: b of the density L^b p(x) that they follow, (cases,).
    """

    line: Tensor
    log_p: Tensor
    log_L: Tensor
    exponent: Tensor

    def take(self, rows: Tensor) -> State:
        """Those of some cases, copied."""
        return State(*(part[rows] for part in self))

    def put(self, rows: Tensor, new: State) -> None:
        """Replaces those of some cases."""
        for part, values in zip(self, new, strict=True):
            part[rows] = values

    def resampled(self, weights: Tensor, generator: torch.Generator) -> State:
        """As many particles of each case, drawn by weights (cases, n)."""
        index = _resample(weights, weights.shape[-1], generator)
        parts = self.log_p.gather(1, index), self.log_L.gather(1, index)
        return State(_gather(self.line, index), *parts, self.exponent)


def init(cases: Cases, n: int) -> State:
    """n draws of the prior for each case."""
    x = cases.target.problem.sample_prior(len(cases.y) * n, cases.generator).to(cases.y)
    line = cases.target.to_support.inverse(x.reshape(len(cases.y), n, -1), None)[0]
    log_p, log_L = cases.densities(line)
    return State(line, log_p, log_L, torch.zeros_like(log_L[:, 0]))


def step(cases: Cases, state: State) -> State:
    """One step of SMC: a larger exponent, particles resampled by their weights, and moves."""
    return move(cases, temper(state, cases.generator), MOVES)


def temper(state: State, generator: torch.Generator) -> State:
    """Raises the exponent until half of the particles are effective, and resamples."""
    log_L, now = state.log_L, state.exponent

    def log_weights(step: Tensor) -> Tensor:
        return torch.where(log_L > -math.inf, step[:, None] * log_L, -math.inf)

    def effective(step: Tensor) -> Tensor:
        log_w = log_weights(step)
        return torch.exp(2 * log_w.logsumexp(-1) - (2 * log_w).logsumexp(-1))

    # Relative to those that are not dead: f = 0 leaves the others as they are.
    half = 0.5 * (log_L > -math.inf).sum(-1)
    high = (1 - now).log()
    low = torch.full_like(high, LEAST_LOG_STEP)
    enough = effective(high.exp()) >= half
    # On the log scale: with very informative data the first step is tiny.
    for _ in range(30):
        middle = (low + high) / 2
        good = effective(middle.exp()) >= half
        low, high = torch.where(good, middle, low), torch.where(good, high, middle)
    step = torch.where(enough, 1 - now, low.exp())
    raised = state._replace(exponent=torch.where(enough, 1.0, now + step))
    return raised.resampled(torch.softmax(log_weights(step), -1), generator)


def move(cases: Cases, state: State, times: int) -> State:
    """Metropolis steps that leave L^b p as it is: of each half in turn, of two kinds in turn."""
    b, generator = state.exponent[:, None], cases.generator
    for i in range(times):
        mine, theirs = torch.randperm(state.line.shape[1], generator=generator).tensor_split(2)
        now, others = state.line[:, mine], state.line[:, theirs]
        if i % 2:
            proposed, log_ratio = _autoregression(cases, now)
        else:
            # Now and then from one mode into another.
            length = None if i % 6 == 4 else 2.38 / math.sqrt(2 * now.shape[-1])
            proposed, log_ratio = _evolution(now, others, length, generator)
        log_p, log_L = cases.densities(proposed)
        old_p, old_L = state.log_p[:, mine], state.log_L[:, mine]
        log_a = log_p - old_p + log_ratio + torch.where(b > 0, b * (log_L - old_L), 0.0)
        accept = torch.rand(log_a.shape, generator=generator).log() < log_a
        state.line[:, mine] = torch.where(accept[..., None], proposed, now)
        state.log_p[:, mine] = torch.where(accept, log_p, old_p)
        state.log_L[:, mine] = torch.where(accept, log_L, old_L)
    return state


def _evolution(
    now: Tensor, others: Tensor, length: float | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Differential evolution: along the difference of two particles of the other half."""
    pick = torch.randint(others.shape[1], (2, *now.shape[:2]), generator=generator)
    one, other = (_gather(others, index) for index in pick)
    length = 1.0 if length is None else length * _factor(generator)
    jitter = torch.randn(now.shape, generator=generator).to(now)
    proposed = now + length * (one - other) + 1e-3 * jitter * others.std(1, keepdim=True)
    return proposed, now.new_zeros(())


def _autoregression(cases: Cases, now: Tensor) -> tuple[Tensor, Tensor]:
    """A step that leaves the normal density of the prior's mean and deviation as it is."""
    assert cases.prior is not None
    (centre, scale), generator = cases.prior, cases.generator
    length = min(1.0, 0.4 * _factor(generator))
    noise = torch.randn(now.shape, generator=generator).to(now)
    z = (now - centre) / scale
    new = math.sqrt(1 - length**2) * z + length * noise
    return centre + scale * new, (new.square() - z.square()).sum(-1) / 2


def _factor(generator: torch.Generator) -> float:
    return math.exp(0.7 * float(torch.randn((), generator=generator)) - 0.25)


def _draw_again(cases: Cases, state: State, until: float) -> int:
    """Draws the prior again for cases whose L is zero nearly everywhere; returns how often."""
    n, times = state.line.shape[1], 1
    for tried in range(TRIES):
        if tried and clock.now() > until:
            break
        alive = state.log_L > -math.inf
        rows = (alive.sum(-1) < n // 4).nonzero()[:, 0]
        if not len(rows):
            break
        times += 1
        drawn = init(cases.take(rows), n)
        new = ~alive[rows] & (drawn.log_L > -math.inf)
        state.line[rows] = torch.where(new[..., None], drawn.line, state.line[rows])
        state.log_p[rows] = torch.where(new, drawn.log_p, state.log_p[rows])
        state.log_L[rows] = torch.where(new, drawn.log_L, state.log_L[rows])
    return times


def _take_draws(
    cases: Cases, state: State, density: Density, reached: Tensor, least: float
) -> Tensor:
    """Takes weighted draws of a density where their effective sample size is at least so large.

    Cases that are reached keep what they have where the density misses a part of it. Returns the
    cases that are reached then, (cases,).
    """
    target, n = cases.target, state.line.shape[1]

    def log_weights(x: Tensor, log_h: Tensor) -> Tensor:
        log_w = target.log_density(x, cases.y, cases.theta) - log_h
        return log_w.nan_to_num(-math.inf, -math.inf, -math.inf)

    x, log_h = density.draw(4 * n, cases.generator)
    log_w = log_weights(x, log_h)
    top = log_w.amax(-1, keepdim=True).clamp(min=-1e30)
    weights = (log_w - top).exp()
    effective = weights.sum(-1).square() / weights.square().sum(-1).clamp(min=1e-30)
    have = target.to_support.forward(state.line, None)[0]
    above = log_weights(have, density.log_prob(have)) - top
    far = above > math.log(FAR_ABOVE) + weights.mean(-1, keepdim=True).log()
    whole = ~reached | (far.double().mean(-1) < MISSED)
    rows = ((effective >= least) & whole).nonzero()[:, 0]
    if not len(rows):
        return reached
    x = _gather(x[rows], _resample(weights[rows], n, cases.generator))
    line = target.to_support.inverse(x, None)[0]
    densities = cases.take(rows).densities(line)
    state.put(rows, State(line, *densities, torch.ones_like(state.exponent[rows])))
    return reached | torch.zeros_like(reached).index_fill(0, rows, True)


def _take_from_neighbours(
    cases: Cases, state: State, rows: Tensor, givers: Tensor, least: int
) -> Tensor:
    """Takes particles of the nearest givers, resampled by a case's own target over theirs.

    Returns the rows whose new particles have at least that effective sample size.
    """
    n, dim = state.line.shape[1:]
    size, generator = min(NEIGHBOURS, len(givers)), cases.generator
    taken = []
    for part in rows.split(max(1, AT_ONCE // (size * n * dim))):
        nearest = cases.distances(part, givers).topk(size, largest=False).indices
        chosen = givers[nearest]  # (rows, k)
        some = torch.randint(n, (*chosen.shape, n), generator=generator)
        line = state.line[chosen[..., None], some].flatten(1, 2)  # (rows, k n, D)
        their_L = state.log_L[chosen[..., None], some].flatten(1)
        _, log_L = cases.take(part).densities(line)
        log_w = torch.where(log_L > -math.inf, log_L - their_L, -math.inf)
        fits = 1 / log_w.softmax(-1).square().sum(-1) >= least
        # NaN where none fits.
        part, line, log_w = part[fits], line[fits], log_w[fits]
        if len(part):
            taken.append((part, _gather(line, _resample(log_w.softmax(-1), n, generator))))
    # Only now: cases may be each other's neighbours.
    for part, line in taken:
        state.put(part, State(line, *cases.take(part).densities(line), state.exponent[part]))
    return torch.cat([part for part, _ in taken]) if taken else rows[:0]


def _resample(weights: Tensor, n: int, generator: torch.Generator) -> Tensor:
    return torch.multinomial(weights, n, replacement=True, generator=generator)


def _gather(points: Tensor, index: Tensor) -> Tensor:
    """The points (cases, n, D) of an index (cases, m): (cases, m, D)."""
    return points.gather(1, index[..., None].expand(-1, -1, points.shape[-1]))
