r"""How a proposal's automatic training begins: particles, a defensive density, a form.

Particles are drawn from the term by sequential Monte Carlo. Student-t components are fitted to
them, which make the defensive density broad and near; the directions in which particles differ
most from the prior are the axes of rotated forms; and a short training on them compares the forms.
"""

from __future__ import annotations

__all__ = ["initialize"]

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from amci_core.flows import FAMILIES, Trainable
from amci_core.flows.mixture import Centres, DefensiveComponent, Mixture
from amci_core.flows.reading import reading_of
from amci_core.flows.supports import coordinates_of
from amci_core.models import Problem
from amci_core.training import clock
from amci_core.training.choices import Choices, default_forms
from amci_core.training.objectives import mean_loss
from amci_core.training.particles import MANY, draw_particles, numbers_read
from amci_core.training.targets import JointTarget, Particles, Target
from amci_core.training.trainer import OPTIMIZERS, usable

# Shares of the time: of particles, and of fitting components; the rest is for comparing forms.
DRAWING, FITTING = 0.4, 0.15
# Cases for particles of the posterior, with few steps.
POSTERIOR_CASES = 512
NETWORK: Mapping[str, Any] = {"hidden": [64, 64], "activation": "silu"}
COMPONENTS = 8
# The share of the cases on which forms are compared, and the particles of each.
HELD_BACK, COMPARED = 1 / 8, 64
# Steps of fitting components, and of comparing forms. In many coordinates, where a step takes long
# and particles teach less than weighted draws do, a third of them.
CENTRE_STEPS, TRIAL_STEPS, OF_MANY = 600, 250, 1 / 3
TRIAL_RATE, TRIAL_CLIP = 3e-3, 5.0
# The defensive density's weight until it is chosen.
WEIGHT = 0.01


@dataclass(frozen=True)
class Start:
    """Where the training of a proposal begins.

    Arguments:
        form: The form's name.
        family: Its family and arguments.
        weights: Weights to start from.
        components: Arguments of `Centres`, the Student-t components near the particles.
        prior: The problem's own defensive density, in float64.
        defensive: Its mixture with the components, in float64.
    """

    form: str
    family: dict[str, Any]
    weights: Mapping[str, Tensor]
    components: dict[str, Any]
    prior: Trainable
    defensive: Trainable


def initialize(
    target: Target,
    generator: torch.Generator,
    *,
    choices: Choices,
    steps: int,
    seconds: float,
    say: Callable[[str], None],
) -> Start:
    """Draws particles, fits the defensive density to them, and compares forms on them.

    The target has particles and its defensive density then.

    Arguments:
        target: What the proposal is trained towards.
        generator: Source of all randomness.
        choices: The form.
        steps: Steps of the training that follows: with few of them everything is short.
        seconds: About how long it may take.
        say: Called with messages.

    Raises:
        NotReached: no particle reached the term.
    """
    problem, until = target.problem, clock.now() + seconds
    of_steps = OF_MANY if problem.x.dim > MANY else 1.0
    say("draws particles")
    _draw(target, generator, steps, seconds)
    fitted = held_back = target.particles
    if (cases := len(fitted.y)) > 1:
        first = max(1, int(HELD_BACK * cases))
        fitted, held_back = fitted.take(slice(first, None)), fitted.take(slice(first))

    say("fits Student-t components")
    coordinates = coordinates_of(problem)
    components = {
        **NETWORK,
        "coordinates": coordinates,
        "components": COMPONENTS,
        "reads_theta": target.reads_theta,
    }
    if (reading := reading_of(problem)) is not None:
        components["reading"] = reading
    centres = Centres(problem, **components)
    centres.start_from(fitted.line, fitted.y, fitted.theta, generator)
    limit = FITTING / (1 - DRAWING) * (until - clock.now())
    size = pretraining(problem)
    _fit(centres, fitted, size, generator, min(round(of_steps * CENTRE_STEPS), 4 * steps), limit)
    prior = DefensiveComponent(problem, target.term)
    defensive = Mixture(prior, centres, 0.5)
    target.refer_to(defensive)

    candidates = default_forms(problem, reads_theta=target.reads_theta, choices=choices)
    losses, weights = dict[str, float](), dict[str, Mapping[str, Tensor]]()
    for form, family in candidates.items():
        if losses and clock.now() > until:
            break
        flow: Any = FAMILIES[family["family"]](problem, **family["arguments"])
        flow.initialize(torch.Generator().manual_seed(0))
        if form == "rotated":
            flow.whiten(*_axes(coordinates, fitted))
        flow.start_near(fitted.x[:, :COMPARED], fitted.y, fitted.theta)
        if len(candidates) > 1:
            say(f"tries {form}")
            trial = min(round(of_steps * TRIAL_STEPS), 1 + steps // 4)
            limit = (until - clock.now()) / (len(candidates) - len(losses))
            _fit(flow, fitted, size, generator, trial, limit)
        losses[form] = _held_out_loss(flow, target, held_back)
        weights[form] = flow.state_dict()
    # The first, which is the simplest, where none is better.
    form = min(losses, key=lambda form: losses[form])
    densities = usable(prior), usable(defensive)
    return Start(form, candidates[form], weights[form], components, *densities)


def pretraining(problem: Problem) -> dict[str, int]:
    """Cases and points in a step of maximum likelihood.

    In few dimensions many points cost no more than a few; where much is read, cases count most.
    """
    if numbers_read(problem) > 4:
        return {"cases": 256, "points": 4}
    dim = problem.x.dim
    return {"cases": 256 if dim <= 3 else 128 if dim <= MANY else 64, "points": 16}


def _draw(target: Target, generator: torch.Generator, steps: int, seconds: float) -> None:
    """Draws the target's particles; and those of the posterior if f hardly varies over them."""
    until, problem = clock.now() + DRAWING * seconds, target.problem
    if target.reads_theta and problem.y is not None and problem.theta is not None:
        limit, few = DRAWING / 2 * seconds, min(steps, POSTERIOR_CASES)
        posterior = draw_particles(JointTarget(problem), generator, steps=few, seconds=limit)
        if not target.f_varies(posterior, generator):
            target.posterior = posterior
    limit = until - clock.now()
    target.particles = draw_particles(target, generator, steps=steps, seconds=limit)


def _fit(
    flow: Trainable,
    particles: Particles,
    size: Mapping[str, int],
    generator: torch.Generator,
    steps: int,
    seconds: float,
) -> None:
    """Steps of maximum likelihood on particles, with a rate that falls to zero."""
    optimizer = OPTIMIZERS["soap"](flow.parameters(), TRIAL_RATE)
    began, done = clock.now(), 0.0
    for step in range(steps):
        done = max(done, step / steps, (clock.now() - began) / max(seconds, 1e-9))
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = TRIAL_RATE * (1 + math.cos(math.pi * done)) / 2
        loss = mean_loss(flow, particles, generator, **size)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(flow.parameters(), TRIAL_CLIP)
        if bool(loss.isfinite()):
            optimizer.step()


@torch.inference_mode()
def _held_out_loss(flow: Trainable, target: Target, particles: Particles) -> float:
    """Mean -log q at particles, q being mixed with the defensive density; inf for NaN."""
    y, theta, x = particles.y, particles.theta, particles.x[:, :COMPARED]
    log_h = target.reference(y, theta).log_prob(x)
    loss = -torch.logaddexp(flow(y, theta).log_prob(x), log_h + math.log(WEIGHT)).mean()
    return float(loss) if bool(loss.isfinite()) else math.inf


def _axes(coordinates: list[dict[str, Any]], particles: Particles) -> tuple[Tensor, Tensor]:
    """The linear map of a rotated form: directions in which particles differ most from the prior.

    These are the eigenvectors of the particles' second moments, in the prior's units, whose
    eigenvalues are farthest from one; over all cases at once, since single ones have few
    particles.
    """
    line = particles.line
    centre, scale = (line.new_tensor([c[k] for c in coordinates]) for k in ("centre", "scale"))
    z = ((line - centre) / scale).flatten(0, 1)
    values, vectors = torch.linalg.eigh((z.T @ z / len(z)).double())
    order = (values - 1).abs().argsort(descending=True)
    return centre, scale[:, None] * vectors[:, order].to(scale)
