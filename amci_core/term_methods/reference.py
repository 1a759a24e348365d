r"""Reference values of mu that no proposal had a part in: by quadrature, or by a long run.

Errors of proposals are counted from a value that is not theirs: where a proposal misses a mode,
every estimate made with it agrees on the same wrong value. So each term starts from the problem's
own broad densities, the one for the term and the prior.
"""

from __future__ import annotations

__all__ = ["ReferenceValue", "reference"]

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from amci_core.checks import check_count, check_number, seed_sequence
from amci_core.estimators.draws import TERMS, Array
from amci_core.flows.density import Density
from amci_core.models import Problem, Reference
from amci_core.tasks import Where, run_tasks
from amci_core.term_methods.adapted import Defensive, Quadrature
from amci_core.term_methods.annealed import Annealed
from amci_core.term_methods.base import Integrand, TermEstimate, TermMethod
from amci_core.term_methods.mu import estimate_terms
from amci_core.term_methods.nested import Nested

MOST_DRAWS = 100_000_000
# Another method is tried where the error of log E_t is larger, in nats.
ENOUGH = 0.01
CHAIN_COST = 200
# What a case that failed has.
UNKNOWN = (math.nan, math.nan, "failed", 0)
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
        failures: Number of a case that failed, in the order of the batch, and why; its value is
            NaN.
    """

    value: Array
    standard_error: Array
    method: NDArray[np.str_]
    draws: NDArray[np.int64]
    failures: dict[int, str] = field(default_factory=dict)


def reference(
    problem: Problem,
    y: Any = None,
    theta: Any = None,
    *,
    method: str = "auto",
    relative_error: float = 1e-6,
    draws: int = 1_000_000,
    seed: int = 0,
    workers: int | None = None,
    dask: str | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> ReferenceValue:
    """Finds mu(y, theta) without any proposal, with its standard error.

    Every term is integrated on its own: by adaptive quadrature where x has one or two dimensions,
    else by a long run of importance sampling from a defensive mixture; where its weights are too
    uneven, by annealed importance sampling. Nested sampling is there by name.

    Warning:
        A mode that neither the prior nor the problem's reference density reaches is missed by
        every method, and a part of f that few of a pilot's ten thousand draws meet can be: in two
        dimensions compare with `method="defensive"` where f has several parts.
        Where f nearly cancels, the relative error of mu is larger: read `standard_error`.

    Arguments:
        problem: What is integrated.
        y: A number or an array of shape (*, D_y).
        theta: Likewise, (*, D_theta), or None.
        method: auto, quadrature (at most two dimensions), defensive, annealed or nested.
        relative_error: What is aimed at in every term. Where the draws do not suffice, the value
            comes with the larger error that they reach.
        draws: Evaluations of the integrand for a term and method, about, at most.
        seed: Whole number >= 0.
        workers: Number of processes that do the cases; by default they are done here.
        dask: Address of a Dask scheduler, whose workers do the cases. The values are the same
            wherever they are found.
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
    seeds = seed_sequence(seed, "truth").generate_state(cases, np.uint64) >> np.uint64(1)
    where = Where(workers, dask)
    points = list(np.ndindex(batch))
    shared = (problem, hows, [(y[at], None if theta is None else theta[at]) for at in points])
    began, found, failures = time.monotonic(), [UNKNOWN] * cases, {}
    items = [(case, int(seeds[case])) for case in range(cases)]
    if cases == 1:
        # What is wrong with a single case is not to be hidden in a batch.
        found, items = [_case(shared, items[0])], []
    for i, done in enumerate(run_tasks(_case, shared, items, where)):
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
    value, error, how, spent = (np.array(part).reshape(batch) for part in zip(*found, strict=True))
    return ReferenceValue(value, error, how, spent, failures)


def _case(shared: Any, item: tuple[int, int]) -> tuple[float, float, str, int]:
    """The value of one case of a batch."""
    (problem, hows, cases), (case, seed) = shared, item
    y, theta = cases[case]
    return _single(problem, y, theta, hows, seed=seed)


def _methods(dim: int, name: str, relative_error: float, draws: int) -> dict[str, TermMethod]:
    """The methods to try, in order."""
    check_count("draws", draws, low=1000, high=MOST_DRAWS)
    expected = "a number from 1e-12 to below 1"
    check_number("relative_error", relative_error, expected, lambda value: 1e-12 <= value < 1)
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
    if not isinstance(name, str) or name not in every:
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
            best = TermEstimate(-math.inf, math.nan, 0)
            for name, how in hows.items():
                found = how(integrand, broad, seed=seed)
                unknown = math.isnan(best.standard_error)
                if unknown or found.standard_error < best.standard_error:
                    best, used[term] = found, name
                if best.standard_error <= ENOUGH:
                    break
            return best._replace(draws=integrand.evaluations)

        return estimate

    known = problem.log_normalizer(y, theta) is not None
    skipped = {"E1_minus": problem.nonnegative, "E2": known}
    methods = {term: of(term) for term in TERMS if not skipped.get(term)}
    found = estimate_terms(problem, y, theta, methods=methods, seed=seed)
    names = ", ".join(dict.fromkeys(used.values()))
    return found.value, found.standard_error, names, found.draws
