r"""Splines coordinate by coordinate: q(x) = prod_i q_i(x_i | x_<i; y, theta).

Every factor is a spline of the unit interval, carried onto the support of its coordinate, with a
small network of its own, which reads y, theta and the coordinates before. Sampling takes one pass
along the coordinates, and gives the density on the way; the density of given points takes one pass
for all coordinates at once.
"""

from __future__ import annotations

__all__ = ["SplineDensity", "SplineProposal", "autoregressive_spline", "half_line_spline"]

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from amci_core.flows.conditioner import Conditioner, Stacked, flat_cases
from amci_core.flows.density import Trainable, TrainableDensity
from amci_core.flows.spline import Knots, SharedKnots, spline_widths
from amci_core.flows.supports import Kind, half_line, kind_of
from amci_core.models.base import Problem

# Points in a row that go through all layers at once: on a CPU their intermediate values fit its
# caches, on a GPU they fill it.
PIECE = {"cpu": 2048, "cuda": 2**21}


class SplineProposal(Trainable):
    """The product of one-dimensional factors.

    Arguments:
        problem: The problem whose x it proposes.
        kinds: The kinds of its coordinates, first coordinate first.
        bins: Number of bins of each spline.
        networks: The network of each coordinate; whoever makes the proposal registers them, under
            the names of stored weights.
    """

    def __init__(
        self, problem: Problem, kinds: Sequence[Kind], bins: int, networks: Sequence[Conditioner]
    ) -> None:
        super().__init__()
        self.problem, self.kinds, self.bins = problem, list(kinds), bins
        self.networks = list(networks)
        # Coordinates of equal kinds that follow each other, from the second on.
        self.rows: list[tuple[Kind, slice]] = []
        for kind, members in groupby(self.kinds[1:]):
            start = self.rows[-1][1].stop if self.rows else 1
            self.rows.append((kind, slice(start, start + len(list(members)))))
        # Listed once: a query of a few draws would notice.
        self._stackable = [p for network in self.networks[1:] for p in network.parameters()]
        self._kept: tuple[Any, Stacked] | None = None

    def initialize(self, generator: torch.Generator) -> None:
        for network in self.networks:
            network.initialize(generator)

    def at(
        self, y: Tensor, theta: Tensor | None, component: TrainableDensity | None = None
    ) -> SplineDensity:
        return SplineDensity(self, y, theta)

    def equals(self, other: SplineProposal) -> bool:
        """Whether both are the same density: equal kinds and equal, fixed weights."""
        mine, its = self.state_dict(), other.state_dict()
        return (
            self.kinds == other.kinds
            and self.bins == other.bins
            and not any(p.requires_grad for q in (self, other) for p in q.parameters())
            and mine.keys() == its.keys()
            and all(v.dtype == its[k].dtype and torch.equal(v, its[k]) for k, v in mine.items())
        )

    def bound(self, theta: Tensor | None, like: Tensor) -> Tensor | None:
        """What kinds on one side of a bound read of it, (2, D, cases, 1)."""
        if not any(kind.bounded for kind in self.kinds):
            return None
        bound, sign = half_line(self.problem, theta)
        bound = bound.to(like).expand(len(like), len(self.kinds)).T[..., None]
        return torch.stack([bound, bound.nextafter(torch.full_like(bound, sign * torch.inf))])

    def stacked(self) -> Stacked:
        """The networks of all coordinates but the first; kept while no weight changes."""
        weights = self._stackable
        if torch.is_grad_enabled() or any(p.is_inference() for p in weights):
            return self._stack(weights[0])
        state = [(p.data_ptr(), p._version, p.dtype) for p in weights]
        if self._kept is None or self._kept[0] != state:
            with torch.inference_mode(False), torch.no_grad():
                self._kept = state, self._stack(weights[0])
        return self._kept[1]

    def _stack(self, like: Tensor) -> Stacked:
        read = like.new_tensor([(kind.centre, kind.scale) for kind in self.kinds[:-1]])
        stacked = Stacked(self.networks[1:], *read.unbind(-1))
        self.refuse_nan(*stacked.tensors)
        return stacked


class SplineDensity(TrainableDensity):
    """The factors at given y and theta; all that depends on these alone is computed, once.

    Inside, coordinates come first, (D, cases, n).
    """

    def __init__(self, proposal: SplineProposal, y: Tensor, theta: Tensor | None) -> None:
        y_rows, theta_rows = flat_cases(y, theta)
        first = proposal.networks[0]
        inputs = first.inputs(y_rows, theta_rows)
        parameters = first.network(inputs)
        proposal.refuse_nan(parameters)
        super().__init__(y.shape[:-1], dim=len(proposal.kinds), like=parameters)
        self._kinds, self._rows = proposal.kinds, proposal.rows
        self._widths = spline_widths(proposal.bins)
        self._bound = proposal.bound(theta_rows, parameters)
        knots, of_support = self._split(parameters)
        self._knots = SharedKnots(knots)
        self._prepared = self._kinds[0].prepare(of_support[:, None])
        if self.dim > 1:
            self._others = proposal.stacked()
            self._of_cases = self._others.of_cases(inputs)

    def transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        z = z.reshape(self.cases, -1, self.dim)
        x, log_q = zip(*(self._transport(part) for part in self._chunks(z)), strict=True)
        return self._joined(x), self._joined(log_q)

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:]).reshape(self.cases, -1, self.dim)
        return self._joined([self._log_prob(part) for part in self._chunks(x)])

    def _chunks(self, points: Tensor) -> Sequence[Tensor]:
        if self.dim == 1 or torch.is_grad_enabled():
            return [points]
        piece = PIECE.get(points.device.type, PIECE["cuda"])
        return torch.split(points, max(1, piece // self.cases), 1)

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        values = parts[0] if len(parts) == 1 else torch.cat(list(parts), 1)
        return values.reshape(*self.batch_shape, *values.shape[1:])

    def _transport(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x: list[Tensor] = []
        lines: list[Tensor] = []
        log_dets: list[Tensor | None] = []
        knots: Knots | SharedKnots = self._knots
        prepared = self._prepared
        for i, (kind, u) in enumerate(zip(self._kinds, z.unbind(-1), strict=True)):
            if i > 0:
                out = self._others.one(i - 1, self._of_cases, torch.stack(lines, -1))
                knots, of_support = self._split(out)
                prepared = kind.prepare(of_support[..., : kind.width])
            bent, log_bent = knots.forward(u)
            point, line, log_det = kind.draw(bent, prepared, self._bound_of(i))
            x.append(point)
            lines.append(line)
            log_dets += [log_bent, log_det]
        return torch.stack(x, -1), -_total(log_dets)

    def _log_prob(self, x: Tensor) -> Tensor:
        x = x.movedim(-1, 0).contiguous()
        kind = self._kinds[0]
        line, log_chart = kind.chart(x[0], self._bound_of(0))
        u, log_det = kind.cumulative(line, self._prepared)
        log_dets = [log_chart, log_det, self._knots.inverse(u)[1]]
        if self._rows:
            charts = [kind.chart(x[its], self._bound_of(its)) for kind, its in self._rows]
            lines = [line[None], *(line for line, _ in charts)]
            read, place = torch.cat(lines)[:-1].movedim(0, -1), None
            if read.shape[::2] == (1, 1) and not read.requires_grad:
                # The points of a grid share first coordinates; the network reads each once.
                first, place = read[0, :, 0].unique(return_inverse=True)
                read = first[None, :, None]
            out = self._others.all(self._of_cases, read)
            knots, of_support = self._split(out if place is None else out[:, :, place])
            us = []
            for (kind, its), (line, log_chart) in zip(self._rows, charts, strict=True):
                own = of_support[its.start - 1 : its.stop - 1, ..., : kind.width]
                u, log_det = kind.cumulative(line, kind.prepare(own))
                us.append(u)
                log_dets += [log.sum(0) for log in (log_chart, log_det) if log is not None]
            log_dets.append(knots.inverse(torch.cat(us))[1].sum(0))
        return _total(log_dets)

    def _split(self, parameters: Tensor) -> tuple[Knots, Tensor]:
        """The splines, and what the supports read, of parameters (*, P)."""
        rest = parameters.shape[-1] - sum(self._widths)
        *of_spline, of_support = parameters.split([*self._widths, rest], -1)
        return Knots(*of_spline), of_support

    def _bound_of(self, coordinates: int | slice) -> Tensor | None:
        return None if self._bound is None else self._bound[:, coordinates]


def _total(log_dets: Sequence[Tensor | None]) -> Tensor:
    return reduce(torch.add, (log for log in log_dets if log is not None))


def autoregressive_spline(
    problem: Problem,
    *,
    coordinates: Sequence[Mapping[str, Any]],
    bins: int,
    hidden: tuple[int, ...],
    activation: str,
    reads_theta: bool = True,
) -> SplineProposal:
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
    form: dict[str, Any] = {"hidden": hidden, "activation": activation, "reads_theta": reads_theta}
    outs = [sum(spline_widths(bins)) + kind.width for kind in kinds]
    networks = [Conditioner(problem, out=n, preceding=i, **form) for i, n in enumerate(outs)]
    proposal = SplineProposal(problem, kinds, bins, networks)
    proposal.coordinates = nn.ModuleList(
        nn.ModuleDict({"conditioner": network}) for network in networks
    )
    return proposal


def half_line_spline(
    problem: Problem,
    *,
    bins: int,
    hidden: tuple[int, ...],
    activation: str,
    vanishing: bool = False,
) -> SplineProposal:
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
    out = sum(spline_widths(bins)) + kind.width
    conditioner = Conditioner(problem, out=out, hidden=hidden, activation=activation)
    proposal = SplineProposal(problem, [kind], bins, [conditioner])
    proposal.conditioner = conditioner
    return proposal
