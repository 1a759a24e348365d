r"""Reference values of mu, computed without any proposal.

Errors of proposals are counted from a value that is not theirs: if a proposal misses a mode,
every estimate made with it agrees on the same wrong value. So each term starts from a density s
that needs no training, the problem's defensive one for the term mixed with the prior.

Two pilots search for the mass of a term h, independently: one mostly with draws of s, the other
half with those of a wider Student density. Each draws, weighs, tempers the weights and fits a
mixture of Student densities, step by step. Over the
components q_j of both mixtures

    E = sum_j int h q_j^2 / (sum_k q_k^2),

each integral by a randomly shifted lattice in q_j. The standard error adds up
- the spread of the shifts;
- the mass where one mixture is a hundred times denser than the other, over the rest: if each of
  two independent pilots finds a part of the mass with probability p, both miss a quarter of that
  or less;
- what lies beyond the last floats at an edge, where densities may be infinite, continued from the
  two shells before it;
- what a heavy tail of weights has beyond its largest one.

In ten dimensions and more no mixture is as good as draws of s alone, E = mean of h / s.

References:
    Veach, Guibas, Optimally combining sampling techniques for Monte Carlo rendering, SIGGRAPH
    1995: the power heuristic.
    Cappe, Guillin, Marin, Robert, Population Monte Carlo, Journal of Computational and Graphical
    Statistics 13, 2004.
    Niederreiter, Random number generation and quasi-Monte Carlo methods, 1992, chapter 5.
"""

from __future__ import annotations

__all__ = ["ReferenceValue", "reference_value"]

import math
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor
from torch.distributions import biject_to

from amci_core._arguments import check_count, check_number, seed_from, seed_sequence
from amci_core.checking import within
from amci_core.diagnostics.pareto import pareto_tail
from amci_core.models import Problem, check_problem
from amci_core.models.base import Array
from amci_core.models.densities import TERMS, DefensiveDensity
from amci_core.models.student_mixture import StudentMixture, cholesky

LEAST_REFERENCE_DRAWS = 1000
# Shares of defensive draws in the first steps of the two pilots, and in later ones.
FIRST_SHARES, LATER_SHARE = (0.75, 0.5), 0.25
# Draws of a pilot's first step, where all else starts from what it meets, and of the others: a
# share of all draws, and the most.
FIRST_DRAWS, LATER_DRAWS, STEPS = (1 / 12, 65_536), (1 / 100, 2048), 16
# A pilot ends after so many steps without tempering or gain: of mass, or of ESS.
SETTLED, GAIN = 2, 1.2
SHIFTS = 12
# Nats by which a mixture that looks alone is denser; width of a shell beside an edge, in nats.
LONE, SHELL = math.log(100.0), 16.0
MANY_DIMENSIONS = 10
# Points that densities are evaluated at together.
POINTS_AT_ONCE = 8192
# Degrees of freedom of the broad component, which covers any tail whose mean is finite, and its
# scale in units of the defensive density's.
BROAD_DEGREES, BROAD_SCALE = 1.0, 2.0
# Numbers of components that are tried. Fewer are smoother: more have to make the second moment of
# the weights smaller by this factor.
COMPONENTS_TRIED, WORTH = (1, 8, 64), 2.5
# Most draws that a mixture is fitted to, and the share of their weights that stays effective.
MOST_FITTED, RETAINED = 4096, 0.1


@dataclass(frozen=True, repr=False)
class ReferenceValue:
    """mu(y, theta) with its standard error, for a batch (*) of cases: what errors count from.

    Arguments:
        value: mu, (*), in units of f.
        standard_error: Of the value, (*), in units of f: as far as the searches can tell.
        draws: How often an integrand was evaluated, all terms together, (*).
        failures: Number of a case that failed, in the order of the batch, and why; its value and
            error are NaN.
    """

    value: Array
    standard_error: Array
    draws: NDArray[np.int64]
    failures: dict[int, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        if self.value.size == 1:
            value, error, draws = self.value.item(), self.standard_error.item(), self.draws.item()
            return f"mu = {value:.8g}, standard error {error:.2g}, {draws:,} draws"
        errors = self.standard_error / np.abs(self.value)
        return (
            f"{self.value.size:,} reference values of mu, shape {self.value.shape}, "
            f"{len(self.failures):,} failed\nrelative standard error: "
            f"{np.nanmax(errors, initial=0):.2g} at most"
        )


def reference_value(
    problem: Problem | str,
    y: Any = None,
    theta: Any = None,
    *,
    relative_error: float = 1e-6,
    draws: int = 1_000_000,
    seed: int | None = 0,
    rng: np.random.Generator | None = None,
) -> ReferenceValue:
    """Computes mu(y, theta) without any proposal, with its standard error.

    Every term is integrated on its own, by importance sampling on shifted lattices from mixtures
    that two independent pilots fit. Smooth integrands in one or two dimensions come to 1e-6 or
    better, others to what `standard_error` says.

    Warning:
        A mode that neither the prior, nor the problem's defensive density, nor a density of twice
        their width meets in some ten thousand draws is missed. If the two pilots meet different
        parts, the error says so. A side of a signed f that no draw meets counts as zero. If f
        nearly cancels, the relative error of mu is larger than that of its terms.

    Arguments:
        problem: The problem, or the name of a shipped one.
        y: A number or an array of shape (*, D_y).
        theta: A number or an array of shape (*, D_theta), or None.
        relative_error: Aim for the relative standard error of every term. If the draws do not
            suffice, the value comes with the larger error that they reach.
        draws: Evaluations of the integrand for a term, about, at most.
        seed: Whole number >= 0; None for a random one.
        rng: A generator that a seed is drawn from, in the place of `seed`.

    Returns:
        `ReferenceValue`: `value` and `standard_error` (*), in units of f; NaN with the
        reason in `failures` if a case could not be computed.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown; or a single case
            failed: p(x, y) or f is zero at all points, the two pilots of a term share no mass, it
            is no number, or mu underflows. In a batch `failures` has the reason.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> reference = amci.reference_value(problem, y=1.0, theta=3.0)
        >>> bool(abs(reference.value / problem.truth(1.0, 3.0) - 1) < 1e-5)
        True
    """
    problem = check_problem(problem)
    y, theta = problem.check(y, theta)
    check_count("draws", draws, low=LEAST_REFERENCE_DRAWS, high=100_000_000)
    expected = "a number from 1e-12 to 1"
    check_number("relative_error", relative_error, expected, lambda value: 1e-12 <= value <= 1)
    batch = tuple(y.shape[:-1])
    root = seed_sequence(seed_from(seed, rng), "truth")
    seeds = root.generate_state(math.prod(batch), np.uint64) >> np.uint64(1)
    failures: dict[int, str] = {}
    results = [(math.nan, math.nan, 0)] * len(seeds)
    for case, at in enumerate(np.ndindex(batch)):
        of_case = y[at], None if theta is None else theta[at]
        try:
            results[case] = _case(problem, relative_error, draws, *of_case, int(seeds[case]))
        except Exception as error:
            if len(results) == 1:
                raise
            failures[case] = f"{type(error).__name__}: {error}"
    value, deviation, spent = (
        np.array(column).reshape(batch) for column in zip(*results, strict=True)
    )
    return ReferenceValue(value, deviation, spent, failures)


class _LogEstimate(NamedTuple):
    """log E_t in nats, its relative standard error, and the evaluations of the integrand."""

    log_value: float
    error: float
    draws: int


def _case(
    problem: Problem,
    relative_error: float,
    draws: int,
    y: Tensor,
    theta: Tensor | None,
    seed: int,
) -> tuple[float, float, int]:
    """Value, standard error and draws of one case."""
    log_E2 = problem.log_evidence(y, theta)
    terms = {} if log_E2 is None else {"E2": _LogEstimate(float(log_E2), 0.0, 0)}
    seeds = seed_sequence(seed, "terms").generate_state(len(TERMS), np.uint64)
    for t, name in enumerate(TERMS):
        if name not in terms and not (name == "E1_minus" and problem.nonnegative):
            term = _Term(problem, name, y, theta, int(seeds[t] >> np.uint64(1)))
            terms[name] = _estimate(term, relative_error, draws)
    # All relative to mu's larger part: mu may be 1e-200.
    E2, plus = terms["E2"], terms["E1_plus"]
    minus = terms.get("E1_minus", _LogEstimate(-math.inf, 0.0, 0))
    unit = max(plus.log_value, minus.log_value)
    # One side of an f may be empty, if it is not declared nonnegative.
    empty = [name for name, part in terms.items() if part.log_value == -math.inf]
    if "E2" in empty or unit == -math.inf:
        raise ValueError(
            f"{empty[0]}: the integrand is zero at all {terms[empty[0]].draws:,} points. Raise "
            "draws, or define sample_defensive where it is positive"
        )
    parts = [math.exp(part.log_value - unit) for part in (plus, minus)]
    value = parts[0] - parts[1]
    error = math.hypot(parts[0] * plus.error, parts[1] * minus.error, value * E2.error)
    size = math.exp(unit - E2.log_value)
    if size < np.finfo(float).tiny:
        raise ValueError(
            f"mu: |mu| is about exp({unit - E2.log_value:.6g}), below the smallest float64. "
            "Multiply f by a constant"
        )
    return value * size, error * size, sum(part.draws for part in terms.values())


class _Term:
    """The integrand of a term as a function of t in R^D.

    The bijection of the support follows an affine map that gives the defensive draws mean 0 and
    covariance 1. The defensive density is the problem's own for the term, mixed with the prior.
    """

    def __init__(
        self, problem: Problem, name: str, y: Tensor, theta: Tensor | None, seed: int
    ) -> None:
        self.problem, self.name, self.y, self.theta, self.seed = problem, name, y, theta, seed
        # f_minus is f_plus of the problem with -f.
        self.sided = problem.with_negated_f() if name == "E1_minus" else problem
        self.support = problem.support if name == "E2" else self.sided.support_plus(theta)
        terms = (name,) if name == "E2" else (name, "E2")
        self.defensive, self.evaluations = DefensiveDensity(problem, y, theta, terms), 0
        self._bijection = biject_to(self.support)
        x, _ = self.defensive.draw(4096, torch.Generator().manual_seed(seed))
        z = self._bijection.inv(x[self._inside(x)])
        z = z[z.isfinite().all(-1)]
        self.dim = z.shape[-1]
        if len(z) < 2 * self.dim + 2:
            raise ValueError(
                f"support: holds only {len(z)} of 4,096 draws of the defensive density or the "
                "prior. Declare a support that holds them"
            )
        self._centre = z.mean(0)
        covariance = z.T.cov().reshape(self.dim, self.dim)
        scale = covariance.diagonal().sqrt().clamp(min=1e-150)[:, None]
        self._factor = scale * cholesky(covariance / scale / scale.T)

    def _points(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """x (n, D) for t (n, D), and the bijection's log|det dx / dz|, (n) or (n, D)."""
        z = self._centre + t @ self._factor.T
        x = self._bijection(z)
        return x, self._bijection.log_abs_det_jacobian(z, x)

    def log_densities(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """The logarithms of the integrand and the defensive density at t (n, D), (n) each."""
        x, log_det = self._points(t)
        log_det = log_det.sum(-1) if log_det.ndim == t.ndim else log_det
        log_det = log_det + self._factor.diagonal().log().sum()
        inside = self._inside(x) & log_det.isfinite()
        log_h, log_s = (torch.full_like(log_det, -torch.inf) for _ in range(2))
        log_h[inside] = self._log_integrand(x[inside])
        log_s[inside] = self.defensive.log_prob(x[inside])
        log_det = log_det.where(inside, 0.0)
        return log_h + log_det, log_s + log_det

    def _log_integrand(self, x: Tensor) -> Tensor:
        """The logarithm of the integrand at x (n, D), (n), in nats."""
        self.evaluations += len(x)
        log_h = self.problem.log_joint(x, self.y)
        if self.name != "E2":
            log_f = self.sided.f_parts(x, self.theta)[0].log()
            # Where f leaves the range of a float far out in the tail, p leaves nothing of it.
            lost = (log_f == torch.inf) & (log_h < -1000)
            log_h = (log_f + log_h).masked_fill(lost, -torch.inf)
        edge = log_h == torch.inf
        # Densities that can be integrated are infinite at edges, where rounding may put a point.
        bad = log_h.isnan() | (edge & (edge.double().mean() > 0.01))
        if bad.any():
            raise ValueError(
                f"integrand: expected a log density below infinity, got {log_h[bad][0].item():g} "
                f"at x = {x[bad][0].tolist()}. Check log_prior, log_likelihood and f there"
            )
        return log_h.masked_fill(edge, -torch.inf)

    def depth(self, t: Tensor) -> Tensor:
        """How far t (n, D) lies beyond what floats beside an edge resolve, in nats, (n).

        Above zero the floats next to x lie far apart in t.
        """
        x, log_det = self._points(t)
        if log_det.ndim < t.ndim:
            return torch.full_like(t[:, 0], -torch.inf)
        step = torch.nextafter(x, torch.full_like(x, torch.inf)) - x
        step = step.clamp(min=torch.finfo(x.dtype).tiny)
        return ((10 * step).log() - log_det).amax(-1)

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """n defensive draws t (n, D), and the two logarithms there, (n) each.

        A draw outside the support has t = 0 and an integrand of zero.
        """
        x, _ = self.defensive.draw(n, generator)
        z = self._bijection.inv(x)
        inside = self._inside(x) & z.isfinite().all(-1)
        z = z.where(inside[:, None], self._centre)
        t = torch.linalg.solve_triangular(self._factor, (z - self._centre).T, upper=False).T
        log_h, log_s = self.log_densities(t)
        return t, log_h.where(inside, -torch.inf), log_s

    def log_weights(self, n: int, generator: torch.Generator) -> Tensor:
        """log h / s at n defensive draws, (n), in nats."""
        x, log_s = self.defensive.draw(n, generator)
        inside = self._inside(x)
        log_w = torch.full_like(log_s, -torch.inf)
        log_w[inside] = self._log_integrand(x[inside]) - log_s[inside]
        return log_w

    def _inside(self, x: Tensor) -> Tensor:
        return within(self.support, x) & x.isfinite().all(-1)


@torch.inference_mode()
def _estimate(term: _Term, relative_error: float, draws: int) -> _LogEstimate:
    """The logarithm of a term; -inf if the integrand is zero at all points."""
    method = _by_draws if term.dim >= MANY_DIMENSIONS else _by_lattices
    estimate = method(term, relative_error, draws)
    if estimate.log_value == -math.inf:
        return estimate._replace(error=0.0)
    # Above this the value says nothing.
    if not estimate.error < 10:
        raise ValueError(
            f"{term.name}: {draws:,} draws do not resolve its mass, if it is finite: it grows at "
            "an edge or a point, or two pilots share no part of it. Raise draws, or define "
            "sample_defensive near it"
        )
    return estimate


def _by_draws(term: _Term, relative_error: float, draws: int) -> _LogEstimate:
    """A term by defensive draws alone."""
    generator = torch.Generator().manual_seed(term.seed)
    log_w, error = torch.zeros(0, dtype=torch.float64), math.inf
    while error > relative_error and term.evaluations + POINTS_AT_ONCE <= max(
        draws, POINTS_AT_ONCE
    ):
        log_w = torch.cat([log_w, term.log_weights(min(POINTS_AT_ONCE, draws), generator)])
        w = log_w.softmax(0)
        error = float(w.std()) * math.sqrt(len(w)) + _beyond(w.log())
    log_value = float(log_w.logsumexp(0)) - math.log(len(log_w))
    return _LogEstimate(log_value, error, term.evaluations)


def _by_lattices(term: _Term, relative_error: float, draws: int) -> _LogEstimate:
    """A term by lattices in the components of the mixtures of two pilots."""
    *seeds, seed = map(int, np.random.SeedSequence(term.seed).generate_state(3))
    sizes = [max(min(int(part * draws), most), 100) for part, most in (FIRST_DRAWS, LATER_DRAWS)]
    mixtures = [_pilot(term, sizes, *of) for of in zip(FIRST_SHARES, seeds, strict=True)]
    generator = torch.Generator().manual_seed(seed)
    shifts = [
        torch.rand(SHIFTS, *q.centres.shape, dtype=torch.float64, generator=generator)
        for q in mixtures
    ]
    lattices, precise = [], 0
    for m in count():
        by_mixture = zip(mixtures, shifts, strict=True)
        t = torch.cat([q.points(_lattice(m, shift)) for q, shift in by_mixture], 1)
        lattices.append(_weights(term, mixtures, t))
        log_w, lone, depth = (torch.cat(parts, 1) for parts in zip(*lattices, strict=True))
        log_value, error = _lattice_mean(log_w - m * math.log(2), lone, depth)
        # The first error below the aim may be so by chance: two in a row are needed.
        precise = precise + 1 if error <= relative_error else 0
        if precise == 2 or term.evaluations + log_w.numel() > draws:
            break
    return _LogEstimate(log_value, error, term.evaluations)


def _weights(
    term: _Term, mixtures: list[StudentMixture], t: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Log weights of points t (SHIFTS, K, n, D) of K components, by the power heuristic.

    With them where one mixture looks alone, and the depths at an edge, (SHIFTS, K n) each.
    """
    component = torch.arange(t.shape[1])[:, None].expand(t.shape[:-1]).flatten()
    pieces = t.flatten(0, -2).split(POINTS_AT_ONCE), component.split(POINTS_AT_ONCE)
    weights = []
    for points, k in zip(*pieces, strict=True):
        log_components = [q.log_each(points) for q in mixtures]
        one, other = (log_q.logsumexp(0) - math.log(len(log_q)) for log_q in log_components)
        log_all = torch.cat(log_components)
        log_power = (2 * log_all).logsumexp(0) - log_all.gather(0, k[None])[0]
        log_w = _quotient(term.log_densities(points)[0], log_power)
        weights.append((log_w, (one - other).abs() > LONE, term.depth(points)))
    log_w, lone, depth = (
        torch.cat(parts).view(SHIFTS, -1) for parts in zip(*weights, strict=True)
    )
    return log_w, lone, depth


def _lattice_mean(log_w: Tensor, lone: Tensor, depth: Tensor) -> tuple[float, float]:
    """The logarithm of a term by weights of which each shift's sum is the term, and its error."""
    shells = ((depth <= -near) & (depth > -near - SHELL) for near in (0.0, SHELL))
    regions = torch.ones_like(lone), lone, *shells
    log_sums = torch.stack([log_w.where(region, -torch.inf).logsumexp(1) for region in regions])
    log_unit = float(log_sums.max())
    if log_unit == -math.inf:
        return -math.inf, math.inf
    sums = (log_sums - log_unit).exp()
    value, by_one, last, before = sums.mean(1).tolist()
    error = float(sums[0].std()) / math.sqrt(SHIFTS) / value
    # Capture and recapture: what one pilot alone has found bounds what both have missed.
    error += by_one / max(value - by_one, 1e-300)
    # Beyond the last shell that floats resolve its mass goes on falling as it did.
    fall = last / max(before, 1e-300)
    fall = 0.9999 if fall > 0.95 else fall
    error += last * fall / (1 - fall) / value
    log_value = log_unit + math.log(value)
    error += _beyond(log_w.flatten() - math.log(SHIFTS) - log_value)
    # Log densities of hundreds of nats are right to so much of themselves.
    return log_value, error + 1e-13 * max(1.0, abs(log_value))


def _beyond(log_shares: Tensor) -> float:
    """The share of a mean that lies beyond its largest summands, (n,), if their tail is heavy."""
    tail = pareto_tail(log_shares.topk(min(len(log_shares), MOST_FITTED)).values.numpy())
    if not tail.k > 0.5:
        return 0.0
    return math.exp(float(log_shares.max())) / (1 - min(tail.k + 2 * tail.error, 0.99))


def _quotient(log_h: Tensor, log_q: Tensor) -> Tensor:
    """log h / q; -inf where h is zero, and where q is infinite as h may be at an edge."""
    return (log_h - log_q).where((log_h > -torch.inf) & (log_q < torch.inf), -torch.inf)


def _pilot(term: _Term, sizes: list[int], defensive: float, seed: int) -> StudentMixture:
    """A mixture fitted to the term, the first time to so large a part of defensive draws."""
    generator = torch.Generator().manual_seed(seed)
    mixture, log_value = _broad(term.dim), -math.inf
    settled, best = 0, 0.0
    for step in range(STEPS):
        n = sizes[min(step, 1)]
        first = int(n * (LATER_SHARE if step else defensive))
        components = len(mixture.centres)
        size = (components, -(-(n - first) // components), term.dim)
        defensive_draws = term.draw(first, generator)
        u = torch.rand(size, dtype=torch.float64, generator=generator)
        points = mixture.points(u).flatten(0, -2)
        both = zip(defensive_draws, (points, *term.log_densities(points)), strict=True)
        t, log_h, log_s = map(torch.cat, both)
        part = first / len(t)
        log_q = torch.logaddexp(log_s + math.log(part), mixture.log_prob(t) + math.log1p(-part))
        log_w = _quotient(log_h, log_q)
        if not (log_w > -torch.inf).any():
            continue
        b = _tempering(log_w)
        now = float(log_w.logsumexp(0)) - math.log(len(t))
        effective = 1 / float(log_w.softmax(0).square().sum()) / len(t)
        gains = now > log_value + math.log(GAIN) or effective > GAIN * best
        settled = 0 if gains or b < 1 else settled + 1
        log_value, best = max(now, log_value), max(effective, best)
        mixture = _fitted(t, b * log_w, log_q, generator)
        if settled == SETTLED:
            break
    return mixture


def _broad(dim: int) -> StudentMixture:
    """The broad component alone."""
    one, scale = torch.ones(1).double(), BROAD_SCALE * torch.eye(dim).double()
    return StudentMixture(
        one.log(), torch.zeros(1, dim).double(), scale[None], BROAD_DEGREES * one
    )


def _with_broad(fitted: StudentMixture) -> StudentMixture:
    """A mixture with the broad component before the others, all in equal shares."""
    broad = _broad(fitted.centres.shape[-1])
    _, *parts = (torch.cat(pair) for pair in zip(broad, fitted, strict=True))
    return StudentMixture(torch.zeros_like(parts[-1]).log_softmax(0), *parts)


def _lattice(m: int, shift: Tensor) -> Tensor:
    """Points of Korobov's lattice of 2^m points that are not in that of half as many.

    Moved by shifts (*, D) modulo 1: (*, n, D). All of them are new for m = 0. The generator stays
    the same as lattices grow.
    """
    k = torch.arange(min(m, 1), 2**m, 2)[:, None]
    vector = torch.tensor([pow(182667, d, 2**20) for d in range(shift.shape[-1])])
    points: Tensor = ((k * vector % 2**m) / 2**m + shift[..., None, :]) % 1.0
    return points


def _fitted(t: Tensor, log_w: Tensor, log_q: Tensor, generator: torch.Generator) -> StudentMixture:
    """The mixture for draws t (n, D) with log weights (n), from a density with logarithms (n).

    Halves of the draws choose the number of components: fitted to one, judged by the other, by
    the second moment of the weights that they would have.
    """
    alive = log_w > -torch.inf
    t, log_w, log_nq = t[alive], log_w[alive], log_q[alive] + math.log(len(alive))
    w, log_h = log_w.softmax(0), log_w + log_nq
    if len(w) > MOST_FITTED:
        # Heavy draws as they are; of light ones some, each with the weight of several.
        at = torch.multinomial(w, MOST_FITTED, generator=generator)
        t, log_nq, log_h = t[at], log_nq[at], log_h[at]
        w = w[at].clamp(min=1 / MOST_FITTED)
        w = w / w.sum()
    best = COMPONENTS_TRIED[0]
    if float(1 / w.square().sum()) > 4 * (t.shape[-1] + 1):
        half, half_log_nq = (t[::2], w[::2]), log_nq[::2] - math.log(2)
        log_wh = (w.log() + log_h)[1::2]
        moments = []
        for many in COMPONENTS_TRIED:
            mixture = _with_broad(
                StudentMixture.fit(*half, many, generator, log_density=half_log_nq)
            )
            log_own = mixture.log_prob(t[1::2])
            moments.append(float((log_wh - log_own).logsumexp(0)))
        enough = min(moments) + math.log(WORTH)
        best = next(m for m, have in zip(COMPONENTS_TRIED, moments, strict=True) if have <= enough)
    return _with_broad(StudentMixture.fit(t, w, best, generator, log_density=log_nq))


def _tempering(log_w: Tensor) -> float:
    """The largest b <= 1 for which w^b, (n), leaves a tenth of the positive weights effective."""
    alive = log_w[log_w > -torch.inf]

    def excess(log_b: float) -> float:
        w = (math.exp(log_b) * (alive - alive.max())).exp()
        return float(w.sum() ** 2 / w.square().sum()) / len(alive) - RETAINED

    return 1.0 if excess(0.0) >= 0 else math.exp(brentq(excess, -700.0, 0.0, xtol=1e-6))
