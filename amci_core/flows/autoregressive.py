r"""Splines coordinate by coordinate: q(x) = prod_i q_i(x_i | x_<i; y, theta).

Every factor is a spline of the unit interval, carried onto the support of its coordinate, with a
small network of its own, which reads y, theta and the coordinates before. Sampling takes one pass
along the coordinates, and gives the density on the way; the density of given points takes one pass
for all coordinates at once.
"""

from __future__ import annotations

__all__ = ["Autoregressive", "HalfLineSpline", "autoregressive_spline", "half_line_spline"]

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from amci_core.flows.conditioner import Conditioner, Stacked, flat_cases
from amci_core.flows.density import Trainable, TrainableDensity
from amci_core.flows.spline import Bins, OwnKnots, Spline, spline_width
from amci_core.flows.supports import Bound, Kind, half_line, kind_of
from amci_core.models.base import Problem

# Points in a row that go through all layers at once: their intermediate values fit the cache.
CHUNK = 2048


class SplineProposal(Trainable):
    """The product of one-dimensional factors.

    Arguments:
        problem: The problem whose x it proposes.
        kinds: The kinds of its coordinates, first coordinate first.
        bins: Number of bins of each spline.
    """

    def __init__(self, problem: Problem, kinds: Sequence[Kind], bins: int) -> None:
        super().__init__()
        self.problem, self.kinds, self.bins = problem, list(kinds), bins
        self.bounded = any(kind.bounded for kind in kinds)
        # Coordinates of equal kinds that follow each other.
        self.rows: list[tuple[Kind, slice]] = []
        for kind, members in groupby(self.kinds):
            start = self.rows[-1][1].stop if self.rows else 0
            self.rows.append((kind, slice(start, start + len(list(members)))))

    @property
    def networks(self) -> list[Conditioner]:
        """The network of each coordinate, first coordinate first."""
        raise NotImplementedError

    def initialize(self, generator: torch.Generator) -> None:
        for network in self.networks:
            network.initialize(generator)

    def at(
        self, y: Tensor, theta: Tensor | None, component: TrainableDensity | None = None
    ) -> SplineDensity:
        return SplineDensity(self, y, theta)


class Autoregressive(SplineProposal):
    """Splines coordinate by coordinate, with the network of each."""

    def __init__(
        self, problem: Problem, kinds: Sequence[Kind], bins: int, networks: Sequence[Conditioner]
    ) -> None:
        super().__init__(problem, kinds, bins)
        self.coordinates = nn.ModuleList(
            nn.ModuleDict({"conditioner": network}) for network in networks
        )
        self._networks = list(networks)

    @property
    def networks(self) -> list[Conditioner]:
        return self._networks

    def equals(self, other: Autoregressive) -> bool:
        """Whether both are the same density: equal kinds and equal, fixed weights."""
        mine, its = self.state_dict(), other.state_dict()
        return (
            self.kinds == other.kinds
            and self.bins == other.bins
            and not any(p.requires_grad for q in (self, other) for p in q.parameters())
            and mine.keys() == its.keys()
            and all(v.dtype == its[k].dtype and torch.equal(v, its[k]) for k, v in mine.items())
        )


class HalfLineSpline(SplineProposal):
    """One spline on a half-line, with its network."""

    def __init__(self, problem: Problem, kind: Kind, bins: int, conditioner: Conditioner) -> None:
        super().__init__(problem, [kind], bins)
        self.conditioner = conditioner

    @property
    def networks(self) -> list[Conditioner]:
        return [self.conditioner]


class SplineDensity(TrainableDensity):
    """The factors at given y and theta; all that depends on these alone is computed, once.

    Inside, the density of given points has coordinates first, (D, cases, n).
    """

    def __init__(self, proposal: SplineProposal, y: Tensor, theta: Tensor | None) -> None:
        y_rows, theta_rows = flat_cases(y, theta)
        first, *others = proposal.networks
        inputs = first.inputs(y_rows, theta_rows)
        parameters = first.network(inputs)
        super().__init__(y.shape[:-1], dim=len(proposal.kinds), like=parameters)
        self._kinds, self._rows = proposal.kinds, proposal.rows
        kinds = proposal.kinds
        self._bound: Bound | None = None
        if proposal.bounded:
            bound, sign = half_line(proposal.problem, theta_rows)
            bound = bound.to(parameters).expand(self.cases, self.dim).T[..., None]
            self._bound = Bound.of(bound, sign)
        self._spline = Spline(proposal.bins, parameters)
        of_spline, of_support = parameters.split([self._spline.width, kinds[0].width], -1)
        self._knots = self._spline.knots(of_spline)
        # Of the first coordinate, the same at all points: (cases, 1, width).
        self._of_support = of_support[:, None]
        self._prepared = kinds[0].prepare(self._of_support)
        self._others = None
        if others:
            width, widest = self._spline.width, max(kind.width for kind in kinds[1:])
            order = [*self._spline.padding, *range(width, width + widest)]
            self._others = Stacked(others, inputs, order)
            self._centre, self._scale = parameters.new_tensor(
                [(kind.centre, kind.scale) for kind in kinds[:-1]]
            ).unbind(-1)
        proposal.refuse_nan(parameters, *(self._others.tensors if self._others else []))

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        z = z.reshape(self.cases, -1, self.dim)
        x, log_q = zip(*(self._transport(part) for part in self._chunks(z)), strict=True)
        return self._joined(x), self._joined(log_q)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:]).reshape(self.cases, -1, self.dim)
        return self._joined([self._log_prob(part) for part in self._chunks(x)])

    def _chunks(self, points: Tensor) -> Sequence[Tensor]:
        if self._others is None or torch.is_grad_enabled():
            return [points]
        return list(points.split(max(1, CHUNK // self.cases), 1))

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        values = parts[0] if len(parts) == 1 else torch.cat(list(parts), 1)
        return values.reshape(*self.batch_shape, *values.shape[1:])

    def _transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        log_q = z.new_zeros(())
        x: list[Tensor] = []
        features: list[Tensor] = []
        for i, (kind, u) in enumerate(zip(self._kinds, z.unbind(-1), strict=True)):
            if i == 0 or self._others is None:
                fields, prepared = self._knots.bins(u, inverse=False), self._prepared
            else:
                knots, of_support = self._split(self._others.one(i - 1, torch.stack(features, -1)))
                fields = knots.bins(u, inverse=False)
                prepared = kind.prepare(of_support[..., : kind.width])
            bent, log_bent = Bins(*fields).forward(u)
            line, log_line = kind.quantile(bent, prepared)
            point, log_point = kind.point(line, self._bound_of(i))
            log_q = log_q - (log_bent + log_line + log_point)
            x.append(point)
            if i + 1 < self.dim:
                features.append((line - kind.centre) / kind.scale)
        return torch.stack(x, -1), log_q

    def _log_prob(self, x: Tensor) -> Tensor:
        x = x.movedim(-1, 0)
        lines, log_q = [], torch.zeros_like(x[0])
        for kind, members in self._rows:
            line, log_det = kind.chart(x[members], self._bound_of(members))
            lines.append(line)
            log_q = log_q + log_det.expand_as(line).sum(0)
        line = _together(lines)
        of_others = None
        if self._others is not None:
            features = (line[:-1].movedim(0, -1) - self._centre) / self._scale
            knots, of_others = self._split(self._others(features))
        us = []
        for kind, members in self._rows:
            prepared = self._prepared_of(kind, members, of_others)
            u, log_det = kind.cumulative(line[members], prepared)
            us.append(u)
            log_q = log_q + log_det.expand_as(u).sum(0)
        u = _together(us)
        fields = self._knots.bins(u[0], inverse=True)[:, None]
        if of_others is not None:
            fields = torch.cat([fields, knots.bins(u[1:], inverse=True)], 1)
        _, log_det = Bins(*fields).inverse(u)
        return log_q + log_det.sum(0)

    def _split(self, outputs: Tensor) -> tuple[OwnKnots, Tensor]:
        """The knots and the support's parameters out of outputs (*, P) of other networks."""
        start = len(self._spline.padding)
        edges = self._spline.edges(outputs[..., :start])
        return OwnKnots(*edges), outputs[..., start:]

    def _prepared_of(self, kind: Kind, members: slice, of_others: Tensor | None) -> Any:
        """What a kind needs of the parameters of a row of coordinates."""
        if members.stop == 1 or of_others is None:
            return self._prepared
        own = of_others[max(members.start - 1, 0) : members.stop - 1, ..., : kind.width]
        if members.start == 0:
            first = self._of_support.expand(own.shape[1:])
            own = torch.cat([first[None], own])
        return kind.prepare(own)

    def _bound_of(self, coordinates: Any) -> Bound | None:
        return None if self._bound is None else self._bound(coordinates)


def _together(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def autoregressive_spline(
    problem: Problem,
    *,
    coordinates: Sequence[Mapping[str, Any]],
    bins: int,
    hidden: tuple[int, ...],
    activation: str,
    reads_theta: bool = True,
) -> Autoregressive:
    """Splines coordinate by coordinate, each carried onto the support of its coordinate.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: For each coordinate its `kind`, and where later ones read it or the kind
            needs it, about its `centre` and `scale`: `half-line` (the side of a bound on which
            f_plus lives), `unit` (the unit interval as it is), `line`, `positive` and
            `probability` (the line, carried on by exp or by the logistic function), or one of the
            problem's own coordinates.
        bins: Number of bins of each spline.
        hidden: Widths of the hidden layers of each network.
        activation: The networks' activation.
        reads_theta: Whether they read theta beside y.

    Raises:
        ValueError: a kind is not known, or there are not as many coordinates as x has.
    """
    if len(coordinates) != problem.x.dim:
        raise ValueError(
            f"coordinates: expected {problem.x.dim} for {problem.name}, got {len(coordinates)}"
        )
    kinds = [kind_of(problem, **given) for given in coordinates]
    networks = [
        Conditioner(
            y=problem.y,
            theta=problem.theta if reads_theta else None,
            preceding=i,
            out=spline_width(bins) + kind.width,
            hidden=hidden,
            activation=activation,
        )
        for i, kind in enumerate(kinds)
    ]
    return Autoregressive(problem, kinds, bins, networks)


def half_line_spline(
    problem: Problem,
    *,
    bins: int,
    hidden: tuple[int, ...],
    activation: str,
    vanishing: bool = False,
) -> HalfLineSpline:
    """The default family for q1 on a half-line: a spline carried onto x > theta or x < theta.

    Arguments:
        problem: A problem with one-dimensional x, whose f_plus vanishes on one side of a bound.
        bins: Number of bins of the spline.
        hidden: Widths of the conditioner's hidden layers.
        activation: The conditioner's activation.
        vanishing: Whether f_plus falls to zero linearly at the bound, instead of jumping there.

    Raises:
        ValueError: f_plus vanishes elsewhere.
    """
    kind = kind_of(problem, "soft-half-line" if vanishing else "half-line")
    conditioner = Conditioner(
        y=problem.y,
        theta=problem.theta,
        out=spline_width(bins) + kind.width,
        hidden=hidden,
        activation=activation,
    )
    return HalfLineSpline(problem, kind, bins, conditioner)
