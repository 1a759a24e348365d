r"""A coordinate for the response epsilon of a tumour to its treatment."""

from __future__ import annotations

__all__ = ["Response"]

import math

import torch
from torch import Tensor

from amci_core.flows.density import ConditionalLayer
from amci_core.models.cancer import HALF_SUCCESS, SOFTNESS
from amci_core.models.tumour import LAMBDA, PHI, PSI

# The size at which a tumour comes to rest is v = LARGEST_REST exp(-RATE epsilon): both right-hand
# sides of eq. (cancer-ode) are zero.
LARGEST_REST = (PHI / PSI) ** 1.5
RATE = 1.5 / LAMBDA
UNIT = SOFTNESS / 2
# Beyond this size f is below 1e-3, and sizes count by their logarithm.
LINEAR_UP_TO = 3 * HALF_SUCCESS
NEWTON_STEPS = 4
TABLE_ENDS = (-40.0, 40.0)


class Response(ConditionalLayer):
    r"""Carries the line onto the open unit interval by u = logit(epsilon) - h(v(epsilon)).

    v is the size at which the tumour comes to rest, h(v) = v / 75 up to v = 900 and logarithmic
    beyond. After 100 days the tumour is nearly at rest, so that log f is about linear in u where f
    falls: the tail of a logistic density. In logit(epsilon) it falls like a double exponential,
    which takes many knots of a spline.
    """

    width = 0

    def __init__(self) -> None:
        super().__init__()
        logit = torch.linspace(*TABLE_ENDS, 4097, dtype=torch.float64)
        self.register_buffer("_logit", logit, persistent=False)
        self.register_buffer("_line", self._to_line(logit)[0], persistent=False)

    @staticmethod
    def _to_line(logit: Tensor) -> tuple[Tensor, Tensor]:
        """u, and du / dlogit, from the log-odds of epsilon."""
        epsilon = torch.sigmoid(logit)
        rest = LARGEST_REST * torch.exp(-RATE * epsilon)
        far = rest > LINEAR_UP_TO
        beyond = LINEAR_UP_TO * (1 + (rest / LINEAR_UP_TO).log())
        height = torch.where(far, beyond, rest) / UNIT
        slope = torch.where(far, LINEAR_UP_TO, rest) / UNIT * RATE
        return logit - height, 1 + slope * epsilon * torch.sigmoid(-logit)

    def _forward(self, z: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        grid, table = self._logit.to(z.dtype), self._line.to(z.dtype)
        right = torch.searchsorted(table, z.contiguous()).clamp(1, len(table) - 1)
        share = (z - table[right - 1]) / (table[right] - table[right - 1])
        logit = torch.lerp(grid[right - 1], grid[right], share)
        for _ in range(NEWTON_STEPS):
            u, slope = self._to_line(logit)
            logit = logit - (u - z) / slope
        slope = self._to_line(logit)[1]
        eps = torch.finfo(z.dtype).eps
        epsilon = torch.sigmoid(logit).clamp(eps, 1 - eps)
        log_det = epsilon.log() + torch.log1p(-epsilon) - slope.log()
        return epsilon, log_det.squeeze(-1)

    def _inverse(self, x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        inside = (x > 0) & (x < 1)
        safe = x.where(inside, 0.5)
        log_x, log_rest = safe.log(), torch.log1p(-safe)
        u, slope = self._to_line(log_x - log_rest)
        log_det = (slope.log() - log_x - log_rest).where(inside, -math.inf)
        return u, log_det.squeeze(-1)
