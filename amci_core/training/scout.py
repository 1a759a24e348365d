r"""Before a proposal is trained: where its term lies, what reaches it, which form suits.

All of it starts from particles that `find` gives for many cases at once. Centres with scales are
fitted to them, and make the reference broad and near; the directions in which they differ most
from the prior are the axes of rotated forms; and a short training on them compares the forms.
"""

from __future__ import annotations

__all__ = ["Known", "Scouted", "joined", "look", "scout"]

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from amci_core.flows import FAMILIES, Trainable
from amci_core.flows.layers import ComposedFlow, ToSupport
from amci_core.flows.mixture import DefensiveComponent, Mixture
from amci_core.models import Problem
from amci_core.training.clock import now
from amci_core.training.forms import (
    MANY,
    NETWORK,
    Choices,
    bounded,
    charts_of,
    coordinates_of,
    forms,
)
from amci_core.training.imitation import fit_centres, numbers_read, trial
from amci_core.training.particles import NotReached, OutOfTime, find
from amci_core.training.targets import TARGETS, Found, Target, f_varies

# Numbers of particles in all stay below this many coordinates.
MOST = 6_000_000
MOST_OF_MANY = 1_500_000
PARTICLES = 256
# Cases for each number that a proposal reads, and at most.
CASES, MOST_CASES = 256, 2048
BLOCK, LEAST_BLOCK = 256, 16
# Evaluations of the density for each particle, about; particles of costly densities; draws of the
# paper's data set, where even these take too long.
EVALUATIONS, FEW_PARTICLES, DRAWN = 80, 64, 20_000
# Shares of the time: looking for modes, fitting centres; the rest is for trying forms.
LOOKING, FITTING = 0.4, 0.15
COMPONENTS = 8
# Of the cases, this share judges what the others have taught.
HELD_BACK = 1 / 8
# Of the time for modes, the share of finding out what a point takes.
TIMING = 0.05


@dataclass(frozen=True)
class Scouted:
    """What is known of a term before its proposal is trained.

    Arguments:
        target: The target, with its particles and its reference.
        form: The name of the form that is trained.
        family: Its family and its arguments.
        found: The arguments of the centres.
        start: Weights that its training starts from.
        tried: Mean -log q at held-back particles after a short training, in nats, by form.
        seconds: How long it took.
    """

    target: Target
    broad: Trainable
    form: str
    family: Mapping[str, Any]
    found: Mapping[str, Any]
    start: Mapping[str, Tensor]
    tried: Mapping[str, float]
    seconds: float


@dataclass(frozen=True)
class Known:
    """A proposal that an earlier training had reached.

    Arguments:
        form: The name of its form.
        family: Its family and its arguments.
        found: The arguments of its centres.
        reached: The proposal.
    """

    form: str
    family: Mapping[str, Any]
    found: Mapping[str, Any]
    reached: Mixture


def scout(
    problem: Problem,
    name: str,
    *,
    generator: torch.Generator,
    seconds: float = math.inf,
    steps: int = 10**7,
    say: Callable[[str], None] = lambda what: None,
    known: Known | None = None,
    choices: Choices | None = None,
) -> Scouted:
    """Looks for where a term lies, and for the form that suits it.

    Arguments:
        problem: The problem.
        name: Which proposal, such as `q1_plus`.
        generator: Where all randomness comes from.
        seconds: About how long it may take.
        steps: Steps of the training that follows: with few of them little is looked for.
        say: Is told what is being done.
        known: What was trained before: its form and its reference are kept.
        choices: What is chosen of its form.

    Raises:
        ValueError: no draw of the prior reaches the term, and the problem has no reference.
    """
    began, until = now(), now() + seconds
    target = TARGETS[name](problem)
    own = target.problem
    say("looks for modes")
    if name != "q2" and own.y is not None and own.theta is not None:
        joint, limit = TARGETS["q2"](problem), LOOKING / 2 * seconds
        posterior = look(joint, generator, steps=min(steps, 2 * BLOCK), seconds=limit)
        if not f_varies(own, posterior, generator):
            target.posterior = posterior
    limit = LOOKING * seconds - (now() - began)
    target.found = found = look(target, generator, steps=steps, seconds=limit)
    if known is not None:
        reached = copy.deepcopy(known.reached).float()
        target.refer_to(reached.defence)
        start, taken = reached.flow.state_dict(), now() - began
        same = known.form, known.family, known.found
        return Scouted(target, reached.defence, *same, start, {}, taken)
    kept, back = _split(found)
    say("fits centres")
    arguments = {
        **NETWORK,
        "coordinates": coordinates_of(own),
        "components": COMPONENTS,
        "reads_theta": name != "q2",
    }
    share = FITTING / (1 - LOOKING) * (until - now())
    around = fit_centres(target, arguments, kept, generator, 4 * steps, share)
    broad = Mixture(DefensiveComponent(own, target.term), around, 0.5)
    target.refer_to(broad)
    candidates = forms(own, reads_theta=name != "q2", choices=choices)
    tried, weights = dict[str, float](), dict[str, Mapping[str, Tensor]]()
    for form, family in candidates.items():
        if tried and now() > until:
            break
        if len(candidates) > 1:
            say(f"tries {form}")
        made: Trainable = FAMILIES[family["family"]](own, **family["arguments"])
        made.initialize(torch.Generator().manual_seed(0))
        if isinstance(made, ComposedFlow) and form == "rotated":
            made.whiten(*_axes(arguments["coordinates"], kept))
        if len(candidates) == 1:
            tried[form] = math.nan
        else:
            share = (until - now()) / (len(candidates) - len(tried))
            tried[form] = trial(made, target, kept, back, generator, steps, share)
        weights[form] = made.state_dict()
    best = min(tried, key=lambda form: (tried[form], form != next(iter(tried))))
    taken = now() - began
    return Scouted(target, broad, best, candidates[best], arguments, weights[best], tried, taken)


def look(
    target: Target, generator: torch.Generator, *, steps: int, seconds: float = math.inf
) -> Found:
    """Particles of cases from p(y) p(theta) and, where y and theta have ends, from all of them."""
    problem = target.problem
    many = problem.x.dim > MANY
    particles, most = (PARTICLES // 2, MOST_OF_MANY) if many else (PARTICLES, MOST)
    cases = min(
        CASES * (1 + numbers_read(problem)),
        MOST_CASES,
        most // (particles * problem.x.dim),
        64 + steps,
    )
    if problem.y is None and problem.theta is None:
        cases = 16
    charts = charts_of(problem, coordinates_of(problem))
    until, parts, block = now() + seconds, list[Found](), BLOCK
    if math.isfinite(seconds):
        each = EVALUATIONS * target.seconds_per_point(TIMING * seconds)
        if LEAST_BLOCK * particles * each > seconds / 2:
            particles = FEW_PARTICLES
        if LEAST_BLOCK * particles * each > seconds / 2:
            return _drawn(target, charts, until, generator)
        block = min(BLOCK, max(LEAST_BLOCK, int(seconds / 2 / (particles * each))))
    # Block by block: with little time there are fewer cases, each of them reached.
    while True:
        began, block = now(), min(block, cases)
        spread = block // 4 if bounded(problem) else 0
        y, theta = target.cases(block - spread, uniform=spread, generator=generator)
        cases -= block
        failed: ValueError | None = None
        try:
            parts.append(
                find(
                    target,
                    y,
                    theta,
                    charts=charts,
                    particles=particles,
                    generator=generator,
                    seconds=until - began,
                )
            )
        except (NotReached, OutOfTime) as error:
            failed = error
        taken = now() - began
        if math.isfinite(seconds):
            block = min(BLOCK, int(block * (until - now()) / max(taken, 1e-9)))
        if cases < 1 or block < LEAST_BLOCK:
            break
    if failed is not None and not parts:
        raise failed
    return joined(parts)


def _drawn(target: Target, charts: ToSupport, until: float, generator: torch.Generator) -> Found:
    """One point for each case, from the draws of the paper's data sets: no density is evaluated.

    So (y, theta) come in proportion to the term, and x follows it.
    """
    n = 64
    while True:
        began = now()
        sample = target.sample(n, generator)
        if n == DRAWN or 5 * (now() - began) > until - now():
            break
        n = min(4 * n, DRAWN)
    if not (sample.log_r > -math.inf).any():
        zero = f"the term is zero at all {n:,} draws of the prior"
        begin = "let the range of theta begin where f is common"
        if n < DRAWN:
            raise OutOfTime(f"time: {zero} that it allowed; give more minutes, or {begin}")
        raise NotReached(f"f: {zero}; {begin}, or define sample_training")
    index = torch.multinomial(sample.log_r.softmax(0), n, replacement=True, generator=generator)
    y, x = sample.y[index].float(), sample.x[index].float()[:, None]
    theta = None if sample.theta is None else sample.theta[index].float()
    line = charts.inverse(x, None)[0]
    return Found(y, theta, line, x, index, missed=0.0, common=1.0)


def joined(parts: list[Found], most: int | None = None) -> Found:
    """The cases of all parts, at most so many of them; their particles are as many everywhere."""
    n = min(part.x.shape[1] for part in parts)

    def all_of(name: str) -> Any:
        return torch.cat([getattr(part, name) for part in parts])[:most]

    def particles(name: str) -> Any:
        return torch.cat([getattr(part, name)[:, :n] for part in parts])[:most]

    def mean_of(name: str) -> float:
        return float(sum(getattr(part, name) for part in parts)) / len(parts)

    theta = None if parts[0].theta is None else all_of("theta")
    return Found(
        all_of("y"),
        theta,
        particles("line"),
        particles("x"),
        all_of("rows"),
        mean_of("missed"),
        mean_of("common"),
    )


def _split(found: Found) -> tuple[Found, Found]:
    """Cases to learn from, and some to judge by."""
    back = max(1, int(HELD_BACK * len(found.y)))
    if len(found.y) < 2:
        return found, found
    return _rows(found, slice(back, None)), _rows(found, slice(back))


def _rows(found: Found, rows: slice) -> Found:
    theta = None if found.theta is None else found.theta[rows]
    parts = found.y[rows], theta, found.line[rows], found.x[rows], found.rows[rows]
    return Found(*parts, found.missed, found.common)


def _axes(coordinates: list[dict[str, Any]], found: Found) -> tuple[Tensor, Tensor]:
    """The linear map of a rotated form: directions in which particles differ most from the prior.

    These are the eigenvectors of the particles' second moments, in the prior's units, whose
    eigenvalues are farthest from one; over all cases at once, since single ones have few
    particles.
    """
    centre, scale = (
        found.line.new_tensor([c[k] for c in coordinates]) for k in ("centre", "scale")
    )
    z = ((found.line - centre) / scale).flatten(0, 1)
    values, vectors = torch.linalg.eigh((z.T @ z / len(z)).double())
    order = (values - 1).abs().argsort(descending=True)
    return centre, scale[:, None] * vectors[:, order].to(scale)
