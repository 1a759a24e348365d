r"""mu from terms that are estimated each by a method of its own choice."""

from __future__ import annotations

__all__ = ["TermsEstimate", "estimate_terms", "term"]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core._checks import check_seed
from amci_core.estimators import TERMS
from amci_core.flows import Proposal, Proposals
from amci_core.models import Problem
from amci_core.terms import Density, Integrand, TermEstimate, TermMethod, method


@dataclass(frozen=True)
class TermsEstimate:
    """An estimate of mu(y, theta) from independent estimates of its terms.

    Arguments:
        value: (E1_plus - E1_minus) / E2, in units of f; NaN where E2 came out zero.
        standard_error: By the delta method, in units of f; NaN where that of a term is.
        terms: E1_plus, E1_minus (where f takes both signs) and E2.
        draws: How often an integrand was evaluated, all terms together.
    """

    value: float
    standard_error: float
    terms: dict[str, TermEstimate]
    draws: int


def estimate_terms(
    problem: Problem,
    y: Any = None,
    theta: Any = None,
    *,
    methods: str | TermMethod | Mapping[str, str | TermMethod] = "annealed",
    proposals: Proposals | None = None,
    seed: int = 0,
) -> TermsEstimate:
    """Estimates mu(y, theta) term by term, each by importance sampling, annealing, or nesting.

    A term starts from its own proposal, or where there is none from what the problem knows: its
    reference density for E1_plus and E1_minus, its prior for E2.

    Arguments:
        problem: What is integrated.
        y: A single observation, as for `estimate`.
        theta: Likewise.
        methods: A name of `amci_core.terms.METHODS` or a `TermMethod`, for all terms or by term.
            Terms that are not named are annealed; E2 is not estimated where it is known, unless
            it is named.
        proposals: What the terms start from; None for the problem's own densities.
        seed: Whole number >= 0. A term's draws depend on it and on the term's own method alone.

    References:
        Rainforth, Golinski, Wood, Zaidi, Target-aware Bayesian inference: how to beat optimal
        conventional estimators, Journal of Machine Learning Research 21, 2020.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown; the methods name a
            term that the problem does not have; the proposals are for another problem; or an
            integrand or an estimate is not a number.
    """
    y_checked, theta_checked = problem.check(y, theta)
    if y_checked.ndim > 1:
        raise ValueError(f"y: expected a single one, got batch {tuple(y_checked.shape[:-1])}")
    if proposals is not None and proposals.problem != problem.name:
        raise ValueError(
            f"proposals: expected ones for {problem.name}, got ones for {proposals.problem}"
        )
    chosen = _chosen(problem, methods)
    log_E2 = problem.log_normalizer(y_checked, theta_checked)
    if log_E2 is not None and not (isinstance(methods, Mapping) and "E2" in methods):
        del chosen["E2"]
    seeds = np.random.SeedSequence(check_seed(seed)).generate_state(len(TERMS), np.uint64)
    found: dict[str, TermEstimate] = {}
    for name, how in chosen.items():
        t = TERMS.index(name)
        proposal = None if proposals is None else proposals.as_tuple[t]
        integrand, start = term(problem, name, y_checked, theta_checked, proposal)
        result = how(integrand, start, seed=int(seeds[t] >> np.uint64(1)))
        found[name] = TermEstimate(*result).check(name)
    if log_E2 is not None and "E2" not in found:
        found["E2"] = TermEstimate(float(log_E2), 0.0, 0)
    return _combined(found)


def term(
    problem: Problem, name: str, y: Tensor, theta: Tensor | None, proposal: Proposal | None = None
) -> tuple[Integrand, Density]:
    """What a term integrates at a single y, theta, and the density that its estimate starts from.

    Arguments:
        problem: What is integrated.
        name: E1_plus, E1_minus or E2.
        y: As `Problem.check` returns it, (D_y,).
        theta: Likewise, (D_theta,).
        proposal: What to start from; None for the problem's own densities.

    Raises:
        ValueError: the problem has no such term.
    """
    if name not in _present(problem):
        raise ValueError(
            f"term: expected one of {', '.join(_present(problem))} for {problem.name}, "
            f"got {name!r}"
        )
    start: Density
    if name == "E2":
        integrand = Integrand(problem.x.dim, lambda x: problem.log_joint(x, y), problem.support)
        start = _Prior(problem)
    else:
        # f_minus is the f_plus of the problem with -f in the place of f.
        sided = problem if name == "E1_plus" else problem.negated()
        integrand = Integrand(
            problem.x.dim,
            lambda x: sided.f_parts(x, theta)[0].log() + sided.log_joint(x, y),
            sided.support_plus(theta),
        )
        start = _Reference(sided, y, theta)
    if proposal is not None:
        with torch.inference_mode():
            start = proposal(y, theta)
    return integrand, start


@dataclass(frozen=True)
class _Prior:
    """p(x), which reaches wherever p(x, y) does."""

    problem: Problem

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        x = self.problem.sample_prior(n, generator or torch.Generator()).double()
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        return self.problem.log_prior(x)


@dataclass(frozen=True)
class _Reference:
    """The problem's own density for f_plus p(x, y) at y, theta."""

    problem: Problem
    y: Tensor
    theta: Tensor | None

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        generator = generator or torch.Generator()
        return self.problem.sample_reference(self.y, self.theta, n, generator)

    def log_prob(self, x: Tensor) -> Tensor:
        return self.problem.log_reference(x, self.y, self.theta)


def _present(problem: Problem) -> tuple[str, ...]:
    return tuple(t for t in TERMS if not (t == "E1_minus" and problem.nonnegative))


def _chosen(
    problem: Problem, methods: str | TermMethod | Mapping[str, str | TermMethod]
) -> dict[str, TermMethod]:
    present = _present(problem)
    named: Mapping[str, str | TermMethod] = {}
    default: str | TermMethod = "annealed"
    if isinstance(methods, Mapping):
        named = methods
    else:
        default = methods
    unknown = [name for name in named if name not in present]
    if unknown:
        raise ValueError(
            f"methods: expected terms among {', '.join(present)} for {problem.name}, "
            f"got {unknown[0]!r}"
        )
    return {name: method(named.get(name, default)) for name in present}


def _combined(terms: dict[str, TermEstimate]) -> TermsEstimate:
    E2 = terms["E2"]
    value, variance = math.nan, math.nan
    if E2.log_value > -math.inf:
        value, variance = 0.0, 0.0
        for name, sign in (("E1_plus", 1.0), ("E1_minus", -1.0)):
            if name in terms:
                ratio = math.exp(terms[name].log_value - E2.log_value)
                value += sign * ratio
                variance += (ratio * terms[name].standard_error) ** 2
        variance += (value * E2.standard_error) ** 2
    return TermsEstimate(
        value=value,
        standard_error=math.sqrt(variance),
        terms=terms,
        draws=sum(t.draws for t in terms.values()),
    )
