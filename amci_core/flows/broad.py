r"""Broad references, and proposals that are defended by one.

The reference of a term is the problem's own, which is the prior where none is declared. Where f or
the likelihood lies far out in the prior, centres and scales that were found are mixed with it:

    h = (1 - c) h_problem + c sum_k v_k(y, theta) t_k(x; y, theta),

t_k being products of Student's t about centres that a network reads off y and theta. A proposal
defended by it is q = (1 - s) flow + s h: where g / h is bounded, weights g / q are too.

References:
    Hesterberg, Weighted average importance sampling and defensive mixture distributions, 1995.
    Bishop, Mixture density networks, 1994.
"""

from __future__ import annotations

__all__ = ["Broad", "Centres", "Defensive", "Mixed", "broad_reference", "centres", "defensive"]

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from amci_core._arguments import check_count, check_number
from amci_core.flows.carried import Charts
from amci_core.flows.conditioner import Conditioner, flat_cases
from amci_core.flows.density import (
    ConditionalDensity,
    Density,
    Trainable,
    TrainableDensity,
    log_sum,
)
from amci_core.flows.supports import Line, kind_of
from amci_core.models.base import Problem
from amci_core.models.defensive import DefensiveDensity

# Degrees of freedom of the centres' tails.
FREEDOM = 5.0
# Of a reference with centres, the share of the centres.
SHARE_OF_CENTRES = 0.5
# The logarithm of a scale is limited to +- this, softly.
SPREAD = 6.0
# Of the linear regressions that centres start from: the ridge for each case, and the share of the
# cases, the nearest.
RIDGE, NEAR = 1e-6, 0.1


class Centres(Trainable):
    """A mixture of several centres with scales, which a network reads off y and theta.

    The network bends linear maps, one a centre, in units of how far x lies from what these give:
    where y tells nearly all of x, no network would be as exact.

    Arguments:
        conditioner: The network.
        charts: Carries the line onto the range of every coordinate of x.
        about: About where and how far coordinates spread on the line, (2, D).
        components: Number of centres.
    """

    about: Tensor

    def __init__(
        self, conditioner: Conditioner, charts: Charts, about: Tensor, components: int
    ) -> None:
        super().__init__()
        self.conditioner, self.charts, self.components = conditioner, charts, components
        self.register_buffer("about", about)
        dim = about.shape[1]
        # Where the centres start from: the network's last layer starts near zero.
        self.start = nn.Parameter(torch.zeros(components, dim))
        self.log_width = nn.Parameter(torch.zeros(components, dim))
        read = len(conditioner.centre) or 1
        self.slope = nn.Parameter(torch.zeros(components, read, dim))

    def initialize(self, generator: torch.Generator) -> None:
        self.conditioner.initialize(generator)
        with torch.no_grad():
            self.start.normal_(generator=generator)

    def start_from(
        self, line: Tensor, y: Tensor, theta: Tensor | None, generator: torch.Generator
    ) -> None:
        """Starts each from a linear regression on y and theta about a case, and a residual there.

        Arguments:
            line: Particles on the lines of the charts, (cases, n, D).
            y: Their observations, (cases, D_y).
            theta: Their parameters of f, (cases, D_theta), or None.
            generator: Chooses the particles.
        """
        centre, scale = self.about.double()
        z = (line.double() - centre) / scale
        read = self.conditioner.inputs(y, theta).double()
        read = torch.cat([read, read.new_ones(len(read), 1)], -1)
        rows = torch.randint(len(line), (self.components,), generator=generator)
        some = torch.randint(line.shape[1], (self.components,), generator=generator)
        size = max(math.ceil(NEAR * len(line)), min(2 * read.shape[1], len(line)))
        near = torch.cdist(read[rows], read).topk(size, largest=False).indices  # (k, size)
        x, z = read[near], z[near]
        ridge = RIDGE * x.shape[1] * torch.eye(x.shape[2]).to(x)
        fitted = torch.linalg.solve(x.mT @ x + ridge, x.mT @ z.mean(2))  # (k, read, D)
        residual = z - (x @ fitted)[:, :, None]
        width = residual.square().mean((1, 2)).sqrt().clamp(min=1e-6)
        with torch.no_grad():
            self.slope.copy_(fitted[:, :-1])
            # A case is the nearest to itself.
            self.start.copy_(fitted[:, -1] + residual[:, 0][torch.arange(len(rows)), some])
            self.log_width.copy_(width.log())

    def at(
        self, y: Tensor, theta: Tensor | None, component: TrainableDensity | None = None
    ) -> CentresDensity:
        return CentresDensity(self, y, theta)


class CentresDensity(ConditionalDensity):
    """The centres at given y and theta."""

    def __init__(self, proposal: Centres, y: Tensor, theta: Tensor | None) -> None:
        super().__init__(y.shape[:-1])
        read = flat_cases(y, theta)
        out = proposal.conditioner(*read)
        proposal.refuse_nan(out, proposal.start)
        k, (centre, scale) = proposal.components, proposal.about
        logits, rest = out[:, :k], out[:, k:].unflatten(1, (2, k, -1))
        self._log_weights = logits.log_softmax(-1)  # (cases, k)
        width = scale * proposal.log_width.exp()
        linear = torch.einsum("cr,krd->ckd", proposal.conditioner.inputs(*read), proposal.slope)
        linear = linear + proposal.start
        self._centre = centre + scale * linear + 3 * width * rest[:, 0]  # (cases, k, D)
        self._scale = width * (SPREAD * torch.tanh(rest[:, 1] / SPREAD)).exp()
        self._charts = proposal.charts

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        cases, _, dim = self._centre.shape
        which = torch.multinomial(
            self._log_weights.exp(), n, replacement=True, generator=generator
        )[..., None].expand(-1, -1, dim)
        noise = self._centre.new_empty(cases, n, dim).normal_(generator=generator)
        chi2 = noise.new_empty(cases, n, dim, int(FREEDOM)).normal_(generator=generator)
        t = noise * (chi2.square().mean(-1)).rsqrt()
        line = self._centre.gather(1, which) + self._scale.gather(1, which) * t
        x = self._charts.forward(line, None)[0].reshape(*self.batch_shape, n, dim)
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:])
        line, log_det = self._charts.inverse(x.reshape(-1, *x.shape[-2:]), None)
        t = (line[:, :, None] - self._centre[:, None]) / self._scale[:, None]
        constant = (
            math.lgamma((FREEDOM + 1) / 2)
            - math.lgamma(FREEDOM / 2)
            - math.log(FREEDOM * math.pi) / 2
        )
        log_t = constant - (FREEDOM + 1) / 2 * torch.log1p(t.square() / FREEDOM)
        parts = (log_t - self._scale.log()[:, None]).sum(-1) + self._log_weights[:, None]
        log_q: Tensor = parts.logsumexp(-1) + log_det
        return log_q.reshape(x.shape[:-1])


class Mixed(ConditionalDensity):
    """A mixture of two densities in fixed shares.

    Arguments:
        first: One density.
        second: The other.
        share: The share of the second, strictly between 0 and 1.
    """

    def __init__(self, first: Density, second: Density, share: float) -> None:
        super().__init__(first.batch_shape)  # type: ignore[attr-defined]
        self._parts, self.share = (first, second), share

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """n points, each from the second density with the probability of its share."""
        generator = generator or torch.default_generator
        own = self._parts[0].draw(n, generator)[0]
        second = torch.rand(own.shape[:-1], generator=generator) < self.share
        most = int(second.sum(-1).max()) if second.numel() else 0
        if most:
            other = self._parts[1].draw(most, generator)[0].to(own)
            # The i-th of the places that are the second's takes its i-th point.
            rank = (second.cumsum(-1) - 1).clamp(min=0)[..., None].expand_as(own)
            own = torch.where(second[..., None], other.gather(-2, rank), own)
        return own, self.log_prob(own)

    def log_prob(self, x: Tensor) -> Tensor:
        first, second = (part.log_prob(x) for part in self._parts)
        return log_sum(first + math.log1p(-self.share), second + math.log(self.share))


class Plain(ConditionalDensity):
    """A reference alone.

    Arguments:
        reference: The reference.
    """

    def __init__(self, reference: DefensiveDensity) -> None:
        super().__init__(reference.batch_shape)
        self._reference = reference

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        return self._reference.draw(n, generator)

    def log_prob(self, x: Tensor) -> Tensor:
        return self._reference.log_prob(x).expand(*self.batch_shape, -1)


class Broad(Trainable):
    """The reference of a term: the problem's own, and centres that were found, if any.

    Arguments:
        problem: The problem; for q1_minus the negated one.
        term: `E1_plus` or `E2`.
        found: The centres; None where the problem's own reference is all there is.
    """

    def __init__(self, problem: Problem, term: str, found: Centres | None) -> None:
        super().__init__()
        self.problem, self.term, self.found = problem, term, found

    def initialize(self, generator: torch.Generator) -> None:
        if self.found is not None:
            self.found.initialize(generator)

    def at(
        self, y: Tensor, theta: Tensor | None, component: TrainableDensity | None = None
    ) -> ConditionalDensity:
        own = DefensiveDensity(self.problem, y, theta, [self.term])
        if self.found is None:
            return Plain(own)
        return Mixed(own, self.found.at(y, theta), SHARE_OF_CENTRES)


class Defensive(Trainable):
    """A flow, and for a fixed share a broad reference.

    Arguments:
        own: The flow.
        broad: The reference.
        share: Its share, strictly between 0 and 1.
    """

    share: Tensor

    def __init__(self, own: Trainable, broad: Broad, share: float) -> None:
        super().__init__()
        self.own, self.broad = own, broad
        self.register_buffer("share", torch.tensor(share))

    def initialize(self, generator: torch.Generator) -> None:
        self.own.initialize(generator)
        self.broad.initialize(generator)

    def at(
        self, y: Tensor, theta: Tensor | None, component: TrainableDensity | None = None
    ) -> ConditionalDensity:
        return Mixed(self.own.at(y, theta), self.broad.at(y, theta), float(self.share))


def centres(
    problem: Problem,
    *,
    coordinates: Sequence[Mapping[str, Any]],
    components: int,
    hidden: tuple[int, ...],
    activation: str,
    reads_theta: bool = True,
) -> Centres:
    """Several centres with scales.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: As for `carried_spline`.
        components: Number of centres.
        hidden: Widths of the network's hidden layers.
        activation: The network's activation.
        reads_theta: Whether it reads theta beside y.

    Raises:
        ValueError: components is no whole number from 1 to 1,000; a kind does not carry the line.
    """
    check_count("components", components, low=1, high=1000)
    kinds = [kind_of(problem, **given) for given in coordinates]
    if not all(isinstance(kind, Line) for kind in kinds):
        raise ValueError(f"coordinates: expected kinds that carry the line on, got {coordinates}")
    out = components * (1 + 2 * len(kinds))
    conditioner = Conditioner(
        problem, out=out, hidden=hidden, activation=activation, reads_theta=reads_theta
    )
    about = torch.tensor([[k.centre for k in kinds], [k.scale for k in kinds]])
    made = Centres(conditioner, Charts(kinds), about, components)
    made.initialize(torch.Generator().manual_seed(0))
    return made


def broad_reference(
    problem: Problem, *, term: str, found: Mapping[str, Any] | None = None
) -> Broad:
    """The reference of a term as a proposal, which is there before another one is trained.

    Arguments:
        problem: The problem.
        term: `E1_plus` or `E2`.
        found: The arguments of `centres`; None where the problem's own reference is enough.

    Raises:
        ValueError: see `centres`.
    """
    return Broad(problem, term, None if found is None else centres(problem, **found))


def defensive(
    problem: Problem,
    *,
    own: Mapping[str, Any],
    term: str,
    found: Mapping[str, Any] | None = None,
    share: float = 0.05,
    form: str = "",
) -> Defensive:
    """A flow of any family, defended by the reference of its term.

    Arguments:
        problem: The problem whose x it proposes.
        own: The flow's `family` and its `arguments`.
        term: `E1_plus` or `E2`.
        found: The arguments of `centres`; None where the problem's own reference is enough.
        share: The reference's share of the mixture.
        form: A name for what the flow looks like, for people.

    Raises:
        ValueError: the family is not known, or the share does not lie strictly within 0 and 1/2.
    """
    from amci_core.flows import FAMILIES

    check_number("share", share, "a share within 0 and 1/2", allowed=lambda s: 0 < s <= 0.5)
    if own.get("family") not in FAMILIES:
        raise ValueError(f"own: expected one of {', '.join(FAMILIES)}, got {own.get('family')!r}")
    flow = FAMILIES[own["family"]](problem, **own["arguments"])
    return Defensive(flow, broad_reference(problem, term=term, found=found), share)
