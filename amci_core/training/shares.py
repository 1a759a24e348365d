r"""How much of a proposal is its reference: as much as the held-out cases ask for."""

from __future__ import annotations

__all__ = ["SHARES", "defended_share"]

import copy
import math

import torch
from torch import Tensor

from amci_core.flows import Trainable
from amci_core.flows.mixture import DefensiveComponent
from amci_core.training.targets import Target

# Draws that the reference makes cost about their share of all draws where the flow is good.
SHARES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
CASES, DRAWS, SEED = 64, 512, 2_019_06_11
# Where the density is costly: the least of them.
LEAST_CASES, LEAST_DRAWS = 8, 32
# Coordinates of points that are looked at together: memory.
AT_ONCE = 700_000


@torch.inference_mode()
def defended_share(
    flow: Trainable, broad: Trainable, target: Target, *, points: float = math.inf
) -> float:
    """The share of `SHARES` at which the variance of the weights is least, over held-out cases.

    1 where that of the reference alone is less, and 0 where that of the prior's draws is, or of
    those of the problem's own reference.

    For every share s, E_{q_s}[w^2] = E_m[g^2 / (q_s m)] with q_s = (1 - s) flow + s reference and
    m the equal mixture of both, from which the draws come. What is least is the mean of the
    logarithm of one plus the relative variance: no single case decides.

    Arguments:
        flow: The trained flow.
        broad: The reference.
        target: What both are for.
        points: About how many evaluations of the target there is time for.
    """
    generator = torch.Generator().manual_seed(SEED)
    draws = int(min(DRAWS, max(points / (2 * LEAST_CASES), LEAST_DRAWS)))
    cases = int(min(CASES, max(points / (2 * draws), LEAST_CASES)))
    y, theta = target.problem.check(*target.cases(cases, uniform=0, generator=generator))
    prior = DefensiveComponent(target.problem, target.term)
    parts = [copy.deepcopy(part).double() for part in (flow, broad, prior)]
    size = max(1, AT_ONCE // (2 * draws * target.problem.x.dim))
    thetas = [None] * cases if theta is None else theta.split(size)
    costs = [
        _costs(target, parts, *here, draws, generator)
        for here in zip(y.split(size), thetas, strict=False)
    ]
    return (*SHARES, 1.0, 0.0)[int(torch.cat(costs, -1).mean(-1).argmin())]


def _costs(
    target: Target,
    parts: list[Trainable],
    y: Tensor,
    theta: Tensor | None,
    draws: int,
    generator: torch.Generator,
) -> Tensor:
    """log(1 + relative variance) for every share at some cases, (shares, cases)."""
    densities = [part(y, theta) for part in parts]
    x = torch.cat([density.draw(draws, generator)[0] for density in densities[:2]], -2)
    log_own, log_broad, log_prior = (density.log_prob(x) for density in densities)
    log_g = target.log_density(x, y, theta)
    log_m = torch.logaddexp(log_own, log_broad) - math.log(2)
    log_mean = (log_g - log_m).logsumexp(-1)
    mixtures = [
        torch.logaddexp(log_own + math.log1p(-share), log_broad + math.log(share))
        for share in SHARES
    ]
    costs = []
    for log_q in (*mixtures, log_broad, log_prior):
        log_square = torch.where(log_g > -math.inf, 2 * log_g - log_q - log_m, -math.inf)
        cost = log_square.logsumexp(-1) - 2 * log_mean + math.log(x.shape[-2])
        costs.append(cost.nan_to_num(posinf=700.0))
    return torch.stack(costs)
