r"""How much of a defended proposal is its reference: as much as the held-out cases ask for."""

from __future__ import annotations

__all__ = ["SHARES", "defended_share"]

import copy
import math

import torch
from torch import Tensor

from amci_core.flows import Trainable
from amci_core.flows.broad import Broad
from amci_core.training.data import Target

# Draws that the reference makes cost about their share of all draws where the flow is good.
SHARES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
CASES, DRAWS, SEED = 64, 512, 2_019_06_11
# Coordinates of points that are looked at together: memory.
AT_ONCE = 700_000


@torch.inference_mode()
def defended_share(flow: Trainable, broad: Broad, target: Target) -> float:
    """The share of `SHARES` at which the variance of the weights is least, over held-out cases.

    For every share s, E_{q_s}[w^2] = E_m[g^2 / (q_s m)] with q_s = (1 - s) flow + s reference and
    m the equal mixture of both, from which the draws come. What is least is the mean of the
    logarithm of one plus the relative variance: no single case decides.

    Arguments:
        flow: The trained flow.
        broad: The reference.
        target: What both are for.
    """
    generator = torch.Generator().manual_seed(SEED)
    y, theta = target.problem.check(*target.cases(CASES, uniform=0, generator=generator))
    both = [copy.deepcopy(part).double() for part in (flow, broad)]
    size = max(1, AT_ONCE // (2 * DRAWS * target.problem.x.dim))
    thetas = [None] * CASES if theta is None else theta.split(size)
    costs = [
        _costs(target, both, *here, generator) for here in zip(y.split(size), thetas, strict=False)
    ]
    return SHARES[int(torch.cat(costs, -1).mean(-1).argmin())]


def _costs(
    target: Target,
    both: list[Trainable],
    y: Tensor,
    theta: Tensor | None,
    generator: torch.Generator,
) -> Tensor:
    """log(1 + relative variance) for every share at some cases, (shares, cases)."""
    parts = [part(y, theta) for part in both]
    x = torch.cat([part.draw(DRAWS, generator)[0] for part in parts], -2)
    log_own, log_broad = (part.log_prob(x) for part in parts)
    log_g = target.log_density(x, y, theta)
    log_m = torch.logaddexp(log_own, log_broad) - math.log(2)
    log_mean = (log_g - log_m).logsumexp(-1)
    costs = []
    for share in SHARES:
        log_q = torch.logaddexp(log_own + math.log1p(-share), log_broad + math.log(share))
        log_square = torch.where(log_g > -math.inf, 2 * log_g - log_q - log_m, -math.inf)
        costs.append((log_square.logsumexp(-1) - 2 * log_mean).nan_to_num(posinf=700.0))
    return torch.stack(costs)
