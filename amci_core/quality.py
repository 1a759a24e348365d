r"""How well proposals serve their terms, seen also where they hardly ever draw.

A proposal's own draws cannot show what they miss. So points come from every proposal q_j and, for
every term t p(x, y), from a broad reference h_t that surely reaches it. With the mixture m of all
of them, expectations under q_j are means over all points with weights r = q_j / m, and one draw
from q_j has, for w = t p / q_j, the relative variance

    Var_{q_j}[w] / E_{q_j}[w]^2 = sum r (w / W - 1)^2 / sum r,      W = sum r w / sum r,

which is zero to rounding where q_j is proportional to the term.
"""

from __future__ import annotations

__all__ = ["TermQuality", "term_quality"]

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from amci_core.diagnostics import pareto_k
from amci_core.estimators.draws import TERMS, Array
from amci_core.flows import Proposals
from amci_core.models import Problem


@dataclass(frozen=True)
class TermQuality:
    """Quality of the proposal of each of T terms, for a batch (*) of pairs (y, theta).

    Arguments:
        terms: Names of the terms that are drawn for: E1_plus, E1_minus, E2 or some of them.
        log_mean: log E_t in nats, as all points see it, (T, *).
        relative_variance: Of one draw from the term's proposal, (T, *); infinite where the
            proposal is zero on a part of its term.
        pareto_k: k-hat of the proposal's own weights t p / q, (T, *); -inf where these are equal,
            NaN where less than 25 of them are positive.
    """

    terms: tuple[str, ...]
    log_mean: Array
    relative_variance: Array
    pareto_k: Array


class _Reference:
    """A broad density that reaches a term: points of it, and its density at points."""

    def __init__(self, problem: Problem, y: Tensor, theta: Tensor | None, *, prior: bool) -> None:
        self._problem, self._y, self._theta, self._prior = problem, y, theta, prior

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        if not self._prior:
            return self._problem.sample_reference(self._y, self._theta, n, generator)[0]
        batch = self._y.shape[:-1]
        x = self._problem.sample_prior(math.prod(batch) * n, generator)
        return x.reshape(*batch, n, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._prior:
            return self._problem.log_prior(x)
        return self._problem.log_reference(x, self._y, self._theta)


@torch.inference_mode()
def term_quality(
    problem: Problem,
    proposals: Proposals,
    y: Tensor,
    theta: Tensor | None,
    *,
    draws: int,
    generator: torch.Generator,
) -> TermQuality:
    """Quality of all proposals of a problem, from `draws` points of each density.

    Arguments:
        problem: What is integrated.
        proposals: Its proposals.
        y: Observations (*, D_y), as `Problem.check` returns them.
        theta: Parameters of f (*, D_theta), or None.
        draws: Points from each proposal and from each reference.
        generator: Source of random numbers.
    """
    present = [j for j, q in enumerate(proposals.as_tuple) if q is not None]
    densities = [q(y, theta) for q in proposals.as_tuple if q is not None]
    references = [_reference(problem, y, theta, j) for j in present]
    x = torch.cat(
        [
            *(density.draw(draws, generator)[0] for density in densities),
            *(reference.draw(draws, generator).to(y.dtype) for reference in references),
        ],
        dim=-2,
    )
    log_q = [density.log_prob(x) for density in densities]
    log_all = [*log_q, *(reference.log_prob(x) for reference in references)]
    log_m = torch.stack(log_all).logsumexp(0) - math.log(len(log_all))
    log_joint = problem.log_joint(x, y)
    f_plus, f_minus = problem.f_parts(x, theta)
    factors = (f_plus, f_minus, torch.ones_like(f_plus))
    found = []
    for k, j in enumerate(present):
        factor = factors[j]
        assert factor is not None
        own = slice(k * draws, (k + 1) * draws)
        found.append(_judge(log_joint + factor.log(), log_q[k], log_m, own))
    log_mean, variance, k_hat = (np.stack(each) for each in zip(*found, strict=True))
    return TermQuality(tuple(TERMS[j] for j in present), log_mean, variance, k_hat)


def _reference(problem: Problem, y: Tensor, theta: Tensor | None, j: int) -> _Reference:
    of: Callable[[], Problem] = problem.negated if TERMS[j] == "E1_minus" else lambda: problem
    return _Reference(of(), y, theta, prior=TERMS[j] == "E2")


def _judge(log_t: Tensor, log_q: Tensor, log_m: Tensor, own: slice) -> tuple[Array, Array, Array]:
    """log mean, relative variance and k-hat of a term t (*, n) under its proposal, each (*)."""
    log_v = log_t - log_m
    log_mean = log_v.logsumexp(-1) - math.log(log_v.shape[-1])
    log_r = torch.log_softmax(log_q - log_m, -1)
    # In units of the term itself weights are about one; far from where q draws they overflow.
    log_w = log_t - log_q - log_mean[..., None]
    drawn = log_q > -math.inf
    log_rw = (log_r + log_w).where(drawn, -math.inf)
    log_W = log_rw.logsumexp(-1, keepdim=True)
    root_r = (log_r / 2).exp()
    root_rw = (log_rw - log_r / 2 - log_W).where(drawn, -math.inf).exp()
    variance = (root_rw - root_r).square().sum(-1)
    missed = (~drawn & (log_v > -math.inf)).any(-1)
    variance = variance.masked_fill(missed, math.inf).nan_to_num(math.inf, posinf=math.inf)
    return log_mean.numpy(), variance.numpy(), pareto_k(log_w[..., own].exp().numpy())
