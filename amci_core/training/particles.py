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

__all__ = ["draw_particles", "smc"]

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from amci_core.flows.mixture import gathered
from amci_core.models import Problem
from amci_core.models.base import Density
from amci_core.training import clock
from amci_core.training.targets import Particles, Target

# With more coordinates than this there are fewer particles, and one network serves them all.
MANY = 10
# Particles of a case, and the most coordinates of all particles together.
PARTICLES, MOST, MOST_OF_MANY = 256, 6_000_000, 1_500_000
# Cases for each number that a proposal reads, and at most; those that SMC takes at a time.
CASES, MOST_CASES = 256, 2048
BLOCK, LEAST_BLOCK = 256, 16
# Evaluations of the density for each particle, about; and particles of costly densities.
EVALUATIONS, FEW_PARTICLES = 80, 64
# Draws of the paper's data set, where even these take too long.
LEAST_DRAWN, DRAWN = 64, 20_000
# Moves after every change of the density, and at its end.
MOVES, LAST_MOVES = 6, 20
LEVELS = 200
# The smallest step of an exponent, in logarithms: log L may span 1e12 nats.
LEAST_LOG_STEP = -30.0
# Draws of the prior for cases whose f is zero at nearly all of them, in numbers of particles.
TRIES = 32
# Neighbours whose particles a case looks at, and rounds of looking.
NEIGHBOURS, ROUNDS = 12, 60
# So many particles of its neighbours have to lie within a case's own f.
ENOUGH = 4
# Numbers of coordinates that are computed together: memory.
AT_ONCE = 4_000_000
# A density misses a part of a case where more than this share of its particles have weights so
# many times above the mean.
FAR_ABOVE, MISSED = 100.0, 0.02


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
    problem, until = target.problem, clock.now() + seconds
    many = problem.x.dim > MANY
    particles, most = (PARTICLES // 2, MOST_OF_MANY) if many else (PARTICLES, MOST)
    read = numbers_read(problem)
    most_cases = min(MOST_CASES, most // (particles * problem.x.dim), 64 + steps)
    cases = min(CASES * (1 + read), most_cases) if read else 16
    block = BLOCK
    if math.isfinite(seconds):
        affordable = seconds / 2 / (EVALUATIONS * target.seconds_per_point)
        if affordable < LEAST_BLOCK * particles:
            particles = FEW_PARTICLES
        if affordable < LEAST_BLOCK * particles:
            return _from_data_set(target, until, generator)
        block = min(BLOCK, max(LEAST_BLOCK, int(affordable / particles)))

    blocks, taken = list[Particles](), 0.0
    # Block by block: with little time there are fewer cases, each of them reached.
    while cases > 0 and (not taken or clock.now() + taken < until):
        began, size = clock.now(), min(block, cases)
        cases -= size
        spread = size // 4 if bounded(problem) else 0
        y, theta = target.cases(size - spread, uniform=spread, generator=generator)
        try:
            reached, _ = smc(target, y, theta, particles, generator, seconds=until - began)
            blocks.append(reached)
        except NotReached as error:
            failure = error
        taken = clock.now() - began
    if not blocks:
        raise failure
    return joined(blocks)


def joined(blocks: Sequence[Particles], most: int | None = None) -> Particles:
    """The cases of all blocks, at most so many of them; their particles are as many everywhere."""
    n = min(block.x.shape[1] for block in blocks)
    y = torch.cat([block.y for block in blocks])[:most]
    thetas = [block.theta for block in blocks if block.theta is not None]
    theta = torch.cat(thetas)[:most] if thetas else None
    line = torch.cat([block.line[:, :n] for block in blocks])[:most]
    x = torch.cat([block.x[:, :n] for block in blocks])[:most]
    return Particles(y, theta, line, x, sum(block.missed for block in blocks) / len(blocks))


def _from_data_set(target: Target, until: float, generator: torch.Generator) -> Particles:
    """One particle for each case, from the paper's data sets: no density is evaluated.

    So (y, theta) come in proportion to the term, and x follows it.
    """
    per_draw = clock.seconds_per_point(lambda n: target.sample(n, generator))
    n = int(min(max(LEAST_DRAWN, (until - clock.now()) / per_draw), DRAWN))
    sample = target.sample(n, generator)
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
    with torch.inference_mode():
        ensemble = Ensemble(target, y, theta, particles, generator)
        draws = particles * ensemble.draw_again(started + 0.2 * seconds)
        alive = (ensemble.log_L > -math.inf).sum(-1)
        # A case with few of them does better with its neighbours' particles.
        many = alive >= particles // 4
        some = alive >= (ENOUGH if (alive >= ENOUGH).any() else 1)
        ensemble.raise_exponents(many if many.any() else some, started + 0.5 * seconds)
        if target.term != "E2" and target.problem.has_defensive:
            ensemble.take_draws(target.reference(y, theta), particles / 4)
            # In many coordinates thousands of draws of the problem's own are worth a few, which
            # become more by moves.
            if not ensemble.reached.any():
                ensemble.take_draws(target.own(y, theta), ENOUGH)
                ensemble.move(_rows(ensemble.reached), LAST_MOVES * (1 + dim // 10))
        ensemble.pass_on(started + 0.8 * seconds)
        ensemble.raise_exponents(~ensemble.reached & some, started + 0.5 * seconds)
        rows = _rows(ensemble.reached)
        # Modes of one case are offered to all. In many coordinates particles forget slowly which
        # few of them they come from.
        for _ in range(1 + dim // 10):
            if len(rows) < 2 or clock.now() > started + 0.9 * seconds:
                break
            ensemble.take_from_neighbours(rows, rows, ENOUGH)
            ensemble.move(rows, LAST_MOVES if dim <= 10 else 50)
        if not len(rows) and alive.any():
            raise NotReached(
                f"time: particles have not converged after {clock.now() - started:.1f} s, though "
                f"prior draws reach the term in {int((alive > 0).sum())} of {len(y)} cases. Raise "
                "minutes"
            )
        if not len(rows):
            raise NotReached(
                f"f: the term is zero at all {draws:,} prior draws of each of "
                f"{len(y)} cases, so training cannot start. Define sample_defensive and "
                "log_defensive, or let the range of theta begin at common events"
            )
        line = ensemble.line[rows]
        x = target.to_support.forward(line, None)[0]
    # Copies, which training may differentiate through.
    rows, missed = rows.clone(), 1 - len(rows) / len(y)
    theta = None if theta is None else theta[rows]
    return Particles(y[rows], theta, line.clone(), x.clone(), missed), rows


class Ensemble:
    """Particles of many cases, at first draws of the prior; most methods take rows of cases.

    Arguments:
        target: The target.
        y: (cases, D_y).
        theta: (cases, D_theta), or None.
        n: Number of particles of a case.
        generator: Source of all randomness.

    Attributes:
        line: The particles in the unconstrained space, (cases, n, D).
        log_p: The prior's log density there, (cases, n).
        log_L: log L there, (cases, n).
        exponent: b of the density L^b p(x) that they follow, (cases,).
        centre, scale: Mean and standard deviation of the prior there, (D,).
    """

    def __init__(
        self, target: Target, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> None:
        self.target, self.y, self.theta, self.generator = target, y, theta, generator
        self.line, self.log_p, self.log_L = self._prior_draws(torch.arange(len(y)), n)
        self.exponent = torch.zeros_like(self.log_L[:, 0])
        points = self.line.flatten(0, 1)
        self.centre, self.scale = points.mean(0), points.std(0)

    @property
    def reached(self) -> Tensor:
        """The cases whose particles follow the target, (cases,)."""
        return self.exponent >= 1

    def _prior_draws(self, rows: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
        x = self.target.problem.sample_prior(len(rows) * n, self.generator).to(self.y)
        line = self.target.to_support.inverse(x.reshape(len(rows), n, -1), None)[0]
        return line, *self._densities(rows, line)

    def _densities(self, rows: Tensor, line: Tensor) -> tuple[Tensor, Tensor]:
        """log p and log L of cases at points (rows, m, D) of the unconstrained space."""
        x, log_det = self.target.to_support.forward(line, None)
        # A log likelihood of 1e10 nats has no digits left in single precision.
        x, y = x.double(), self.y[rows].double()
        theta = None if self.theta is None else self.theta[rows].double()
        log_prior = self.target.problem.log_prior(x)
        log_g = self.target.log_density(x, y, theta)
        log_p = (log_prior + log_det).nan_to_num(-math.inf, -math.inf, -math.inf)
        log_L = torch.where(log_prior > -math.inf, log_g - log_prior, -math.inf)
        return log_p, log_L.nan_to_num(-math.inf, -math.inf, -math.inf)

    def replace(self, rows: Tensor, line: Tensor) -> None:
        """Takes other particles, which follow the target."""
        self.line[rows], self.exponent[rows] = line, 1.0
        self.log_p[rows], self.log_L[rows] = self._densities(rows, line)

    def draw_again(self, until: float) -> int:
        """Draws the prior again for cases whose L is zero nearly everywhere; returns how often."""
        n, times = self.line.shape[1], 1
        for tried in range(TRIES):
            if tried and clock.now() > until:
                break
            alive = self.log_L > -math.inf
            rows = _rows(alive.sum(-1) < n // 4)
            if not len(rows):
                break
            times += 1
            line, log_p, log_L = self._prior_draws(rows, n)
            new = ~alive[rows] & (log_L > -math.inf)
            self.line[rows] = torch.where(new[..., None], line, self.line[rows])
            self.log_p[rows] = torch.where(new, log_p, self.log_p[rows])
            self.log_L[rows] = torch.where(new, log_L, self.log_L[rows])
        return times

    def raise_exponents(self, chosen: Tensor, until: float) -> None:
        """Takes chosen cases (cases,) to the exponent 1, if there is time."""
        for level in range(LEVELS):
            rows = _rows(chosen & ~self.reached)
            # The first level is all that f = 0 or 1 needs.
            if not len(rows) or (level and clock.now() > until):
                break
            self.temper(rows)
            self.move(rows, MOVES)

    def temper(self, rows: Tensor) -> None:
        """Raises the exponent until half of the particles are effective, and resamples."""
        log_L, now = self.log_L[rows], self.exponent[rows]

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
        index = _resample(log_weights(step).softmax(-1), log_L.shape[-1], self.generator)
        self.exponent[rows] = torch.where(enough, 1.0, now + step)
        self.line[rows] = gathered(self.line[rows], index)
        self.log_p[rows] = self.log_p[rows].gather(1, index)
        self.log_L[rows] = log_L.gather(1, index)

    def move(self, rows: Tensor, times: int) -> None:
        """Metropolis steps that leave L^b p as it is: halves and kinds of steps take turns."""
        line, log_p, log_L = self.line[rows], self.log_p[rows], self.log_L[rows]
        b, generator = self.exponent[rows, None], self.generator
        for i in range(times):
            mine, theirs = torch.randperm(line.shape[1], generator=generator).tensor_split(2)
            now, old_p, old_L = line[:, mine], log_p[:, mine], log_L[:, mine]
            if i % 2:
                proposed, log_ratio = self._autoregression(now)
            else:
                # Now and then from one mode into another.
                length = None if i % 6 == 4 else 2.38 / math.sqrt(2 * now.shape[-1])
                proposed = self._evolution(now, line[:, theirs], length)
                log_ratio = now.new_zeros(())
            new_p, new_L = self._densities(rows, proposed)
            log_a = new_p - old_p + log_ratio + torch.where(b > 0, b * (new_L - old_L), 0.0)
            accept = torch.rand(log_a.shape, generator=generator).log() < log_a
            line[:, mine] = torch.where(accept[..., None], proposed, now)
            log_p[:, mine] = torch.where(accept, new_p, old_p)
            log_L[:, mine] = torch.where(accept, new_L, old_L)
        self.line[rows], self.log_p[rows], self.log_L[rows] = line, log_p, log_L

    def _evolution(self, now: Tensor, others: Tensor, length: float | None) -> Tensor:
        """Differential evolution: along the difference of two particles of the other half."""
        pick = torch.randint(others.shape[1], (2, *now.shape[:2]), generator=self.generator)
        one, other = (gathered(others, index) for index in pick)
        length = 1.0 if length is None else length * self._factor()
        jitter = torch.randn(now.shape, generator=self.generator).to(now)
        return now + length * (one - other) + 1e-3 * jitter * others.std(1, keepdim=True)

    def _autoregression(self, now: Tensor) -> tuple[Tensor, Tensor]:
        """A step that leaves the normal density of the prior's mean and deviation as it is."""
        length = min(1.0, 0.4 * self._factor())
        noise = torch.randn(now.shape, generator=self.generator).to(now)
        z = (now - self.centre) / self.scale
        new = math.sqrt(1 - length**2) * z + length * noise
        return self.centre + self.scale * new, (new.square() - z.square()).sum(-1) / 2

    def _factor(self) -> float:
        return math.exp(0.7 * float(torch.randn((), generator=self.generator)) - 0.25)

    def take_draws(self, density: Density, least: float) -> None:
        """Takes weighted draws of a density where their effective sample size is large enough.

        Cases that are reached keep their particles where the density misses a part of them.
        """

        def log_weights(x: Tensor, log_h: Tensor) -> Tensor:
            log_w = self.target.log_density(x, self.y, self.theta) - log_h
            return log_w.nan_to_num(-math.inf, -math.inf, -math.inf)

        n = self.line.shape[1]
        x, log_h = density.draw(4 * n, self.generator)
        log_w = log_weights(x, log_h)
        top = log_w.amax(-1, keepdim=True).clamp(min=-1e30)
        weights = (log_w - top).exp()
        effective = weights.sum(-1).square() / weights.square().sum(-1).clamp(min=1e-30)
        particles = self.target.to_support.forward(self.line, None)[0]
        above = log_weights(particles, density.log_prob(particles)) - top
        far = above > math.log(FAR_ABOVE) + weights.mean(-1, keepdim=True).log()
        covered = ~self.reached | (far.double().mean(-1) < MISSED)
        rows = _rows((effective >= least) & covered)
        if len(rows):
            x = gathered(x[rows], _resample(weights[rows], n, self.generator))
            self.replace(rows, self.target.to_support.inverse(x, None)[0])

    def pass_on(self, until: float) -> None:
        """Has cases that are not reached take particles of neighbours, round by round."""
        n = self.line.shape[1]
        for _ in range(ROUNDS):
            rows, givers = _rows(~self.reached), _rows(self.reached)
            if not len(rows) or not len(givers) or clock.now() > until:
                break
            # A case that is reached from nearby keeps more of its neighbours' particles.
            for least in (n, n // 4, ENOUGH):
                taken = self.take_from_neighbours(rows, givers, least)
                if len(taken):
                    break
            else:
                break
            self.move(taken, LAST_MOVES)

    def take_from_neighbours(self, rows: Tensor, givers: Tensor, least: int) -> Tensor:
        """Takes particles of the nearest givers, resampled by a case's own target over theirs.

        Returns the rows whose new particles have at least that effective sample size.
        """
        n, dim = self.line.shape[1:]
        size, generator = min(NEIGHBOURS, len(givers)), self.generator
        taken = []
        for some_rows in rows.split(max(1, AT_ONCE // (size * n * dim))):
            distances = self._distances(some_rows, givers)
            chosen = givers[distances.topk(size, largest=False).indices]  # (rows, k)
            some = torch.randint(n, (*chosen.shape, n), generator=generator)
            line = self.line[chosen[..., None], some].flatten(1, 2)  # (rows, k n, D)
            their_L = self.log_L[chosen[..., None], some].flatten(1)
            _, log_L = self._densities(some_rows, line)
            log_w = torch.where(log_L > -math.inf, log_L - their_L, -math.inf)
            # NaN where none fits.
            fits = 1 / log_w.softmax(-1).square().sum(-1) >= least
            if fits.any():
                index = _resample(log_w[fits].softmax(-1), n, generator)
                taken.append((some_rows[fits], gathered(line[fits], index)))
        # Only now: cases may be each other's neighbours.
        for some_rows, line in taken:
            self.replace(some_rows, line)
        return torch.cat([some_rows for some_rows, _ in taken]) if taken else rows[:0]

    def _distances(self, rows: Tensor, others: Tensor) -> Tensor:
        """Distances of some cases to others, each number in units of its spread over all."""
        read = self.y if self.theta is None else torch.cat([self.y, self.theta], -1)
        centre = read.mean(0)
        least = (1e-6 * centre.abs()).clamp(min=torch.finfo(read.dtype).tiny)
        read = read - centre
        place = read / read.square().mean(0).sqrt().maximum(least)
        return torch.cdist(place[rows], place[others])


def _rows(chosen: Tensor) -> Tensor:
    return chosen.nonzero()[:, 0]


def _resample(weights: Tensor, n: int, generator: torch.Generator) -> Tensor:
    return torch.multinomial(weights, n, replacement=True, generator=generator)
