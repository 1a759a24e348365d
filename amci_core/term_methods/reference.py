r"""Reference values of mu that no proposal had a part in: by quadrature, or by a long run.

Errors of proposals are counted from a value that is not theirs: where a proposal misses a mode,
every estimate made with it agrees on the same wrong value. So each term starts from the problem's
own broad densities, the one for the term and the prior.

References:
    Hesterberg, Weighted average importance sampling and defensive mixture distributions,
    Technometrics 37, 1995.
"""

from __future__ import annotations

__all__ = ["Defensive", "ReferenceValue", "reference"]

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from amci_core.checks import check_count, seed_sequence
from amci_core.diagnostics import pareto_k
from amci_core.estimators.draws import TERMS, Array
from amci_core.models import Problem, Reference
from amci_core.term_methods.annealed import Annealed, largest_step
from amci_core.term_methods.base import (
    DefensiveMixture,
    Density,
    Integrand,
    StudentDensity,
    TermEstimate,
    TermMethod,
    log_mean,
)
from amci_core.term_methods.mu import estimate_terms
from amci_core.term_methods.nested import Nested
from amci_core.term_methods.quadrature import Quadrature

MOST_DRAWS = 100_000_000
PILOT = 4096
CHUNK = 65_536
# Adaptations of the defensive mixture, and the effective share of weights that it is fitted to.
ADAPTATIONS = 3
FITTED = 0.02
# A long run is trusted with a smaller k-hat, more effective draws and no weight above this share.
LARGEST_K = 0.7
LEAST_EFFECTIVE = 100.0
LARGEST_SHARE = 0.05
# Another method is tried where the error of log E_t is larger, in nats.
ENOUGH = 0.05
CHAIN_COST = 200
# Nested sampling of an awkward term takes minutes: it is there by name.
AUTOMATIC = ("quadrature", "defensive", "annealed")


@dataclass(frozen=True)
class ReferenceValue:
    """mu(y, theta) with its standard error, for a batch (*) of pairs: what errors count from.

    Arguments:
        value: mu, (*), in units of f.
        standard_error: Of it, (*), in units of f: the error bound of a quadrature, or the standard
            error of a long run. NaN where a term came out zero.
        method: How the terms were estimated, (*), joined by commas where they differ.
        draws: How often an integrand was evaluated, all terms together, (*).
    """

    value: Array
    standard_error: Array
    method: NDArray[np.str_]
    draws: NDArray[np.int64]


def reference(
    problem: Problem,
    y: Any = None,
    theta: Any = None,
    *,
    method: str = "auto",
    relative_error: float = 1e-6,
    draws: int = 1_000_000,
    seed: int = 0,
    progress: Callable[[int, int, float], None] | None = None,
) -> ReferenceValue:
    """Finds mu(y, theta) without any proposal, with its standard error.

    Every term is integrated on its own: by adaptive quadrature where x has one or two dimensions,
    else by a long run of importance sampling from a defensive mixture; where its weights are too
    uneven, by annealed importance sampling. Nested sampling is there by name.

    Warning:
        A mode that neither the prior nor the problem's reference density reaches is missed by
        every method. Where f takes both signs and nearly cancels, the relative error of mu is
        larger than that of its terms: read `standard_error`.

    Arguments:
        problem: What is integrated.
        y: A number or an array of shape (*, D_y).
        theta: Likewise, (*, D_theta), or None.
        method: auto, quadrature (at most two dimensions), defensive, annealed or nested.
        relative_error: What is aimed at in every term. Where the draws do not suffice, the value
            comes with the larger error that they reach.
        draws: Evaluations of the integrand for a term and method, about, at most.
        seed: Whole number >= 0.
        progress: Called after each case with the cases done, all cases, and the seconds left.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> found = amci.reference(problem, y=1.0, theta=3.0)
        >>> bool(abs(found.value / problem.truth(1.0, 3.0) - 1) < 1e-6)
        True
    """
    y, theta = problem.check(y, theta)
    hows = _methods(problem.x.dim, method, relative_error, draws)
    batch = tuple(y.shape[:-1])
    cases = math.prod(batch)
    rows = y.reshape(cases, -1)
    parameters = None if theta is None else theta.reshape(cases, -1)
    seeds = seed_sequence(seed, "truth").generate_state(cases, np.uint64)
    began, found = time.monotonic(), []
    for i in range(cases):
        at = rows[i], None if parameters is None else parameters[i]
        found.append(_single(problem, *at, hows, seed=int(seeds[i] >> np.uint64(1))))
        if progress is not None:
            left = (time.monotonic() - began) / (i + 1) * (cases - i - 1)
            progress(i + 1, cases, left)
    values, errors, names, counts = (np.array(part) for part in zip(*found, strict=True))
    return ReferenceValue(
        values.reshape(batch), errors.reshape(batch), names.reshape(batch), counts.reshape(batch)
    )


def _methods(dim: int, name: str, relative_error: float, draws: int) -> dict[str, TermMethod]:
    """The methods to try, in order."""
    check_count("draws", draws, low=1000, high=MOST_DRAWS)
    if not 1e-12 <= relative_error < 1:
        raise ValueError(
            f"relative_error: expected a number from 1e-12 to below 1, got {relative_error!r}"
        )
    every: dict[str, TermMethod] = {
        "quadrature": Quadrature(relative_error, draws),
        "defensive": Defensive(relative_error, draws),
        "annealed": Annealed(chains=max(draws // CHAIN_COST, 1000)),
        "nested": Nested(),
    }
    if dim > 2:
        del every["quadrature"]
    if name == "auto":
        return {how: every[how] for how in AUTOMATIC if how in every}
    if name not in every:
        raise ValueError(
            f"method: expected auto or, in {dim} dimensions, one of {', '.join(every)}, "
            f"got {name!r}"
        )
    return {name: every[name]}


def _single(
    problem: Problem, y: Tensor, theta: Tensor | None, hows: dict[str, TermMethod], *, seed: int
) -> tuple[float, float, str, int]:
    """Value, standard error, methods and draws at y (D_y,), theta (D_theta,)."""
    used: dict[str, str] = {}

    def of(term: str) -> TermMethod:
        # The prior is a part of the start of every term: a second look at where f has mass.
        broad = Reference(problem, y, theta, (term,) if term == "E2" else (term, "E2"))

        def estimate(integrand: Integrand, start: Density, *, seed: int) -> TermEstimate:
            best, spent = TermEstimate(-math.inf, math.nan, 0), 0
            for name, how in hows.items():
                found = how(integrand, broad, seed=seed)
                spent += found.draws
                used.setdefault(term, name)
                unknown = math.isnan(best.standard_error)
                if unknown or found.standard_error < best.standard_error:
                    best, used[term] = found, name
                if best.standard_error <= ENOUGH:
                    break
            return best._replace(draws=spent)

        return estimate

    known = problem.log_normalizer(y, theta) is not None
    terms = [
        term
        for term in TERMS
        if not (term == "E1_minus" and problem.nonnegative) and not (term == "E2" and known)
    ]
    methods = {term: of(term) for term in terms}
    found = estimate_terms(problem, y, theta, methods=methods, seed=seed)
    names = ", ".join(dict.fromkeys(used.values()))
    return found.value, found.standard_error, names, found.draws


@dataclass(frozen=True)
class Defensive:
    """Estimates a term by a long run of importance sampling from a defensive mixture.

    A pilot fits a heavy-tailed density to where the integrand has mass, a few times; a fifth of
    the draws come from the density to start from, which bounds the weights by those of the latter.
    The standard error is NaN where k-hat, the effective number of draws or the largest weight say
    that it is not to be trusted.

    Arguments:
        relative_error: Where it stops.
        evaluations: Where it stops at the latest, about.
    """

    relative_error: float = 1e-3
    evaluations: int = 1_000_000

    @torch.inference_mode()
    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate:
        generator = torch.Generator().manual_seed(seed)
        before = integrand.evaluations
        density, pilot = start, min(PILOT, self.evaluations // 10)
        for _ in range(ADAPTATIONS):
            x, log_q = density.draw(pilot, generator)
            log_w = integrand.log_weight(x, log_q)
            if not (log_w > -torch.inf).any():
                break
            step = largest_step(log_w, 1.0, FITTED)
            density = DefensiveMixture(
                start, StudentDensity.fitted(integrand.support, x, step * log_w)
            )
        log_w = torch.empty(0, dtype=torch.float64)
        error = math.inf
        while (
            error > self.relative_error
            and (left := self.evaluations - (integrand.evaluations - before)) > 1
        ):
            x, log_q = density.draw(min(left, max(CHUNK, len(log_w))), generator)
            log_w = torch.cat([log_w, integrand.log_weight(x, log_q)])
            log_value, error = log_mean(log_w)
        if not _trusted(log_w):
            error = math.nan
        return TermEstimate(log_value, error, integrand.evaluations - before)


def _trusted(log_w: Tensor) -> bool:
    """Whether no tail of the weights (n) speaks against their mean and its error."""
    w = log_w.softmax(0)
    if not w.isfinite().all():
        return False
    effective = 1 / float(w.square().sum())
    k = float(pareto_k(w.numpy()))
    return k < LARGEST_K and effective >= LEAST_EFFECTIVE and float(w.max()) <= LARGEST_SHARE
