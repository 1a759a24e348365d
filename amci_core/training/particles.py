r"""Where a term lies: a few hundred particles a case, by sequential tempering from the prior.

For every case (y, theta) particles start from the prior and move towards g = L p(x), with L =
f_plus p(y | x) or p(y | x), through the densities L^b p(x): the exponent b grows as fast as half
of the particles stay effective, particles are resampled by their weights, and moved by steps of
differential evolution, which take their direction and length from other particles. Where f is zero
at all of a case's particles no exponent helps: the case takes those of its neighbours, cases with
nearby y and theta which have reached f, that lie within its own f too.

References:
    Del Moral, Doucet, Jasra, Sequential Monte Carlo samplers, 2006.
    ter Braak, A Markov chain Monte Carlo version of the genetic algorithm Differential Evolution,
    2006.
"""

from __future__ import annotations

__all__ = ["NotReached", "OutOfTime", "find"]

import math

import torch
from torch import Tensor

from amci_core.flows.layers import ToSupport
from amci_core.training.clock import now
from amci_core.training.targets import Found, Target
from amci_core.training.tempered import Tempered

# Moves after every change of the density, and at its end.
MOVES, LAST_MOVES = 6, 20
# Neighbours whose particles a case looks at, and rounds of looking.
NEIGHBOURS, ROUNDS = 12, 60
# Of so many particles of its neighbours a case wants within its own f.
ENOUGH = 4
LEVELS = 200
# Numbers of coordinates that are looked at together: memory.
AT_ONCE = 4_000_000
# Draws of the prior for cases whose f is zero at nearly all of them, in numbers of particles.
TRIES = 32


class NotReached(ValueError):
    """The term is zero at every draw of the prior."""


class OutOfTime(ValueError):
    """The term is positive at draws of the prior, but time ended before particles followed it."""


def find(
    target: Target,
    y: Tensor,
    theta: Tensor | None,
    *,
    charts: ToSupport,
    particles: int,
    generator: torch.Generator,
    seconds: float = math.inf,
) -> Found:
    """Particles that follow the target at given y (cases, D_y) and theta (cases, D_theta).

    Arguments:
        target: What is looked for.
        y: Observations.
        theta: Parameters of f, or None.
        charts: Carries the line onto the range of every coordinate.
        particles: Number of particles of a case, ten at least.
        generator: Where all randomness comes from.
        seconds: After so long what has been found is returned.

    Returns:
        The cases that were reached, with their particles.

    Raises:
        NotReached: the term is zero at all draws of the prior, in every case.
        OutOfTime: no case was reached in time.
    """
    started = now()
    with torch.inference_mode():
        state = Tempered(target, y, theta, charts, particles, generator)

        def late(share: float) -> bool:
            return now() - started > share * seconds

        def temper(chosen: Tensor) -> Tensor:
            """Takes chosen cases to the exponent 1; returns which of all have come there."""
            for level in range(LEVELS):
                rows = (chosen & (state.exponent < 1)).nonzero()[:, 0]
                # The first level is all that f = 0 or 1 needs.
                if not len(rows) or (level and late(0.5)):
                    break
                state.step_up(rows)
                state.move(rows, MOVES)
            return state.exponent >= 1

        common = state.reach(TRIES, started + 0.2 * seconds) >= particles // 50 + 1
        alive = (state.log_L > -math.inf).sum(-1)
        # A case with few of them does better with what its neighbours find.
        many = alive >= particles // 4
        some = alive >= (ENOUGH if (alive >= ENOUGH).any() else 1)
        reached = temper(many if many.any() else some)
        if target.refers:
            reference = target.reference(y, theta)
            reached = state.take_from(reference, reached, worth=particles / 4)
            # In many coordinates thousands of draws of the problem's own are worth a few, which
            # become more by moves.
            if not reached.any():
                reached = state.take_from(target.own(y, theta), reached, worth=ENOUGH)
                state.move(reached.nonzero()[:, 0], LAST_MOVES * (1 + state.dim // 10))
        where = _standard(y, theta)
        for _ in range(ROUNDS):
            rows, givers = (~reached).nonzero()[:, 0], reached.nonzero()[:, 0]
            if not len(rows) or not len(givers) or late(0.8):
                break
            # A case that is reached from near by keeps more of what its neighbours found.
            for least in (particles, particles // 4, ENOUGH):
                taken = _from_neighbours(state, rows, givers, where, least=least)
                if len(taken):
                    break
            else:
                break
            reached[taken] = True
            state.exponent[taken] = 1.0
            state.move(taken, LAST_MOVES)
        reached |= temper(~reached & some)
        # Modes that a neighbour has found are kept for all. In many coordinates particles forget
        # slowly which few of them they come from.
        everyone = reached.nonzero()[:, 0]
        for _ in range(1 + state.dim // 10):
            if len(everyone) < 2 or late(0.9):
                break
            _from_neighbours(state, everyone, everyone, where)
            state.move(everyone, LAST_MOVES if state.dim <= 10 else 50)
        rows = reached.nonzero()[:, 0]
        if not len(rows) and alive.any():
            raise OutOfTime(
                f"time: no particles follow the term after {now() - started:.1f} s, though "
                f"{int((alive > 0).sum())} of {state.cases} cases have draws of the prior where "
                "it is positive; give more minutes"
            )
        if not len(rows):
            raise NotReached(
                f"f: the term is zero at all {particles * state.tries:,} draws of the prior in "
                f"each of {state.cases} cases; let the range of theta begin where f is common, "
                "so that its cases lead to the rare ones, or define sample_defensive and "
                "log_defensive"
            )
        line = state.line[rows]
        x = charts.forward(line, None)[0]
        shares = 1 - len(rows) / state.cases, float(common.double().mean())
    # Copies, which training may differentiate through.
    rows = rows.clone()
    y, theta = y[rows], None if theta is None else theta[rows]
    return Found(y, theta, line.clone(), x.clone(), rows, *shares)


def _standard(y: Tensor, theta: Tensor | None) -> Tensor:
    read = y if theta is None else torch.cat([y, theta], -1)
    read = read - read.mean(0)
    return read / read.square().mean(0).sqrt().clamp(min=1e-6)


def _from_neighbours(
    state: Tempered, rows: Tensor, givers: Tensor, where: Tensor, *, least: int = ENOUGH
) -> Tensor:
    """Particles of the nearest givers, weighted by the case's own target over theirs, resampled.

    Arguments:
        state: All cases.
        rows: Those that look.
        givers: Those that are looked at.
        where: All y and theta, standardized.
        least: How many particles have to fit.

    Returns:
        The rows that got enough of them.
    """
    size = min(NEIGHBOURS, len(givers))
    taken = []
    for part in rows.split(max(1, AT_ONCE // (size * state.n * state.dim))):
        nearest = torch.cdist(where[part], where[givers]).topk(size, largest=False).indices
        chosen = givers[nearest]  # (rows, k)
        some = torch.randint(state.n, (*chosen.shape, state.n), generator=state.generator)
        given = state.line[chosen[..., None], some].flatten(1, 2)  # (rows, k n, D)
        their_L = state.log_L[chosen[..., None], some].flatten(1)
        _, log_L = state.at(given, part)
        log_w = torch.where(log_L > -math.inf, log_L - their_L, -math.inf)
        fits = 1 / log_w.softmax(-1).square().sum(-1) >= least
        # NaN where none fits.
        part, given, log_w = part[fits], given[fits], log_w[fits]
        if not len(part):
            continue
        index = torch.multinomial(
            log_w.softmax(-1), state.n, replacement=True, generator=state.generator
        )
        taken.append((part, given.gather(1, index[..., None].expand(-1, -1, state.dim))))
    # Only now: cases may be each other's neighbours.
    for part, line in taken:
        state.line[part] = line
        state.log_p[part], state.log_L[part] = state.at(line, part)
    return torch.cat([part for part, _ in taken]) if taken else rows[:0]
