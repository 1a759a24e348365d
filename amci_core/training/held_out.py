r"""How good a proposal is, on held-out cases that never change: what training reports and selects
by."""

from __future__ import annotations

__all__ = ["HeldOut", "Quality"]

import copy
import math
from dataclasses import dataclass

import torch

from amci_core.flows import Trainable
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
        draws: Draws from the proposal, and as many from the reference, for each.
    """

    def __init__(self, target: Target, *, cases: int = 256, draws: int = 256) -> None:
        self.target = target
        generator = torch.Generator().manual_seed(CASES_SEED)
        y, theta = target.cases(cases, uniform=0, generator=generator)
        self.y, self.theta = target.problem.check(y, theta)
        self.draws = draws

    @torch.inference_mode()
    def quality(self, proposal: Trainable) -> Quality:
        """Evaluates a copy of the proposal, in float64 on the CPU.

        A proposal's own draws cannot show what they miss. So half of the points come from the
        target's broad reference h, and with m = (q + h) / 2 expectations under q are means of
        r = q / m, those under g means of v = g / m, both self-normalised: exact where q is.
        """
        density = copy.deepcopy(proposal).to("cpu", torch.float64)(self.y, self.theta)
        generator = torch.Generator().manual_seed(CASES_SEED)
        own, _ = density.draw(self.draws, generator)
        other = self.target.reference(self.y, self.theta, self.draws, generator)
        x = torch.cat([own, other.to(own.dtype)], dim=-2)
        log_q = density.log_prob(x)
        log_h = self.target.log_reference(x, self.y, self.theta)
        log_m = torch.logaddexp(log_q, log_h) - math.log(2)
        log_g = self.target.log_density(x, self.y, self.theta)
        r, v = (torch.softmax(log_t - log_m, -1) for log_t in (log_q, log_g))
        # Any unit of g will do; in this one its mass is about one.
        log_mass = torch.logsumexp(log_g - log_m, -1, keepdim=True) - math.log(x.shape[-2])
        log_w = log_g - log_mass - log_q
        w = log_w.exp()
        mean = (r * w).where(r > 0, 0.0).sum(-1, keepdim=True)
        variance = (r * (w / mean - 1).square()).where(r > 0, 0.0).sum(-1)
        missed = ((log_q == -math.inf) & (v > 0)).any(-1)
        variance = variance.masked_fill(missed, math.inf).nan_to_num(math.inf)
        divergence = (v * log_w).where(v > 0, 0.0).sum(-1) - mean.squeeze(-1).log()
        divergence = divergence.nan_to_num(math.inf)
        levels = torch.tensor([0.5, 0.95, 1.0], dtype=torch.float64)
        median, q95, largest = variance.quantile(levels, interpolation="nearest").tolist()
        return Quality(divergence.median().item(), median, q95, largest)
