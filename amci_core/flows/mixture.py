r"""Defensive mixtures: q = (1 - w) flow + w defensive, of any two proposals.

The defensive component bounds the weights. It is the problem's defensive density where f or the
likelihood may have tails that no flow was trained on: weights bounded under it are bounded under
q. It is q2 where f has a floor: then f p(x, y) is a little of p(x, y) and a part of its own, two
islands, of which one spline covers the first badly. The problem's defensive density is itself
mixed with Student-t components, whose centres a network predicts from y and theta, if the
posterior lies far out in the prior.

References:
    Hesterberg, Weighted average importance sampling and defensive mixture distributions, 1995.
    Bishop, Mixture density networks, 1994.
"""

from __future__ import annotations

__all__ = ["Centres", "DefensiveComponent", "Mixture", "MixtureDensity"]

import math
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from amci_core.flows.autoregressive import SplineProposal
from amci_core.flows.conditioner import Conditioner, flat_cases
from amci_core.flows.density import ConditionalDensity, Trainable, TransformedDensity
from amci_core.flows.layers import ToSupport
from amci_core.flows.supports import Coordinates, coordinate_bijectors
from amci_core.models.base import Problem
from amci_core.models.densities import DefensiveDensity
from amci_core.models.student_mixture import StudentMixture

# A predicted weight starts from about these log-odds, a weight of two in a hundred.
LOG_ODDS_AT_START, LOG_ODDS_SCALE = -4.0, 8.0


class MixtureDensity(ConditionalDensity):
    """(1 - w) flow + w defensive at given y and theta.

    Arguments:
        flow: One density.
        defensive: The defensive component.
        log_odds: log w / (1 - w), (*, 1), or a number.
    """

    def __init__(self, flow: Any, defensive: Any, log_odds: Tensor | float) -> None:
        self.batch_shape = flow.batch_shape
        self.flow, self.defensive = flow, defensive
        self.takes_uniform = getattr(flow, "takes_uniform", False)
        if isinstance(log_odds, float):
            log_odds = torch.tensor(log_odds, dtype=torch.float64)
        self._weight = log_odds.sigmoid()
        self._log_weights = logsigmoid(-log_odds), logsigmoid(log_odds)

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        x, log_flow, log_defensive = self.draw_apart(n, generator)
        return x, self.mixed(log_flow, log_defensive)

    def draw_from_uniform(
        self, u: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        n = len(u) // math.prod(self.batch_shape)
        x, log_flow, log_defensive = self.draw_apart(n, generator, u)
        return x, self.mixed(log_flow, log_defensive)

    def log_prob(self, x: Tensor) -> Tensor:
        return self.mixed(self.flow.log_prob(x), self.defensive.log_prob(x))

    def mixed(self, log_flow: Tensor, log_defensive: Tensor) -> Tensor:
        """The log density of the mixture, by those of its parts."""
        log_rest, log_weight = self._log_weights
        first, second = log_flow + log_rest, log_defensive + log_weight
        # The gradient of torch.logaddexp is NaN where both are -inf; here it is zero.
        least = torch.finfo(first.dtype).min
        log_q = torch.logaddexp(first.clamp(min=least), second.clamp(min=least))
        return log_q.masked_fill(log_q == least, -math.inf)

    def draw_apart(
        self, n: int, generator: torch.Generator | None = None, uniform: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """n points, and their log density under the flow and under the defensive component.

        Of uniform points of (0, 1]^D, (cases * n, D), the first coordinate chooses the component,
        and is then stretched to (0, 1] again. A defensive component without base samples draws
        points of its own.
        """
        weight, u = self._weight, None
        if uniform is None:
            x, log_flow = self.flow.draw(n, generator)
            chosen = torch.rand(log_flow.shape, device=x.device, generator=generator) < weight
        else:
            u = uniform.reshape(*self.batch_shape, n, -1)
            chosen = u[..., 0] <= weight
            first = ((u[..., 0] - weight) / (1 - weight)).where(~chosen, 1.0)
            x, log_flow = self.flow.draw_from_uniform(_stretched(u, first))
        most = int(chosen.sum(-1).max())
        if most:
            if u is None or not isinstance(self.defensive, TransformedDensity):
                points = self.defensive.draw(most, generator)[0].to(x)
            else:
                # As many points of every case; those beyond its places are not used.
                rows = chosen.byte().argsort(dim=-1, descending=True, stable=True)[..., :most]
                u = gathered(u, rows)
                u = _stretched(u, (u[..., 0] / weight).clamp(max=1))
                points = self.defensive.draw_from_uniform(u, generator)[0].to(x)
            # The i-th place of the defensive component gets the i-th of its points.
            place = (chosen.cumsum(-1) - 1).clamp(min=0)
            x = torch.where(chosen[..., None], gathered(points, place), x)
            log_flow = torch.where(chosen, self.flow.log_prob(points).gather(-1, place), log_flow)
        return x, log_flow, self.defensive.log_prob(x)


class TransformedMixture(MixtureDensity, TransformedDensity):
    """A mixture of two transformed densities, a transform of base samples itself.

    Stratified base samples are strata of the mixture.
    """

    def __init__(self, flow: Any, defensive: Any, log_odds: Tensor | float) -> None:
        TransformedDensity.__init__(self, flow.batch_shape, dim=flow.dim, like=flow.like)
        MixtureDensity.__init__(self, flow, defensive, log_odds)

    def draw_apart(
        self, n: int, generator: torch.Generator | None = None, uniform: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        base = self.base_samples(n, generator) if uniform is None else uniform
        return super().draw_apart(n, generator, base)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self.draw_from_uniform(z)


def gathered(points: Tensor, rows: Tensor) -> Tensor:
    """The points (*, m, D) in rows (*, n): (*, n, D)."""
    return points.gather(-2, rows[..., None].expand(*rows.shape, points.shape[-1]))


def _stretched(u: Tensor, first: Tensor) -> Tensor:
    """Rows of points (*, n, D) of (0, 1]^D with another first coordinate (*, n)."""
    first = first.clamp(torch.finfo(first.dtype).tiny, 1)  # rounding may take it to zero
    return torch.cat([first[..., None], u[..., 1:]], -1).flatten(0, -2)


class Mixture(Trainable):
    """(1 - w) flow + w defensive: the one mixture of proposals.

    Arguments:
        flow: What is trained.
        defensive: The defensive component, whose weights stay as they are.
        weight: Its weight w, or a network that predicts the log-odds of w from y and theta.
    """

    def __init__(self, flow: Trainable, defensive: Trainable, weight: float | Conditioner) -> None:
        super().__init__()
        self.flow, self.defensive = flow, defensive.requires_grad_(False)
        self.weight = weight

    def initialize(self, generator: torch.Generator) -> None:
        self.flow.initialize(generator)
        if isinstance(self.weight, Conditioner):
            self.weight.initialize(generator)

    def at(
        self, y: Tensor, theta: Tensor | None, defensive: ConditionalDensity | None = None
    ) -> MixtureDensity:
        """The density at y (*, D_y) and theta (*, D_theta), its defensive component if known."""
        if isinstance(self.weight, float):
            log_odds: Any = math.log(self.weight / (1 - self.weight))
        else:
            free: Tensor = self.weight(*flat_cases(y, theta)).reshape(*y.shape[:-1], 1)
            log_odds = LOG_ODDS_AT_START + LOG_ODDS_SCALE * free
        parts = self.flow.at(y, theta), defensive or self.defensive.at(y, theta)
        transformed = all(isinstance(part, TransformedDensity) for part in parts)
        return (TransformedMixture if transformed else MixtureDensity)(*parts, log_odds)


class DefensiveComponent(Trainable):
    """The problem's own defensive density of a term, as a proposal; it has no weights.

    Arguments:
        problem: The problem; for q1_minus the negated one.
        term: `E1_plus` or `E2`.
    """

    def __init__(self, problem: Problem, term: str) -> None:
        super().__init__()
        self.problem, self.term = problem, term

    def initialize(self, generator: torch.Generator) -> None:
        pass

    def at(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        return cast(ConditionalDensity, DefensiveDensity(self.problem, y, theta, [self.term]))


class Centres(Trainable):
    """A mixture of products of Student's t, whose weights, centres and scales a network predicts.

    The network bends linear maps, one a centre, in units of the residual of these maps: if y
    determines nearly all of x, no network would be as exact.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: For each coordinate of x its `kind`, `centre` and `scale`, see
            `coordinate_bijectors`.
        components: Number of components.
        network: `hidden`, `activation` and `reads_theta` of the network, see `Conditioner`.
    """

    about: Tensor

    def __init__(
        self,
        problem: Problem,
        *,
        coordinates: Coordinates,
        components: int,
        **network: Any,
    ) -> None:
        super().__init__()
        bijectors = coordinate_bijectors(problem, coordinates)
        self.to_support, self.components, dim = ToSupport(bijectors), components, len(bijectors)
        self.conditioner = Conditioner(problem, out=components * (1 + 2 * dim), **network)
        # Centre and scale of coordinates in unconstrained space.
        about = torch.tensor([[b.centre for b in bijectors], [b.scale for b in bijectors]])
        self.register_buffer("about", about)
        # Where the centres start from: the network's last layer starts near zero.
        self.start = nn.Parameter(torch.zeros(components, dim))
        self.log_width = nn.Parameter(torch.zeros(components, dim))
        read = len(self.conditioner.centre) or 1
        self.slope = nn.Parameter(torch.zeros(components, read, dim))
        self.initialize(torch.Generator().manual_seed(0))

    def initialize(self, generator: torch.Generator) -> None:
        self.conditioner.initialize(generator)
        with torch.no_grad():
            self.start.normal_(generator=generator)

    def start_from(
        self, particles: Tensor, y: Tensor, theta: Tensor | None, generator: torch.Generator
    ) -> None:
        """Starts each from a linear regression on y and theta about a case, and a residual there.

        Arguments:
            particles: Particles in unconstrained space, (cases, n, D).
            y: Their observations, (cases, D_y).
            theta: Their parameters of f, (cases, D_theta), or None.
            generator: Chooses the particles.
        """
        centre, scale = self.about.double()
        z = (particles.double() - centre) / scale
        read = self.conditioner.inputs(y, theta).double()
        read = torch.cat([read, read.new_ones(len(read), 1)], -1)
        rows = torch.randint(len(z), (self.components,), generator=generator)
        some = torch.randint(z.shape[1], (self.components,), generator=generator)
        # The nearest tenth of the cases.
        size = max(math.ceil(0.1 * len(z)), min(2 * read.shape[1], len(z)))
        near = torch.cdist(read[rows], read).topk(size, largest=False).indices  # (k, size)
        x, z = read[near], z[near]
        ridge = 1e-6 * x.shape[1] * torch.eye(x.shape[2]).to(x)
        fitted = torch.linalg.solve(x.mT @ x + ridge, x.mT @ z.mean(2))  # (k, read, D)
        residual = z - (x @ fitted)[:, :, None]
        width = residual.square().mean((1, 2)).sqrt().clamp(min=1e-6)
        with torch.no_grad():
            self.slope.copy_(fitted[:, :-1])
            # A case is the nearest to itself.
            self.start.copy_(fitted[:, -1] + residual[:, 0][torch.arange(len(rows)), some])
            self.log_width.copy_(width.log())

    def at(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        return CentresDensity(self, y, theta)


class CentresDensity(ConditionalDensity):
    """The Student-t components at given y and theta."""

    FREEDOM = 5

    def __init__(self, proposal: Centres, y: Tensor, theta: Tensor | None) -> None:
        super().__init__(y.shape[:-1])
        read = flat_cases(y, theta)
        out = proposal.conditioner(*read)
        k, (centre, scale) = proposal.components, proposal.about
        logits, rest = out[:, :k], out[:, k:].unflatten(1, (2, k, -1))
        width = scale * proposal.log_width.exp()
        linear = torch.einsum("cr,krd->ckd", proposal.conditioner.inputs(*read), proposal.slope)
        centres = centre + scale * (linear + proposal.start) + 3 * width * rest[:, 0]
        # The logarithm of a scale is limited to +- 6, softly.
        scales = width * (6 * torch.tanh(rest[:, 1] / 6)).exp()
        freedom = out.new_full((k,), self.FREEDOM)
        self._mixture = StudentMixture(logits.log_softmax(-1), centres, scales, freedom)
        self._to_support = proposal.to_support

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        weights, centres = self._mixture.log_weights.exp(), self._mixture.centres
        which = torch.multinomial(weights, n, replacement=True, generator=generator)
        noise = centres.new_empty(len(which), n, centres.shape[-1]).normal_(generator=generator)
        chi2 = noise.new_empty(*noise.shape, self.FREEDOM).normal_(generator=generator)
        t = noise * chi2.square().mean(-1).rsqrt()
        in_each = self._mixture.place(t[:, None])
        z = in_each.gather(1, which[:, None, :, None].expand_as(t[:, None]))[:, 0]
        x = self.by_batch(self._to_support.forward(z)[0])
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        z, log_det = self._to_support.inverse(self.by_case(x))
        return self.by_batch(self._mixture.log_prob(z) + log_det)


def defensive_spline(
    problem: Problem,
    *,
    coordinates: Coordinates,
    defensive: Mapping[str, Any],
    bins: int,
    **network: Any,
) -> Mixture:
    """Splines coordinate by coordinate, with q2 as the defensive component.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: For each coordinate of x its `kind`, `centre` and `scale`, see
            `coordinate_bijectors`.
        defensive: q2's own arguments, a `SplineProposal` too; training copies its weights.
        bins: Number of bins of each spline.
        network: `hidden`, `activation` and `reads_theta` of the networks, see `Conditioner`.
    """
    flow = SplineProposal(problem, coordinates=coordinates, bins=bins, **network)
    q2 = SplineProposal(problem, **defensive)
    return Mixture(flow, q2, Conditioner(problem, out=1, **network))
