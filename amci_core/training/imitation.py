r"""Maximum likelihood on particles: of centres, and of forms that are compared."""

from __future__ import annotations

__all__ = ["fit_centres", "imitation", "numbers_read", "trial"]

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch

from amci_core.flows import Trainable
from amci_core.flows.mixture import Centres, centres
from amci_core.models import Problem
from amci_core.training.clock import now
from amci_core.training.forms import MANY
from amci_core.training.objectives import ImitateObjective
from amci_core.training.optimizers import OPTIMIZERS
from amci_core.training.targets import Found, Target

CENTRE_STEPS, TRIAL_STEPS = 600, 250
# A step takes long in many coordinates, where particles teach less than weighted draws do.
OF_MANY = 1 / 3
LEARNING_RATE = 3e-3
CLIP = 5.0


def imitation(problem: Problem) -> dict[str, int]:
    """Cases and points in a step of maximum likelihood.

    In few dimensions many points cost no more than a few; where much is read, cases count most.
    """
    if numbers_read(problem) > 4:
        return {"cases": 256, "points": 4}
    dim = problem.x.dim
    return {"cases": 256 if dim <= 3 else 128 if dim <= MANY else 64, "points": 16}


def numbers_read(problem: Problem) -> int:
    """How many numbers y and theta are."""
    return sum(v.dim for v in (problem.y, problem.theta) if v is not None)


def fit_centres(
    target: Target,
    arguments: Mapping[str, Any],
    found: Found,
    generator: torch.Generator,
    steps: int,
    seconds: float,
) -> Centres:
    """Centres that follow particles, after at most so many steps and seconds.

    Arguments:
        target: What they are for.
        arguments: Those of `centres`.
        found: The particles.
        generator: Where all randomness comes from.
        steps: Most steps.
        seconds: Most seconds.
    """
    made = centres(target.problem, **arguments)
    made.start_from(found.line, found.y, found.theta, generator)
    most = _at_most(target.problem, CENTRE_STEPS)
    _imitate(made, target, found, generator, min(most, steps), seconds)
    return made.requires_grad_(False)


def _imitate(
    flow: Trainable,
    target: Target,
    found: Found,
    generator: torch.Generator,
    steps: int,
    seconds: float,
) -> None:
    """Steps of maximum likelihood, with a rate that falls to zero."""
    target = copy.copy(target)
    target.found = found
    objective = ImitateObjective(target, generator, **imitation(target.problem))
    optimizer = OPTIMIZERS["soap"](flow.parameters(), LEARNING_RATE)
    began, done = now(), 0.0
    for step in range(steps):
        done = max(done, step / steps, (now() - began) / max(seconds, 1e-9))
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * (1 + math.cos(math.pi * done)) / 2
        loss = objective.loss(flow)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(flow.parameters(), CLIP)
        if bool(loss.isfinite()):
            optimizer.step()


def _at_most(problem: Problem, steps: int) -> int:
    return steps if problem.x.dim <= MANY else round(OF_MANY * steps)


def trial(
    flow: Trainable,
    target: Target,
    found: Found,
    back: Found,
    generator: torch.Generator,
    steps: int,
    seconds: float,
) -> float:
    """-log q at particles that were held back, after a short training; inf where it failed."""
    most = min(_at_most(target.problem, TRIAL_STEPS), 1 + steps // 4)
    _imitate(flow, target, found, generator, most, seconds)
    with torch.inference_mode():
        log_q = flow(back.y, back.theta).log_prob(back.x[:, :64])
        reference = target.reference(back.y, back.theta).log_prob(back.x[:, :64])
        # As it will be used: defended.
        loss = -torch.logaddexp(log_q, reference + math.log(0.01)).mean()
    return float(loss) if bool(loss.isfinite()) else math.inf
