r"""What a problem says of a case, asked once: the truth and the mismatch, or its estimate."""

from __future__ import annotations

__all__ = ["Level", "level", "level_range", "log_truth", "truth"]

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.flows import Proposals
from amci_core.models import Problem
from app.numbers.grids import LEAST
from app.numbers.weighted import FEWEST, weighted

# Cases whose figures are kept, of all problems and visitors together.
KEPT = 4096
# Draws from each proposal for an estimated mismatch.
DRAWS = 1024

Case = tuple[float, ...]


@dataclass(frozen=True)
class Level:
    """KL(g || p(x | y)) with g proportional to |f| p(x | y).

    Arguments:
        value: In nats; NaN where too few draws have met g or the posterior.
        error: Its standard error; 0 where it is known.
    """

    value: float
    error: float


def log_truth(problem: Problem, y: Any = None, theta: Any = None) -> float:
    """log|mu(y, theta)| in nats; NaN where the problem does not know it."""
    return _truth(problem, _case(y), _case(theta))[0]


def truth(problem: Problem, y: Any = None, theta: Any = None) -> float:
    """mu(y, theta), in units of f; NaN where the problem does not know it."""
    log_mu, sign = _truth(problem, _case(y), _case(theta))
    return sign * math.exp(log_mu)


def level(
    problem: Problem, proposals: Proposals | None, y: Any = None, theta: Any = None
) -> Level:
    """The mismatch of a case: as the problem knows it, or else from weighted draws.

    An estimate takes longer than a handle may wait for: some 10 to 50 ms.

    Arguments:
        problem: The problem.
        proposals: What to estimate it with; None for no estimate.
        y: The observation, as `Problem.check` takes it.
        theta: Likewise.
    """
    known = _mismatch(problem, _case(y), _case(theta))
    if known is not None:
        return Level(known, 0.0)
    if proposals is None:
        return Level(math.nan, math.nan)
    return _estimated(problem, proposals, *problem.check(y, theta))


def level_range(problem: Problem, y: Any = None, theta: Any = None) -> tuple[float, float] | None:
    """What the mismatch's handle can reach; None where the problem declares no path."""
    return _range(problem, _case(y), _case(theta))


def _case(value: Any) -> Case | None:
    """A hashable copy of y or theta; None where there is none."""
    if value is None:
        return None
    found = tuple(np.ravel(value.numpy() if isinstance(value, Tensor) else value).tolist())
    return found or None


def _if_known(ask: Callable[..., Any], y: Case | None, theta: Case | None) -> Any:
    """What a problem says of a case that is in range; None for what it does not know."""
    try:
        return ask(y, theta)
    except ValueError:
        return None


@lru_cache(KEPT)
def _truth(problem: Problem, y: Case | None, theta: Case | None) -> tuple[float, float]:
    problem.check(y, theta)
    found = _if_known(problem.log_truth, y, theta)
    if found is None:
        return math.nan, math.nan
    log_mu = float(found)
    if problem.nonnegative:
        return log_mu, float(log_mu > -math.inf)
    return log_mu, float(problem.truth_sign(y, theta))


@lru_cache(KEPT)
def _mismatch(problem: Problem, y: Case | None, theta: Case | None) -> float | None:
    problem.check(y, theta)
    found = _if_known(problem.mismatch, y, theta)
    return None if found is None else float(found)


@lru_cache(KEPT)
def _range(problem: Problem, y: Case | None, theta: Case | None) -> tuple[float, float] | None:
    problem.check(y, theta)
    found: tuple[float, float] | None = _if_known(problem.mismatch_range, y, theta)
    return found


@torch.inference_mode()
def _estimated(problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None) -> Level:
    drawn = weighted(problem, proposals, y, theta, draws=DRAWS)
    w = drawn.weights("posterior")
    g = w * np.exp(drawn.log_abs_f - max(drawn.log_abs_f.max(), LEAST))
    squares = np.square(g).sum()
    if not squares > 0 or min(g.sum() ** 2 / squares, drawn.effective("posterior")) < FEWEST:
        return Level(math.nan, math.nan)
    mean_f, g = g.sum(), g / g.sum()
    # KL = E_g[log|f|] - log E|f|, both ratios of sums over draws; by the delta method, what one
    # draw adds to it.
    log_f = np.where(g > 0, drawn.log_abs_f - drawn.log_abs_f.max(), 0.0)
    mean = float(g @ log_f)
    each = g * (log_f - mean) - g + w
    return Level(max(mean - math.log(mean_f), 0.0), float(np.sqrt(np.square(each).sum())))
