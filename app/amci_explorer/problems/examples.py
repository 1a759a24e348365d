r"""What f could be, for a problem at hand: a tail, a window, a smooth utility, a signed payoff."""

from __future__ import annotations

__all__ = ["examples"]

from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor

from amci_core.models import Problem, Variable

DRAWS = 2000
# Quantiles of the prior: its ends, the middle half, and where a tail begins.
QUANTILES = (0.001, 0.25, 0.75, 0.9, 0.999)
# theta is compared with x where so much of its range lies among the prior's draws, and where that
# part is no speck of them.
WITHIN, PART = 0.4, 0.1


@lru_cache(64)
def examples(problem: Problem) -> Mapping[str, str]:
    """Expressions that fit x, theta and their ranges, by what they are."""
    x = problem.sample_prior(DRAWS, torch.Generator().manual_seed(0)).double()
    q = torch.quantile(x, torch.tensor(QUANTILES, dtype=x.dtype), dim=0)
    lower, upper, tail = q[1:-1, 0].tolist()
    scale = _short(max(upper - lower, 1e-9))
    theta = problem.theta
    if theta is not None and theta.dim == x.shape[-1] > 1 and _alike(theta, q):
        return {
            "a tail": "all(x > theta)",
            "a window": f"all(abs(x - theta) < {scale})",
            "a smooth utility": f"exp(-norm(x - theta) / {scale})",
            "a signed payoff": f"max(mean(x) - mean(theta), 0) - {_short(0.2 * float(scale))}",
        }
    if theta is not None and theta.dim == 1 and _alike(theta, q):
        above = centre = "theta1"
    else:
        above, centre = _short(tail), _short((lower + upper) / 2)
    away = f"x1 + {centre[1:]}" if centre.startswith("-") else f"x1 - {centre}"
    return {
        "a tail": f"x1 > {above}",
        "a window": f"abs({away}) < {_short(0.4 * (upper - lower))}",
        "a smooth utility": f"exp(-abs({away}) / {scale})",
        "a signed payoff": f"max({away}, 0) - {_short(0.15 * (upper - lower))}",
    }


def _alike(theta: Variable, q: Tensor) -> bool:
    """Whether theta is a place among the values of x."""
    start, end = theta.typical_range
    for low, high in zip(q[0].tolist(), q[-1].tolist(), strict=True):
        common = min(end, high) - max(start, low)
        if common < WITHIN * (end - start) or common < PART * (high - low):
            return False
    return True


def _short(value: float) -> str:
    """A number of two digits, never in the form 1e-5 where it can be helped."""
    text = f"{float(f'{value:.2g}'):.10f}".rstrip("0").rstrip(".")
    return text if float(text) or not value else f"{value:.2g}"
