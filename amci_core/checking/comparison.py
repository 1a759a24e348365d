r"""Whether draws follow a density, and what that density integrates to.

For two normalized densities p and g, and every function h of a point,

    E_p[h g / (p + g)] = E_g[h p / (p + g)],

since both sides are the integral of h p g / (p + g). With h = 1 this is the bridge estimate of a
ratio of normalizing constants, for other h it compares shapes. All terms are bounded by h, so that
one large weight decides nothing, and a z test of the difference holds for any g. Here g is fitted
to other draws of the sampler: the closer it is to p, the more the test sees.

References:
    Bennett, Efficient estimation of free energy differences from Monte Carlo data, 1976.
    Meng and Wong, Simulating ratios of normalizing constants via a simple identity, 1996.
"""

from __future__ import annotations

__all__ = ["Comparison", "compare", "standard_errors"]

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from scipy.optimize import brentq
from torch import Tensor

# Standard errors apart that contradict: for a right problem with a hundred tests one in 20,000.
APART = 5.0
# A constant that is wrong by fewer nats is a matter of accuracy.
LEAST = 0.005
# The integral is judged if its standard error is at most this many nats.
JUDGED = 0.01


class Comparison(NamedTuple):
    """What a comparison of draws with a density shows.

    Arguments:
        shape: Whether the draws contradict the density, whatever its constant.
        integral: What the density integrates to; 1 if no other number is significant.
        judged: Whether a constant that is wrong by a few per cent would show.
        draws: How many there were.
    """

    shape: bool
    integral: float
    judged: bool
    draws: int

    @property
    def alarm(self) -> bool:
        """Whether the sampler or the density is wrong."""
        return self.shape or self.integral != 1.0

    def said(self, sampler: str, density: str) -> tuple[str, str]:
        """Which of the two to mend, by its name, and a sentence about it."""
        if self.shape:
            return sampler, (
                f"its draws do not follow {density}, as {self.draws:,} of them show; mend either, "
                "such as a scale, a rate or a bound"
            )
        return density, (
            f"integrates to {self.integral:.3g} in the place of 1, by the draws of {sampler}; add "
            f"the missing constant, about {-math.log(self.integral):.3g} nats"
        )


def standard_errors(difference: Tensor) -> Tensor:
    """Means of independent differences (n, F) with mean zero, in standard errors, (F,).

    Four terms are added to the error: of rare large terms none may be among the draws.
    """
    n = len(difference)
    return difference.mean(0) / (difference.var(0) / n + (4 / n) ** 2).sqrt()


def compare(
    x: Tensor, log_density: Callable[[Tensor], Tensor], generator: torch.Generator
) -> Comparison:
    """Compares independent draws with their density.

    Arguments:
        x: Draws (n, D); g is fitted to the first of them.
        log_density: Their log density at points (m, D), in nats.
        generator: Where the draws of g come from, which have to be independent of x.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> x = torch.randn(100_000, 1, generator=generator)
        >>> def log_density(x):
        ...     return torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(-1)
        >>> compare(x, log_density, generator)
        Comparison(shape=False, integral=1.0, judged=True, draws=100000)
        >>> compare(1.02 * x, log_density, generator).shape
        True
        >>> round(compare(x, lambda x: log_density(x) + 0.05, generator).integral, 2)
        1.05
    """
    x = x.double()
    # A covariance takes some 50 draws a coordinate.
    fitted = min(max(len(x) // 8, 50 * x.shape[1]), len(x) // 2)
    first, own = x[:fitted], x[fitted:]
    g, n = _Fitted(first), len(own)
    points = torch.cat([own, g.draw(n, generator)])
    log_g, z = g.log_prob(points)
    # Beyond all draws a density need not have a value: h is zero outside the box of the first.
    low, high = first.aminmax(dim=0)
    inside = ((points >= low) & (points <= high)).all(-1)
    log_p = torch.full_like(log_g, -torch.inf)
    log_p[:n] = torch.inf
    log_p[inside] = log_density(points[inside])
    log_odds = (log_p - log_g).nan_to_num(-torch.inf, torch.inf, -torch.inf)
    # Bounded functions of a standard normal z with mean zero, almost as good as z and z^2 - 1.
    waves = torch.cat([(z / 2).sin(), (z / 2).cos() - math.exp(-1 / 8)], -1)

    def apart(log_integral: float) -> tuple[Tensor, float, float]:
        """Standard errors of all tests, and log of the integral left over, with its error."""
        odds = (log_odds - log_integral)[:, None]
        share = odds.sigmoid()
        few = torch.cat([torch.ones_like(odds), odds.tanh()], -1)
        terms = torch.cat([few, waves], -1)
        known = torch.full_like(terms[0], 0.5)
        known[:2] = 0
        difference = terms[:n] * (1 - share[:n]) - terms[n:] * (share[n:] - known)
        slope = 2 * float((share * (1 - share)).mean()) + 1e-300
        left, error = -float(difference[:, 0].mean()) / slope, float(difference[:, 0].std())
        return standard_errors(difference), left, error / n**0.5 / slope

    z_scores, left, error = apart(0.0)
    log_integral = 0.0
    if abs(z_scores[0]) > APART and abs(left) > LEAST:
        # The constant with which the identity holds for h = 1.
        own_odds, other = log_odds.split(n)
        log_integral = brentq(
            lambda c: float(((other - c).sigmoid() - (c - own_odds).sigmoid()).mean()), -800, 800
        )
        z_scores, _, error = apart(log_integral)
    judged = error < JUDGED
    shape = bool((z_scores[1:].abs() > APART).any()) or (log_integral != 0 and error > 0.1)
    return Comparison(shape, math.exp(min(log_integral, 700)), judged, len(x))


class _Fitted:
    """A density like that of some draws (n, D): a normal one of coordinates bent one by one.

    Each coordinate is a piecewise linear function of its normal score, through its quantiles.
    """

    def __init__(self, x: Tensor) -> None:
        self.scores = torch.linspace(-3, 3, 37, dtype=x.dtype)
        knots = torch.quantile(x, torch.special.ndtr(self.scores), dim=0).T
        # Ties would make pieces of width zero.
        least = 1e-9 * (x.amax(0) - x.amin(0)).maximum(1e-3 * x.abs().amax(0)).clamp(min=1e-30)
        self.knots = knots + least[:, None] * torch.arange(len(self.scores))
        self.slopes = self.knots.diff(dim=1) / self.scores.diff()
        bent = self._bent(x)[0]
        self.mean = bent.mean(0)
        covariance = torch.cov(bent.T).reshape(x.shape[1], -1)
        self.factor = torch.linalg.cholesky(covariance + 1e-9 * torch.eye(x.shape[1]).double())

    def _bent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The normal scores (n, D) of points, and log|d scores / dx| in nats, (n,)."""
        points = x.T.contiguous()
        piece = (torch.searchsorted(self.knots, points) - 1).clamp(0, self.slopes.shape[1] - 1)
        slope = self.slopes.gather(1, piece)
        bent = self.scores[piece] + (points - self.knots.gather(1, piece)) / slope
        return bent.T, -slope.log().sum(0)

    def log_prob(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The log density at x in nats, (n,), and z, standard normal under it, (n, D)."""
        bent, log_slope = self._bent(x)
        z = torch.linalg.solve_triangular(self.factor, (bent - self.mean).T, upper=False).T
        normal = z.square().sum(-1) / 2 + z.shape[1] / 2 * math.log(2 * math.pi)
        return log_slope - normal - self.factor.diagonal().log().sum(), z

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """n points (n, D)."""
        z = torch.randn(n, len(self.mean), dtype=self.mean.dtype, generator=generator)
        bent = (z @ self.factor.T + self.mean).T.contiguous()
        pieces = self.slopes.shape[1]
        piece = ((bent + 3) * pieces / 6).long().clamp(0, pieces - 1)
        along = (bent - self.scores[piece]) * self.slopes.gather(1, piece)
        x: Tensor = self.knots.gather(1, piece) + along
        return x.T
