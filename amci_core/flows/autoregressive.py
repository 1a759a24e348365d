r"""Splines coordinate by coordinate: q(x) = prod_i q_i(x_i | x_<i; y, theta).

Every factor is a spline of the unit interval, then the bijector to the support of its coordinate,
with a small network of its own, which reads y, theta and the coordinates before. Sampling takes
one pass along the coordinates, and gives the density on the way; the density of given points takes
one pass for all coordinates at once.
"""

from __future__ import annotations

__all__ = ["SplineProposal"]

from functools import reduce
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from amci_core.flows.conditioner import Conditioner, Stacked, flat_cases
from amci_core.flows.density import Trainable, TransformedDensity
from amci_core.flows.spline import Knots, SharedKnots, spline_widths
from amci_core.flows.supports import (
    CoordinateBijector,
    Coordinates,
    Logistic,
    bounds,
    coordinate_bijectors,
)
from amci_core.models.base import Problem


class SplineProposal(Trainable):
    """Creates splines coordinate by coordinate, then the bijector to the support of each.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: For each coordinate its `kind`, see `coordinate_bijectors`, and, where later
            ones read it or the kind needs it, about its `centre` and `scale`.
        bins: Number of bins of each spline.
        network: `hidden`, `activation` and `reads_theta` of the network of each coordinate, see
            `Conditioner`.

    Raises:
        ValueError: a kind is not known, or there are not as many coordinates as x has.

    References:
        Durkan, Bekasov, Murray, Papamakarios, Neural Spline Flows, 2019.
    """

    def __init__(
        self, problem: Problem, *, coordinates: Coordinates, bins: int, **network: Any
    ) -> None:
        super().__init__()
        self.problem, self.bins = problem, bins
        self.bijectors = coordinate_bijectors(problem, coordinates)
        self.networks = nn.ModuleList(
            Conditioner(problem, out=sum(spline_widths(bins)) + b.width, preceding=i, **network)
            for i, b in enumerate(self.bijectors)
        )
        # Coordinates with equal bijectors that follow each other, from the second on.
        self.rows: list[tuple[CoordinateBijector, slice]] = []
        for bijector, members in groupby(self.bijectors[1:]):
            start = self.rows[-1][1].stop if self.rows else 1
            self.rows.append((bijector, slice(start, start + len(list(members)))))

    def initialize(self, generator: torch.Generator) -> None:
        for network in self.networks:
            network.initialize(generator)  # type: ignore[operator]

    @torch.no_grad()
    def start_near(self, x: Tensor, y: Tensor, theta: Tensor | None) -> None:
        """Shifts start from linear regressions on what the networks read, scales from residuals.

        Half-lines, which have no shift, stay as they are.
        """
        networks: Any = self.networks
        read = networks[0].inputs(y, theta)[:, None].expand(-1, x.shape[1], -1)
        bound = bounds(self.problem, self.bijectors, theta, x)
        columns = [torch.ones_like(x[..., :1]), read]
        for i, (bijector, network) in enumerate(zip(self.bijectors, networks, strict=True)):
            z, _ = bijector.unconstrained(x[..., i], None if bound is None else bound[i])
            z = ((z - bijector.centre) / bijector.scale)[..., None]
            if isinstance(bijector, Logistic):
                rows, values = (t.flatten(0, 1).double() for t in (torch.cat(columns, -1), z))
                ridge = 1e-6 * len(rows) * torch.eye(rows.shape[1]).to(rows)
                fitted = torch.linalg.solve(rows.T @ rows + ridge, rows.T @ values)
                deviation = (values - rows @ fitted).square().mean().sqrt()
                shift = sum(spline_widths(self.bins))
                network.start_linear(fitted[1:, 0].to(x), fitted[0].to(x), shift)
                network.linear[-1].bias[shift + 1] = bijector.free_of(deviation)
            columns.append(z)

    def at(self, y: Tensor, theta: Tensor | None) -> SplineDensity:
        return SplineDensity(self, y, theta)

    def stacked(self) -> Stacked:
        """The networks of all coordinates but the first, with the weights of now."""
        like = next(self.parameters())
        read = like.new_tensor([(b.centre, b.scale) for b in self.bijectors[:-1]])
        return Stacked(self.networks[1:], *read.unbind(-1))


class SplineDensity(TransformedDensity):
    """The factors at given y and theta; all that depends on these alone is computed, once.

    Inside, coordinates come first, (D, cases, n).
    """

    def __init__(self, proposal: SplineProposal, y: Tensor, theta: Tensor | None) -> None:
        y_rows, theta_rows = flat_cases(y, theta)
        first: Any = proposal.networks[0]
        inputs = first.inputs(y_rows, theta_rows)
        parameters = first.network(inputs)
        super().__init__(y.shape[:-1], dim=len(proposal.bijectors), like=parameters)
        self._bijectors, self._rows = proposal.bijectors, proposal.rows
        self._widths = spline_widths(proposal.bins)
        self._bounds = bounds(proposal.problem, proposal.bijectors, theta_rows, parameters)
        knots, of_support = self._split(parameters)
        self._knots = SharedKnots(knots)
        self._prepared = self._bijectors[0].prepare(of_support[:, None])
        if self.dim > 1:
            self.network_rows = 1, self.dim - 1
            self._others = proposal.stacked()
            self._of_cases = self._others.of_cases(inputs)

    def _forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x: list[Tensor] = []
        zs: list[Tensor] = []
        log_dets: list[Tensor] = []
        knots: Knots | SharedKnots = self._knots
        prepared = self._prepared
        for i, (bijector, u) in enumerate(zip(self._bijectors, z.unbind(-1), strict=True)):
            if i > 0:
                out = self._others.one(i - 1, self._of_cases, torch.stack(zs, -1))
                knots, of_support = self._split(out)
                prepared = bijector.prepare(of_support[..., : bijector.width])
            bent, log_bent = knots.forward(u)
            z_i, log_quantile = bijector.quantile(bent, prepared)
            x_i, log_det = bijector.constrained(z_i, self._bound_of(i))
            x.append(x_i)
            zs.append(z_i)
            log_dets += [log_bent, log_quantile, log_det]
        return torch.stack(x, -1), -reduce(torch.add, log_dets)

    def _log_prob(self, x: Tensor) -> Tensor:
        x = x.movedim(-1, 0).contiguous()
        bijector = self._bijectors[0]
        z, log_free = bijector.unconstrained(x[0], self._bound_of(0))
        u, log_det = bijector.cumulative(z, self._prepared)
        log_dets = [log_free, log_det, self._knots.inverse(u)[1]]
        if self._rows:
            free = [b.unconstrained(x[its], self._bound_of(its)) for b, its in self._rows]
            zs = [z[None], *(z for z, _ in free)]
            out = self._others.all(self._of_cases, torch.cat(zs)[:-1].movedim(0, -1))
            knots, of_support = self._split(out)
            us = []
            for (bijector, its), (z, log_free) in zip(self._rows, free, strict=True):
                own = of_support[its.start - 1 : its.stop - 1, ..., : bijector.width]
                u, log_det = bijector.cumulative(z, bijector.prepare(own))
                us.append(u)
                log_dets += [log_free.sum(0), log_det.sum(0)]
            log_dets.append(knots.inverse(torch.cat(us))[1].sum(0))
        return reduce(torch.add, log_dets)

    def _split(self, parameters: Tensor) -> tuple[Knots, Tensor]:
        """The splines, and what the supports read, of parameters (*, P)."""
        rest = parameters.shape[-1] - sum(self._widths)
        *of_spline, of_support = parameters.split([*self._widths, rest], -1)
        return Knots(*of_spline), of_support

    def _bound_of(self, coordinates: int | slice) -> Tensor | None:
        return None if self._bounds is None else self._bounds[coordinates]
