r"""A term of mu in coordinates without bounds, and mixtures of Student densities fitted to it."""

from __future__ import annotations

__all__ = ["CHUNK", "Students", "Term", "fitted", "lattice", "tempering"]

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from scipy.optimize import brentq
from scipy.special import stdtrit
from torch import Tensor
from torch.distributions import StudentT, biject_to
from torch.distributions.constraints import Constraint
from torch.nn.functional import one_hot

from amci_core.flows.density import Density

# Draws of the density to start from that the coordinates are scaled by.
SCALED_BY = 4096
# An infinity at an edge is met by few points; at more the integrand itself is wrong.
LARGEST_EDGE = 0.01
# Floats next to each other are so far apart, in coordinates without bounds, where x is resolved.
RESOLVED = 0.1
# Share of the start's draws that single precision holds, above which its draws are of that.
SINGLE = 0.1
# The scale of the broad component of a mixture, in units of the start's.
WIDTH = 2.0
# Degrees of freedom of the fitted components; the broad one covers any tail whose mean is finite.
DEGREES, OF_BROAD = 4.0, 1.0
# Least share of the weights that stays effective when a mixture is fitted to them.
RETAINED = 0.1
# Most draws that a mixture is fitted to.
PARTICLES = 4096
# Numbers of components that are tried, and steps that move their centres.
COMPONENTS, LLOYD = (1, 8, 64), 5
# Fewer are smoother: more have to make the second moment of the weights smaller by this factor.
WORTH = 2.5
# The cube is open: its faces lie at infinity.
LEAST_SHARE = 1e-300
KOROBOV = 182667
CHUNK = 8192


@dataclass
class Term:
    """The integral of an unnormalized density, as one over t in R^D.

    The bijection of the support follows an affine map that gives the draws of `start` mean 0 and
    covariance 1.

    Arguments:
        log_value: Logarithm of the integrand in nats, (n, D) -> (n); -inf where it is zero.
        support: The set outside which it is zero.
        start: A broad density of x.
        seed: Of the draws that scale t.
        evaluations: How many points it has been evaluated at.

    Raises:
        ValueError: too few draws of `start` lie in the support, or no bijection is known.
    """

    log_value: Callable[[Tensor], Tensor]
    support: Constraint
    start: Density
    seed: int
    evaluations: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        try:
            self._bijection = biject_to(self.support)
        except NotImplementedError:
            raise ValueError(
                f"support: expected one that torch.distributions.biject_to knows, "
                f"got {self.support}"
            ) from None
        x, _ = self.start.draw(SCALED_BY, torch.Generator().manual_seed(self.seed))
        # Of draws in single precision edges hold what rounding put there.
        self._single = bool((x == x.float()).all(-1).double().mean() > SINGLE)
        z = self._bijection.inv(x[self._inside(x)])
        z = z[z.isfinite().all(-1)]
        self.dim = z.shape[-1]
        if len(z) < 2 * self.dim + 2:
            raise ValueError(
                f"support: expected draws of the reference density or the prior within it, "
                f"got {len(z)} of {SCALED_BY:,}"
            )
        self._centre = z.mean(0)
        self._factor = _cholesky(z.T.cov().reshape(self.dim, self.dim))

    def points(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """x (n, D) for t (n, D), and log|det dx / dt|, (n)."""
        z = self._centre + t @ self._factor.T
        x = self._bijection(z)
        log_det = self._bijection.log_abs_det_jacobian(z, x)
        log_det = log_det.sum(-1) if log_det.ndim == z.ndim else log_det
        return x, log_det + self._factor.diagonal().log().sum()

    def log_densities(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """The logarithms of the integrand and of the start at t (n, D), in nats, (n) each."""
        x, log_det = self.points(t)
        inside = self._inside(x) & log_det.isfinite()
        log_value, log_start = self._value(x, inside), torch.full_like(log_det, -torch.inf)
        log_start[inside] = self.start.log_prob(x[inside])
        return log_value + log_det.where(inside, 0.0), log_start + log_det.where(inside, 0.0)

    def unresolved(self, t: Tensor) -> Tensor:
        """Whether the floats next to x at t (n, D) lie far apart in t: beside an edge, (n)."""
        nowhere = torch.zeros(len(t), dtype=torch.bool)
        if self._single:
            return nowhere
        z = self._centre + t @ self._factor.T
        x = self._bijection(z)
        log_det = self._bijection.log_abs_det_jacobian(z, x)
        if log_det.ndim < z.ndim:
            return nowhere
        step = torch.nextafter(x, torch.full_like(x, torch.inf)) - x
        unresolved: Tensor = log_det < (step / RESOLVED).log()
        return unresolved.any(-1)

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """n draws t (n, D) of the start, and the two logarithms there, (n) each.

        A draw outside the support has t = 0 and an integrand of zero.
        """
        x, _ = self.start.draw(n, generator)
        inside = self._inside(x)
        z = self._bijection.inv(x)
        inside &= z.isfinite().all(-1)
        z = z.where(inside[:, None], self._centre)
        t = torch.linalg.solve_triangular(self._factor, (z - self._centre).T, upper=False).T
        log_value, log_start = self.log_densities(t)
        return t, log_value.where(inside, -torch.inf), log_start

    def _inside(self, x: Tensor) -> Tensor:
        inside: Tensor = self.support.check(x)
        inside = inside.all(-1) if inside.ndim == x.ndim else inside
        return inside & x.isfinite().all(-1)

    def _value(self, x: Tensor, inside: Tensor) -> Tensor:
        self.evaluations += len(x)
        value = torch.full(x.shape[:-1], -torch.inf, dtype=x.dtype)
        value[inside] = self.log_value(x[inside]).to(x.dtype)
        # Densities that can be integrated are infinite at edges, where rounding may put a point.
        edge = value == torch.inf
        bad = value.isnan() | (edge & (edge.double().mean() > LARGEST_EDGE))
        if bad.any():
            raise ValueError(
                "integrand: expected a logarithm below infinity, "
                f"got {value[bad][0].item():g} at x = {x[bad][0].tolist()}"
            )
        return value.masked_fill(edge, -torch.inf)


@dataclass(frozen=True)
class Students:
    """A mixture of Student densities of t in equal shares, the first one broad.

    Each is centre + factor s, the components of s independent with four degrees of freedom, of the
    broad one with one.

    Arguments:
        centres: (M, D)
        factors: Lower triangular, (M, D, D).
    """

    centres: Tensor
    factors: Tensor

    @staticmethod
    def broad(dim: int) -> Students:
        """The broad component alone."""
        centre = torch.zeros(1, dim, dtype=torch.float64)
        return Students(centre, WIDTH * torch.eye(dim, dtype=torch.float64)[None])

    def _degrees(self) -> Tensor:
        degrees = torch.full_like(self.centres[:, :1, None], DEGREES)
        degrees[0] = OF_BROAD
        return degrees

    def points(self, u: Tensor) -> Tensor:
        """Points t (M, n, D) of all components for u (M, n, D) in the unit cube."""
        s = torch.from_numpy(stdtrit(self._degrees().numpy(), u.clamp(min=LEAST_SHARE).numpy()))
        return self.centres[:, None] + s @ self.factors.mT

    def cube(self, n: int, generator: torch.Generator) -> Tensor:
        """Independent points of the unit cubes of all components, n or a few more together."""
        shape = (len(self.centres), -(-n // len(self.centres)), self.centres.shape[-1])
        return torch.rand(shape, dtype=torch.float64, generator=generator)

    def log_prob(self, t: Tensor) -> Tensor:
        """The log density at t (n, D), (n), in nats."""
        parts = [self.each(part).logsumexp(0) for part in t.split(CHUNK)]
        return torch.cat(parts) - math.log(len(self.centres))

    def each(self, t: Tensor) -> Tensor:
        """The log density of each component at t (n, D), (M, n), in nats."""
        away = (t - self.centres[:, None]).mT
        s = torch.linalg.solve_triangular(self.factors, away, upper=False)
        log_s: Tensor = StudentT(self._degrees()).log_prob(s).sum(-2)
        size = self.factors.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
        return log_s - size


def lattice(m: int, shift: Tensor) -> Tensor:
    """Points of the lattice of 2^m points that are not in that of half as many.

    Moved by shifts (*, D) modulo 1: (*, n, D). All of them are new for m = 0.

    References:
        Niederreiter, Random number generation and quasi-Monte Carlo methods, 1992, chapter 5:
        Korobov's lattices; their generator stays the same as they grow.
    """
    k = torch.arange(min(m, 1), 2**m, 2)[:, None]
    vector = torch.tensor([pow(KOROBOV, d, 2**20) for d in range(shift.shape[-1])])
    points: Tensor = ((k * vector % 2**m) / 2**m + shift[..., None, :]) % 1.0
    return points


def fitted(t: Tensor, log_w: Tensor, log_q: Tensor, generator: torch.Generator) -> Students:
    """The mixture for draws t (n, D) with log weights (n), from a density with logarithms (n).

    Halves of the draws choose the number of components: fitted to one, judged by the other, by
    the second moment of the weights that they would have.
    """
    alive = log_w > -torch.inf
    t, log_w, log_nq = t[alive], log_w[alive], log_q[alive] + math.log(len(alive))
    w, log_h = log_w.softmax(0), log_w + log_nq
    if len(w) > PARTICLES:
        # Heavy draws as they are; of light ones some, each with the weight of several.
        at = torch.multinomial(w, PARTICLES, generator=generator)
        t, log_nq, log_h = t[at], log_nq[at], log_h[at]
        w = w[at].clamp(min=1 / PARTICLES)
        w = w / w.sum()
    best = COMPONENTS[0]
    if float(1 / w.square().sum()) > 4 * (t.shape[-1] + 1):
        half = t[::2], w[::2], log_nq[::2] - math.log(2)
        log_wh = (w.log() + log_h)[1::2]
        moments = []
        for many in COMPONENTS:
            log_own = _components(*half, many, generator).log_prob(t[1::2])
            moments.append(float((log_wh - log_own).logsumexp(0)))
        enough = min(moments) + math.log(WORTH)
        best = next(m for m, have in zip(COMPONENTS, moments, strict=True) if have <= enough)
    return _components(t, w, log_nq, best, generator)


def _components(
    t: Tensor, w: Tensor, log_nq: Tensor, many: int, generator: torch.Generator
) -> Students:
    """A component for each cluster of points t (n, D) with weights (n), by k-means++."""
    dim = t.shape[-1]
    centres = t[torch.multinomial(w, 1, generator=generator)]
    away = (t - centres).square().sum(-1)
    for _ in range(many - 1):
        if not (w * away).sum() > 0:
            break
        new = t[torch.multinomial(w * away, 1, generator=generator)]
        centres, away = torch.cat([centres, new]), away.minimum((t - new).square().sum(-1))
    for _ in range(LLOYD):
        share = one_hot(torch.cdist(t, centres).argmin(-1), len(centres)).T * w
        share = share[share.sum(-1) > 0]
        each = share / share.sum(-1, keepdim=True)
        centres = each @ t
    z = t - centres[:, None]
    covariance = (each[..., None] * z).mT @ z
    # No covariance is known better than by its points, nor places than by what lies between them.
    known = (1 / each.square().sum(-1))[:, None, None]
    spacing = (-2 / dim * (each @ log_nq)).exp()[:, None, None] * torch.eye(dim, dtype=t.dtype)
    covariance = (known * covariance + (dim + 2) * spacing) / (known + dim + 2)
    broad = Students.broad(dim)
    return Students(
        torch.cat([broad.centres, centres]), torch.cat([broad.factors, _cholesky(covariance)])
    )


def tempering(log_w: Tensor) -> float:
    """The largest b <= 1 for which w^b, (n), leaves a tenth of the positive weights effective."""
    alive = log_w[log_w > -torch.inf]

    def excess(log_b: float) -> float:
        w = (math.exp(log_b) * (alive - alive.max())).exp()
        return float(w.sum() ** 2 / w.square().sum()) / len(alive) - RETAINED

    return 1.0 if excess(0.0) >= 0 else math.exp(brentq(excess, -700.0, 0.0, xtol=1e-6))


def _cholesky(covariance: Tensor) -> Tensor:
    """The Cholesky factors (*, D, D), also of covariances on a point."""
    size = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None].clamp(min=1e-300)
    least = 1e-12 * size * torch.eye(covariance.shape[-1], dtype=covariance.dtype)
    factor: Tensor = torch.linalg.cholesky(covariance + least)
    return factor
