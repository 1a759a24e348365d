r"""A coordinate for the response epsilon of a tumour to its treatment."""

from __future__ import annotations

__all__ = ["Response"]

import torch
from torch import Tensor
from torch.distributions.constraints import real, unit_interval
from torch.distributions.transforms import Transform

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


class Response(Transform):
    r"""Carries the line onto the open unit interval by u = logit(epsilon) - h(v(epsilon)).

    v is the size at which the tumour comes to rest, h(v) = v / 75 up to v = 900 and logarithmic
    beyond. After 100 days the tumour is nearly at rest, so that log f is about linear in u where f
    falls: the tail of a logistic density. In logit(epsilon) it falls like a double exponential,
    which takes many knots of a spline.
    """

    domain = real
    codomain = unit_interval
    bijective = True
    sign = 1

    def __init__(self) -> None:
        super().__init__()
        logit = torch.linspace(*TABLE_ENDS, 4097, dtype=torch.float64)
        self._logit, self._line = logit, self._to_line(logit)[0]

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

    def _call(self, x: Tensor) -> Tensor:
        grid, table = self._logit.to(x), self._line.to(x)
        right = torch.searchsorted(table, x.contiguous()).clamp(1, len(table) - 1)
        share = (x - table[right - 1]) / (table[right] - table[right - 1])
        logit = torch.lerp(grid[right - 1], grid[right], share)
        for _ in range(NEWTON_STEPS):
            u, slope = self._to_line(logit)
            logit = logit - (u - x) / slope
        eps = torch.finfo(x.dtype).eps
        return torch.sigmoid(logit).clamp(eps, 1 - eps)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._to_line(y.log() - torch.log1p(-y))[0]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        log_y, log_rest = y.log(), torch.log1p(-y)
        return log_y + log_rest - self._to_line(log_y - log_rest)[1].log()
