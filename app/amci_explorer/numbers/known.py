r"""What a problem says of a case, asked once: the truth and the mismatch, or its estimate."""

from __future__ import annotations

__all__ = ["Level", "Mu", "exact", "level", "level_range", "log_truth"]

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.numbers.weighted import FEWEST, LEAST, weighted
from amci_explorer.problems.settings import Point

# Figures of cases that are kept, of all problems and visitors together.
KEPT = 16_384
# Draws from each proposal for an estimated mismatch.
DRAWS = 1024


@dataclass(frozen=True)
class Level:
    """KL(g || p(x | y)) with g proportional to |f| p(x | y).

    Arguments:
        value: In nats; NaN where too few draws have met g or the posterior.
        error: Its standard error; 0 where it is known.
    """

    value: float
    error: float


@dataclass(frozen=True)
class Mu:
    """What estimates of a case are compared with.

    Arguments:
        value: mu, in units of f; NaN where nothing is known.
        error: Its relative standard error; 0 where it is exact.
        name: The truth, or a reference value from another computation.
    """

    value: float = math.nan
    error: float = 0.0
    name: str = "truth"


def exact(problem: Problem, y: Any = None, theta: Any = None) -> Mu:
    """mu(y, theta) as the problem knows it."""
    value = _known(problem, "truth", _case(y), _case(theta))
    return Mu() if value is None else Mu(float(value), float(problem.truth_error(y, theta)))


def log_truth(problem: Problem, y: Any = None, theta: Any = None) -> float:
    """log|mu(y, theta)| in nats; NaN where the problem does not know it."""
    known = _known(problem, "log_truth", _case(y), _case(theta))
    return math.nan if known is None else float(known[0])


def level(
    problem: Problem, proposals: Proposals | None, y: Any = None, theta: Any = None
) -> Level:
    """The mismatch of a case: as the problem knows it, or else from weighted draws.

    An estimate takes longer than a handle may wait for: some 10 to 50 ms.

    Arguments:
        problem: The problem.
        proposals: What to estimate it with; None for no estimate.
        y: The observation, as `Problem.check` takes it.
        theta: The parameter of f, (D_theta,).
    """
    known = _known(problem, "mismatch", _case(y), _case(theta))
    if known is not None:
        return Level(float(known), 0.0)
    if proposals is None:
        return Level(math.nan, math.nan)
    return _estimated(problem, proposals, *problem.check(y, theta))


def level_range(problem: Problem, y: Any = None, theta: Any = None) -> tuple[float, float] | None:
    """What the mismatch's handle can reach; None where the problem declares no path."""
    found: tuple[float, float] | None = _known(problem, "mismatch_range", _case(y), _case(theta))
    return found


def _case(value: Any) -> Point | None:
    """A hashable copy of y or theta; None where there is none."""
    if value is None:
        return None
    return tuple(np.ravel(np.asarray(value)).tolist()) or None


@lru_cache(KEPT)
def _known(problem: Problem, what: str, y: Point | None, theta: Point | None) -> Any:
    """What a problem says of a case, which must be in range; None for what it does not know."""
    problem.check(y, theta)
    try:
        return getattr(problem, what)(y, theta)
    except ValueError:
        return None


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
