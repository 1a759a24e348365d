r"""How much of a defended proposal is its reference: as much as the held-out cases ask for."""

from __future__ import annotations

__all__ = ["SHARES", "defended_share"]

import copy
import math

import torch

from amci_core.flows import Trainable
from amci_core.flows.broad import Broad
from amci_core.training.data import Target

# Draws that the reference makes cost about their share of all draws where the flow is good.
SHARES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
CASES, DRAWS, SEED = 64, 512, 2_019_06_11


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
    parts = [copy.deepcopy(part).double()(y, theta) for part in (flow, broad)]
    x = torch.cat([part.draw(DRAWS, generator)[0] for part in parts], -2)
    log_own, log_broad = (part.log_prob(x) for part in parts)
    log_g = target.log_density(x, y, theta)
    log_m = torch.logaddexp(log_own, log_broad) - math.log(2)
    log_mean = (log_g - log_m).logsumexp(-1)
    costs = []
    for share in SHARES:
        log_q = torch.logaddexp(log_own + math.log1p(-share), log_broad + math.log(share))
        log_square = torch.where(log_g > -math.inf, 2 * log_g - log_q - log_m, -math.inf)
        costs.append((log_square.logsumexp(-1) - 2 * log_mean).nan_to_num(posinf=700.0).mean())
    return SHARES[int(torch.stack(costs).argmin())]
