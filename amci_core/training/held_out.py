r"""How good a proposal is, on held-out cases that never change: what training reports and selects
by."""

from __future__ import annotations

__all__ = ["HeldOut", "Quality"]

import copy
import math
from dataclasses import dataclass

import torch

from amci_core.flows import FlowProposal
from amci_core.training.targets import Target

CASES_SEED = 2_019_06_09


@dataclass(frozen=True)
class Quality:
    """The quality of a proposal over held-out cases.

    Arguments:
        divergence: Median over cases of KL(g || q), in nats.
        relative_variance: Median over cases of Var_q[w] / E_q[w]^2 for one draw, w = g / q.
        relative_variance_q95: Its 95th percentile over cases.
        relative_variance_max: Its largest value.
    """

    divergence: float
    relative_variance: float
    relative_variance_q95: float
    relative_variance_max: float

    def as_json(self) -> dict[str, float | None]:
        """Field to value, None for an infinite one."""
        return {k: v if math.isfinite(v) else None for k, v in vars(self).items()}

    @classmethod
    def from_json(cls, content: dict[str, float | None]) -> Quality:
        """The inverse of `as_json`."""
        return cls(**{k: math.inf if v is None else v for k, v in content.items()})


class HeldOut:
    """Fixed cases from p(y) p(theta) and a fixed seed for the draws from the proposal.

    Arguments:
        target: What the proposal is trained towards.
        cases: Number of cases.
        draws: Draws from the proposal for each.
    """

    def __init__(self, target: Target, *, cases: int = 256, draws: int = 256) -> None:
        self.target = target
        generator = torch.Generator().manual_seed(CASES_SEED)
        y, theta = target.cases(cases, uniform=0, generator=generator)
        self.y, self.theta = target.problem.check(y, theta)
        self.draws = draws

    @torch.inference_mode()
    def quality(self, proposal: FlowProposal) -> Quality:
        """Evaluates a copy of the proposal, in float64 on the CPU."""
        density = copy.deepcopy(proposal).to("cpu", torch.float64)(self.y, self.theta)
        generator = torch.Generator().manual_seed(CASES_SEED)
        x, log_q = density.draw(self.draws, generator)
        log_w = self.target.log_density(x, self.y, self.theta) - log_q
        w = (log_w - log_w.amax(-1, keepdim=True)).exp()
        relative = w / w.mean(-1, keepdim=True)
        # Where no draw reaches the target there is no number: it counts as infinitely bad.
        divergence = torch.special.xlogy(relative, relative).mean(-1).nan_to_num(torch.inf)
        variance = relative.var(-1).nan_to_num(torch.inf)
        levels = torch.tensor([0.5, 0.95, 1.0], dtype=torch.float64)
        median, q95, largest = variance.quantile(levels, interpolation="nearest").tolist()
        return Quality(divergence.median().item(), median, q95, largest)
