r"""What f could be, for a problem at hand: a tail, a window, a smooth utility, a signed payoff."""

from __future__ import annotations

__all__ = ["examples"]

from collections.abc import Mapping
from functools import lru_cache

import torch

from amci_core.models import Problem


@lru_cache(64)
def examples(problem: Problem) -> Mapping[str, str]:
    """Expressions that fit x, theta and their ranges, by what they are."""
    x = problem.sample_prior(2000, torch.Generator().manual_seed(0)).double()
    levels = torch.tensor([0.001, 0.25, 0.75, 0.9, 0.999], dtype=x.dtype)
    low, lower, upper, tail, high = torch.quantile(x, levels, dim=0)[:, 0].tolist()
    width = max(upper - lower, 1e-9)
    theta, scale = problem.theta, _short(width)
    # Whether theta is a place among the values of x.
    alike = theta is not None and bool(low < theta.typical.mean(0)[0] < high)
    if theta is not None and alike and theta.dim == x.shape[-1] > 1:
        return {
            "a tail": "all(x > theta)",
            "a window": f"all(abs(x - theta) < {scale})",
            "a smooth utility": f"exp(-norm(x - theta) / {scale})",
            "a signed payoff": f"max(mean(x) - mean(theta), 0) - {_short(0.2 * width)}",
        }
    above, centre = _short(tail), _short((lower + upper) / 2)
    if theta is not None and alike and theta.dim == 1:
        above = centre = "theta1"
    away = f"x1 + {centre[1:]}" if centre.startswith("-") else f"x1 - {centre}"
    return {
        "a tail": f"x1 > {above}",
        "a window": f"abs({away}) < {_short(0.4 * width)}",
        "a smooth utility": f"exp(-abs({away}) / {scale})",
        "a signed payoff": f"max({away}, 0) - {_short(0.15 * width)}",
    }


def _short(value: float) -> str:
    """A number of two digits, never in the form 1e-5 where it can be helped."""
    text = f"{float(f'{value:.2g}'):.10f}".rstrip("0").rstrip(".")
    return text if float(text) or not value else f"{value:.2g}"
