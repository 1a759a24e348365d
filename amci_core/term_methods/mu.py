r"""mu from terms that are estimated each by a method of its own choice."""

from __future__ import annotations

__all__ = ["METHODS", "TermsEstimate", "estimate_terms", "method"]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from amci_core.checks import check_number, seed_sequence
from amci_core.estimators import TERMS
from amci_core.estimators.draws import Array
from amci_core.estimators.uncertainty import central_interval, normal_quantile
from amci_core.flows import Proposal, Proposals
from amci_core.flows.density import Density
from amci_core.models import Problem, Reference
from amci_core.term_methods.annealed import Annealed
from amci_core.term_methods.base import Importance, Integrand, TermEstimate, TermMethod
from amci_core.term_methods.nested import Nested

# log p(x, y) in nats below which a point adds nothing to any term.
NOTHING = -1000.0

METHODS: dict[str, TermMethod] = {
    "importance": Importance(),
    "annealed": Annealed(),
    "nested": Nested(),
}


def method(chosen: Any) -> TermMethod:
    """The method of that name, or the one given.

    Raises:
        ValueError: no method has that name, or it cannot be called.
    """
    if callable(chosen):
        return cast(TermMethod, chosen)
    if not isinstance(chosen, str) or chosen not in METHODS:
        raise ValueError(
            f"method: expected a callable or one of {', '.join(METHODS)}, got {chosen!r}"
        )
    return METHODS[chosen]


@dataclass(frozen=True)
class TermsEstimate:
    """An estimate of mu(y, theta) from independent estimates of its terms.

    Arguments:
        value: (E1_plus - E1_minus) / E2 + shift, in units of f; NaN where E2 came out zero.
        standard_error: By the delta method, in units of f; NaN where that of a term is.
        covariance: Covariance of the estimates of (E1_plus - E1_minus, E2), over E2 squared,
            (2, 2): diagonal, since the terms are independent.
        terms: E1_plus, E1_minus (where f - shift takes both signs) and E2.
        draws: How often an integrand was evaluated, all terms together.
        positive: Whether mu is known to be positive.
        shift: The constant c that was taken from f and added back, in units of f.
    """

    value: float
    standard_error: float
    covariance: Array
    terms: dict[str, TermEstimate]
    draws: int
    positive: bool = False
    shift: float = 0.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """A central interval for mu of that level, as lower and upper end, in units of f.

        As `Estimate.interval`: on the log scale where mu is known to be positive, Fieller's else,
        infinite where E2 is not told from zero. NaN where the standard error is.

        Raises:
            ValueError: the level does not lie strictly between 0 and 1.
        """
        z = normal_quantile(level)
        lower, upper = central_interval(
            np.asarray(self.value) - self.shift,
            np.asarray(self.standard_error),
            self.covariance,
            reach=z,
            reach_of_log=z if self.positive else None,
        )
        return float(lower) + self.shift, float(upper) + self.shift


def estimate_terms(
    problem: Problem,
    y: Any = None,
    theta: Any = None,
    *,
    methods: str | TermMethod | Mapping[str, str | TermMethod] = "annealed",
    proposals: Proposals | None = None,
    shift: float = 0.0,
    seed: int = 0,
) -> TermsEstimate:
    """Estimates mu(y, theta) term by term, each by importance sampling, annealing, or nesting.

    A term starts from its own proposal, or where there is none from what the problem knows: its
    reference density for E1_plus and E1_minus, its prior for E2. With a shift c these are asked
    for f - c where the problem knows how; where it does not, and f - c reaches further than f on
    the term's side, so that what was made for f would miss a part, the term starts from the prior.

    Arguments:
        problem: What is integrated.
        y: A single observation, as for `estimate`.
        theta: Likewise.
        methods: A name of `amci_core.term_methods.METHODS` or a `TermMethod`, for all terms or
            by term. Terms that are not named are annealed; E2 is not estimated where it is known,
            unless it is named.
        proposals: What the terms start from; None for the problem's own densities.
        shift: A constant c, in units of f: f - c is split into its positive and negative part, and
            c is added back.
        seed: Whole number >= 0. A term's draws depend on it and on the term's own method alone.

    References:
        Rainforth, Golinski, Wood, Zaidi, Target-aware Bayesian inference: how to beat optimal
        conventional estimators, Journal of Machine Learning Research 21, 2020.

    Raises:
        ValueError: an argument is out of range, of a wrong shape or unknown; the methods name a
            term that f - shift does not have; the proposals are for another problem; or an
            integrand or an estimate is not a number.

    Example:
        >>> import amci_core as amci
        >>> found = amci.estimate_terms(amci.problem("tail-1d"), 1.0, 1.5)
        >>> bool(abs(found.value - 0.0786) < 5 * found.standard_error)
        True
    """
    y, theta = problem.check(y, theta)
    if y.ndim > 1:
        raise ValueError(f"y: expected a single one, got batch {tuple(y.shape[:-1])}")
    if proposals is not None and proposals.problem != problem.name:
        raise ValueError(
            f"proposals: expected ones for {problem.name}, got ones for {proposals.problem}"
        )
    constant = check_number("shift", shift)
    positive = problem.nonnegative and constant <= 0
    present = [name for name in TERMS if not (name == "E1_minus" and positive)]
    named = methods if isinstance(methods, Mapping) else dict.fromkeys(present, methods)
    unknown = [name for name in named if name not in present]
    if unknown:
        raise ValueError(
            f"methods: expected terms among {', '.join(present)} for {problem.name}, "
            f"got {unknown[0]!r}"
        )
    chosen = {name: method(named.get(name, "annealed")) for name in present}
    found: dict[str, TermEstimate] = {}
    log_E2 = problem.log_normalizer(y, theta)
    if log_E2 is not None and not (isinstance(methods, Mapping) and "E2" in methods):
        found["E2"] = TermEstimate(float(log_E2), 0.0, 0)
    seeds = seed_sequence(seed, "terms").generate_state(len(TERMS), np.uint64)
    for t, name in enumerate(TERMS):
        if name in chosen and name not in found:
            proposal = None if proposals is None else proposals.as_tuple[t]
            integrand, start = _term(problem, name, y, theta, proposal, constant)
            result = chosen[name](integrand, start, seed=int(seeds[t] >> np.uint64(1)))
            found[name] = TermEstimate(*result).check(name)
    return _combined(found, positive=problem.nonnegative and not constant, shift=constant)


def _term(
    problem: Problem,
    name: str,
    y: Tensor,
    theta: Tensor | None,
    proposal: Proposal | None,
    shift: float,
) -> tuple[Integrand, Density]:
    """What a term integrates at y (D_y,), theta (D_theta,), and what its estimate starts from."""
    support, asked, reached = problem.support, theta, "E2"

    def log_value(x: Tensor) -> Tensor:
        log_joint = problem.log_joint(x, y)
        if name == "E2":
            return log_joint
        f_plus, f_minus = problem.f_parts(x, theta, shift)
        side = f_plus if name == "E1_plus" or f_minus is None else f_minus
        # Where f leaves the range of a float far out in the tail, p leaves nothing of it.
        lost = (side == torch.inf) & (log_joint < NOTHING)
        return (side.log() + log_joint).masked_fill(lost, -torch.inf)

    if _is_reached(problem, name, shift):
        # f_minus is the f_plus of the problem with -f in the place of f.
        sided = problem if name == "E1_plus" else problem.negated()
        asked = problem.shifted(theta, shift) if shift else theta
        support, reached = sided.support_plus(asked), name
    elif name == "E1_plus" or (name == "E1_minus" and not problem.nonnegative):
        proposal = None
    start: Density = Reference(problem, y, asked, (reached,))
    if proposal is not None:
        with torch.inference_mode():
            start = proposal(y, asked)
    return Integrand(problem.x.dim, log_value, support), start


def _is_reached(problem: Problem, name: str, shift: float) -> bool:
    """Whether the problem has densities for this side of f - shift that miss no part of it."""
    if name == "E2" or (name == "E1_minus" and problem.nonnegative):
        return False
    if type(problem).shifted is not Problem.shifted:
        return True
    # Those for f: on this side f - shift reaches no further than f does.
    return shift >= 0 if name == "E1_plus" else shift <= 0


def _combined(terms: dict[str, TermEstimate], *, positive: bool, shift: float) -> TermsEstimate:
    ratio, covariance = math.nan, np.full((2, 2), np.nan)
    if terms["E2"].log_value > -math.inf:
        parts, errors = np.zeros(3), np.zeros(3)
        for name, term in terms.items():
            t = TERMS.index(name)
            parts[t] = math.exp(term.log_value - terms["E2"].log_value)
            errors[t] = parts[t] * term.standard_error
        ratio = float(parts[0] - parts[1])
        covariance = np.diag([errors[0] ** 2 + errors[1] ** 2, errors[2] ** 2])
    variance = covariance[0, 0] + ratio**2 * covariance[1, 1]
    return TermsEstimate(
        value=ratio + shift,
        standard_error=math.sqrt(variance),
        covariance=covariance,
        terms=terms,
        draws=sum(t.draws for t in terms.values()),
        positive=positive,
        shift=shift,
    )
