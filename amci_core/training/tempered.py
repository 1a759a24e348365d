r"""Particles of many cases at once, tempered from the prior to a term, and moved.

References:
    Del Moral, Doucet, Jasra, Sequential Monte Carlo samplers, 2006.
    ter Braak, A Markov chain Monte Carlo version of the genetic algorithm Differential Evolution,
    2006.
"""

from __future__ import annotations

__all__ = ["Tempered"]

import math

import torch
from torch import Tensor

from amci_core.flows.density import Density
from amci_core.flows.layers import ToSupport
from amci_core.training.clock import CLOCK
from amci_core.training.targets import Target

# A reference misses a part of a case where more than this share of its particles have weights so
# many times above the mean.
FAR_ABOVE, MISSED = 100.0, 0.02
# The smallest step of an exponent that is looked for, where log L spans 1e12 nats.
LEAST_LOG_STEP = -30.0


class Tempered:
    """Cases with their particles, and log p and log L at these, on the charts' lines.

    Arguments:
        target: What is looked for.
        y: Observations (cases, D_y).
        theta: Parameters of f (cases, D_theta), or None.
        charts: Carries the line onto the range of every coordinate.
        n: Number of particles of a case.
        generator: Where all randomness comes from.
    """

    def __init__(
        self,
        target: Target,
        y: Tensor,
        theta: Tensor | None,
        charts: ToSupport,
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
        self.exponent = torch.zeros_like(self.log_L[:, 0])
        self.tries = 1

    def at(self, line: Tensor, rows: Tensor | slice) -> tuple[Tensor, Tensor]:
        """log p and log L, (rows, n), at points of some cases."""
        x, log_det = self.charts.forward(line, None)
        # A log likelihood of 1e10 nats has no digits left in single precision.
        x, y = x.double(), self.y[rows].double()
        theta = None if self.theta is None else self.theta[rows].double()
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

    def take_from(self, reference: Density, reached: Tensor, *, worth: float) -> Tensor:
        """Takes weighted draws of a reference, where these are worth enough.

        Cases that are reached keep what they have where the reference misses a part of it.

        Arguments:
            reference: What is drawn from, at y and theta.
            reached: The cases that are reached so far, (cases,).
            worth: How many draws with equal weights they have to be worth.

        Returns:
            The cases that are reached then, (cases,).
        """
        x, log_h = reference.draw(4 * self.n, self.generator)
        log_w = self._log_weights(x, log_h)
        top = log_w.amax(-1, keepdim=True).clamp(min=-1e30)
        weights = (log_w - top).exp()
        effective = weights.sum(-1).square() / weights.square().sum(-1).clamp(min=1e-30)
        have = self.charts.forward(self.line, None)[0]
        above = self._log_weights(have, reference.log_prob(have)) - top
        far = above > math.log(FAR_ABOVE) + weights.mean(-1, keepdim=True).log()
        whole = ~reached | (far.double().mean(-1) < MISSED)
        rows = ((effective >= worth) & whole).nonzero()[:, 0]
        if not len(rows):
            return reached
        index = torch.multinomial(
            weights[rows], self.n, replacement=True, generator=self.generator
        )
        x = x[rows].gather(1, index[..., None].expand(-1, -1, self.dim))
        self.line[rows] = self.charts.inverse(x, None)[0]
        self.log_p[rows], self.log_L[rows] = self.at(self.line[rows], rows)
        self.exponent[rows] = 1.0
        return reached | torch.zeros_like(reached).index_fill(0, rows, True)

    def _log_weights(self, x: Tensor, log_h: Tensor) -> Tensor:
        log_w = self.target.log_density(x, self.y, self.theta) - log_h
        return log_w.nan_to_num(-math.inf, -math.inf, -math.inf)

    def step_up(self, rows: Tensor) -> None:
        """Raises the exponent of some cases until half of the particles are effective."""
        log_L, now = self.log_L[rows], self.exponent[rows]

        def tempered(step: Tensor) -> Tensor:
            return torch.where(log_L > -math.inf, step[:, None] * log_L, -math.inf)

        def effective(step: Tensor) -> Tensor:
            log_w = tempered(step)
            return torch.exp(2 * log_w.logsumexp(-1) - (2 * log_w).logsumexp(-1))

        # Relative to those that are not dead: f = 0 leaves the others as they are.
        wanted = 0.5 * (log_L > -math.inf).sum(-1)
        high = (1 - now).log()
        low = torch.full_like(high, LEAST_LOG_STEP)
        enough = effective(high.exp()) >= wanted
        # On the log scale: with very informative data the first step is tiny.
        for _ in range(30):
            middle = (low + high) / 2
            good = effective(middle.exp()) >= wanted
            low, high = torch.where(good, middle, low), torch.where(good, high, middle)
        step = torch.where(enough, 1 - now, low.exp())
        weights = torch.softmax(tempered(step), -1)
        index = torch.multinomial(weights, self.n, replacement=True, generator=self.generator)
        self.take(rows, index)
        self.exponent[rows] = torch.where(enough, 1.0, now + step)

    def reach(self, tries: int, until: float) -> Tensor:
        """Draws the prior again for cases whose L is zero nearly everywhere, some times.

        Returns:
            How many of the first particles had L > 0, (cases,).
        """
        first = (self.log_L > -math.inf).sum(-1)
        for tried in range(tries):
            if tried and CLOCK.now() > until:
                break
            alive = self.log_L > -math.inf
            rows = (alive.sum(-1) < self.n // 4).nonzero()[:, 0]
            if not len(rows):
                break
            self.tries = tried + 2
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
