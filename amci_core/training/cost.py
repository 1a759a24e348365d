r"""What a training costs, and after how many queries it pays.

A query is AMCI's estimate at one case from T = 1,000 draws. Another method takes T v_other / v
evaluations for the same error, by the variances of a single evaluation relative to mu^2. They are
measured at held-out cases from weighted draws of all components, whose mixture has the density m:

    AMCI            v = n s^2, with the relative standard error s of an estimate from n draws;
    prior draws     E_m[p(x) / m(x) L(x)^2 (f(x) - mu)^2] / (E2 mu)^2, for SNIS;
    MCMC            tau E_m[p(x, y) / m(x) (f(x) - mu)^2] / (E2 mu^2), for a chain's mean of f.

tau is the autocorrelation time of f in evaluations, tau = k Var(mean of f over k) / Var(f) along
short chains from draws of the posterior. At a case where the chains hardly meet f, such as a rare
event, it is the median of the other cases, or without these that of the slowest coordinate: a few
times too long, since visits to rare events are short. Chains of k evaluations show a tau of k at
most, and their burn-in is free. The mean over cases is the method's price; a training with N
evaluations pays after N / (price - T) queries. An AMCI better than four digits counts as one of
four digits.
"""

from __future__ import annotations

__all__ = ["in_words", "prices"]

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from amci_core.estimation import Estimate
from amci_core.estimation.sampling import Sampler
from amci_core.estimators import resolve
from amci_core.estimators.draws import DEFENSIVE_SHARE, Array, log_sum_exp
from amci_core.estimators.mis import pooled
from amci_core.flows import Proposals
from amci_core.flows.posterior import resampled_rows
from amci_core.models import Problem
from amci_core.training import clock
from amci_core.training.particles import Ensemble
from amci_core.training.targets import JointTarget

QUERY, LEAST_ERROR = 1000, 1e-4
SEED, CASES, DRAWS = 2_019_06_12, 30, 2000
# Chains of each case, and their rounds of steps: all kinds of moves are among six.
CHAINS, MOVES, ROUNDS, FEWEST_ROUNDS = 64, 6, 200, 10


@torch.inference_mode()
def prices(
    problem: Problem, proposals: Proposals, *, seconds: float = math.inf
) -> dict[str, float]:
    """Evaluations that other methods take for the error of a query, means over held-out cases.

    Arguments:
        problem: The problem.
        proposals: What AMCI draws from.
        seconds: About how long it may take.

    Returns:
        Of `prior draws` and, if the problem has a y, of `MCMC`; those for which there is time.
    """
    until, target = clock.now() + seconds, JointTarget(problem)
    if 2 * CASES * DRAWS * target.seconds_per_point > seconds:
        return {}
    generator = torch.Generator().manual_seed(SEED)
    y, theta = problem.check(*problem.sample_cases(CASES, generator))
    estimator, sampler = resolve("amci-cv"), Sampler(problem, proposals, y, theta)
    counts = estimator.counts([DRAWS], sampler.present, DEFENSIVE_SHARE)[0]
    drawn = sampler.draw(counts, generator)
    e, x = Estimate(estimator.apply(drawn), False), torch.cat([*sampler.points.values()], -2)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_joint = drawn.log_joint - e.terms["E2"].log_value[:, None]
        log_w = log_joint - pooled(drawn).log_mixture - math.log(DRAWS)
        log_L = np.where(log_w > -np.inf, log_joint - problem.log_prior(x).numpy(), -np.inf)
        log_square = 2 * (np.log(np.abs(drawn.f - e.value[:, None])) - e.log_value[:, None])
        posterior = np.exp(log_sum_exp(log_w + log_square))
        of_draws = np.square(e.relative_standard_error)
        of_query = np.maximum(of_draws * DRAWS / QUERY, LEAST_ERROR**2)
        found = {"prior draws": np.exp(log_sum_exp(log_w + log_L + log_square)) / of_query}
        variance = posterior * np.square(e.value)
    if problem.y is not None:
        rows = np.array([resampled_rows(w) for w in log_w])[:, :: DRAWS // CHAINS][:, :CHAINS]
        starts = x[torch.arange(CASES)[:, None], torch.from_numpy(rows)]
        chains = Ensemble(target, y, theta, CHAINS, generator)
        chains.replace(torch.arange(CASES), target.to_support.inverse(starts, None)[0])
        tau = _autocorrelation_times(chains, variance, until)
        if tau is not None:
            found["MCMC"] = np.maximum(tau, 1.0) * posterior / of_query
    known = ~np.isnan(sum(found.values()))
    return {name: float(price[known].mean()) for name, price in found.items() if known.any()}


def _autocorrelation_times(chains: Ensemble, known: Array, until: float) -> Array | None:
    """tau of each case along chains that follow the posterior, if there is time.

    Of f where the chains show half of its known variance.
    """
    target, theta = chains.target, chains.theta
    centre, total, squares, k = torch.zeros(()), torch.zeros(()), torch.zeros(()), 0
    while k < ROUNDS and clock.now() < until:
        chains.move(torch.arange(len(known)), MOVES)
        x = target.to_support.forward(chains.line, None)[0]
        f = target.problem.f(x, None if theta is None else theta[:, None])
        state = torch.cat([chains.line, f[..., None]], -1)
        centre = centre if k else state.mean(1, keepdim=True)
        total, squares, k = total + state - centre, squares + (state - centre).square(), k + 1
    if k < FEWEST_ROUNDS:
        return None
    means = total / k
    variance = squares.mean(1) / k - means.mean(1).square()
    # Half of the particles move at a time.
    tau = (k * MOVES / 2 * means.var(1) / variance.clamp(min=1e-300)).numpy()
    seen = variance[:, -1].numpy() > known / 2
    otherwise = np.median(tau[seen, -1]) if seen.any() else tau[:, :-1].max(-1)
    return np.where(seen, tau[:, -1], otherwise)


def in_words(cost: Mapping[str, Any]) -> str:
    """What a training has cost, in a sentence.

    Example:
        >>> text = in_words({"evaluations": 3_100_000, "seconds": 61.2, "prices": {"MCMC": 900.0}})
        >>> text.partition("; ")[0]
        '3.1 million density evaluations in 61 s'
        >>> text.partition("; ")[2]
        'pays never against MCMC (1,000 draws each, means over cases)'
    """
    n, against = cost["evaluations"], list[str]()
    for name, price in cost["prices"].items():
        queries = max(math.ceil(n / (price - QUERY)), 1) if price > QUERY else 0
        after = f"after {queries:,} quer{'y' if queries == 1 else 'ies'}" if queries else "never"
        against.append(f"{after} against {name}")
    spent = f"{n / 1e6:.3g} million" if n >= 1e6 else f"{n:,}"
    text = f"{spent} density evaluations in {cost['seconds']:.0f} s"
    pays = f"; pays {', '.join(against)} ({QUERY:,} draws each, means over cases)"
    return text + pays if against else text
