r"""Where a term lies: a few hundred particles a case, by sequential tempering from the prior.

For every case (y, theta) particles start from the prior and move towards g = L p(x), with L =
f_plus p(y | x) or p(y | x), through the densities L^b p(x): the exponent b grows as fast as half
of the particles stay effective, particles are resampled by their weights, and moved by steps of
differential evolution, which take their direction and length from other particles. Where f is zero
at all of a case's particles no exponent helps: the case takes those of its neighbours, cases with
nearby y and theta which have reached f, that lie within its own f too.

References:
    Del Moral, Doucet, Jasra, Sequential Monte Carlo samplers, 2006.
    ter Braak, A Markov chain Monte Carlo version of the genetic algorithm Differential Evolution,
    2006.
"""

from __future__ import annotations

__all__ = ["find"]

import math
import time

import torch
from torch import Tensor

from amci_core.flows.carried import Charts
from amci_core.training.data import Found, Target

# Moves after every change of the density, and at its end.
MOVES, LAST_MOVES = 6, 20
# Neighbours whose particles a case looks at, and rounds of looking.
NEIGHBOURS, ROUNDS = 12, 60
# Of so many particles of its neighbours a case wants within its own f.
ENOUGH = 4
LEVELS = 60
# Numbers of coordinates that are looked at together: memory.
AT_ONCE = 4_000_000
# Draws of the prior for cases whose f is zero at nearly all of them, in numbers of particles.
TRIES = 32


class _Tempered:
    """Cases with their particles, and log p and log L at these, on the charts' lines."""

    def __init__(
        self,
        target: Target,
        y: Tensor,
        theta: Tensor | None,
        charts: Charts,
        n: int,
        generator: torch.Generator,
    ) -> None:
        self.target, self.charts, self.generator, self.n = target, charts, generator, n
        self.y, self.theta, self.cases = y, theta, len(y)
        x = target.problem.sample_prior(self.cases * n, generator).to(y)
        self.line = charts.inverse(x.reshape(self.cases, n, -1), None)[0]
        everywhere = self.line.flatten(0, 1)
        self.centre, self.scale = everywhere.mean(0), everywhere.std(0)
        self.dim = self.line.shape[-1]
        self.log_p, self.log_L = self.at(self.line, slice(None))
        self.exponent = y.new_zeros(self.cases)

    def at(self, line: Tensor, rows: Tensor | slice) -> tuple[Tensor, Tensor]:
        """log p and log L, (rows, n), at points of some cases."""
        x, log_det = self.charts.forward(line, None)
        y, theta = self.y[rows], None if self.theta is None else self.theta[rows]
        log_prior = self.target.problem.log_prior(x)
        log_g = self.target.log_density(x, y, theta)
        log_p = (log_prior + log_det).nan_to_num(-math.inf, -math.inf, -math.inf)
        log_L = torch.where(log_prior > -math.inf, log_g - log_prior, -math.inf)
        return log_p, log_L.nan_to_num(-math.inf, -math.inf, -math.inf)

    def take(self, rows: Tensor, index: Tensor) -> None:
        """Resamples the particles of some cases: index (rows, n) into those they have."""
        wide = index[..., None].expand(-1, -1, self.dim)
        self.line[rows] = self.line[rows].gather(1, wide)
        self.log_p[rows] = self.log_p[rows].gather(1, index)
        self.log_L[rows] = self.log_L[rows].gather(1, index)

    def start_from_reference(self) -> None:
        """Takes weighted draws of the problem's own reference, where these are worth enough."""
        reference = self.target.reference(self.y, self.theta)
        x, log_h = reference.draw(4 * self.n, self.generator)
        log_w = self.target.log_density(x, self.y, self.theta) - log_h
        log_w = log_w.nan_to_num(-math.inf, -math.inf, -math.inf)
        log_w = log_w - log_w.amax(-1, keepdim=True).clamp(min=-1e30)
        weights = log_w.exp()
        effective = weights.sum(-1).square() / weights.square().sum(-1).clamp(min=1e-30)
        rows = (effective >= self.n / 4).nonzero()[:, 0]
        if not len(rows):
            return
        index = torch.multinomial(
            weights[rows], self.n, replacement=True, generator=self.generator
        )
        x = x[rows].gather(1, index[..., None].expand(-1, -1, self.dim))
        self.line[rows] = self.charts.inverse(x, None)[0]
        self.log_p[rows], self.log_L[rows] = self.at(self.line[rows], rows)
        self.exponent[rows] = 1.0

    def step_up(self, rows: Tensor) -> None:
        """Raises the exponent of some cases until half of the particles are effective."""
        log_L, now = self.log_L[rows], self.exponent[rows]

        def effective(to: Tensor) -> Tensor:
            gap = (to - now)[:, None]
            log_w = torch.where(log_L > -math.inf, gap * log_L, -math.inf)
            return torch.exp(2 * log_w.logsumexp(-1) - (2 * log_w).logsumexp(-1))

        # Relative to those that are not dead: f = 0 leaves the others as they are.
        wanted = 0.5 * (log_L > -math.inf).sum(-1)
        low, high = now.clone(), torch.ones_like(now)
        enough = effective(high) >= wanted
        for _ in range(30):
            middle = (low + high) / 2
            good = effective(middle) >= wanted
            low, high = torch.where(good, middle, low), torch.where(good, high, middle)
        to = torch.where(enough, 1.0, torch.maximum(low, now + 1e-6).clamp(max=1.0))
        log_w = torch.where(log_L > -math.inf, (to - now)[:, None] * log_L, -math.inf)
        weights = torch.softmax(log_w, -1)
        index = torch.multinomial(weights, self.n, replacement=True, generator=self.generator)
        self.take(rows, index)
        self.exponent[rows] = to

    def reach(self, tries: int, until: float) -> Tensor:
        """Draws the prior again for cases whose L is zero nearly everywhere, some times.

        Returns:
            How many of the first particles had L > 0, (cases,).
        """
        first = (self.log_L > -math.inf).sum(-1)
        for tried in range(tries):
            if tried and time.perf_counter() > until:
                break
            alive = self.log_L > -math.inf
            rows = (alive.sum(-1) < self.n // 4).nonzero()[:, 0]
            if not len(rows):
                break
            x = self.target.problem.sample_prior(len(rows) * self.n, self.generator)
            line = self.charts.inverse(x.to(self.line).reshape(len(rows), self.n, -1), None)[0]
            log_p, log_L = self.at(line, rows)
            new = ~alive[rows] & (log_L > -math.inf)
            self.line[rows] = torch.where(new[..., None], line, self.line[rows])
            self.log_p[rows] = torch.where(new, log_p, self.log_p[rows])
            self.log_L[rows] = torch.where(new, log_L, self.log_L[rows])
        return first

    def move(self, rows: Tensor, times: int) -> None:
        """Moves the particles of some cases: of each half in turn, by two kinds of steps."""
        for i in range(times):
            order = torch.randperm(self.n, generator=self.generator)
            mine, theirs = order.tensor_split(2)
            line = self.line[rows]
            now = line[:, mine]
            step = self._autoregression if i % 2 else self._evolution
            proposed, log_ratio = step(now, line[:, theirs], i)
            log_p, log_L = self.at(proposed, rows)
            b = self.exponent[rows][:, None]
            old_p, old_L = self.log_p[rows][:, mine], self.log_L[rows][:, mine]
            log_a = log_p - old_p + log_ratio + torch.where(b > 0, b * (log_L - old_L), 0.0)
            u = torch.rand(log_a.shape, generator=self.generator)
            accept = u.log() < log_a
            cells = rows[:, None], mine
            self.line[cells] = torch.where(accept[..., None], proposed, now)
            self.log_p[cells] = torch.where(accept, log_p, old_p)
            self.log_L[cells] = torch.where(accept, log_L, old_L)

    def _evolution(self, now: Tensor, others: Tensor, i: int) -> tuple[Tensor, Tensor]:
        """Differential evolution: along the difference of two particles of the other half."""
        shape = now.shape[:2]
        pick = torch.randint(others.shape[1], (2, *shape), generator=self.generator)
        one, other = (others.gather(1, p[..., None].expand_as(now)) for p in pick)
        # Now and then from one mode into another.
        length = 1.0 if i % 6 == 4 else 2.38 / math.sqrt(2 * self.dim) * self._factor()
        jitter = torch.randn(now.shape, generator=self.generator).to(now)
        proposed = now + length * (one - other) + 1e-3 * jitter * others.std(1, keepdim=True)
        return proposed, now.new_zeros(())

    def _autoregression(self, now: Tensor, others: Tensor, i: int) -> tuple[Tensor, Tensor]:
        """A step that leaves the normal density of the prior's mean and deviation as it is."""
        length = min(1.0, 0.4 * self._factor())
        noise = torch.randn(now.shape, generator=self.generator).to(now)
        z = (now - self.centre) / self.scale
        new = math.sqrt(1 - length**2) * z + length * noise
        return self.centre + self.scale * new, (new.square() - z.square()).sum(-1) / 2

    def _factor(self) -> float:
        return math.exp(0.7 * float(torch.randn((), generator=self.generator)) - 0.25)


def find(
    target: Target,
    y: Tensor,
    theta: Tensor | None,
    *,
    charts: Charts,
    particles: int,
    generator: torch.Generator,
    seconds: float = math.inf,
) -> Found:
    """Particles that follow the target at given y (cases, D_y) and theta (cases, D_theta).

    Arguments:
        target: What is looked for.
        y: Observations.
        theta: Parameters of f, or None.
        charts: Carries the line onto the range of every coordinate.
        particles: Number of particles of a case, ten at least.
        generator: Where all randomness comes from.
        seconds: After so long what has been found is returned.

    Returns:
        The cases that were reached, with their particles.

    Raises:
        ValueError: no case was.
    """
    started = time.perf_counter()
    with torch.inference_mode():
        state = _Tempered(target, y, theta, charts, particles, generator)

        def late(share: float) -> bool:
            return time.perf_counter() - started > share * seconds

        def temper(chosen: Tensor) -> Tensor:
            """Takes chosen cases to the exponent 1; returns which of all have come there."""
            for level in range(LEVELS):
                rows = (chosen & (state.exponent < 1)).nonzero()[:, 0]
                # The first level is all that f = 0 or 1 needs.
                if not len(rows) or (level and late(0.5)):
                    break
                state.step_up(rows)
                state.move(rows, MOVES)
            return state.exponent >= 1

        if target.refers:
            state.start_from_reference()
        common = state.reach(TRIES, started + 0.2 * seconds) >= particles // 50 + 1
        alive = (state.log_L > -math.inf).sum(-1)
        # A case with few of them does better with what its neighbours find.
        many = alive >= particles // 4
        reached = temper(many if many.any() else alive >= ENOUGH)
        where = _standard(y, theta)
        for _ in range(ROUNDS):
            rows, givers = (~reached).nonzero()[:, 0], reached.nonzero()[:, 0]
            if not len(rows) or not len(givers) or late(0.8):
                break
            # A case that is reached from near by keeps more of what its neighbours found.
            for least in (particles, particles // 4, ENOUGH):
                taken = _from_neighbours(state, rows, givers, where, least=least)
                if len(taken):
                    break
            else:
                break
            reached[taken] = True
            state.exponent[taken] = 1.0
            state.move(taken, LAST_MOVES)
        reached |= temper(~reached & (alive >= ENOUGH))
        # Modes that a neighbour has found are kept for all. In many coordinates particles forget
        # slowly which few of them they come from.
        everyone = reached.nonzero()[:, 0]
        for _ in range(1 + state.dim // 10):
            if len(everyone) < 2 or late(0.9):
                break
            _from_neighbours(state, everyone, everyone, where)
            state.move(everyone, LAST_MOVES if state.dim <= 10 else 50)
        rows = reached.nonzero()[:, 0]
        if not len(rows):
            raise ValueError(
                f"f: none of {state.cases} cases has {ENOUGH} of {particles * TRIES:,} draws of "
                "the prior where the term is not zero; define sample_reference and log_reference"
            )
        line = state.line[rows]
        x = charts.forward(line, None)[0]
        shares = 1 - len(rows) / state.cases, float(common.double().mean())
    # Copies, which training may differentiate through.
    rows = rows.clone()
    y, theta = y[rows], None if theta is None else theta[rows]
    return Found(y, theta, line.clone(), x.clone(), rows, *shares)


def _standard(y: Tensor, theta: Tensor | None) -> Tensor:
    read = y if theta is None else torch.cat([y, theta], -1)
    return (read - read.mean(0)) / read.std(0).clamp(min=1e-6)


def _from_neighbours(
    state: _Tempered, rows: Tensor, givers: Tensor, where: Tensor, *, least: int = ENOUGH
) -> Tensor:
    """Particles of the nearest givers, weighted by the case's own target over theirs, resampled.

    Arguments:
        state: All cases.
        rows: Those that look.
        givers: Those that are looked at.
        where: All y and theta, standardized.
        least: How many particles have to fit.

    Returns:
        The rows that got enough of them.
    """
    size = min(NEIGHBOURS, len(givers))
    taken = []
    for part in rows.split(max(1, AT_ONCE // (size * state.n * state.dim))):
        nearest = torch.cdist(where[part], where[givers]).topk(size, largest=False).indices
        chosen = givers[nearest]  # (rows, k)
        some = torch.randint(state.n, (*chosen.shape, state.n), generator=state.generator)
        given = state.line[chosen[..., None], some].flatten(1, 2)  # (rows, k n, D)
        their_L = state.log_L[chosen[..., None], some].flatten(1)
        _, log_L = state.at(given, part)
        log_w = torch.where(log_L > -math.inf, log_L - their_L, -math.inf)
        fits = 1 / log_w.softmax(-1).square().sum(-1) >= least
        # NaN where none fits.
        part, given, log_w = part[fits], given[fits], log_w[fits]
        if not len(part):
            continue
        index = torch.multinomial(
            log_w.softmax(-1), state.n, replacement=True, generator=state.generator
        )
        taken.append((part, given.gather(1, index[..., None].expand(-1, -1, state.dim))))
    # Only now: cases may be each other's neighbours.
    for part, line in taken:
        state.line[part] = line
        state.log_p[part], state.log_L[part] = state.at(line, part)
    return torch.cat([part for part, _ in taken]) if taken else rows[:0]
