r"""Reference values of mu that no proposal had a part in.

Errors of proposals are counted from a value that is not theirs: where a proposal misses a mode,
every estimate made with it agrees on the same wrong value. So each term starts from the problem's
own broad densities, the one for the term and the prior.

Two pilots search for the mass of a term h, independently: one mostly with draws of that start s,
the other half with those of a wider Student density. Each draws, weighs, tempers the weights and
fits a mixture of Student densities, step by step. With q the mean of both mixtures,

    E = sum_j int h q_j^2 / (sum_k q_k^2) 1{not B} + int h 1{B},     B = {h / q > 100 E, s / 4 > q}

over the components q_j of both, each integral by a randomly shifted lattice in q_j, the last one
by draws of s: where it is denser than a q whose weights are large, and beside an edge where floats
do not resolve densities that are infinite there, but the quotient h / s does not change. The
standard error is the spread of the shifts, and the mass where one mixture is a hundred times
denser than the other, over the rest: if each of two independent pilots finds a part of the mass
with probability p, both miss a quarter of that or less.

References:
    Veach, Guibas, Optimally combining sampling techniques for Monte Carlo rendering, SIGGRAPH
    1995: the power heuristic, and the maximum heuristic for B.
    Cappe, Guillin, Marin, Robert, Population Monte Carlo, Journal of Computational and Graphical
    Statistics 13, 2004.
"""

from __future__ import annotations

__all__ = ["ReferenceValue", "reference_value"]

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from amci_core._arguments import check_count, check_number, seed_sequence
from amci_core.estimators.draws import TERMS, Array
from amci_core.models import DefensiveDensity, Problem
from amci_core.models.base import check_problem
from amci_core.parallel import run_tasks
from amci_core.term_methods.term import CHUNK, Students, Term, fitted, lattice, tempering

MOST_DRAWS = 100_000_000
# The pilots: shares of draws from the start in their first steps and in later ones.
STARTS, DEFENCE = (0.75, 0.5), 0.25
# Draws of their first step, where all else starts from what it meets, and of the others.
FIRST, LATER, STEPS = (1 / 12, 65_536), (1 / 100, 2048), 16
# A pilot ends after so many steps without tempering or gain: of mass, or of effective draws.
SETTLED, GAIN = 2, 1.2
SHIFTS = 12
# Draws of the start for each of the mixtures', and the factor from which a weight is large.
FROM_START, LARGE = 0.25, math.log(100.0)
# Above this the value says nothing.
LARGEST_ERROR = 10.0
# log p(x, y) in nats below which a point adds nothing to any term.
NOTHING = -1000.0
# Log densities of hundreds of nats are right to so much of themselves.
ROUNDING = 1e-13


class LogEstimate(NamedTuple):
    """log E_t in nats, its standard error, and how many points the integrand was evaluated at."""

    log_value: float
    error: float
    draws: int


@dataclass(frozen=True)
class ReferenceValue:
    """mu(y, theta) with its standard error, for a batch (*) of pairs: what errors count from.

    Arguments:
        value: mu, (*), in units of f.
        standard_error: Of the value, (*), in units of f: as far as the searches can tell.
        draws: How often an integrand was evaluated, all terms together, (*).
        failures: Number of a case that failed, in the order of the batch, and why; its value and
            error are NaN.
    """

    value: Array
    standard_error: Array
    draws: np.typing.NDArray[np.int64]
    failures: dict[int, str] = field(default_factory=dict)


def reference_value(
    problem: Problem,
    y: Any = None,
    theta: Any = None,
    *,
    relative_error: float = 1e-6,
    draws: int = 1_000_000,
    seed: int = 0,
    workers: int | None = None,
    dask: str | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> ReferenceValue:
    """Computes mu(y, theta) without any proposal, with its standard error.

    Every term is integrated on its own, by importance sampling on shifted lattices from mixtures
    that two independent pilots fit. Smooth integrands in one or two dimensions come to 1e-6 or
    better, others to what `standard_error` says.

    Warning:
        A mode that neither the prior, nor the problem's reference density, nor a density of twice
        their width meets in some ten thousand draws is missed. Where the two pilots meet
        different parts, the error says so. A side of a signed f that no draw meets counts as zero.
        Where f nearly cancels, the relative error of mu is larger than that of its terms.

    Arguments:
        problem: What is integrated.
        y: A number or an array of shape (*, D_y).
        theta: A number or an array of shape (*, D_theta), or None.
        relative_error: Aim for the relative standard error of every term. If the draws do not
            suffice, the value comes with the larger error that they reach.
        draws: Evaluations of the integrand for a term, about, at most.
        seed: Whole number >= 0.
        workers: Number of processes that share the cases; None: this process.
        dask: Address of a Dask scheduler, whose workers share the cases. The values are the same.
        progress: Called after each case with the cases done, all cases, and the seconds left.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown; or a single case
            failed: p(x, y) or f is zero at all points, the two pilots of a term share no mass, it
            is no number, or mu underflows. In a batch `failures` has the reason.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> found = amci.reference_value(problem, y=1.0, theta=3.0)
        >>> bool(abs(found.value / problem.truth(1.0, 3.0) - 1) < 1e-5)
        True
    """
    y, theta = check_problem(problem).check(y, theta)
    check_count("draws", draws, low=1000, high=MOST_DRAWS)
    expected = "a number from 1e-12 to below 1"
    check_number("relative_error", relative_error, expected, lambda value: 1e-12 <= value < 1)
    batch = tuple(y.shape[:-1])
    cases = math.prod(batch)
    seeds = seed_sequence(seed, "truth").generate_state(cases, np.uint64) >> np.uint64(1)
    points = list(np.ndindex(batch))
    pairs = [(y[at], None if theta is None else theta[at]) for at in points]
    shared = (problem, relative_error, draws, pairs)
    began, failures = time.monotonic(), {}
    found: list[tuple[float, float, int]] = [(math.nan, math.nan, 0)] * cases
    items = [(case, int(seeds[case])) for case in range(cases)]
    if cases == 1:
        # What is wrong with a single case is not to be hidden in a batch.
        found, items = [_case(shared, items[0])], []
    for i, done in enumerate(run_tasks(partial(_case, shared), items, workers=workers, dask=dask)):
        case = done.item[0]
        if done.failure is None:
            found[case] = done.value
        else:
            failures[case] = done.failure
        if progress is not None:
            left = (time.monotonic() - began) / (i + 1) * (cases - i - 1)
            progress(i + 1, cases, left)
    if cases == 1 and progress is not None:
        progress(1, 1, 0.0)
    value, error, spent = (np.array(part).reshape(batch) for part in zip(*found, strict=True))
    return ReferenceValue(value, error, spent, failures)


def _case(shared: Any, item: tuple[int, int]) -> tuple[float, float, int]:
    """Value, standard error and draws of one case of a batch."""
    (problem, relative_error, draws, pairs), (case, seed) = shared, item
    y, theta = pairs[case]
    log_E2 = problem.log_evidence(y, theta)
    found = {} if log_E2 is None else {"E2": LogEstimate(float(log_E2), 0.0, 0)}
    seeds = seed_sequence(seed, "terms").generate_state(len(TERMS), np.uint64)
    for t, name in enumerate(TERMS):
        if name not in found and not (name == "E1_minus" and problem.nonnegative):
            term = _term(problem, name, y, theta, int(seeds[t] >> np.uint64(1)))
            found[name] = _estimate(name, term, relative_error, draws)
    # All relative to mu's larger part: mu may be 1e-200.
    E2, plus = found["E2"], found["E1_plus"]
    minus = found.get("E1_minus", LogEstimate(-math.inf, 0.0, 0))
    unit = max(plus.log_value, minus.log_value)
    # One side of an f may be empty, if nobody has declared that it is nonnegative.
    empty = [name for name, part in found.items() if part.log_value == -math.inf]
    if "E2" in empty or unit == -math.inf:
        raise ValueError(
            f"{empty[0]}: the integrand is zero at all of {found[empty[0]].draws:,} points; raise "
            "draws, or define sample_defensive near where it is not"
        )
    parts = [math.exp(part.log_value - unit) for part in (plus, minus)]
    value = parts[0] - parts[1]
    error = math.hypot(parts[0] * plus.error, parts[1] * minus.error, value * E2.error)
    size = math.exp(unit - E2.log_value)
    if size < np.finfo(float).tiny:
        raise ValueError(
            f"mu: expected a value that a float can hold, got exp({unit - E2.log_value:.6g})"
        )
    return value * size, error * size, sum(term.draws for term in found.values())


def _term(problem: Problem, name: str, y: Tensor, theta: Tensor | None, seed: int) -> Term:
    """What a term integrates at y (D_y,), theta (D_theta,), and what its estimate starts from."""
    # f_minus is the f_plus of the problem with -f in the place of f.
    sided = problem.with_negated_f() if name == "E1_minus" else problem

    def log_value(x: Tensor) -> Tensor:
        log_joint = problem.log_joint(x, y)
        if name == "E2":
            return log_joint
        log_f = sided.f_parts(x, theta)[0].log()
        # Where f leaves the range of a float far out in the tail, p leaves nothing of it.
        lost = (log_f == torch.inf) & (log_joint < NOTHING)
        return (log_f + log_joint).masked_fill(lost, -torch.inf)

    # The prior is a part of the start of every term: a second look at where f has mass.
    start = DefensiveDensity(problem, y, theta, (name,) if name == "E2" else (name, "E2"))
    support = problem.support if name == "E2" else sided.support_plus(theta)
    return Term(log_value, support, start, seed)


@torch.inference_mode()
def _estimate(name: str, term: Term, relative_error: float, draws: int) -> LogEstimate:
    """The logarithm of a term; -inf where the integrand is zero wherever the pilots look.

    Raises:
        ValueError: the pilots find different parts.
    """
    seeds = np.random.SeedSequence(term.seed).generate_state(3)
    sizes = [max(min(int(share * draws), most), 100) for share, most in (FIRST, LATER)]
    pilots = [
        _pilot(term, sizes, share, int(of)) for share, of in zip(STARTS, seeds, strict=False)
    ]
    log_unit = max(log_value for _, log_value in pilots)
    if log_unit == -math.inf:
        return LogEstimate(-math.inf, 0.0, term.evaluations)
    mixtures = [mixture for mixture, _ in pilots]
    generator = torch.Generator().manual_seed(int(seeds[2]))
    shifts = [
        torch.rand(SHIFTS, *q.centres.shape, dtype=torch.float64, generator=generator)
        for q in mixtures
    ]

    def weighted(
        t: Tensor, log_h: Tensor, log_s: Tensor, own: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The log weights of points t of components, (n), where the start counts in their place,
        and where one pilot alone looks."""
        owns = [None] * len(t) if own is None else own.split(CHUNK)
        parts = zip(t.split(CHUNK), log_h.split(CHUNK), log_s.split(CHUNK), owns, strict=False)
        log_w, rare, alone = zip(*(of_chunk(*part) for part in parts), strict=True)
        return torch.cat(log_w), torch.cat(rare), torch.cat(alone)

    def of_chunk(
        t: Tensor, log_h: Tensor, log_s: Tensor, own: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        each = [q.each(t) for q in mixtures]
        both = torch.stack([e.logsumexp(0) - math.log(len(e)) for e in each])
        log_q = both.logsumexp(0) - math.log(2)
        rare = _weights(log_h, log_q) > log_unit + LARGE
        rare &= log_s + math.log(FROM_START) > log_q
        rare |= term.unresolved(t)
        alone = (both[0] - both[1]).abs() > LARGE
        if own is None:
            return _weights(log_h, log_s), rare, alone
        # The power heuristic: the square of a density over those of all.
        components = torch.cat(each)
        log_power = (2 * components).logsumexp(0) - components.gather(0, own[None])[0]
        return _weights(log_h, log_power), rare, alone

    # Sums for each shift: of both halves, of the start's draws, and where one pilot alone looks.
    sums = torch.full((3, SHIFTS), -torch.inf, dtype=torch.float64)
    m, from_start = 0, 0
    while True:
        for k, (q, shift) in enumerate(zip(mixtures, shifts, strict=True)):
            t = q.points(lattice(m, shift))
            own = torch.arange(t.shape[1])[:, None] + k * len(mixtures[0].centres)
            own = own.expand(t.shape[:-1]).flatten()
            t = t.flatten(0, -2)
            log_w, rare, alone = weighted(t, *term.log_densities(t), own)
            log_w = log_w.masked_fill(rare, -torch.inf)
            _add(sums[0], log_w)
            _add(sums[2], log_w.masked_fill(~alone, -torch.inf))
            new = max(int(FROM_START * len(t) / 2 / SHIFTS), 1)
            log_w, rare, _ = weighted(*term.draw(new * SHIFTS, generator))
            _add(sums[1], log_w.where(rare, -torch.inf))
            from_start += new
        count = torch.tensor([2.0**m, from_start, 2.0**m], dtype=torch.float64).log()
        log_means = sums - count[:, None]
        largest = float(log_means.max())
        if largest > -math.inf:
            values, start, alone = (log_means - largest).exp()
            values = values + start
            value, only = float(values.mean()), float(alone.mean())
            error = float(values.std()) / math.sqrt(SHIFTS) / value
            # Capture and recapture: what one pilot alone has found bounds what both have missed.
            error += only / max(value - only, 1e-300)
            log_value = largest + math.log(value)
            error += ROUNDING * max(1.0, abs(log_value))
            if error <= relative_error:
                break
        points = 2**m * SHIFTS * sum(len(q.centres) for q in mixtures)
        if term.evaluations + (1 + FROM_START) * points > draws:
            break
        m += 1
    if not error < LARGEST_ERROR:
        raise ValueError(
            f"{name}: two searches within {draws:,} draws found different parts of its mass; "
            "raise draws, or define sample_defensive near it"
        )
    return LogEstimate(log_value, error, term.evaluations)


def _weights(log_h: Tensor, log_q: Tensor) -> Tensor:
    """log h / q; -inf where h is zero, and where q is infinite as h may be at an edge."""
    return (log_h - log_q).where((log_h > -torch.inf) & (log_q < torch.inf), -torch.inf)


def _add(sums: Tensor, log_w: Tensor) -> None:
    """Adds weights, those of the first shift first, to its sum."""
    sums.copy_(torch.logaddexp(sums, log_w.unflatten(0, (len(sums), -1)).logsumexp(-1)))


def _pilot(term: Term, sizes: list[int], share: float, seed: int) -> tuple[Students, float]:
    """A mixture fitted to the term, and the logarithm of the term as far as it has seen it."""
    generator = torch.Generator().manual_seed(seed)
    mixture, log_value = Students.broad(term.dim), -math.inf
    settled, best = 0, 0.0
    for step in range(STEPS):
        n = sizes[min(step, 1)]
        own = int(n * (DEFENCE if step else share))
        t, log_h, log_s = term.draw(own, generator)
        u = mixture.cube(n - own, generator)
        t = torch.cat([t, mixture.points(u).flatten(0, -2)])
        h, s = term.log_densities(t[own:])
        log_h, log_s = torch.cat([log_h, h]), torch.cat([log_s, s])
        log_q = torch.logaddexp(
            log_s + math.log(own / len(t)), mixture.log_prob(t) + math.log1p(-own / len(t))
        )
        log_w = _weights(log_h, log_q)
        if not (log_w > -torch.inf).any():
            continue
        b = tempering(log_w)
        now = float(log_w.logsumexp(0)) - math.log(len(t))
        effective = 1 / float(log_w.softmax(0).square().sum()) / len(t)
        gains = now > log_value + math.log(GAIN) or effective > GAIN * best
        settled = 0 if gains or b < 1 else settled + 1
        log_value, best = max(now, log_value), max(effective, best)
        mixture = fitted(t, b * log_w, log_q, generator)
        if settled == SETTLED:
            break
    return mixture, log_value
